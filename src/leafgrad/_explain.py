"""Finding out why a tensor has no gradient, or will get none."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from leafgrad import _autograd
from leafgrad._by_name import by_name
from leafgrad._cut import Cut
from leafgrad._ends import End, edges_of, ends_in, inside_transforms
from leafgrad._explanation import GradCause, GradExplanation
from leafgrad._graph import log_of
from leafgrad._log import Log
from leafgrad._losses import LEAVING
from leafgrad._record import Recording
from leafgrad._render import _causes
from leafgrad._tensor import TensorDescription, TensorRole, describe_tensor


@by_name
@_autograd.uncompiled
def explain_grad(
    tensor: torch.Tensor, outputs: Any, *, recording: Recording | None = None
) -> GradExplanation:
    """Say why ``tensor.grad`` is empty, or will be after a backward from some outputs.

    Nothing is run. Where a path was cut can only be said of what was recorded.

    Args:
        tensor: The tensor that has no gradient.
        outputs: What backward is or was called on: a tensor of any shape and dtype, a
            `torch.autograd.graph.GradientEdge`, or any nest of lists, tuples and dicts of them.
        recording: What `record` gave while the outputs were computed in this thread.

    Returns:
        The cause and the cure, with the facts, as a value that keeps nothing alive.

    Raises:
        TypeError: If `tensor` is not a tensor, `outputs` holds anything else, or `recording` is no
            recording.
        ValueError: If `outputs` holds nothing.

    Example:
        >>> import torch
        >>> from leafgrad import explain_grad, record
        >>> x = torch.ones(2, requires_grad=True)
        >>> w = torch.ones(2, requires_grad=True)
        >>> with record() as recording:
        ...     loss = (w * x.exp().detach()).sum()
        >>> explanation = explain_grad(x, loss, recording=recording)
        >>> print(explanation.cause, "in line", explanation.cuts[0].source.line)
        cut by detach() in line 2
    """
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(
            f"tensor must be a torch.Tensor, not {type(tensor).__name__}; "
            "pass the one whose .grad you ask for"
        )
    log = log_of(recording)
    with _autograd.unobserved():
        ends = [inside_transforms(end) for end in ends_in(outputs)]
    if not ends:
        raise ValueError("outputs must hold at least one tensor, not none; pass a result")
    return Backward(ends, log).explain(tensor)


class Backward:
    """What a backward from some outputs would reach."""

    def __init__(self, ends: Sequence[End], log: Log) -> None:
        """Look at the graph behind the outputs, and at what was recorded."""
        self.ends = ends
        self.log = log
        with _autograd.unobserved():
            edges = edges_of(ends)
            graph = _autograd.walk([node for node, _ in edges])
            self.reached = {*edges, *(edge for after in graph.values() for edge in after)}
            slots = (slot for node in graph for slot in _autograd.saved_slots(node))
            self.is_freed = any(slot.state == "freed" for slot in slots)

    def explain(
        self, tensor: Tensor, name: str | None = None, *, is_ahead: bool = False
    ) -> GradExplanation:
        """Explain one tensor, for a backward that is still ahead whatever ``.grad`` holds now."""
        facts = describe_tensor(tensor)
        with _autograd.unobserved():
            is_reached = self._reaches(tensor, facts)
            cuts = () if is_reached else self._cuts(tensor, facts)
        is_filled = facts.has_grad and not is_ahead
        cause = GradCause.FILLED if is_filled else self._cause(facts, cuts, is_reached=is_reached)
        return GradExplanation(
            name=name,
            cause=cause,
            because=_causes.because(cause.name, facts, cuts),
            cure=_causes.CURES[cause.name],
            requires_grad=facts.requires_grad,
            is_leaf=facts.is_leaf,
            retains_grad=facts.retains_grad,
            has_grad=facts.has_grad,
            is_reached=is_reached,
            is_freed=self.is_freed,
            cuts=cuts,
        )

    def _reaches(self, tensor: Tensor, facts: TensorDescription) -> bool:
        if facts.role in {TensorRole.WRAPPED, TensorRole.INVALID_VIEW}:
            return False
        return _autograd.gradient_edge(tensor) in self.reached

    def _cause(
        self, facts: TensorDescription, cuts: tuple[Cut, ...], *, is_reached: bool
    ) -> GradCause:
        if facts.role in BY_ROLE:
            return BY_ROLE[facts.role]
        if facts.role is TensorRole.CONSTANT:
            return _cause_of_constant(facts)
        if not is_reached:
            return GradCause[cuts[0].kind.name] if cuts else self._cause_without_cut()
        if facts.role is TensorRole.NON_LEAF:
            return GradCause.NOT_RETAINED
        return GradCause.USED_UP if self.is_freed else GradCause.NOT_RUN

    def _cause_without_cut(self) -> GradCause:
        if not self.reached:
            return GradCause.WITHOUT_GRAPH
        return GradCause.UNUSED if all(map(self._is_recorded, self.ends)) else GradCause.NOT_REACHED

    def _is_recorded(self, end: End) -> bool:
        """Say whether it was recorded how an output was made: a cut would have been seen."""
        number = _autograd.number_of(end) if isinstance(end, Tensor) else -1
        return self.log.source_of(number) is not None

    def _cuts(self, tensor: Tensor, facts: TensorDescription) -> tuple[Cut, ...]:
        """List the cuts that made a constant, or those between the outputs and another tensor.

        Where none leads to the outputs, what left PyTorch may have come back unseen.
        """
        losses = self.log.losses
        if facts.role in {TensorRole.WRAPPED, TensorRole.INVALID_VIEW}:
            return ()
        if not facts.requires_grad:
            return tuple(losses.cuts[number][0] for number in sorted(losses.cuts_before(tensor)))
        behind = losses.skeleton.depend_on(tensor)
        cuts = {
            number: cut
            for number, (cut, numbers) in enumerate(losses.cuts)
            if not behind.isdisjoint(numbers)
        }
        outputs = (end for end in self.ends if isinstance(end, Tensor))
        on_the_way = frozenset[int]().union(*map(losses.cuts_before, outputs))
        found = [cut for number, cut in cuts.items() if number in on_the_way]
        return tuple(found or [cut for cut in cuts.values() if cut.operation in LEAVING])


BY_ROLE = {
    TensorRole.WRAPPED: GradCause.WRAPPED,
    TensorRole.INVALID_VIEW: GradCause.INVALID_VIEW,
    TensorRole.UNRECORDED_VIEW: GradCause.UNRECORDED_VIEW,
}


def _cause_of_constant(facts: TensorDescription) -> GradCause:
    if not (facts.dtype.is_floating_point or facts.dtype.is_complex):
        return GradCause.INTEGER
    return GradCause.FROZEN if facts.is_parameter else GradCause.CONSTANT
