"""The types of what leafgrad's functions return, for type annotations."""

from leafgrad._debug.session import StepReport
from leafgrad._derivative.derivative_explanation import DerivativeExplanation
from leafgrad._diagnosis.diagnosis import Diagnosis, Edit, Help, Severity, Span
from leafgrad._graph.gradient_norms import GradientNorms, ModuleGradient
from leafgrad._graph.memory import GraphMemory, MemoryShare
from leafgrad._graph.modules import TracedModule
from leafgrad._graph.nodes import (
    CustomFunction,
    InputUse,
    SavedTensor,
    Source,
    TracedEdge,
    TracedInput,
    TracedNode,
    Write,
)
from leafgrad._graph.summary import TensorSummary
from leafgrad._steps.step import Step
from leafgrad._steps.steps import BackwardSteps
from leafgrad._tensor.description import TensorRole

__all__ = [
    "BackwardSteps",
    "CustomFunction",
    "DerivativeExplanation",
    "Diagnosis",
    "Edit",
    "GradientNorms",
    "GraphMemory",
    "Help",
    "InputUse",
    "MemoryShare",
    "ModuleGradient",
    "SavedTensor",
    "Severity",
    "Source",
    "Span",
    "Step",
    "StepReport",
    "TensorRole",
    "TensorSummary",
    "TracedEdge",
    "TracedInput",
    "TracedModule",
    "TracedNode",
    "Write",
]
