"""How the axes of outputs and inputs belong together: batch, columns, channels."""

from dataclasses import dataclass

from torch import Size, Tensor


@dataclass(frozen=True, kw_only=True)
class Axes:
    """Rows are what the batch counts; a row of inputs has columns, a row of outputs channels.

    Elementwise, each element is a row of its own: one column, one channel.
    """

    batch: Size
    columns: int
    is_elementwise: bool


def read_axes(outputs: Tensor, inputs: Tensor) -> Axes:
    """Tell rows from columns and channels, or raise where the shapes do not fit together.

    Equal shapes mean elementwise; with a last axis of one column, that is a batch of such rows.
    """
    batch, columns = inputs.shape[:-1], inputs.shape[-1:]
    if columns == (1,) and outputs.shape == inputs.shape:
        return Axes(batch=batch, columns=1, is_elementwise=False)
    if outputs.shape == inputs.shape:
        return Axes(batch=inputs.shape, columns=1, is_elementwise=True)
    if columns and outputs.shape[: len(batch)] == batch:
        return Axes(batch=batch, columns=columns[0], is_elementwise=False)
    raise ValueError(
        "outputs must have the shape of inputs (elementwise), or (*batch, *channels) where "
        f"inputs has (*batch, columns), but outputs has the shape {tuple(outputs.shape)} and "
        f"inputs {tuple(inputs.shape)}"
    )
