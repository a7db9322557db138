"""Check whether derivatives have a complete graph, so that they can be differentiated again.

With ``create_graph=True``, autograd tracks the operations of a backward. PyTorch's own backward
formulas then create a complete graph or raise an error. The backward of a custom function may
silently leave out a part. Then the derivative lacks a term in its graph, or has no graph at all and
looks like the constant derivative of a linear function.

So the backward of each custom function on the path is run once more, separately. It computes ``B(g,
k)`` from a gradient g and the saved tensors k. Here g is a sample gradient: distinct numbers that
require grad. The graph is complete if it leads from the result to every k.
"""

from collections.abc import Collection, Iterable, Iterator

from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._derivative.taylor import OWN_FUNCTIONS
from leafgrad._derivative.wrong_formulas import WRONG_FORMULAS
from leafgrad._messages import message

WRITE_OUT = "derivative.graph.write-out"


def check_backwards_exist(path: Collection[Node]) -> None:
    """Raise an error if a node on `path` has no backward or one that cannot be differentiated.

    An operator without a backward would silently give zero derivatives.
    """
    if any(map(_autograd.is_compiled, path)):
        raise RuntimeError(message("derivative.graph.compiled"))
    if any(map(_autograd.lacks_formula, path)):
        raise RuntimeError(message("derivative.graph.no-operator-formula"))


def check_formulas(path: Iterable[Node], order: int, *, create_graph: bool) -> None:
    """Raise an error if a node on `path` has a backward formula that is wrong for this `order`.

    With `create_graph`, the derivative may be differentiated again, so the formula must be right
    for the next order too.
    """
    for name, highest in wrong_formulas_on(path, order + create_graph):
        key = "wrong-formula-later" if order <= highest else "wrong-formula"
        raise RuntimeError(message(f"derivative.graph.{key}", node=name, order=highest + 1))


def wrong_formulas_on(path: Iterable[Node], order: int) -> Iterator[tuple[str, int]]:
    """Yield a pair for each node on `path` whose backward formula is wrong for this `order`.

    The pair is the node's name and the highest order for which the formula is right.
    """
    if _RIGHT.issuperset(map(type, path)):
        return
    for node in path:
        name = _autograd.node_name(node)
        highest, flag = WRONG_FORMULAS.get(name, (order, None))
        if highest < order and (
            flag is None or not _autograd.keeps(node, flag) or _autograd.kept(node, flag)
        ):
            yield name, highest
        elif name not in WRONG_FORMULAS and _autograd.has_lasting_type(node):
            _RIGHT.add(type(node))


# A cache of the node types that were looked up and are not in `WRONG_FORMULAS`.
_RIGHT: set[type[Node]] = set()


def check_double_backward(path: Iterable[Node], order: int) -> None:
    """Raise an error if the backward of a node on `path` may not create its whole graph.

    Autograd tracks a backward with ``create_graph=True``, but not what it does to detached tensors.
    `order` is the order of the derivative that needs this graph; it is part of the error message.
    """
    if _COMPLETE.issuperset(map(type, path)):
        return
    for node in path:
        missing = None if type(node) in _COMPLETE else missing_part(node)
        if missing is not None:
            words = {"order": order, "node": _autograd.node_name(node)}
            cure = message(WRITE_OUT)
            missing = message(f"derivative.double-backward.{missing}", help=cure)
            refusal = message("derivative.double-backward.refusal", missing=missing, **words)
            raise RuntimeError(refusal)
        if _autograd.is_own_formula(node):
            _COMPLETE.add(type(node))


# A cache of PyTorch's node types whose formulas create a complete graph with `create_graph=True`.
# If one node of a type does, all nodes of this type do.
_COMPLETE: set[type[Node]] = set()


def missing_part(node: Node) -> str | None:
    """Return why the graph of a node's backward may be incomplete, or None if it is complete.

    The graph is the one that autograd creates with ``create_graph=True``. The reason is a key below
    ``derivative.double-backward`` in the messages.
    """
    if _autograd.is_own_formula(node):
        return "no-formula" if _autograd.is_once_differentiable(node) else None
    if _autograd.is_scripted(node):
        return None
    if _autograd.is_write_into_view(node):
        return "hidden" if _autograd.hides_custom_function(node) else None
    function = _autograd.forward_class(node)
    if function in OWN_FUNCTIONS:
        return None
    return "unknown" if function is None else _missing_in_custom_function(node)


def _missing_in_custom_function(node: Node) -> str | None:
    """Return why the graph of a custom function's backward is incomplete, None if it is not.

    The graph is the one that autograd creates with ``create_graph=True``. The reason is a key below
    ``derivative.double-backward`` in the messages.
    """
    # Run the backward once, and collect the edges of the graph that autograd creates.
    kept = {_autograd.edge_by_use(tensor) for tensor in _autograd.kept_tensors(node)}
    starts = list(map(_autograd.edge_by_use, _autograd.sample_gradients(node)))
    used = _edges(starts, {*kept, *_autograd.next_functions(node)})
    # That graph must lead to each tensor that the function saved. Otherwise the next derivative
    # would lack the part that depends on this tensor.
    if any(_autograd.is_refusal(user) for user, _ in used):
        return "once"
    if None in starts:
        return "nothing"
    if _autograd.keeps_array(node):
        return "array"
    if None in kept:
        return "no-graph"
    return None if kept <= used else "unused"


def _edges(
    starts: Iterable[_autograd.Edge | None], ends: Collection[object]
) -> set[_autograd.Edge]:
    """Return `starts` and all edges reachable from them. The walk stops at `ends`."""
    edges: set[_autograd.Edge] = set()
    ahead = [start for start in starts if start is not None]
    while ahead:
        edge = ahead.pop()
        if edge not in edges and edge not in ends:
            successors = _autograd.next_functions(edge[0])
            ahead.extend((node, number) for node, number in successors if node is not None)
        edges.add(edge)
    return edges
