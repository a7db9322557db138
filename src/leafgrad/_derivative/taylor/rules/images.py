"""Rules for pooling, padding, resizing and shuffling images ``[..., *sizes]``.

These operations are linear or select pixels by index. So each coefficient ``[*shape]`` of the stack
``[K, *shape]`` is processed as a separate image. For shuffles, the channels are one more axis
before the sizes.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from leafgrad._derivative.taylor.rule import Propagate, Rule, Step
from leafgrad._derivative.taylor.series import Series

_aten = torch.ops.aten

# A linear operation on images `[pictures, 1, *sizes]`; the step holds its saved arguments.
Draw = Callable[[Step, Tensor], Tensor]


def _map_pictures(step: Step, x: Series, count: int, draw: Callable[[Tensor], Tensor]) -> Series:
    """Return a series after `draw` was applied to all of its images.

    An image consists of the last `count` axes. `draw` is called with the stack flattened to
    ``[pictures, *sizes]``.
    """
    full = x.full(*range(-count, 0))
    kept = full.shape[: full.dim() - count]
    stack = draw(full.reshape(-1, *x.shape[-count:]))
    return x.changed(stack.reshape(*kept, *stack.shape[1:]), shape=step.shape)


def _linear(count: int, draw: Draw) -> Propagate:
    """Return the rule of the linear operation `draw` on each channel of images ``[..., *sizes]``.

    `count` is the number of sizes.
    """
    return lambda step, x: _map_pictures(
        step, x, count, lambda pictures: draw(step, pictures.unsqueeze(1)).squeeze(1)
    )


# --- Pixels by their places


def _pick_maxima(count: int) -> Callable[[Step, Series], list[Series | None]]:
    """Return the rule of max pooling of ``[K, ..., *sizes]`` with `count` sizes.

    For the second result, the integer indices, the rule returns None.
    """

    def rule(step: Step, x: Series) -> list[Series | None]:
        index = step.tensor("result1")
        picked = _by_place(x, count, index, lambda flat, places: flat.gather(-1, places))
        return [picked, None]

    return rule


def _unpool(count: int) -> Callable[[Step, Series], Series]:
    """Return the rule of max unpooling of ``[K, ..., *sizes]`` with `count` sizes.

    The operation moves pixels to positions given by an index.
    """

    def rule(step: Step, x: Series) -> Series:
        sizes = torch.Size(step.shape[-count:])

        def put(flat: Tensor, places: Tensor) -> Tensor:
            zeros = flat.new_zeros(*flat.shape[:-1], sizes.numel())
            return zeros.scatter(-1, places, flat)

        return _by_place(x, count, step.tensor("indices"), put, sizes)

    return rule


def _by_place(
    x: Series,
    count: int,
    index: Tensor,
    move: Callable[[Tensor, Tensor], Tensor],
    sizes: torch.Size | None = None,
) -> Series:
    """Return a series whose pixels `move` selects or moves, by an index ``[..., *sizes]``.

    The last `count` axes are those of the image. `move` is called with the flattened pixels and the
    flattened index. `sizes` are the new sizes, by default those of the index.
    """
    flat, places = x.full().flatten(-count), index.flatten(-count)
    stack = move(flat, places.expand(len(flat), *places.shape))
    shape = (*x.shape[:-count], *(index.shape[-count:] if sizes is None else sizes))
    return x.changed(stack.reshape(-1, *shape), shape=shape)


# --- Pooling, padding and resizing


def _average(step: Step, pictures: Tensor, pool: Callable[..., Tensor]) -> Tensor:
    """Return images after average pooling by the operator `pool` with the saved arguments."""
    names = "kernel_size", "stride", "padding", "ceil_mode", "count_include_pad"
    return pool(pictures, *map(step.saved, names), step.saved("divisor_override"))


def _average_to(step: Step, pictures: Tensor, pool: Callable[..., Tensor], count: int) -> Tensor:
    """Return images after adaptive average pooling to the last `count` sizes of the result."""
    return pool(pictures, step.shape[-count:])


def _padding(count: int, pad: Callable[..., Tensor]) -> Rule:
    """Return the rule of padding images with `count` sizes by the operator `pad`."""
    return Rule(_linear(count, lambda step, pictures: pad(pictures, step.saved("padding"))))


def _resizing(count: int, operator: str, *names: str) -> Rule:
    """Return the rule of resizing images with `count` sizes by `operator`.

    `names` are the names of saved arguments that the operator needs besides sizes and scales.
    """
    scales = {1: ("scales",), 2: ("scales_h", "scales_w"), 3: ("scales_d", "scales_h", "scales_w")}
    resize, saved = getattr(_aten, operator), ("output_size", *names, *scales[count])
    return Rule(_linear(count, lambda step, pictures: resize(pictures, *map(step.saved, saved))))


def _unfold_axis(step: Step, x: Series) -> Series:
    """Return the windows of x along the saved axis, as `Tensor.unfold` does.

    This axis then counts windows, and a new last axis counts the positions in a window: the shape
    ``[K, ..., n, ...]`` becomes ``[K, ..., windows, ..., size]``.
    """
    dim = x.from_end(step.saved("dimension"))
    windows = x.full(dim).unfold(dim, step.saved("size"), step.saved("step"))
    return x.changed(windows, shape=step.shape)


RULES: dict[str, Rule] = {
    "AvgPool2DBackward0": Rule(_linear(2, lambda step, it: _average(step, it, _aten.avg_pool2d))),
    "AvgPool3DBackward0": Rule(_linear(3, lambda step, it: _average(step, it, _aten.avg_pool3d))),
    "AdaptiveAvgPool2DBackward0": Rule(
        _linear(2, lambda step, it: _average_to(step, it, functional.adaptive_avg_pool2d, 2))
    ),
    "AdaptiveAvgPool3DBackward0": Rule(
        _linear(3, lambda step, it: _average_to(step, it, functional.adaptive_avg_pool3d, 3))
    ),
    "MaxPool2DWithIndicesBackward0": Rule(_pick_maxima(2)),
    "MaxPool3DWithIndicesBackward0": Rule(_pick_maxima(3)),
    "AdaptiveMaxPool2DBackward0": Rule(_pick_maxima(2)),
    "AdaptiveMaxPool3DBackward0": Rule(_pick_maxima(3)),
    "MaxUnpool2DBackward0": Rule(_unpool(2)),
    "MaxUnpool3DBackward0": Rule(_unpool(3)),
    "ReflectionPad1DBackward0": _padding(1, _aten.reflection_pad1d),
    "ReflectionPad2DBackward0": _padding(2, _aten.reflection_pad2d),
    "ReflectionPad3DBackward0": _padding(3, _aten.reflection_pad3d),
    "ReplicationPad1DBackward0": _padding(1, _aten.replication_pad1d),
    "ReplicationPad2DBackward0": _padding(2, _aten.replication_pad2d),
    "ReplicationPad3DBackward0": _padding(3, _aten.replication_pad3d),
    "UpsampleNearest1DBackward0": _resizing(1, "upsample_nearest1d"),
    "UpsampleNearest2DBackward0": _resizing(2, "upsample_nearest2d"),
    "UpsampleNearest3DBackward0": _resizing(3, "upsample_nearest3d"),
    "UpsampleNearestExact1DBackward0": _resizing(1, "_upsample_nearest_exact1d"),
    "UpsampleNearestExact2DBackward0": _resizing(2, "_upsample_nearest_exact2d"),
    "UpsampleNearestExact3DBackward0": _resizing(3, "_upsample_nearest_exact3d"),
    "UpsampleLinear1DBackward0": _resizing(1, "upsample_linear1d", "align_corners"),
    "UpsampleBilinear2DBackward0": _resizing(2, "upsample_bilinear2d", "align_corners"),
    "UpsampleBicubic2DBackward0": _resizing(2, "upsample_bicubic2d", "align_corners"),
    "UpsampleTrilinear3DBackward0": _resizing(3, "upsample_trilinear3d", "align_corners"),
    "UpsampleBilinear2DAaBackward0": _resizing(2, "_upsample_bilinear2d_aa", "align_corners"),
    "UpsampleBicubic2DAaBackward0": _resizing(2, "_upsample_bicubic2d_aa", "align_corners"),
    "UnfoldBackward0": Rule(_unfold_axis, is_for_complex=True),
}
