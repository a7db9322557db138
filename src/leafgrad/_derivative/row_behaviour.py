"""What each kind of node does to rows: which of its inputs' elements each result depends on.

A behaviour is called with a `Site` and returns the span ``[2, *sizes]`` of each result (see
`row_spans`). It may claim more dependence than there is, never less. It reads only shapes and what
the node saved: axes, indices and masks. These count as constants, as they do for the derivative.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._derivative.row_spans import Rows, Shape, join, placed
from leafgrad._derivative.taylor import Unsupported
from leafgrad._derivative.taylor.kernels import contraction, fused, recurrences
from leafgrad._derivative.taylor.propagate import step_at
from leafgrad._derivative.taylor.rules import RULES
from leafgrad._derivative.taylor.rules.indexing import numbered as numbered_places
from leafgrad._derivative.taylor.rules.writes import sent_back


class Site(NamedTuple):
    """A node, and the rows of its inputs: None where one does not depend on the inputs."""

    node: Node
    edges: _autograd.Successors
    given: Sequence[Rows | None]
    is_in_backward: bool

    @property
    def name(self) -> str:
        """PyTorch's name of the node."""
        return _autograd.node_name(self.node)

    @property
    def present(self) -> list[Rows]:
        """The rows of the inputs that have any."""
        return [rows for rows in self.given if rows is not None]

    @property
    def shapes(self) -> list[Shape]:
        """The shape of each result."""
        return [tuple(map(int, made.shape)) for made in _autograd.output_types(self.node)]

    @property
    def shape(self) -> Shape:
        """The shape of the first result."""
        return self.shapes[0]

    def saved(self, name: str) -> Any:
        """Return what the node saved under a name, tensors on the CPU."""
        look = _autograd.kept if self.is_in_backward else _autograd.kept_at_hand
        value = _autograd.signed(look(self.node, name))
        if isinstance(value, list | tuple):
            return [_readable(one) for one in value]
        return _readable(value)

    def shape_of(self, name: str) -> Shape:
        """Return the shape of a tensor that the node saved."""
        look = _autograd.kept if self.is_in_backward else _autograd.kept_at_hand
        return tuple(map(int, look(self.node, name).shape))

    def dims(self, x: Rows, name: str = "dim") -> list[int]:
        """Return the saved axes, counted from the end; none means all."""
        dims = self.saved(name)
        if isinstance(dims, int):
            dims = [dims]
        return [_from_end(dim, x.ndim) for dim in (dims or range(x.ndim)) if x.ndim]

    def dim(self, ndim: int, name: str = "dim") -> int:
        """Return a saved axis of `ndim`, counted from the end."""
        return _from_end(self.saved(name), ndim)


Behaviour = Callable[[Site], Sequence[Tensor]]


_OF_FORMULA = "BackwardBackward0"


class UnreadableError(Exception):
    """Raised where an index has no values, as in code that is being compiled."""


