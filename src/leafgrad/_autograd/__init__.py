"""The one door: every private or undocumented part of PyTorch that leafgrad relies on.

One fact a function, one test a fact in ``tests/autograd``, so that a PyTorch that moves shows here
first.
"""

from leafgrad._autograd._formula import (
    backward_alone,
    is_compiled,
    is_own_formula,
    is_refusal,
    is_training_batch_norm,
    is_write_into_view,
    kept_tensors,
    lacks_formula,
    uses_running_statistics,
)
from leafgrad._autograd._forward import TensorType, is_recomputed, keeps, kept, output_types
from leafgrad._autograd._node import (
    ForwardOutput,
    OutputReader,
    Successors,
    forward_class,
    forward_outputs,
    is_leaf_node,
    is_of_its_own_type,
    leaf_variable,
    next_functions,
    node_name,
)
from leafgrad._autograd._path import Edge, edge, gradient_edge, has_accumulator, nodes_between
from leafgrad._autograd._saved import Slot, State, saved_slots
from leafgrad._autograd._sequence import next_sequence_nr, sequence_nr
from leafgrad._autograd._skeleton import Skeleton, number_of
from leafgrad._autograd._tensor import (
    base,
    function_modes,
    has_grad,
    is_invalid_view,
    is_parameter,
    is_parameter_or_view,
    is_view,
    plain,
    shape,
    storage,
    unobserved,
    version,
)
from leafgrad._autograd._twice import is_marked_once_differentiable, is_once_differentiable
from leafgrad._autograd._walk import Wiring, grad_fn_name, survey, walk
from leafgrad._autograd._wrapper import functorch_wrapper, unwrapped

__all__ = [
    "Edge",
    "ForwardOutput",
    "OutputReader",
    "Skeleton",
    "Slot",
    "State",
    "Successors",
    "TensorType",
    "Wiring",
    "backward_alone",
    "base",
    "edge",
    "forward_class",
    "forward_outputs",
    "function_modes",
    "functorch_wrapper",
    "grad_fn_name",
    "gradient_edge",
    "has_accumulator",
    "has_grad",
    "is_compiled",
    "is_invalid_view",
    "is_leaf_node",
    "is_marked_once_differentiable",
    "is_of_its_own_type",
    "is_once_differentiable",
    "is_own_formula",
    "is_parameter",
    "is_parameter_or_view",
    "is_recomputed",
    "is_refusal",
    "is_training_batch_norm",
    "is_view",
    "is_write_into_view",
    "keeps",
    "kept",
    "kept_tensors",
    "lacks_formula",
    "leaf_variable",
    "next_functions",
    "next_sequence_nr",
    "node_name",
    "nodes_between",
    "number_of",
    "output_types",
    "plain",
    "saved_slots",
    "sequence_nr",
    "shape",
    "storage",
    "survey",
    "unobserved",
    "unwrapped",
    "uses_running_statistics",
    "version",
    "walk",
]
