"""What falls out of the graph while code runs, and what is computed from that."""

import weakref
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

from leafgrad import _autograd
from leafgrad._cut import Cut, CutKind
from leafgrad._traced import Source

LEAVING = {
    **dict.fromkeys(["item", "tolist", "__float__", "__int__", "__complex__"], CutKind.PYTHON),
    **dict.fromkeys(["numpy", "__array__", "__dlpack__"], CutKind.NUMPY),
}
BY_NAME = {
    "detach": CutKind.DETACHED,
    "detach_": CutKind.DETACHED,
    ".data": CutKind.DATA,
}


class Losses:
    """Every place where a result has no graph although something it was made from has one.

    Attributes:
        cuts: The places, each with the numbers of the tensors that it was made from.
        touched: For each living tensor that one or more cuts lead to, by identity, which.
        skeleton: The graphs behind the cuts.
    """

    def __init__(self) -> None:
        self.cuts: list[tuple[Cut, frozenset[int]]] = []
        self.touched: dict[int, tuple[weakref.ref[Tensor], frozenset[int]]] = {}
        self.skeleton = _autograd.Skeleton()

    def cuts_before(self, tensor: Tensor) -> frozenset[int]:
        """Tell which cuts lead to a tensor."""
        reference, cuts = self.touched.get(id(tensor), (None, frozenset[int]()))
        return cuts if reference is not None and reference() is tensor else frozenset()

    def follow(
        self,
        name: str,
        inputs: Sequence[Tensor],
        outputs: Iterable[Tensor],
        source: Callable[[], Source | None],
    ) -> None:
        """Note what a call made of which tensors; where it stands is asked only if it matters."""
        graphs = [tensor for tensor in inputs if _autograd.plain(tensor, "requires_grad")]
        if not graphs and not self.touched:
            return
        before = frozenset[int]().union(*map(self.cuts_before, inputs))
        if name in LEAVING and (graphs or before):
            self._cut(LEAVING[name], name, graphs, source, before)
        for output in outputs:
            kind = _kind(name, output) if graphs else None
            cut = [] if kind is None else [self._cut(kind, name, graphs, source)]
            self._touch(output, before.union(cut))

    def _cut(
        self,
        kind: CutKind,
        name: str,
        graphs: Iterable[Tensor],
        source: Callable[[], Source | None],
        before: Iterable[int] = (),
    ) -> int:
        """Note a cut, which stands for those that came before it as well."""
        numbers = {self.skeleton.add(tensor) for tensor in graphs}
        numbers.update(*(self.cuts[earlier][1] for earlier in before))
        cut = Cut(kind=kind, operation=name, source=source())
        self.cuts.append((cut, frozenset(numbers)))
        return len(self.cuts) - 1

    def _touch(self, tensor: Tensor, cuts: frozenset[int]) -> None:
        identity, touched = id(tensor), self.touched
        if cuts:
            reference = weakref.ref(tensor, lambda _: touched.pop(identity, None))
            touched[identity] = reference, cuts
        else:
            touched.pop(identity, None)


def _kind(name: str, output: Tensor) -> CutKind | None:
    """Tell how an output lost the graph of what it was made from, None where it did not.

    What takes only its shape from its inputs has nothing to lose. ``detach_()`` is followed while
    its tensor still has the graph that it loses.
    """
    has_graph = _autograd.plain(output, "requires_grad") and name != "detach_"
    if has_graph or _takes_shape_only(name):
        return None
    if name in BY_NAME:
        return BY_NAME[name]
    if not torch.is_grad_enabled():
        return CutKind.NO_GRAD
    dtype = _autograd.plain(output, "dtype")
    floating = dtype.is_floating_point or dtype.is_complex
    return CutKind.NOT_DIFFERENTIABLE if floating else CutKind.NOT_FLOATING


def _takes_shape_only(name: str) -> bool:
    return name.endswith("_like") or name.startswith("new_") or name == ".grad"
