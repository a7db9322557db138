"""Which constants of a test are what it expects, and which belong to what is tested?"""

import ast
import itertools
from collections.abc import Collection, Iterator

from sphinx_claims._mutating.edit import Group
from sphinx_claims._python import CLOSE, EQUAL, TOLERANCES, last_name

_UNEQUAL = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.NotEq, ast.IsNot, ast.NotIn)
_COMPARING = CLOSE | EQUAL | {"abs", "all", "any"}
_LITERAL = (
    *(ast.Constant, ast.UnaryOp, ast.unaryop, ast.BinOp, ast.operator),
    *(ast.Dict, ast.List, ast.Set, ast.Tuple, ast.expr_context),
)


class Roles:
    """The part that each constant plays in a piece of Python that holds `tests`."""

    def __init__(self, tree: ast.AST, tests: Collection[ast.expr]) -> None:
        self._tests = frozenset(tests)
        self._parents = {
            child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)
        }

    def test_of(self, node: ast.AST) -> ast.AST | None:
        """Return the test that `node` is a part of."""
        above = [node, *(parent for _, parent in self._climb(node))]
        return above[-1] if above[-1] in self._tests else None

    def option_of(self, node: ast.Constant) -> str:
        """Return the name of the option that a constant is given to; nothing where it is none."""
        above = self._parents.get(node)
        return above.arg or "" if isinstance(above, ast.keyword) else ""

    def of(self, node: ast.Constant) -> Group | None:
        """Return whether a constant is checked or a part of the subject; None for a tolerance.

        Checked is what stands beside an operator or in one call there, as in
        `x.grad == array(6.0)`. Attributes, options, indices, calls of calls, and calls
        that are compared with a constant are all about the subject.
        """
        role: Group = "subject" if self.test_of(node) is None else "check"
        calls = 0
        for below, above in self._climb(node):
            match above:
                case ast.Assert() | ast.JoinedStr():  # what an assert says when it fails
                    return None
                case ast.keyword(arg=name) if name in TOLERANCES:
                    return None
                case ast.keyword() | ast.Attribute() | ast.Subscript():
                    role = "subject"
                case ast.Call(func=function):
                    is_flag = isinstance(below, ast.Constant) and isinstance(below.value, bool)
                    role = "subject" if is_flag else role
                    calls += last_name(function) not in _COMPARING
                case ast.Compare():
                    if _is_bound(below, above):
                        return None
                    others = (other for other in _sides(above) if other is not below)
                    most = 0 if any(map(_is_literal, others)) else 1
                    role = "subject" if calls > most else role
                    calls = 0
        return "subject" if calls > 1 else role

    def _climb(self, node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
        """Yield each pair of a node and the one that it is in, up to the test around them."""
        while node in self._parents and node not in self._tests:
            yield node, self._parents[node]
            node = self._parents[node]


def is_exact(test: ast.AST) -> bool:
    """Return whether `test` is one that a slightly different number fails."""
    compares = (node for node in ast.walk(test) if isinstance(node, ast.Compare))
    return not any(isinstance(sign, _UNEQUAL) for compare in compares for sign in compare.ops)


def _is_bound(side: ast.AST, compare: ast.Compare) -> bool:
    signs = zip(compare.ops, itertools.pairwise(_sides(compare)), strict=True)
    unequal = any(side in pair and isinstance(sign, _UNEQUAL) for sign, pair in signs)
    return unequal and _is_literal(side)


def _sides(compare: ast.Compare) -> list[ast.expr]:
    return [compare.left, *compare.comparators]


def _is_literal(node: ast.AST) -> bool:
    return all(isinstance(part, _LITERAL) for part in ast.walk(node))
