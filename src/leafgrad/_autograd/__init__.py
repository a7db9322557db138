"""The one door: every private or undocumented part of PyTorch that leafgrad relies on.

One fact a function, one test a fact in ``tests/autograd``, so that a PyTorch that moves shows here
first.
"""

from leafgrad._autograd.checkpoint import (
    is_reentrant_checkpoint,
    modules_of_reentrant_checkpoint,
)
from leafgrad._autograd.compiled import (
    is_compiled_alone,
    is_without_values,
    node_of_compiled_code,
    outside_compiled_code,
)
from leafgrad._autograd.distributed import (
    handles_dtensor,
    reduction_put_off,
    replicated_parameters,
    sharded_parameters,
    spread,
)
from leafgrad._autograd.elements import below_autograd, lacking_memory, why_unread
from leafgrad._autograd.engine import (
    Gradients,
    donated_buffers_kept,
    gradients_of_all,
    is_memory_missing,
    retained_grads_kept,
    unseen_gradient,
    watched_nodes,
)
from leafgrad._autograd.formula import (
    backward_alone,
    gives_zeros,
    hides_custom_function,
    hides_saved,
    is_compiled,
    is_once_differentiable,
    is_own_formula,
    is_refusal,
    is_scripted,
    is_training_batch_norm,
    is_write_into_view,
    keeps_array,
    kept_tensors,
    lacks_formula,
    may_give_zeros,
    recorded_backward,
    records_gradient,
    refuses,
    registered_backward,
    sent_through,
)
from leafgrad._autograd.forward import (
    Recomputation,
    TensorType,
    applied,
    as_number,
    detached,
    has_tangent,
    in_backward,
    is_cast,
    is_intercepted,
    is_observed,
    is_transformed,
    keeps,
    kept,
    kept_at_hand,
    kind_keeps,
    output_types,
    reader_of_kept,
    reader_of_settings,
    results_in_slots,
    saved_is_at_hand,
    taken,
    was_passed,
    without_tangents,
)
from leafgrad._autograd.graph_structure import (
    GraphStructure,
    number_if_valid,
    number_of,
    numbers_after,
    numbers_after_refusal,
)
from leafgrad._autograd.node import (
    ACCUMULATE_GRAD,
    Successors,
    forward_class,
    forward_outputs,
    has_lasting_type,
    is_leaf_node,
    is_leaf_with_history,
    is_of_its_own_type,
    leaf_variable,
    next_functions,
    next_sequence_nr,
    node_name,
    operator_name,
    own_stem,
    sequence_nr,
    stem,
    types_of_nodes,
)
from leafgrad._autograd.path import Path, edge_by_use, gradient_edge, has_accumulator, path_between
from leafgrad._autograd.running_code import (
    SET_GRAD_ENABLED,
    is_grad_mode,
    is_plain_optimizer,
    remove_hook_on_all,
    stepping_optimizer,
    watched_parameters,
)
from leafgrad._autograd.saved import (
    SavedFacts,
    caches_kept,
    checkpointed_blocks,
    keeps_detached,
    key_text,
    read_saved,
    saved_slots,
    settings,
    signed,
)
from leafgrad._autograd.tensor import (
    as_row,
    base,
    function_mode_stack,
    function_modes,
    functorch_wrapper,
    held_grad,
    is_batch,
    is_invalid_view,
    is_parameter,
    is_view,
    is_wrapped,
    joint_norm,
    may_belong_to_array,
    memory_address,
    place_in_memory,
    plain,
    plain_computation,
    reader,
    shape,
    storage,
    storage_identity,
    storage_reference,
    storages_of_parameters,
    unobserved,
    unwrapped,
    version,
    without_subclasses,
    without_wrappers,
)
from leafgrad._autograd.traversal import Edge, LiveGraph, grad_fn_name, numbered_output, walk
