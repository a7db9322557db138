"""Rules for sums, products and quotients, element by element.

The series ``[K, *shape]`` of the inputs are broadcast, as PyTorch broadcasts the tensors.
"""

from __future__ import annotations

from leafgrad._derivative.taylor.jet import add, multiply
from leafgrad._derivative.taylor.rule import Rule, Step
from leafgrad._derivative.taylor.series import Number, Series


def _sum(x: Series | None, y: Series | None, factor: Number) -> Series | None:
    """Return ``x + factor * y``, in the broadcast shape.

    None stands for a series that is zero.
    """
    return add(x, None if y is None else y.scaled(factor))


def _add(step: Step, x: Series | None, y: Series | None = None) -> Series | None:
    """Return ``x + alpha * y``, in the broadcast shape.

    None stands for a series that is zero.
    """
    return _sum(x, y, step.saved("alpha"))


def _subtract(step: Step, x: Series | None, y: Series | None = None) -> Series | None:
    """Return ``x - alpha * y``, in the broadcast shape.

    None stands for a series that is zero.
    """
    return _sum(x, y, -step.saved("alpha"))


def _rsub(step: Step, x: Series | None, y: Series | None = None) -> Series | None:
    """Return ``y - alpha * x``, in the broadcast shape.

    None stands for a series that is zero.
    """
    return add(None if x is None else x.scaled(-step.saved("alpha")), y)


Factor = tuple[str, Series | None]  # the name under which its value is saved, and its series


def product_of(step: Step, one: Factor, two: Factor) -> Series | None:
    """Return the product of `one` and `two`, in the broadcast shape.

    Each is a `Factor`, a name and a series. PyTorch saves the value of a factor only if the other
    factor needs a gradient. Other values are not read. None stands for a series that is zero.
    """
    (left, x), (right, y) = one, two
    if x is None or y is None:
        by_left = None if x is None else x.scaled(step.tensor(right))
        return by_left if y is None else y.scaled(step.tensor(left))
    return multiply(step.jet(left, x), step.jet(right, y))


def _multiply(step: Step, x: Series | None, y: Series | None) -> Series | None:
    """Return ``x * y``, in the broadcast shape.

    None stands for a series that is zero.
    """
    return product_of(step, ("self", x), ("other", y))


def _quotient_of(step: Step, one: Factor, two: Factor) -> Series | None:
    """Return the quotient of `one` by `two` (see `Factor`), in the broadcast shape.

    None stands for a series that is zero.
    """
    (dividend, x), (divisor, y) = one, two
    if y is not None:
        return multiply(step.jet(dividend, x), step.jet(divisor, y).reciprocal())
    return None if x is None else x.divided(step.tensor(divisor))


def _divide(step: Step, x: Series | None, y: Series | None) -> Series | None:
    """Return ``x / y``, in the broadcast shape.

    None stands for a series that is zero.
    """
    return _quotient_of(step, ("self", x), ("other", y))


def _addcmul(step: Step, z: Series | None, x: Series | None, y: Series | None) -> Series | None:
    """Return ``z + value * x * y``, in the broadcast shape.

    None stands for a series that is zero.
    """
    return _sum(z, product_of(step, ("tensor1", x), ("tensor2", y)), step.saved("value"))


RULES: dict[str, Rule] = {
    "AddBackward0": Rule(_add, rowwise=True, is_for_complex=True),
    "AddBackward1": Rule(lambda _, x: x, rowwise=True, is_for_complex=True),
    "SubBackward0": Rule(_subtract, rowwise=True, is_for_complex=True),
    "SubBackward1": Rule(lambda _, x: x, rowwise=True, is_for_complex=True),
    "RsubBackward0": Rule(_rsub, rowwise=True, is_for_complex=True),
    "RsubBackward1": Rule(_rsub, rowwise=True, is_for_complex=True),
    "NegBackward0": Rule(lambda _, x: -x, rowwise=True, is_for_complex=True),
    "MulBackward0": Rule(_multiply, rowwise=True, is_for_complex=True),
    "MulBackward1": Rule(
        lambda step, x: x.scaled(step.saved("other")), rowwise=True, is_for_complex=True
    ),
    "DivBackward0": Rule(_divide, rowwise=True, is_for_complex=True),
    "DivBackward1": Rule(
        lambda step, x: x.scaled(1 / step.saved("other")), rowwise=True, is_for_complex=True
    ),
    "AddcmulBackward0": Rule(_addcmul, rowwise=True, is_for_complex=True),
}
