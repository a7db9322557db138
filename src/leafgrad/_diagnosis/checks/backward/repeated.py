"""Parameters that `DistributedDataParallel` sees become ready twice in one backward pass."""

import ast
from collections import Counter
from collections.abc import Iterator

from torch.nn.parallel import DistributedDataParallel

from leafgrad import _autograd
from leafgrad._diagnosis.build import diagnosis
from leafgrad._diagnosis.checks.backward.nodes import number_of, source_of
from leafgrad._diagnosis.diagnosis import Diagnosis, Edit, Severity
from leafgrad._diagnosis.edits import parse, replace
from leafgrad._diagnosis.registry import check
from leafgrad._diagnosis.situation import Situation
from leafgrad._graph.nodes import Source


@check("ready-twice")
def find_parameters_ready_twice(situation: Situation) -> Iterator[Diagnosis]:
    """Find reentrant checkpoints whose backward passes mark a parameter more than once."""
    models = [one for one in situation.modules.values() if isinstance(one, DistributedDataParallel)]
    is_strict = any(one.find_unused_parameters for one in models)
    if not models or all(one.static_graph for one in models):
        return
    with _autograd.unobserved():
        names = {id(tensor): name for name, tensor in situation.named.items()}
        uses: Counter[str] = Counter()
        blocks = [node for node in situation.live if _autograd.is_reentrant_checkpoint(node)]
        for node in blocks:
            modules = _autograd.modules_of_reentrant_checkpoint(node)
            inside = {id(one): one for module in modules for one in module.parameters()}
            uses.update(names[one] for one in inside if one in names)
        twice = [name for name, number in uses.items() if is_strict or number > 1]
        if twice:
            situation.failing.update(map(number_of, blocks))
            at = source_of(situation, blocks[-1])
            yield diagnosis(
                "ready-twice",
                Severity.ERROR,
                subject=twice,
                at=at,
                variant="unused" if is_strict else "",
                edits=without_reentrance(at),
            )


def without_reentrance(at: Source | None) -> tuple[Edit, ...]:
    """Replace ``use_reentrant=True`` on the lines of a file."""
    if at is None:
        return ()
    found = [
        node
        for node in ast.walk(parse(at.file))
        if isinstance(node, ast.keyword) and ast.unparse(node) == "use_reentrant=True"
    ]
    return tuple(edit for one in found for edit in replace(at, one, "use_reentrant=False"))
