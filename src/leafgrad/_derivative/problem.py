"""Check the arguments of a derivative, choose Taylor or reverse mode, and compute it."""

from collections.abc import Hashable, Sequence
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor

from leafgrad import _autograd
from leafgrad._derivative.arguments import (
    MOST_DERIVATIVES,
    Axes,
    Function,
    Inputs,
    MultiIndex,
    check_differentiable,
    evaluate,
    read_axes,
)
from leafgrad._derivative.dependence import (
    columns_shown,
    find_path,
    note_constant,
    raise_if_apart,
    raise_if_freed,
)
from leafgrad._derivative.double_backward import check_double_backward, wrong_formulas_on
from leafgrad._derivative.joined_inputs import JoinedInputs, join
from leafgrad._derivative.living import recall, remember
from leafgrad._derivative.multi_indices import index_of, second_order_weights
from leafgrad._derivative.reverse import (
    Reverse,
    first_derivatives,
    gradients_once,
    raise_if_missing,
)
from leafgrad._derivative.row_behaviour import behaviour_of
from leafgrad._derivative.row_independence import RowProof, RowsArgument, check_vouch
from leafgrad._derivative.small_networks import follow_plan, keep_plan, make_plan, may_be_nested
from leafgrad._derivative.taylor import Taylor, Unsupported, check_rules
from leafgrad._derivative.taylor.modes import plain_results, run_in
from leafgrad._messages import message

Method = Literal["auto", "taylor", "reverse"]
_METHODS = get_args(Method)
ROWS = get_args(RowsArgument)
Vouched = Literal["proven", "vouched for"]


def parse_problem(  # noqa: PLR0913 (they are passed by name)
    outputs: Tensor | Function,
    inputs: Inputs,
    *,
    by_column: bool,
    create_graph: bool,
    method: str,
    rows: str,
    allow_unused: bool | None = None,
    request: Hashable = None,
) -> "DerivativeProblem":
    """Check the arguments of a derivative and return them as a `DerivativeProblem`.

    If `outputs` is a function, it is called. `by_column` says whether the last axis of inputs
    counts columns even if outputs have the same shape. `request` is the key under which a plan may
    be cached; None if none may be. The other arguments are those of `higher_order_grad`.
    """
    if torch.compiler.is_exporting():
        raise RuntimeError(message("derivative.export"))
    if method not in _METHODS:
        raise ValueError(message("derivative.method", value=method))
    if rows not in ROWS:
        raise ValueError(message("derivative.rows", value=rows))
    for name, flag in (("create_graph", create_graph), ("allow_unused", allow_unused or False)):
        if not isinstance(flag, bool):
            raise TypeError(message("derivative.flag", name=name, value=flag))
    joined = None
    x: Any = inputs
    if not isinstance(inputs, Tensor) and isinstance(inputs, tuple | list):
        outputs, joined = join(outputs, inputs)
        x, by_column = joined.whole, True
    check_differentiable("inputs", x)
    if not isinstance(outputs, Tensor):
        outputs, (x,) = evaluate(outputs, x)
    check_differentiable("outputs", outputs)
    try:
        axes = read_axes(outputs, x, by_column=by_column)
    except ValueError as error:
        raise_if_apart(error, outputs, x)
        raise
    return DerivativeProblem(
        outputs=outputs,
        inputs=x,
        axes=axes,
        create_graph=create_graph,
        method=method,
        rows=rows,
        allow_unused=allow_unused,
        joined=joined,
        request=request,
    )


class Manner(NamedTuple):
    """How derivatives were computed. `method` and `rows` are None if nothing was computed.

    Attributes:
        method: The method that was used.
        because: Why this method was used, as a key below ``derivative.because`` in the messages.
        rows: Whether row independence was proven or promised by the caller.
        reason: Why Taylor mode could not compute the derivatives, None if it could or was not
            tried.
    """

    method: Literal["taylor", "reverse"] | None
    because: str
    rows: Vouched | None
    reason: str | None = None


