"""Rules for `grid_sample`: an image ``[N, C, *sizes]`` interpolated at points between its pixels.

Along each axis, let p be the position of a point in pixels, and ``t = p - floor(p)``. The weights
of the neighbouring pixels are polynomials in t. The result is

    sum over pixels of pixel * product over axes of weight(t)

Both the image and the points may have a series. In bicubic mode, the polynomials are those of Keys,
Cubic Convolution Interpolation for Digital Image Processing, 1981. If a point coincides with a
pixel, where a weight has a kink, the derivative is the one on the side of the next pixel, as in
PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import reduce
from itertools import product
from typing import NamedTuple

import torch
from torch import Tensor

from leafgrad._derivative.taylor.jet import Jet
from leafgrad._derivative.taylor.rule import Rule, Step
from leafgrad._derivative.taylor.series import Series

# The numbers under which nodes save the interpolation mode and the padding mode.
_LINEAR, _NEAREST, _CUBIC = range(3)
_ZEROS, _BORDER, _REFLECTION = range(3)

_KEYS = -0.75  # PyTorch's value of the free parameter of the cubic weights


class _Pixel(NamedTuple):
    """One neighbouring pixel of each point, along one axis.

    Attributes:
        place: The index of the pixel along the axis, ``[N, *points]``.
        is_there: Whether the pixel is inside the image, ``[N, *points]``. Outside, it is zero.
        weight: The weight of the pixel, ``[N, *points]``; None means 1.
    """

    place: Tensor
    is_there: Tensor
    weight: Jet | None


class _Axis(NamedTuple):
    """An axis of an image, with the options that convert coordinates to pixels."""

    size: int
    padding: int
    aligns_corners: bool

    def places(self, grid: Jet) -> Jet:
        """Convert coordinates from -1 to 1, ``[N, *points]``, to pixel positions."""
        if self.aligns_corners:
            return (grid + 1) * ((self.size - 1) / 2)
        return (grid + 1) * (self.size / 2) - 0.5

    def inside(self, place: Jet) -> Jet:
        """Move positions outside the image into it, as the padding mode requires, elementwise.

        `place` contains the positions along one axis.
        """
        if self.padding == _ZEROS:
            return place
        if self.padding == _REFLECTION:
            place = self._reflect(place)
        value, last = place.value, self.size - 1
        is_inside = (value > 0) & (value < last)
        return place.to(value.clamp(0, last), lambda series: series.masked(is_inside))

    def _reflect(self, place: Jet) -> Jet:
        """Reflect positions at both ends until they are between them, elementwise.

        `place` contains the positions along one axis.
        """
        low, span = (0, self.size - 1) if self.aligns_corners else (-0.5, self.size)
        if span == 0:
            return Jet(torch.zeros_like(place.value), None)
        away = (place.value - low).abs()
        is_odd = (away / span).floor() % 2 == 1
        rest = away % span
        value = torch.where(is_odd, span - rest, rest) + low
        is_mirrored = is_odd != (place.value < low)
        sign = torch.where(is_mirrored, -1, 1).to(value.dtype)
        return place.to(value, lambda series: series.scaled(sign))

    def pixels(self, grid: Jet, mode: int) -> list[_Pixel]:
        """Return the pixels around points ``[N, *points]`` along this axis, with their weights."""
        place = self.places(grid)
        if mode == _CUBIC:
            return self._four(place)
        place = self.inside(place)
        if mode == _NEAREST:
            return [self._pixel(place.value.round(), None)]
        before = place.value.detach().floor()
        behind = place - before
        return [self._pixel(before, 1 - behind), self._pixel(before + 1, behind)]

    def _four(self, place: Jet) -> list[_Pixel]:
        """Return the four neighbours of each position ``[N, *points]``, with cubic weights.

        `place` contains the positions along one axis. Each neighbour is padded separately.
        """
        before = place.value.detach().floor()
        t = place - before
        weights = _far(t + 1), _near(t), _near(1 - t), _far(2 - t)
        places = (self.inside(Jet(before + offset, None)).value for offset in (-1, 0, 1, 2))
        return [self._pixel(*pair) for pair in zip(places, weights, strict=True)]

    def _pixel(self, place: Tensor, weight: Jet | None) -> _Pixel:
        """Return the pixels at the positions `place`, ``[N, *points]``, with their weight.

        A pixel outside the image is marked as missing.
        """
        last = self.size - 1
        is_there = (place >= 0) & (place <= last)
        return _Pixel(place.nan_to_num(0).clamp(0, last).long(), is_there, weight)


def _near(t: Jet) -> Jet:
    """Return the cubic weight of a pixel at a distance of at most 1, elementwise."""
    return ((_KEYS + 2) * t - (_KEYS + 3)) * t * t + 1


def _far(t: Jet) -> Jet:
    """Return the cubic weight of a pixel at a distance between 1 and 2, elementwise."""
    return ((_KEYS * t - 5 * _KEYS) * t + 8 * _KEYS) * t - 4 * _KEYS


def _grid_sample(step: Step, picture: Series | None, grid: Series | None) -> Series | None:
    """Return an image ``[N, C, *sizes]`` sampled at the points of a grid ``[N, *points, axes]``.

    None stands for a series that is zero.
    """
    whole, points = step.tensor("input"), step.tensor("grid")
    sizes = whole.shape[2:]
    settings = step.saved("padding_mode"), step.saved("align_corners")
    along = [
        _Axis(size, *settings).pixels(
            _coordinate(points, grid, number), step.saved("interpolation_mode")
        )
        for number, size in enumerate(reversed(sizes))
    ]
    flat = Jet(
        whole.flatten(2),
        None if picture is None else picture.viewed((*whole.shape[:2], math.prod(sizes))),
    )
    return reduce(Jet.__add__, _terms(flat, sizes, along)).series


def _coordinate(points: Tensor, grid: Series | None, number: int) -> Jet:
    """Return coordinate number `number` of the points of a grid, ``[N, *points]``."""
    return Jet(points.select(-1, number), grid and grid.selected(-1, number))


def _terms(picture: Jet, sizes: torch.Size, along: list[list[_Pixel]]) -> Iterator[Jet]:
    """Yield each pixel around the points times its weight, ``[N, C, *points]``.

    `picture` is ``[N, C, prod(sizes)]``. `along` contains the pixels of each axis, the last axis
    first, as in a grid.
    """
    for pixels in product(*along):
        place, is_there = torch.zeros_like(pixels[0].place), torch.ones_like(pixels[0].is_there)
        for pixel, size in zip(reversed(pixels), sizes, strict=True):
            place, is_there = place * size + pixel.place, is_there & pixel.is_there
        term = _read(picture, place, is_there)
        for pixel in pixels:
            if pixel.weight is not None:
                term = term * _for_channels(pixel.weight)
        yield term


def _read(picture: Jet, place: Tensor, is_there: Tensor) -> Jet:
    """Return the values of the pixels at `place`, ``[N, C, *points]``, 0 for missing pixels.

    `place`, ``[N, *points]``, contains positions in the flattened image.
    """
    value, series = picture.value, picture.series
    shape = (*value.shape[:2], *place.shape[1:])
    keep, index = is_there.unsqueeze(1), place.flatten(1).unsqueeze(1).expand(-1, shape[1], -1)
    read = value.gather(2, index).reshape(shape)
    if series is not None:
        stack = series.full().gather(3, index.expand(len(series.indices), *index.shape))
        series = series.changed(stack.reshape(-1, *shape), shape=shape).masked(keep)
    return Jet(read.masked_fill(~keep, 0), series)


def _for_channels(weight: Jet) -> Jet:
    """Return a weight ``[N, *points]`` as ``[N, 1, *points]``."""
    shape = (len(weight.value), 1, *weight.value.shape[1:])
    return weight.to(weight.value.unsqueeze(1), lambda series: series.viewed(shape))


RULES: dict[str, Rule] = {
    "GridSampler2DBackward0": Rule(_grid_sample),
    "GridSampler3DBackward0": Rule(_grid_sample),
}
