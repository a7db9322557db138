"""What a backward from some outputs would do for a tensor, by the graph and by a recording."""

import inspect
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._arguments.outputs import Output, gradient_edges
from leafgrad._display.units import count, torch_name
from leafgrad._explain import sentences
from leafgrad._explain.grad_explanation import CAUSE_OF_CUT, GradCause, GradExplanation
from leafgrad._explain.gradient_flow import Arrival, GradientFlow
from leafgrad._explain.origin import edges_behind, origin_of
from leafgrad._explain.second_backward import SecondBackward
from leafgrad._graph.code_files import short_path
from leafgrad._graph.summary import summary_of
from leafgrad._graph.zero_words import KEEPS_WITHOUT_GRAPH, words_of_operation
from leafgrad._record.cut import DERIVATIVE, Cut
from leafgrad._record.leaf_uses import LeafUse
from leafgrad._record.log import Log, Pass
from leafgrad._record.module_paths import Roots
from leafgrad._record.place import source_at
from leafgrad._tensor.describe_tensor import describe_tensor
from leafgrad._tensor.description import TensorDescription, TensorRole


class Found(NamedTuple):
    """What the graph and the recording know of one tensor.

    Attributes:
        edge: Where its gradient comes, None for what has no place in a graph.
        arrival: How a gradient comes there, None where none does.
        is_reached: Whether a path leads from the outputs to it.
        cuts: Where the path was cut, if none leads to it.
        use: Its first use.
        use_of_memory: The first use of its memory through another leaf.
        is_held_back: Whether `fully_shard` keeps what comes to it elsewhere for now.
        others: What may store a gradient that comes to it in other processes, None where nothing
            does.
    """

    edge: _autograd.Edge | None
    arrival: Arrival | None
    is_reached: bool
    cuts: tuple[Cut, ...]
    use: LeafUse | None
    use_of_memory: LeafUse | None
    is_held_back: bool
    others: str | None


