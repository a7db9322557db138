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

WITHOUT_FORMULA = "for whose gradient PyTorch has no derivative formula"
WRITE_OUT = (
    "write the operation out in simpler ones, such as a distance by (a - b).square().sum(-1).sqrt()"
)
_HIDDEN = (
    "a write into a view that hides a custom function, so that what this keeps cannot be seen: "
    "apply the function to a copy, as in view.copy_(Function.apply(view.clone()))"
)
_ONCE = "whose backward is marked @once_differentiable"


def check_backwards_exist(path: Collection[Node]) -> None:
    """Raise if something on `path` has no backward that can be run as often as is needed.

    What an operator without a backward gives looks like zeros.
    """
    if any(map(_autograd.is_compiled, path)):
        raise RuntimeError(
            "outputs must come from the original module or function, not from one that "
            "torch.compile made, whose backward can be run, and differentiated, only once: "
            "compute outputs with the original, or pass that as outputs, to be called"
        )
    if any(map(_autograd.lacks_formula, path)):
        raise RuntimeError(
            "outputs must be differentiable with respect to inputs, but was computed from it by an "
            "operator that has no derivative formula: register one by "
            "torch.library.register_autograd"
        )


def check_formulas(path: Iterable[Node], order: int, *, create_graph: bool) -> None:
    """Raise if a formula of PyTorch for something on `path` is wrong for derivatives of `order`.

    A derivative that carries its graph is differentiated once more, so it takes one order more.
    """
    for name, highest in wrong_formulas_on(path, order + create_graph):
        without = "; with create_graph=False, this derivative is right" if order <= highest else ""
        raise RuntimeError(
            f"outputs was computed through {name}, whose derivatives from order {highest + 1} on "
            "are wrong in PyTorch: write the operation out in simpler ones, such as a "
            f"normalisation by (x - mean) / (variance + eps).sqrt(){without}"
        )


def wrong_formulas_on(path: Iterable[Node], order: int) -> Iterator[tuple[str, int]]:
    """Yield the nodes whose formulas are wrong for derivatives of `order`, and up to which not."""
    for node in path:
        name = _autograd.node_name(node)
        highest, flag = WRONG_FORMULAS.get(name, (order, None))
        if highest < order and (
            flag is None or not _autograd.keeps(node, flag) or _autograd.kept(node, flag)
        ):
            yield name, highest


def check_double_backward(path: Iterable[Node], order: int) -> None:
    """Raise if the derivative of this order, taken along `path`, may lack a part of its graph."""
    if _COMPLETE.issuperset(map(type, path)):
        return
    for node in path:
        missing = None if type(node) in _COMPLETE else missing_part(node)
        if missing is not None:
            raise RuntimeError(
                f"a derivative of order {order} that is differentiated again, for a higher order "
                "or with create_graph=True, must carry its whole graph, but outputs was computed "
                f"through {_autograd.node_name(node)}, {missing}. With create_graph=False there "
                f"is an answer up to order {order}"
            )
        if _autograd.is_own_formula(node):
            _COMPLETE.add(type(node))


# Kinds of PyTorch's own whose formulas were seen to record all, as they do at each node.
_COMPLETE: set[type[Node]] = set()


def missing_part(node: Node) -> str | None:
    """Return what the node's backward may fail to record, None where it records all."""
    if _autograd.is_own_formula(node):
        is_once = _autograd.is_once_differentiable(node)
        return f"{WITHOUT_FORMULA}: {WRITE_OUT}" if is_once else None
    if _autograd.is_scripted(node):
        return None
    if _autograd.is_write_into_view(node):
        return _HIDDEN if _autograd.hides_custom_function(node) else None
    function = _autograd.forward_class(node)
    if function in OWN_FUNCTIONS:
        return None
    if function is None:
        return (
            "a node of which leafgrad cannot tell what its backward records: compute this part by "
            "PyTorch's operations on single tensors"
        )
    return _missing_in_custom_function(node)


def _missing_in_custom_function(node: Node) -> str | None:
    """Return what the backward of a custom function fails to record, None where it records all."""
    kept = {_autograd.edge_by_use(tensor) for tensor in _autograd.kept_tensors(node)}
    starts = list(map(_autograd.edge_by_use, _autograd.backward_alone(node)))
    used = _edges(starts, {*kept, *_autograd.next_functions(node)})
    if any(_autograd.is_refusal(user) for user, _ in used):
        return f"a custom function {_ONCE}"
    if None in starts:
        return "a custom function whose backward records nothing: write it in recorded operations"
    if _autograd.keeps_array(node):
        return (
            "a custom function that keeps an array of another library, so that what this array "
            "owes to inputs is not recorded: keep a tensor in its place"
        )
    if None in kept:
        return (
            "a custom function that keeps a tensor without a graph, so that what this tensor owes "
            "to inputs is not recorded: let the function return it as an output as "
            "well or, if it is a constant, let it require grad"
        )
    if not kept <= used:
        return (
            "a custom function whose backward does not record how it uses a tensor that it keeps: "
            "write backward in recorded operations on saved tensors"
        )
    return None


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
