"""Graphs that an earlier backward pass has freed."""

import ast
from collections.abc import Collection, Iterator
from typing import NamedTuple

from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._diagnosis.diagnosis import Diagnosis, Edit, Severity, diagnosis, spans
from leafgrad._diagnosis.edits import insert, parse, pass_create_graph, statement_at
from leafgrad._diagnosis.situation import LEAF, Situation, check, is_custom, number_of
from leafgrad._graph.nodes import Source
from leafgrad._messages import message
from leafgrad._record.log import Pass
from leafgrad._record.module_paths import ModuleCall


class Use(NamedTuple):
    """The use of a result that was computed before an earlier backward pass.

    Attributes:
        made: The node of the result.
        by: The node of the operation that uses it after that pass.
    """

    made: Node
    by: Node


@check("freed")
def find_second_backward(situation: Situation) -> Iterator[Diagnosis]:
    """Find nodes that an earlier backward pass freed, and how the outputs reach them."""
    freed = [node for node in situation.live if _has_saved(node, {"freed"})]
    oldest = min(map(number_of, freed), default=LEAF)
    is_older = any(number < oldest for number in situation.failing)
    if not freed or (is_older and situation.log.has_failed):
        return  # A failed attempt at this backward pass freed the nodes, not an earlier pass.
    situation.failing.update(map(number_of, freed))
    yield FreedGraph(situation, freed).finding()


class FreedGraph:
    """A graph of which a part is freed, and the backward passes that freed it."""

    def __init__(self, situation: Situation, freed: list[Node]) -> None:
        """Find the backward passes that ran after the oldest freed node was created.

        Nodes newer than the last pass were freed by a failed attempt at the current one.
        """
        self.situation, self._source = situation, situation.source_of
        self.graph = {node: _autograd.next_functions(node) for node in situation.live}
        after = situation.log.backwards_after
        newest = max((one.number for one in after(min(map(number_of, freed)))), default=0)
        self.freed = [node for node in freed if number_of(node) < newest] or freed
        self.passes = after(number_of(self.freed[0]))

    def finding(self) -> Diagnosis:
        """Return the finding about the freed graph.

        It is only a note if the backward pass of this loss has already run.
        """
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
        """Return the edit that keeps the graph of a gradient from which the loss was computed.

        `variant` is that of the finding, and `at` the call that freed the graph.
        """
        newest = number_of(next(iter(self.graph)))
        is_gradient = variant == "by-grad" and newest >= self.passes[-1].number
        return pass_create_graph(at) if is_gradient else ()

    def _at(self, one: Pass) -> Source | None:
        """Return the source line of the backward pass `one`; None if unknown."""
        return self.situation.log.source_at(one.place)

    def _cause(self) -> tuple[str, Use | None]:
        """Return the variant of the messages, and the use that leads to the freed part.

        The variant is the name of the cause, such as ``"carried"``; it selects the message texts.
        The use is None if no older result leads there.
        """
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

    def _use_since(self, since: int) -> Use | None:
        """Return the last use of an older result that leads to a freed node; None if there is none.

        Args:
            since: A sequence number. The result is older, and the operation that uses it is not.
        """
        leading = _leading_to(self.graph, self.freed)
        for by, successors in self.graph.items():  # The newest operations come first.
            for made, _ in successors if number_of(by) >= since else ():
                if made is not None and made in leading and number_of(made) < since:
                    return Use(made, by)
        return None

    def _variant_of(self, use: Use, since: int) -> str:
        """Return which variant of the `freed` messages fits a use of an older result.

        ``carried`` and ``running-sum``: each training step uses the result of the previous one.
        ``before-loop``: the result was computed once, before a loop. ``shared``: two losses use the
        same result.

        Args:
            use: The older result, and the operation that uses it.
            since: The sequence number at which the backward pass ran that freed the result.
        """
        if self._is_repeated(use.made, since):
            return "running-sum" if use.by in self._terms() else "carried"
        made, by = self._source(use.made), self._source(use.by)
        is_before_loop = made and by and self.situation.log.has_run_before(by, since)
        return "before-loop" if is_before_loop else "shared"

    def _is_repeated(self, made: Node, since: int) -> bool:
        """Return whether the code that computed the node `made` ran again later.

        `since` is the sequence number at which a backward pass ran: newer nodes have a higher one.
        The code is the module that computed the result, or the line if no module did.
        """
        source, module = self._source(made), self._module(made)
        newer = [node for node in self.graph if number_of(node) >= since]
        if module is not None:
            return any(self._module(node) == module for node in newer)
        return source is not None and any(self._source(node) == source for node in newer)

    def _terms(self) -> set[Node]:
        """Return the nodes that are added to the first output, directly or through further sums."""
        found: set[Node] = set()
        ahead = [next(iter(self.graph))]
        while ahead:
            node = ahead.pop()
            if node not in found and _autograd.node_name(node) in _ADDITIONS:
                found.add(node)
                ahead += [after for after, _ in self.graph[node] if after is not None]
        return found

    def _module(self, node: Node) -> ModuleCall | None:
        """Return the call of a module in which a node was created; None if no module ran."""
        return self.situation.log.module_of(number_of(node))


