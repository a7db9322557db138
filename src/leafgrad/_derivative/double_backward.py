"""Whether a derivative carries its own graph, so that it can be differentiated again.

PyTorch's own formulas record themselves, or complain where they cannot. The backward of a custom
function may leave out a part and say nothing: the derivative then lacks a term, or has no graph
at all, which looks just as the derivative of a linear function does. So the backward of each
custom function on the way, which makes ``B(g, k)`` of a gradient g and the tensors k that it keeps,
is run once more by itself, with g of ones that require grad: all is recorded where the graph of
what it gives leads to every k.
"""

from collections.abc import Collection, Iterable, Iterator

from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._derivative.taylor import OWN_FUNCTIONS
from leafgrad._derivative.wrong_formulas import WRONG_FORMULAS
from leafgrad._messages import message

WRITE_OUT = "derivative.graph.write-out"


def check_backwards_exist(path: Collection[Node]) -> None:
    """Raise if something on `path` has no backward that can be run as often as is needed.

    What an operator without a backward gives looks like zeros.
    """
    if any(map(_autograd.is_compiled, path)):
        raise RuntimeError(message("derivative.graph.compiled"))
    if any(map(_autograd.lacks_formula, path)):
        raise RuntimeError(message("derivative.graph.no-operator-formula"))


def check_formulas(path: Iterable[Node], order: int, *, create_graph: bool) -> None:
    """Raise if a formula of PyTorch for something on `path` is wrong for derivatives of `order`.

    A derivative that carries its graph is differentiated once more, so it takes one order more.
    """
    for name, highest in wrong_formulas_on(path, order + create_graph):
        key = "wrong-formula-later" if order <= highest else "wrong-formula"
        raise RuntimeError(message(f"derivative.graph.{key}", node=name, order=highest + 1))


def wrong_formulas_on(path: Iterable[Node], order: int) -> Iterator[tuple[str, int]]:
    """Yield the nodes whose formulas are wrong for derivatives of `order`, and up to which not."""
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


_RIGHT: set[type[Node]] = set()  # kinds of PyTorch's own without a row in `WRONG_FORMULAS`


def check_double_backward(path: Iterable[Node], order: int) -> None:
    """Raise if the derivative of this order, taken along `path`, may lack a part of its graph."""
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


# Kinds of PyTorch's own whose formulas were seen to record all, as they do at each node.
_COMPLETE: set[type[Node]] = set()


def missing_part(node: Node) -> str | None:
    """Return what the node's backward may fail to record, None if it records everything.

    As a key below ``derivative.double-backward`` in the messages.
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
    """Return what the backward of a custom function fails to record, None if nothing."""
    # Run the backward once, and collect the edges of the graph that it records.
    kept = {_autograd.edge_by_use(tensor) for tensor in _autograd.kept_tensors(node)}
    starts = list(map(_autograd.edge_by_use, _autograd.backward_alone(node)))
    used = _edges(starts, {*kept, *_autograd.next_functions(node)})
    # That graph must lead to each tensor that the function keeps.
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
    """Return the edges of the graph behind `starts`, these included, no further than `ends`."""
    edges: set[_autograd.Edge] = set()
    ahead = [start for start in starts if start is not None]
    while ahead:
        edge = ahead.pop()
        if edge not in edges and edge not in ends:
            successors = _autograd.next_functions(edge[0])
            ahead.extend((node, number) for node, number in successors if node is not None)
        edges.add(edge)
    return edges
