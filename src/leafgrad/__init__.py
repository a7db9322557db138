"""See what PyTorch autograd sees: tensors, graphs and derivatives, explained and proven."""

from leafgrad._derivative.check_taylor_rule import check_taylor_rule
from leafgrad._derivative.deepxde import patch_deepxde
from leafgrad._derivative.derivative_explanation import DerivativeExplanation
from leafgrad._derivative.explain_derivative import explain_derivative
from leafgrad._derivative.hessian import hessian
from leafgrad._derivative.higher_order_grad import higher_order_grad
from leafgrad._derivative.jacobian import jacobian
from leafgrad._derivative.laplacian import laplacian
from leafgrad._derivative.taylor import Jet, Series, taylor_rule
from leafgrad._explain.explain_grad import explain_grad
from leafgrad._explain.find_nan import find_nan
from leafgrad._explain.findings import InPlaceConflict, Miscounted, OnceDifferentiable, Unregistered
from leafgrad._explain.grad_explanation import GradCause, GradExplanation
from leafgrad._explain.nan_report import NanOrigin, NanReport
from leafgrad._explain.preflight import preflight
from leafgrad._explain.preflight_report import Preflight
from leafgrad._graph.diff import GraphDiff, KindChange
from leafgrad._graph.failure import ForwardFailure
from leafgrad._graph.gradient_norms import GradientNorms, ModuleGradient, ZeroGradients
from leafgrad._graph.memory import GraphMemory, KeptStorage, MemoryShare
from leafgrad._graph.modules import TracedModule
from leafgrad._graph.nodes import CustomFunction, SavedTensor, Source, TracedEdge, TracedNode, Write
from leafgrad._graph.summary import TensorSummary
from leafgrad._graph.traced_inputs import InputUse, TracedInput
from leafgrad._record.cut import Cut, CutKind
from leafgrad._record.record import Recording, record
from leafgrad._steps.step import Step
from leafgrad._steps.steps import BackwardSteps
from leafgrad._tensor.describe_tensor import describe_tensor
from leafgrad._tensor.description import TensorDescription, TensorRole
from leafgrad._trace.graph_trace import GraphTrace
from leafgrad._trace.trace_graph import trace_graph

__all__ = [
    "BackwardSteps",
    "CustomFunction",
    "Cut",
    "CutKind",
    "DerivativeExplanation",
    "ForwardFailure",
    "GradCause",
    "GradExplanation",
    "GradientNorms",
    "GraphDiff",
    "GraphMemory",
    "GraphTrace",
    "InPlaceConflict",
    "InputUse",
    "Jet",
    "KeptStorage",
    "KindChange",
    "MemoryShare",
    "Miscounted",
    "ModuleGradient",
    "NanOrigin",
    "NanReport",
    "OnceDifferentiable",
    "Preflight",
    "Recording",
    "SavedTensor",
    "Series",
    "Source",
    "Step",
    "TensorDescription",
    "TensorRole",
    "TensorSummary",
    "TracedEdge",
    "TracedInput",
    "TracedModule",
    "TracedNode",
    "Unregistered",
    "Write",
    "ZeroGradients",
    "check_taylor_rule",
    "describe_tensor",
    "explain_derivative",
    "explain_grad",
    "find_nan",
    "hessian",
    "higher_order_grad",
    "jacobian",
    "laplacian",
    "patch_deepxde",
    "preflight",
    "record",
    "taylor_rule",
    "trace_graph",
]

__version__ = "0.1.0"


def __dir__() -> list[str]:
    return sorted(__all__)
