"""Prove that each row of the outputs depends only on the same row of the inputs.

One reverse pass differentiates all n rows at once. The result is correct only if the rows are
independent. A walk from the inputs to the outputs proves this node by node. It computes which input
rows each tensor depends on, in the form that `row_spans` describes. `row_behaviour` defines how
each kind of node passes this dependence on. For a custom function, the walk runs its backward or
its Taylor rule while autograd tracks the operations, and walks through the graph of these.

A caller can pass ``rows="independent"`` if the proof fails. Then `check_vouch` searches for a
counterexample with a few backward passes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._derivative.arguments import Axes
from leafgrad._derivative.row_behaviour import (
    KINDS,
    Results,
    Site,
    UnreadableError,
    behaviour_of,
    kind_of,
    mixes_certainly,
)
from leafgrad._derivative.row_spans import (
    Labels,
    Rows,
    Shape,
    Span,
    SymbolicSizeError,
    join,
    label_batch,
)
from leafgrad._derivative.taylor import CUSTOM, Series, Unsupported, may_read
from leafgrad._derivative.taylor.algebra import powers
from leafgrad._derivative.taylor.propagate import results_of, step_at
from leafgrad._derivative.taylor.rule import Rule
from leafgrad._messages import message

RowsArgument = Literal["proven", "independent"]

# For the kinds in `_READ_BY_SHAPE`, row dependence follows from shapes and settings only, so proofs
# can be cached. `Cat` is not among them: two graphs whose constant inputs are swapped look alike.
# For the kinds in `_LABELLED`, a proof that uses only labels (see `row_spans`) is as fast as a
# cache lookup.
_LABELLED = _autograd.types_of_nodes(
    *"Add Addmm Bmm Cos Div Exp Linear Mm Mul Neg Pow Sigmoid Silu Sin Sub T Tanh".split()
)
_READ_BY_SHAPE = _LABELLED | _autograd.types_of_nodes(
    *"Expand NativeLayerNorm Permute ReshapeAlias Select Slice Softmax Split Squeeze".split(),
    *"Transpose Unsqueeze UnsafeView View MeanBackward1 SumBackward1".split(),
)
_remembered: set[Hashable] = set()
_MOST_REMEMBERED = 256

_DEEPEST = 3  # The backward of a custom function may call custom functions, down to this depth.
Known = dict[Any, Span]  # from an edge to the input rows that its tensor depends on


class RowProof:
    """A proof that the rows of `outputs` are independent. It is computed on first use."""

    def __init__(
        self,
        outputs: Tensor,
        inputs: Tensor,
        axes: Axes,
        path: _autograd.Path,
        order: int,
        *,
        reads_rules: bool = False,
    ) -> None:
        """Store the arguments of the proof.

        Args:
            outputs: The result that is differentiated.
            inputs: The tensor with respect to which it is differentiated.
            axes: The axes of both; it defines which of them count rows.
            path: The nodes between `inputs` and `outputs`.
            order: The highest order of the derivatives.
            reads_rules: Whether the proof follows a custom function's rule (see `taylor_rule`) if
                it has one. Otherwise the proof follows the function's backward.
        """
        self.outputs, self.inputs, self.axes, self.path = outputs, inputs, axes, path
        self.order = order
        rows = math.prod(axes.batch)  # `numel()` would specialise compiled code on the sizes.
        self._walk = _Walk(rows, order > 1, reads_rules=reads_rules)
        self._rows: Known | None = None
        self._is_followed = False

    @property
    def holds(self) -> bool:
        """Whether the rows are proven to be independent."""
        count = self._walk.count
        if type(count) is int and count <= 1:
            return True
        if self._is_remembered:
            return True
        return self._are_apart(self._follow_once(needs_sizes=True))

    def for_rules(self) -> RowProof:
        """Return the proof for Taylor mode, which follows the Taylor rules of custom functions."""
        if not any(_autograd.forward_class(node) in CUSTOM for node in self.path.nodes):
            return self
        return RowProof(
            self.outputs, self.inputs, self.axes, self.path, self.order, reads_rules=True
        )

    @property
    def is_of_formulas(self) -> bool:
        """Whether the proof holds, uses only PyTorch's own formulas, and needs no concrete sizes.

        A proof that needs concrete sizes would make `torch.compile` recompile for each size.
        """
        if self._is_remembered:
            return True
        rows = self._follow_once()
        return not self._walk.has_unknown and self._are_apart(rows)

    @property
    def _is_remembered(self) -> bool:
        """Whether a proof for a graph with the same kinds, settings and shapes is in the cache."""
        return self._key is not None and self._key in _remembered

    @cached_property
    def _key(self) -> Hashable | None:
        """The cache key, which contains everything that the proof reads. None if it is not cached.

        A proof is not cached if it reads values of tensors, or if it is as fast as a cache lookup.
        """
        kinds = {*map(type, self.path.nodes)}
        is_quick = _LABELLED.issuperset(kinds)
        if is_quick or torch.compiler.is_compiling() or not _READ_BY_SHAPE.issuperset(kinds):
            return None
        numbers = {node: number for number, node in enumerate(self.path.nodes)}

        def place(edge: Any) -> Any:
            return "start" if edge == self.path.start else (numbers.get(edge[0]), edge[1])

        key: list[Any] = [self.inputs.shape, self.axes.batch, self.outputs.shape]
        key.append(place(self.path.end))
        for node, edges in self.path.nodes.items():
            key += type(node), _autograd.reader_of_settings(type(node))(node), len(edges)
            key += [
                *map(place, edges),
                *[tuple(made.shape) for made in _autograd.output_types(node)],
            ]
        return tuple(key)

    def _follow_once(self, *, needs_sizes: bool = False) -> Known | None:
        """Return the input rows that each tensor on the path depends on; compute them only once.

        Return None if the values of a saved index cannot be read yet. Return None also if a size is
        symbolic, unless `needs_sizes` is true.
        """
        if not self._is_followed:
            self._is_followed = True
            try:
                self._rows = self._follow()
            except SymbolicSizeError:
                self._rows = None
        if needs_sizes and self._rows is None and not self._walk.needs_sizes:
            self._walk.needs_sizes = True
            self._rows = self._follow()
        return self._rows

    def _follow(self) -> Known | None:
        seeds: Known = {self.path.start: label_batch(self.inputs.shape, len(self.axes.batch))}

        def follow() -> Known:
            return self._walk.follow(self.path.nodes, seeds)

        try:
            return follow()
        except UnreadableError:
            return None
        except _autograd.Recomputation:
            self._walk.is_in_backward = True
            return _autograd.run_in_backward(follow)

    def _are_apart(self, known: Known | None) -> bool:
        """Check whether `known` shows that rows are independent. If so, add the proof to the cache.

        `known` contains the rows of each tensor, or is None if they could not be found.
        """
        if known is None or not self._are_in_place(known):
            return False
        if self._key is not None and len(_remembered) < _MOST_REMEMBERED:
            _remembered.add(self._key)
        return True

    def _are_in_place(self, known: Known) -> bool:
        """Check whether each row of `outputs` depends only on the same row of `inputs`.

        `known` contains the input rows that each tensor depends on.
        """
        span = known.get(self.path.end)
        own = label_batch(self.outputs.shape, len(self.axes.batch))
        if span is None or span is own or (not isinstance(span, Tensor) and span == own):
            return True
        with _autograd.plain_computation():
            shape = self._walk.as_shape(self.outputs.shape)
            return bool((Rows(span, shape).numbers <= Rows(own, shape).numbers).all())

    def refusal(self) -> RuntimeError:
        """Return an error that names the operation that may mix rows. The caller raises it."""
        rows = self._follow_once(needs_sizes=True)
        if rows is None:
            return RuntimeError(message("derivative.rows-must.compiled"))
        why, is_certain = self._explain(rows)
        key = "derivative.rows-must." + ("element" if self.axes.is_elementwise else "row")
        sentence = message(key, why=why, shape=tuple(self.inputs.shape))
        promise = "" if is_certain else message("derivative.rows-must.promise")
        return RuntimeError(sentence + promise)

    def _explain(self, known: Known) -> tuple[str, bool]:
        """Return a sentence about the first node that mixes rows, and whether it certainly does.

        `known` contains the rows that each tensor depends on. If no node mixes rows, the sentence
        is about the first node that moves a row to another position.
        """
        count, batch = math.prod(self.axes.batch), self.axes.batch
        moved = ""
        for node in self.path.nodes:
            for number, made in enumerate(_autograd.output_types(node)):
                span = known.get((node, number))
                if span is None:
                    continue
                shape = tuple(map(int, made.shape))
                rows = Rows(span, shape)
                if not rows.are_apart(count):
                    return _explain_meeting(node, rows, batch), mixes_certainly(node)
                # This node mixes no rows. Check whether a row depends on a different row.
                if not moved and shape[: len(batch)] == tuple(batch):
                    own = Rows(label_batch(shape, len(batch)), shape).numbers
                    wrong = (rows.numbers > own).any(0)
                    if wrong.any():
                        first = rows.numbers.expand(2, *wrong.shape)[0][wrong][0] - 1
                        row = _row_index(int(first), batch)
                        moved = message("derivative.rows-must.moved", row=row, **_describe(node))
        return moved or message("derivative.rows-must.moved-somewhere"), False


def _explain_meeting(node: Node, rows: Rows, batch: torch.Size) -> str:
    count = batch.numel()
    mixed = (rows.numbers.sum(0) > count + 1).nonzero()[0]
    above, below = rows.numbers[(slice(2), *mixed)].tolist()
    if _autograd.is_training_batch_norm(node):
        key = "batch-norm"
    elif behaviour_of(node):
        key = "meet"
    else:
        key = "unknown" if _autograd.forward_class(node) is None else "custom"
    one, other = (_row_index(number, batch) for number in (count - below, above - 1))
    return message(f"derivative.rows-must.{key}", one=one, other=other, **_describe(node))


def _describe(node: Node) -> dict[str, object]:
    shape = tuple(_autograd.output_types(node)[0].shape)
    return {"node": _autograd.node_name(node), "shape": shape}


def _row_index(number: int, batch: torch.Size) -> list[int]:
    return [int(place) for place in torch.unravel_index(torch.tensor(number), batch)]


def labels_are_in_place(path: _autograd.Path, seeds: Known, outputs: Tensor, batch: int) -> bool:
    """Check whether labels alone (see `row_spans`) prove that rows of `outputs` are independent.

    `seeds` contains the labels of the inputs, and `batch` is the number of axes that count rows.
    `path` contains the nodes between the inputs and `outputs`.
    """
    known = dict(seeds)
    if not all(_pass_labels(node, edges, known) for node, edges in path.nodes.items()):
        return False
    return known.get(path.end) == label_batch(outputs.shape, batch)


# --- The walk


class _Walk:
    """A walk through a graph that finds which of `count` input rows each tensor depends on."""

    def __init__(
        self,
        count: int,
        may_differentiate: bool,  # noqa: FBT001 (whether a backward is differentiated)
        depth: int = 0,
        *,
        reads_rules: bool = False,
    ) -> None:
        self.count, self.may_differentiate, self.depth = count, may_differentiate, depth
        self.reads_rules = reads_rules
        self.is_in_backward = self.has_unknown = self.needs_sizes = False

    def as_shape(self, sizes: Iterable[int]) -> Shape:
        """Convert sizes to a tuple. If `needs_sizes` is set, convert symbolic sizes to ints."""
        return tuple(map(int, sizes)) if self.needs_sizes else tuple(sizes)

    def follow(self, nodes: Mapping[Node, _autograd.Successors], seeds: Known) -> Known:
        """Propagate row dependence through `nodes`, which are in the order of the forward pass.

        `seeds` contains the input rows that some tensors depend on. Return a copy of it, extended
        by all tensors that are computed from them.
        """
        known = dict(seeds)
        ahead = iter(nodes.items())
        for node, edges in ahead:
            if not _pass_labels(node, edges, known):
                with _autograd.plain_computation():
                    self._find_rows(node, edges, known)
                    for node, edges in ahead:  # noqa: PLW2901 (it continues the same iterator)
                        if not _pass_labels(node, edges, known):
                            self._find_rows(node, edges, known)
        return known

    def _find_rows(self, node: Node, edges: _autograd.Successors, known: Known) -> None:
        """Add to `known` the input rows that each result of a node depends on.

        `edges` lead to the inputs of the node.
        """
        inputs = [
            Rows(known[edge], self.as_shape(_autograd.output_types(edge[0])[edge[1]].shape))
            if edge[0] is not None and edge in known
            else None
            for edge in edges
        ]
        site = Site(node, edges, inputs, self.as_shape, self.is_in_backward)
        behave = (KINDS.get(type(node)) or kind_of(node)).behave
        self.has_unknown |= behave is None
        results = behave(site) if behave else []
        function = _autograd.forward_class(node)
        rule = CUSTOM.get(function) if self.reads_rules and function else None
        if rule is not None:
            results = self._read_rule(rule, site, known)
        elif not results and _may_be_read(node, self.depth) and not self._are_alike(site):
            results = self._read_backward(site, known)
        for number, shape in enumerate(site.shapes):
            span = _fit_span(results[number], shape) if number < len(results) else None
            if 0 not in shape:
                known[node, number] = _join_all(site.present, shape) if span is None else span

    def _are_alike(self, site: Site) -> bool:
        """Check whether each element of all inputs of a node depends on the same rows.

        Also return True if all inputs together depend on at most one row. In both cases, the graph
        of the node's backward cannot show a smaller dependence.
        """
        total = join([Rows(rows.total(), ()) for rows in site.present])
        return total.are_apart(self.count) or all(
            torch.equal(rows.numbers.flatten(), total.numbers) for rows in site.present
        )

    def _read_backward(self, site: Site, known: Known) -> list[Tensor]:
        """Return the rows of each result of a node, found from the graph of the node's backward.

        Return an empty list if the graph does not show the dependence. A backward ``B(g, k)`` takes
        a gradient g and saved tensors k, and is linear in g. Row i of g contributes to the gradient
        of row j of an input only if row i of the result depends on row j. `known` contains the rows
        that each tensor depends on.
        """
        self.has_unknown = True
        sent, gradients = _record_backward(site.node)
        own = {(site.node, number) for number in range(len(sent))}
        ends = own.union(map(_edge, sent))
        pairs = [
            (rows, gradient)
            for rows, gradient in zip(site.inputs, gradients, strict=True)
            if rows is not None
        ]
        present = [gradient for _, gradient in pairs if gradient is not None]
        is_custom = _autograd.forward_class(site.node) is not None
        if len(present) < len(pairs) and not is_custom:
            return []  # An input got no gradient, so the graph does not show its rows.
        if any(gradient.shape != rows.shape for rows, gradient in pairs if gradient is not None):
            return []
        if not _is_linear(sent, present):
            return []
        nodes, met = _nodes_before([_edge(g) for g in present], ends, known)
        spans: list[Tensor] = []
        for gradient in sent:
            span = self._transpose_backward(gradient, pairs, nodes)
            if span is None:
                return []
            spans.append(span)
        if self.may_differentiate:
            inner = _Walk(self.count, self.may_differentiate, self.depth + 1)
            seeds: Known = {(site.node, number): span for number, span in enumerate(spans)}
            used = inner.follow(nodes, {edge: known[edge] for edge in met} | seeds)
            for rows, arrived in pairs:
                reached = None if arrived is None else used.get(_edge(arrived))
                if reached is not None:
                    together = join([Rows(reached, rows.shape), rows])
                    if not together.are_apart(self.count):
                        return []
        return spans

    def _read_rule(self, rule: Rule, site: Site, known: Known) -> Results:
        """Return the rows of each result of a custom function, found from its Taylor rule's graph.

        Return an empty list if the rule does not show the dependence. At order 1, the series that
        the rule returns is linear in the input series. Its graph leads back to the input series and
        to the values that the function saved. `known` contains the rows that each tensor depends
        on.
        """
        self.has_unknown = True
        # Run the rule on series of order 1 and check that its graph contains the whole computation.
        leaves = [rows and _make_coefficients(rows.shape) for rows in site.inputs]
        step = step_at(site.node, site.edges, torch.float64, is_in_backward=self.is_in_backward)
        with torch.enable_grad(), _autograd.without_tangents():
            given = [
                # Clone the leaf, because a rule may modify its series in place.
                x if x is None else _make_series(x.clone())
                for x in leaves
            ]
            try:
                results = results_of(rule, step, given)
            except Unsupported:
                return []
            made = [series.stack for series in results if series is not None]
            if not _is_linear([x for x in leaves if x is not None], made):
                return []
        # The coefficients ``[1, *shape]`` depend on the same rows as their input ``[*shape]``.
        seeds: Known = {
            _edge(x): rows.move_axes([None, *range(rows.ndim)]).span
            for rows, x in zip(site.inputs, leaves, strict=True)
            if rows is not None and x is not None
        }
        # Walk from the coefficients and from the saved values to the results.
        nodes, met = _nodes_before(map(_edge, made), set(), known | seeds)
        inner = _Walk(self.count, self.may_differentiate, self.depth + 1)
        used = inner.follow(nodes, {edge: known[edge] for edge in met - seeds.keys()} | seeds)
        pairs = zip(results, site.shapes, strict=True)
        return [_rows_of_series(series, used, len(shape)) for series, shape in pairs]

    def _transpose_backward(
        self,
        sent: Tensor,
        pairs: Iterable[tuple[Rows, Tensor | None]],
        nodes: Mapping[Node, _autograd.Successors],
    ) -> Tensor | None:
        """Return the rows of the result whose gradient is `sent`, or None if they cannot be found.

        `pairs` contains the rows of each input and the gradient that the backward returned for it.
        `sent` is split into numbered parts along its first axes, along as many as possible. No
        element of a returned gradient may depend on two of these parts.
        """
        shape: Shape = tuple(sent.shape)
        for batch in range(len(shape), 0, -1):
            # Find the elements that each numbered part of the gradient contributes to.
            count = torch.Size(shape[:batch]).numel()
            inner = _Walk(count, False, self.depth + 1)  # noqa: FBT003
            numbers = inner.follow(nodes, {_edge(sent): label_batch(shape, batch)})
            arrived = [
                (rows, Rows(numbers[_edge(gradient)], rows.shape))
                for rows, gradient in pairs
                if gradient is not None and _edge(gradient) in numbers
            ]
            if not all(places.are_apart(count) for _, places in arrived):
                continue
            # A part of the result depends on the rows of all elements that its gradient reaches.
            result = torch.zeros((2, count + 1), dtype=torch.int32, device="cpu")
            for rows, places in arrived:
                spread, place = torch.broadcast_tensors(rows.numbers, places.numbers[:1])
                result.scatter_reduce_(
                    1, place.reshape(2, -1).long(), spread.reshape(2, -1), "amax"
                )
            return result[:, 1:].reshape(2, *shape[:batch], *[1] * (len(shape) - batch))
        return None


def _make_coefficients(shape: Shape) -> Tensor:
    """Return distinct coefficients ``[1, *shape]`` that require grad."""
    size = torch.Size(shape).numel()
    return torch.linspace(1, 2, size, dtype=torch.float64).reshape(1, *shape).requires_grad_()


def _make_series(stack: Tensor) -> Series:
    """Return a series of order 1 whose coefficients are `stack`, ``[1, *shape]``."""
    return Series(algebra=powers(1), indices=(0,), source=stack, shape=tuple(stack.shape[1:]))


def _rows_of_series(series: Series | None, known: Known, ndim: int) -> Rows | Tensor:
    """Return the rows that a result ``[*shape]`` depends on.

    They are those of its coefficients, ``[K, *shape]``, joined along the first axis. `known`
    contains the input rows of each tensor whose dependence is known, by its edge. `ndim` is the
    number of axes of the result.
    """
    span = None if series is None else known.get(_edge(series.stack))
    if series is None or span is None:
        return torch.zeros([2, *[1] * ndim], dtype=torch.int32, device="cpu")
    return Rows(span, tuple(series.stack.shape)).join_along([0]).drop_axes([0]).aligned(ndim)


def _may_be_read(node: Node, depth: int) -> bool:
    """Check whether the graph of a node's backward can be used to find its rows.

    This is possible for custom functions and for in-place writes to views, down to a maximum depth.
    """
    if depth >= _DEEPEST or _autograd.lacks_formula(node) or _autograd.is_compiled(node):
        return False
    return _autograd.forward_class(node) is not None or _autograd.is_write_into_view(node)


def _record_backward(node: Node) -> tuple[list[Tensor], list[Tensor | None]]:
    """Run the backward of a node with grad mode on. Return the gradients passed in and returned.

    The backward of a custom function runs inside a backward pass, because some refuse to run
    outside one. The backward of PyTorch's own nodes runs outside: inside a pass, it skips every
    gradient that the pass does not need.
    """

    def run() -> tuple[list[Tensor], list[Tensor | None]]:
        with torch.inference_mode(mode=False), torch.enable_grad(), _autograd.without_tangents():
            return _autograd.sample_backward(node)

    return run() if _autograd.forward_class(node) is None else _autograd.run_in_backward(run)


def _is_linear(sent: list[Tensor], gradients: list[Tensor]) -> bool:
    """Check whether the graph of a backward contains its whole computation.

    The backward B was called with the gradients in `sent` and returned `gradients`. If autograd
    tracked all of B, ``<w, B(g)>`` equals ``<B^T w, g>`` for all w and g. This is checked for one
    w. Both w and g have distinct elements, so an untracked part does not cancel out by symmetry.
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
    """Return the nodes reachable from `starts`, in the order of the forward pass.

    The walk stops at edges in `ends` or `known`. The second result is the set of edges in `known`
    at which it stopped.
    """
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