def _has_saved(node: Node, states: Collection[str]) -> bool:
    """Return whether a node saved something that is in one of these states."""
    return any(slot.state in states for slot in _autograd.saved_slots(node))


def _leading_to(graph: _autograd.LiveGraph, targets: Collection[Node]) -> set[Node]:
    """Return the targets and all nodes from which a path leads to one of them."""
    found = {*targets}
    for node in reversed([*graph]):
        if any(after in found for after, _ in graph[node]):
            found.add(node)
    return found


_ADDITIONS = {"AddBackward0", "SubBackward0", "SumBackward0", "MeanBackward0", "StackBackward0"}


def detach_before(
    source: Source | None, module: ModuleCall | None
) -> tuple[str | None, tuple[Edit, ...]]:
    """Return the code that detaches a carried state, and the edits that insert it.

    The state is the variable that a line such as ``state = cell(x, state)`` reads and assigns. If
    the line shows no state, the code is None. There are no edits if the state is a tuple, as in an
    LSTM, or may not be a tensor.

    Args:
        source: The line that uses the state.
        module: The call of the module that the line runs, if known.
    """
    statement = statement_at(source)
    if source is None or not isinstance(statement, ast.Assign | ast.AugAssign):
        return None, ()
    targets = [statement.target] if isinstance(statement, ast.AugAssign) else statement.targets
    stored = [node for one in targets for node in _variables(one)]
    loaded = {*map(ast.unparse, _variables(statement.value))}
    if isinstance(statement, ast.AugAssign):
        loaded.update(map(ast.unparse, stored))
    carried = [name for name in map(ast.unparse, stored) if name in loaded]
    if not carried:
        return None, ()
    is_tuple = len(carried) == 1 and module is not None and "LSTM" in module.kind
    form = "{0} = tuple(one.detach() for one in {0})" if is_tuple else "{0} = {0}.detach()"
    lines = [form.format(name) for name in carried]
    is_other = _starts_as_other({*carried}, source.file)
    return lines[0], () if is_other or is_tuple else insert(source, lines)


def _variables(expression: ast.expr) -> list[ast.expr]:
    """Return the variables and attributes in an expression, each as a whole."""
    found: list[ast.expr] = []
    ahead: list[ast.AST] = [expression]
    for node in ahead:
        if isinstance(node, ast.Name | ast.Attribute):
            found.append(node)
        else:
            ahead += ast.iter_child_nodes(node)
    return found


def _starts_as_other(names: set[str], file: str) -> bool:
    """Return whether a file sets one of the names to None or a number."""
    pairs: list[tuple[str, ast.expr | None]] = []
    for node in ast.walk(parse(file)):
        if isinstance(node, ast.Assign):
            pairs += ((ast.unparse(target), node.value) for target in node.targets)
        elif isinstance(node, ast.arguments):
            pairs += zip([one.arg for one in node.args][::-1], node.defaults[::-1], strict=False)
    return any(name in names and isinstance(value, ast.Constant) for name, value in pairs)
