"""Check a user's Taylor rule against finite differences and against autograd."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from leafgrad._derivative.higher_order_grad import higher_order_grad
from leafgrad._derivative.taylor import CUSTOM, check_function
from leafgrad._messages import message

_STEP = 1e-3
# Central differences of order six approximate f'(0) by sum_s w_s f(s h) / h, with the step h and
# the weights w_s. The error is about h**6 / 140 times the seventh derivative.
_WEIGHTS = {-3: -1 / 60, -2: 3 / 20, -1: -3 / 4, 1: 3 / 4, 2: -3 / 20, 3: 1 / 60}


def check_taylor_rule(
    function: type[torch.autograd.Function], *inputs: Any, order: int = 4, rtol: float = 1e-6
) -> None:
    """Raise an error if the Taylor rule of a custom function computes wrong derivatives.

    This function checks a rule that was registered with `taylor_rule`, just as
    `torch.autograd.gradcheck` checks a backward. It compares the derivative of each order with
    finite differences of the derivative one order lower.

    Args:
        function: The class that was registered with `taylor_rule`.
        inputs: The arguments of the function. Tensors that require grad may have any shape, but
            must be in float64. The function must be smooth near their values. Other arguments are
            passed on unchanged.
        order: The highest order to check.
        rtol: The largest difference allowed, relative to the largest element or to 1, whichever is
            larger.

    Returns:
        None if the rule is correct.

    Example:
        >>> import torch
        >>> from leafgrad import Jet, check_taylor_rule, taylor_rule
        >>> class Square(torch.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         ctx.save_for_backward(x)
        ...         return x * x
        >>> @taylor_rule(Square)
        ... def square(ctx, x):
        ...     return Jet(ctx.saved_tensors[0], x) ** 2
        >>> x = torch.tensor([0.3, 0.7], dtype=torch.float64, requires_grad=True)
        >>> check_taylor_rule(Square, x)

    Raises:
        TypeError: If `function` is not a subclass of `torch.autograd.Function`, or a tensor that
            requires grad is not in float64.
        ValueError: If `function` has no rule, no tensor requires grad, `order` is below 1, or the
            rule returns a series that does not fit the outputs.
        RuntimeError: If the rule is wrong. The message names the first order, output and element
            that differ, and both values.

    Note:
        The derivatives are taken along a straight line through `inputs`. First all inputs that
        require grad change along this line, then each of them separately. The finite differences
        for order 1 are those of the function's values, so they do not use its backward.

        If `order` is above 1, there is a second check: autograd differentiates the derivative of
        each order in a backward pass, and the result is compared with the derivative of the next
        order. So the function also notices if the derivatives have lost their graph, for example
        because the rule detaches a value.
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
        """Raise an error if a derivative along the line is wrong.

        The derivative of each order is compared with finite differences of the derivative of the
        next lower order, and with the gradient that autograd computes for it.
        """
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
        """Evaluate the function at the position `place` of the line.

        Return the parameter t of the line, of shape (1,), and for each output its derivatives with
        respect to t, from order 0 on.
        """
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
    """Return a direction in the shape of `tensor`: sin(1), sin(2), ..., distinct and not zero."""
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