def _pass_labels(node: Node, edges: _autograd.Successors, known: Known) -> bool:
    """Add the labels of a node's result to `known` if they follow from those of its inputs.

    Labels are described in `row_spans`; `edges` lead to the inputs. Return True if the labels were
    added, or if no input of the node is in `known`. Return False if the caller must call the node's
    behaviour.
    """
    kind = KINDS.get(type(node)) or kind_of(node)
    labels: Labels | None = None
    for place, edge in enumerate(edges):
        span = known.get(edge)
        if span is None:
            continue
        if place >= kind.passing or not isinstance(span, tuple):
            return False
        if labels is None:
            labels = span
        elif labels != span:
            return False
    if labels is None:
        return True
    if kind.mixes_last and labels[-1:] not in _UNLABELLED:
        return False
    if kind.read_dim is not None:
        moved = _move_labels(labels, node, kind.read_dim(node), kind.new)
        if moved is None:
            return False
        labels = moved
    known[node, 0] = labels
    return True


def _move_labels(labels: Labels, node: Node, dim: int, new: int) -> Labels | None:
    """Return `labels` (see `row_spans`) after `new` axes are added at the axis `dim`.

    If `new` is negative, axes are dropped there. Return None if the axis has a label that would be
    lost.
    """
    ndim = len(_autograd.output_types(node)[0].shape)
    place = _autograd.signed(dim)
    # Labels are aligned at the last axis, so count the axis from the end.
    place = place if place < 0 else place - max(ndim, ndim - new)
    if new > 0:
        behind = -1 - place  # the number of axes after the new one
        at = len(labels) - behind
        return labels if at <= 0 else (*labels[:at], None, *labels[at:])
    if -place > len(labels):
        return labels
    if labels[place] is not None:
        return None
    at = len(labels) + place
    return labels[:at] + labels[at + 1 :] if new else labels


