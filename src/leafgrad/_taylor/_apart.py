"""Kinds of operations that keep rows apart whatever they hold, for a proof without a replay."""

from __future__ import annotations

from collections.abc import Iterable

from torch.autograd.graph import Node

from leafgrad import _autograd

# What computes each element from the same element of each input.
_ELEMENTWISE = frozenset(
    f"{name}Backward{number}"
    for names, number in (
        ("Abs Add Alias Atan Clone Cos Cosh Div Elu Erf Exp Gelu Log LogSigmoid Mish Mul Neg", 0),
        ("Pow Reciprocal Relu Rsqrt Sigmoid Silu Sin Sinh Softplus Sqrt Sub Tan Tanh", 0),
        ("Add Div Mul Rsub Sub", 1),
    )
    for name in names.split()
)
# What multiplies rows by a matrix, and which of its inputs these rows are.
_BY_MATRIX = {"AddmmBackward0": 1, "MmBackward0": 0}


def keep_rows_apart(
    path: Iterable[Node], start: _autograd.Edge | None, ndim: int, batch: int
) -> bool:
    """Say whether the path to inputs with `ndim` axes, of which `batch` count rows, shows it.

    As long as nothing adds axes in front, the first axes of all that is computed count rows.
    """
    axes: dict[object, int] = {start: ndim}
    for node in path:
        name = _autograd.node_name(node)
        rows = _BY_MATRIX.get(name) if batch == 1 else None
        if rows is None and name not in _ELEMENTWISE:
            return False
        count = len(_autograd.output_types(node)[0].shape)
        for place, edge in enumerate(_autograd.next_functions(node)):
            if edge in axes and (axes[edge] != count or rows not in (None, place)):
                return False
        axes[node, 0] = count
    return True
