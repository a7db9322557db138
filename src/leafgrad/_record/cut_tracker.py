"""Which calls cut a result off the graph, and which tensors are computed from such a result."""

import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from leafgrad import _autograd
from leafgrad._graph.nodes import Source
from leafgrad._record.cut import Cut, CutKind
from leafgrad._record.pruning import nearest_living
from leafgrad._record.torch_functions import COLLECTIVES, MAX_DEPTH

LEAVING_PYTORCH = {
    **dict.fromkeys(["item", "tolist", "__float__", "__int__", "__complex__"], CutKind.PYTHON),
    **dict.fromkeys(["numpy", "__array__", "__dlpack__"], CutKind.NUMPY),
}
_CUTTING = {
    "detach": CutKind.DETACHED,
    "detach_": CutKind.DETACHED,
    ".data": CutKind.DATA,
    ".data =": CutKind.DATA,
    **dict.fromkeys(COLLECTIVES, CutKind.COLLECTIVE),
    **dict.fromkeys(["tensor", "as_tensor", "asarray", "new_tensor", "Parameter"], CutKind.COPIED),
}


class CallSite(NamedTuple):
    """Where a call stands.

    Attributes:
        operation: What the user called, if the call came from within PyTorch.
        source: The line, where it is known.
        is_in_custom_function: Whether it is in the forward of a custom function, whose results may
            yet get a graph.
        switch: What has switched gradients off, if they are.
        switch_source: The line that did.
    """

    operation: str
    source: Source | None
    is_in_custom_function: bool
    switch: str | None = None
    switch_source: Source | None = None


_TensorCuts = tuple[weakref.ref[Tensor] | None, frozenset[int], bool]
"""The tensor, its cuts, and whether it was made where a custom function may give it a graph yet."""
_NO_CUTS: _TensorCuts = (None, frozenset(), False)


class _Loss(NamedTuple):
    """What was lost at a cut by itself, and not at those that led to it.

    Attributes:
        numbers: Those of the tensors that had a graph until then.
        before: The cuts that had led to these.
    """

    numbers: frozenset[int]
    before: frozenset[int]


