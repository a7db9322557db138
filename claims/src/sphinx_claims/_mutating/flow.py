"""Which code of a claim's evidence feeds its checks, by the names that they have in common."""

import ast
import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import BuiltinFunctionType, ModuleType
from typing import Any

from sphinx_claims._executing.asserts import checked
from sphinx_claims._executing.cell import pins
from sphinx_claims._page import Cell, Doctest, Inline, Step
from sphinx_claims._python import SHOWS, called_names, examples


@dataclasses.dataclass(frozen=True)
class _Statement:
    lines: range
    names: frozenset[str]
    is_check: bool


class Flow:
    """The statements of a claim's evidence, in the order in which they are executed.

    Two of them are connected if they have a name in common or are connected by others; what
    changes no name at all, as a mode or a seed, is connected with everything. So no connection is
    missed where values are shared, and some are seen that are none.
    """

    def __init__(self, steps: Sequence[Step], namespace: Mapping[str, Any]) -> None:
        self._elsewhere = frozenset(name for name, value in namespace.items() if _is_of_all(value))
        self._statements = [found for step in steps for found in self._of(step)]

    def feeds(self, line: int) -> bool:
        """Return whether what stands on a line of the page is connected with a check after it."""
        own = [statement for statement in self._statements if line in statement.lines]
        if not own:
            return True  # a fence, an input
        names = {name for statement in own for name in statement.names}
        after = [check for check in self._statements if check.is_check and check.lines.stop > line]
        if not names:
            return bool(after)
        connected = self._connected(names)
        return any(check.names & connected or not check.names for check in after)

    def _connected(self, names: Collection[str]) -> set[str]:
        connected, before = set(names), -1
        while len(connected) > before:
            before = len(connected)
            for statement in self._statements:
                if statement.names & connected:
                    connected |= statement.names
        return connected

    def _of(self, step: Step) -> Iterator[_Statement]:
        match step:
            case Cell(line=line, source=source):
                body = ast.parse(source).body
                has_pins = bool(pins(source))
                for node in body:
                    is_last = node is body[-1]
                    is_check = (
                        any(checked(part) for part in ast.walk(node))
                        or (has_pins and (is_last or not SHOWS.isdisjoint(called_names(node))))
                        or (step.raises is not None and is_last)
                        or step.warns is not None
                    )
                    yield self._statement(node, line, is_check=is_check)
            case Doctest(line=line, source=source):
                for example in examples(source):
                    for node in ast.parse(example.source).body:
                        is_check = bool(example.want) or any(
                            checked(part) for part in ast.walk(node)
                        )
                        yield self._statement(node, line + example.lineno, is_check=is_check)
            case Inline(line=line, role="claim", source=source):
                for node in ast.parse(source).body:
                    yield self._statement(node, line, is_check=True)

    def _statement(self, node: ast.stmt, line: int, *, is_check: bool) -> _Statement:
        top = min([node.lineno, *(item.lineno for item in getattr(node, "decorator_list", ()))])
        lines = range(line + top - 1, line + (node.end_lineno or node.lineno))
        if isinstance(node, ast.Import | ast.ImportFrom):
            imported = {alias.asname or alias.name.partition(".")[0] for alias in node.names}
            self._elsewhere |= imported
            return _Statement(lines, frozenset(), is_check)
        names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
        names |= {getattr(node, "name", "")} - {""}
        return _Statement(lines, frozenset(names - self._elsewhere), is_check)


def _is_of_all(value: Any) -> bool:
    """Return whether a value is one that nothing is passed on by: a module, what was imported."""
    if isinstance(value, ModuleType | BuiltinFunctionType):
        return True
    home = getattr(value, "__module__", "__main__")
    return callable(value) and isinstance(home, str) and home != "__main__"
