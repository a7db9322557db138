"""Tensors whose memory was let go of, as FSDP does: nothing reads it, which would kill the process.

PyTorch itself does not check that a storage holds what a tensor shows. Each door of the library is
opened in a process of its own.
"""

import json
from typing import Any

import pytest
import torch

from leafgrad import GraphTrace, describe_tensor, higher_order_grad, trace_graph
from tests.apart import RunApart
from tests.processes import needs_fork
from tests.turns import gradient_turns, value_turns

NOTHING = "not read: its storage holds nothing"
GIVE_BACK = (
    "but its storage holds nothing: give it back its memory, which untyped_storage().resize_() took"
)
DOORS: dict[str, tuple[str, str]] = {
    "a trace with values": ("print(trace_graph(y, values=True).leaves[0].values[0])", NOTHING),
    "few numbers": (
        (
            "v = torch.ones(2, requires_grad=True); z = v * v; gone(v)\n"
            "print(trace_graph(z, values=True).leaves[0].values[0])"
        ),
        NOTHING,
    ),
    "a named result": (
        (
            "v = torch.ones(4, 4, requires_grad=True); h = v * 2; z = h.sum(); gone(h)\n"
            "print(trace_graph(z, names={'h': h}, values=True).nodes[1].values[0])"
        ),
        NOTHING,
    ),
    "an output": (
        (
            "h = torch.ones(4, 4, requires_grad=True) * 2; gone(h)\n"
            "print(trace_graph(h, values=True).nodes[0].values[0])"
        ),
        NOTHING,
    ),
    "what a node saved": (
        (
            "v = torch.ones(4, 4, requires_grad=True); h = v.exp(); z = h.sum(); gone(h); del h\n"
            "print(trace_graph(z, values=True).nodes[1].values[0])"
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
    "a view into the rest": (
        (
            "v = torch.ones(99).requires_grad_(); h = v[90:]; v.untyped_storage().resize_(40)\n"
            "print(trace_graph(h, values=True).nodes[0].values[0])"
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
    "the text": ("print(str(trace_graph(y, values=True)).splitlines()[-1][-35:])", NOTHING),
    "the page": (f"print({NOTHING!r} in trace_graph(y, values=True).to_html())", "True"),
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
        (
            "RuntimeError: what MulBackward0 saved as 'other' must hold data when backward runs, "
            f"{GIVE_BACK}, or trace with gradients=False"
        ),
    ),
    "what a gradient starts with": (
        (
            "one = torch.ones(2, 2); gone(one); h = torch.ones(2, 2).requires_grad_() * 2\n"
            "trace_graph(h, gradients=True, grad_outputs=one)"
        ),
        (
            "ValueError: grad_outputs must hold data, but of one its storage holds nothing; pass "
            "another tensor"
        ),
    ),
    "a description": ("print(describe_tensor(w).shape)", "(4, 4)"),
    "a diagnosis": ("print(diagnose(y, {'w': w}).codes)", "()"),
    "a check": ("print(preflight(y, names={'w': w}).failures)", "()"),
    "a derivative": (
        (
            "x = torch.ones(9, requires_grad=True); z = x * x.exp(); gone(x)\n"
            "higher_order_grad(z, x, 2)"
        ),
        (f"RuntimeError: inputs must hold data, {GIVE_BACK}"),
    ),
    "a constant of a derivative": (
        (
            "x = torch.ones(9, requires_grad=True); c = torch.ones(9); z = x * x * c; gone(c)\n"
            "higher_order_grad(z, x, 2)"
        ),
        (f"RuntimeError: what MulBackward0 saved as 'other' must hold data, {GIVE_BACK}"),
    ),
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
    """What comes of each door, or of which signal its process died."""
    codes = [code for code, _ in DOORS.values()]
    run = run_apart(SCRIPT.replace("CODES", repr(codes)))
    return dict(zip(DOORS, map(json.loads, run.stdout.splitlines()), strict=True))


@needs_fork
@pytest.mark.parametrize("door", DOORS)
def test_what_a_storage_does_not_hold_is_not_read(door: str, told: dict[str, str]) -> None:
    assert told[door] == DOORS[door][1]


def emptied() -> tuple[torch.Tensor, torch.Tensor]:
    w = torch.ones(4, 4, requires_grad=True)
    y = (w * w).sum()
    w.untyped_storage().resize_(0)
    return w, y


def constant() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    x, c = torch.ones(9, requires_grad=True), torch.ones(9)
    return x, c, x * x * c


def test_backward_raises_before_it_reads_what_is_gone() -> None:
    _, y = emptied()
    with pytest.raises(RuntimeError, match=r"^what MulBackward0 saved as 'other' must hold data "):
        trace_graph(y, gradients=True)


def test_backward_is_not_started_with_what_is_gone() -> None:
    one = torch.ones(9)
    y = torch.ones(9, requires_grad=True) * 2
    one.untyped_storage().resize_(0)
    with pytest.raises(ValueError, match=r"^grad_outputs must hold data, but of one its storage "):
        trace_graph(y, gradients=True, grad_outputs=one)


def test_a_derivative_raises_before_it_reads_what_is_gone() -> None:
    x, c, z = constant()
    c.untyped_storage().resize_(0)
    with pytest.raises(RuntimeError, match=r"^what MulBackward0 saved as 'other' must hold data, "):
        higher_order_grad(z, x, 2)
    x, _, z = constant()
    x.untyped_storage().resize_(0)
    with pytest.raises(RuntimeError, match=r"^inputs must hold data, but its storage holds nothi"):
        higher_order_grad(z, x, 2)


def test_a_storage_that_is_given_back_is_read_again() -> None:
    w, y = emptied()
    w.untyped_storage().resize_(64)
    with torch.no_grad():
        w.fill_(2.0)
    (value,) = trace_graph(y, values=True).leaves[0].values
    assert value is not None
    assert (value.mean, value.unread) == (2.0, None)


def test_what_was_not_read_is_no_alarm_and_not_called_finite() -> None:
    _, y = emptied()
    trace = trace_graph(y, values=True)
    assert value_turns(trace) == []
    assert "finite" not in str(trace)
    (value,) = trace.leaves[0].values
    assert value is not None
    assert not value.is_finite
    assert value.not_finite is None


def test_what_was_not_read_is_read_back_from_json() -> None:
    _, y = emptied()
    trace = trace_graph(y, values=True)
    assert GraphTrace.from_json(trace.to_json()) == trace


def jagged() -> torch.Tensor:
    parts = [torch.ones(2), torch.ones(3)]
    return torch.nested.nested_tensor(parts, layout=torch.jagged, requires_grad=True)


OTHERS: dict[str, tuple[Any, str]] = {
    "sparse": (lambda: torch.eye(3).to_sparse().requires_grad_(), "it is sparse_coo"),
    "jagged": (jagged, "it is a NestedTensor"),
}


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize(("made", "why"), OTHERS.values(), ids=OTHERS)
def test_what_has_its_numbers_elsewhere_says_so(made: Any, why: str) -> None:
    (value,) = trace_graph(made() * 2, values=True).leaves[0].values
    assert str(value) == f"not read: {why}"


def test_a_sparse_gradient_is_not_called_none() -> None:
    table = torch.nn.Embedding(9, 2, sparse=True)
    trace = trace_graph(table(torch.tensor([1])).sum(), gradients=True)
    assert str(trace.leaves[0].gradients[0]) == "not read: it is sparse_coo"
    assert gradient_turns(trace) == []


def test_describing_it_says_what_it_says_of_any_other() -> None:
    w, _ = emptied()
    assert describe_tensor(w).why == describe_tensor(torch.ones(4, 4, requires_grad=True)).why