class CutTracker:
    """Every place where a result has no graph although something it was made from has one.

    Attributes:
        entries: The places, each with the numbers of the tensors that lost their graph there. A cut
            is known elsewhere by its index here.
        losses: What each of them lost by itself.
        in_custom_functions: Which of them are in the forward of a custom function.
        cuts_by_tensor: For each living tensor that one or more cuts lead to, by identity, which.
        cuts_by_storage: The same for the storages of these tensors, as others may come to share
            them.
        aliases: For each living tensor made by ``detach()`` or ``.data``, by identity, the tensor
            whose memory it shares, and whether it was ``.data``.
        structure: The graphs behind the cuts.
        left: The cuts at which values left PyTorch.
        numbers: Those at which they became a Python number, by this number.
        arrays: Those at which they became an array, by the address of their memory, with the
            storage of the tensor.
    """

    def __init__(self) -> None:
        self.entries: list[tuple[Cut, frozenset[int]]] = []
        self.losses: list[_Loss] = []
        self.in_custom_functions: set[int] = set()
        self.cuts_by_tensor: dict[int, _TensorCuts] = {}
        self.cuts_by_storage: dict[int, tuple[_autograd.StorageReference, frozenset[int]]] = {}
        self.aliases: dict[int, tuple[weakref.ref[Tensor], weakref.ref[Tensor], bool]] = {}
        self.structure: _autograd.GraphStructure = _autograd.GraphStructure()
        self.left: frozenset[int] = frozenset()
        self.numbers: dict[float, frozenset[int]] = {}
        self.arrays: dict[int, tuple[_autograd.StorageReference, frozenset[int]]] = {}

    def cuts_behind(self, tensor: Tensor) -> frozenset[int]:
        """Return the cuts that lead to a tensor."""
        reference, cuts, may_get_graph = self.cuts_by_tensor.get(id(tensor), _NO_CUTS)
        if reference is None or reference() is not tensor:
            return frozenset()
        return cuts - self.in_custom_functions if may_get_graph and _has_graph(tensor) else cuts

    def cuts_at(self, indices: Iterable[int]) -> tuple[Cut, ...]:
        """Return the cuts with these indices, the first one first."""
        return tuple(self.entries[index][0] for index in sorted(indices))

    def nearest(
        self, indices: Collection[int], behind: Collection[int] | None = None
    ) -> tuple[Cut, ...]:
        """Return the cuts with these indices, but for those that only led to another one.

        A graph that was lost at a later cut would have led on: past the earlier ones to what is
        asked for, the numbers of which are `behind`, where they are given.
        """
        losses = [self.losses[index] for index in indices]
        later = [
            one
            for one in losses
            if one.numbers and (behind is None or not one.numbers.isdisjoint(behind))
        ]
        before = frozenset[int]().union(*(one.before for one in later))
        return self.cuts_at([index for index in indices if index not in before] or indices)

    def _cuts_behind_any(self, tensors: Iterable[Tensor]) -> frozenset[int]:
        return frozenset[int]().union(*map(self.cuts_behind, tensors))

    def observe(
        self,
        name: str,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        site: Callable[[str], CallSite],
    ) -> None:
        """Note what a call made of which tensors; where it stands is asked only if it matters."""
        if name in _MAKING_ALIASES:
            self._note_alias(outputs[0], inputs[0], is_data=name == ".data")
        graphs = [tensor for tensor in inputs if _autograd.plain(tensor, "requires_grad")]
        if not graphs and not self.cuts_by_tensor:
            return
        before = self._cuts_behind_any(inputs)
        if name in LEAVING_PYTORCH and (graphs or before):
            left = self._add(LEAVING_PYTORCH[name], site(name), graphs, before)
            self.left |= {left}
            address = _autograd.memory_address(inputs[0])
            if LEAVING_PYTORCH[name] is CutKind.NUMPY and address is not None:
                self.arrays[address] = _autograd.storage_reference(inputs[0]), frozenset([left])
        beside_graph = any(map(_has_graph, outputs))
        for output in outputs:
            sources = _sources_of(name, inputs, output, outputs)
            kept = [] if name in _OVERWRITING else [output]
            cuts = self._cuts_behind_any([*sources, *kept])
            lost = [one for one in graphs if any(one is source for source in sources)]
            kind = _kind_of_cut(name, output, beside_graph=beside_graph) if lost else None
            if kind is not None:
                cuts |= {self._add(kind, site(name), lost)}
            self._set_cuts(output, cuts)
        self._observe_write_past_graph(name, inputs, graphs, site)

    def note_numbers(self, result: object) -> None:
        """Note which numbers the newest cut made."""
        for number in _floats_in([result]):
            self.numbers[number] = frozenset([max(self.left)])

    def observe_numbers(self, name: str, args: Sequence[object], outputs: Iterable[Tensor]) -> None:
        """Note that numbers which left PyTorch may have come back.

        An argument is taken for the same number if it is equal. Other numbers may have been
        computed from it if a tensor is made of them.
        """
        floats = [*_floats_in(args)]
        cuts = frozenset[int]().union(*(self.numbers.get(one, ()) for one in floats))
        if not cuts and floats and name in _FROM_NUMBERS:
            cuts = self.left
        for output in outputs if cuts else ():
            self._set_cuts(output, self.cuts_behind(output) | cuts)

    def adopt_cuts_of_storage(self, leaf: Tensor) -> None:
        """Take over what is known of the memory of a leaf that was made unseen."""
        if id(leaf) in self.cuts_by_tensor:
            return
        known = self.cuts_of_memory(leaf)
        if known:
            self._set_cuts(leaf, known)

    def cuts_of_memory(self, leaf: Tensor) -> frozenset[int]:
        """Return what is known of the memory of a leaf that may have been made unseen."""
        if not (self.cuts_by_storage or self.arrays) or _has_graph(leaf):
            return frozenset()
        identity = _autograd.storage_identity(leaf) or 0
        known = self.cuts_by_storage.get(identity)
        if known is None and self.arrays:
            known = self.arrays.get(_autograd.memory_address(leaf) or 0)
        return frozenset() if known is None or known[0].expired() else known[1]

    def _observe_write_past_graph(
        self,
        name: str,
        inputs: Sequence[Tensor],
        graphs: Sequence[Tensor],
        site: Callable[[str], CallSite],
    ) -> None:
        """Note that a write went past the graph of the tensor whose memory it went into."""
        if not (inputs and id(inputs[0]) in self.aliases and name.endswith("_")):
            return
        original = self.aliases[id(inputs[0])][1]()
        lost = [one for one in graphs if one is not inputs[0]]
        if original is not None and lost:
            cut = self._add(CutKind.DATA, site(name), lost)
            self._set_cuts(original, self.cuts_behind(original) | {cut})

    def is_data(self, tensor: Tensor) -> bool:
        """Return whether a tensor came of ``.data``, or is a view of one that did."""
        known = self.aliases.get(
            id(_autograd.base(tensor) if _autograd.is_view(tensor) else tensor)
        )
        return known is not None and known[2]

    def _note_alias(self, alias: Tensor, original: Tensor, *, is_data: bool) -> None:
        identity, aliases = id(alias), self.aliases
        reference = weakref.ref(alias, lambda _: aliases.pop(identity, None))
        aliases[identity] = reference, weakref.ref(original), is_data

    def _add(
        self, kind: CutKind, site: CallSite, graphs: Iterable[Tensor], before: Iterable[int] = ()
    ) -> int:
        """Note a cut, which stands for those before it as well, and return its index."""
        graphs = [*graphs]
        numbers = {self.structure.add(tensor) for tensor in graphs}
        self.losses.append(_Loss(frozenset(numbers), self._cuts_behind_any(graphs)))
        numbers.update(*(self.entries[earlier][1] for earlier in before))
        if site.is_in_custom_function:
            kind = CutKind.NOT_DIFFERENTIABLE
            self.in_custom_functions.add(len(self.entries))
        is_off = kind is CutKind.NO_GRAD
        cut = Cut(
            kind=kind,
            operation=site.operation,
            source=site.source,
            switch=site.switch if is_off else None,
            switch_source=site.switch_source if is_off else None,
            is_difference=kind is CutKind.DETACHED and any(map(_is_difference, graphs)),
        )
        self.entries.append((cut, frozenset(numbers)))
        return len(self.entries) - 1

    def _set_cuts(self, tensor: Tensor, cuts: frozenset[int]) -> None:
        """Note which cuts lead to a tensor, but for those that its own graph came to."""
        identity, known = id(tensor), self.cuts_by_tensor
        if cuts and not _has_graph(tensor):
            own = _autograd.number_of(tensor)
            cuts = frozenset(number for number in cuts if own not in self.entries[number][1])
        if not cuts:
            known.pop(identity, None)
            if not _autograd.is_view(tensor) and self.cuts_by_storage:
                self.cuts_by_storage.pop(_autograd.storage_identity(tensor) or 0, None)
            return
        reference = weakref.ref(tensor, lambda _: known.pop(identity, None))
        known[identity] = reference, cuts, not torch.is_grad_enabled()
        inner = _autograd.without_wrappers(tensor)
        storage = None if _has_graph(inner) else _autograd.storage_identity(inner)
        if storage is not None:
            self.cuts_by_storage[storage] = _autograd.storage_reference(inner), cuts

    def prune(self, living: Collection[int]) -> None:
        """Let cuts lead to what lives, and take those for one that are alike then.

        They keep their indices, so that whoever knows some of these is told the same.
        """
        successors = self.structure.successors
        first = self._merge_entries(successors, living)
        self._merge_losses(successors, living, first)
        for number in [number for number in successors if number not in living]:
            del successors[number]
        self.in_custom_functions.intersection_update(first.values())
        self.left = frozenset(map(first.__getitem__, self.left))
        self.numbers.clear()
        self.arrays.clear()

        def merged(cuts: Iterable[int]) -> frozenset[int]:
            return frozenset(map(first.__getitem__, cuts))

        for identity, (tensor, cuts, may_get_graph) in [*self.cuts_by_tensor.items()]:
            self.cuts_by_tensor[identity] = tensor, merged(cuts), may_get_graph
        for identity, (storage, cuts) in [*self.cuts_by_storage.items()]:
            self.cuts_by_storage[identity] = storage, merged(cuts)
            if storage.expired():
                del self.cuts_by_storage[identity]

    def _merge_losses(
        self,
        successors: Mapping[int, Iterable[int]],
        living: Collection[int],
        first: Mapping[int, int],
    ) -> None:
        """Let what was lost lead to living tensors, and add up what entries lost that are alike."""
        merged: dict[int, _Loss] = {}
        for index, loss in enumerate(self.losses):
            known = merged.get(first[index], _Loss(frozenset(), frozenset()))
            merged[first[index]] = _Loss(
                known.numbers | nearest_living(loss.numbers, successors, living),
                known.before.union(first[one] for one in loss.before) - {first[index]},
            )
        self.losses = [merged[first[index]] for index in range(len(self.losses))]

    def _merge_entries(
        self, successors: Mapping[int, Iterable[int]], living: Collection[int]
    ) -> dict[int, int]:
        """Let each entry lead to living tensors, and return the first that is like each."""
        alike: dict[object, int] = {}
        first: dict[int, int] = {}
        for index, (cut, numbers) in enumerate(self.entries):
            entry = cut, nearest_living(numbers, successors, living)
            first[index] = alike.setdefault((entry, index in self.in_custom_functions), index)
            self.entries[index] = self.entries[first[index]] if first[index] < index else entry
        return first


