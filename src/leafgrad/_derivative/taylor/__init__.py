"""Taylor mode: derivatives of any order by one forward walk along the autograd graph.

A truncated Taylor series, a stack ``[K, *shape]`` of coefficients, is propagated from the inputs to
the outputs. Each kind of node has a small rule for this. An algebra (see `algebra`) defines which
coefficients a series has and how they multiply: those of one direction, of several columns, or of
the Laplacian. The rules work for all algebras.
"""

from leafgrad._derivative.taylor.custom import CUSTOM, check_function, taylor_rule
from leafgrad._derivative.taylor.expansion import Taylor
from leafgrad._derivative.taylor.jet import Jet
from leafgrad._derivative.taylor.kernels import contraction, fused, recurrences
from leafgrad._derivative.taylor.propagate import check_rules
from leafgrad._derivative.taylor.readable import may_read
from leafgrad._derivative.taylor.series import Series
from leafgrad._derivative.taylor.unsupported import Unsupported

__all__ = [
    "CUSTOM",
    "OWN_FUNCTIONS",
    "Jet",
    "Series",
    "Taylor",
    "Unsupported",
    "check_function",
    "check_rules",
    "may_read",
    "taylor_rule",
]

# The backward of these functions can be differentiated again, whatever constants it uses.
OWN_FUNCTIONS = frozenset((*fused.FUNCTIONS, *contraction.FUNCTIONS, *recurrences.FUNCTIONS))
