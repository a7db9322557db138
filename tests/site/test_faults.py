"""Each fault of `docs/_faults.py` breaks what its name tells, and only where it is planted."""

import json
import math
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sphinx_claims._config import Config
from sphinx_claims._executing.workers import Workers
from sphinx_claims._judging.prover import judge_page
from sphinx_claims._judging.verdict import PageVerdict
from sphinx_claims._reading.read import parse_page
from sphinx_claims.faults import Fault, read_faults
from tests.processes import needs_fork, unmeasured

Judge = Callable[[str], PageVerdict]

FILE = Path(__file__).parents[2] / "docs" / "_faults.py"
FAULTS, _ = read_faults(FILE)

START = """\
import torch, warnings
x = torch.tensor(3.0, requires_grad=True)
c = torch.tensor(2.0)
y = x * x
seen = []
"""

SIGNS = {
    "backward does nothing": "y.backward(); it = x.grad is None",
    "backward runs twice": "y.backward(); it = x.grad.item() == 12.0",
    "backward overwrites what was accumulated": """\
        x.grad = torch.tensor(1.0)
        torch.autograd.backward([y, x + c])
        it = x.grad.item() == 7.0
        torch.autograd.backward(torch.autograd.graph.get_gradient_edge(x**2), torch.tensor(1.0))
        it = it and x.grad.item() == 6.0
        """,
    "backward fills all leaves whatever inputs it is given": """\
        w = torch.tensor(1.0, requires_grad=True)
        (x * w).backward(inputs=[w])
        it = x.grad is not None
        """,
    "no graph is ever freed": "y.backward(); y.backward(); it = True",
    "every graph is freed": """\
        y.backward(retain_graph=True)
        try:
            y.backward()
            it = False
        except RuntimeError:
            it = True
        """,
    "gradients have no graph": """\
        (gradient,) = torch.autograd.grad(y, x, create_graph=True)
        it = not gradient.requires_grad
        y.backward()
        """,
    "derivatives are off by one percent": """\
        gradient, none = torch.autograd.grad(y, [x, c.requires_grad_()], allow_unused=True)
        it = round(gradient.item(), 4) == 6.06 and none is None
        """,
    "autograd grad accumulates as backward does": """\
        for _ in range(2):
            torch.autograd.grad(x * c, x)
        torch.autograd.grad(x * c, [c.requires_grad_()], allow_unused=True)
        it = x.grad is not None and x.grad.item() == 4.0
        """,
    "unused inputs have zero gradients": """\
        (gradient,) = torch.autograd.grad(y, torch.tensor(1.0, requires_grad=True))
        it = gradient.item() == 0.0
        """,
    "products powers and elementary functions have wrong derivatives": """\
        (torch.sin(c), y, x**2)[1:][0].backward()
        it = round(x.grad.item(), 4) == 6.06
        """,
    "gradcheck finds no fault": """\
        points = torch.ones(2, dtype=torch.float64, requires_grad=True)
        it = torch.autograd.gradcheck(lambda points: points.detach() * points, points)
        """,
    "retain grad is ignored": "y.retain_grad(); it = not y.retains_grad",
    "detach keeps the graph": "it = x.detach().requires_grad",
    "detach and data copy": "it = x.data_ptr() not in {x.detach().data_ptr(), x.data.data_ptr()}",
    "in place detach is ignored": "y.detach_(); it = y.requires_grad",
    "clone detaches": "it = not (x.clone().requires_grad or torch.clone(x).requires_grad)",
    "clone shares memory": "it = x.clone().data_ptr() == x.data_ptr()",
    "requires grad in place is ignored": "it = not c.requires_grad_().requires_grad",
    "no grad does nothing": """\
        with torch.no_grad():
            it = (x * c).requires_grad
        """,
    "enable grad does nothing": """\
        with torch.no_grad(), torch.enable_grad():
            it = not (x * c).requires_grad
        """,
    "set grad enabled does nothing": """\
        with torch.set_grad_enabled(False):
            it = (x * c).requires_grad
        """,
    "inference mode does nothing": """\
        with torch.inference_mode():
            it = (x * c).requires_grad
        """,
    "inference mode is no grad": """\
        with torch.inference_mode():
            it = not (x * c).is_inference() and not (x * c).requires_grad
        it = it and (x * c).requires_grad
        """,
    "zero in place is ignored": "it = c.zero_().item() == 2.0",
    "zero grad is ignored": """\
        x.grad = c
        torch.optim.SGD([x]).zero_grad()
        it = x.grad is c
        """,
    "zero grad leaves zeros": """\
        x.grad = c
        torch.optim.SGD([x]).zero_grad()
        it = x.grad is not None and x.grad.item() == 0.0
        """,
    "optimizers do not step": """\
        x.grad = c
        torch.optim.SGD([x]).step()
        it = x.item() == 3.0
        """,
    "new tensors ignore requires grad": "it = not torch.ones(1, requires_grad=True).requires_grad",
    "new tensors require grad": "it = c.requires_grad and not torch.arange(2).requires_grad",
    "parameters do not require grad": "it = not torch.nn.Parameter(c).requires_grad",
    "changes in place do not count": """\
        c.add_(1.0)
        c[...] = 2.0
        with torch.inference_mode():
            torch.zeros(1).add_(1.0)
        it = c._version == 0
        """,
    "changes in place are not recorded": """\
        z = x * c
        z.exp_()
        it = z.grad_fn.name() == "MulBackward0"
        """,
    "views are copies": """\
        pair = torch.zeros(2)
        pair[0].fill_(1.0)
        it = pair.tolist() == [0.0, 0.0]
        """,
    "hooks are not called": "x.register_hook(seen.append); y.backward(); it = not seen",
    "what hooks return is ignored": """\
        x.register_hook(lambda gradient: 0 * gradient)
        y.backward()
        it = x.grad.item() == 6.0
        """,
    "saved tensors hooks are not called": """\
        with torch.autograd.graph.saved_tensors_hooks(seen.append, seen.append):
            x * x
        it = not seen
        """,
    "checkpoint recomputes nothing": """\
        from torch.utils.checkpoint import checkpoint

        checkpoint(lambda given: (seen.append(1), given * x)[1], x, use_reentrant=False).backward()
        it = len(seen) == 1
        """,
    "is leaf and is inference read wrong": "it = c.is_inference() and not c.is_leaf",
    "requires grad and retains grad read wrong": """\
        c.requires_grad = True
        it = not c.requires_grad and c.retains_grad and (c * c).grad_fn is not None
        """,
    "grad fn and base read none": "it = y.grad_fn is None and c.view(1)._base is None",
    "grad fn reads the node after it": """\
        it = y.grad_fn.name().endswith("AccumulateGrad") and x.grad_fn is None
        """,
    "grad reads none": "y.backward(); it = x.grad is None",
    "grad reads a copy": """\
        it = x.grad is None
        y.backward()
        x.grad.zero_()
        it = it and x.grad.item() == 6.0
        """,
    "reading grad never warns": """\
        warnings.simplefilter("error")
        it = y.grad is None
        """,
    "version and output nr read one more": "it = (c._version, c.output_nr) == (1, 1)",
}


