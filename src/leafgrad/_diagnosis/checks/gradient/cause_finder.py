"""`CauseFinder`: find out why a tensor gets no gradient, from the graph and the recording."""

from torch import Tensor
from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._arguments.outputs import Output, gradient_edges
from leafgrad._diagnosis.checks.gradient.cause import (
    Cause,
    cause_of_cut,
    find_new_parameter,
    line_that_freezes,
)
from leafgrad._diagnosis.edits import returned_by
from leafgrad._diagnosis.gradient_flow import Arrival, GradientFlow
from leafgrad._diagnosis.paths import Paths, edges_behind, operation_of, origin_of
from leafgrad._diagnosis.situation import Situation
from leafgrad._tensor.describe_tensor import describe_tensor
from leafgrad._tensor.description import TensorRole


class CauseFinder:
    """Finds out why the backward pass stores no gradient in a tensor.

    Attributes:
        paths: The paths from tensors to the outputs, in the recording and in the graph.
        flow: A prediction of which gradients reach each node, made without running a backward pass.
        reached: All edges of the graph along which a gradient may arrive.
    """

    def __init__(self, situation: Situation) -> None:
        """Predict the gradients in the graph behind the outputs."""
        self.log, self.source_of = situation.log, situation.source_of
        self.outputs = situation.outputs
        self.paths = Paths(situation.outputs, self.log)
        graph = self.paths.graph
        edges = gradient_edges(situation.outputs)
        self.flow = GradientFlow(edges, graph)
        self.reached = {*edges, *(edge for after in graph.values() for edge in after)}
        self.sharded = {id(one.parameter): one for one in _autograd.sharded_parameters()}
        self.replicated = {*map(id, _autograd.replicated_parameters(graph))}

    def cause(self, tensor: Tensor) -> Cause | None:
        """Return why a tensor gets no gradient; None if it may get one."""
        role = describe_tensor(tensor).role
        if role in {TensorRole.WRAPPED, TensorRole.INVALID_VIEW}:
            return None
        if role is TensorRole.CONSTANT:
            return self._cause_of_constant(tensor)
        if role is TensorRole.UNRECORDED_VIEW:
            return Cause("no-grad", "view")
        return self._cause_in_graph(tensor, is_result=role is TensorRole.NON_LEAF)

    def _cause_in_graph(self, tensor: Tensor, *, is_result: bool) -> Cause | None:
        """Return why a tensor that requires grad gets no gradient; None if it may."""
        edge = self._edge(tensor)
        arrival = self.flow.at(edge)
        if arrival is not None:
            return self._cause_of_result(tensor) if is_result else self._zero_cause(arrival)
        if self._may_get_unseen_gradient(tensor):
            return None
        if edge is not None and edge in self.reached:
            return self._cause_of_stop(edge[0])
        return self._cause_of_no_path(tensor)

    def _edge(self, tensor: Tensor) -> _autograd.Edge | None:
        """Return the edge at which the gradient of a tensor, possibly sharded, arrives, or None."""
        edge = _autograd.gradient_edge(tensor)
        sharded = self.sharded.get(id(tensor))
        is_elsewhere = sharded is not None and edge not in self.reached
        return _autograd.gradient_edge(sharded.whole) if sharded and is_elsewhere else edge

    def _may_get_unseen_gradient(self, tensor: Tensor) -> bool:
        """Return whether another backward pass or process may store a gradient in a tensor."""
        sharded = self.sharded.get(id(tensor))
        fills = sharded is not None and sharded.fills_unused
        from_others = fills or id(tensor) in self.replicated
        return bool(self.flow.unseen) or (from_others and not self.paths.cuts(tensor))

    # --- A gradient arrives

    def _zero_cause(self, arrival: Arrival) -> Cause | None:
        """Return the cause if an operation makes the arriving gradient all zeros, else None."""
        node = arrival.zero
        if arrival.doubt is not None or node is None:
            return None
        source, operation = self.source_of(node), operation_of(node)
        variant = operation if operation in {"bernoulli", "normal"} else ""
        variant = "straight" if operation.endswith("_backward") else variant
        if node in self.flow.backwards:  # autograd passes zeros for an unused output
            variant = "output"
        return Cause("zero-derivative", variant, source, operation=operation)

    def _cause_of_result(self, tensor: Tensor) -> Cause:
        """Return the cause for an intermediate tensor: autograd does not store its gradient."""
        node = _autograd.plain(tensor, "grad_fn")
        origin = origin_of(tensor)
        source, operation = self.source_of(node), operation_of(node)
        if origin is not None and origin.is_same:
            return Cause("not-a-leaf", "", source, operation=origin.operation)
        return Cause("not-retained", "", source, operation=operation)

    def _cause_of_stop(self, target: Node) -> Cause | None:
        """Return the cause if a node between the outputs and `target` passes on no gradient.

        Return None if another check reports the node.
        """
        stopping = [node for node in self.flow.stopping if target in _autograd.walk([node])]
        node = next(iter(stopping), target)
        source = self.source_of(node)
        operation = _autograd.node_name(node).removesuffix("Backward")
        code = self.flow.backwards.get(node)
        if code is not None and code.lacks_gradients(node):
            return None  # another check reports the failure
        if code is None or self.flow.stopping[node]:
            return Cause("unused", "output", source, operation=operation_of(node))
        marks = () if source is None else (("custom-backward.called", source),)
        at = next(iter(returned_by(code.source)), code.source)
        return Cause("custom-backward", "", at, marks, operation)

    # --- No path leads to the tensor

    def _cause_of_no_path(self, tensor: Tensor) -> Cause:
        """Return the cause for a tensor that no path of the graph connects to the outputs."""
        cuts = [one for one in self.paths.cuts(tensor) if not one.operation.endswith(".step")]
        cause = cause_of_cut(cuts[0]) if cuts else None
        number = self.paths.derivative(tensor) if cause is None else None
        if number is not None:  # the outputs are derivatives that are constant in the tensor
            cause = Cause("linear", "", self.log.source_of(number))
        made = find_new_parameter(None if cause is None else cause.at)
        if made is not None and made[1]:
            return Cause("copied", "replaced", made[0])
        return cause or self._cause_of_use(tensor)

    def _cause_of_use(self, tensor: Tensor) -> Cause:
        """Return the cause for a tensor that the outputs do not use.

        It depends on where else the tensor was used.
        """
        if not self.reached.isdisjoint(edges_behind(tensor)):
            return Cause("other-tensor", "copy", self.source_of(_autograd.plain(tensor, "grad_fn")))
        use, shared = self.paths.first_use(tensor), self.paths.shared_use(tensor)
        if use is not None and not use.required_grad:
            return Cause("requires-grad-late", "", use.source, operation=use.operation)
        if shared is not None:
            return Cause("other-tensor", "memory", shared.source, operation=shared.operation)
        if not all(map(self._is_recorded, self.outputs)):
            return Cause("not-reached")
        marks = [("unused.left", one.source) for one in self.paths.exits(tensor)[:1]]
        marks += [] if marks or use is None else [("unused.use", use.source)]
        places = tuple((label, source) for label, source in marks if source is not None)
        return Cause("unused", "", None, places)

    def _is_recorded(self, end: Output) -> bool:
        """Return whether the recording contains the computation of the output `end`.

        Then no cut, a call at which its graph was lost, can be missing.
        """
        number = _autograd.number_of(end) if isinstance(end, Tensor) else -1
        return self.log.source_of(number) is not None

    def _cause_of_constant(self, tensor: Tensor) -> Cause | None:
        """Return the cause for a tensor that does not require grad; None if there is none."""
        dtype = _autograd.plain(tensor, "dtype")
        if not (dtype.is_floating_point or dtype.is_complex):
            return Cause("frozen", "integer")
        if _autograd.is_parameter(tensor):
            return Cause("frozen", "", line_that_freezes(self.log))
        cuts = self.paths.cuts_before(tensor)
        return cause_of_cut(cuts[0]) if cuts else Cause("frozen", "constant")
