"""Rules for the backward nodes of activations: an elementwise product of a gradient and a slope.

These nodes are on the path if the outputs are computed from a derivative, such as forces from an
energy or normals from a distance. The slope is a function of the value that the activation saved,
``[*shape]``. Both the slope and the gradient may have a series, ``[K, *shape]``.
"""

from __future__ import annotations

from collections.abc import Callable

from leafgrad._derivative.taylor.jet import Jet, multiply
from leafgrad._derivative.taylor.rule import Rule, Step
from leafgrad._derivative.taylor.series import Series
from leafgrad._derivative.taylor.unsupported import unsupported_if


def _times(slope: Callable[[Step, Jet], Jet], name: str = "self") -> Rule:
    """Return the rule of the elementwise product of a gradient and the slope of an activation.

    `slope` computes the slope from the value that the node saved under `name`.
    """

    def rule(step: Step, gradient: Series | None, x: Series | None) -> Series | None:
        steep = slope(step, step.jet(name, x))
        if gradient is None:
            return steep.series and steep.series.scaled(step.tensor("grad_output"))
        if steep.series is None:
            return gradient.scaled(steep.value)
        return multiply(step.jet("grad_output", gradient), steep)

    return Rule(rule, rowwise=True)


def _of_softplus(step: Step, x: Jet) -> Jet:
    """Return the slope of softplus, elementwise.

    It is 1 where ``beta x`` is above the threshold, and ``sigmoid(beta x)`` elsewhere.
    """
    beta: float = step.saved("beta")
    scaled = x * beta
    return scaled.sigmoid().where(scaled.value <= step.saved("threshold"), 1)


def _of_elu(step: Step, x: Jet) -> Jet:
    """Return the slope of ELU, elementwise: a constant above zero, an exponential below it."""
    unsupported_if(step.saved("is_result"), "in-place")
    scale: float = step.saved("scale")
    inner: float = step.saved("input_scale")
    # Clamp x, so that the exponential does not overflow where it is not used. At zero, PyTorch's
    # second derivative is zero.
    falling = Jet(x.value.clamp(max=0), x.series and x.series.masked(x.value < 0))
    depth: float = scale * inner * step.saved("alpha")
    return ((falling * inner).exp() * depth).where(x.value <= 0, scale)


def _threshold(step: Step, gradient: Series | None, _: Series | None) -> Series | None:
    """Return `gradient` with zeros where the saved value is not above the threshold."""
    return gradient and gradient.masked(step.tensor("self") > step.saved("threshold"))


def _softmax(step: Step, gradient: Series | None, result: Series | None) -> Series | None:
    """Return the gradient of a softmax's input, in its shape: ``s (g - sum(s g))``.

    Here s is the softmax and g the gradient of s. `gradient` is the series of g, and `result` that
    of s; None stands for zero.
    """
    dim, shares = step.result_dim(), step.jet("output", result)
    if result is None:
        mean = gradient and gradient.scaled(shares.value).summed([dim], keepdim=True)
        return gradient and mean and (gradient - mean).scaled(shares.value)
    g = step.jet("grad_output", gradient)
    return ((g - (g * shares).sum(dim, keepdim=True)) * shares).series


RULES: dict[str, Rule] = {
    "TanhBackwardBackward0": _times(lambda _, result: 1 - result * result, "output"),
    "SigmoidBackwardBackward0": _times(lambda _, result: result * (1 - result), "output"),
    "SoftplusBackwardBackward0": _times(_of_softplus),
    "LogSigmoidBackwardBackward0": _times(lambda _, x: (-x).sigmoid()),
    "EluBackwardBackward0": _times(_of_elu, "self_or_result"),
    "ThresholdBackwardBackward0": Rule(_threshold, rowwise=True),
    "SoftmaxBackwardDataBackward0": Rule(_softmax),
}
