"""Taylor mode: derivatives of any order by one walk forward along the recorded graph.

A truncated Taylor series runs from the inputs to the outputs, through one small rule per kind of
node. It lives in a truncated algebra, of one direction, of several columns or of the Laplacian,
and no rule knows which.
"""

from leafgrad._taylor import _chain, _contract, _solutions
from leafgrad._taylor._custom import CUSTOM, check_function, taylor_rule
from leafgrad._taylor._jet import Jet
from leafgrad._taylor._refusal import Refusal
from leafgrad._taylor._series import Series
from leafgrad._taylor._taylor import Taylor

__all__ = [
    "CUSTOM",
    "OWN_FUNCTIONS",
    "Jet",
    "Refusal",
    "Series",
    "Taylor",
    "check_function",
    "taylor_rule",
]

# Their backward is recorded whole, whatever constants they keep.
OWN_FUNCTIONS = frozenset((*_chain.FUNCTIONS, *_contract.FUNCTIONS, *_solutions.FUNCTIONS))
