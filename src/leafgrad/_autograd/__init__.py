"""The one door: every private or undocumented part of PyTorch that leafgrad relies on.

One fact a function, one test a fact in ``tests/autograd``, so that a PyTorch that moves shows here
first.
"""

from leafgrad._autograd._engine import (
    Gradients,
    gradients_of,
    retained_grads_kept,
    watched_nodes,
)
from leafgrad._autograd._formula import (
    backward_alone,
    hides_saved,
    is_compiled,
    is_own_formula,
    is_refusal,
    is_training_batch_norm,
    is_write_into_view,
    kept_tensors,
    lacks_formula,
    uses_running_statistics,
)
from leafgrad._autograd._forward import (
    TensorType,
    in_backward,
    is_recomputed,
    keeps,
    kept,
    output_types,
)
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
from leafgrad._autograd._numbers import holds_numbers, numbered_output, results_in_slots, unseen
from leafgrad._autograd._path import Edge, edge, gradient_edge, has_accumulator, nodes_between
from leafgrad._autograd._saved import Slot, State, saved_slots
from leafgrad._autograd._sequence import next_sequence_nr, sequence_nr
from leafgrad._autograd._skeleton import Skeleton, number_of
from leafgrad._autograd._tensor import (
    base,
    facts,
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
    "Gradients",
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
    "facts",
    "forward_class",
    "forward_outputs",
    "function_modes",
    "functorch_wrapper",
    "grad_fn_name",
    "gradient_edge",
    "gradients_of",
    "has_accumulator",
    "has_grad",
    "hides_saved",
    "holds_numbers",
    "in_backward",
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
    "numbered_output",
    "output_types",
    "plain",
    "results_in_slots",
    "retained_grads_kept",
    "saved_slots",
    "sequence_nr",
    "shape",
    "storage",
    "survey",
    "unobserved",
    "unseen",
    "unwrapped",
    "uses_running_statistics",
    "version",
    "walk",
    "watched_nodes",
]