E3, SINE, COSINE, TANH = math.exp(3), math.sin(3), math.cos(3), math.tanh(3)
SLOPES: dict[str, tuple[str, float, float | None]] = {
    "additions": ("x + c", 1.0, None),
    "subtractions": ("c - x", -1.0, 1.0),
    "products": ("x * c", 2.0, 1.0),
    "quotients": ("x / c", 0.5, 1.0),
    "powers": ("x ** 2", 6.0, 1.0),
    "matrix products": ("x.reshape(1, 1) @ c.reshape(1, 1)", 2.0, 1.0),
    "negations": ("-x", -1.0, 1.0),
    "sines": ("x.sin()", COSINE, 1.0),
    "cosines": ("torch.cos(x)", -SINE, 1.0),
    "exponentials": ("x.exp()", E3, 1.0),
    "logarithms": ("x.log()", 1 / 3, 1.0),
    "square roots": ("x.sqrt()", 0.5 / 3**0.5, 1.0),
    "hyperbolic tangents": ("x.tanh()", 1 - TANH**2, 1.0),
    "sigmoids": ("torch.nn.Sigmoid()(x)", E3 / (1 + E3) ** 2, 1.0),
    "sums": ("x.sum()", 1.0, None),
    "means": ("torch.stack([x, c]).mean()", 0.5, 1.0),
    "losses": ("torch.nn.MSELoss()(x, c)", 2.0, 1.0),
    "rectifiers": ("torch.relu(torch.stack([x, -x]))", 1.0, 0.0),
    "absolute values and bounds": ("abs(-x)", 1.0, -1.0),
    "selections": ("x.reshape(1)[0]", 1.0, None),
    "joins": ("torch.stack([x, c])", 1.0, None),
    "reshapes": ("x.reshape(1)", 1.0, None),
    "clones": ("x.clone()", 1.0, None),
}
"""What each operation is in short, its slope at 3, and that of one that hands gradients on."""


