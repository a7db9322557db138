"""Which method differentiates: Taylor mode where it has rules, else nested reverse mode."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar, get_args

from torch import Tensor
from torch.autograd.graph import Node

from leafgrad._axes import Axes
from leafgrad._order import MultiIndex
from leafgrad._reverse import Reverse
from leafgrad._taylor import Refusal, Taylor

Method = Literal["auto", "taylor", "reverse"]
Answer = TypeVar("Answer")


def check_method(method: str) -> None:
    """Raise where there is no such method."""
    if method not in get_args(Method):
        raise ValueError(f'method must be "auto", "taylor" or "reverse", not {method!r}')


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is to be differentiated with respect to what, along which path, and how."""

    outputs: Tensor
    inputs: Tensor
    axes: Axes
    path: list[Node]
    create_graph: bool
    method: str

    def derivatives(self, orders: list[MultiIndex]) -> dict[MultiIndex, Tensor]:
        """Give the derivatives of all `orders`, none of which is of order 0."""
        if self.method == "auto" and self._is_for_one_pass(orders):
            return self._reverse(orders, is_proven=True)
        return self._answered(
            lambda: self._taylor.derivatives(orders), lambda: self._reverse(orders)
        )

    def laplacian(self, dims: Sequence[int]) -> Tensor:
        """Give the sum of the second derivatives in some columns."""
        columns = range(self.axes.columns)
        orders = [tuple(2 * (column == dim) for column in columns) for dim in dims]
        return self._answered(
            lambda: self._taylor.laplacian(dims),
            lambda: sum(self._reverse(orders).values(), self.inputs.new_zeros(())),
        )

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
            path=self.path,
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
        return reverse.differentiate(self.outputs, self.path)

    def _is_for_one_pass(self, orders: Sequence[MultiIndex]) -> bool:
        """Say whether a reverse pass per channel is cheaper than a series per column, and safe."""
        if any(sum(index) > 1 for index in orders):
            return False
        channels = self.outputs.numel() // self.axes.batch.numel()
        return channels <= len(set(orders)) and self._taylor.proves_rows_apart()


def _no_rule(refusal: Refusal) -> str:
    return f'method must be "auto" or "reverse" here, not "taylor": {refusal}'
