"""See what PyTorch autograd sees: tensors, graphs and derivatives, explained and proven."""

from leafgrad._derivative import higher_order_grad
from leafgrad._graph import trace_graph
from leafgrad._laplacian import laplacian
from leafgrad._taylor import Jet, Series, taylor_rule
from leafgrad._tensor import TensorDescription, TensorRole, describe_tensor
from leafgrad._trace import CustomFunction, GraphTrace, SavedTensor, TracedEdge, TracedNode

__all__ = [
    "CustomFunction",
    "GraphTrace",
    "Jet",
    "SavedTensor",
    "Series",
    "TensorDescription",
    "TensorRole",
    "TracedEdge",
    "TracedNode",
    "describe_tensor",
    "higher_order_grad",
    "laplacian",
    "taylor_rule",
    "trace_graph",
]

__version__ = "0.1.0"


def __dir__() -> list[str]:
    return sorted(__all__)
