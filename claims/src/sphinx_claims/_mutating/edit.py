"""Changes of Python source that keep every line of it where it is."""

import ast
import dataclasses
from typing import Literal

Group = Literal["check", "subject"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Edit:
    """One change: what stands on `line` (from 0), between `start` and `end`, reads `text`.

    It is of what a claim checks, or of the subject that it checks; `words` tell a reader of it.
    A sentence that has one of `names` in it names what is changed.
    """

    group: Group
    words: str
    line: int
    start: int
    end: int
    text: str
    names: tuple[str, ...] = ()

    def applied(self, source: str) -> str:
        """Return `source` with the change, in as many lines."""
        lost = source.count("\n", self.start, self.end) - self.text.count("\n")
        return source[: self.start] + self.text + " \\\n" * lost + source[self.end :] + "\n"


@dataclasses.dataclass(frozen=True)
class Code:
    """A piece of Python whose parts can be replaced."""

    source: str

    def edit(
        self,
        node: ast.expr | ast.stmt,
        text: str,
        *,
        group: Group,
        words: str,
        names: tuple[str, ...] = (),
    ) -> Edit:
        """Make the change that replaces `node`."""
        return Edit(
            names=names,
            group=group,
            words=words,
            line=node.lineno - 1,
            start=self._index(node.lineno, node.col_offset),
            end=self._index(node.end_lineno or 0, node.end_col_offset or 0),
            text=text,
        )

    def text(self, node: ast.expr) -> str:
        """Return what stands where `node` does."""
        return ast.get_source_segment(self.source, node) or ""

    def _index(self, line: int, offset: int) -> int:
        lines = self.source.split("\n")
        before = sum(len(above) + 1 for above in lines[: line - 1])
        return before + len(lines[line - 1].encode()[:offset].decode())
