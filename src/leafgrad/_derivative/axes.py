"""How the axes of outputs and inputs belong together: batch, columns, channels."""

from typing import NamedTuple

from torch import Size, Tensor


class Axes(NamedTuple):
    """Rows are what the batch counts; a row of inputs has columns, a row of outputs channels.

    Elementwise, each element is a row of its own: one column, one channel.
    """

    batch: Size
    columns: int
    is_elementwise: bool


def read_axes(outputs: Tensor, inputs: Tensor, *, by_column: bool) -> Axes:
    """Tell rows from columns and channels, or raise where the shapes do not fit together.

    Equal shapes mean elementwise, unless derivatives are asked for `by_column` or there is one.
    """
    shape, whole = outputs.shape, inputs.shape
    has_columns = bool(whole)
    by_column = has_columns and (by_column or whole[-1] == 1)
    if shape == whole and not by_column:
        return Axes(batch=whole, columns=1, is_elementwise=True)
    batch = whole[:-1]
    if has_columns and shape[: len(batch)] == batch:
        return Axes(batch=batch, columns=whole[-1], is_elementwise=False)
    raise ValueError(
        "outputs must have the shape of inputs (elementwise), or (*batch, *channels) where "
        f"inputs has (*batch, columns), but outputs has the shape {tuple(outputs.shape)} and "
        f"inputs {tuple(inputs.shape)}{_cure(tuple(shape), tuple(batch))}"
    )


def _cure(shape: tuple[int, ...], batch: tuple[int, ...]) -> str:
    """Say what to do where it shows how the shapes came about; `batch` is that of inputs."""
    if not shape:
        return "; pass what has a value for each row, before mean() or sum() made one number of it"
    if shape == batch[: len(shape)]:
        return f"; for one value of all that follows, compute it from inputs.flatten({len(shape)})"
    if batch and shape[-len(batch) :] == batch:
        return "; the axes of the batch come first: transpose outputs"
    return ""
