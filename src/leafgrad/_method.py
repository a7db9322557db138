"""What is asked for, and which method answers: Taylor mode where it has rules, else reverse."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Literal, NamedTuple, TypeVar, get_args

import torch
from torch import Tensor

from leafgrad import _autograd
from leafgrad._axes import Axes, read_axes
from leafgrad._connection import check_tensor, find_path
from leafgrad._evaluation import Function, evaluated
from leafgrad._order import MultiIndex
from leafgrad._reverse import Reverse, differentiate_once
from leafgrad._taylor import Refusal, Taylor

Method = Literal["auto", "taylor", "reverse"]
_METHODS = get_args(Method)
Answer = TypeVar("Answer")


def recording() -> AbstractContextManager[None]:
    """Record what is computed inside, whatever the caller does."""
    if torch.is_grad_enabled() and not torch.is_inference_mode_enabled():
        return nullcontext()
    return torch.inference_mode(mode=False)  # which turns recording on as well


def pose(
    outputs: Tensor | Function,
    inputs: Tensor,
    *,
    by_column: bool,
    create_graph: bool,
    method: str,
    allow_unused: bool = False,
) -> "Question":
    """Check what is given, and compute outputs where they are given as a function."""
    if method not in _METHODS:
        raise ValueError(f'method must be "auto", "taylor" or "reverse", not {method!r}')
    check_tensor("inputs", inputs)
    if not isinstance(outputs, Tensor):
        outputs, inputs = evaluated(outputs, inputs)
    check_tensor("outputs", outputs)
    return Question(
        outputs=outputs,
        inputs=inputs,
        axes=read_axes(outputs, inputs, by_column=by_column),
        create_graph=create_graph,
        method=method,
        allow_unused=allow_unused,
    )


class Question(NamedTuple):
    """What is to be differentiated with respect to what, and how."""

    outputs: Tensor
    inputs: Tensor
    axes: Axes
    create_graph: bool
    method: str
    allow_unused: bool

    def derivatives(self, orders: list[MultiIndex]) -> dict[MultiIndex, Tensor]:
        """Give the derivatives of all `orders`, none of which is of order 0."""
        path = self._path() if orders else None
        if path is None:
            return {index: self._zeros() for index in orders}
        taylor = self._taylor(path)
        if self._is_for_one_pass(orders) and taylor.proves_rows_apart():
            return differentiate_once(
                self.outputs, self.inputs, self.axes, orders, create_graph=self.create_graph
            )
        return self._answered(
            lambda: taylor.derivatives(orders), lambda: self._reverse(orders, path)
        )

    def laplacian(self, dims: Sequence[int]) -> Tensor:
        """Give the sum of the second derivatives in some columns."""
        path = self._path()
        if path is None:
            return self._zeros()
        columns = range(self.axes.columns)
        orders = [tuple(2 * (column == dim) for column in columns) for dim in dims]
        return self._answered(
            lambda: self._taylor(path).laplacian(dims),
            lambda: sum(self._reverse(orders, path).values(), self.inputs.new_zeros(())),
        )

    def _path(self) -> _autograd.Path | None:
        """Find the nodes between, None if derivatives are zeros: there is no way or no element."""
        path = find_path(self.outputs, self.inputs, allow_unused=self.allow_unused)
        return path if self.outputs.numel() else None

    def _zeros(self) -> Tensor:
        return self.inputs.new_zeros(self.outputs.shape)

    def _answered(self, taylor: Callable[[], Answer], reverse: Callable[[], Answer]) -> Answer:
        if self.method == "reverse":
            return reverse()
        try:
            return taylor()
        except Refusal as refusal:
            if self.method == "taylor":
                raise RuntimeError(_no_rule(refusal)) from None
        return reverse()

    def _taylor(self, path: _autograd.Path) -> Taylor:
        return Taylor(
            outputs=self.outputs,
            inputs=self.inputs,
            batch=len(self.axes.batch),
            path=path,
            create_graph=self.create_graph,
        )

    def _reverse(self, orders: list[MultiIndex], path: _autograd.Path) -> dict[MultiIndex, Tensor]:
        reverse = Reverse(
            inputs=self.inputs, axes=self.axes, orders=orders, create_graph=self.create_graph
        )
        return reverse.differentiate(self.outputs, path.nodes)

    def _is_for_one_pass(self, orders: Sequence[MultiIndex]) -> bool:
        """Say whether a reverse pass per channel is cheaper than a series per column."""
        if self.method != "auto" or max(map(sum, orders)) > 1:
            return False
        return self.outputs.numel() <= len(set(orders)) * self.axes.batch.numel()


def _no_rule(refusal: Refusal) -> str:
    return f'method must be "auto" or "reverse" here, not "taylor": {refusal}'
