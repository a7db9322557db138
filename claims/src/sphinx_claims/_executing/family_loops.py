"""Loops and comprehensions over a family, rewritten so that `Families` sees how far checks go."""

import ast
import dataclasses
from collections.abc import Collection, Iterable, Iterator

from sphinx_claims._executing.asserts import checked
from sphinx_claims._executing.reporting import report
from sphinx_claims._python import last_name, loaded, stored

_FUNCTIONS = (ast.AsyncFunctionDef, ast.FunctionDef)
_GROWING = frozenset({"add", "append", "appendleft", "extend", "insert", "setdefault", "update"})
_UNHEEDING = frozenset({"id", "len", "print", "type"})
"""Functions whose result says little of the members of what they are given."""


def over_families(tree: ast.Module, names: Collection[str]) -> ast.Module:
    """Rewrite `tree`, whose asserts report already, where it goes over what `names` are given to.

    A check that stands in a loop counts for the member of that time; one that reads what a
    comprehension or a loop has gathered counts for all members that went into that.
    """
    if names:
        _Following(frozenset(names), tree).visit(tree)
    return ast.fix_missing_locations(tree)


class _Following(ast.NodeTransformer):
    def __init__(self, names: frozenset[str], tree: ast.Module) -> None:
        self._names = names
        self._flow = _Flow(tree)
        self._around: list[ast.stmt] = []
        self._some = 0  # how many calls and comparisons around ask for one member alone
        self._negated = False

    def visit(self, node: ast.AST) -> ast.AST:
        if not isinstance(node, ast.stmt):
            return self._visited(node)
        self._around.append(node)
        visited = self._visited(node)
        self._around.pop()
        return visited

    def _visited(self, node: ast.AST) -> ast.AST:
        some, negated = self._some, self._negated
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            self._negated = not negated
        self._some += asks_for_one(node, negated=negated)
        visited: ast.AST = super().visit(node)
        self._some, self._negated = some, negated
        return visited

    def visit_For(self, node: ast.For) -> ast.AST:
        over = self._over(node.iter)
        is_used = not stored([node.target]).isdisjoint(loaded(node.body))
        self.generic_visit(node)
        if over and is_used:
            lines = self._flow.asserts_on(_gathered(node))
            node.iter = _followed(node.iter, over, lines, in_body=True)
        return node

    def _comprehension(self, node: ast.AST) -> ast.AST:
        generators: list[ast.comprehension] = vars(node)["generators"]
        results = [vars(node)[part] for part in ("elt", "key", "value") if part in vars(node)]
        found = [
            (generator, over)
            for index, generator in enumerate(generators)
            if (over := self._over(generator.iter))
            and not generator.is_async
            and not stored([generator.target]).isdisjoint(
                loaded([*results, *generator.ifs, *generators[index + 1 :]])
            )
        ]
        lines = self._lines() if found and not self._some else []
        self.generic_visit(node)
        for generator, over in found:
            generator.iter = _followed(generator.iter, over, lines, in_body=False)
            for name in over:  # where nothing has left the member out
                generators[-1].ifs.append(report("families.takes", name))
        return node

    visit_DictComp = _comprehension  # noqa: N815 - so ast calls it
    visit_GeneratorExp = _comprehension  # noqa: N815
    visit_ListComp = _comprehension  # noqa: N815
    visit_SetComp = _comprehension  # noqa: N815

    def visit_Call(self, node: ast.Call) -> ast.AST:
        is_map = isinstance(node.func, ast.Name) and node.func.id == "map"
        mapped = enumerate(node.args) if is_map else ()
        found = [(index, over) for index, one in mapped if index and (over := self._over(one))]
        lines = self._lines() if found and not self._some else []
        self.generic_visit(node)
        for index, over in found:
            node.args[index] = _followed(node.args[index], over, lines, in_body=True)
        return node

    def _over(self, values: ast.expr) -> list[str]:
        """List the families whose members `values` gives."""
        return sorted(self._names.intersection(loaded([values])))

    def _lines(self) -> list[int]:
        """List the lines of the checks that depend on the expression that is being visited."""
        inner = self._around[-1]
        lines = [line for node in self._around if (line := _line_of_check(node)) is not None]
        for node in self._around:
            if isinstance(node, _FUNCTIONS):
                lines += self._flow.asserts_on({node.name})
        return [*lines, *self._flow.asserts_on(_bound(inner))]