class GradExplainer:
    """Explains tensor by tensor what a backward from some outputs would do for it.

    Attributes:
        flow: Where gradients come.
        reached: The edges of the graph behind the outputs, also those to which no gradient comes.
        second: What is known of how a part of the graph was freed, None where none was.
        ends_are_leaves: Whether the outputs are leaves, with no graph but themselves.
        leaves: The identities of the storages of the graph's leaves.
    """

    def __init__(self, ends: Sequence[Output], log: Log, modules: Roots | None = None) -> None:
        """Look at the graph behind the outputs, and at what was recorded."""
        self.ends = ends
        self.log = log
        self.modules = modules or {}
        with _autograd.unobserved():
            edges = gradient_edges(ends)
            self.graph = graph = _autograd.walk([node for node, _ in edges])
            self.flow = GradientFlow(edges, graph)
            self.reached = {*edges, *(edge for after in graph.values() for edge in after)}
            slots = (slot for node in graph for slot in _autograd.saved_slots(node))
            is_freed = any(slot.state == "freed" for slot in slots)
            self.second = SecondBackward(graph, log, self.modules) if is_freed else None
            leaves = [leaf for leaf in map(_autograd.leaf_variable, graph) if leaf is not None]
            self.ends_are_leaves = bool(leaves) and len(leaves) == len(graph)
            storages = {*map(_autograd.storage_identity, leaves)}
            self.leaves = storages - {None}
            self.sharded = {id(one.parameter): one for one in _autograd.sharded_parameters()}
            self.replicated = {*map(id, _autograd.replicated_parameters(graph))}

    @property
    def is_freed(self) -> bool:
        """Whether a part of the graph was freed."""
        return self.second is not None

    def explain(
        self, tensor: Tensor, name: str | None = None, *, is_ahead: bool = False
    ) -> GradExplanation:
        """Explain one tensor, for a backward that is still ahead whatever ``.grad`` holds now."""
        facts = describe_tensor(tensor)
        with _autograd.unobserved():
            found = self._look_for(tensor, facts)
            changing, after = _autograd.hooks_of(tensor)
        is_filled = facts.has_grad and not is_ahead
        cause = GradCause.FILLED if is_filled else self._cause(tensor, facts, found)
        will_be_filled = self._will_be_filled(facts, found)
        words = self._facts_in_words(tensor, facts, found, cause)
        if cause is GradCause.NOT_RUN:  # as of nearly all parameters
            cure = sentences.CURES[cause]
        elif cause is GradCause.FROZEN and "lora" in (name or ""):
            cure = sentences.ADAPTER
        else:
            cure = self._cure(cause, tensor, found)
        return GradExplanation(
            name=name,
            cause=cause,
            because=sentences.because(cause, words, found.cuts),
            cure=cure,
            requires_grad=facts.requires_grad,
            is_leaf=facts.is_leaf,
            retains_grad=facts.retains_grad,
            has_grad=facts.has_grad,
            is_reached=found.is_reached,
            is_freed=self.is_freed,
            will_be_filled=None if will_be_filled and after else will_be_filled,
            hooks=tuple(map(_name_of_hook, [*changing, *after])),
            cuts=found.cuts,
        )

    def cuts_of_outputs(self) -> tuple[Cut, ...]:
        """Return the cuts that lead to the outputs, the first one first."""
        with _autograd.unobserved():
            return self.log.cuts.nearest(self._numbers_of_cuts())

    def _numbers_of_cuts(self) -> frozenset[int]:
        """Return the cuts behind the outputs, also by memory that they share with others."""
        cuts = self.log.cuts
        found = (
            cuts.cuts_behind(end) or cuts.cuts_of_memory(end)
            for end in self.ends
            if isinstance(end, Tensor)
        )
        return frozenset[int]().union(*found)

    def _look_for(self, tensor: Tensor, facts: TensorDescription) -> Found:
        is_placed = facts.role not in {TensorRole.WRAPPED, TensorRole.INVALID_VIEW}
        edge = _autograd.gradient_edge(tensor) if is_placed else None
        sharded = self.sharded.get(id(tensor))
        if sharded is not None and edge not in self.reached:
            edge = _autograd.gradient_edge(sharded.whole)
        is_reached = edge is not None and edge in self.reached
        return Found(
            edge=edge,
            arrival=self.flow.at(edge),
            is_reached=is_reached,
            cuts=self._cuts(tensor, facts) if is_placed and not is_reached else (),
            use=self.log.uses.of(tensor),
            use_of_memory=self._use_of_memory(tensor) if is_placed else None,
            is_held_back=sharded is not None and sharded.is_held_back,
            others=self._others(tensor, sharded),
        )

    def _use_of_memory(self, tensor: Tensor) -> LeafUse | None:
        """Return a use of the tensor's memory through another leaf that the outputs depend on."""
        return self.log.uses.through_shared_memory(tensor, self._numbers.keys())

    @cached_property
    def _numbers(self) -> dict[int, None]:
        """The sequence numbers of the nodes, in order; leaves have none."""
        numbers = map(_autograd.sequence_nr, self.graph)
        return dict.fromkeys(number for number in numbers if number is not None)

    def _others(self, tensor: Tensor, sharded: _autograd.Sharded | None) -> str | None:
        """Return what may store a gradient that comes to a parameter in other processes."""
        if sharded is not None and sharded.fills_unused:
            return "fully_shard (reduce_scatter_unused_params)"
        is_replicated = id(tensor) in self.replicated
        return "DistributedDataParallel (find_unused_parameters)" if is_replicated else None

    def _will_be_filled(self, facts: TensorDescription, found: Found) -> bool | None:
        """Return whether a gradient is stored, None where that cannot be seen."""
        if found.edge is None or not (facts.is_leaf or facts.retains_grad):
            return False
        if found.arrival is None:
            return None if self.flow.unseen or found.others else False
        if found.is_held_back:
            return False
        return None if found.arrival.doubt else True

    def _cause(self, tensor: Tensor, facts: TensorDescription, found: Found) -> GradCause:
        if facts.role in CAUSE_OF_ROLE:
            return CAUSE_OF_ROLE[facts.role]
        if facts.role is TensorRole.CONSTANT:
            if not (facts.dtype.is_floating_point or facts.dtype.is_complex):
                return GradCause.INTEGER
            return GradCause.FROZEN if facts.is_parameter else GradCause.CONSTANT
        if found.arrival is None:
            return self._cause_of_nothing(tensor, facts, found)
        if found.is_held_back:
            return GradCause.HELD_BACK
        return self._cause_of_gradient(facts, found.arrival)

    def _cause_of_gradient(self, facts: TensorDescription, arrival: Arrival) -> GradCause:
        """Return the cause for a tensor to which a gradient comes."""
        if facts.role is TensorRole.NON_LEAF:
            return GradCause.NOT_RETAINED
        if self.is_freed:
            return GradCause.USED_UP
        if arrival.doubt:
            return GradCause.UNSEEN
        if arrival.zero:
            return GradCause.ALL_ZERO
        return GradCause.CLEARED if self._passes() else GradCause.NOT_RUN

    def _passes(self) -> list[Pass]:
        """Return the backward passes from these outputs that were recorded."""
        ends = [end for end in self.ends if isinstance(end, Tensor)]
        return self.log.backwards_from({*map(_number, ends)})

    def _cause_of_nothing(
        self, tensor: Tensor, facts: TensorDescription, found: Found
    ) -> GradCause:
        """Return why no gradient comes, or that this cannot be seen."""
        if self.flow.unseen and self._will_be_filled(facts, found) is None:
            return GradCause.UNSEEN
        if found.others and not found.cuts:
            return GradCause.OTHERS
        if found.is_reached:
            return GradCause.STOPPED
        if self._leads_to_outputs(tensor):
            return GradCause.SWAPPED
        return (
            self._cause_of_cut(tensor, found)
            or self._cause_without_cut(tensor)
            or self._cause_of_use(facts, found)
        )

    def _cause_of_cut(self, tensor: Tensor, found: Found) -> GradCause | None:
        """Return how the path was cut, or that it ends where the outputs are linear in a tensor."""
        if found.cuts and found.cuts[0].operation != DERIVATIVE:
            return CAUSE_OF_CUT[found.cuts[0].kind]
        is_linear = found.cuts or self._derivative_without(tensor) is not None
        return GradCause.LINEAR if is_linear else None

    def _derivative_without(self, tensor: Tensor) -> int | None:
        """Return a node of a derivative of what depends on a tensor; it has no such path itself."""
        passes = self.log.passes
        if not passes.spans:
            return None
        with _autograd.unobserved():
            behind = self.log.cuts.structure.depend_on(tensor)
            return passes.of_what_depends(self._numbers, behind)

    def _may_lack_part(self, tensor: Tensor) -> str:
        """Return a custom function whose derivative may lack a part, empty if there is none."""
        custom = self.log.passes.custom_functions
        with _autograd.unobserved():
            behind = self.log.cuts.structure.depend_on(tensor)
        for number in sorted(behind & custom.keys()):
            name, lacks_graph = custom[number]
            source = self.log.source_of(number)
            what = KEEPS_WITHOUT_GRAPH if lacks_graph else "a custom function"
            return f"{name}{'' if source is None else f' ({source})'}, {what}"
        return ""

    def _cause_without_cut(self, tensor: Tensor) -> GradCause | None:
        """Return why no path leads to a tensor, as far as the graph alone tells."""
        if not self.reached:
            return GradCause.WITHOUT_GRAPH
        if self.ends_are_leaves:
            return GradCause.LEAF_OUTPUTS
        is_beside = not self.reached.isdisjoint(edges_behind(tensor))
        return GradCause.BESIDE if is_beside else None

    def _cause_of_use(self, facts: TensorDescription, found: Found) -> GradCause:
        """Return why no path leads to a tensor, by where it was used."""
        if found.use is not None and not found.use.required_grad:
            return GradCause.LATE
        if found.use_of_memory is not None:
            return GradCause.SHARED
        is_recorded = facts.is_leaf and all(map(self._is_recorded, self.ends))
        return GradCause.UNUSED if is_recorded else GradCause.NOT_REACHED

    def _leads_to_outputs(self, tensor: Tensor) -> bool:
        """Return whether the outputs are what the tensor was computed from: they were swapped."""
        node = _autograd.plain(tensor, "grad_fn")
        behind = {} if node is None else _autograd.walk([node])
        edges = {edge for after in behind.values() for edge in after}
        return not edges.isdisjoint(gradient_edges(self.ends))

    def _cure(self, cause: GradCause, tensor: Tensor, found: Found) -> str:
        """Return what to do, where some causes have more than one cure."""
        if cause is GradCause.FILLED and not found.is_reached:
            return sentences.FILLED_BY_OTHERS
        if cause in {GradCause.FILLED, GradCause.USED_UP} and self.second is not None:
            return self._cure_of_second(cause, tensor, found, self.second)
        if cause is GradCause.ALL_ZERO and found.arrival and found.arrival.zero:
            node = _autograd.node_name(found.arrival.zero)
            return " ".join(f"{sentence}." for sentence in words_of_operation(node))
        if cause is GradCause.UNSEEN and any(
            "Checkpoint" in _autograd.node_name(one) for one in self.flow.unseen
        ):
            return sentences.CURES[cause] + sentences.RUNS_ANOTHER
        origin = origin_of(tensor) if cause is GradCause.NOT_RETAINED else None
        if origin is not None and origin.is_same:
            return sentences.KEEP_LEAF.format(operation=origin.operation)
        return self._cure_of_nothing(cause, tensor, found)

    def _cure_of_nothing(self, cause: GradCause, tensor: Tensor, found: Found) -> str:
        """Return what to do where no gradient comes."""
        if cause is GradCause.CONSTANT and _autograd.storage_identity(tensor) in self.leaves:
            return sentences.COPY_OF_LEAF
        if cause is GradCause.LINEAR and self._may_lack_part(tensor):
            return sentences.PARTIAL_DERIVATIVE
        if cause is GradCause.UNUSED and (left := self._left(tensor)):
            return sentences.IF_LEFT + sentences.CURES[CAUSE_OF_CUT[left[0].kind]]
        general = sentences.cure(cause, found.cuts, is_off=not torch.is_grad_enabled())
        of_parameters = sentences.CURES_OF_PARAMETERS.get(cause, general)
        return of_parameters if _autograd.is_parameter(tensor) else general

    def _facts_in_words(
        self, tensor: Tensor, facts: TensorDescription, found: Found, cause: GradCause
    ) -> dict[str, str]:
        """Return what the sentences of the causes name."""
        freed = derivative = ""
        if cause is GradCause.USED_UP and self.second is not None:
            freed, _ = self._freed(tensor, found, self.second)
        if cause is GradCause.LINEAR and not found.cuts:
            number = self._derivative_without(tensor)
            derivative = f": torch.autograd.grad() in {self.log.source_of(number or 0)}"
        if cause is GradCause.CLEARED:
            last = self._passes()[-1]
            freed = sentences.FREED[last.call].format(place=self.log.source_at(last.place))
        arrival = found.arrival or Arrival()
        is_late = found.use is not None and not found.use.required_grad
        use = found.use if is_late else found.use_of_memory or found.use
        named = [arrival.doubt, arrival.zero, *self.flow.unseen, *self.flow.stopping]
        made = self.log.source_of(_number(tensor)) if facts.grad_fn else None
        return {
            "grad_fn": str(facts.grad_fn) if made is None else f"{facts.grad_fn} ({made})",
            "dtype": torch_name(facts.dtype),
            "node": next((self._place_of(node) for node in named if node is not None), ""),
            "freed": freed,
            "derivative": derivative,
            "partial": self._may_lack_part(tensor) if cause is GradCause.LINEAR else "",
            "others": str(found.others),
            "held": _held_in_words(tensor) if cause is GradCause.FILLED else "",
            "also": self._other_use(tensor, found) if cause is GradCause.UNUSED else "",
            "use": "" if use is None else f"{use.operation} in {source_at(use.place)}",
        }

    def _cure_of_second(
        self, cause: GradCause, tensor: Tensor, found: Found, second: SecondBackward
    ) -> str:
        """Return what to do where a part of the graph was freed."""
        with _autograd.unobserved():
            cure = second.cure
        is_used_up = cause is GradCause.USED_UP
        again = self._freed(tensor, found, second)[1] if is_used_up else sentences.AGAIN[cause]
        return again.format(cure=cure)

    def _freed(self, tensor: Tensor, found: Found, second: SecondBackward) -> tuple[str, str]:
        """Return what freed the graph without a gradient for a tensor, and the cure of that."""
        with _autograd.unobserved():
            is_result = not _autograd.plain(tensor, "is_leaf")
        call, place = second.call()
        if found.edge in second.unpassed and call in {None, "backward()"}:
            return sentences.FREED_ELSEWHERE, sentences.CURE_OF_FREED_ELSEWHERE
        if is_result and call in {None, "backward()"}:
            told = sentences.FREED_BEFORE_RETAINED if call else sentences.FREED[None]
            return told.format(place=place), sentences.RETAIN_BEFORE
        cure = sentences.CURES_OF_FREED.get(str(call), sentences.AGAIN[GradCause.USED_UP])
        return sentences.FREED[call].format(place=place), cure

    def _place_of(self, node: Node) -> str:
        """Return the name of a node, and the line that made it or its backward."""
        unused = ", for an output that is not used" if self.flow.stopping.get(node) else ""
        if node in self.flow.backwards:
            place = self.flow.backwards[node].place
        else:
            source = self.log.source_of(_autograd.sequence_nr(node) or 0)
            place = "" if source is None else f" ({source})"
        return f"{_autograd.node_name(node)}{place}{unused}"

    def miscounted_in_words(self, node: Node) -> str:
        """Return how many gradients a custom function returns, for how many inputs."""
        code, wanted = self.flow.backwards[node], self.flow.miscounted[node]
        name = f"{_autograd.node_name(node)}{code.place}"
        return f"{name} returns {code.told} for {count(wanted, 'input')}"

    def _is_recorded(self, end: Output) -> bool:
        """Return whether it was recorded how an output was made: a cut would have been seen."""
        number = _autograd.number_of(end) if isinstance(end, Tensor) else -1
        return self.log.source_of(number) is not None

    def _cuts(self, tensor: Tensor, facts: TensorDescription) -> tuple[Cut, ...]:
        """Return the cuts that made a constant, or those between the outputs and another tensor.

        Outputs without a graph may have been made of anything that left PyTorch.
        """
        tracker = self.log.cuts
        if not facts.requires_grad:
            return tracker.nearest(tracker.cuts_behind(tensor))
        behind = tracker.structure.depend_on(tensor)
        candidates = self._numbers_of_cuts() or (tracker.left if self._lacks_graph() else ())
        on_the_way = [one for one in candidates if not behind.isdisjoint(tracker.entries[one][1])]
        return tracker.nearest(on_the_way, behind) if on_the_way else ()

    def _lacks_graph(self) -> bool:
        return self.ends_are_leaves or not self.reached

    def _left(self, tensor: Tensor) -> tuple[Cut, ...]:
        """Return where a value that depends on a tensor left PyTorch first, if anywhere."""
        cuts = self.log.cuts
        behind = cuts.structure.depend_on(tensor)
        left = [one for one in cuts.left if not behind.isdisjoint(cuts.entries[one][1])]
        return cuts.cuts_at([min(left)] if left else [])

    def _other_use(self, tensor: Tensor, found: Found) -> str:
        """Return what was recorded of a tensor that the outputs do not depend on."""
        if left := self._left(tensor):
            return sentences.LEFT.format(place=sentences.place_of_cuts(left))
        if found.use is None:
            return sentences.NO_USE
        place = f"{found.use.operation} in {source_at(found.use.place)}"
        return sentences.ELSEWHERE.format(place=place)