class DerivativeProblem(NamedTuple):
    """The checked arguments of a derivative of `outputs` with respect to `inputs`.

    `inputs` has the shape ``(*batch, *columns)`` and `outputs` the shape ``(*batch, *channels)``.
    If `axes` are elementwise, both have the shape ``batch``.
    """

    outputs: Tensor
    inputs: Tensor
    axes: Axes
    create_graph: bool
    method: str
    rows: str
    allow_unused: bool | None
    joined: JoinedInputs | None = None  # set if the inputs are several tensors
    request: Hashable = None  # The key under which a plan is cached; None for no caching.

    @run_in(plain_results)
    def answer(self, orders: list[MultiIndex]) -> tuple[dict[MultiIndex, Tensor], Manner]:
        """Return the derivative for each multi-index in `orders`, and how they were computed.

        No order may be 0. Each derivative has the shape of `outputs`.
        """
        path = self._path() if orders else None
        if path is None:
            zeros = {index: self._zeros() for index in orders}
            return zeros, Manner(None, "zeros" if orders else "order-0", None)
        try:
            proof = self._proof(path, max(map(sum, orders)))
            if nested := self._nested(orders, proof):
                return nested, Manner("reverse", "small", "proven")
            taylor = self._taylor(path)
            if self._is_for_one_pass(orders) and (
                found := self._in_one_pass(orders, taylor, proof)
            ):
                return found, Manner("reverse", "first", "proven")
            if found := self._from_all_channels(orders):
                return found, Manner("taylor", "rules", "proven")
            reason = None
            if self.method != "reverse":
                try:
                    self.check_proof(proof)
                    return taylor.derivatives(orders), Manner("taylor", "rules", "proven")
                except Unsupported as error:
                    reason = self._check_fallback(error)
            return self._reverse(orders, proof), self._reverse_manner(proof, reason)
        except RuntimeError as error:
            raise_if_freed(error, path.nodes)
            raise_if_missing(error)
            raise

    @run_in(plain_results)
    def laplacian(
        self, along: Sequence[int] | Tensor, *, with_gradient: bool
    ) -> tuple[Tensor, Tensor | None, Manner]:
        """Return the sum of second derivatives, the gradient, and how both were computed.

        `along` contains the columns to sum over, or directions ``(n, *batch, *columns)`` in which
        any axis of the batch may have size 1. The sum has the shape of `outputs`. The gradient has
        the shape ``(*outputs.shape, *columns)``; it is None unless `with_gradient` is true.
        """
        path = self._path()
        gradient_in = range(self.axes.columns if with_gradient else 0)
        if path is None:
            total, first = self._zeros(), [self._zeros() for _ in gradient_in]
            manner = Manner(None, "zeros", None)
        else:
            try:
                total, first, manner = self._laplacian(along, gradient_in, path)
            except RuntimeError as error:
                raise_if_freed(error, path.nodes)
                raise_if_missing(error)
                raise
        return total, self.by_column(first) if with_gradient else None, manner

    @run_in(plain_results)
    def along(self, directions: Tensor, orders: Sequence[int]) -> dict[int, Tensor]:
        """Return a dict from each order to its derivatives along directions.

        Each value is ``[n, *shape of outputs]``. The directions are ``[n, *batch, *columns]``; any
        axis of their batch may have size 1.
        """
        if self.method == "reverse":
            raise ValueError(message("derivative.along.reverse"))
        if len(directions) * max(orders) > MOST_DERIVATIVES:
            raise ValueError(message("derivative.along.too-many", most=MOST_DERIVATIVES))
        path = self._path()
        if path is None:
            zeros = self.inputs.new_zeros(len(directions), *self.outputs.shape)
            return {order: zeros.clone() for order in orders}
        problem = self._replace(method="taylor")
        try:
            problem.check_proof(self._proof(path, max(orders)))
            return self._taylor(path).along(directions, orders)
        except Unsupported as error:
            raise RuntimeError(message("derivative.not-taylor", reason=error)) from None
        except RuntimeError as error:
            raise_if_freed(error, path.nodes)
            raise

    def _laplacian(
        self, along: Sequence[int] | Tensor, gradient_in: Sequence[int], path: _autograd.Path
    ) -> tuple[Tensor, list[Tensor], Manner]:
        """Return the sum of second derivatives, the first derivatives, and how they were computed.

        The sum runs over the columns or directions in `along`. The first derivatives are those in
        the columns `gradient_in`. Each tensor has the shape of `outputs`. `path` contains the nodes
        between the inputs and `outputs`.
        """
        reason, proof = None, self._proof(path, 2)
        if not isinstance(along, Tensor):
            second = [index_of(self.axes, column, column) for column in along]
            first = [index_of(self.axes, column) for column in gradient_in]
            if nested := self._nested(second + first, proof):
                total = sum([nested[order] for order in second[1:]], nested[second[0]])
                return total, [nested[o] for o in first], Manner("reverse", "small", "proven")
        if self.method != "reverse":
            try:
                self.check_proof(proof)
                found = self._taylor(path).laplacian(along, gradient_in)
                return *found, Manner("taylor", "rules", "proven")
            except Unsupported as error:
                reason = self._check_fallback(error)
        weights = second_order_weights(along, self.axes, self.outputs.dim())
        gradient = [index_of(self.axes, column) for column in gradient_in]
        parts = self._reverse([*weights, *gradient], proof)
        total = sum(
            (parts[order] * weight for order, weight in weights.items()), self.inputs.new_zeros(())
        )
        return total, [parts[order] for order in gradient], self._reverse_manner(proof, reason)

    def by_column(self, derivatives: Sequence[Tensor]) -> Tensor:
        """Stack derivatives, one per column, to a tensor ``(*outputs.shape, *columns)``."""
        columns = torch.stack([*derivatives], -1)
        return columns if len(self.axes.row) == 1 else columns.unflatten(-1, self.axes.row)

    def finish(self, result: Tensor) -> Tensor:
        """Return a result in the form in which the caller gets it.

        Views are cloned, because an in-place write to one derivative would change others. Without
        `create_graph`, the result is detached. With it, `note_constant` is called for a constant
        result.
        """
        if result is not self.outputs and _autograd.base(result) is not None:
            result = result.clone()
        if not self.create_graph:
            return _autograd.detached(result)
        if not result.requires_grad:
            note_constant(result, self.outputs, self.inputs)
        return result

    def _path(self) -> _autograd.Path | None:
        """Return the path through the graph between inputs and outputs.

        Return None if all derivatives are zero, because there is no path or `outputs` is empty.
        """
        if self.joined is None:
            path = find_path(self.outputs, self.inputs, allow_unused=self.allow_unused)
        else:
            path = self.joined.find_path(self.outputs, allow_unused=self.allow_unused)
        return path if self.outputs.numel() else None

    def _zeros(self) -> Tensor:
        return self.inputs.new_zeros(self.outputs.shape)

    def _is_for_one_pass(self, orders: Sequence[MultiIndex]) -> bool:
        """Check whether one reverse pass per channel is cheaper than one Taylor series per column.

        This can be true only if all `orders` are first derivatives.
        """
        if self.method != "auto" or self.joined or max(map(sum, orders)) > 1:
            return False
        return self.outputs.numel() <= len(set(orders)) * self.axes.batch.numel()

    def _nested(self, orders: list[MultiIndex], proof: RowProof) -> dict[MultiIndex, Tensor] | None:
        """Return the derivatives `orders` by nested reverse passes (see `small_networks`).

        Return None if that is not possible, or if Taylor mode or a cached derivative is cheaper.
        """
        outputs, inputs, is_first = self.outputs, self.inputs, max(map(sum, orders)) == 1
        parts = self.joined.parts if self.joined else (inputs,)
        # In compiled code, a plan would turn sizes into constants, so none is used.
        if self.method != "auto" or torch.compiler.is_compiling():
            return None
        if not may_be_nested(outputs, parts, self.axes.batch.numel()):
            return None
        is_shared, base = self._is_shared(), _autograd.base(outputs)
        is_part = base is not None and base.numel() != outputs.numel()
        if is_shared and (is_first or is_part):
            return None
        made = make_plan(proof, self.joined, orders)
        if made is None:
            return None
        one, nodes = made
        source, what = self._shared_source()
        gradient = recall(source, inputs, what, proof.path) if is_shared else None
        given = one, outputs, parts, nodes
        found = follow_plan(*given, create_graph=self.create_graph, gradient=gradient)
        if found is None:
            return None
        derivatives, first = found
        if is_shared and first is not None and first.grad_fn is not None:
            for order in orders:  # Copy views, because a caller may write into its result.
                if _autograd.base(derivatives[order]) is not None:
                    derivatives[order] = derivatives[order].clone()
                remember(source, inputs, what, first, derivatives[order])
        if self.request is not None and not (is_shared and len(orders) == 1):
            keep_plan(self.request, one, outputs, parts, nodes)
        return derivatives

    def _in_one_pass(
        self, orders: list[MultiIndex], taylor: Taylor, proof: RowProof
    ) -> dict[MultiIndex, Tensor] | None:
        """Return first derivatives from one reverse pass per channel, or from the cache.

        `orders` contains their multi-indices. Return None if rows may depend on each other or a
        formula on the path is wrong.
        """
        known = None
        is_shared = self._is_shared() and self.outputs.numel() == self.axes.batch.numel()
        source, what = self._shared_source()
        if is_shared:
            known = recall(source, self.inputs, what, taylor.path)
        if known is not None:
            gradients = [known]
        elif any(wrong_formulas_on(taylor.path.nodes, 1 + self.create_graph)):
            return None
        elif proof.is_of_formulas and taylor.records_itself():
            gradients = gradients_once(
                self.outputs, self.inputs, self.axes, create_graph=self.create_graph
            )
        else:
            return None
        parts = first_derivatives(gradients, orders, self.axes, self.outputs.shape)
        if is_shared:
            parts = {order: part.clone() for order, part in parts.items()}
            for part in parts.values():
                remember(source, self.inputs, what, gradients[0], part)
        return parts

    def _shared_source(self) -> tuple[Tensor, Hashable]:
        """Return the tensor with which to cache derivatives, and a key for `outputs` in the cache.

        If `outputs` is a view, such as one column of a network's result, the tensor is its base.
        Then calls for other columns find the cache too. Otherwise the tensor is `outputs` itself.
        """
        base, outputs = _autograd.base(self.outputs), self.outputs
        what = tuple(outputs.shape), outputs.stride(), outputs.storage_offset()
        return outputs if base is None else base, what

    def _is_shared(self) -> bool:
        """Check whether later calls may reuse this derivative, for example for another column."""
        if self.joined or self.method != "auto" or not self.create_graph:
            return False
        if self.axes.columns == 1:
            return False
        given = self.outputs, self.inputs
        return not (torch.overrides.has_torch_function(given) or _autograd.is_intercepted())

    def _from_all_channels(self, orders: list[MultiIndex]) -> dict[MultiIndex, Tensor] | None:
        """Return derivatives of `outputs` if it is a view of some channels of a larger tensor.

        `orders` contains their multi-indices. All channels of that tensor are differentiated and
        cached. The other channels cost almost nothing, because the forward pass computed them
        together with `outputs`. Return None if `outputs` is not such a view, or if Taylor mode
        cannot differentiate all channels.
        """
        whole = _autograd.base(self.outputs) if self._is_shared() else None
        columns = None if whole is None else columns_shown(self.outputs, whole)
        path = None if whole is None else _autograd.path_between(whole, self.inputs)
        if whole is None or columns is None or path is None or len(columns) == whole.shape[-1]:
            return None
        recalled = {order: recall(whole, self.inputs, order, path) for order in orders}
        known = {order: found for order, found in recalled.items() if found is not None}
        missing = [order for order in orders if order not in known]
        if missing:
            proof = RowProof(whole, self.inputs, self.axes, path, max(map(sum, missing)))
            taylor = Taylor(whole, self.inputs, len(self.axes.batch), path, self.create_graph)
            try:
                self.check_proof(proof)
                known |= taylor.derivatives(missing)
            except Unsupported:
                return None
        parts = {}
        for order, derivative in known.items():
            shown = derivative[..., columns.start : columns.stop]
            parts[order] = shown.reshape(self.outputs.shape).clone()
            remember(whole, self.inputs, order, derivative, parts[order])
        return parts

    def _taylor(self, path: _autograd.Path) -> Taylor:
        return Taylor(self.outputs, self.inputs, len(self.axes.batch), path, self.create_graph)

    def _check_fallback(self, error: Unsupported) -> str:
        """Return why Taylor mode failed, so that the caller can use reverse mode instead.

        If `method` is "taylor", raise an error with this reason.
        """
        if self.method == "taylor":
            raise RuntimeError(message("derivative.not-taylor", reason=error)) from None
        return str(error)  # The exception itself would keep its frames alive.

    def check_proof(self, proof: RowProof) -> None:
        """Raise an error if rows are not proven independent, as Taylor mode requires.

        If the caller requires both Taylor mode and a proof, the error names the operation that may
        mix rows. Otherwise it is `Unsupported`, and the caller may use reverse mode.
        """
        proof = proof.for_rules()
        if proof.holds:
            return
        check_rules(proof.path)
        if self.method == "taylor" and self.rows != "independent":
            raise proof.refusal()
        raise Unsupported("no-proof")

    def _proof(self, path: _autograd.Path, order: int) -> RowProof:
        return RowProof(self.outputs, self.inputs, self.axes, path, order)

    def _reverse_manner(self, proof: RowProof, reason: str | None) -> Manner:
        because = "requested" if reason is None else "no-answer"
        return Manner("reverse", because, "proven" if proof.holds else "vouched for", reason)

    def _reverse(self, orders: list[MultiIndex], proof: RowProof) -> dict[MultiIndex, Tensor]:
        reverse = Reverse(
            inputs=self.inputs,
            joined=self.joined,
            axes=self.axes,
            orders=orders,
            create_graph=self.create_graph,
        )

        def check_rows() -> None:
            if proof.holds:
                return
            if self.rows != "independent":
                is_known = all(
                    behaviour_of(node) and not _autograd.is_write_into_view(node)
                    for node in proof.path.nodes
                )
                if not is_known and (self.create_graph or max(map(sum, orders)) > 1):
                    check_double_backward(proof.path.nodes, order=1)
                raise proof.refusal()
            parts = self.joined.parts if self.joined else ()
            check_vouch(self.outputs, self.inputs, parts, self.axes, proof.path)

        return reverse.differentiate(self.outputs, proof.path, check_rows)
