"""Check that each room (a named set of paths) stays within its budget of code lines.

The rooms and their budgets are in `[tool.budget]` of pyproject.toml.

Blank lines, comments and docstrings do not count. The length of lines and the number of
statements per line are limited too, so that nobody saves lines by making them denser.
"""

import ast
import io
import re
import subprocess
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

FREE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
FREE |= {tokenize.ENCODING, tokenize.ENDMARKER}
# Strings are matched before comments, so that "//" in a URL does not start a comment.
COMMENT = re.compile(r"""("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`[^`]*`)|/\*.*?\*/""", re.DOTALL)
COMMENT_OF_JS = re.compile(COMMENT.pattern + r"|(?<![:\\])//[^\n]*", re.DOTALL)


class Size(NamedTuple):
    """The size of a file or room: code lines, Python lines, statements, longest line."""

    lines: int = 0
    python: int = 0
    statements: int = 0
    longest: int = 0

    def __add__(self, other: "Size") -> "Size":  # type: ignore[override]
        sums = (mine + theirs for mine, theirs in zip(self[:3], other[:3], strict=True))
        return Size(*sums, max(self.longest, other.longest))


def measure_python(text: str) -> Size:
    """Return the `Size` of Python code, without blank lines, comments and docstrings."""
    tree = ast.parse(text)
    documented = [node for node in ast.walk(tree) if is_docstring(node)]
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in FREE:
            code.update(range(token.start[0], token.end[0] + 1))
    for node in documented:
        code -= {*range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    statements = sum(isinstance(node, ast.stmt) for node in ast.walk(tree)) - len(documented)
    lines = text.splitlines()
    longest = max((len(lines[n - 1]) for n in code), default=0)
    return Size(len(code), len(code), statements, longest)


def is_docstring(node: ast.AST) -> bool:
    """Return whether a node is a statement that consists of a string, such as a docstring."""
    match node:
        case ast.Expr(value=ast.Constant(value=str())):
            return True
    return False


def measure_web(text: str, comment: re.Pattern[str]) -> Size:
    """Return the `Size` of JavaScript or CSS code, without comments and blank lines."""
    code = comment.sub(lambda match: match[1] or "", text)
    lines = [line for line in code.splitlines() if line.strip()]
    return Size(len(lines), longest=max(map(len, lines), default=0))


def measure(file: Path) -> Size:
    """Return the `Size` of a Python, JavaScript or CSS file, without blank lines and comments."""
    text = file.read_text("utf-8")
    if file.suffix == ".py":
        return measure_python(text)
    return measure_web(text, COMMENT_OF_JS if file.suffix == ".js" else COMMENT)


def tracked(room: dict[str, Any]) -> Iterator[Path]:
    """Yield the Python, JavaScript and CSS files in the paths of a room.

    Files that git ignores and the paths in `without` are left out.
    """
    paths = [*room["paths"], *(f":(exclude){path}" for path in room.get("without", ()))]
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *paths],
        capture_output=True,
        check=True,
        text=True,
    )
    files = (Path(name) for name in listed.stdout.split("\0") if name)
    return (file for file in files if file.suffix in {".py", ".js", ".css"} and file.is_file())


def main(arguments: list[str]) -> int:
    """Print the size and budget of each room; with paths, print only the sizes of those files.

    Return 1 if a room exceeds its budget, otherwise 0.
    """
    if arguments:
        for path in arguments:
            print(f"{sum_of({'paths': [path]}).lines:6}  {path}")
        return 0
    budget = tomllib.loads(Path("pyproject.toml").read_text("utf-8"))["tool"]["budget"]
    print("  code  at most  longest  statements/line  room")
    broken = 0
    for room in budget["rooms"]:
        size = sum_of(room)
        density = size.statements / max(size.python, 1)
        over = (
            size.lines > room["lines"]
            or size.longest > room["longest"]
            or density > room["statements-per-line"]
        )
        broken += over
        note = "  <- over its budget" if over else ""
        shown = f"{size.lines:6}  {room['lines']:7}  {size.longest:7}  {density:15.3f}"
        print(f"{shown}  {room['name']}{note}")
    return min(broken, 1)


def sum_of(room: dict[str, Any]) -> Size:
    """Return the total `Size` of a room's files."""
    total = Size()
    for file in tracked(room):
        total += measure(file)
    return total


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
