"""`Situation`: the training step that the checks read, and the registry of the checks."""

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor
from torch.autograd.graph import Node
from torch.optim import Optimizer

from leafgrad import _autograd
from leafgrad._arguments.names import buffers_in, named_modules, named_tensors, read_names
from leafgrad._arguments.outputs import Output, gradient_edges, iter_outputs, unwrap_functorch
from leafgrad._diagnosis.diagnosis import Diagnosis, Severity, is_in
from leafgrad._graph.nodes import Source, TracedNode
from leafgrad._record.log import Log
from leafgrad._record.record import Recording, log_of
from leafgrad._trace.graph_trace import GraphTrace
from leafgrad._trace.trace_graph import trace_graph

Kind = TypeVar("Kind")

LEAF = -1
"""Replaces the sequence number of a leaf, which has none: lower than that of any operation."""


class Situation:
    """The training step that is diagnosed: its outputs, its parameters and its recording.

    Values that are expensive to compute are computed when a check first needs them.

    Attributes:
        outputs: The tensors that the backward pass starts from.
        terms: The terms of the loss by name, if the loss is a mapping; otherwise empty.
        names: The model, mapping or optimizer whose tensors should be trained.
        optimizers: The optimizers of the training loop.
        recording: The recording of the forward pass, or None.
        log: The content of the recording; empty without one.
        expected: The names that should get a gradient, or None if the caller passed none.
        runs_backward: Whether the checks may run one trial backward pass.
        failing: The sequence numbers of nodes at which the backward pass is certain to fail.
        explained: The ids of the tensors whose missing gradient a finding explains.
        has_error: Whether a check that ran earlier found an error.
        why_not_run: The error message of the trial backward pass if it failed.
    """

    def __init__(
        self,
        loss: Any,
        names: Any = None,
        optimizers: Iterable[torch.optim.Optimizer] = (),
        recording: Recording | None = None,
        *,
        expected: Iterable[str] | None = None,
        runs_backward: bool = False,
    ) -> None:
        """Read the arguments of `diagnose`.

        Args:
            loss: The loss, or the exception that the forward pass raised.
            names: The model, mapping or optimizer whose tensors should be trained.
            optimizers: The optimizers of the training step.
            recording: The recording of the forward pass, if there is one.
            expected: The names of the parameters that should get a gradient; None if not given.
            runs_backward: Whether a check may run a trial backward pass.
        """
        self.optimizers = [*optimizers]
        self.names = read_names(names)
        self.recording = recording
        self.log: Log = log_of(recording)
        self.expected = None if expected is None else [*expected]
        self.runs_backward = runs_backward
        self.failing: set[int] = set()
        self.explained: set[int] = set()
        self.has_error = False
        self.why_not_run = ""
        self.loss = loss
        self.outputs: list[Output] = []
        if not isinstance(loss, Exception):
            with _autograd.unobserved():
                self.outputs = [unwrap_functorch(end) for end in iter_outputs(loss)]
        parts = loss if isinstance(loss, Mapping) else {}
        self.terms = {str(name): one for name, one in parts.items() if isinstance(one, Tensor)}

    @cached_property
    def named(self) -> dict[str, Tensor]:
        """The named tensors; a tensor with several names has only its first one."""
        found: dict[int, tuple[str, Tensor]] = {}
        for name, tensor in named_tensors(self.names):
            found.setdefault(id(tensor), (name, tensor))
        return dict(found.values())

    @cached_property
    def modules(self) -> dict[str, torch.nn.Module]:
        """The named modules by path."""
        return named_modules(self.names)

    @cached_property
    def parameters(self) -> dict[str, Tensor]:
        """The named tensors except the buffers of modules."""
        buffers = {*map(id, self.buffers)}
        return {name: one for name, one in self.named.items() if id(one) not in buffers}

    @cached_property
    def buffers(self) -> list[Tensor]:
        """The buffers of the named modules."""
        return [one for module in self.modules.values() for one in buffers_in(module)]

    def expects(self, name: str) -> bool:
        """Return whether the user's `expect` lists a parameter, or a module that contains it."""
        return any(is_in(name, one) for one in self.expected or ())

    @cached_property
    def optimized(self) -> set[int]:
        """The ids of the parameters that the optimizers hold.

        The parameters themselves must not be stored: a check counts the references to each of them.
        """
        return {*parameters_of(self.optimizers)}

    @cached_property
    def non_scalar_outputs(self) -> dict[Node, tuple[int | str, ...] | None]:
        """The shapes of the outputs that are not one real number, keyed by the output's node.

        For such an output, `backward()` raises an error unless the user passes `gradient`.
        """
        found: dict[Node, tuple[int | str, ...] | None] = {}
        for end in [one for one in self.outputs if isinstance(one, Tensor)]:
            edge = _autograd.gradient_edge(end)
            sizes, dtype = _autograd.shape(end), _autograd.plain(end, "dtype")
            is_one = sizes is not None and all(size == 1 for size in sizes)
            is_result = edge is not None and not _autograd.is_leaf_node(edge[0])
            if edge is not None and is_result and (dtype.is_complex or not is_one):
                found[edge[0]] = sizes
        return found

    @cached_property
    def trace(self) -> GraphTrace | None:
        """The graph behind the outputs as plain values; None without a graph."""
        return self._traced() if self.live else None

    @cached_property
    def trace_with_values(self) -> GraphTrace | None:
        """The graph with all known values of tensors; None without a graph.

        It also has gradients if a trial backward pass was possible.
        """
        return self.backward_trace or (self._traced(values=True) if self.live else None)

    @cached_property
    def backward_trace(self) -> GraphTrace | None:
        """The graph with the gradients of a trial backward pass.

        None if the caller did not allow the pass, or if it failed or would fail.
        """
        if self.failing or not (self.runs_backward and self.trace) or self.trace.is_freed:
            return None
        try:
            return self._traced(values=True, gradients=True, grad_outputs=self._gradients_of_ones())
        except RuntimeError as error:
            self.why_not_run = str(error).partition("\n")[0].partition(". ")[0]
            return None

    def _traced(self, **options: Any) -> GraphTrace:
        """Return the graph behind the outputs, traced with these options."""
        try:
            return trace_graph(self.loss, names=self.names, recording=self.recording, **options)
        except ValueError:  # detached copies have names: another check reports it
            return trace_graph(self.loss, recording=self.recording, **options)

    def _gradients_of_ones(self) -> list[Tensor | None]:
        """Return a gradient of ones for each output that has a graph."""
        starts = (end for end in self.outputs if gradient_edges([end]))
        return [
            torch.ones_like(start, requires_grad=False) if isinstance(start, Tensor) else None
            for start in starts
        ]

    @cached_property
    def live(self) -> list[Node]:
        """The autograd nodes behind the outputs, in the order of `GraphTrace.nodes`."""
        with _autograd.unobserved():
            return [*_autograd.walk([node for node, _ in gradient_edges(self.outputs)])]

    @cached_property
    def storage_names(self) -> dict[int, str]:
        """The first name of a tensor in each storage, by the id of the storage."""
        names: dict[int, str] = {}
        for name, tensor in self.named.items():
            storage = _autograd.storage_identity(tensor)
            if storage is not None:
                names.setdefault(storage, name)
        return names

    def source_of(self, node: Node) -> Source | None:
        """Return the line of code that created an autograd node; None if it was not recorded."""
        number = _autograd.sequence_nr(node)
        if number is not None:
            return self.log.source_of(number)
        return self.log.source_at(self.log.refusals.get(_autograd.numbers_after(node)))

    def node(self, one: TracedNode) -> Node:
        """Return the autograd node that `one`, a node of a trace, describes."""
        return self.live[one.index]


