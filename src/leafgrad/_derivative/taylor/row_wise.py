"""Kinds of operations that keep rows apart whatever they hold, for a proof without a replay."""

from __future__ import annotations

from leafgrad import _autograd

# What computes each element from the same element of its one input.
_ALONE = frozenset(
    f"{name}Backward{number}"
    for names, number in (
        ("Abs Alias Atan Clone Cos Cosh Elu Erf Exp Gelu Log LogSigmoid Mish Neg", 0),
        ("Pow Reciprocal Relu Rsqrt Sigmoid Silu Sin Sinh Softplus Sqrt Tan Tanh", 0),
        ("Add Div Mul Rsub Sub", 1),
    )
    for name in names.split()
)
# The same with two inputs, either of which may add axes to the other.
_TOGETHER = frozenset(f"{name}Backward0" for name in "Add Div Mul Sub".split())
# What multiplies rows by a matrix, and which of its inputs these rows are.
_BY_MATRIX = {"AddmmBackward0": 1, "MmBackward0": 0}


def keep_rows_apart(path: _autograd.Path, ndim: int, batch: int) -> bool:
    """Say whether the path to inputs with `ndim` axes, of which `batch` count rows, shows it.

    As long as nothing adds axes in front, the first axes of all that is computed count rows.
    """
    known: set[object] = {path.start}
    for node, edges in path.nodes.items():
        name = _autograd.node_name(node)
        if name in _BY_MATRIX and batch == 1:
            rows = _BY_MATRIX[name]
            if not known.isdisjoint(edges[:rows] + edges[rows + 1 :]):
                return False
        elif name in _TOGETHER:
            if len(_autograd.output_types(node)[0].shape) != ndim:
                return False
        elif name not in _ALONE:
            return False
        known.add((node, 0))
    return True
