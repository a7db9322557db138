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

    With a rule, `higher_order_grad` can differentiate through the function in Taylor mode. In this
    mode, it does not call the function's ``backward``, which therefore need not be differentiable
    more than once. Without a rule, `higher_order_grad` nests backward passes through the function.

    A rule repeats the computation of ``forward`` with a `Jet` in place of each tensor. It is called
    with ``ctx``, like ``backward``, and with a `Series` for each tensor that the function was
    applied to. Because a series does not contain the value of its tensor, the rule takes the values
    from ``ctx.saved_tensors``. It passes each value to `Jet` together with its series, as in the
    example. Inputs and outputs that ``forward`` saved are still connected to the graph, so the
    derivative can be differentiated further.

    Some tensors do not depend on the `inputs` that you pass to `higher_order_grad`. For such a
    tensor, the rule receives None instead of a series, and can pass this None to `Jet` too.

    The rule returns the jet of the result. If the function has several outputs, the rule returns a
    list with one jet for each of them. If all derivatives of an output are zero, its jet is
    ``Jet(value, None)``.

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
        Instead of a jet, a rule can return only its `Series`. In a list, None stands for an output
        whose derivatives are all zero. If the rule returns None itself, its ``return`` statement is
        usually missing. So `higher_order_grad` raises a TypeError for None, as for any other type,
        and a ValueError if the returned series do not fit the outputs.

        `higher_order_grad` may call a rule several times: for the derivative, to prove that the
        rule does not mix the rows of a batch, and once more in higher precision if a coefficient
        left the range of its dtype. So a series may have a wider dtype than its tensor. A `Jet`
        converts its value to the dtype of its series.
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
