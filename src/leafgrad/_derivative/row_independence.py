"""Whether each row of the outputs depends on its own row of the inputs alone.

One reverse pass differentiates all n rows at once, which is right only where they are independent.
Where ``v[i, j]`` is the gradient of row i of the outputs (its channels added up with unlike
weights) with respect to row j of the inputs, a vector-Jacobian product with one number ``w[i]`` per
row of the outputs, a probe, gives in row j

    g(w)[j] = sum_i w[i] * v[i, j],   which is   w[j] * g(1)[j]   where v[i, j] = 0 for all i != j.

So ``g(w)[j] / w[j]`` is compared with ``g(1)[j]``, for probes of two kinds.
NaN from half of the rows: as NaN times anything, even zero, is NaN, none of it may arrive in the
rows of the other half, and this finds all that the graph carries from row to row, even where
``v[i, j]`` happens to be zero just here. Then the halves change roles.
Powers of two from the rows of one half: ``w[i] = 2**(digit - L // 2)``, with a digit of i to the
base L, one probe a digit. Any two rows differ in a digit, and then in what they send. A power of
two scales what arrives without rounding it, so that where row i has a part in row j, this shows as
``(w[i] / w[j] - 1) * v[i, j]``.
"""

import math
from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor
from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._derivative.arguments import Axes
from leafgrad._derivative.taylor import OWN_FUNCTIONS


def may_join_rows_later(path: Iterable[Node]) -> bool:
    """Return whether a backward on `path` may join rows that outputs keep apart.

    That of a custom function need not be the derivative of its forward.
    """
    return any(_autograd.forward_class(node) not in _AS_FORWARD for node in path)


# Of what makes a node: no custom function, or one of ours.
_AS_FORWARD = {None, *OWN_FUNCTIONS}


def check_derivative(
    derivative: Tensor, inputs: Tensor, axes: Axes, path: _autograd.Path, order: int
) -> None:
    """Raise if a row of a `derivative` of this order depends on another row of `inputs`.

    The shape of `derivative` is ``batch``. It is asked where its path `may_join_rows_later`.
    """
    row = _dependent_row(derivative, inputs, axes, path) if axes.batch.numel() > 1 else None
    if row is not None:
        raise RuntimeError(
            "each row of a derivative that is differentiated again must depend on the same row of "
            f"inputs only, but in that of order {order} inputs{row} reaches other rows as well: "
            "write the backward of each custom function so that it computes each row of the "
            f"gradient from its own row, or ask for order {order} alone"
        )


def check_row_independence(
    outputs: Tensor, inputs: Tensor, axes: Axes, path: _autograd.Path
) -> None:
    """Raise if a row of `outputs` depends on another row of `inputs`; `path` may tell why.

    The shapes of `outputs` and `inputs` are ``(*batch, *channels)`` and ``(*batch, columns)``, or
    both ``batch`` where `axes` are elementwise.
    """
    if axes.batch.numel() == 1:
        return
    if _autograd.is_without_values(inputs):
        raise RuntimeError(_UNSEEN)
    row = _dependent_row(outputs, inputs, axes, path)
    if row is None:
        return
    if axes.is_elementwise:
        raise RuntimeError(_dependent_elements(inputs, row))
    raise RuntimeError(
        f"each row of outputs must depend on the same row of inputs only, but inputs{row} reaches "
        f"other rows as well, through {_mixer(path.nodes)}"
    )


_UNSEEN = (
    "each row of outputs must depend on the same row of inputs only, which the graph does not "
    "prove here, and where code is compiled there are no numbers to try it with: compute outputs "
    "by operations that have rules (explain_derivative, called where nothing is compiled, names "
    "what has none)"
)


def _dependent_elements(inputs: Tensor, element: list[int]) -> str:
    return (
        "where inputs has the very shape of outputs, each element of outputs must depend on the "
        f"same element of inputs only, but inputs{element} reaches other elements as well; if "
        f"inputs of shape {tuple(inputs.shape)} holds rows with as many columns as outputs has "
        "channels, order must be a multi-index, with a count for each column"
    )


