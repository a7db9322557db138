"""How code that is rewritten reports: by calls of a builtin that no page has."""

import ast

RECORDER = "__claims_check__"
"""The builtin through which rewritten code reports."""


def report(method: str, *arguments: ast.expr | bool | int | str) -> ast.Call:
    """Build `RECORDER.method(arguments)`; constants are given as they are."""
    called: ast.expr = ast.Name(RECORDER, ast.Load())
    for name in method.split("."):
        called = ast.Attribute(called, name, ast.Load())
    given = [one if isinstance(one, ast.expr) else ast.Constant(one) for one in arguments]
    return ast.Call(called, given, [])
