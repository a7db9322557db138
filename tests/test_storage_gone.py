"""Tensors whose storage was freed, as FSDP does: reading one would kill the process.

PyTorch does not check the size of a storage. Each case runs in a separate process.
"""

import json
from typing import Any

import pytest
import torch

from leafgrad import higher_order_grad, trace_graph
from tests.apart import RunApart
from tests.messages import message
from tests.processes import needs_fork
from tests.turns import value_turns

NOTHING = "not read: its storage holds nothing"
DOORS: dict[str, tuple[str, str]] = {
    "a trace with values": ("print(trace_graph(y, values=True).leaves[0].values[0])", NOTHING),
    "an output": (
        (
            "h = torch.ones(4, 4, requires_grad=True) * 2; gone(h)\n"
            "print(trace_graph(h, values=True).nodes[0].values[0])"
        ),
        NOTHING,
    ),
    "a part of the memory": (
        (
            "v = torch.ones(9, requires_grad=True); z = v.sum()\n"
            "v.untyped_storage().resize_(8)\n"
            "print(trace_graph(z, values=True).leaves[0].values[0])"
        ),
        "not read: its storage holds too little",
    ),
    "the steps": (
        (
            "v = torch.ones(3, requires_grad=True); z = v.sum(); gone(v)\n"
            "print(trace_graph(z, values=True, gradients=True).steps().steps[0].sentence)"
        ),
        f"Forward: node 1 (a leaf) is {NOTHING}.",
    ),
    "the picture": (f"print({NOTHING!r} in trace_graph(y, values=True).to_svg())", "True"),
    "a recording": (
        (
            "with record(values=True) as seen:\n"
            "    v = torch.ones(9, requires_grad=True); h = v * 1; gone(h); z = h.reshape(3, 3)\n"
            "trace = trace_graph(z, recording=seen, values=True)\n"
            "print([str(node.values[0])[:8] for node in trace.nodes])"
        ),
        "['not read', 'mean 1, ', 'mean 1, ']",
    ),
    "gradients": (
        "trace_graph(y, gradients=True)",
        "RuntimeError: "
        + message(
            "errors.grad-outputs.saved-memory",
            node="MulBackward0",
            name="other",
            lack=message("unread.empty"),
        ),
    ),
    "a description": ("print(describe_tensor(w).shape)", "(4, 4)"),
}
SCRIPT = """
import json, os, io, contextlib, torch
from leafgrad import *
def gone(tensor):
    tensor.untyped_storage().resize_(0)
for code in CODES:
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        w = torch.ones(4, 4, requires_grad=True); y = (w * w).sum(); gone(w)
        told = io.StringIO()
        try:
            with contextlib.redirect_stdout(told):
                exec(code)
        except Exception as error:
            told.write(f"{type(error).__name__}: {error}")
        os.write(writing, told.getvalue().strip().encode())
        os._exit(0)
    os.close(writing)
    status = os.waitpid(child, 0)[1]
    told = os.fdopen(reading).read()
    print(json.dumps(f"died of signal {status}" if status else told))
"""


@pytest.fixture(scope="module")
def told(run_apart: RunApart) -> dict[str, str]:
    """Return the output of each case, or the signal that killed its process."""
    codes = [code for code, _ in DOORS.values()]
    run = run_apart(SCRIPT.replace("CODES", repr(codes)))
    return dict(zip(DOORS, map(json.loads, run.stdout.splitlines()), strict=True))


@needs_fork
@pytest.mark.parametrize("door", DOORS)
def test_functions_do_not_read_freed_memory(door: str, told: dict[str, str]) -> None:
    assert told[door] == DOORS[door][1]


def emptied() -> tuple[torch.Tensor, torch.Tensor]:
    w = torch.ones(4, 4, requires_grad=True)
    y = (w * w).sum()
    w.untyped_storage().resize_(0)
    return w, y


def constant() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    x, c = torch.ones(9, requires_grad=True), torch.ones(9)
    return x, c, x * x * c


def test_freed_grad_outputs_are_refused() -> None:
    one = torch.ones(9)
    y = torch.ones(9, requires_grad=True) * 2
    one.untyped_storage().resize_(0)
    with pytest.raises(ValueError, match=r"^grad_outputs must hold data, but its storage "):
        trace_graph(y, gradients=True, grad_outputs=one)


def test_derivative_raises_before_it_reads_missing_memory() -> None:
    x, c, z = constant()
    c.untyped_storage().resize_(0)
    with pytest.raises(RuntimeError, match=r"^what MulBackward0 saved as 'other' must hold data, "):
        higher_order_grad(z, x, 2)
    x, _, z = constant()
    x.untyped_storage().resize_(0)
    with pytest.raises(RuntimeError, match=r"^inputs must hold data, but its storage holds nothi"):
        higher_order_grad(z, x, 2)


def test_tensor_is_read_again_after_its_storage_is_restored() -> None:
    w, y = emptied()
    w.untyped_storage().resize_(64)
    with torch.no_grad():
        w.fill_(2.0)
    (value,) = trace_graph(y, values=True).leaves[0].values
    assert value is not None
    assert (value.mean, value.unread) == (2.0, None)


def test_value_that_was_not_read_is_not_reported_as_finite_or_nonfinite() -> None:
    _, y = emptied()
    trace = trace_graph(y, values=True)
    assert value_turns(trace) == []
    assert "finite" not in str(trace)
    (value,) = trace.leaves[0].values
    assert value is not None
    assert not value.is_finite
    assert value.not_finite is None


def jagged() -> torch.Tensor:
    parts = [torch.ones(2), torch.ones(3)]
    return torch.nested.nested_tensor(parts, layout=torch.jagged, requires_grad=True)


OTHERS: dict[str, tuple[Any, str]] = {
    "sparse": (lambda: torch.eye(3).to_sparse().requires_grad_(), "it is sparse_coo"),
    "jagged": (jagged, "it is a NestedTensor"),
}


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize(("made", "why"), OTHERS.values(), ids=OTHERS)
def test_unread_value_shows_why_it_was_not_read(made: Any, why: str) -> None:
    (value,) = trace_graph(made() * 2, values=True).leaves[0].values
    assert str(value) == f"not read: {why}"
