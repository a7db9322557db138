"""Graphs that an earlier backward pass has freed."""

import ast
from collections.abc import Collection, Iterator
from typing import NamedTuple

from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._diagnosis.build import diagnosis
from leafgrad._diagnosis.checks.backward.detach import detach_before
from leafgrad._diagnosis.checks.backward.nodes import LEAF, is_custom, number_of, source_of, spans
from leafgrad._diagnosis.diagnosis import Diagnosis, Edit, Severity
from leafgrad._diagnosis.edits import call_at, replace
from leafgrad._diagnosis.registry import check
from leafgrad._diagnosis.situation import Situation
from leafgrad._graph.nodes import Source
from leafgrad._messages import message
from leafgrad._record.log import Pass
from leafgrad._record.module_paths import ModuleCall


class Use(NamedTuple):
    """A result that was made before a backward pass, and the operation that uses it later."""

    made: Node
    by: Node


@check("freed")
def find_second_backward(situation: Situation) -> Iterator[Diagnosis]:
    """Find nodes that an earlier backward pass freed, and how the outputs lead to them."""
    with _autograd.unobserved():
        freed = [node for node in situation.live if _has_saved(node, {"freed"})]
        oldest = min(map(number_of, freed), default=LEAF)
        is_older = any(number < oldest for number in situation.failing)
        if not freed or (is_older and situation.log.has_failed):
            return  # this backward pass was tried, and freed them before it failed
        situation.failing.update(map(number_of, freed))
        yield FreedGraph(situation, freed).finding()


class FreedGraph:
    """What is known of the backward pass that freed a part of a graph, and of the way there."""

    def __init__(self, situation: Situation, freed: list[Node]) -> None:
        """Look for the backward passes since the first node to fail was made.

        Newer nodes were freed by a failed attempt at this backward pass.
        """
        self.situation = situation
        self.graph = {node: _autograd.next_functions(node) for node in situation.live}
        after = situation.log.backwards_after
        newest = max((one.number for one in after(min(map(number_of, freed)))), default=0)
        self.freed = [node for node in freed if number_of(node) < newest] or freed
        self.passes = after(number_of(self.freed[0]))

    def finding(self) -> Diagnosis:
        """Return the finding; a loss whose own backward pass has run is no error yet."""
        variant, use = self._cause()
        backward = next((self._at(one) for one in self.passes), None)
        made, by = (None, None) if use is None else map(self._source, use)
        at = by or backward
        passes = spans("freed.backward", *map(self._at, self.passes), but=at)
        is_over = variant == "whole" and not self.situation.log.has_failed
        is_doubtful = all(map(is_custom, self.freed))
        is_carried = variant in {"carried", "running-sum"}
        is_for_some = any(one.call == "backward(inputs=...)" for one in self.passes)
        module = None if use is None else self._module(use.by)
        line, detached = detach_before(at, module) if is_carried else (None, ())
        return diagnosis(
            "freed",
            Severity.NOTE if is_over else Severity.WARNING if is_doubtful else Severity.ERROR,
            at=at,
            variant=variant,
            secondary=(*passes, *spans("freed.made", made, but=at)),
            notes=[message("freed.by-inputs")] if is_for_some else [],
            edits=detached if is_carried else self._with_graph(variant, at),
            line=line or "state = state.detach()",
            node=_autograd.node_name(self.freed[0]),
        )

    def _with_graph(self, variant: str, at: Source | None) -> tuple[Edit, ...]:
        """Pass ``create_graph=True`` to the gradient that the loss was computed after."""
        newest = number_of(next(iter(self.graph)))
        call = call_at(at)
        if at is None or call is None or variant != "by-grad" or newest < self.passes[-1].number:
            return ()
        call.keywords.append(ast.keyword("create_graph", ast.Constant(value=True)))
        return replace(at, call, ast.unparse(call))

    def _at(self, one: Pass) -> Source | None:
        return self.situation.log.source_at(one.place)

    def _cause(self) -> tuple[str, Use | None]:
        """Return which advice fits, and the use by which the outputs lead to what is freed."""
        if self.passes and {one.call for one in self.passes} == {"torch.autograd.grad()"}:
            return "by-grad", None
        newest = number_of(next(iter(self.graph)))
        since = next((one.number for one in self.passes if one.number <= newest), None)
        use = None if since is None else self._use_since(since)
        if since is not None and use is not None:
            return self._variant_of(use, since), use
        freed = {*self.freed}
        with_tensors = (node for node in self.graph if _has_saved(node, {"freed", "live"}))
        return "whole" if freed.issuperset(with_tensors) else "partly", None

    def _uses_of(self, made: Collection[Node]) -> Iterator[Use]:
        """Yield the uses of some results, the last ones first."""
        for node, successors in self.graph.items():
            yield from (Use(one, node) for one, _ in successors if one is not None and one in made)

    def _use_since(self, since: int) -> Use | None:
        """Return the first use, since a number was given, of a result that leads to a freed one."""
        uses = self._uses_of(_leading_to(self.graph, self.freed))
        late = (one for one in uses if number_of(one.made) < since <= number_of(one.by))
        return next(late, None)

    def _variant_of(self, use: Use, since: int) -> str:
        if self._is_repeated(use.made, since):
            return "running-sum" if use.by in self._terms() else "carried"
        made, by = self._source(use.made), self._source(use.by)
        is_before_loop = made and by and self.situation.log.has_run_before(by, since)
        return "before-loop" if is_before_loop else "shared"

    def _is_repeated(self, made: Node, since: int) -> bool:
        """Return whether the module that made a result, or the line outside of all, ran since."""
        source, module = self._source(made), self._module(made)
        newer = [node for node in self.graph if number_of(node) >= since]
        if module is not None:
            return any(self._module(node) is module for node in newer)
        return source is not None and any(self._source(node) == source for node in newer)

    def _terms(self) -> set[Node]:
        """Return the nodes that are reached from the first output by additions only."""
        found: set[Node] = set()
        ahead = [next(iter(self.graph))]
        while ahead:
            node = ahead.pop()
            if node not in found and _autograd.node_name(node) in _ADDITIONS:
                found.add(node)
                ahead += [after for after, _ in self.graph[node] if after is not None]
        return found

    def _source(self, node: Node) -> Source | None:
        return source_of(self.situation, node)

    def _module(self, node: Node) -> ModuleCall | None:
        return self.situation.log.module_of(number_of(node))


def _has_saved(node: Node, states: Collection[str]) -> bool:
    """Return whether something that a node saved is in one of these states."""
    return any(slot.state in states for slot in _autograd.saved_slots(node))


def _leading_to(graph: _autograd.LiveGraph, targets: Collection[Node]) -> set[Node]:
    """Return the nodes from which a path leads to one of the targets, and these."""
    found = {*targets}
    for node in reversed([*graph]):
        if any(after in found for after, _ in graph[node]):
            found.add(node)
    return found


_ADDITIONS = {"AddBackward0", "SubBackward0", "SumBackward0", "MeanBackward0", "StackBackward0"}