def _floats_in(args: Iterable[object]) -> Iterator[float]:
    """Yield the floating-point numbers among some arguments and in lists, a few levels deep."""
    for _ in range(MAX_DEPTH):
        below: list[object] = []
        for one in args:
            if isinstance(one, float):
                yield one
            elif isinstance(one, list | tuple):
                below += one[:MAX_NUMBERS]
        args = below


MAX_NUMBERS = 100
_FROM_NUMBERS = {"tensor", "as_tensor", "asarray", "new_tensor", "scalar_tensor"}
_OVERWRITING = {"copy_", "fill_", "normal_", "uniform_", "zero_"}
_MAKING_ALIASES = {"detach", ".data"}


def _has_graph(tensor: Tensor) -> bool:
    """Return whether a tensor is the result of something recorded."""
    if not _autograd.plain(tensor, "requires_grad") or _autograd.is_invalid_view(tensor):
        return False
    return not _autograd.plain(tensor, "is_leaf")


def _is_difference(tensor: Tensor) -> bool:
    return _has_graph(tensor) and _autograd.grad_fn_name(tensor) == "SubBackward0"


def _sources_of(
    name: str, inputs: Sequence[Tensor], output: Tensor, outputs: Sequence[Tensor]
) -> Sequence[Tensor]:
    """Return the inputs whose values an output is made of.

    Of several outputs, each may be a view of one input.
    """
    if name.startswith(("_foreach_", "_fused_")):
        inputs = _row_of(output, outputs, inputs)
    places = enumerate(inputs)
    inputs = [one for place, one in places if not takes_shape(name, is_first=place == 0)]
    if name == ".data =":
        return inputs[1:]
    is_alone = len(outputs) == 1
    is_written = is_alone or name.endswith("_")
    if any(output is one for one in inputs):
        if name == "detach_":
            return inputs
        return [one for one in inputs if one is not output] if is_written else ()
    storage = None if is_alone else _autograd.storage_identity(output)
    if storage is None:
        return inputs
    bases = [one for one in inputs if storage == _autograd.storage_identity(one)]
    return bases or inputs