_UNLABELLED = ((), (None,))


def _fit_span(result: Rows | Tensor, shape: Shape) -> Span | None:
    """Return the labels or the span in `result`, or None if they do not fit the shape.

    Labels and spans are described in `row_spans`.
    """
    if isinstance(result, Rows):
        if result.ndim != len(shape):
            return None
        if result.labels is None:
            return _fit_span(result.numbers, shape)
        triples = zip(result.labels, result.shape, shape, strict=True)
        return result.span if all(n is None or one == two for n, one, two in triples) else None
    if result.dim() != 1 + len(shape):
        return None
    sizes = zip(result.shape[1:], shape, strict=True)
    return result if all(size in (1, whole) for size, whole in sizes) else None


def _join_all(present: Sequence[Rows], shape: Shape) -> Tensor:
    """Return the span of a result whose every element may depend on all elements of all inputs.

    The result has the shape `shape`. Spans are described in `row_spans`.
    """
    total = join([Rows(rows.total(), ()) for rows in present]).numbers
    return total.reshape(2, *[1] * len(shape))


# --- The search for a counterexample


def check_vouch(
    outputs: Tensor, inputs: Tensor, parts: Sequence[Tensor], axes: Axes, path: _autograd.Path
) -> None:
    """Raise an error if the gradient of one row of `outputs` reaches another row of `inputs`.

    The caller promised that rows are independent. For each bit of the row number, three backward
    passes separate the rows with this bit from those without it. Two passes send NaN from one of
    the groups, and one pass doubles the gradient of one group. Hooks do not run in these passes.

    An error is always right. A dependence can go unnoticed if a formula stops NaN or if the
    gradient is zero at the current values.

    Args:
        outputs: The result that is differentiated.
        inputs: The tensor with respect to which it is differentiated.
        parts: The tensors that were joined to `inputs`, if the caller passed several.
        axes: The axes of both; it defines which of them count rows.
        path: The nodes between `inputs` and `outputs`.
    """
    rows = axes.batch.numel()
    if rows == 1 or not may_read(inputs):
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
                row = _row_index(first, axes.batch)
                raise RuntimeError(message("derivative.rows-must.promise-broken", row=row))


