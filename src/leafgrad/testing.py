"""Assertions about training, for tests. A failure shows leafgrad's report of what is wrong."""

from collections.abc import Callable, Iterable
from typing import Any

import torch

from leafgrad._arguments.names import Names
from leafgrad._arguments.signature import public_function
from leafgrad._debug.finite_check import all_finite
from leafgrad._debug.session import Session
from leafgrad._diagnosis.checks.gradient import CODES as MISSING
from leafgrad._diagnosis.diagnose import diagnose
from leafgrad._messages import message
from leafgrad._record.record import Recording

__all__ = ["assert_gradients", "assert_trains"]


@public_function()
def assert_gradients(
    loss: Any,
    model: Names = None,
    *,
    recording: Recording | None = None,
    expect: Iterable[str] | None = None,
) -> None:
    """Raise an error unless every parameter gets a finite gradient that is not zero.

    This runs one backward pass, which keeps the graph and leaves every ``.grad`` unchanged.

    Args:
        loss: The tensor that the backward pass starts from, or several in lists, tuples or dicts.
        model: The module to check, a mapping from name to tensor or module, or an optimizer.
        recording: The recording from the `record` block in which the loss was computed. With it, a
            failure shows the lines at fault.
        expect: The names of the parameters that should get a gradient. All others should not.

    Example:
        >>> import torch
        >>> from leafgrad.testing import assert_gradients
        >>> model = torch.nn.Linear(2, 1)
        >>> assert_gradients(model(torch.ones(3, 2)).square().mean(), model)
        >>> assert_gradients(model.weight.sum(), model)
        Traceback (most recent call last):
        AssertionError: ...

    Raises:
        AssertionError: If `diagnose` finds an error or a warning, or if a parameter gets no
            gradient. The message is the report.
    """
    __tracebackhide__ = True
    report = diagnose(loss, model, recording=recording, gradients=True, expect=expect)
    if not report.ok or not ({*MISSING} - {"frozen"}).isdisjoint(report.codes):
        raise AssertionError(f"\n{report}")


@public_function()
def assert_trains(
    step: Callable[[], object], model: torch.nn.Module, frozen: Iterable[str] = ()
) -> None:
    """Raise an error unless a training step changes every parameter and leaves all of them finite.

    Args:
        step: A function that takes one training step: forward pass, ``backward()`` and
            ``optimizer.step()``.
        model: The model that the step trains.
        frozen: The names of parameters, or of modules, that must not change.

    Example:
        >>> import torch
        >>> from leafgrad.testing import assert_trains
        >>> model = torch.nn.Linear(2, 1)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> def step():
        ...     optimizer.zero_grad()
        ...     model(torch.ones(3, 2)).square().mean().backward()
        ...     optimizer.step()
        >>> assert_trains(step, model)

    Raises:
        AssertionError: If a parameter is not finite or has not changed, or if a frozen parameter
            has changed. The message lists these parameters and contains the report of `debug`.
        ValueError: If a name in `frozen` matches no parameter, or if all parameters are frozen.
    """
    __tracebackhide__ = True
    parameters = dict(model.named_parameters())
    fixed = _frozen_among([*parameters], [*frozen])
    before = {name: one.detach().clone() for name, one in parameters.items()}
    with Session(model, is_quiet=True) as reports:
        step()
    wrong = [*_differences(before, dict(model.named_parameters()), fixed)]
    if wrong:
        shown = [str(found.report) for found in reports]
        raise AssertionError("\n\n".join(["\n" + "\n".join(wrong), *shown]))


def _frozen_among(names: list[str], frozen: list[str]) -> set[str]:
    """Return the names that `frozen` lists, directly or through the module of the parameter.

    Raise an error if an entry of `frozen` matches no parameter, or if all parameters are frozen.
    """
    fixed = set[str]()
    for path in frozen:
        inside = {name for name in names if name == path or name.startswith(f"{path}.")}
        if not inside:
            raise ValueError(message("debug.trains.frozen", name=path))
        fixed |= inside
    if len(fixed) == len(names):
        raise ValueError(message("debug.trains.nothing-left", frozen=frozen))
    return fixed


def _differences(
    before: dict[str, torch.Tensor], after: dict[str, torch.nn.Parameter], frozen: set[str]
) -> Iterable[str]:
    """Yield a line for each parameter that is not finite, or changed or unchanged by mistake.

    `before` and `after` hold the parameters by name. Those in `frozen` must stay the same.
    """
    for name, old in before.items():
        has_changed = not torch.equal(old, after[name])
        if not all_finite([after[name]]):
            yield f"{name} {message('debug.trains.not-finite')}"
        elif has_changed == (name in frozen):
            words = "changed" if has_changed else "unchanged"
            yield f"{name} {message(f'debug.trains.{words}')}"
