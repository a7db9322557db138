"""Find the formulas of PyTorch whose derivatives are wrong: `python -m tests.derivative.formulas`.

Each sample of the operator table becomes a function of one number: all tensors that require grad
move with it along random directions, so that its n-th derivative mixes all partial ones. Nested
reverse mode gives the derivatives up to the fourth: the third, and what a parameter's gradient of
it takes. Each is compared with finite differences of the one below, which has passed before.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice, product
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.graph import Node
from torch.utils._pytree import tree_map_only

from leafgrad._derivative import wrong_formulas
from tests.trace.operators.operators import MOST_SAMPLES, operators, quiet_table, seeded, tensors_in

WRONG_FORMULAS = wrong_formulas.WRONG_FORMULAS
HIGHEST = 4
COSTLY = {"grid_sampler_2d": 2, "grid_sampler_3d": 2}  # highest order: the third takes a minute
# Weights of central differences of sixth order, and of the mean of neighbours.
DIFFERENCES = {-3: -1 / 60, -2: 3 / 20, -1: -3 / 4, 1: 3 / 4, 2: -3 / 20, 3: 1 / 60}
NEIGHBOURS = {-3: 1 / 20, -2: -6 / 20, -1: 15 / 20, 1: 15 / 20, 2: -6 / 20, 3: 1 / 20}

INFINITE = "infinite"
Options = frozenset[str]  # flags that a node saved, and `INFINITE`


class Kind(NamedTuple):
    """A kind of node, and the number of derivatives after which it appears in the graph."""

    name: str
    level: int


class Verdict(NamedTuple):
    """The result of comparing the derivatives of a sample.

    `wrong` is the lowest wrong order, or None if all are right. `nodes` contains the kinds of nodes
    in the graph, each with the flags of its nodes.
    """

    operator: str
    sample: int
    wrong: int | None
    nodes: dict[Kind, list[Options]]


def judge(operator: str, sample: int, given: Any) -> Verdict | None:
    """Compare the derivatives of a sample with finite differences.

    `given` is the sample input of the operator. Return None if there is nothing to compare.
    """
    for scale in (1.0, 0.03):  # a shorter way crosses fewer kinks
        function = partial(moved, operators()[operator], given, scale)
        order = wrong_order(function, COSTLY.get(operator, HIGHEST))
        if order is not None:
            return Verdict(operator, sample, order or None, nodes_of(function, operator))
    return None


def moved(operator: Any, given: Any, scale: float, t: Tensor) -> Tensor:
    """Return a weighted sum of the results of an operator whose inputs have moved.

    `given` is the sample input. Each of its tensors moves by `t * scale` in a random direction.
    """
    random = torch.Generator().manual_seed(0)

    def draw(like: Tensor) -> Tensor:
        return torch.randn(like.shape, generator=random, dtype=like.dtype)

    def move(tensor: Tensor) -> Tensor:
        fixed = tensor.detach()
        return fixed + t * scale * draw(fixed) if tensor.requires_grad else fixed

    with torch.random.fork_rng():
        seeded(0)
        args, options = tree_map_only(Tensor, move, ((given.input, *given.args), given.kwargs))
        made = operator.gradcheck_wrapper(operator.op, *args, **options)
    if given.output_process_fn_grad is not None:
        made = given.output_process_fn_grad(made)
    total = t * 0
    for tensor in tensors_in(made):
        if tensor.requires_grad and tensor.layout is torch.strided and not tensor.is_nested:
            real = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
            if real.dtype == torch.float64:  # finite differences need double precision
                total = total + (real * draw(real)).sum()
    return total


def derivatives(function: Callable[[Tensor], Tensor], at: float, highest: int) -> list[float]:
    """Return F, F', ... at the number `at`, up to order `highest` or PyTorch's last formula."""
    t = torch.tensor(at, dtype=torch.float64, requires_grad=True)
    found = function(t)
    values = [found.item()]
    for _ in range(highest):
        try:
            found = differentiated(found, t)
        except (RuntimeError, NotImplementedError):
            break
        values.append(found.item())
    return values


def differentiated(value: Tensor, t: Tensor) -> Tensor:
    if not value.requires_grad:
        return torch.zeros_like(t)
    return torch.autograd.grad(
        value, t, create_graph=True, allow_unused=True, materialize_grads=True
    )[0]


def wrong_order(function: Callable[[Tensor], Tensor], highest: int) -> int | None:
    """Return the lowest wrong order, 0 if all are right, or None if they cannot be compared.

    They cannot be compared at a kink, or if the function raises an error.
    """
    try:
        here = derivatives(function, 0.0, highest)
        around = {
            (k, step): derivatives(function, k * step, len(here) - 2)
            for k in DIFFERENCES
            for step in (1e-3, 5e-4)
        }
    except Exception:  # noqa: BLE001 (what cannot be called here is compared nowhere)
        return None
    for order in range(1, len(here)):
        below = {key: values[order - 1] for key, values in around.items() if len(values) >= order}
        if len(below) < len(around):
            return 0
        one, two = (
            sum(w * below[k, step] for k, w in DIFFERENCES.items()) / step for step in (1e-3, 5e-4)
        )
        mean = sum(w * below[k, 5e-4] for k, w in NEIGHBOURS.items())
        scale = max(1e-3, abs(two), abs(here[order - 1]) / 10)
        is_smooth = abs(one - two) <= 1e-6 * scale and abs(mean - here[order - 1]) <= 1e-6 * scale
        if not is_smooth:
            return None if order == 1 else 0
        if not abs(here[order] - two) <= 1e-5 * scale:
            return order
    return 0


def nodes_of(function: Callable[[Tensor], Tensor], operator: str) -> dict[Kind, list[Options]]:
    """Return the kinds of nodes in the graph, and new kinds in the graphs of its derivatives."""
    t = torch.zeros((), dtype=torch.float64, requires_grad=True)
    kinds: dict[Kind, list[Options]] = {}
    found, names = function(t), set[str]()
    for level in range(COSTLY.get(operator, HIGHEST)):
        new: dict[Kind, list[Options]] = {}
        for node in graph(found):
            if node.name() not in names:
                new.setdefault(Kind(node.name(), level), []).append(flags(node))
        kinds |= new
        names |= {kind.name for kind in new}
        try:
            found = differentiated(found, t)
        except (RuntimeError, NotImplementedError):
            break
    return kinds


def graph(tensor: Tensor) -> set[Node]:
    seen, ahead = set[Node](), [tensor.grad_fn]
    while ahead:
        node = ahead.pop()
        if node is not None and node not in seen:
            seen.add(node)
            ahead += [successor for successor, _ in node.next_functions]
    return seen


def flags(node: Node) -> Options:
    """Return the names of saved arguments that are True, and `INFINITE` if a saved tensor is."""
    saved = {name: getattr(node, name) for name in dir(node) if name.startswith("_saved_")}
    tensors = (t for t in tensors_in([*saved.values()]) if t.layout is torch.strided)
    is_finite = all(bool(t.isfinite().all()) for t in tensors)
    found = {name.removeprefix("_saved_") for name, value in saved.items() if value is True}
    return frozenset(found if is_finite else found | {INFINITE})


def verdicts(names: Iterable[str]) -> Iterator[Verdict]:
    """Yield the verdict on each sample of the operators called `names`."""
    for name in names:
        operator = operators()[name]
        if torch.float64 in operator.dtypes:
            samples = operator.sample_inputs("cpu", torch.float64, requires_grad=True)
            found = (judge(name, *each) for each in enumerate(islice(samples, MOST_SAMPLES)))
            yield from filter(None, found)


def blame(found: Sequence[Verdict]) -> dict[str, tuple[int, str | None]]:
    """Return the formulas that explain all wrong verdicts, each with its highest right order.

    `found` contains all verdicts. A formula also has the flag that its wrong nodes have, or None.
    """
    right = [verdict for verdict in found if verdict.wrong is None]
    wrong = [v for v in found if v.wrong is not None and not is_left_out(v)]
    blamed: dict[str, tuple[int, str | None]] = {}
    for verdict in wrong:
        for kind, flag in culprits(verdict, right):
            row = ((verdict.wrong or 0) - 1 - kind.level, flag)
            known = blamed.get(kind.name, row)
            blamed[kind.name] = min(row, known, key=lambda each: (each[0], each[1] or ""))
    unexplained = [v for v in wrong if blamed.keys().isdisjoint(kind.name for kind in v.nodes)]
    assert not unexplained
    # GPU nodes use the same formula, batchnorm_double_backward.
    for name, device in product([*blamed], ("Cudnn", "Miopen")):
        if name.startswith("NativeBatchNormBackward"):
            blamed[name.replace("Native", device)] = blamed[name]
    return dict(sorted(blamed.items()))


def culprits(verdict: Verdict, right: Sequence[Verdict]) -> list[tuple[Kind, str | None]]:
    """Return the kinds of nodes that may have a wrong formula, because no right verdict has them.

    Each kind has the flag that sets its nodes apart, or None. If right verdicts have all kinds,
    return the operator's only kind. A kind in the graph of a backward counts only if no verdict
    without these kinds has it.
    """
    known: dict[Kind, list[Options]] = {}
    for each in right:
        for kind, options in each.nodes.items():
            known.setdefault(kind, []).extend(options)
    own = [kind for kind in verdict.nodes if kind.level == 0 and kind.name not in OF_MOVING]
    flags = {kind: flag_apart(kind, verdict, known) for kind in own}
    found = [(kind, flag) for kind, flag in flags.items() if flag or kind not in known]
    found = found or [(kind, None) for kind in own if len(own) == 1]
    names = {kind for kind, _ in found}
    others = {kind for each in right if names.isdisjoint(each.nodes) for kind in each.nodes}
    for kind in verdict.nodes if found else ():
        if 0 < kind.level < (verdict.wrong or 0) and "BackwardBackward" in kind.name:
            flag = flag_apart(kind, verdict, known)
            if flag or kind not in others:
                found.append((kind, flag))
    return found


def flag_apart(kind: Kind, verdict: Verdict, known: dict[Kind, list[Options]]) -> str | None:
    """Return a flag that all nodes of a kind have in this verdict and in no right one.

    `known` contains the flags of the nodes in right verdicts, by kind. Return None if there is no
    such flag.
    """
    if kind not in known:
        return None
    return min(frozenset.intersection(*verdict.nodes[kind]).difference(*known[kind]), default=None)


def is_left_out(verdict: Verdict) -> bool:
    """Return whether a wrong verdict does not show that a formula is wrong.

    There are two cases. A node saved infinity, as masks do, and this gives NaN. Or the node is a
    custom function in Python: leafgrad runs its backward to check whether it supports
    `create_graph`.
    """
    is_infinite = any(INFINITE in each for options in verdict.nodes.values() for each in options)
    return is_infinite or any("GeneratedBackwardFor" in kind.name for kind in verdict.nodes)


OF_MOVING = {"AddBackward0", "MulBackward0", "SumBackward0", "torch::autograd::AccumulateGrad"}


def sweep() -> dict[str, tuple[int, str | None]]:
    """Return the wrong formulas behind all operators."""
    with quiet_table():
        found = [*verdicts(operators())]
    assert len(found) > 5 * len(operators())  # samples that could be compared
    return blame(found)


if __name__ == "__main__":
    path = Path(wrong_formulas.__file__)
    before = path.read_text("utf-8").partition("WRONG_FORMULAS:")[0]
    path.write_text(
        f"{before}WRONG_FORMULAS: dict[str, tuple[int, str | None]] = {sweep()}\n", "utf-8"
    )