def _vjp_of_rows(
    outputs: Tensor, inputs: Tensor, parts: Sequence[Tensor], path: _autograd.Path, rows: int
) -> Callable[[Tensor], Tensor]:
    """Return a function that maps weights of rows, ``(rows,)``, to gradients ``(rows, columns)``.

    It differentiates the sum of all `outputs`, each row multiplied by its weight. `parts` and
    `path` are those of `check_vouch`.
    """
    # The weights of channels are distinct, because equal ones could cancel out.
    channels = torch.linspace(1, 2, outputs.numel() // rows, dtype=torch.float64, device="cpu")

    def vjp(weights: Tensor) -> Tensor:
        weight = torch.outer(weights, channels).to(outputs).reshape(outputs.shape)
        with _autograd.without_tangents():
            gradient = _autograd.unseen_gradient(outputs, [inputs, *parts], path, weight)
        gradient = torch.zeros_like(inputs) if gradient is None else gradient
        return gradient.reshape(rows, -1)

    return vjp


def _coarsest(outputs: Tensor, inputs: Tensor, path: _autograd.Path) -> float:
    """Return the largest eps among all dtypes on the path, including those that autocast uses."""
    made = {output.dtype for node in path.nodes for output in _autograd.forward_outputs(node)}
    dtypes = [
        t for t in {outputs.dtype, inputs.dtype, *made} if t.is_floating_point or t.is_complex
    ]
    return max(torch.finfo(dtype).eps for dtype in dtypes)
