"""Taylor rules that users register for their own autograd functions.

For ``y = F(x)`` at a value a, a rule takes the series h, ``[K, *shape of x]``, of each tensor. It
returns a `Jet` with the value ``F(a)`` and the series ``F(a + h) - F(a)``, ``[K, *shape of y]``, or
only the series as a `Series`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from leafgrad import _autograd
from leafgrad._derivative.taylor.jet import Jet
from leafgrad._derivative.taylor.kernels.products import common_shape
from leafgrad._derivative.taylor.rule import Result, Rule, Step
from leafgrad._derivative.taylor.series import Series
from leafgrad._messages import message

Returned = Series | Jet | None | Sequence[Series | Jet | None]
CustomRule = TypeVar("CustomRule", bound=Callable[..., Returned])
CUSTOM: dict[type[torch.autograd.Function], Rule] = {}


def taylor_rule(function: type[torch.autograd.Function]) -> Callable[[CustomRule], CustomRule]:
    """Return a decorator that registers a Taylor rule for a custom `torch.autograd.Function`.

    A Taylor rule repeats the forward computation of the function, with Taylor series as well as
    values. It is called with a `Series` for each tensor argument, and returns the series of the
    result. The rule in the example converts the series to a `Jet`, and computes with this jet as
    with a tensor.

    With a rule, `higher_order_grad` can differentiate through the function in Taylor mode. In this
    mode, it does not call the function's backward, which therefore need not be differentiable more
    than once. Without a rule, `higher_order_grad` nests backward passes through the function.

    Args:
        function: The class to register a rule for.

    Returns:
        A decorator that registers the decorated function and returns it unchanged.

    Example:
        >>> import torch
        >>> from leafgrad import Jet, higher_order_grad, taylor_rule
        >>> class Cube(torch.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         ctx.save_for_backward(x)
        ...         return x**3
        >>> @taylor_rule(Cube)
        ... def cube(ctx, x):
        ...     (value,) = ctx.saved_tensors
        ...     return Jet(value, x) ** 3
        >>> x = torch.tensor([[1.0], [2.0]], requires_grad=True)
        >>> higher_order_grad(Cube.apply(x), x, 2, method="taylor").tolist()
        [[6.0], [12.0]]

    Raises:
        TypeError: If `function` is not a subclass of `torch.autograd.Function`, or if the decorated
            object is not callable.

    Note:
        **Arguments.** The rule is called with the function's ``ctx``, like its backward, and with a
        `Series` for each tensor that the function was applied to. If a tensor does not depend on
        the inputs of the derivative, the rule gets None instead of a series. A series does not
        contain the value of its tensor. Take values from ``ctx.saved_tensors``: these tensors are
        still connected to the graph, so the derivative can be differentiated further. A `Jet`
        converts its value to the dtype of its series, which may be more precise than that of the
        function.

        **Result.** The rule returns a `Jet` or a `Series`. If the function has several outputs, it
        returns a list with one entry for each of them. If all derivatives of an output are zero,
        return a `Jet` whose series is None, or None as an entry of a list. A rule must not return
        None itself, because that usually means that its ``return`` statement is missing.
        `higher_order_grad` raises a TypeError if the rule returns None or another type, and a
        ValueError if the returned series do not fit the outputs.

        **Calls.** `higher_order_grad` also calls the rule to prove that it does not mix the rows of
        a batch, and again in higher precision if a coefficient left the range of its dtype. Use
        `check_taylor_rule` to check that a rule is correct.
    """
    check_function(function)
    name = function.__name__

    def register(rule: CustomRule) -> CustomRule:
        if not callable(rule):
            raise TypeError(message("derivative.rule.not-callable", function=name, value=rule))

        def checked(step: Step, *inputs: Series | None) -> Result:
            given = [series and series.computed() for series in inputs]
            return _check_results(name, step, given, rule(step.node, *given))

        CUSTOM[function] = Rule(checked)
        return rule

    return register


def check_function(function: object) -> None:
    """Raise an error if `function` is not a subclass of `torch.autograd.Function`."""
    base = torch.autograd.Function
    if isinstance(function, type) and issubclass(function, base) and function is not base:
        return
    cure = message(f"derivative.rule.{_cure(function)}")
    raise TypeError(message("derivative.rule.class", value=_describe(function), help=cure))


def _describe(function: object) -> str:
    if isinstance(function, type):
        return f"the class {function.__name__}"
    if inspect.isroutine(function):
        return f"the function {function.__name__}"
    return f"{function!r} of type {type(function).__name__}"


def _cure(function: object) -> str:
    """Return the key of a message that suggests what to pass instead of `function`."""
    if inspect.isfunction(function):
        return "class-decorate"
    return "class-instance" if isinstance(function, torch.autograd.Function) else "class-wrap"


def _check_results(name: str, step: Step, given: Sequence[Series | None], found: object) -> Result:
    """Check what a rule returned, and convert it to a list of one series per output.

    `found` is what it returned. Each series is ``[K, *shape]``, or None for zero. `given` contains
    the series that the rule was called with.
    """
    outputs = step.results
    if found is None:
        raise TypeError(message("derivative.rule.none", function=name))
    results: Sequence[object] = found if isinstance(found, list | tuple) else [found]
    if len(results) != len(outputs):
        words = {"function": name, "wanted": len(outputs), "count": len(results)}
        raise ValueError(message("derivative.rule.count", **words))
    return [
        _check_series(name, result, output, given)
        for result, output in zip(results, outputs, strict=True)
    ]


def _check_series(
    name: str, result: object, output: _autograd.TensorType, given: Sequence[Series | None]
) -> Series | None:
    """Return the series ``[K, *shape]`` of one result of a rule, or None for zero.

    Raise an error if the result does not fit `output`, or the series `given` to the rule.
    """
    shape = tuple(output.shape)
    words: dict[str, object] = {"function": name, "wanted": shape}
    if isinstance(result, Jet):
        if (size := tuple(result.value.shape)) != shape:
            raise ValueError(message("derivative.rule.value-shape", shape=size, **words))
        result = result.series
    if result is None:
        return None
    if not isinstance(result, Series):
        key = "derivative.rule.tensor" if isinstance(result, Tensor) else "derivative.rule.type"
        raise TypeError(message(key, type=type(result).__name__, **words))
    if len(result.shape) > len(shape) or common_shape(result.shape, shape) != shape:
        raise ValueError(message("derivative.rule.series-shape", shape=result.shape, **words))
    known = [series for series in given if series is not None]
    if all(series.algebra is not result.algebra for series in known):
        raise ValueError(message("derivative.rule.another-call", function=name))
    if _is_rounded(result.dtype, output.dtype, known):
        words |= {"wanted": output.dtype, "dtype": result.dtype}
        raise ValueError(message("derivative.rule.dtype", **words))
    return result


def _is_rounded(dtype: torch.dtype, wanted: torch.dtype, known: Sequence[Series]) -> bool:
    """Check whether a rule returned a series with a dtype that loses digits.

    The series must be as precise as the output or as the most precise argument of the rule.
    `dtype` is that of the series, `wanted` that of the output, and `known` contains the arguments.
    """
    if not (dtype.is_floating_point and wanted.is_floating_point):
        return dtype != wanted
    finest = min(torch.finfo(series.dtype).eps for series in known)
    return torch.finfo(dtype).eps > max(torch.finfo(wanted).eps, finest)
