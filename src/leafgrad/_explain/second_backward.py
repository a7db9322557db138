"""How outputs come to what an earlier backward has freed, and what to do about it."""

from collections.abc import Collection
from functools import cached_property
from typing import NamedTuple

from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._graph.nodes import Source
from leafgrad._record.log import Log
from leafgrad._record.module_paths import ModuleCall, Roots


class _Use(NamedTuple):
    """A result that was made before a backward, and what uses it since."""

    made: Node
    by: Node


class SecondBackward:
    """What is known of the backward that has freed a part of a graph, and of the way there."""

    def __init__(self, graph: _autograd.LiveGraph, log: Log, modules: Roots) -> None:
        """Look at a graph, each node of which stands before those behind it.

        `unpassed` has the edges to which no backward came: those behind nodes that still are whole.
        """
        self.graph = graph
        self.freed = [node for node in graph if _has_saved(node, {"freed"})]
        self.unpassed = _unpassed(graph, {*self.freed})
        self.log = log
        self.numbers = {node: _autograd.sequence_nr(node) for node in graph}
        self.paths = log.paths(modules) if log else {}
        self.passes = log.backwards_after(self._number(self.freed[0]))

    def _number(self, node: Node) -> int:
        """Return the number of a node; leaves have none and are older than all."""
        number = self.numbers[node]
        return -1 if number is None else number

    def told(self) -> str:
        """Return what follows on "freed by an earlier backward"."""
        return f"{self.place()}: {self.cure}"

    def place(self) -> str:
        """Return where a backward has run since what is freed was made."""
        sources = map(self.log.source_at, [one.place for one in self.passes])
        places = list(dict.fromkeys(map(str, sources)))
        return f" (backward ran in {' and in '.join(places)} since)" if places else ""

    def call(self) -> tuple[str | None, str]:
        """Return how the backward was called, where all were called alike, and where."""
        calls = {one.call for one in self.passes}
        sources = dict.fromkeys(str(self.log.source_at(one.place)) for one in self.passes)
        return (calls.pop() if len(calls) == 1 else None), " and in ".join(sources)

    @cached_property
    def cure(self) -> str:
        """How the outputs come there, and what to do: the same whichever tensor is explained."""
        call, _ = self.call()
        if call == "torch.autograd.grad()":
            return BY_GRAD
        root = next(iter(self.graph))
        since = next((one.number for one in self.passes if one.number <= self._number(root)), None)
        use = None if since is None else self._use_since(since)
        if since is not None and use is not None:
            return self._cure_of_use(use, since)
        if self.is_whole():
            return WHOLE
        shared = self._shared_use()
        return PARTLY if shared is None else USED_TWICE.format_map(self._words(shared))

    def is_whole(self) -> bool:
        """Return whether all is freed that backward comes to first."""
        freed = {*self.freed}
        return all(node in freed for node in self.graph if _has_saved(node, {"freed", "live"}))

    def _use_since(self, since: int) -> _Use | None:
        """Return the first use, since a number was given, of what leads to something freed."""
        leading = _leading_to(self.graph, {*self.freed})
        uses = (
            _Use(after, node)
            for node, successors in self.graph.items()
            for after, _ in successors
            if after in leading and self._number(after) < since <= self._number(node)
        )
        return next(uses, None)

    def _shared_use(self) -> _Use | None:
        """Return the first use of something freed by what is not."""
        freed = {*self.freed}
        uses = (
            _Use(after, node)
            for node, successors in self.graph.items()
            for after, _ in successors
            if after in freed and node not in freed
        )
        return next(uses, None)

    def _words(self, use: _Use) -> dict[str, str]:
        return {"made": self._in_words(use.made), "by": self._in_words(use.by)}

    def _cure_of_use(self, use: _Use, since: int) -> str:
        made, by = self._source(use.made), self._source(use.by)
        if self._is_repeated(use.made, since):
            template = RUNNING_SUM if use.by in self._terms() else CARRIED
        elif made is not None and by is not None and self.log.has_run_before(by, since):
            template = COMPUTED_BEFORE
        else:
            template = USED_TWICE
        return template.format_map(self._words(use))

    def _is_repeated(self, made: Node, since: int) -> bool:
        """Return whether the module that made a result, or the line outside of all, ran since."""
        source, module = self._source(made), self._module(made)
        newer = [node for node in self.graph if self._number(node) >= since]
        if module is not None:
            return any(self._module(node) is module for node in newer)
        return source is not None and any(self._source(node) == source for node in newer)

    def _terms(self) -> set[Node]:
        """Return the nodes to which additions alone lead from the first output."""
        found: set[Node] = set()
        ahead = [next(iter(self.graph))]
        while ahead:
            node = ahead.pop()
            if node not in found and _autograd.node_name(node) in _ADDITIONS:
                found.add(node)
                ahead += [after for after, _ in self.graph[node] if after is not None]
        return found

    def _source(self, node: Node) -> Source | None:
        return self.log.source_of(self._number(node))

    def _module(self, node: Node) -> ModuleCall | None:
        return self.log.module_of(self._number(node))

    def _in_words(self, node: Node) -> str:
        source, call = self._source(node), self._module(node)
        place = _autograd.node_name(node) if source is None else str(source)
        module = "" if call is None else self.paths[id(call)]
        return f"{place} (module {module})" if module else place


