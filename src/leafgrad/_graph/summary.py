"""Summarize the numbers in a tensor, without keeping the tensor alive."""

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
    """A short summary of the numbers in a tensor.

    Summaries that print the same are equal, even if they contain NaN.

    Attributes:
        shape: The sizes.
        dtype: The data type.
        numbers: All elements in row-major order if there are at most six, else None.
        mean: The mean of the finite elements. None if there are none.
        norm: The 2-norm of the finite elements. None if there are none.
        nans: The number of elements that are NaN.
        infinities: The number of infinite elements.
        unread: The reason why no element could be read, such as ``"its storage holds nothing"`` or
            ``"it is a DTensor"``, else None. If there is a reason, `numbers`, `mean` and `norm` are
            None, and the counts are 0.
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
        """Whether the elements were read and all of them are finite."""
        return self.unread is None and self.not_finite is None

    @property
    def not_finite(self) -> NotFinite | None:
        """``"NaN"`` if any element is NaN, else ``"infinity"`` if any is infinite, else None."""
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
    """Yield texts: the mean and norm as far as known, then the counts of NaNs and infinities."""
    if summary.mean is not None:
        yield message("summary.mean", value=number_text(summary.mean))
    if summary.norm is not None:
        yield message("summary.norm", value=f"{summary.norm:.{digits}g}")
    if summary.nans:
        yield f"{summary.nans} nan"
    if summary.infinities:
        yield f"{summary.infinities} inf"


def worst_of(summaries: Iterable[TensorSummary | None]) -> NotFinite | None:
    """Return ``"NaN"`` if any tensor contains one, else ``"infinity"`` if any does, else None."""
    kinds = {summary.not_finite for summary in summaries if summary is not None}
    return "NaN" if "NaN" in kinds else "infinity" if "infinity" in kinds else None


def brief_text(summary: TensorSummary) -> str:
    """Return a short text: the number, or the norm of several and counts of NaNs and infinities."""
    if summary.unread is not None:
        return message("unread.brief")
    if summary.numbers is not None and len(summary.numbers) == 1:
        return number_text(summary.numbers[0])
    return message("lists.facts").join(_facts(replace(summary, mean=None), digits=2))


def norms_text(summaries: Iterable[TensorSummary | None]) -> str:
    """Return the range of the norms of several tensors as text.

    If any tensor contains a NaN or infinity, this is the upper end of the range.
    """
    read = [one for one in summaries if one is not None and one.unread is None]
    norms = [one.norm for one in read if one.norm is not None]
    ends = [f"{norm:.2g}" for norm in (min(norms), max(norms))] if norms else []
    worst = worst_of(read)
    return message("lists.to").join(dict.fromkeys([*ends[:1], worst] if worst else ends))


def number_text(value: Number) -> str:
    """Return the number `value` as text with five digits; an integer with all digits."""
    return str(value) if isinstance(value, int) else f"{value:.5g}"


def summary_of(tensor: torch.Tensor) -> TensorSummary | None:
    """Return a summary of a tensor's numbers, or of the reason why they cannot be read.

    Return None for a tensor on ``meta``. On a GPU, this waits for all queued work.
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
    """Return the fields of a summary, computed in Python: this is faster for few numbers."""
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
    """Return the fields of a summary, computed by PyTorch.

    If squares might overflow or underflow, the numbers are scaled first. If the norm is well within
    the range, all elements are finite.
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
"""Between these norms, the squares that matter are normal float32 numbers, and sums are finite."""


def _mean_and_norm(finite: torch.Tensor, largest: float) -> dict[str, Any]:
    """Return the mean and norm of finite numbers, scaled so that squares cannot overflow."""
    scale = max(2.0 ** (math.frexp(largest)[1] - 1), torch.finfo(finite.dtype).tiny)
    scaled = finite / scale
    return {"mean": scaled.mean().item() * scale, "norm": scaled.norm().item() * scale}