def _held_in_words(tensor: Tensor) -> str:
    """Return what the numbers in ``.grad`` show."""
    gradient = _autograd.held_grad(tensor)
    if gradient is not None and gradient.layout is torch.sparse_coo:
        gradient = gradient.detach().coalesce().values()
        if not len(gradient):
            return "only zeros"
    with _autograd.unobserved():
        summary = None if gradient is None else summary_of(gradient)
    if summary is not None and summary.not_finite:
        return f"a gradient with {summary.not_finite} in it"
    return "only zeros" if summary is not None and summary.norm == 0 else "a gradient"


def _number(tensor: Tensor) -> int:
    """Return the number of the node that made a tensor, where PyTorch tells."""
    number = _autograd.number_if_valid(tensor)
    return -1 if number is None else number


def _name_of_hook(hook: object) -> str:
    """Return the name of a hook, and where it is written."""
    code = getattr(inspect.unwrap(hook), "__code__", None)  # type: ignore[arg-type]
    name = getattr(hook, "__qualname__", type(hook).__qualname__)
    if code is None:
        return name
    return f"{name} ({short_path(code.co_filename)}:{code.co_firstlineno})"


CAUSE_OF_ROLE = {
    TensorRole.WRAPPED: GradCause.WRAPPED,
    TensorRole.INVALID_VIEW: GradCause.INVALID_VIEW,
    TensorRole.UNRECORDED_VIEW: GradCause.UNRECORDED_VIEW,
}
