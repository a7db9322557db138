"""Leaves that get a gradient but are not registered as parameters, so no optimizer trains them."""

import ast
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from torch import Tensor
from torch.nn import Module, Parameter

from leafgrad import _autograd
from leafgrad._diagnosis.diagnosis import Diagnosis, Edit, Severity, Span, diagnosis
from leafgrad._diagnosis.edits import marked, parse, replace, text_of
from leafgrad._diagnosis.paths import Paths, origin_of
from leafgrad._diagnosis.situation import Situation
from leafgrad._graph.nodes import Source
from leafgrad._messages import message
from leafgrad._record.module_paths import join


class Holder(NamedTuple):
    """An attribute of a module that holds leaves without registering them.

    Attributes:
        module: The module.
        key: The name of the attribute.
        path: The path of the attribute from the model.
        kind: The class that would register them: ``"Parameter"``, ``"ModuleList"`` and so on.
    """

    module: Module
    key: str
    path: str
    kind: str


def find_unregistered_leaves(situation: Situation, paths: Paths) -> Iterator[Diagnosis]:
    """Yield a finding for each attribute of a module that holds unregistered leaves.

    `paths` contains the graph behind the outputs. Parameters that no module holds share one more
    finding.
    """
    if not situation.modules:
        return
    named = {*map(id, situation.parameters.values()), *situation.optimized}
    named.update(id(one.whole) for one in _autograd.sharded_parameters())
    found = {id(leaf): leaf for leaf in map(_autograd.leaf_variable, paths.graph)}
    leaves = {one: leaf for one, leaf in found.items() if leaf is not None and one not in named}
    groups: dict[Holder, dict[str, Tensor]] = {}
    for leaf, holder, path in held_leaves(situation.modules):
        if leaves.pop(id(leaf), None) is not None:
            groups.setdefault(holder, {})[path] = leaf
    for holder, group in groups.items():
        use = paths.first_use(next(iter(group.values())))
        yield _finding(holder, [*group], None if use is None else use.source)
    others = [leaf for leaf in leaves.values() if isinstance(leaf, Parameter)]
    if others:
        yield diagnosis("unregistered", Severity.NOTE, variant="elsewhere", count=len(others))


def _finding(holder: Holder, paths: list[str], use: Source | None) -> Diagnosis:
    """Return the finding about an attribute that holds unregistered leaves.

    `paths` are the names of the leaves, as in ``model.scales[0]``. `use` is the first line that
    used one of them; None if unknown.
    """
    at, edits = _assignment(holder)
    label = message("unregistered.use")
    return diagnosis(
        "unregistered",
        Severity.ERROR,
        subject=paths,
        at=at or use,
        variant="tensor" if holder.kind == "Parameter" else "",
        secondary=[Span(source=use, label=label)] if use is not None and at is not None else (),
        edits=edits,
        attribute=holder.path,
        kind=holder.kind,
    )


def _assignment(holder: Holder) -> tuple[Source | None, tuple[Edit, ...]]:
    """Return the line that assigns an attribute, and the edit that registers its leaves."""
    code = getattr(type(holder.module).__init__, "__code__", None)
    if code is None:
        return None, ()
    tree = parse(code.co_filename)
    lines = [line for _, _, line in code.co_lines() if line is not None]
    source = Source(file=code.co_filename, line=code.co_firstlineno, function=code.co_qualname)
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Attribute(attr=holder.key)], value=value, lineno=line):
                if line in lines:
                    inner = {type(one) for one in ast.iter_child_nodes(value)}
                    is_nested = not inner.isdisjoint((ast.List, ast.Tuple, ast.Dict))
                    text = _registered(source, value, holder, tree)
                    return marked(source, value), () if is_nested else replace(source, value, text)
            case ast.Expr(
                value=ast.Call(func=func, args=[ast.Constant(value=holder.key), value]) as call
            ) if call.lineno in lines and ast.unparse(func).endswith("register_buffer"):
                text = f"self.{holder.key} = {_registered(source, value, holder, tree)}"
                return marked(source, call), replace(source, call, text)
    return None, ()


def _registered(source: Source, value: ast.expr, holder: Holder, tree: ast.Module) -> str:
    """Return the code that wraps a value in `Parameter`, `ModuleList` or a similar class."""
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {alias.asname or alias.name for node in imports for alias in node.names}
    prefix = "nn" if "nn" in names else "torch.nn"
    text = text_of(source, value)
    for node in ast.walk(value) if holder.kind == "Parameter" else ():
        match node:  # remove an inner `Parameter()`: the whole value gets one
            case ast.Call(args=[inner_value]) if ast.unparse(node.func).endswith("Parameter"):
                text = text.replace(text_of(source, node), text_of(source, inner_value))
    return f"{prefix}.{holder.kind}({text})"


# --- Tensors in the attributes of modules


def held_leaves(modules: Mapping[str, Module]) -> Iterator[tuple[Tensor, Holder, str]]:
    """Yield each leaf that a module holds without registering it, with its attribute and path."""
    for name, root in modules.items():
        for path, module in root.named_modules():
            for key, value in (*vars(module).items(), *module.named_buffers(recurse=False)):
                if key not in _OWN:
                    holder = Holder(module, key, join(join(name, path), key), "Parameter")
                    yield from _leaves_in(value, holder)


_OWN = vars(Module()).keys()


def _leaves_in(value: object, holder: Holder) -> Iterator[tuple[Tensor, Holder, str]]:
    """Yield the leaves in a value of an attribute, also in nested lists and dicts."""
    if isinstance(value, Tensor):
        origin = origin_of(value)
        yield value if origin is None else origin.leaf, holder, holder.path
    ahead: list[tuple[Any, str, int]] = [(value, holder.path, 0)]
    container = "Dict" if isinstance(value, Mapping) else "List"
    while ahead:
        items, path, depth = ahead.pop()
        for key, item in reversed([*_items(items)]):
            inner = f"{path}[{key!r}]"
            if isinstance(item, Module):
                registering = holder._replace(kind=f"Module{container}")
                for name, parameter in item.named_parameters():
                    yield parameter, registering, f"{inner}.{name}"
            elif isinstance(item, Tensor):
                yield item, holder._replace(kind=f"Parameter{container}"), inner
            elif depth < MAX_DEPTH:
                ahead.append((item, inner, depth + 1))


MAX_DEPTH = 3


def _items(value: object) -> Iterator[tuple[Any, Any]]:
    """Yield the keys and values of a mapping or list; nothing for other objects."""
    if isinstance(value, Mapping):
        yield from value.items()
    elif isinstance(value, list | tuple):
        yield from enumerate(value)
