"""Whether each row of the outputs depends on its own row of the inputs alone.

One reverse pass differentiates all rows at once, which is right only where they are independent.
To see that they are, half of the rows of the outputs send NaN backward, and none of it may arrive
at the inputs of the other half: as NaN times anything is NaN, this finds all that the graph
carries from row to row, even where the derivative on that way happens to be zero just here.
Then the halves change roles. Within a half, rows send different powers of two, which scale what
arrives without rounding it; where anything else arrives, another row has had a part in it.
"""

import math
from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor
from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._derivative.arguments import Axes


def check_row_independence(
    outputs: Tensor, inputs: Tensor, axes: Axes, path: _autograd.Path
) -> None:
    """Raise if a row of `outputs` depends on another row of `inputs`; `path` may tell why."""
    row = _dependent_row(outputs, inputs, axes, path) if axes.batch.numel() > 1 else None
    if row is None:
        return
    if axes.is_elementwise:
        raise RuntimeError(_dependent_elements(inputs, row))
    raise RuntimeError(
        f"each row of outputs must depend on the same row of inputs only, but inputs{row} reaches "
        f"other rows as well, through {_mixer(path.nodes)}"
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
    """Find a row of `inputs` that hears from other rows of `outputs`, None where there is none.

    Takes four reverse passes, or one more or less with the number of rows, none of them recorded,
    nor seen by any hook.
    What arrives may differ by the root of eps, times the largest gradient: 1.5e-8 in float64,
    3.5e-4 in float32, 0.09 in bfloat16. NaN knows no tolerance.
    """
    rows = axes.batch.numel()
    pull = _vjp_of_rows(outputs, inputs, path, rows)
    own = pull(torch.ones(rows, dtype=torch.float64, device="cpu"))
    eps, tiny = _float_limits({outputs.dtype, inputs.dtype, *_dtypes(path.nodes)})
    largest = own.where(own.isfinite(), 0).abs().max()
    disturbed = torch.zeros_like(own, dtype=torch.bool)
    for sent in _probes(rows, tiny):
        arrived = pull(sent)
        weight = sent.to(own).unsqueeze(1)
        # Equal to the last bit, but for kernels that add in another order each time.
        tolerance = math.sqrt(eps) * largest + tiny / weight
        is_own = (arrived / weight - own).abs() <= tolerance
        disturbed |= ~is_own & own.isfinite() & weight.isfinite()
    return _first_row(disturbed.any(dim=1), axes.batch) if disturbed.any() else None


def _vjp_of_rows(
    outputs: Tensor, inputs: Tensor, path: _autograd.Path, rows: int
) -> Callable[[Tensor], Tensor]:
    """Give the gradient with respect to each row of inputs for one number per row of outputs."""
    # Unlike each other, or they may cancel out.
    channels = torch.linspace(1, 2, outputs.numel() // rows, dtype=torch.float64, device="cpu")

    def pull(sent: Tensor) -> Tensor:
        weight = torch.outer(sent, channels).to(outputs).reshape(outputs.shape)
        gradient = _autograd.unseen_gradient(outputs, inputs, path, weight)
        gradient = torch.zeros_like(inputs) if gradient is None else gradient
        return gradient.reshape(rows, -1)

    return pull


def _probes(rows: int, tiny: float) -> Iterator[Tensor]:
    """Yield what the rows send: NaN from either half first, then different powers of two.

    A power is a digit of the row's number, and there are as many digits as it takes, so any two
    rows differ in one of them. The powers stay within two thirds of the exponents there are.
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


def _float_limits(dtypes: Iterable[torch.dtype]) -> tuple[float, float]:
    """Give the largest eps and the largest smallest number of all `dtypes`."""
    limits = [torch.finfo(dtype) for dtype in dtypes]
    return max(limit.eps for limit in limits), max(limit.tiny for limit in limits)


def _dtypes(path: Iterable[Node]) -> Iterator[torch.dtype]:
    """Yield the dtypes in which gradients travel, such as autocast's."""
    dtypes = (output.dtype for node in path for output in _autograd.forward_outputs(node))
    return (dtype for dtype in dtypes if dtype.is_floating_point or dtype.is_complex)


def _first_row(is_disturbed: Tensor, batch: torch.Size) -> list[int]:
    number = is_disturbed.nonzero()[0, 0]
    return [int(place) for place in torch.unravel_index(number, batch)]