def _readable(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    if _autograd.is_without_values(value) or _autograd.lacking_memory(value):
        raise UnreadableError
    value = value.detach().cpu()
    return value.bool() if value.dtype == torch.uint8 else value


def _from_end(dim: int, ndim: int) -> int:
    return dim if dim < 0 else dim - ndim


# --- Element by element


def _elementwise(site: Site) -> list[Tensor]:
    """Each element depends on those that broadcasting puts in its place."""
    return [join([rows.aligned(len(shape)) for rows in site.present]) for shape in site.shapes]


def _last(site: Site) -> list[Tensor]:
    """The result is the last input, which overwrites the first."""
    rows = site.given[-1]
    return [] if rows is None else [rows.aligned(len(site.shape))]


# --- Along axes


def _mixed_along(site: Site) -> list[Tensor]:
    """All places along the saved axes depend on each other."""
    return [join([rows.joined(site.dims(rows)).span for rows in site.present])] * len(site.shapes)


def _reduced(site: Site) -> list[Tensor]:
    """The saved axes are reduced, to size 1 if `keepdim`, or they are gone."""
    (rows,) = site.present
    dims = site.dims(rows)
    span = rows.joined(dims).span
    if not site.saved("keepdim"):
        span = _dropped(span, dims)
    return [span] * len(site.shapes)


def _dropped(span: Tensor, dims: Iterable[int]) -> Tensor:
    """Return a span without some axes, which have size 1."""
    for dim in sorted({dim % (span.dim() - 1) for dim in dims}, reverse=True):
        span = span.select(1 + dim, 0)
    return span


def _mixed(site: Site) -> list[Tensor]:
    """Every element may depend on all elements."""
    total = join([rows.total() for rows in site.present])
    return [total.reshape(2, *[1] * len(shape)) for shape in site.shapes]


def _shared(rows: Rows, ndim: int) -> Tensor:
    """Return the span of what is shared by all elements of a result."""
    return rows.total().reshape(2, *[1] * ndim)


def _mixed_but_for(kept: Callable[[Site, int], Iterable[int]]) -> Behaviour:
    """Make the behaviour of kinds that mix all axes of the first input but some.

    The other inputs, such as weights, are shared by all rows.
    """

    def behave(site: Site) -> list[Tensor]:
        first, *others = site.given
        spans = []
        if first is not None:
            stay = {dim % first.ndim for dim in kept(site, first.ndim)}
            spans.append(first.joined(set(range(first.ndim)) - stay).span)
        spans += [_shared(rows, len(site.shape)) for rows in others if rows]
        return [join(spans)] * len(site.shapes)

    return behave


def _spatial(site: Site) -> list[Tensor]:
    """The last axes, as many as the name of the kind says, are mixed."""
    found = re.search(r"(\d)D", site.name)
    count = int(found[1]) if found else 3  # as those of a pixel shuffle
    return [join([rows.joined(range(-count, 0)).span for rows in site.present])] * len(site.shapes)


def _normalised(site: Site) -> list[Tensor]:
    """The last axes, which are all of those of a weight, are normalised together."""
    count = len(site.saved("normalized_shape"))
    ndim = len(site.shape)
    span = join([rows.joined(range(-count, 0)).aligned(ndim) for rows in site.present])
    return [span] * (1 if _OF_FORMULA in site.name else len(site.shapes))


def _batch_normalised(site: Site) -> list[Tensor]:
    """Channels, on axis 1, stay apart; so do rows, if statistics are constants."""
    names = [n for n in ("training", "train", "update") if _autograd.keeps(site.node, n)]
    is_eval = site.name in _EVAL or (bool(names) and not any(map(site.saved, names)))
    ndim = len(site.shape)
    spans = []
    for rows in site.present:
        if rows.ndim == 1:
            spans.append(rows.span.reshape(2, 1, -1, *[1] * (ndim - 2)))
        else:
            spans.append((rows if is_eval else rows.joined({*range(ndim)} - {1})).span)
    return [join(spans)]


_EVAL = {"NativeBatchNormLegitNoTrainingBackward0", "BatchNormNoUpdateBackward0"}


def _halved(site: Site) -> list[Tensor]:
    """Each place along the first half of an axis depends on one of the second half."""
    (rows,) = site.present
    dim = site.dim(rows.ndim)
    if rows.span.shape[dim] == 1:
        return [rows.span]
    return [join(rows.span.chunk(2, dim))]


# --- Products


def _product(left: Rows | None, right: Rows | None) -> list[Tensor]:
    """Return spans of matrices ``[..., n, k]`` times ``[..., k, m]``."""
    spans = [] if left is None else [left.joined([-1]).span]
    return spans if right is None else [*spans, right.joined([-2]).span]


def _multiplied(site: Site) -> list[Tensor]:
    """A product of the last two inputs, which may be added to the one before."""
    *base, left, right = site.given
    spans = [rows.aligned(len(site.shape)) for rows in base if rows]
    return [join([*spans, *_product(left, right)])]


def _multiplied_by_vector(site: Site) -> list[Tensor]:
    *base, matrix, vector = site.given
    spans = [rows.aligned(1) for rows in base if rows]
    if matrix is not None:
        spans.append(matrix.joined([-1]).span.squeeze(-1))
    if vector is not None:
        spans.append(_shared(vector, 1))
    return [join(spans)]


def _outer(site: Site) -> list[Tensor]:
    base, one, two = site.given
    spans = [] if base is None else [base.aligned(2)]
    spans += [] if one is None else [one.span.unsqueeze(-1)]
    return [join(spans if two is None else [*spans, two.span.unsqueeze(-2)])]


def _batched_sum(site: Site) -> list[Tensor]:
    base, left, right = site.given
    spans = [] if base is None else [base.aligned(2)]
    return [join(spans + [span.amax(1) for span in _product(left, right)])]


def _linear(site: Site) -> list[Tensor]:
    first, *others = site.given
    ndim = len(site.shape)
    spans = [] if first is None else [first.joined([-1]).span]
    return [join(spans + [_shared(rows, ndim) for rows in others if rows])]


def _trilinear(site: Site) -> list[Tensor]:
    spans = []
    for number, rows in enumerate(site.given, 1):
        if rows is not None:
            span = rows.span
            for dim in sorted(site.saved(f"expand{number}")):
                span = span.unsqueeze(1 + dim)
            spans.append(span)
    dims = [1 + dim for dim in site.saved("sumdim")]
    joined = join(spans)
    return [joined.amax(dims)] if dims else [joined]


def _distances(site: Site) -> list[Tensor]:
    """Each of n points ``[..., n, k]`` meets each of m points ``[..., m, k]``."""
    one, two = site.given
    spans = [] if one is None else [one.joined([-1]).span]
    return [join(spans if two is None else [*spans, two.joined([-1]).span.transpose(-1, -2)])]


def _attended(site: Site) -> list[Tensor]:
    """Each query meets all keys and values of its own head."""
    query, *shared = site.given[:3]
    heads = None if query is None else query.shape[:-2]
    spans = [] if query is None else [query.joined([-1]).span]
    for rows in shared:
        if rows is not None:
            is_shared = heads is not None and rows.shape[:-2] != heads
            spans.append(rows.joined([-3, -2, -1] if is_shared else [-2, -1]).span)
    ndim = len(site.shape)
    spans += [r.joined([-1]).aligned(ndim) for r in site.given[3:] if r is not None]
    return [join(spans)]


def _convolved(site: Site) -> list[Tensor]:
    """Pictures stay apart, and so do pixels if the kernel has one; all share the weight."""
    ndim = len(site.shape)
    mixed = [1] if _has_one_point(site) else range(1, ndim)
    spans = []
    for number, rows in enumerate(site.given):
        is_picture = number == 0 or (number == 1 and _OF_FORMULA in site.name)
        if rows is not None:
            spans.append(rows.joined(mixed).span if is_picture else _shared(rows, ndim))
    return [join(spans)]


def _has_one_point(site: Site) -> bool:
    if not _autograd.keeps(site.node, "weight"):
        return False
    kernel = site.shape_of("weight")[2:]
    return {*kernel, *site.saved("stride")} == {1} and not any(site.saved("padding"))


# --- Matrices on the last two axes


def _of_matrix(site: Site) -> list[Tensor]:
    """Each matrix, on the last two axes, stays apart from the others."""
    (rows,) = site.present
    if rows.ndim <= 1:
        return _mixed(site)
    span = _dropped(rows.joined([-2, -1]).span, [-2, -1])
    return [span.reshape(*span.shape, *[1] * (len(s) + 2 - rows.ndim)) for s in site.shapes]


def _of_system(site: Site) -> list[Tensor]:
    """Systems of a matrix on the last two axes, and of matrices or vectors of the same batch."""
    ndim = len(site.shape)
    matrices = [rows.shape for rows in site.present]
    if _autograd.keeps(site.node, "LU"):  # of a matrix that is a constant
        matrices.append(site.shape_of("LU"))
    if any(len(shape) == ndim + 1 and shape[:-1] == site.shape for shape in matrices):
        present = [rows.joined([-1] if rows.ndim == ndim else [-2, -1]) for rows in site.present]
        return [join([r.span if r.ndim == ndim else _dropped(r.span, [-1]) for r in present])]
    if any(rows.ndim != ndim for rows in site.present):
        return _mixed(site)
    # Columns of a right side that stands after its matrix stay apart.
    sides = [[-2] if site.saved("left") else [-1]] if _autograd.keeps(site.node, "left") else []
    mixed = dict(zip((1,), sides, strict=False))
    return [
        join(
            [
                rows.joined(mixed.get(number, [-2, -1])).span
                for number, rows in enumerate(site.given)
                if rows is not None
            ]
        )
    ]


# --- Views and parts


def _viewed(site: Site) -> list[Tensor]:
    return [site.present[0].viewed(site.shape)]


def _permuted(site: Site) -> list[Tensor]:
    (rows,) = site.present
    if site.name.startswith("PermuteBackward"):
        order = [dim % rows.ndim for dim in site.saved("dims")]
        return [rows.span.permute(0, *[1 + dim for dim in order])]
    if site.name.startswith("TBackward"):
        return [rows.span if rows.ndim <= 1 else rows.span.transpose(-1, -2)]
    if not rows.ndim:
        return [rows.span]
    return [rows.span.transpose(site.dim(rows.ndim, "dim0"), site.dim(rows.ndim, "dim1"))]


def _taken(*names: str, take: Callable[..., Any], full: bool = False) -> Behaviour:
    """Make the behaviour of what takes elements: `take` takes them of a span, by saved axes.

    Those are counted from the end. Only along these the span has its full size, or along all.
    """

    def behave(site: Site) -> list[Tensor]:
        rows = next(rows for rows in site.given if rows is not None)
        dims = [site.saved(name) for name in names]
        dims = [
            [_from_end(d, rows.ndim) for d in dim]
            if isinstance(dim, list)
            else _from_end(dim, rows.ndim)
            for dim in dims
        ]
        flat = [d for dim in dims for d in (dim if isinstance(dim, list) else [dim])]
        found = take(site, rows.whole() if full else rows.full(*flat), *dims)
        return [*found] if isinstance(found, list | tuple) else [found]

    return behave


def _slice(site: Site, tensor: Tensor, dim: int) -> Tensor:
    part = slice(*map(site.saved, ("start", "end", "step")))
    return tensor.movedim(dim, 0)[part].movedim(0, dim)


def _rolled(site: Site) -> list[Tensor]:
    (rows,) = site.present
    dims = [_from_end(dim, rows.ndim) for dim in site.saved("dims")]
    if dims:
        return [rows.full(*dims).roll(site.saved("shifts"), dims)]
    return [rows.whole().flatten(1).roll(site.saved("shifts"), 1).reshape(2, *rows.shape)]


def _repeated(site: Site) -> list[Tensor]:
    (rows,) = site.present
    repeats = site.saved("repeats")
    span = rows.aligned(len(repeats))
    wide = Rows(span, tuple([1] * (len(repeats) - rows.ndim)) + rows.shape)
    dims = [dim for dim, count in enumerate(repeats) if count != 1]
    return [wide.full(*dims).repeat(1, *[count if count != 1 else 1 for count in repeats])]


def _joined_parts(site: Site) -> list[Tensor]:
    """Parts are side by side along an axis, an old one or, of a stack, a new one."""
    ndim = len(site.shape)
    dim = site.dim(ndim)
    is_stack = site.name.startswith("Stack")
    parts = list(site.given)
    if is_stack:
        shape = [*site.shape]
        shape[dim] = 1
        parts = [r and Rows(r.viewed(tuple(shape)), tuple(shape)) for r in parts]
    if any(rows.ndim != ndim for rows in parts if rows):
        return []  # an empty vector may be joined with anything
    sizes = [
        1 if is_stack else _size(rows, edge, dim)
        for rows, edge in zip(parts, site.edges, strict=True)
    ]
    rest = site.shape[dim] - sum(size for size in sizes if size is not None)
    if sizes.count(None) > 1:
        return [join([rows.joined([dim]).span for rows in parts if rows])]
    present = [rows.full(dim) for rows in parts if rows]
    common = [max(n) for n in zip(*[span.shape for span in present], strict=True)]
    blocks = []
    for rows, size in zip(parts, sizes, strict=True):
        common[dim] = rest if size is None else size
        span = present[0].new_zeros(()) if rows is None else rows.full(dim)
        blocks.append(span.expand(common))
    return [torch.cat(blocks, dim)]


def _size(rows: Rows | None, edge: tuple[Any, int], dim: int) -> int | None:
    """Return the size of a part along the axis; a constant that needs no gradient hides it."""
    if rows is not None:
        return rows.shape[dim]
    node, number = edge
    if node is None:
        return None
    made = _autograd.output_types(node)[number].shape
    return int(made[dim]) if len(made) >= -dim else None


def _indexed(site: Site) -> list[Tensor]:
    (rows,) = site.present
    indices = site.saved("indices")
    dims, _ = numbered_places(indices)
    span = torch.ops.aten.index(rows.full(*dims).movedim(0, -1), indices)
    return [span.movedim(-1, 0)]


def _gathered(site: Site, span: Tensor, dim: int) -> Tensor:
    index = site.saved("index")
    return span.gather(dim, index.expand(2, *index.shape))


def _taken_of_all(site: Site) -> list[Tensor]:
    (rows,) = site.present
    index = site.saved("index")
    return [rows.whole().flatten(1)[:, index.flatten()].reshape(2, *index.shape)]


def _taken_by_mask(site: Site) -> list[Tensor]:
    (rows,) = site.present
    mask = site.saved("mask")
    shape = torch.broadcast_shapes(mask.shape, rows.shape)
    span = rows.aligned(len(shape)).expand(2, *shape)
    return [span[:, mask.expand(shape)]]


def _embedded(site: Site) -> list[Tensor]:
    (rows,) = site.present
    return [rows.full(0)[:, site.saved("indices")]]


def _padded(site: Site) -> list[Tensor]:
    (rows,) = site.present
    pad = site.saved("pad")
    dims = [-1 - number // 2 for number, size in enumerate(pad) if size]
    return [torch.nn.functional.pad(rows.full(*dims), pad)] if dims else [rows.span]


def _diagonal_embedded(site: Site) -> list[Tensor]:
    (rows,) = site.present
    ndim = len(site.shape)
    dims = [_from_end(site.saved(name) % ndim, ndim) for name in ("dim1", "dim2")]
    return [rows.full(-1).diag_embed(site.saved("offset"), *dims)]


# --- Writes


def _put(take: Callable[[Site, Tensor], Tensor], *, replaces: bool = True) -> Behaviour:
    """Make the behaviour of what puts the second input where `take` would take elements."""

    def behave(site: Site) -> list[Tensor]:
        base, *source = site.given if len(site.given) > 1 else (None, *site.given)
        adds = not replaces or (
            _autograd.keeps(site.node, "accumulate") and site.saved("accumulate")
        )
        if adds and base is not None and source[0] is None:
            return [base.aligned(len(site.shape))]  # its node saved no index
        look = partial(take, site)
        return [placed(site.shape, base, source[0], look, replaces=not adds)]

    return behave


def _where_put(site: Site, places: Tensor) -> Tensor:
    taken: Tensor = torch.ops.aten.index(places, site.saved("indices"))
    return taken


def _where_scattered(site: Site, places: Tensor) -> Tensor:
    return places.gather(site.saved("dim"), site.saved("index"))


def _where_selected(site: Site, places: Tensor) -> Tensor:
    index = site.saved("index")
    if isinstance(index, Tensor):
        return places.index_select(site.saved("dim"), index)
    return places.select(site.saved("dim"), index)


def _where_diagonal(site: Site, places: Tensor) -> Tensor:
    return places.diagonal(*map(site.saved, ("offset", "dim1", "dim2")))


def _put_by_mask(site: Site) -> list[Tensor]:
    base, source = site.given
    mask = site.saved("mask").expand(site.shape)
    if source is not None:
        flat = source.whole().flatten(1)[:, : int(mask.sum())]
        source = Rows(flat, tuple(flat.shape[1:]))
    return [placed(site.shape, base, source, lambda places: places[mask], replaces=True)]


def _written(site: Site) -> list[Tensor]:
    """A base with a write into a view of it, which does no more than move elements.

    The backward of the node shows where they went.
    """
    try:
        probe, (to_base, *to_source) = sent_back(step_at(site.node, site.edges, torch.float64))
    except Unsupported:
        return []
    base, *sources = site.given
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


def _strided(site: Site) -> list[Tensor]:
    """A view by strides that shows each element once."""
    (rows,) = site.present
    try:
        probe, (numbers,) = sent_back(step_at(site.node, site.edges, torch.float64))
    except Unsupported:
        return []
    found = numbers.cpu().flatten().long()
    shown = found.nonzero().squeeze(1)
    if len(shown) != probe.numel() or len(found[shown].unique()) != probe.numel():
        return []
    places = torch.empty_like(shown).index_copy(0, found[shown] - 1, shown)
    return [rows.whole().reshape(2, -1)[:, places].reshape(2, *site.shape)]


# --- Layers and losses


def _lost(site: Site) -> list[Tensor]:
    """A loss of each element, or the mean or the sum of all."""
    return _elementwise(site) if site.saved("reduction") == 0 else _mixed(site)


def _lost_by_class(site: Site) -> list[Tensor]:
    """A loss of each row ``[rows, classes, ...]``, or the mean or the sum of all."""
    (rows,) = site.present
    if site.saved("reduction") != 0 or rows.ndim <= 1:
        return _mixed(site)
    return [_dropped(rows.joined([1]).span, [1])]


def _recurrent(site: Site) -> list[Tensor]:
    """Sequences stay apart, on the axis before the last of all but the weights."""
    is_first = _autograd.keeps(site.node, "batch_first") and site.saved("batch_first")
    spans = []
    for number, rows in enumerate(site.given):
        if rows is None:
            continue
        if number == 0:
            first = rows.joined({0, 1, 2} - {0 if is_first else 1}).span
            spans.append(first.flatten(1))
        elif number >= len(site.given) - 2:
            spans.append(rows.joined({*range(-rows.ndim, 0)} - {-2}).span.flatten(1))
        else:
            spans.append(rows.total().unsqueeze(1))
    span = join(spans)
    results: list[Tensor] = []
    for shape in site.shapes[:3]:
        axis = 0 if is_first and not results else len(shape) - 2
        results.append(span.reshape(2, *[-1 if n == axis else 1 for n in range(len(shape))]))
    return results


def _gates(site: Site) -> list[Tensor]:
    """The cell of a recurrent layer: rows ``[rows, features]``, and biases ``[features]``."""
    return [join([rows.joined([-1]).aligned(2) for rows in site.present])] * 2


def _sampled(site: Site) -> list[Tensor]:
    """A picture of each row is read at points of the same row."""
    picture, grid = site.given
    ndim = len(site.shape)
    spans = [] if picture is None else [picture.joined(range(2, ndim)).span]
    return [join(spans if grid is None else [*spans, grid.joined([-1]).span.movedim(-1, 2)])]


def _columns(site: Site) -> list[Tensor]:
    """Patches of pictures, with an axis for pictures in front."""
    (rows,) = site.present
    ndim = len(site.shape)
    if min(ndim, rows.ndim) + 1 != max(ndim, rows.ndim) or 4 not in (ndim, rows.ndim):  # noqa: PLR2004 (a batch of pictures)
        return []
    return [rows.joined(range(1, rows.ndim)).span.flatten(2).reshape(2, -1, *[1] * (ndim - 1))]


def _stacked(site: Site) -> list[Tensor]:
    """Coefficients ``[N, *shape]``, each computed place by place from others and from values."""
    ndim = len(site.shape)
    return [join([rows.aligned(ndim).amax(1, keepdim=True) for rows in site.present])]


def _layers(site: Site) -> list[Tensor]:
    """Layers of coefficients: what is multiplied by a matrix has columns on the last axis."""
    own: Any = site.node
    are_products = [False, *(layer is None for layer in own.layers)]
    if any(rows and is_one for rows, is_one in zip(site.given, are_products, strict=True)):
        return _mixed(site)
    if not any(are_products):
        return _stacked(site)
    return _stacked(site._replace(given=[rows and rows.joined([-1]) for rows in site.given]))


def _each(site: Site) -> list[Tensor]:
    """Lists of tensors, one after another: tensor i of the result depends on each tensor i."""
    count = len(site.shapes)
    spans = []
    for number, shape in enumerate(site.shapes):
        present = [rows.aligned(len(shape)) for rows in site.given[number::count] if rows]
        none = torch.zeros([2, *[1] * len(shape)], dtype=torch.int32, device="cpu")
        spans.append(join([none, *present]))
    return spans if len(site.given) % count == 0 else []


def behaviour_of(node: Node) -> Behaviour | None:
    """Return what is known of a kind of node, None for nothing."""
    function = _autograd.forward_class(node)
    if function is not None:
        return _OWN.get(function)
    name = _autograd.node_name(node).removesuffix("_copy")
    if found := _FOREACH.match(name):
        return _each if _BEHAVIOURS.get(found[1]) is _elementwise else None
    return _BEHAVIOURS.get(name)


_FOREACH = re.compile(r"Foreach(\w+Backward\d)")


_OWN: dict[Any, Behaviour] = {
    **dict.fromkeys(fused.FUNCTIONS, _layers),
    **dict.fromkeys((*contraction.FUNCTIONS, *recurrences.FUNCTIONS), _stacked),
}


def _kinds(behave: Behaviour, names: str, number: int = 0) -> dict[str, Behaviour]:
    """Map kinds to their behaviour, named without ``Backward0`` or another number at their end."""
    return {f"{name}Backward{number}": behave for name in names.split()}


# Besides the rules that say so themselves.
_ELEMENTWISE = (
    "Bernoulli Cauchy CopysignBackward Eq Exponential Fill FusedDropout Ge Geometric Gt LazyClone "
    "Ldexp Le Lift LiftFresh LogNormal Lt NativeDropout NativeDropoutBackward Ne Nextafter Normal "
    "Mvlgamma PinMemory Poisson Random RreluWithNoise RreluWithNoiseFunctional SpecialErfcx "
    "SpecialNdtri Uniform Zero "
    "FakeQuantizePerTensorAffineCachemask FakeQuantizePerChannelAffineCachemask "
    "MseLossBackward SmoothL1LossBackward HuberLossBackward SoftMarginLossBackward "
    "BinaryCrossEntropyBackward PreluKernelBackward RreluWithNoiseBackward"
)
_ROW_WISE = {name for name, rule in RULES.items() if rule.rowwise and not rule.shared}
_BEHAVIOURS: dict[str, Behaviour] = {
    **dict.fromkeys(_ROW_WISE, _elementwise),
    **{name.replace("Backward0", _OF_FORMULA): _elementwise for name in _ROW_WISE},
    **_kinds(_elementwise, _ELEMENTWISE),
    **_kinds(
        _elementwise,
        "Celu ConjPhysical Elu Eq Fill Ge Gt IndexFill LeakyRelu Le Lt Ne Normal Polygamma Random "
        "RreluWithNoise Threshold",
        1,
    ),
    **_kinds(_elementwise, "Fill Normal Random", 2),
    **_kinds(_elementwise, "Normal", 3),
    "CopyBackwards": _last,
    **_kinds(
        _mixed_along,
        "Cummax Cummin Cumprod Cumsum FftC2C FftC2R FftR2C GluBackward LinalgCross LogSoftmax "
        "LogSoftmaxBackwardData Logcumsumexp SafeSoftmax Softmax SoftmaxBackwardData Sort Topk",
    ),
    **_kinds(_mixed_along, "Sort", 1),
    **_kinds(
        _reduced,
        "Amax Amin Aminmax Kthvalue LinalgVectorNorm Logsumexp Max Min Mode Nansum Std StdMean Var "
        "VarMean",
    ),
    **_kinds(_reduced, "Mean Median Nanmedian Norm Prod Sum", 1),
    **_kinds(_mixed_but_for(lambda *_: [0]), "GridSampler2DBackward GridSampler3DBackward"),
    **_kinds(_mixed_but_for(lambda *_: [0]), "ChannelShuffle NativeGroupNorm"),
    **_kinds(_mixed_but_for(lambda site, ndim: [site.dim(ndim)]), "Renorm"),
    **_kinds(
        _spatial,
        "AdaptiveAvgPool2D AdaptiveAvgPool3D AdaptiveMaxPool2D AdaptiveMaxPool3D AvgPool2D "
        "AvgPool3D FractionalMaxPool2D FractionalMaxPool3D MaxPool2DWithIndices "
        "MaxPool3DWithIndices MaxUnpool2D MaxUnpool3D PixelShuffle PixelUnshuffle ReflectionPad1D "
        "ReflectionPad2D ReflectionPad3D ReplicationPad1D ReplicationPad2D ReplicationPad3D "
        "UpsampleBicubic2D UpsampleBicubic2DAa UpsampleBilinear2D UpsampleBilinear2DAa "
        "UpsampleLanczos2DAa UpsampleLinear1D UpsampleNearest1D UpsampleNearest2D "
        "UpsampleNearest3D UpsampleNearestExact1D UpsampleNearestExact2D UpsampleNearestExact3D "
        "UpsampleTrilinear3D",
    ),
    **_kinds(_normalised, "FusedRmsNorm NativeLayerNorm NativeLayerNormBackward"),
    **_kinds(
        _batch_normalised,
        "BatchNormBackward BatchNormNoUpdate BatchNormWithUpdate CudnnBatchNorm "
        "CudnnBatchNormBackward MiopenBatchNorm MiopenBatchNormBackward NativeBatchNorm "
        "NativeBatchNormBackward NativeBatchNormLegit NativeBatchNormLegitNoTraining",
    ),
    **_kinds(_batch_normalised, "NativeBatchNormLegit", 1),
    **_kinds(_halved, "Glu"),
    **_kinds(_multiplied, "Addmm Baddbmm Bmm Mm"),
    **_kinds(_multiplied_by_vector, "Addmv Mv"),
    **_kinds(_outer, "Addr"),
    **_kinds(_batched_sum, "Addbmm"),
    **_kinds(_linear, "Linear"),
    **_kinds(_trilinear, "Trilinear"),
    **_kinds(_distances, "Cdist EuclideanDist"),
    **_kinds(
        _attended,
        "ScaledDotProductCudnnAttention ScaledDotProductEfficientAttention "
        "ScaledDotProductFlashAttention ScaledDotProductFlashAttentionForCpu "
        "ScaledDotProductFusedAttentionOverrideable",
    ),
    **_kinds(
        _convolved,
        "ConvDepthwise2D ConvDepthwise3D Convolution ConvolutionBackward ConvolutionOverrideable "
        "CudnnConvolution MiopenConvolution MkldnnConvolution MpsConvolution SlowConv2D "
        "SlowConv3D SlowConvDilated2D SlowConvTranspose2D",
    ),
    **_kinds(
        _of_matrix,
        "Cholesky CholeskyInverse LinalgCholeskyEx LinalgDet LinalgEig LinalgEigh LinalgInvEx "
        "LinalgLu LinalgLuFactorEx LinalgMatrixExp LinalgPinv LinalgQr LinalgSlogdet LinalgSvd "
        "LuUnpack",
    ),
    **_kinds(
        _of_system,
        "CholeskySolve LinalgLstsq LinalgLuSolve LinalgSolveEx LinalgSolveTriangular Ormqr "
        "TriangularSolve",
    ),
    **_kinds(
        _viewed, "Expand ReshapeAlias ReshapeCopy Squeeze UnsafeView Unsqueeze View MkldnnReshape"
    ),
    **_kinds(_viewed, "Squeeze Unsqueeze", 1),
    **{f"SqueezeBackward{number}": _viewed for number in (2, 3, 4, 5)},
    **_kinds(lambda site: [site.present[0].aligned(len(site.shape))], "Expand"),
    **_kinds(_permuted, "Permute T Transpose"),
    **_kinds(_permuted, "T Transpose", 1),
    **_kinds(_repeated, "Repeat"),
    **_kinds(_taken("dim", take=_slice), "Slice"),
    **_kinds(
        _taken(
            "dim", take=lambda site, x, dim: x.narrow(dim, *map(site.saved, ("start", "length")))
        ),
        "NarrowCopy",
    ),
    **_kinds(_taken("dim", take=lambda site, x, dim: x.select(dim, site.saved("index"))), "Select"),
    **_kinds(_taken("dim", take=lambda _, x, dim: x.unbind(dim)), "Unbind"),
    **_kinds(
        _taken("dim", take=lambda site, x, dim: x.split(site.saved("split_size"), dim)),
        "Split UnsafeSplit",
    ),
    **_kinds(
        _taken("dim", take=lambda site, x, dim: x.split(site.saved("split_sizes"), dim)),
        "SplitWithSizes UnsafeSplitWithSizes",
    ),
    **_kinds(
        _taken("dim1", "dim2", take=lambda site, x, *d: x.diagonal(site.saved("offset"), *d)),
        "Diagonal",
    ),
    **_kinds(
        _taken(
            "dimension",
            take=lambda site, x, dim: x.unfold(dim, *map(site.saved, ("size", "step"))),
        ),
        "Unfold",
    ),
    **_kinds(_taken("dims", take=lambda _, x, dims: x.flip(dims)), "Flip"),
    **_kinds(_taken("dims", take=lambda site, x, dims: x.rot90(site.saved("k"), dims)), "Rot90"),
    **_kinds(
        _taken("dim", take=lambda site, x, dim: x.index_select(dim, site.saved("index"))),
        "IndexSelect",
    ),
    **_kinds(_taken("dim", take=_gathered, full=True), "Gather"),
    **_kinds(_rolled, "Roll"),
    **_kinds(_joined_parts, "Cat Stack"),
    **_kinds(_indexed, "Index UnsafeIndex"),
    **_kinds(_taken_of_all, "Take"),
    **_kinds(_taken_by_mask, "MaskedSelect"),
    **_kinds(_embedded, "Embedding"),
    **_kinds(_padded, "ConstantPadNd"),
    **_kinds(_diagonal_embedded, "DiagEmbed"),
    **_kinds(lambda site: [site.present[0].span.unsqueeze(-1)], "ViewAsReal"),
    **_kinds(lambda site: [site.present[0].joined([-1]).span.squeeze(-1)], "ViewAsComplex"),
    **_kinds(_put(_where_put), "IndexPut IndexPutImpl UnsafeIndexPut"),
    **_kinds(_put(_where_scattered), "Scatter"),
    **_kinds(_put(_where_scattered, replaces=False), "ScatterAdd ScatterReduce"),
    **_kinds(_put(_where_selected), "IndexCopy SelectScatter SelectBackward"),
    **_kinds(_put(_where_selected, replaces=False), "IndexAdd IndexReduce"),
    **_kinds(
        _put(lambda site, x: _slice(site, x, site.saved("dim"))), "SliceScatter SliceBackward"
    ),
    **_kinds(_put(_where_diagonal), "DiagonalScatter DiagonalBackward"),
    **_kinds(_put(lambda site, x: x.flatten()[site.saved("index")]), "Put"),
    **_kinds(
        _put(lambda site, x: x.unfold(*map(site.saved, ("dim", "size", "step"))), replaces=False),
        "UnfoldBackward",
    ),
    **_kinds(_put_by_mask, "MaskedScatter"),
    "CopySlices": _written,
    **_kinds(_strided, "AsStrided"),
    **_kinds(
        _lost,
        "BinaryCrossEntropy BinaryCrossEntropyWithLogits HuberLoss MseLoss SmoothL1Loss "
        "SoftMarginLoss",
    ),
    **_kinds(_lost_by_class, "MultiMarginLoss NllLoss NllLoss2D"),
    **_kinds(_recurrent, "CudnnRnn MkldnnRnnLayer"),
    **_kinds(_gates, "ThnnFusedLstmCell"),
    **_kinds(_sampled, "GridSampler2D GridSampler3D"),
    **_kinds(_columns, "Col2Im Im2Col"),
    # What reduces all elements, so that it mixes rows for certain.
    **_kinds(_mixed, "Dist Dot Mean Median Nanmedian Norm Prod Sum Trace Vdot"),
    **_kinds(_mixed, "Max Min", 1),
}
# The formula of a kind that moves pixels only within a picture does so as well.
_BEHAVIOURS |= {
    name.replace("Backward0", _OF_FORMULA): _spatial
    for name, behave in _BEHAVIOURS.items()
    if behave is _spatial
}
