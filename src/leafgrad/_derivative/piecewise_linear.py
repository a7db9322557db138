"""Why all derivatives above the first are zero where a network is piecewise linear."""

from leafgrad import _autograd
from leafgrad._derivative.problem import DerivativeProblem
from leafgrad._messages import message


def note_on_zeros(problem: DerivativeProblem, order: int) -> str:
    """Return a sentence that follows, if the graph proves that all derivatives of `order` are zero.

    It looks at kinds of nodes only, so a network may be piecewise linear without the sentence.
    """
    if problem.joined is not None:
        path = problem.joined.find_path(problem.outputs, allow_unused=True)
    else:
        path = _autograd.path_between(problem.outputs, problem.inputs)
    if order <= 1 or path is None:
        return ""
    bent: dict[str, None] = {}
    for node, successors in path.nodes.items():
        kind = _autograd.own_stem(_autograd.node_name(node))
        uses = sum(edge == path.start or edge[0] in path.nodes for edge in successors)
        if kind in _PIECEWISE:
            bent[kind.lower()] = None
        elif not (kind in _LINEAR or (kind in _PRODUCTS and uses == 1)):
            return ""
    key = "derivative.because.piecewise-linear" if bent else "derivative.because.linear"
    return message(key, kinds=", ".join(bent))


_PIECEWISE = set(
    "Abs AdaptiveMaxPool2D Amax Amin Clamp ClampMax ClampMin Hardshrink Hardsigmoid Hardtanh "
    "LeakyRelu Max MaxPool2DWithIndices Maximum Min Minimum PreluKernel Relu Softshrink Sort "
    "Threshold Topk Where".split()
)
_LINEAR = set(
    "Add Alias AsStrided AvgPool2D Cat Clone ConstantPadNd Diagonal Expand Flip Gather Index "
    "IndexSelect Mean Neg Permute Repeat ReshapeAlias Roll Select Slice Split Squeeze Stack Sub "
    "Sum T ToCopy Transpose Unbind Unfold UnsafeView Unsqueeze View".split()
)
_PRODUCTS = set("Addmm Addmv Baddbmm Bmm Convolution Dot Linear Mm Mul Mv".split())
