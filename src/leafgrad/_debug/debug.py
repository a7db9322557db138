"""`debug`: diagnose a training loop while it runs."""

from collections.abc import Iterable
from contextlib import AbstractContextManager

import torch

from leafgrad._arguments.names import Names, read_names
from leafgrad._arguments.signature import public_function
from leafgrad._debug.session import Session, StepReport
from leafgrad._diagnosis.diagnose import read_optimizers


@public_function()
def debug(
    model: Names = None,
    optimizer: torch.optim.Optimizer | Iterable[torch.optim.Optimizer] | None = None,
    *,
    first: int = 1,
) -> AbstractContextManager[list[StepReport]]:
    """Watch a training step or a whole loop, and report what is wrong with it.

    It records three steps and diagnoses each ``backward()`` in them. A report with an error or a
    warning is printed to standard error, once. If ``backward()`` or the forward pass raises an
    error, the report is attached to the error and appears in its traceback.

    After these steps it lets go. It still checks the loss at each ``backward()`` and all
    gradients at each ``optimizer.step()``. When one of them stops being finite, it reports this
    and records the next three steps. These checks made a step of a small GPT 3 % longer, and that
    of a PINN 5 % (``benchmarks/debug_cost.py``). They do not wait for a GPU: a report about numbers
    on a GPU comes about one step later.

    Args:
        model: What should be trained, as in `diagnose`. By default, the modules in memory that the
            optimizers train.
        optimizer: The optimizer, or several. By default, all in memory.
        first: The first step to record. To see the line that made a number not finite in step 812,
            run the program again with the same seed and ``first=812``.

    Returns:
        A context manager. Its value is a list of the reports, each with its step, which grows.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If `first` is below 1.

    Example:
        >>> import torch, leafgrad
        >>> model = torch.nn.Linear(2, 1)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> with leafgrad.debug(model, optimizer) as reports:
        ...     for _ in range(5):
        ...         optimizer.zero_grad()
        ...         model(torch.ones(3, 2)).square().mean().backward()
        ...         optimizer.step()
        >>> reports
        []

    In recorded steps, code that `torch.compile` made runs as it was written, operations on a GPU
    are waited for, and a second backward pass runs the hooks of the graph once more. Only the
    thread that entered the block is watched.
    """
    if first < 1:
        raise ValueError(f"first must be 1 or more, not {first}")
    return Session(read_names(model), read_optimizers(optimizer), first)