Finder = Callable[[Situation], Iterator[Diagnosis]]


class Check(NamedTuple):
    """A function that finds problems, and the codes of its findings."""

    codes: tuple[str, ...]
    find: Finder


CHECKS: list[Check] = []
"""All checks, in the order in which their modules were imported."""


def check(*codes: str, runs_backward: bool = False) -> Callable[[Finder], Finder]:
    """Register a function that finds problems with these codes.

    The order of registration is the order in which a report lists the codes. The function does not
    trigger ``__torch_function__`` of the user's subclasses and modes, unless it runs a backward
    pass.
    """

    def add(find: Finder) -> Finder:
        def find_unobserved(situation: Situation) -> Iterator[Diagnosis]:
            with _autograd.unobserved():
                yield from find(situation)

        CHECKS.append(Check(codes, find if runs_backward else find_unobserved))
        return find

    return add


def rank(one: Diagnosis) -> tuple[int, int]:
    """Return the sort key of the finding `one`: its severity, then the position of its code."""
    codes = [code for check in CHECKS for code in check.codes]
    return [*Severity].index(one.severity), codes.index(one.code)


def number_of(node: Node) -> int:
    """Return the sequence number of an autograd node: later operations have higher ones."""
    number = _autograd.sequence_nr(node)
    return LEAF if number is None else number


def is_custom(node: Node) -> bool:
    """Return whether a node runs a Python backward, which may not read what it saved."""
    return _autograd.forward_class(node) is not None and not _autograd.is_compiled(node)


def parameters_of(optimizers: Iterable[Optimizer]) -> dict[int, Tensor]:
    """Return the parameters that some optimizers hold, by id."""
    return {
        id(one): one
        for optimizer in optimizers
        for group in optimizer.param_groups
        for one in group["params"]
    }


def living(kind: type[Kind]) -> list[Kind]:
    """Return all objects of the class `kind` that are alive, found by the garbage collector."""
    return [one for one in gc.get_objects() if issubclass(type(one), kind)]