def asks_for_one(node: ast.AST, *, negated: bool) -> bool:
    """Return whether `node` is true as soon as one member of what stands in it is as asked for."""
    match node:
        case ast.Call():
            return last_name(node) == ("all" if negated else "any") or last_name(node) == "next"
        case ast.Compare(ops=[ast.In()]):
            return not negated
        case ast.Compare(ops=[ast.NotIn()]):
            return negated
    return False


@dataclasses.dataclass
class _Flow:
    """Which checks of a cell read, in the end, what stands under a name."""

    tree: ast.Module

    def asserts_on(self, names: set[str]) -> list[int]:
        """List the lines of the checks that depend on what `names` stand for as a whole."""
        known = set(names)
        bindings = [binding for node in ast.walk(self.tree) for binding in _bindings(node)]
        for _ in bindings if names else ():
            more = {name for node, bound in bindings for name in bound if _reads(node, known)}
            if more <= known:
                break
            known |= more
        lines = ((_line_of_check(node), node) for node in ast.walk(self.tree) if names)
        return [line for line, node in lines if line is not None and _reads(node, known)]


def _line_of_check(node: ast.AST) -> int | None:
    """Return the line of a check as it was written or as it reports now; None where it is none."""
    match node:
        case ast.Assert(lineno=line):
            return line
        case ast.Expr(lineno=line):
            return None if checked(node) is None else line
    return None


def _bindings(node: ast.AST) -> Iterator[tuple[ast.AST, set[str]]]:
    """Yield what a statement reads and the names that it gives the result to."""
    if isinstance(node, ast.For):
        yield node.iter, stored([node.target])
    elif bound := _bound(node):
        yield node, bound


def _bound(node: ast.AST) -> set[str]:
    """Name what a statement puts its whole value into."""
    match node:
        case ast.Assign(targets=targets):
            return stored(targets) | _containers(targets)
        case ast.AnnAssign(target=target) | ast.AugAssign(target=target):
            return stored([target]) | _containers([target])
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method))):
            return {name} if method in _GROWING else set()
        case ast.Expr(value=ast.Call(args=[_, _, ast.Call() as told])):  # as `Unread` has it
            return _bound(ast.Expr(told))
    return set()


def _gathered(loop: ast.For) -> set[str]:
    """Name what the body of a loop adds something to each time."""
    names: set[str] = set()
    for node in (inner for statement in loop.body for inner in ast.walk(statement)):
        match node:
            case ast.Assign(targets=targets):
                names |= _containers(targets)
            case ast.AugAssign() | ast.Expr():
                names |= _bound(node)
    return names - stored([loop.target])


def _containers(targets: Iterable[ast.expr]) -> set[str]:
    held = (node.value for node in targets if isinstance(node, ast.Subscript))
    return {node.id for node in held if isinstance(node, ast.Name)}


def _reads(node: ast.AST, names: Collection[str]) -> bool:
    """Return whether `node` looks at all that one of `names` stands for, not at one part of it."""
    return any(name in names for name in _wholes(node, negated=False))


def _wholes(node: ast.AST, *, negated: bool) -> Iterator[str]:
    if asks_for_one(node, negated=negated):
        return
    match node:
        case ast.Name(id=name, ctx=ast.Load()):
            yield name
            return
        case ast.Call(args=[_, _, test, ast.Lambda()]) if last_name(node) == "asserting":
            yield from _wholes(test, negated=negated)
            return
        case ast.Subscript(value=ast.Name(), slice=ast.Constant()):
            return
        case ast.Call(args=[ast.Name()]) if last_name(node) in _UNHEEDING:
            return
        case ast.UnaryOp(op=ast.Not()):
            negated = not negated
    for below in ast.iter_child_nodes(node):
        yield from _wholes(below, negated=negated)


def _followed(
    values: ast.expr, names: Iterable[str], lines: Iterable[int], *, in_body: bool
) -> ast.expr:
    """Build what gives the same as `values`, and tells of each of them."""
    checks = ast.Tuple([ast.Constant(line) for line in sorted(set(lines))], ast.Load())
    for name in names:
        values = ast.copy_location(report("families.over", name, checks, in_body, values), values)
    return values
