"""What all checks look at: the outputs, what should be trained, and what was recorded."""

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
"""The number of a leaf's node: leaves have none, and are older than all operations."""


class Situation:
    """A training step before its backward pass, as far as the arguments and a recording show it.

    Everything expensive is computed when a check asks for it first. Checks only read.

    Attributes:
        outputs: The tensors that the backward pass starts from.
        terms: The terms of the loss by name, if the loss was given as a mapping.
        names: What should be trained: the model, a mapping, or an optimizer.
        optimizers: The optimizers.
        recording: The recording, or None.
        log: What the recording holds; empty without one.
        expected: The names that should get a gradient, if the caller gave them.
        runs_backward: Whether one backward pass may run to see the gradients.
        failing: The numbers of nodes at which the backward pass is sure to fail.
        explained: The identities of the tensors whose missing gradient is already explained.
        has_error: Whether an earlier check found an error.
        why_not_run: What PyTorch said when the trial backward pass failed.
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
        """Read the arguments."""
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
        """The named tensors, each under its first name."""
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
        """The named tensors that are not buffers of a module."""
        buffers = {*map(id, self.buffers)}
        return {name: one for name, one in self.named.items() if id(one) not in buffers}

    @cached_property
    def buffers(self) -> list[Tensor]:
        """The buffers of the named modules."""
        return [one for module in self.modules.values() for one in buffers_in(module)]

    def expects(self, name: str) -> bool:
        """Return whether the caller listed a tensor, or a module that it is in."""
        return any(is_in(name, one) for one in self.expected or ())

    @cached_property
    def optimized(self) -> set[int]:
        """The identities of what the optimizers hold; a check counts references to it."""
        return {*parameters_of(self.optimizers)}

    @cached_property
    def starts_without_one(self) -> dict[Node, tuple[int | str, ...] | None]:
        """The nodes of outputs that are not one real number, and their shapes.

        A backward pass starts from these only if it is given a gradient.
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
        """The graph as values; None without a graph."""
        return self._traced() if self.live else None

    @cached_property
    def trace_with_values(self) -> GraphTrace | None:
        """The graph with all values that are known, and gradients if a backward pass may run."""
        return self.backward_trace or (self._traced(values=True) if self.live else None)

    @cached_property
    def backward_trace(self) -> GraphTrace | None:
        """The graph with the gradients of one backward pass; None if none may or can run."""
        if self.failing or not (self.runs_backward and self.trace) or self.trace.is_freed:
            return None
        try:
            return self._traced(values=True, gradients=True, grad_outputs=self._ones())
        except RuntimeError as error:
            self.why_not_run = str(error).partition("\n")[0].partition(". ")[0]
            return None

    def _traced(self, **options: Any) -> GraphTrace:
        try:
            return trace_graph(self.loss, names=self.names, recording=self.recording, **options)
        except ValueError:  # names that are detached copies, which another check reports
            return trace_graph(self.loss, recording=self.recording, **options)

    def _ones(self) -> list[Tensor | None]:
        """Return a gradient of ones for each output that needs one."""
        starts = (end for end in self.outputs if gradient_edges([end]))
        return [
            torch.ones_like(start, requires_grad=False) if isinstance(start, Tensor) else None
            for start in starts
        ]

    @cached_property
    def live(self) -> list[Node]:
        """The nodes of the graph, in the order of `GraphTrace.nodes`."""
        with _autograd.unobserved():
            return [*_autograd.walk([node for node, _ in gradient_edges(self.outputs)])]

    @cached_property
    def storage_names(self) -> dict[int, str]:
        """The first name of a tensor in each storage, by the identity of the storage."""
        names: dict[int, str] = {}
        for name, tensor in self.named.items():
            storage = _autograd.storage_identity(tensor)
            if storage is not None:
                names.setdefault(storage, name)
        return names

    def source_of(self, node: Node) -> Source | None:
        """Return the line that made a node."""
        number = _autograd.sequence_nr(node)
        if number is not None:
            return self.log.source_of(number)
        return self.log.source_at(self.log.refusals.get(_autograd.numbers_after(node)))

    def node(self, one: TracedNode) -> Node:
        """Return the live node of a traced one."""
        return self.live[one.index]


Finder = Callable[[Situation], Iterator[Diagnosis]]


class Check(NamedTuple):
    """A function that looks for problems of a few codes."""

    codes: tuple[str, ...]
    find: Finder


CHECKS: list[Check] = []
"""All checks. Those that find a cause stand before those that find its consequences."""


def check(*codes: str, runs_backward: bool = False) -> Callable[[Finder], Finder]:
    """Register a check for these codes; the order of registration is the order of ranks.

    Tensor subclasses and modes of the user see only what a check computes that runs a backward
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
    """Return a key by which findings are sorted: by severity, then by the order of the codes."""
    codes = [code for check in CHECKS for code in check.codes]
    return [*Severity].index(one.severity), codes.index(one.code)


def number_of(node: Node) -> int:
    """Return the number of a node, by which later operations have higher ones."""
    number = _autograd.sequence_nr(node)
    return LEAF if number is None else number


def is_custom(node: Node) -> bool:
    """Return whether a node runs Python code that may not read what it saved."""
    return _autograd.forward_class(node) is not None and not _autograd.is_compiled(node)


def parameters_of(optimizers: Iterable[Optimizer]) -> dict[int, Tensor]:
    """Return the parameters that some optimizers hold, by their identities."""
    return {
        id(one): one
        for optimizer in optimizers
        for group in optimizer.param_groups
        for one in group["params"]
    }


def living(kind: type[Kind]) -> list[Kind]:
    """Return all living objects of a class."""
    return [one for one in gc.get_objects() if issubclass(type(one), kind)]
