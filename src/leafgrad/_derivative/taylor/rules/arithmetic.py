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
    "AddBackward0": Rule(_add, rowwise=True),
    "AddBackward1": Rule(lambda _, x: x, rowwise=True),
    "SubBackward0": Rule(_subtract, rowwise=True),
    "SubBackward1": Rule(lambda _, x: x, rowwise=True),
    "RsubBackward0": Rule(_rsub, rowwise=True),
    "RsubBackward1": Rule(_rsub, rowwise=True),
    "NegBackward0": Rule(lambda _, x: -x, rowwise=True),
    "MulBackward0": Rule(_multiply, rowwise=True),
    "MulBackward1": Rule(lambda step, x: x.scaled(step.saved("other")), rowwise=True),
    "DivBackward0": Rule(divide, rowwise=True),
    "DivBackward1": Rule(lambda step, x: x.scaled(1 / step.saved("other")), rowwise=True),
    "AddcmulBackward0": Rule(_addcmul, rowwise=True),
    "LerpBackward0": Rule(_lerp, rowwise=True),
}
