"""What is asked for, and which method answers: Taylor mode where it has rules, else reverse."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeVar, get_args

from torch import Tensor
from torch.autograd.graph import Node

from leafgrad._axes import Axes, read_axes
from leafgrad._connection import check_tensor, find_path
from leafgrad._evaluation import Function, evaluated
from leafgrad._order import MultiIndex
from leafgrad._reverse import Reverse
from leafgrad._taylor import Refusal, Taylor

Method = Literal["auto", "taylor", "reverse"]
Answer = TypeVar("Answer")


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
    if method not in get_args(Method):
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


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is to be differentiated with respect to what, and how."""

    outputs: Tensor
    inputs: Tensor
    axes: Axes
    create_graph: bool
    method: str
    allow_unused: bool

    @cached_property
    def path(self) -> list[Node] | None:
        """The nodes between, None where derivatives are zeros, as there is no way or no element."""
        path = find_path(self.outputs, self.inputs, allow_unused=self.allow_unused)
        return path if self.outputs.numel() else None

    def derivatives(self, orders: list[MultiIndex]) -> dict[MultiIndex, Tensor]:
        """Give the derivatives of all `orders`, none of which is of order 0."""
        if not orders or self.path is None:
            return {index: self._zeros() for index in orders}
        if self.method == "auto" and self._is_for_one_pass(orders):
            return self._reverse(orders, is_proven=True)
        return self._answered(
            lambda: self._taylor.derivatives(orders), lambda: self._reverse(orders)
        )

    def laplacian(self, dims: Sequence[int]) -> Tensor:
        """Give the sum of the second derivatives in some columns."""
        if self.path is None:
            return self._zeros()
        columns = range(self.axes.columns)
        orders = [tuple(2 * (column == dim) for column in columns) for dim in dims]
        return self._answered(
            lambda: self._taylor.laplacian(dims),
            lambda: sum(self._reverse(orders).values(), self.inputs.new_zeros(())),
        )

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

    @property
    def _taylor(self) -> Taylor:
        return Taylor(
            outputs=self.outputs,
            inputs=self.inputs,
            batch=len(self.axes.batch),
            path=self.path or (),
            create_graph=self.create_graph,
        )

    def _reverse(
        self, orders: list[MultiIndex], *, is_proven: bool = False
    ) -> dict[MultiIndex, Tensor]:
        reverse = Reverse(
            inputs=self.inputs,
            axes=self.axes,
            orders=orders,
            create_graph=self.create_graph,
            is_proven=is_proven,
        )
        return reverse.differentiate(self.outputs, self.path or ())

    def _is_for_one_pass(self, orders: Sequence[MultiIndex]) -> bool:
        """Say whether a reverse pass per channel is cheaper than a series per column, and safe."""
        if any(sum(index) > 1 for index in orders):
            return False
        channels = self.outputs.numel() // self.axes.batch.numel()
        return channels <= len(set(orders)) and self._taylor.proves_rows_apart()


def _no_rule(refusal: Refusal) -> str:
    return f'method must be "auto" or "reverse" here, not "taylor": {refusal}'
