"""Rules for sums, products and quotients, element by element."""

from __future__ import annotations

from leafgrad._derivative.taylor.jet import Jet, add, multiply
from leafgrad._derivative.taylor.series import Number, Series
from leafgrad._derivative.taylor.step import Rule, Step


def _sum(x: Series | None, y: Series | None, factor: Number) -> Series | None:
    """Add `factor` times the second."""
    return add(x, None if y is None else y.scaled(factor))


def _add(step: Step, x: Series | None, y: Series | None = None) -> Series | None:
    return _sum(x, y, step.saved("alpha"))


def _subtract(step: Step, x: Series | None, y: Series | None = None) -> Series | None:
    return _sum(x, y, -step.saved("alpha"))


def _rsub(step: Step, x: Series | None, y: Series | None = None) -> Series | None:
    return add(None if x is None else x.scaled(-step.saved("alpha")), y)


Factor = tuple[str, Series | None]  # the name under which its value was saved


def product_of(step: Step, one: Factor, two: Factor) -> Series | None:
    """Multiply two tensors, of which PyTorch keeps only what the other's gradient needs."""
    (left, x), (right, y) = one, two
    if x is None or y is None:
        by_left = None if x is None else x.scaled(step.tensor(right))
        return by_left if y is None else y.scaled(step.tensor(left))
    return multiply(step.jet(left, x), step.jet(right, y))


def _multiply(step: Step, x: Series | None, y: Series | None) -> Series | None:
    return product_of(step, ("self", x), ("other", y))


def divide(step: Step, x: Series | None, y: Series | None) -> Series | None:
    """Divide two tensors."""
    divisor = step.tensor("other")
    if y is None:
        return None if x is None else x.divided(divisor)
    return multiply(step.jet("self", x), Jet(divisor, y).reciprocal())


def _addcmul(step: Step, z: Series | None, x: Series | None, y: Series | None) -> Series | None:
    return _sum(z, product_of(step, ("tensor1", x), ("tensor2", y)), step.saved("value"))


def _lerp(step: Step, start: Series | None, end: Series | None) -> Series | None:
    weight = step.saved("weight")
    return _sum(None if start is None else start.scaled(1 - weight), end, weight)


RULES: dict[str, Rule] = {
    "AddBackward0": _add,
    "AddBackward1": lambda _, x: x,
    "SubBackward0": _subtract,
    "SubBackward1": lambda _, x: x,
    "RsubBackward0": _rsub,
    "RsubBackward1": _rsub,
    "NegBackward0": lambda _, x: -x,
    "MulBackward0": _multiply,
    "MulBackward1": lambda step, x: x.scaled(step.saved("other")),
    "DivBackward0": divide,
    "DivBackward1": lambda step, x: x.scaled(1 / step.saved("other")),
    "AddcmulBackward0": _addcmul,
    "LerpBackward0": _lerp,
}