def _has_saved(node: Node, states: Collection[str]) -> bool:
    """Return whether something that a node saved is in one of these states."""
    return any(slot.state in states for slot in _autograd.saved_slots(node))


def _unpassed(graph: _autograd.LiveGraph, freed: Collection[Node]) -> set[_autograd.Edge]:
    """Return the edges to which nodes lead that no backward can have passed.

    Those are nodes that still have what they saved, and those without anything saved that only such
    nodes lead to.
    """
    passed, unpassed = set[_autograd.Edge](), set[_autograd.Edge]()
    behind_passed, behind_unpassed = set[Node](), set[Node]()
    for node, successors in graph.items():
        is_behind = node in behind_unpassed and node not in behind_passed
        is_unpassed = node not in freed and (_has_saved(node, {"live"}) or is_behind)
        edges = [(after, number) for after, number in successors if after is not None]
        (unpassed if is_unpassed else passed).update(edges)
        (behind_unpassed if is_unpassed else behind_passed).update(after for after, _ in edges)
    return unpassed - passed


def _leading_to(graph: _autograd.LiveGraph, targets: Collection[Node]) -> set[Node]:
    """Return the nodes from which a path leads to one of the targets, and these."""
    found = {*targets}
    for node in reversed([*graph]):
        if any(after in found for after, _ in graph[node]):
            found.add(node)
    return found


_ADDITIONS = {"AddBackward0", "SubBackward0", "SumBackward0", "MeanBackward0", "StackBackward0"}

BY_GRAD = (
    "pass create_graph=True to that torch.autograd.grad(), where its result is to be trained "
    "through, or else retain_graph=True: both keep the graph."
)
WHOLE = "compute the outputs again, or pass retain_graph=True to that one."
PARTLY = (
    "compute the outputs again, or pass retain_graph=True to that one; of several outputs, add up "
    "and call backward() once."
)
CARRIED = (
    "a result of {made} from before that backward is used again in {by}. Cut it off before it is "
    "carried on, as in state = state.detach()."
)
RUNNING_SUM = (
    "the outputs are a running sum, which leads back into an earlier round by a result of {made}. "
    "Call backward() on the new term alone, and keep the sum as a number: total += loss.item()."
)
COMPUTED_BEFORE = (
    "a result of {made} from before that backward is used again in {by}, as in an earlier round. "
    "Move its computation into the loop, so that each backward has a graph of its own; or detach() "
    "it, if these outputs are not to train what is behind it."
)
USED_TWICE = (
    "both go through a result of {made}, which these outputs use in {by}. Hand on x.detach() "
    "where the gradient should not go on behind it, as in discriminator(fake.detach()) or state = "
    "state.detach(); where both should, call (loss_1 + loss_2).backward() once, or pass "
    "retain_graph=True to the first."
)
