"""A summary of the numbers in a tensor, which keeps no tensor alive."""

import cmath
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch

from leafgrad import _autograd
from leafgrad._messages import message

Number = bool | int | float | complex
NotFinite = Literal["NaN", "infinity"]
MOST_NUMBERS = 6


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class TensorSummary:
    """The numbers of a tensor, as far as a few say what is in it.

    Two that show the same are equal, also where they show NaN. Where nothing could be read,
    `unread` says why, there are no numbers, no mean and no norm, and nothing was counted.

    Attributes:
        shape: The sizes.
        dtype: The data type.
        numbers: All elements, row by row, where there are no more than six; else None.
        mean: The mean of the finite elements; None where there is none.
        norm: The square root of the sum of their squares; None where there is none.
        nans: How many elements are NaN.
        infinities: How many elements are infinite.
        unread: Why no element was read, as in ``"its storage holds nothing"`` or ``"it is a
            DTensor"``; None where they were.

    Example:
        >>> import torch
        >>> from leafgrad import trace_graph
        >>> x = torch.tensor([3.0, 4.0], requires_grad=True)
        >>> print(trace_graph(x.exp(), values=True).leaves[0].values[0])
        [3, 4]
    """

    shape: tuple[int | str, ...] | None
    dtype: torch.dtype
    numbers: tuple[Number, ...] | None
    mean: Number | None
    norm: float | None
    nans: int
    infinities: int
    unread: str | None = None

    @property
    def is_finite(self) -> bool:
        """Whether the elements were read, and none is NaN or infinite."""
        return self.unread is None and self.not_finite is None

    @property
    def not_finite(self) -> NotFinite | None:
        """The worse of what was found, NaN or else infinity; None where neither was."""
        if self.nans:
            return "NaN"
        return "infinity" if self.infinities else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorSummary) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __str__(self) -> str:
        if self.unread is not None:
            return message("unread.text", reason=self.unread)
        if self.numbers is None:
            return message("lists.facts").join(_facts(self))
        numbers = [*map(number_text, self.numbers)]
        return numbers[0] if len(numbers) == 1 else f"[{', '.join(numbers)}]"


def _facts(summary: TensorSummary, digits: int = 5) -> Iterator[str]:
    if summary.mean is not None:
        yield message("summary.mean", value=number_text(summary.mean))
    if summary.norm is not None:
        yield message("summary.norm", value=f"{summary.norm:.{digits}g}")
    if summary.nans:
        yield f"{summary.nans} nan"
    if summary.infinities:
        yield f"{summary.infinities} inf"


def worst_of(summaries: Iterable[TensorSummary | None]) -> NotFinite | None:
    """Return NaN if any tensor has one, else infinity if any has one, else None."""
    kinds = {summary.not_finite for summary in summaries if summary is not None}
    return "NaN" if "NaN" in kinds else "infinity" if "infinity" in kinds else None


def brief_text(summary: TensorSummary) -> str:
    """Return a single number, or the norm of several and how many are not finite."""
    if summary.unread is not None:
        return message("unread.brief")
    if summary.numbers is not None and len(summary.numbers) == 1:
        return number_text(summary.numbers[0])
    return message("lists.facts").join(_facts(replace(summary, mean=None), digits=2))


def norms_text(summaries: Iterable[TensorSummary | None]) -> str:
    """Return the range of the norms of several tensors, and whether any is not finite."""
    read = [one for one in summaries if one is not None and one.unread is None]
    norms = [one.norm for one in read if one.norm is not None]
    ends = [f"{norm:.2g}" for norm in (min(norms), max(norms))] if norms else []
    worst = worst_of(read)
    return message("lists.to").join(dict.fromkeys([*ends[:1], worst] if worst else ends))


def number_text(value: Number) -> str:
    """Return a number with five digits, an integer with all digits."""
    return str(value) if isinstance(value, int) else f"{value:.5g}"


def summary_of(tensor: torch.Tensor) -> TensorSummary | None:
    """Read a tensor's numbers, or why they cannot be read; None on ``meta``.

    This is the one thing that asks for the data, so on a GPU it waits for the work that is queued.
    """
    unread = _autograd.why_unread(tensor)
    if unread is not None:
        if _autograd.plain(tensor, "is_meta"):
            return None
        shape, dtype = _autograd.shape(tensor), _autograd.plain(tensor, "dtype")
        return TensorSummary(shape=shape, dtype=dtype, unread=unread, **_NOTHING)
    with _autograd.below_autograd():
        facts = _of_few(tensor) if tensor.numel() <= MOST_NUMBERS else _of_many(tensor)
        return TensorSummary(shape=tuple(tensor.shape), dtype=tensor.dtype, **facts)


_NOTHING: dict[str, Any] = {"numbers": None, "mean": None, "norm": None, "nans": 0, "infinities": 0}


def _of_few(tensor: torch.Tensor) -> dict[str, Any]:
    """Summarize in Python, which is faster for few numbers."""
    numbers = tuple(tensor.flatten().tolist())
    finite = [number for number in numbers if cmath.isfinite(number)]
    return {
        "numbers": numbers,
        "mean": sum(finite) / len(finite) if finite else None,
        "norm": math.hypot(*map(abs, finite)) if finite else None,
        "nans": sum(map(cmath.isnan, numbers)),
        "infinities": sum(map(cmath.isinf, numbers)),
    }


def _of_many(tensor: torch.Tensor) -> dict[str, Any]:
    """Summarize with PyTorch, in scaled numbers if a square would leave the range.

    A norm well within the range also says that all elements are finite.
    """
    dtype = torch.float64 if tensor.dtype == torch.float64 else torch.float32
    if tensor.dtype.is_complex:
        dtype = torch.promote_types(tensor.dtype, torch.complex64)
    wide = tensor.detach().to(dtype)  # every reduction supports these types
    norm = torch.linalg.vector_norm(wide).item()
    if _SAFE_NORMS[0] < norm < _SAFE_NORMS[1]:
        return _NOTHING | {"mean": wide.mean().item(), "norm": norm}
    if math.isfinite(largest := wide.abs().max().item()):
        return _NOTHING | _mean_and_norm(wide, largest)
    finite = wide[wide.isfinite()]
    known = _mean_and_norm(finite, finite.abs().max().item()) if finite.numel() else {}
    counts = {"nans": int(wide.isnan().sum()), "infinities": int(wide.isinf().sum())}
    return _NOTHING | known | counts


_SAFE_NORMS = (2.0**-40, 2.0**60)
"""Between these, squares of what counts are normal numbers of float32, and sums do not overflow."""


def _mean_and_norm(finite: torch.Tensor, largest: float) -> dict[str, Any]:
    scale = max(2.0 ** (math.frexp(largest)[1] - 1), torch.finfo(finite.dtype).tiny)
    scaled = finite / scale
    return {"mean": scaled.mean().item() * scale, "norm": scaled.norm().item() * scale}
