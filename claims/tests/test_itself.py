"""A check that compares a thing with itself is no evidence."""

import ast

import pytest

from sphinx_claims._executing.itself import useless_checks


@pytest.mark.parametrize("check", ["x == x", "(x) is x", "1 == 1", "(x, 'text')"])
def test_check_that_cannot_fail_is_no_evidence(check: str) -> None:
    assert len(list(useless_checks(ast.parse(f"assert {check}")))) == 1


@pytest.mark.parametrize("check", ["x != x", "f() == f()", "x == y", "x == 1 or y"])
def test_check_that_can_fail_is_evidence(check: str) -> None:
    assert list(useless_checks(ast.parse(f"assert {check}"))) == []
