"""What falls out of the graph while code runs, and what is computed from that."""

import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from leafgrad import _autograd
from leafgrad._graph.nodes import Source
from leafgrad._record.cut import Cut, CutKind

LEAVING = {
    **dict.fromkeys(["item", "tolist", "__float__", "__int__", "__complex__"], CutKind.PYTHON),
    **dict.fromkeys(["numpy", "__array__", "__dlpack__"], CutKind.NUMPY),
}
BY_NAME = {
    "detach": CutKind.DETACHED,
    "detach_": CutKind.DETACHED,
    ".data": CutKind.DATA,
    ".data =": CutKind.DATA,
    **dict.fromkeys(["tensor", "as_tensor", "asarray", "new_tensor", "Parameter"], CutKind.COPIED),
}


class Site(NamedTuple):
    """Where a call stands.

    Attributes:
        operation: What the user called, if the call came from within PyTorch.
        source: The line, where it is known.
        is_inside: Whether it is in the forward of a custom function, whose results may yet get a
            graph.
    """

    operation: str
    source: Source | None
    is_inside: bool


# The tensor, its cuts, and whether it was made where a custom function may give it a graph yet.
_Touched = tuple[weakref.ref[Tensor] | None, frozenset[int], bool]
_UNTOUCHED: _Touched = (None, frozenset(), False)


class Losses:
    """Every place where a result has no graph although something it was made from has one.

    Attributes:
        cuts: The places, each with the numbers of the tensors that it was made from.
        inside: Which of them are in the forward of a custom function.
        touched: For each living tensor that one or more cuts lead to, by identity, which.
        memory: The same for the storages of these tensors, as others may come to share them.
        shown: For each living tensor made by ``detach()`` or ``.data``, what it shares memory with.
        skeleton: The graphs behind the cuts.
    """

    def __init__(self) -> None:
        self.cuts: list[tuple[Cut, frozenset[int]]] = []
        self.inside: set[int] = set()
        self.touched: dict[int, _Touched] = {}
        self.memory: dict[int, tuple[_autograd.StorageReference, frozenset[int]]] = {}
        self.shown: dict[int, tuple[weakref.ref[Tensor], weakref.ref[Tensor]]] = {}
        self.skeleton = _autograd.GraphStructure()

    def cuts_before(self, tensor: Tensor) -> frozenset[int]:
        """Tell which cuts lead to a tensor."""
        reference, cuts, may_get_graph = self.touched.get(id(tensor), _UNTOUCHED)
        if reference is None or reference() is not tensor:
            return frozenset()
        return cuts - self.inside if may_get_graph and _has_graph(tensor) else cuts

    def follow(
        self,
        name: str,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        site: Callable[[str], Site],
    ) -> None:
        """Note what a call made of which tensors; where it stands is asked only if it matters."""
        if name in _SHOWING:
            self._note_shown(outputs[0], inputs[0])
        graphs = [tensor for tensor in inputs if _autograd.plain(tensor, "requires_grad")]
        if not graphs and not self.touched:
            return
        before = frozenset[int]().union(*map(self.cuts_before, inputs))
        if name in LEAVING and (graphs or before):
            self._cut(LEAVING[name], site(name), graphs, before)
        beside_graph = any(map(_has_graph, outputs))
        for output in outputs:
            made_of = _made_of(name, inputs, output, is_alone=len(outputs) == 1)
            lost = [one for one in graphs if any(one is part for part in made_of)]
            kind = _kind(name, output, beside_graph=beside_graph) if lost else None
            before = frozenset[int]().union(*map(self.cuts_before, [*made_of, output]))
            cut = [] if kind is None else [self._cut(kind, site(name), lost)]
            self._touch(output, before.union(cut))
        self._follow_memory(name, inputs, graphs, site)

    def look_up_memory(self, leaf: Tensor) -> None:
        """Take over what is known of the memory of a leaf that was made unseen."""
        if id(leaf) in self.touched or not self.memory:
            return
        _, cuts = self.memory.get(_autograd.storage_identity(leaf) or 0, (None, frozenset[int]()))
        if cuts:
            self._touch(leaf, cuts)

    def _follow_memory(
        self,
        name: str,
        inputs: Sequence[Tensor],
        graphs: Sequence[Tensor],
        site: Callable[[str], Site],
    ) -> None:
        """Note that a write went past the graph of the tensor whose memory it went into."""
        if not (inputs and id(inputs[0]) in self.shown and name.endswith("_")):
            return
        shown = self.shown[id(inputs[0])][1]()
        lost = [one for one in graphs if one is not inputs[0]]
        if shown is not None and lost:
            number = self._cut(CutKind.DATA, site(name), lost)
            self._touch(shown, self.cuts_before(shown) | {number})

    def _note_shown(self, output: Tensor, of: Tensor) -> None:
        identity, shown = id(output), self.shown
        reference = weakref.ref(output, lambda _: shown.pop(identity, None))
        shown[identity] = reference, weakref.ref(of)

    def _cut(
        self, kind: CutKind, site: Site, graphs: Iterable[Tensor], before: Iterable[int] = ()
    ) -> int:
        """Note a cut, which stands for those that came before it as well."""
        numbers = {self.skeleton.add(tensor) for tensor in graphs}
        numbers.update(*(self.cuts[earlier][1] for earlier in before))
        if site.is_inside:
            kind = CutKind.NOT_DIFFERENTIABLE
            self.inside.add(len(self.cuts))
        cut = Cut(kind=kind, operation=site.operation, source=site.source)
        self.cuts.append((cut, frozenset(numbers)))
        return len(self.cuts) - 1

    def _touch(self, tensor: Tensor, cuts: frozenset[int]) -> None:
        """Note which cuts lead to a tensor, but for those that its own graph came to."""
        identity, touched = id(tensor), self.touched
        if cuts and not _has_graph(tensor):
            own = _autograd.number_of(tensor)
            cuts = frozenset(number for number in cuts if own not in self.cuts[number][1])
        if not cuts:
            touched.pop(identity, None)
            return
        reference = weakref.ref(tensor, lambda _: touched.pop(identity, None))
        touched[identity] = reference, cuts, not torch.is_grad_enabled()
        inner = _autograd.without_wrappers(tensor)
        storage = None if _has_graph(inner) else _autograd.storage_identity(inner)
        if storage is not None:
            self.memory[storage] = _autograd.storage_reference(inner), cuts


