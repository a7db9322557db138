"""Whether each row of the outputs depends on its own row of the inputs alone.

One reverse pass differentiates all n rows at once, which is right only if they are independent.
This is proven node by node: `row_behaviour` says what each kind does, and a walk from the inputs to
the outputs follows the rows that each element depends on (see `row_spans`). The backward of a
custom function is read in the same way, from the graph that it records.

A caller who knows more may vouch for the rows. Then probes look for a contradiction.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._derivative.arguments import Axes
from leafgrad._derivative.row_behaviour import Site, UnreadableError, behaviour_of
from leafgrad._derivative.row_spans import Rows, Shape, join, numbered
from leafgrad._derivative.taylor import keep_rows_apart, may_look

RowsArgument = Literal["proven", "independent"]

_DEEPEST = 3  # custom functions within backwards of custom functions
Known = dict[Any, Rows]  # of each edge


class RowProof:
    """Whether the rows of `outputs` are independent, found out once, when it is asked for."""

    def __init__(
        self, outputs: Tensor, inputs: Tensor, axes: Axes, path: _autograd.Path, order: int
    ) -> None:
        """Remember what is differentiated, up to which order, along which path."""
        self.outputs, self.inputs, self.axes, self.path = outputs, inputs, axes, path
        self.order = order

    @cached_property
    def holds(self) -> bool:
        """Whether rows are proven to be independent."""
        # The number of rows is asked for last, as it has no value while code is compiled.
        return (
            self.is_counted
            or self.axes.batch.numel() <= 1
            or (self._spans is not None and self._is_in_place(self._spans))
        )

    @cached_property
    def is_of_formulas(self) -> bool:
        """Whether rows are proven by PyTorch's own formulas, and for any sizes that have no value.

        Code that is compiled for all sizes would be compiled for each of them otherwise.
        """
        if self.is_counted:
            return True
        if not all(type(size) is int for size in self.inputs.shape) or not self.holds:
            return False
        return not self._walk.has_read and all(map(behaviour_of, self.path.nodes))

    @cached_property
    def _walk(self) -> _Walk:
        return _Walk(self.axes.batch.numel(), self.order > 1)

    @cached_property
    def is_counted(self) -> bool:
        """Whether the number of axes alone proves it, whatever the sizes are."""
        return keep_rows_apart(self.path, self.inputs, self.outputs, len(self.axes.batch))

    @cached_property
    def _spans(self) -> Known | None:
        """The rows of each tensor on the path, None if an index has no values yet."""
        shape = tuple(map(int, self.inputs.shape))

        def follow() -> Known:
            with _autograd.plain_computation():
                seeds = {self.path.start: numbered(shape, len(self.axes.batch))}
                return self._walk.follow(self.path.nodes, seeds)

        try:
            return follow()
        except UnreadableError:
            return None
        except _autograd.Recomputation:
            self._walk.is_in_backward = True
            return _autograd.in_backward(follow)

    def _is_in_place(self, known: Known) -> bool:
        """Return whether each row of outputs depends on its own row of inputs at most."""
        rows = known.get(self.path.end)
        if rows is None:
            return True
        with _autograd.plain_computation():
            return bool((rows.span <= numbered(rows.shape, len(self.axes.batch)).span).all())

    def refusal(self) -> RuntimeError:
        """Return the error that names what could not be proven to keep rows apart."""
        if self._spans is None:
            return RuntimeError(_UNREADABLE)
        kind = "element" if self.axes.is_elementwise else "row"
        return RuntimeError(
            f"each {kind} of outputs must depend on the same {kind} of inputs only, but "
            f"{self._culprit(self._spans)}{_shape_hint(self.inputs, self.axes)}. If they are "
            'independent nevertheless, pass rows="independent", which promises this: no element '
            f"of a {kind} of outputs depends on another {kind} of inputs, at any values of inputs"
        )

    def _culprit(self, known: Known) -> str:
        """Return where rows meet first, or which node moves them."""
        count, batch = self.axes.batch.numel(), self.axes.batch
        moved = ""
        for node in self.path.nodes:
            for number, made in enumerate(_autograd.output_types(node)):
                rows = known.get((node, number))
                if rows is None:
                    continue
                if not rows.are_apart(count):
                    return _meeting(node, rows, batch)
                if not moved and tuple(made.shape[: len(batch)]) == tuple(batch):
                    own = numbered(rows.shape, len(batch)).span
                    wrong = (rows.span > own).any(0)
                    if wrong.any():
                        first = rows.span.expand(2, *wrong.shape)[0][wrong][0] - 1
                        moved = f"inputs{_place(int(first), batch)} is moved to another place by "
                        moved += _described(node)
        return moved or "its rows are moved to other places"


def _meeting(node: Node, rows: Rows, batch: torch.Size) -> str:
    count = batch.numel()
    mixed = (rows.span.sum(0) > count + 1).nonzero()[0]
    above, below = rows.span[(slice(2), *mixed)].tolist()
    places = [_place(number, batch) for number in (count - below, above - 1)]
    what = f"inputs{places[0]} and inputs{places[1]} may meet through"
    if _autograd.is_training_batch_norm(node):
        return f"{what} BatchNorm in training mode: call eval() on the model and compute it again"
    what = f"{what} {_described(node)}"
    if behaviour_of(node):
        return what
    if _autograd.forward_class(node) is not None:
        return f"{what}, a custom function whose backward does not show that it keeps rows apart"
    return f"{what}, of which it is not known what it does to rows"


def _described(node: Node) -> str:
    shape = tuple(_autograd.output_types(node)[0].shape)
    return f"{_autograd.node_name(node)} (result of shape {shape})"


def _place(number: int, batch: torch.Size) -> list[int]:
    return [int(place) for place in torch.unravel_index(torch.tensor(number), batch)]


_UNREADABLE = (
    "each row of outputs must depend on the same row of inputs only, which cannot be proven while "
    "code is compiled, as an index that was used has no values then: call the derivative outside "
    'of compiled code or, if rows are independent, pass rows="independent", which promises this'
)


def _shape_hint(inputs: Tensor, axes: Axes) -> str:
    if not axes.is_elementwise:
        return ""
    return (
        f". If inputs of shape {tuple(inputs.shape)} holds rows with as many columns as outputs "
        "has channels, order must be a multi-index, with a count for each column"
    )


# --- The walk


class _Walk:
    """Follows the rows of `count` rows through a graph."""

    def __init__(self, count: int, may_differentiate: bool, depth: int = 0) -> None:  # noqa: FBT001
        """Remember whether what a backward computes is differentiated again."""
        self.count, self.may_differentiate, self.depth = count, may_differentiate, depth
        self.is_in_backward = self.has_read = False

    def follow(self, nodes: Mapping[Node, _autograd.Successors], seeds: Known) -> Known:
        """Return the rows of each tensor that depends on those of `seeds`, these included."""
        known = dict(seeds)
        for node, edges in nodes.items():
            given = [known.get(edge) for edge in edges]
            if any(given):
                site = Site(node, edges, given, self.is_in_backward)
                for number, rows in enumerate(self._results(site, known)):
                    if rows is not None:
                        known[node, number] = rows
        return known

    def _results(self, site: Site, known: Known) -> Iterator[Rows | None]:
        """Yield the rows of each result, None where it has no element."""
        behave = behaviour_of(site.node)
        total = join([rows.total() for rows in site.present])
        spans = behave(site) if behave else []
        if not spans and _may_be_read(site.node, self.depth) and not self._are_alike(site, total):
            spans = self._read_backward(site, known)
        for number, shape in enumerate(site.shapes):
            span = spans[number] if number < len(spans) else None
            if span is None or not _fits(span, shape):
                span = total.reshape(2, *[1] * len(shape))
            yield None if 0 in shape else Rows(span, shape)

    def _are_alike(self, site: Site, total: Tensor) -> bool:
        """Return whether all elements depend on the same rows, so that a backward shows no more."""
        return Rows(total, ()).are_apart(self.count) or all(
            torch.equal(rows.span.flatten(), total) for rows in site.present
        )

    def _read_backward(self, site: Site, known: Known) -> list[Tensor]:
        """Return the span of each result of a node whose backward shows what it does.

        A backward ``B(g, k)`` of a gradient g and of tensors k that were kept is linear in g. Row j
        of an input gets a part of row i of g only where row i of the result depends on row j.
        """
        self.has_read = True
        sent, gradients = _recorded(site.node)
        own = {(site.node, number) for number in range(len(sent))}
        ends = own.union(map(_edge, sent))
        pairs = [
            (rows, gradient)
            for rows, gradient in zip(site.given, gradients, strict=True)
            if rows is not None
        ]
        present = [gradient for _, gradient in pairs if gradient is not None]
        is_custom = _autograd.forward_class(site.node) is not None
        if len(present) < len(pairs) and not is_custom:  # it hides one
            return []
        if any(gradient.shape != rows.shape for rows, gradient in pairs if gradient is not None):
            return []
        if not _is_linear(sent, present):
            return []
        nodes, met = _nodes_before([_edge(g) for g in present], ends, known)
        spans: list[Tensor] = []
        for one in sent:
            span = self._transposed(one, pairs, nodes)
            if span is None:
                return []
            spans.append(span)
        if self.may_differentiate:
            inner = _Walk(self.count, self.may_differentiate, self.depth + 1)
            results = {
                (site.node, number): Rows(span, shape)
                for number, (span, shape) in enumerate(zip(spans, site.shapes, strict=True))
            }
            found = inner.follow(nodes, {edge: known[edge] for edge in met} | results)
            for rows, gradient in pairs:
                kept = None if gradient is None else found.get(_edge(gradient))
                if kept and not Rows(join([kept.span, rows.span]), rows.shape).are_apart(
                    self.count
                ):
                    return []
        return spans

    def _transposed(
        self,
        one: Tensor,
        pairs: Iterable[tuple[Rows, Tensor | None]],
        nodes: Mapping[Node, _autograd.Successors],
    ) -> Tensor | None:
        """Return the span of the result that `one` is a gradient of, None if that does not show.

        The elements of `one` are numbered along as many of its first axes as keep their places.
        """
        shape: Shape = tuple(one.shape)
        for batch in range(len(shape), 0, -1):
            seed = numbered(shape, batch)
            count = torch.Size(shape[:batch]).numel()
            found = _Walk(count, False, self.depth + 1).follow(nodes, {_edge(one): seed})  # noqa: FBT003
            arrived = [
                (rows.span, found[_edge(gradient)])
                for rows, gradient in pairs
                if gradient is not None and _edge(gradient) in found
            ]
            if not all(numbers.are_apart(count) for _, numbers in arrived):
                continue
            result = torch.zeros((2, count + 1), dtype=torch.int32, device="cpu")
            for span, numbers in arrived:
                spread, place = torch.broadcast_tensors(span, numbers.span[:1])
                result.scatter_reduce_(
                    1, place.reshape(2, -1).long(), spread.reshape(2, -1), "amax"
                )
            return result[:, 1:].reshape(2, *shape[:batch], *[1] * (len(shape) - batch))
        return None


def _may_be_read(node: Node, depth: int) -> bool:
    """Return whether the backward of a node is a part of what a user wrote."""
    if depth >= _DEEPEST or _autograd.lacks_formula(node) or _autograd.is_compiled(node):
        return False
    return _autograd.forward_class(node) is not None or _autograd.is_write_into_view(node)


def _recorded(node: Node) -> tuple[list[Tensor], list[Tensor | None]]:
    """Run a backward and record it, that of a custom function as a pass does.

    Some refuse to run elsewhere. But in a pass, PyTorch's own give nothing that this pass is not
    about.
    """

    def run() -> tuple[list[Tensor], list[Tensor | None]]:
        with torch.inference_mode(mode=False), torch.enable_grad(), _autograd.without_tangents():
            return _autograd.recorded_backward(node)

    return run() if _autograd.forward_class(node) is None else _autograd.in_backward(run)


def _is_linear(sent: list[Tensor], gradients: list[Tensor]) -> bool:
    """Return whether a backward is what the graph says that its results carry.

    If all of a backward B is recorded, ``<w, B(g)>`` is ``<B^T w, g>`` for any w and g. The g that
    was `sent` and the w here have no structure in which a part that is not recorded could hide.
    """
    if any(not gradient.requires_grad for gradient in gradients):
        return False
    if not gradients:
        return True
    weights = [
        torch.linspace(1, 2, g.numel(), dtype=torch.float64, device="cpu").reshape(g.shape).to(g)
        for g in gradients
    ]
    with _autograd.without_tangents():
        back = torch.autograd.grad(
            gradients, sent, weights, retain_graph=True, materialize_grads=True
        )
    terms = [w * g.detach() for w, g in zip(weights, gradients, strict=True)]
    terms_back = [b * g.detach() for b, g in zip(back, sent, strict=True)]
    difference = _total(terms) - _total(terms_back)
    size = sum(float(term.abs().sum()) for term in terms)
    eps = max(torch.finfo(g.dtype).eps for g in gradients)
    return abs(difference) <= math.sqrt(eps) * size < math.inf


def _total(terms: Iterable[Tensor]) -> complex:
    return sum((complex(term.sum()) for term in terms), 0j)


def _edge(tensor: Tensor) -> _autograd.Edge | None:
    return _autograd.edge_by_use(tensor)


def _nodes_before(
    starts: Iterable[_autograd.Edge | None], ends: set[_autograd.Edge | None], known: Known
) -> tuple[dict[Node, _autograd.Successors], set[_autograd.Edge]]:
    """Return the nodes behind some edges, predecessors first, and the known edges met there."""
    finished: dict[Node, _autograd.Successors] = {}
    entered: set[Node] = set()
    met: set[_autograd.Edge] = set()
    ahead: list[tuple[_autograd.Edge | None, bool]] = [(start, False) for start in starts]
    while ahead:
        edge, is_left = ahead.pop()
        if edge is None or edge in ends:
            continue
        if edge in known:
            met.add(edge)
            continue
        node = edge[0]
        if is_left:
            finished[node] = _autograd.next_functions(node)
        elif node not in entered:
            entered.add(node)
            ahead.append((edge, True))
            ahead += [((n, k), False) for n, k in _autograd.next_functions(node) if n]
    return finished, met


def _fits(span: Tensor, shape: Shape) -> bool:
    """Return whether a span ``[2, *sizes]`` can be that of a tensor of this shape."""
    _, *sizes = span.shape
    return len(sizes) == len(shape) and all(
        size in (1, whole) for size, whole in zip(sizes, shape, strict=True)
    )


# --- The alarm


def check_vouch(
    outputs: Tensor, inputs: Tensor, parts: Sequence[Tensor], axes: Axes, path: _autograd.Path
) -> None:
    """Raise if the gradient of a row of `outputs` reaches another row, against what was promised.

    For each bit of the number of a row, rows with the bit and rows without it are told apart: by
    NaN that is sent from either, and by twice the weight for one of them, in passes of their own.
    No hook sees them. What is found is found for certain, but NaN may be stopped by a formula and
    a gradient may be zero at these values.
    """
    rows = axes.batch.numel()
    if rows == 1 or not may_look(inputs):
        return
    vjp = _vjp_of_rows(outputs, inputs, parts, path, rows)
    ones = torch.ones(rows, dtype=torch.float64, device="cpu")
    own = vjp(ones)
    tolerance = (
        math.sqrt(_coarsest(outputs, inputs, path)) * own.where(own.isfinite(), 0).abs().max()
    )
    number = torch.arange(rows, device="cpu")
    for bit in range((rows - 1).bit_length()):
        has_bit = (number >> bit) % 2 == 1
        for weight in (
            ones + has_bit,
            ones.where(has_bit, math.nan),
            ones.where(~has_bit, math.nan),
        ):
            wide = weight.to(own).unsqueeze(1)
            reached = ~((vjp(weight) / wide - own).abs() <= tolerance)
            reached &= own.isfinite() & wide.isfinite()
            if reached.any():
                first = int(reached.any(dim=1).nonzero()[0, 0])
                raise RuntimeError(
                    'rows must be independent where rows="independent" promises it, but '
                    f"inputs{_place(first, axes.batch)} reaches other rows of outputs: compute "
                    "each row of outputs from its own row of inputs, or pass one row at a time"
                )


def _vjp_of_rows(
    outputs: Tensor, inputs: Tensor, parts: Sequence[Tensor], path: _autograd.Path, rows: int
) -> Callable[[Tensor], Tensor]:
    """Return the function that maps weights ``(rows,)`` to what arrives, ``(rows, columns)``."""
    # Unlike each other, or channels may cancel out.
    channels = torch.linspace(1, 2, outputs.numel() // rows, dtype=torch.float64, device="cpu")

    def vjp(weights: Tensor) -> Tensor:
        weight = torch.outer(weights, channels).to(outputs).reshape(outputs.shape)
        with _autograd.without_tangents():
            gradient = _autograd.unseen_gradient(outputs, [inputs, *parts], path, weight)
        gradient = torch.zeros_like(inputs) if gradient is None else gradient
        return gradient.reshape(rows, -1)

    return vjp


def _coarsest(outputs: Tensor, inputs: Tensor, path: _autograd.Path) -> float:
    """Return the largest eps of all dtypes that gradients travel in, such as autocast's."""
    made = {output.dtype for node in path.nodes for output in _autograd.forward_outputs(node)}
    dtypes = [
        t for t in {outputs.dtype, inputs.dtype, *made} if t.is_floating_point or t.is_complex
    ]
    return max(torch.finfo(dtype).eps for dtype in dtypes)
