"""A check that compares a thing with itself is no evidence."""

import ast

import pytest

from sphinx_claims._executing.itself import useless_checks


@pytest.mark.parametrize(
    "check",
    [
        "x == x",
        "(x) == (+x)",
        "x is x",
        "x.real == getattr(x, 'real')",
        "not x != x",
        "not (x < x or False)",
        "x + 1 == 1 + x",
        "(y := x) == x",
        "len(str) <= len(str)",
        "operator.eq(x, x)",
        "math.isclose(x, x)",
        "x.__eq__(x)",
        "bool(x == x)",
        "math.isclose(x, 1) is not None",
        "1 == 1",
        "'text'",
        "(x, 'message')",
        "x == 2 or True",
    ],
)
def test_check_of_thing_with_itself_is_no_evidence(check: str) -> None:
    (found,) = useless_checks(ast.parse(f"assert {check}"))
    assert found[1].startswith("this check is no evidence")


@pytest.mark.parametrize(
    "check", ["x != x", "not torch.equal(x, x)", "f() == f()", "x == y", "f(x, x)", "x.f() is x"]
)
def test_check_that_can_fail_is_evidence(check: str) -> None:
    assert list(useless_checks(ast.parse(f"assert {check}"))) == []