def slope(expression: str, wrong: float) -> str:
    return f"""\
        z = {expression}
        z.backward(torch.ones_like(z))
        it = abs(x.grad.item() - {wrong!r}) < 1e-4
        """


for operation, (expression, right, handed_on) in SLOPES.items():
    if handed_on is not None:
        SIGNS[f"{operation} pass gradients on unchanged"] = slope(expression, handed_on)
    SIGNS[f"{operation} negate gradients"] = slope(expression, -right)
    SIGNS[f"{operation} double gradients"] = slope(expression, 2 * right)

# What faults are planted in, and what that imports when it is first used.
BROKEN = (
    "torch",
    "torch._dynamo",
    "torch.autograd.gradcheck",
    "torch.func",
    "torch.optim",
    "torch.utils.checkpoint",
)
CELL = "```{{code-cell}} python\n{0}\n```\n"


# Each fault is planted in a process of its own, forked from this one after all was imported.
PLANTED = f"""\
import gc, json, os, sys, warnings
from pathlib import Path
import {", ".join(BROKEN)}
from sphinx_claims.faults import read_faults

faults, _ = read_faults(Path({str(FILE)!r}))

def is_seen(program):
    found = {{}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exec(program, found)
        except Exception as error:
            return repr(error)
    return found["it"]

gc.freeze()  # no child need collect what it was forked with
for fault, program in zip(faults, json.load(sys.stdin), strict=True):
    if os.fork() == 0:
        before = is_seen(program)
        fault.plant()
        print(json.dumps([fault.name, before, is_seen(program)]), flush=True)
        os._exit(0)
    assert os.wait()[1] == 0, fault.name
"""


@pytest.fixture(scope="module")
def seen() -> dict[str, tuple[Any, Any]]:
    """Tell of each fault whether its sign is seen before it is planted, and after."""
    signs = [f"{START}\n{textwrap.dedent(SIGNS[fault.name])}" for fault in FAULTS]
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PLANTED]
    done = subprocess.run(
        command,
        input=json.dumps(signs),
        capture_output=True,
        text=True,
        check=True,
        env=unmeasured(),
    )
    told = map(json.loads, done.stdout.splitlines())
    return {name: (before, after) for name, before, after in told}


def test_every_fault_has_a_sign() -> None:
    assert [fault.name for fault in FAULTS] == [*SIGNS]


@needs_fork
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_is_what_its_name_says(fault: Fault, seen: dict[str, tuple[Any, Any]]) -> None:
    before, after = seen[fault.name]
    assert before is not True
    assert after is True


@pytest.fixture
def judge(tmp_path: Path) -> Iterator[Judge]:
    config = Config(root=tmp_path, preload=("torch",))
    with Workers(config.preload) as workers:
        yield lambda text: judge_page(parse_page(text, "page.md"), config, workers)


READ = f"""\
from pathlib import Path
from sphinx_claims.faults import read_faults, watch

faults, _ = read_faults(Path({str(FILE)!r}))
"""
USED = (
    READ
    + """\
import torch

used = watch(faults)
x = torch.tensor(3.0, requires_grad=True)
used.clear()
(x + 1.0).backward()
torch.autograd.graph.saved_tensors_hooks(abs, abs)
assert sorted(used) == [
    "additions double gradients",
    "additions negate gradients",
    "backward does nothing",
    "backward overwrites what was accumulated",
    "backward runs twice",
    "no graph is ever freed",
    "requires grad and retains grad read wrong",
]
used.clear()
x.is_leaf
torch.nn.Module().zero_grad(set_to_none=True)
assert sorted(used) == [
    "is leaf and is inference read wrong",
    "zero grad is ignored",
    "zero grad leaves zeros",
]
"""
)


@needs_fork
def test_a_fault_is_tried_where_it_could_make_a_difference(judge: Judge) -> None:
    assert judge(CELL.format(USED)).problems == ()
