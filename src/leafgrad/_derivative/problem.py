"""What is to be differentiated, and by which method: Taylor mode where it has rules, or reverse."""

from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

from leafgrad import _autograd
from leafgrad._derivative.arguments import (
    Axes,
    Function,
    MultiIndex,
    check_differentiable,
    evaluate,
    read_axes,
)
from leafgrad._derivative.columns import index_of, second_order_weights
from leafgrad._derivative.path import (
    find_path,
    note_constant,
    raise_if_apart,
    raise_if_freed,
)
from leafgrad._derivative.reverse import Reverse, differentiate_once
from leafgrad._derivative.taylor import Taylor, Unsupported

Method = Literal["auto", "taylor", "reverse"]
_METHODS = get_args(Method)


def is_recording() -> bool:
    """Return whether PyTorch records; ``inference_mode(mode=False)`` makes it do so."""
    return torch.is_grad_enabled() and not torch.is_inference_mode_enabled()


def parse_problem(
    outputs: Tensor | Function,
    inputs: Tensor,
    *,
    by_column: bool,
    create_graph: bool,
    method: str,
    allow_unused: bool | None = None,
) -> "DerivativeProblem":
    """Check what is given, and compute outputs where they are given as a function."""
    if method not in _METHODS:
        raise ValueError(f'method must be "auto", "taylor" or "reverse", not {method!r}')
    for name, flag in {"create_graph": create_graph, "allow_unused": allow_unused or False}.items():
        if not isinstance(flag, bool):
            raise TypeError(f"{name} must be a bool, not {flag!r}; write True or False")
    check_differentiable("inputs", inputs)
    if not isinstance(outputs, Tensor):
        outputs, inputs = evaluate(outputs, inputs)
    check_differentiable("outputs", outputs)
    try:
        axes = read_axes(outputs, inputs, by_column=by_column)
    except ValueError as error:
        raise_if_apart(error, outputs, inputs)
        raise
    return DerivativeProblem(
        outputs=outputs,
        inputs=inputs,
        axes=axes,
        create_graph=create_graph,
        method=method,
        allow_unused=allow_unused,
    )


class DerivativeProblem(NamedTuple):
    """What is to be differentiated with respect to what, and how.

    The shape of `inputs` is ``(*batch, *columns)`` and that of `outputs` ``(*batch, *channels)``,
    or both are ``batch`` where `axes` are elementwise.
    """

    outputs: Tensor
    inputs: Tensor
    axes: Axes
    create_graph: bool
    method: str
    allow_unused: bool | None

    def derivatives(self, orders: list[MultiIndex]) -> dict[MultiIndex, Tensor]:
        """Return the derivatives of all `orders`, none of which is 0, each shaped as `outputs`."""
        path = self._path() if orders else None
        if path is None:
            return {index: self._zeros() for index in orders}
        try:
            taylor = self._taylor(path)
            if (
                self._is_for_one_pass(orders)
                and taylor.proves_rows_apart()
                and taylor.records_itself()
            ):
                return differentiate_once(
                    self.outputs, self.inputs, self.axes, orders, create_graph=self.create_graph
                )
            if self.method != "reverse":
                try:
                    return taylor.derivatives(orders)
                except Unsupported as error:
                    self._check_fallback(error)
            return self._reverse(orders, path)
        except RuntimeError as error:
            raise_if_freed(error, path.nodes)
            raise

    def laplacian(
        self, along: Sequence[int] | Tensor, *, with_gradient: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Return the sum of second derivatives, shaped as `outputs`, and the gradient or None.

        The sum runs over columns, or over directions ``(n, *batch, *columns)`` in which any axis of
        the batch may have size 1. The gradient is ``(*outputs.shape, *columns)``.
        """
        path = self._path()
        gradient_in = range(self.axes.columns if with_gradient else 0)
        if path is None:
            total, first = self._zeros(), [self._zeros() for _ in gradient_in]
        else:
            try:
                total, first = self._laplacian(along, gradient_in, path)
            except RuntimeError as error:
                raise_if_freed(error, path.nodes)
                raise
        return total, self.by_column(first) if with_gradient else None

    def _laplacian(
        self, along: Sequence[int] | Tensor, gradient_in: Sequence[int], path: _autograd.Path
    ) -> tuple[Tensor, list[Tensor]]:
        """Return the sum of second derivatives and first ones, each shaped as `outputs`."""
        if self.method != "reverse":
            try:
                return self._taylor(path).laplacian(along, gradient_in)
            except Unsupported as error:
                self._check_fallback(error)
        weights = second_order_weights(along, self.axes, self.outputs.dim())
        gradient = [index_of(self.axes, column) for column in gradient_in]
        found = self._reverse([*weights, *gradient], path)
        terms = (found[order] * weight for order, weight in weights.items())
        return sum(terms, self.inputs.new_zeros(())), [found[order] for order in gradient]

    def by_column(self, derivatives: Sequence[Tensor]) -> Tensor:
        """Join derivatives in each column, shaped as `outputs`, on the axes that columns have."""
        return torch.stack([*derivatives], -1).reshape(*self.outputs.shape, *self.axes.row)

    def finish(self, result: Tensor) -> Tensor:
        """Return a result as the caller gets it: detached, or noted where it is a constant."""
        if not self.create_graph:
            return result.detach()
        if not result.requires_grad:
            note_constant(result, self.inputs)
        return result

    def _path(self) -> _autograd.Path | None:
        """Return the nodes between, None if all derivatives are zeros: no path, or no element."""
        path = find_path(self.outputs, self.inputs, allow_unused=self.allow_unused)
        return path if self.outputs.numel() else None

    def _zeros(self) -> Tensor:
        return self.inputs.new_zeros(self.outputs.shape)

    def _is_for_one_pass(self, orders: Sequence[MultiIndex]) -> bool:
        """Return whether a reverse pass per channel is cheaper than a series per column."""
        if self.method != "auto" or max(map(sum, orders)) > 1:
            return False
        return self.outputs.numel() <= len(set(orders)) * self.axes.batch.numel()

    def _taylor(self, path: _autograd.Path) -> Taylor:
        return Taylor(self.outputs, self.inputs, len(self.axes.batch), path, self.create_graph)

    def _check_fallback(self, reason: Unsupported) -> None:
        """Raise where nothing but Taylor mode may answer."""
        if self.method == "taylor":
            raise RuntimeError(
                f'method must be "auto" or "reverse" here, not "taylor": {reason}'
            ) from None

    def _reverse(self, orders: list[MultiIndex], path: _autograd.Path) -> dict[MultiIndex, Tensor]:
        reverse = Reverse(
            inputs=self.inputs, axes=self.axes, orders=orders, create_graph=self.create_graph
        )
        are_apart = self._taylor(path).proves_rows_apart()
        return reverse.differentiate(self.outputs, path, rows_are_apart=are_apart)
