"""Measure the gradients of a backward pass by module, to find where they vanish or explode."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from math import hypot

from leafgrad._display.markup import preformatted, visible
from leafgrad._display.table import table
from leafgrad._display.text_width import WIDTH
from leafgrad._display.units import count
from leafgrad._graph.nodes import TracedNode, short_name
from leafgrad._graph.summary import NotFinite, TensorSummary, worst_of
from leafgrad._messages import message

MOST_MODULES = 24


OUTSIDE = "outside"
VANISHED = 1e-3
EXPLODED = 1e3

Nodes = Sequence[TracedNode]


@dataclass(frozen=True, kw_only=True, slots=True)
class ModuleGradient:
    """The size of the gradients in one module.

    Attributes:
        module: The path of the module. For operations outside of all modules this is ``"outside"``,
            and for a leaf outside of all modules its name.
        arriving: The 2-norm of the gradient that arrives at the module's result. If the module was
            called several times, at its last result. None if no gradient arrived.
        ratio: This norm divided by that of the first module. None outside of all modules.
        parameters: The 2-norm of the gradients of all leaves in the module together. None if none
            got a gradient.
        not_finite: ``"NaN"`` or ``"infinity"`` if one of these gradients contains any, else None.
            The norms leave these elements out.
    """

    module: str
    arriving: float | None
    ratio: float | None
    parameters: float | None
    not_finite: NotFinite | None


@dataclass(frozen=True, kw_only=True, repr=False)
class GradientNorms:
    """The sizes of the gradients in each module, in the order of the backward pass.

    `GraphTrace.gradient_norms` returns it, and ``str()`` shows it as a table.

    Attributes:
        modules: The modules, from the outputs to the inputs.
    """

    modules: tuple[ModuleGradient, ...]

    @property
    def vanishing(self) -> tuple[ModuleGradient, ...]:
        """The modules at the end of the backward pass whose ratios are all below 0.001."""
        return self._last_with(lambda ratio: ratio < VANISHED)

    @property
    def exploding(self) -> tuple[ModuleGradient, ...]:
        """The modules at the end of the backward pass whose ratios are all above 1,000."""
        return self._last_with(lambda ratio: ratio > EXPLODED)

    def _last_with(self, is_so: Callable[[float], bool]) -> tuple[ModuleGradient, ...]:
        """Return the longest run of modules at the end whose ratios all satisfy `is_so`."""
        ratios = [(module.ratio, module) for module in self.modules if module.ratio is not None]
        last = takewhile(lambda pair: is_so(pair[0]), reversed(ratios))
        return tuple(module for _, module in last)[::-1]

    def __str__(self) -> str:
        rows = [(*message("norms.heading").split(", "), "")]
        rows += [
            (
                module.module or message("modules.outermost"),
                *map(_number, (module.arriving, module.ratio, module.parameters)),
                module.not_finite or "",
            )
            for module in self.modules
        ]
        lines = table(rows, right=(1, 2, 3), width=WIDTH)
        return "\n".join(map(visible, lines))

    def __repr__(self) -> str:
        return f"<GradientNorms of {count(len(self.modules), 'module')}>"

    def _repr_html_(self) -> str:
        return preformatted(str(self))


def _number(value: float | None) -> str:
    """Return the norm or ratio `value` with two digits, as text; an empty text for None."""
    return "" if value is None else f"{value:.1e}"


# --- Computing the norms from a graph


def gradient_norms_of(nodes: Nodes) -> GradientNorms:
    """Return the gradient norms by module, with as many levels of modules as fit on a screen."""
    visited = [(node.visited, node) for node in nodes if node.visited is not None]
    in_order = [node for _, node in sorted(visited, key=lambda pair: pair[0])]
    paths = {node.index: _path(node) for node in in_order}
    depth = _fitting_depth([*paths.values()])
    members = defaultdict[str, list[TracedNode]](list)
    for node in in_order:
        members[".".join(paths[node.index].split(".")[:depth])].append(node)
    return GradientNorms(modules=tuple(_modules(members)))


def _path(node: TracedNode) -> str:
    """Return the module path of a node; for a leaf, its name up to the last dot."""
    if not node.is_leaf:
        return OUTSIDE if node.module is None else node.module
    name = short_name(node)
    return name.rpartition(".")[0] or name


def _fitting_depth(paths: Sequence[str]) -> int:
    """Return the largest number of path levels, at least 1, that yields at most 24 modules."""
    levels = [path.split(".") for path in set(paths)]
    deepest = max(map(len, levels), default=1)
    for depth in range(deepest, 1, -1):
        if len({tuple(parts[:depth]) for parts in levels}) <= MOST_MODULES:
            return depth
    return 1


def _modules(members: Mapping[str, Nodes]) -> Iterator[ModuleGradient]:
    """Yield the gradient norms of each module.

    Ratios refer to the first module with a known norm that is not zero.
    """
    first: float | None = None
    for module, nodes in members.items():
        results = [node for node in nodes if not node.is_leaf]
        arriving = norm_of(results[0].gradients) if results else None
        is_inside = bool(results) and bool(results[0].module)
        first = first or (arriving if is_inside else None)
        norms = (norm_of(node.gradients) for node in nodes if node.is_leaf)
        of_leaves = [norm for norm in norms if norm is not None]
        yield ModuleGradient(
            module=module,
            arriving=arriving,
            ratio=arriving / first if arriving is not None and is_inside and first else None,
            parameters=hypot(*of_leaves) if of_leaves else None,
            not_finite=worst_of(gradient for node in nodes for gradient in node.gradients),
        )


def norm_of(gradients: Sequence[TensorSummary | None]) -> float | None:
    """Return the 2-norm of the gradients at a node together, None if none could be read."""
    norms = [one.norm for one in gradients if one is not None and one.norm is not None]
    return hypot(*norms) if norms else None
