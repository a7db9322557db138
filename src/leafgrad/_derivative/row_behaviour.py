"""How each kind of node passes row dependence from the inputs of its operation to the results.

The row dependence of a tensor says which rows of the inputs (points of the batch) each of its
elements depends on.

A *kind* is the set of all autograd nodes with the same name, such as ``MulBackward0``. The
*behaviour* of a kind is a function that takes a `Site` (a node, and the input rows that its
operation's inputs depend on) and returns the input rows that each result depends on. They are
returned as `Rows` or as a tensor ``[2, *sizes]`` (a *span*, see `row_spans`). A behaviour returns
an empty list if it cannot find the rows. It may report more dependence than there is, never less.
It reads only shapes and the axes, indices and masks that the node saved. These are constants for
the derivative too.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._derivative.row_spans import Rows, Shape, join, put_rows
from leafgrad._derivative.taylor import Unsupported
from leafgrad._derivative.taylor.kernels import contraction, fused, recurrences
from leafgrad._derivative.taylor.propagate import step_at
from leafgrad._derivative.taylor.rules import RULES
from leafgrad._derivative.taylor.rules.indexing import number_places
from leafgrad._derivative.taylor.rules.view_writes import send_probe

Results = Sequence[Rows | Tensor]


class Site(NamedTuple):
    """A node, and the rows that the inputs of its operation depend on.

    Attributes:
        node: The node.
        edges: Its `next_functions`.
        inputs: For each input of the operation, the rows that it depends on; None for a constant.
        as_shape: A function that converts sizes to a shape. It may replace symbolic sizes by
            integers.
        is_in_backward: Whether this runs inside a backward pass, in which a checkpoint may
            recompute its function to unpack saved tensors.
    """

    node: Node
    edges: _autograd.Successors
    inputs: Sequence[Rows | None]
    as_shape: Callable[[Iterable[int]], Shape]
    is_in_backward: bool

    @property
    def name(self) -> str:
        """The name that PyTorch gives to the node."""
        return _autograd.node_name(self.node)

    @property
    def present(self) -> list[Rows]:
        """The rows of all inputs that are not constants."""
        return [rows for rows in self.inputs if rows is not None]

    @property
    def shapes(self) -> list[Shape]:
        """The shape of each result of the operation."""
        return [self.as_shape(made.shape) for made in _autograd.output_types(self.node)]

    @property
    def shape(self) -> Shape:
        """The shape of the first result of the operation."""
        return self.shapes[0]

    def read(self, name: str) -> Any:
        """Return the value that the node saved under `name`."""
        read = _autograd.kept if self.is_in_backward else _autograd.kept_at_hand
        return _autograd.signed(read(self.node, name))

    def saved(self, name: str) -> Any:
        """Return the value that the node saved under `name`, with its tensors copied to the CPU."""
        value = self.read(name)
        if isinstance(value, list | tuple):
            return [_copy_to_cpu(part) for part in value]
        return _copy_to_cpu(value)

    def dims(self, x: Rows, name: str = "dim") -> list[int]:
        """Return the axes that the node saved under `name`, as negative numbers.

        `x` is the input that has these axes. If the node saved no axes, return all axes of `x`.
        """
        dims = self.saved(name)
        if isinstance(dims, int):
            dims = [dims]
        return [_from_end(dim, x.ndim) for dim in (dims or range(x.ndim)) if x.ndim]

    def dim(self, ndim: int, name: str = "dim") -> int:
        """Return the axis that the node saved under `name`, as a negative number.

        `ndim` is the number of axes of the tensor.
        """
        return _from_end(self.saved(name), ndim)

    def repeat(self, rows: Rows) -> list[Rows]:
        """Return a list that contains `rows` once for every result of the node."""
        return [rows] * len(_autograd.output_types(self.node))


Behaviour = Callable[[Site], Results]


_OF_FORMULA = "BackwardBackward0"


class UnreadableError(Exception):
    """Raised if the values of a saved index cannot be read yet, for example during compilation."""


def _copy_to_cpu(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    if _autograd.is_without_values(value) or _autograd.lacking_memory(value):
        raise UnreadableError
    value = value.detach().cpu()
    return value.bool() if value.dtype == torch.uint8 else value


def _from_end(dim: int, ndim: int) -> int:
    return dim if dim < 0 else dim - ndim


# --- Element by element


def _apply_elementwise(site: Site) -> Results:
    """Return the row dependence of an elementwise operation.

    Each element depends on the input elements that are broadcast to its position.
    """
    rows = join(site.present)
    return [rows.aligned(len(shape)) for shape in site.shapes]


def _overwrite(site: Site) -> Results:
    """Return the row dependence of an operation whose last input overwrites the first one."""
    rows = site.inputs[-1]
    return [] if rows is None else [rows.aligned(len(site.shape))]


# --- Along axes


def _mix_dim(site: Site) -> Results:
    """Return the row dependence of an operation that mixes all positions along the saved axes."""
    return site.repeat(join([rows.join_along(site.dims(rows)) for rows in site.present]))


def _reduce_dim(site: Site) -> Results:
    """Return the row dependence of a reduction of the saved axes.

    The reduced axes are kept with size 1 if `keepdim` is true, and dropped otherwise.
    """
    (rows,) = site.present
    dims = site.dims(rows)
    reduced = rows.join_along(dims)
    return site.repeat(reduced if site.saved("keepdim") else reduced.drop_axes(dims))


def _mix_all(site: Site) -> Results:
    """Return the row dependence of an operation in which every result may depend on all inputs."""
    rows = join([_share(rows, len(site.shape)) for rows in site.present])
    return [_share(rows, len(shape)) for shape in site.shapes]


def _share(rows: Rows, ndim: int) -> Rows:
    """Return the row dependence of one element that depends on all elements of an input.

    They have `ndim` axes of size 1, so they broadcast to all elements of the result.
    """
    return Rows(rows.total().reshape(2, *[1] * ndim), (1,) * ndim)


def _mix_all_dims_but(dims_of: Callable[[Site, int], Iterable[int]]) -> Behaviour:
    """Return a behaviour that mixes all axes of the first input, except those from `dims_of`.

    `dims_of` returns these axes for a `Site` and the number of axes. Every element of the result
    also depends on all elements of the other inputs, such as weights.
    """

    def behave(site: Site) -> Results:
        first, *others = site.inputs
        if first is not None:
            apart = {dim % first.ndim for dim in dims_of(site, first.ndim)}
            first = first.join_along({*range(first.ndim)} - apart)
        return site.repeat(
            join([first, *[rows and _share(rows, len(site.shape)) for rows in others]])
        )

    return behave


def _mix_pixels(site: Site) -> Results:
    """Return the row dependence of an operation that mixes the spatial axes.

    These are the last axes. The name of the node contains their number, for example 2D.
    """
    digit = re.search(r"(\d)D", site.name)
    count = int(digit[1]) if digit else 3  # A pixel shuffle mixes channels and two spatial axes.
    mixed = join([rows.join_along(range(-count, 0)) for rows in site.present])
    return site.repeat(mixed)


def _layer_norm(site: Site) -> Results:
    """Return the row dependence of a layer norm, which mixes the normalised axes.

    These are the last axes. A weight has exactly these axes.
    """
    count = len(site.saved("normalized_shape"))
    rows = join([rows.join_along(range(-count, 0)) for rows in site.present])
    rows = rows.aligned(len(site.shape))
    return [rows] if _OF_FORMULA in site.name else site.repeat(rows)


def _batch_norm(site: Site) -> Results:
    """Return the row dependence of a batch norm. It mixes all axes except axis 1, the channels.

    In eval mode it mixes no axes, because the statistics are constants. So rows stay independent.
    """
    names = [n for n in ("training", "train", "update") if _autograd.keeps(site.node, n)]
    is_eval = site.name in _EVAL or (bool(names) and not any(map(site.saved, names)))
    ndim = len(site.shape)
    mixed = () if is_eval else {*range(ndim)} - {1}
    channels = [None, 0, *[None] * (ndim - 2)]
    return [
        join(
            rows.move_axes(channels) if rows.ndim == 1 else rows.join_along(mixed)
            for rows in site.present
        )
    ]


_EVAL = {"NativeBatchNormLegitNoTrainingBackward0", "BatchNormNoUpdateBackward0"}


def _glu(site: Site) -> Results:
    """Return the row dependence of GLU.

    Each element depends on one element of each half of the saved axis.
    """
    (rows,) = site.present
    dim = site.dim(rows.ndim)
    if rows.is_alike_along([dim]):
        return [rows]
    return [torch.maximum(*rows.full(dim).chunk(2, dim))]


# --- Products


def _matmul(site: Site) -> Results:
    """Return the row dependence of a product ``[..., n, k]`` times ``[..., k, m]``.

    If there are three inputs, the first one is added to the product.
    """
    *base, left, right = site.inputs
    return [join([*base, left and left.join_along([-1]), right and right.join_along([-2])])]


def _matrix_times_vector(site: Site) -> Results:
    *base, matrix, vector = site.inputs
    product = matrix and matrix.join_along([-1]).drop_axes([-1])
    return [join([*base, product, vector and _share(vector, 1)]).aligned(1)]


def _outer(site: Site) -> Results:
    base, left, right = site.inputs
    return [join([base, left and left.move_axes([0, None]), right]).aligned(2)]


def _sum_of_products(site: Site) -> Results:
    base, left, right = site.inputs
    products = [left and left.join_along([0, -1]), right and right.join_along([0, -2])]
    return [join([base, *[rows and rows.drop_axes([0]) for rows in products]]).aligned(2)]


def _linear(site: Site) -> Results:
    first, *others = site.inputs
    shared = [rows and _share(rows, len(site.shape)) for rows in others]
    return [join([first and first.join_along([-1]), *shared])]


def _trilinear(site: Site) -> Results:
    parts = []
    for number, rows in enumerate(site.inputs, 1):
        if rows is not None:
            order: list[int | None] = [*range(rows.ndim)]
            for dim in sorted(site.saved(f"expand{number}")):
                order.insert(dim, None)
            parts.append(rows.move_axes(order))
    dims = site.saved("sumdim")
    return [join(parts).join_along(dims).drop_axes(dims)]


def _cdist(site: Site) -> Results:
    """Return the row dependence of distances between points ``[..., n, k]`` and ``[..., m, k]``.

    The distances are ``[..., n, m]``.
    """
    one, two = (rows and rows.join_along([-1]) for rows in site.inputs)
    return [join([one, two and two.move_axes([*range(two.ndim - 2), -1, -2])])]


def _attention(site: Site) -> Results:
    """Return the row dependence of scaled dot-product attention.

    The result for each query depends on this query, and on all keys and values of its head.
    """
    query, *shared = site.inputs[:3]
    parts = [rows and rows.join_along([-1]) for rows in (query, *site.inputs[3:])]
    for rows in shared:
        is_shared = rows and query and rows.shape[:-2] != query.shape[:-2]
        parts.append(rows and rows.join_along([-3, -2, -1] if is_shared else [-2, -1]))
    return [join(parts)]


def _convolution(site: Site) -> Results:
    """Return the row dependence of a convolution, which does not mix the images of a batch.

    If the kernel has size 1, pixels are not mixed either. Every element depends on the whole weight
    and the whole bias.
    """
    ndim = len(site.shape)
    mixed = [1] if _has_one_point(site) else range(1, ndim)
    count = 2 if _OF_FORMULA in site.name else 1
    pictures = [rows and rows.join_along(mixed) for rows in site.inputs[:count]]
    return [join([*pictures, *[rows and _share(rows, ndim) for rows in site.inputs[count:]]])]


def _has_one_point(site: Site) -> bool:
    if not _autograd.keeps(site.node, "weight"):
        return False
    kernel = site.read("weight").shape[2:]
    return {*kernel, *site.saved("stride")} == {1} and not any(site.saved("padding"))


# --- Matrices on the last two axes


def _matrix_function(site: Site) -> Results:
    """Return the row dependence of a function of the matrices on the last two axes.

    Each matrix stays independent of the other matrices of the batch.
    """
    (rows,) = site.present
    if rows.ndim <= 1:
        return _mix_all(site)
    batch = rows.join_along([-2, -1]).drop_axes([-2, -1])
    order = [*range(batch.ndim)]
    return [batch.move_axes([*order, *[None] * (len(s) - batch.ndim)]) for s in site.shapes]


def _solve(site: Site) -> Results:
    """Return the row dependence of the solution of linear systems.

    The matrices are on the last two axes. The right-hand sides have the same batch shape; each is a
    matrix or a vector.
    """
    ndim = len(site.shape)
    matrices = [rows.shape for rows in site.present]
    if _autograd.keeps(site.node, "LU"):  # The matrix may be a constant, which has no rows.
        matrices.append(site.as_shape(site.read("LU").shape))
    if any(len(shape) == ndim + 1 and shape[:-1] == site.shape for shape in matrices):
        return [
            join(
                rows.join_along([-1])
                if rows.ndim == ndim
                else rows.join_along([-2, -1]).drop_axes([-1])
                for rows in site.present
            )
        ]
    if any(rows.ndim != ndim for rows in site.present):
        return _mix_all(site)
    mixed = [[-2, -1]] * len(site.inputs)
    # The columns of the right-hand side (the second input) are independent of each other, so they
    # are not mixed. If the matrix is on the right, this applies to its rows.
    if _autograd.keeps(site.node, "left"):
        mixed[1] = [-2] if site.saved("left") else [-1]
    return [join(rows and rows.join_along(m) for rows, m in zip(site.inputs, mixed, strict=True))]


# --- Views and parts


def _view(site: Site) -> Results:
    return [site.present[0].view(site.shape)]


def _permute(site: Site) -> Results:
    (rows,) = site.present
    order = [*range(rows.ndim)]
    if site.name.startswith("PermuteBackward"):
        order = site.saved("dims")
    elif order:
        is_transpose = _autograd.keeps(site.node, "dim0")
        one, two = map(site.saved, ("dim0", "dim1")) if is_transpose else (0, -1)
        order[one], order[two] = order[two], order[one]
    return [rows.move_axes(order)]


def _take(
    take: Callable[..., Any], arguments: str, *, gone: bool = False, new: int = 0
) -> Behaviour:
    """Return the behaviour of an operation that selects elements, such as slicing or flipping.

    `take` is called with the span of the input (see `row_spans`) and the values that the node saved
    under the names in `arguments`. Names that begin with "dim" are axes. They are passed as
    negative numbers, and the span is expanded to its full size along these axes only. If the span
    is constant along these axes, it does not matter which positions are selected, so `take` is not
    called. Then the axes are dropped if `gone` is true, and `new` axes are appended.
    """
    names = arguments.split()

    def behave(site: Site) -> Results:
        rows = next(rows for rows in site.inputs if rows is not None)
        dims = {name: site.dims(rows, name) for name in names if name.startswith("dim")}
        flat = [dim for each in dims.values() for dim in each]
        if take is _slice and site.shape == rows.shape:
            return [rows]
        if rows.is_alike_along(flat):
            left = {dim % rows.ndim for dim in flat} if gone else set()
            order = [dim for dim in range(rows.ndim) if dim not in left]
            return site.repeat(rows.move_axes([*order, *[None] * new]))
        axes = {name: each if name == "dims" else each[0] for name, each in dims.items()}
        values = [axes[name] if name in axes else site.saved(name) for name in names]
        taken = take(rows.full(*flat), *values)
        return [*taken] if isinstance(taken, list | tuple) else [taken]

    return behave


def _slice(tensor: Tensor, dim: int, *part: int) -> Tensor:
    """Return a slice of the axis `dim`; `part` contains start, end and step."""
    return tensor.movedim(dim, 0)[slice(*part)].movedim(0, dim)


def _roll(site: Site) -> Results:
    (rows,) = site.present
    dims = [_from_end(dim, rows.ndim) for dim in site.saved("dims")]
    if not dims:
        flat = rows.whole().flatten(1)
        return [flat.roll(site.saved("shifts"), 1).reshape(2, *rows.shape)]
    if rows.is_alike_along(dims):
        return [rows]
    return [rows.full(*dims).roll(site.saved("shifts"), dims)]


def _repeat(site: Site) -> Results:
    (rows,) = site.present
    repeats = site.saved("repeats")
    wide = rows.aligned(len(repeats))
    dims = [dim for dim, count in enumerate(repeats) if count != 1]
    if wide.is_alike_along(dims):
        return [wide]
    return [wide.full(*dims).repeat(1, *repeats)]


def _cat(site: Site) -> Results:
    """Return the row dependence of joined inputs.

    They are joined along an existing axis (cat) or along a new axis (stack).
    """
    ndim = len(site.shape)
    dim = site.dim(ndim)
    is_stack = site.name.startswith("Stack")
    parts = list(site.inputs)
    if is_stack:
        order: list[int | None] = [*range(ndim - 1)]
        order.insert(dim + ndim, None)
        parts = [rows and rows.move_axes(order) for rows in parts]
    present = [rows for rows in parts if rows]
    if any(rows.ndim != ndim for rows in present):
        # The axes do not match: `torch.cat` accepts an empty vector among tensors of any shape.
        return []
    together = join([rows.join_along([dim]) for rows in present])
    if all(rows.is_alike_along([dim]) for rows in present) and not isinstance(
        together.span, Tensor
    ):
        return [together]
    sizes = [
        1 if is_stack else _size(rows, edge, dim)
        for rows, edge in zip(parts, site.edges, strict=True)
    ]
    rest = site.shape[dim] - sum(size for size in sizes if size is not None)
    if sizes.count(None) > 1:
        return [together]
    spans = [rows.full(dim) for rows in present]
    common = [max(n) for n in zip(*[span.shape for span in spans], strict=True)]
    blocks = []
    for rows, size in zip(parts, sizes, strict=True):
        common[dim] = rest if size is None else size
        span = spans[0].new_zeros(()) if rows is None else rows.full(dim)
        blocks.append(span.expand(common))
    return [torch.cat(blocks, dim)]


def _size(rows: Rows | None, edge: tuple[Any, int], dim: int) -> int | None:
    """Return the size along `dim` of an input of `cat`, which has the rows `rows`.

    Return None if the size is unknown: for an input without gradient, the node has no edge to read
    it from.
    """
    if rows is not None:
        return rows.shape[dim]
    node, number = edge
    if node is None:
        return None
    made = _autograd.output_types(node)[number].shape
    return int(made[dim]) if len(made) >= -dim else None


def _index(site: Site) -> Results:
    (rows,) = site.present
    indices = site.read("indices")
    if all(index is None or index.dtype not in (torch.bool, torch.uint8) for index in indices):
        dims = [dim for dim, index in enumerate(indices) if index is not None]
        if dims and rows.is_alike_along(dims):  # The values of the indices do not matter.
            stay: list[int | None] = [dim for dim in range(rows.ndim) if dim not in dims]
            first = dims[0] if dims[-1] - dims[0] == len(dims) - 1 else 0
            stay[first:first] = [None] * (len(site.shape) - len(stay))
            return [rows.move_axes(stay)]
    indices = site.saved("indices")
    dims, _ = number_places(indices)
    span = torch.ops.aten.index(rows.full(*dims).movedim(0, -1), indices)
    return [span.movedim(-1, 0)]


def _gather(site: Site) -> Results:
    (rows,) = site.present
    dim, shape = site.dim(rows.ndim), site.shape
    if rows.is_alike_along([dim]) and _drop(shape, dim) == _drop(rows.shape, dim):
        return [rows]
    index = site.saved("index")
    return [rows.whole().gather(dim, index.expand(2, *index.shape))]


def _drop(shape: Shape, dim: int) -> Shape:
    """Return `shape` without the axis `dim`, a negative number. An empty shape stays empty."""
    return shape and (*shape[:dim], *shape[len(shape) + dim + 1 :])


def _take_flat(site: Site) -> Results:
    (rows,) = site.present
    index = site.saved("index")
    return [rows.whole().flatten(1)[:, index.flatten()].reshape(2, *index.shape)]


def _masked_select(site: Site) -> Results:
    (rows,) = site.present
    mask = site.saved("mask")
    shape = torch.broadcast_shapes(mask.shape, rows.shape)
    span = rows.aligned(len(shape)).numbers.expand(2, *shape)
    return [span[:, mask.expand(shape)]]


def _embedding(site: Site) -> Results:
    (rows,) = site.present
    return [rows.full(0)[:, site.saved("indices")]]


def _pad(site: Site) -> Results:
    (rows,) = site.present
    pad = site.saved("pad")
    dims = [-1 - number // 2 for number, size in enumerate(pad) if size]
    if rows.is_alike_along(dims):
        return [rows]
    return [torch.nn.functional.pad(rows.full(*dims), pad)]


def _diag_embed(site: Site) -> Results:
    (rows,) = site.present
    ndim = len(site.shape)
    dims = [_from_end(site.saved(name) % ndim, ndim) for name in ("dim1", "dim2")]
    return [rows.full(-1).diag_embed(site.saved("offset"), *dims)]


# --- Writes


def _put(take: Callable[..., Tensor], arguments: str, *, replaces: bool = True) -> Behaviour:
    """Return the behaviour of an operation that writes the second input into the first.

    The elements that are written are those that `take` would select, called with the saved
    `arguments`. They are replaced, or added to if `replaces` is false.
    """
    names = arguments.split()

    def behave(site: Site) -> Results:
        base, source = site.inputs if len(site.inputs) > 1 else (None, *site.inputs)
        adds = not replaces or (
            _autograd.keeps(site.node, "accumulate") and site.saved("accumulate")
        )
        if adds and base is not None and source is None:
            # Adding a constant changes no dependence. The node saved no index then, so stop here.
            return [base.aligned(len(site.shape))]
        if "dim" in names and site.shape:
            dim = site.dim(len(site.shape))
            if all(
                _drop(rows.shape, dim) == _drop(site.shape, dim) and rows.is_alike_along([dim])
                for rows in site.present
            ):
                return [join(site.present)]
        values = [*map(site.saved, names)]

        def take_places(places: Tensor) -> Tensor:
            return take(places, *values)

        return [put_rows(site.shape, base, source, take_places, replaces=not adds)]

    return behave


def _masked_scatter(site: Site) -> Results:
    base, source = site.inputs
    mask = site.saved("mask").expand(site.shape)
    if source is not None:
        flat = source.whole().flatten(1)[:, : int(mask.sum())]
        source = Rows(flat, tuple(flat.shape[1:]))
    return [put_rows(site.shape, base, source, lambda places: places[mask], replaces=True)]


def _copy_slices(site: Site) -> Results:
    """Return the row dependence of a tensor after an in-place write to one of its views.

    The write may only move elements. A backward pass of the node with numbered elements shows where
    each element was written. Return an empty list if the write did more than move elements.
    """
    try:
        probe, (to_base, *to_source) = send_probe(step_at(site.node, site.edges, torch.float64))
    except Unsupported:
        return []
    base, *sources = site.inputs
    span = torch.zeros((2, probe.numel()), dtype=torch.int32, device="cpu")
    if base is not None:
        keeps = (to_base == probe).cpu()
        if not (keeps | (to_base == 0).cpu()).all():
            return []
        span = (base.whole() * keeps).reshape(2, -1)
    for source, numbers in zip(sources, to_source, strict=True):
        if source is not None:
            place = numbers.cpu().long().flatten() - 1
            if len(sources) > 1 or numbers.shape != source.shape or (place < 0).any():
                return []
            span.scatter_reduce_(1, place.expand(2, -1), source.whole().reshape(2, -1), "amax")
    return [span.reshape(2, *site.shape)]


def _as_strided(site: Site) -> Results:
    """Return the row dependence of a strided view.

    Return an empty list unless each element appears only once.
    """
    (rows,) = site.present
    try:
        probe, (numbers,) = send_probe(step_at(site.node, site.edges, torch.float64))
    except Unsupported:
        return []
    numbers = numbers.cpu().flatten().long()
    shown = numbers.nonzero().squeeze(1)
    if len(shown) != probe.numel() or len(numbers[shown].unique()) != probe.numel():
        return []
    places = torch.empty_like(shown).index_copy(0, numbers[shown] - 1, shown)
    return [rows.whole().reshape(2, -1)[:, places].reshape(2, *site.shape)]


# --- Layers and losses


def _loss(site: Site) -> Results:
    """Return the row dependence of a loss: per element, or the mean or sum over all elements."""
    return _apply_elementwise(site) if site.saved("reduction") == 0 else _mix_all(site)


def _class_loss(site: Site) -> Results:
    """Return the row dependence of a loss of ``[rows, classes, ...]``.

    The loss is one per row, or their mean or sum.
    """
    (rows,) = site.present
    if site.saved("reduction") != 0 or rows.ndim <= 1:
        return _mix_all(site)
    return [rows.join_along([1]).drop_axes([1])]


def _rnn(site: Site) -> Results:
    """Return the row dependence of a recurrent layer.

    The sequences of a batch stay independent of each other. The batch axis is the second to last.
    If `batch_first` is true, it is the first axis of the input and output sequences. The weights
    have no batch axis.
    """
    is_first = _autograd.keeps(site.node, "batch_first") and site.saved("batch_first")
    first, *others = range(len(site.inputs))
    parts = []
    for number, rows in enumerate(site.inputs):
        if rows is None or number in others[:-2]:
            parts.append(rows and _share(rows, 1))
        else:
            batch = 0 if is_first and number == first else rows.ndim - 2
            parts.append(rows.join_along({*range(rows.ndim)} - {batch}).move_axes([batch]))
    batch_rows = join(parts)
    results = []
    for number, shape in enumerate(site.shapes[:3]):
        axis = 0 if is_first and not number else len(shape) - 2
        results.append(batch_rows.move_axes([0 if n == axis else None for n in range(len(shape))]))
    return results


def _lstm_cell(site: Site) -> Results:
    """Return the row dependence of an LSTM cell.

    Its tensors are ``[rows, features]``, and its biases are ``[features]``.
    """
    return [join([rows.join_along([-1]).aligned(2) for rows in site.present])] * 2


def _grid_sample(site: Site) -> Results:
    """Return the row dependence of `grid_sample`.

    Each image is sampled at the points of its own row.
    """
    picture, grid = site.inputs
    ndim = len(site.shape)
    points = grid and grid.join_along([-1]).move_axes([0, -1, *range(1, ndim - 1)])
    return [join([picture and picture.join_along(range(2, ndim)), points])]


def _unfold_picture(site: Site) -> Results:
    """Return the row dependence of image patches.

    Return an empty list unless the first axis is a batch of images.
    """
    (rows,) = site.present
    ndim = len(site.shape)
    if min(ndim, rows.ndim) + 1 != max(ndim, rows.ndim) or 4 not in (ndim, rows.ndim):  # noqa: PLR2004 (a batch of images)
        return []
    return [rows.join_along(range(1, rows.ndim)).move_axes([0, *[None] * (ndim - 1)])]


def _stack_coefficients(site: Site) -> Results:
    """Return the row dependence of coefficients ``[N, *shape]`` of a Taylor series.

    They are computed elementwise from other coefficients and values.
    """
    parts = [rows.aligned(len(site.shape)).join_along([0]) for rows in site.present]
    return [join(parts)]


def _fuse_layers(site: Site) -> Results:
    """Return the row dependence of fused layers of Taylor coefficients (see `kernels.fused`).

    A matrix product mixes the columns on the last axis.
    """
    own: Any = site.node
    are_products = [False, *(layer is None for layer in own.layers)]
    if any(rows and is_one for rows, is_one in zip(site.inputs, are_products, strict=True)):
        return _mix_all(site)
    if not any(are_products):
        return _stack_coefficients(site)
    inputs = [rows and rows.join_along([-1]) for rows in site.inputs]
    return _stack_coefficients(site._replace(inputs=inputs))


# --- The table


# `_KINDS` assigns a behaviour to patterns of node names, written without ``Backward0``. Kinds whose
# Taylor rule is elementwise are not listed. ``Celu:1`` matches ``CeluBackward1``, and
# ``Eq:01`` matches ``EqBackward0`` and ``EqBackward1``: PyTorch numbers the overloads this way.
def _match(behave: Behaviour, words: str) -> tuple[Behaviour, re.Pattern[str]]:
    parts = [word.partition(":") for word in words.split()]
    return behave, re.compile("|".join(f"(?:{stem})Backward[{n or 0}]" for stem, _, n in parts))


_KINDS = [
    _match(
        _apply_elementwise,
        "Addcdiv Bernoulli Cauchy Celu:1 ConjPhysical:1 Copysign:01 Deg2Rad Digamma Div:23 Elu:1 "
        "Eq:01 Erfinv Exponential FakeQuantizePer(Tensor|Channel)AffineCachemask Fill:012 Fmax "
        "Fmin FusedDropout G[et]:01 Geometric (Hard|Soft)shrink(Backward)? IndexFill:1 LazyClone "
        "Ldexp LeakyRelu:1 Lerp:01 L[et]:01 Lgamma Lift(Fresh)? Logit(Backward)? LogNormal "
        "Mvlgamma NativeDropout(Backward)? Ne:01 Nextafter Normal:0123 PinMemory Poisson "
        "Polygamma:01 Rad2Deg Random:012 RreluWithNoise:01 RreluWithNoiseFunctional SpecialEntr "
        "SpecialErfcx SpecialNdtri SpecialXlog1Py:012 Threshold:1 Uniform Zero "
        "(Mse|SmoothL1|Huber|SoftMargin)LossBackward "
        "(BinaryCrossEntropy|PreluKernel|RreluWithNoise)Backward",
    ),
    _match(
        _mix_dim,
        "Cum(max|min|prod|sum) Fft(C2C|C2R|R2C) GluBackward LinalgCross Logcumsumexp "
        "(Log|Safe)?Softmax (Log)?SoftmaxBackwardData Sort:01 Topk",
    ),
    _match(
        _reduce_dim,
        "A(max|min|minmax) Kthvalue LinalgVectorNorm Logsumexp Max Min Mode Nansum "
        "(Std|Var)(Mean)? Mean:1 (Nan)?[Mm]edian:1 Norm:1 Prod:1 Sum:1",
    ),
    _match(
        _mix_all_dims_but(lambda *_: [0]), "GridSampler[23]DBackward ChannelShuffle NativeGroupNorm"
    ),
    _match(_mix_all_dims_but(lambda site, ndim: [site.dim(ndim)]), "Renorm"),
    _match(
        _mix_pixels,
        "(Adaptive(Avg|Max)Pool[23]D|(Avg|FractionalMax)Pool[23]D|MaxPool[23]DWithIndices"
        "|MaxUnpool[23]D|Pixel(Uns|S)huffle|Re(flection|plication)Pad[123]D"
        "|Upsample(Bicubic|Bilinear|Lanczos)2DAa|Upsample(Bicubic|Bilinear)2D|UpsampleLinear1D"
        "|UpsampleNearest(Exact)?[123]D|UpsampleTrilinear3D)(Backward)?",
    ),
    _match(_layer_norm, "FusedRmsNorm NativeLayerNorm(Backward)?"),
    _match(
        _batch_norm,
        "BatchNorm(Backward|NoUpdate|WithUpdate) (Cudnn|Miopen|Native)BatchNorm(Backward)? "
        "NativeBatchNormLegit:01 NativeBatchNormLegitNoTraining",
    ),
    _match(_glu, "Glu"),
    _match(_matmul, "(Sparse)?Addmm Baddbmm Bmm Mm"),
    _match(_matrix_times_vector, "(Add)?[Mm]v"),
    _match(_outer, "Addr"),
    _match(_sum_of_products, "Addbmm"),
    _match(_linear, "Linear"),
    _match(_trilinear, "Trilinear"),
    _match(_cdist, "Cdist EuclideanDist"),
    _match(
        _attention,
        "ScaledDotProduct(Cudnn|Efficient|Flash)Attention(ForCpu)? "
        "ScaledDotProductFusedAttentionOverrideable",
    ),
    _match(
        _convolution,
        "ConvDepthwise[23]D Convolution(Backward|Overrideable)? "
        "(Cudnn|Miopen|Mkldnn|Mps)Convolution SlowConv[23]D SlowConvDilated2D SlowConvTranspose2D",
    ),
    _match(
        _matrix_function,
        "Cholesky(Inverse)? LinalgCholeskyEx Linalg(Det|Eigh?|InvEx|Lu|LuFactorEx|MatrixExp|Pinv|Qr"
        "|Slogdet|Svd) LuUnpack",
    ),
    _match(
        _solve, "CholeskySolve Linalg(Lstsq|LuSolve|SolveEx|SolveTriangular) Ormqr TriangularSolve"
    ),
    _match(
        _view,
        "Expand:1 MkldnnReshape Reshape(Alias|Copy) Squeeze:012345 UnsafeView Unsqueeze:01 View",
    ),
    _match(lambda site: [site.present[0].aligned(len(site.shape))], "Expand"),
    _match(_permute, "Permute T:01 Transpose:01"),
    _match(_repeat, "Repeat"),
    _match(_take(_slice, "dim start end step"), "Slice"),
    _match(_take(Tensor.narrow, "dim start length"), "NarrowCopy"),
    _match(_take(Tensor.select, "dim index", gone=True), "Select"),
    _match(_take(Tensor.unbind, "dim", gone=True), "Unbind"),
    _match(_take(Tensor.split, "split_size dim"), "(Unsafe)?Split"),
    _match(_take(Tensor.split, "split_sizes dim"), "(Unsafe)?SplitWithSizes"),
    _match(_take(Tensor.diagonal, "offset dim1 dim2", gone=True, new=1), "Diagonal"),
    _match(_take(Tensor.unfold, "dimension size step", new=1), "Unfold"),
    _match(_take(Tensor.flip, "dims"), "Flip"),
    _match(_take(Tensor.rot90, "k dims"), "Rot90"),
    _match(_take(Tensor.index_select, "dim index"), "IndexSelect"),
    _match(_gather, "Gather"),
    _match(_roll, "Roll"),
    _match(_cat, "Cat Stack"),
    _match(_index, "(Unsafe)?Index"),
    _match(_take_flat, "Take"),
    _match(_masked_select, "MaskedSelect"),
    _match(_embedding, "Embedding"),
    _match(_pad, "ConstantPadNd"),
    _match(_diag_embed, "DiagEmbed"),
    _match(
        lambda site: [site.present[0].move_axes([*range(len(site.shape) - 1), None])], "ViewAsReal"
    ),
    _match(lambda site: [site.present[0].join_along([-1]).drop_axes([-1])], "ViewAsComplex"),
    _match(_put(torch.ops.aten.index, "indices"), "(Unsafe)?IndexPut IndexPutImpl"),
    _match(_put(Tensor.gather, "dim index"), "Scatter"),
    _match(_put(Tensor.gather, "dim index", replaces=False), "Scatter(Add|Reduce)"),
    _match(_put(Tensor.index_select, "dim index"), "IndexCopy"),
    _match(_put(Tensor.select, "dim index"), "Select(Scatter|Backward)"),
    _match(_put(Tensor.index_select, "dim index", replaces=False), "Index(Add|Reduce)"),
    _match(_put(_slice, "dim start end step"), "Slice(Scatter|Backward)"),
    _match(_put(Tensor.diagonal, "offset dim1 dim2"), "Diagonal(Scatter|Backward)"),
    _match(_put(Tensor.take, "index"), "Put"),
    _match(_put(Tensor.unfold, "dim size step", replaces=False), "UnfoldBackward"),
    _match(_masked_scatter, "MaskedScatter"),
    _match(_as_strided, "AsStrided"),
    _match(
        _loss,
        "BinaryCrossEntropy(WithLogits)? (Huber|Mse|SmoothL1|SoftMargin)Loss",
    ),
    _match(_class_loss, "MultiMarginLoss NllLoss(2D)?"),
    _match(_rnn, "CudnnRnn MkldnnRnnLayer"),
    _match(_lstm_cell, "ThnnFusedLstmCell"),
    _match(_grid_sample, "GridSampler[23]D"),
    _match(_unfold_picture, "Col2Im Im2Col"),
    # These operations reduce over all elements, so they certainly mix rows.
    _match(_mix_all, "Dist Dot Max:1 Mean (Nan)?[Mm]edian Min:1 Norm Prod Sum Trace Vdot"),
]
_OF_OTHER_NAMES: dict[str, Behaviour] = {"CopyBackwards": _overwrite, "CopySlices": _copy_slices}
_OWN: dict[Any, Behaviour] = {
    **dict.fromkeys(fused.FUNCTIONS, _fuse_layers),
    **dict.fromkeys((*contraction.FUNCTIONS, *recurrences.FUNCTIONS), _stack_coefficients),
}


@lru_cache(maxsize=1024)
def _behaviour_of_name(name: str) -> Behaviour | None:
    if name in _OF_OTHER_NAMES:
        return _OF_OTHER_NAMES[name]
    rule = RULES.get(name.replace(_OF_FORMULA, "Backward0"))
    if rule is not None and rule.rowwise:
        return _apply_elementwise
    return next((behave for behave, pattern in _KINDS if pattern.fullmatch(name)), None)


def behaviour_of(node: Node) -> Behaviour | None:
    """Return the behaviour for the kind of `node`, None if the kind is unknown."""
    function = _autograd.forward_class(node)
    if function is not None:
        return _OWN.get(function)
    return _behaviour_of_name(_autograd.node_name(node).removesuffix("_copy"))


def mixes_certainly(node: Node) -> bool:
    """Check whether a node certainly mixes rows, as a sum over rows does.

    A matrix product does not certainly mix rows, because its factors may be zero. If a node
    certainly mixes rows, a caller who passes ``rows="independent"`` is wrong.
    """
    return _autograd.is_training_batch_norm(node) or behaviour_of(node) in (_mix_all, _reduce_dim)


# The most common kinds that act along one saved axis. The labels of all other axes do not change
# (see `row_spans`). The value is the number of axes that the operation adds.
_ALONG_DIM = {
    **dict.fromkeys(("SliceBackward0", "CatBackward0", "SoftmaxBackward0", "CumsumBackward0"), 0),
    "SelectBackward0": -1,
    "UnsqueezeBackward0": 1,
}


class Kind(NamedTuple):
    """The properties of a kind of node that the proof of row independence reads.

    For some kinds, there is a shortcut: if the labels of all inputs (see `row_spans`) are equal,
    the labels of the only result follow from them, and the behaviour need not be called. The
    attributes after `behave` describe the shortcut.

    Attributes:
        behave: The behaviour, None if it is unknown.
        passing: The number of inputs, from the first one on, that may have labels. If a later input
            has labels, the shortcut does not apply.
        mixes_last: Whether the shortcut requires that the last axis has no label.
        read_dim: Reads the saved axis, which must have no label. None for kinds without one.
        new: The number of axes added at the saved axis, -1 if that axis is dropped.
    """

    behave: Behaviour | None
    passing: int
    mixes_last: bool
    read_dim: Callable[[Node], int] | None
    new: int


KINDS: dict[type[Node], Kind] = {}  # A cache for node types that PyTorch never frees.


def kind_of(node: Node) -> Kind:
    """Return the `Kind` of a node. Cache it in `KINDS` if PyTorch never frees the node's type."""
    behave = behaviour_of(node)
    passing, new = 0, _ALONG_DIM.get(_autograd.node_name(node))
    if len(_autograd.output_types(node)) == 1:
        count = len(_autograd.next_functions(node))
        counts: dict[Any, int] = {_apply_elementwise: count, _matmul: count - 1, _linear: 1}
        passing = sys.maxsize if new is not None else counts.get(behave, 0)
    read_dim = None if new is None else _autograd.reader_of_kept("dim")
    kind = Kind(
        behave, passing, new is None and behave is not _apply_elementwise, read_dim, new or 0
    )
    if _autograd.has_lasting_type(node):
        KINDS[type(node)] = kind
    return kind
