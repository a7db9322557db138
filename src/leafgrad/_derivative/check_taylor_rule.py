"""Check a user's Taylor rule against finite differences and against autograd."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from leafgrad._derivative.higher_order_grad import higher_order_grad
from leafgrad._derivative.taylor import CUSTOM, check_function
from leafgrad._messages import message

_STEP = 1e-3
# Central differences of the sixth order, f'(0) = sum_s w_s f(s h) / h: what is left out is the
# seventh derivative, times h**6 / 140.
_WEIGHTS = {-3: -1 / 60, -2: 3 / 20, -1: -3 / 4, 1: 3 / 4, 2: -3 / 20, 3: 1 / 60}


def check_taylor_rule(
    function: type[torch.autograd.Function], *inputs: Any, order: int = 4, rtol: float = 1e-6
) -> None:
    """Raise if the Taylor rule of a custom function does not give its derivatives.

    What `torch.autograd.gradcheck` is for a backward, this is for a rule. The function is applied
    along a straight line through `inputs`, once on which all of them that require grad move, and
    once for each of them alone. Each derivative along this line is compared with the finite
    differences of the one before, and that of order 0 is the function itself, so its backward has
    no part in it. The rule is to record itself as well: the gradient of each derivative is
    compared with the next one.

    Args:
        function: The class that was registered by `taylor_rule`.
        inputs: What it is applied to. Tensors of any shape that require grad are in float64, and
            the function is smooth around them; all else is passed on as it is.
        order: The highest order that is checked.
        rtol: How much may be different, as a part of the largest element or of 1.

    Returns:
        None, where the rule is right.

    Raises:
        TypeError: If `function` is no such class, or a tensor that requires grad is not in float64.
        ValueError: If `function` has no rule, or no tensor requires grad, or `order` is below 1, or
            the rule returns what does not fit.
        RuntimeError: If the rule is wrong, with the order, the output and the element at which it
            differs first, and both values.

    Example:
        >>> import torch
        >>> from leafgrad import Jet, check_taylor_rule, taylor_rule
        >>> class Square(torch.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         ctx.save_for_backward(x)
        ...         return x * x
        ...
        ...     @staticmethod
        ...     def backward(ctx, gradient):
        ...         return 2 * ctx.saved_tensors[0] * gradient
        >>> @taylor_rule(Square)
        ... def square(ctx, x):
        ...     return Jet(ctx.saved_tensors[0], x) ** 2
        >>> x = torch.tensor([0.3, 0.7], dtype=torch.float64, requires_grad=True)
        >>> check_taylor_rule(Square, x)
    """
    _check(function, inputs, order)
    moving = [place for place, given in enumerate(inputs) if _moves(given)]
    alone = [[place] for place in moving] if len(moving) > 1 else []
    with torch.inference_mode(mode=False), torch.enable_grad():
        for places in [moving, *alone]:
            _Line(function, inputs, places, order, rtol).check()


def _check(function: Any, inputs: Sequence[Any], order: int) -> None:
    check_function(function)
    if function not in CUSTOM:
        raise ValueError(message("derivative.rule.missing", function=function.__name__))
    if order < 1:
        raise ValueError(message("derivative.rule.order", order=order))
    moving = [given for given in inputs if _moves(given)]
    if not moving:
        raise ValueError(message("derivative.rule.nothing-moves"))
    for tensor in moving:
        if tensor.dtype != torch.float64:
            raise TypeError(message("derivative.rule.precision", dtype=tensor.dtype))


def _moves(given: Any) -> bool:
    return isinstance(given, Tensor) and given.requires_grad


class _Line(NamedTuple):
    """A straight line through the inputs. Only the inputs at `places` change along it."""

    function: type[torch.autograd.Function]
    inputs: Sequence[Any]
    places: Sequence[int]
    order: int
    rtol: float

    def check(self) -> None:
        """Compare each derivative with differences and gradients of the next lower order."""
        t, here = self._at(0.0)
        around = {step: self._at(step * _STEP)[1] for step in _WEIGHTS}
        for order in range(1, self.order + 1):
            for number, derivatives in enumerate(here):
                lower = {step: found[number][order - 1] for step, found in around.items()}
                parts = [lower[step] * weight for step, weight in _WEIGHTS.items()]
                differences = torch.stack(parts).sum(0) / _STEP
                self._compare(order, number, derivatives[order], differences, "differences")
        for order in range(2, self.order + 1):
            for number, derivatives in enumerate(here):
                gradients = _slopes(derivatives[order - 1], t)
                self._compare(order, number, gradients, derivatives[order], "gradient")

    def _at(self, place: float) -> tuple[Tensor, list[list[Tensor]]]:
        """Return t, of shape (1,), and for each output its derivatives in t, from order 0 on."""
        t = torch.tensor([place], dtype=torch.float64, requires_grad=True)
        given = [*self.inputs]
        for number in self.places:
            given[number] = given[number].detach() + t * _direction(given[number])
        for number in {*range(len(given))} - {*self.places}:
            if _moves(given[number]):
                given[number] = given[number].detach().requires_grad_()
        outputs: Any = self.function.apply(*given)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        orders = [*range(self.order + 1)]
        return t, [
            [*higher_order_grad(output, t, orders, method="taylor")]
            for output in outputs
            if _moves(output)
        ]

    def _compare(self, order: int, number: int, one: Tensor, other: Tensor, what: str) -> None:
        one, other = one.detach(), other.detach()
        scale = max(1.0, other.abs().max().item())
        is_off = ~((one - other).abs() <= self.rtol * scale)
        if is_off.any():
            place = tuple(is_off.nonzero()[0].tolist())
            moving = " and ".join(f"inputs[{number}]" for number in self.places)
            words = {"function": self.function.__name__, "moving": moving, "order": order}
            words |= {"number": number, "shape": tuple(one.shape), "place": [*place]}
            words |= {"value": one[place].item(), "other": other[place].item()}
            source = message(f"derivative.rule.{what}")
            raise RuntimeError(message("derivative.rule.wrong", source=source, **words))


def _direction(tensor: Tensor) -> Tensor:
    """Return sin(1), sin(2), ... in the shape of a tensor. They are distinct and not zero."""
    numbers = torch.arange(tensor.numel(), dtype=tensor.dtype, device=tensor.device)
    return (numbers + 1).sin().reshape(tensor.shape)


def _slopes(derivative: Tensor, t: Tensor) -> Tensor:
    """Return the derivative of each element with respect to `t`, ``(1,)``, computed by autograd."""
    if not derivative.requires_grad:
        return torch.zeros_like(derivative)
    slopes = [
        torch.autograd.grad(
            element, t, retain_graph=True, allow_unused=True, materialize_grads=True
        )[0]
        for element in derivative.flatten()
    ]
    return torch.cat(slopes).reshape(derivative.shape)