def _mixer(path: Iterable[Node]) -> str:
    if any(map(_autograd.is_training_batch_norm, path)):
        return "BatchNorm in training mode: call eval() on the model and compute outputs again"
    return (
        "something like a mean over the batch, a normalisation by it or a reordering of it: "
        "compute each row of outputs from its own row of inputs, or pass one row at a time"
    )


def _dependent_row(
    outputs: Tensor, inputs: Tensor, axes: Axes, path: _autograd.Path
) -> list[int] | None:
    """Return the first row of `inputs` that other rows of `outputs` depend on, None without one.

    Takes four reverse passes, or one more or less with the number of rows, none of them recorded,
    nor seen by any hook.
    What arrives may differ by the root of eps, times the largest gradient: 1.5e-8 in float64,
    3.5e-4 in float32, 0.09 in bfloat16. NaN knows no tolerance.
    """
    rows = axes.batch.numel()
    vjp = _vjp_of_rows(outputs, inputs, path, rows)
    own = vjp(torch.ones(rows, dtype=torch.float64, device="cpu"))
    eps, tiny = _coarsest_limits(outputs, inputs, path)
    largest = own.where(own.isfinite(), 0).abs().max()
    is_dependent = torch.zeros_like(own, dtype=torch.bool)
    for probe in _probes(rows, tiny):
        arrived = vjp(probe)
        weight = probe.to(own).unsqueeze(1)
        # Equal to the last bit, but for kernels that add in another order each time.
        tolerance = math.sqrt(eps) * largest + tiny / weight
        is_own = (arrived / weight - own).abs() <= tolerance
        is_dependent |= ~is_own & own.isfinite() & weight.isfinite()
    if not is_dependent.any():
        return None
    first = is_dependent.any(dim=1).nonzero()[0, 0]
    return [int(place) for place in torch.unravel_index(first, axes.batch)]


def _vjp_of_rows(
    outputs: Tensor, inputs: Tensor, path: _autograd.Path, rows: int
) -> Callable[[Tensor], Tensor]:
    """Return the function that maps a probe w of shape ``(rows,)`` to g(w), ``(rows, columns)``."""
    # Unlike each other, or they may cancel out.
    channels = torch.linspace(1, 2, outputs.numel() // rows, dtype=torch.float64, device="cpu")

    def vjp(probe: Tensor) -> Tensor:
        weight = torch.outer(probe, channels).to(outputs).reshape(outputs.shape)
        with _autograd.without_tangents():
            gradient = _autograd.unseen_gradient(outputs, inputs, path, weight)
        gradient = torch.zeros_like(inputs) if gradient is None else gradient
        return gradient.reshape(rows, -1)

    return vjp


def _probes(rows: int, tiny: float) -> Iterator[Tensor]:
    """Yield probes of shape ``(rows,)`` and dtype float64, as the module describes them.

    NaN from either half first, beside the powers of the lowest digit, then those of other digits.
    The powers stay within two thirds of the exponents that there are down to `tiny`.
    """
    number = torch.arange(rows, device="cpu")
    is_even = (number + number // 16) % 2 == 0  # shifted, or rows 2 apart would be alike
    levels = round(-math.log2(tiny)) * 2 // 3
    weight = _power_of_two(number % levels, levels)
    yield weight.masked_fill(is_even, math.nan)
    yield weight.masked_fill(~is_even, math.nan)
    while (number := number // levels).any():
        yield _power_of_two(number % levels, levels)


def _power_of_two(level: Tensor, levels: int) -> Tensor:
    return torch.exp2((level - levels // 2).double())


def _coarsest_limits(outputs: Tensor, inputs: Tensor, path: _autograd.Path) -> tuple[float, float]:
    """Return the largest eps and the largest smallest normal number of what gradients travel in.

    Those are the dtypes of both ends and of what was made on the way, such as autocast's.
    """
    made = {output.dtype for node in path.nodes for output in _autograd.forward_outputs(node)}
    dtypes = {outputs.dtype, inputs.dtype, *made}
    limits = [torch.finfo(t) for t in dtypes if t.is_floating_point or t.is_complex]
    return max(limit.eps for limit in limits), max(limit.tiny for limit in limits)