def _row_of(
    output: Tensor, outputs: Sequence[Tensor], inputs: Sequence[Tensor]
) -> Sequence[Tensor]:
    """Return what one entry of the lists of a foreach function is computed from.

    Tensors that are in no list come first, and go into all entries.
    """
    place = next(place for place, one in enumerate(outputs) if one is output)
    shared = len(inputs) % len(outputs)
    return [*inputs[:shared], *inputs[shared + place :: len(outputs)]]


def takes_shape(name: str, *, is_first: bool) -> bool:
    """Return whether a function takes no more of an input than its shape or type."""
    if name in _SHAPED_AS_ANOTHER:
        return not is_first
    if name in {".grad", ".grad ="}:
        return True
    return is_first and (name.endswith("_like") or name == "new" or name.startswith("new_"))


_SHAPED_AS_ANOTHER = {
    "expand_as",
    "view_as",
    "reshape_as",
    "type_as",
    "to",
    "resize_as_",
    "sum_to_size",
}


def _kind_of_cut(name: str, output: Tensor, *, beside_graph: bool) -> CutKind | None:
    """Return how an output lost the graph of what it was made from, None where it did not.

    ``detach_()`` is followed while its tensor still has the graph that it loses. Of the results of
    one function, a number without a graph beside one with it may come from other inputs.
    """
    if _has_graph(output) and name != "detach_":
        return None
    if name in _CUTTING:
        return _CUTTING[name]
    if not torch.is_grad_enabled():
        return CutKind.NO_GRAD
    dtype = _autograd.plain(output, "dtype")
    if not (dtype.is_floating_point or dtype.is_complex):
        return CutKind.NOT_FLOATING
    return None if beside_graph else CutKind.NOT_DIFFERENTIABLE
