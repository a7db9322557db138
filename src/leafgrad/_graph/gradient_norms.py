"""How large the gradients of a backward are, module by module, and where they get lost."""

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
    """How large the gradients of one module are.

    Attributes:
        module: The path of the module, ``"outside"`` for operations in none; the name of the
            tensor for a leaf in none.
        arriving: The 2-norm of the gradient that arrives at its result, the last one if it was
            called several times; None where none was seen.
        ratio: That norm, divided by the one at the first module; None outside of all modules.
        parameters: The 2-norm of the gradients of all its leaves together; None where it has none
            that got a gradient.
        not_finite: ``"NaN"`` or ``"infinity"`` if one of these gradients holds any, which norms
            leave out; else None.
    """

    module: str
    arriving: float | None
    ratio: float | None
    parameters: float | None
    not_finite: NotFinite | None


@dataclass(frozen=True, kw_only=True, repr=False)
class GradientNorms:
    """The gradients of a backward by module, in the order in which it came to them.

    `GraphTrace.gradient_norms` makes it, and ``str()`` prints it as a table.

    Attributes:
        modules: The modules, from the outputs to the inputs.
    """

    modules: tuple[ModuleGradient, ...]

    @property
    def vanishing(self) -> tuple[ModuleGradient, ...]:
        """The last modules, all with less than 0.001 of the norm at the first module."""
        return self._last_with(lambda ratio: ratio < VANISHED)

    @property
    def exploding(self) -> tuple[ModuleGradient, ...]:
        """The last modules, all with more than 1,000 times the norm at the first module."""
        return self._last_with(lambda ratio: ratio > EXPLODED)

    def _last_with(self, is_so: Callable[[float], bool]) -> tuple[ModuleGradient, ...]:
        """Return the last modules with a ratio, as long as the ratios meet a condition."""
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
    return "" if value is None else f"{value:.1e}"


# --- From a graph


def gradient_norms_of(nodes: Nodes) -> GradientNorms:
    """Sum up by module what a backward passed on, with as many levels as fit on a screen."""
    visited = [(node.visited, node) for node in nodes if node.visited is not None]
    in_order = [node for _, node in sorted(visited, key=lambda pair: pair[0])]
    paths = {node.index: _path(node) for node in in_order}
    depth = _fitting_depth([*paths.values()])
    members = defaultdict[str, list[TracedNode]](list)
    for node in in_order:
        members[".".join(paths[node.index].split(".")[:depth])].append(node)
    return GradientNorms(modules=tuple(_modules(members)))


def _path(node: TracedNode) -> str:
    """Return the module of a node; of a leaf, the module that its name says it is in."""
    if not node.is_leaf:
        return OUTSIDE if node.module is None else node.module
    name = short_name(node)
    return name.rpartition(".")[0] or name


def _fitting_depth(paths: Sequence[str]) -> int:
    """Return how many levels of paths there are at most without too many modules, at least one."""
    levels = [path.split(".") for path in set(paths)]
    deepest = max(map(len, levels), default=1)
    for depth in range(deepest, 1, -1):
        if len({tuple(parts[:depth]) for parts in levels}) <= MOST_MODULES:
            return depth
    return 1


def _modules(members: Mapping[str, Nodes]) -> Iterator[ModuleGradient]:
    """Yield the modules; the ratios refer to the first at which a norm is known and not zero."""
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
    """Return the 2-norm of all that arrived at a node, None where nothing could be read."""
    norms = [one.norm for one in gradients if one is not None and one.norm is not None]
    return hypot(*norms) if norms else None
