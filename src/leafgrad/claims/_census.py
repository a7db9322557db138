"""Does this text look like Python that nobody executes?"""

import ast
import re

PYTHON = frozenset("python python3 py py3 pycon pycon3 ipython ipython3 python-console".split())
"""The languages under which a snippet says of itself that it is Python."""

PROSE = frozenset({"", "text", "none", "default", "output"})
"""The languages under which a snippet says nothing of itself."""

_EXAMPLE = re.compile(r"^\s*>>> ", re.MULTILINE)
_ACTS = (ast.Import, ast.ImportFrom, ast.Assert, ast.FunctionDef, ast.ClassDef, ast.Call, ast.With)
_BINDS = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Delete, ast.For, ast.While)


def has_examples(source: str) -> bool:
    """Tell whether `source` holds `>>>` examples."""
    return _EXAMPLE.search(source) is not None


def unexecuted(source: str, language: str) -> str | None:
    """Say why a snippet that was not executed must be; None where it is no Python."""
    if language.lower() in PYTHON:
        return f"nobody executes this {language} snippet: make it a {{code-cell}}"
    if has_examples(source):
        return "nobody executes these >>> examples: put them in a ```pycon fence"
    signs = _ACTS + _BINDS if language.lower() in PROSE else _ACTS
    if _holds(source, signs):
        return "this looks like Python and nobody executes it: make it a {code-cell}"
    return None


def _holds(source: str, signs: tuple[type[ast.AST], ...]) -> bool:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return False
    return any(isinstance(node, signs) for node in ast.walk(tree))
