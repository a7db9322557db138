"""See what PyTorch autograd sees: tensors, graphs and derivatives, explained and proven."""

from leafgrad import types as types
from leafgrad._debug.session import debug
from leafgrad._derivative.check_taylor_rule import check_taylor_rule
from leafgrad._derivative.deepxde import patch_deepxde
from leafgrad._derivative.explain_derivative import explain_derivative
from leafgrad._derivative.hessian import hessian
from leafgrad._derivative.higher_order_grad import higher_order_grad
from leafgrad._derivative.jacobian import jacobian
from leafgrad._derivative.laplacian import laplacian
from leafgrad._derivative.stde import stde
from leafgrad._derivative.taylor import Jet, Series, taylor_rule
from leafgrad._diagnosis.diagnose import diagnose
from leafgrad._diagnosis.report import Report
from leafgrad._messages import set_language
from leafgrad._record.record import Recording, record
from leafgrad._tensor.describe_tensor import describe_tensor
from leafgrad._tensor.description import TensorDescription
from leafgrad._trace.graph_trace import GraphTrace
from leafgrad._trace.trace_graph import trace_graph

__all__ = [
    "GraphTrace",
    "Jet",
    "Recording",
    "Report",
    "Series",
    "TensorDescription",
    "check_taylor_rule",
    "debug",
    "describe_tensor",
    "diagnose",
    "explain_derivative",
    "hessian",
    "higher_order_grad",
    "jacobian",
    "laplacian",
    "patch_deepxde",
    "record",
    "set_language",
    "stde",
    "taylor_rule",
    "trace_graph",
]

__version__ = "0.1.0"


def __dir__() -> list[str]:
    return sorted([*__all__, "types"])