_SHOWING = {"detach", ".data"}


def _has_graph(tensor: Tensor) -> bool:
    """Say whether a tensor is the result of something recorded."""
    if not _autograd.plain(tensor, "requires_grad") or _autograd.is_invalid_view(tensor):
        return False
    return not _autograd.plain(tensor, "is_leaf")


def _made_of(
    name: str, inputs: Sequence[Tensor], output: Tensor, *, is_alone: bool
) -> Sequence[Tensor]:
    """List the inputs whose values an output is made of; of several, each may show one of them."""
    places = enumerate(inputs)
    inputs = [one for place, one in places if not takes_shape(name, is_first=place == 0)]
    if name == ".data =":
        return inputs[1:]
    is_written = is_alone or name.endswith("_")
    if any(output is one for one in inputs):
        if name == "detach_":
            return inputs
        return [one for one in inputs if one is not output] if is_written else ()
    storage = None if is_alone else _autograd.storage_identity(output)
    if storage is None:
        return inputs
    showing = [one for one in inputs if storage == _autograd.storage_identity(one)]
    return showing or inputs


def takes_shape(name: str, *, is_first: bool) -> bool:
    """Say whether a function takes no values of its first input, or of the others."""
    if name in _AS_ANOTHER:
        return not is_first
    if name in {".grad", ".grad ="}:
        return True
    return is_first and (name.endswith("_like") or name.startswith("new_"))


_AS_ANOTHER = {"expand_as", "view_as", "reshape_as", "type_as", "to", "resize_as_", "sum_to_size"}


def _kind(name: str, output: Tensor, *, beside_graph: bool) -> CutKind | None:
    """Tell how an output lost the graph of what it was made from, None where it did not.

    ``detach_()`` is followed while its tensor still has the graph that it loses. Of the results of
    one function, a number without a graph beside one with it may come from other inputs.
    """
    if _has_graph(output) and name != "detach_":
        return None
    if name in BY_NAME:
        return BY_NAME[name]
    if not torch.is_grad_enabled():
        return CutKind.NO_GRAD
    dtype = _autograd.plain(output, "dtype")
    if not (dtype.is_floating_point or dtype.is_complex):
        return CutKind.NOT_FLOATING
    return None if beside_graph else CutKind.NOT_DIFFERENTIABLE
