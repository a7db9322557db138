"""Wrap every private or undocumented part of PyTorch that leafgrad uses.

The rest of leafgrad calls these functions and never PyTorch's private names. Each function relies
on one fact about PyTorch, and ``tests/autograd`` tests each fact. If a new PyTorch release changes
one, those tests fail first.
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
    postpone_static_graph_setup,
    replicated_parameters,
    sharded_parameters,
    spread,
)
from leafgrad._autograd.elements import below_autograd, lacking_memory, why_unread
from leafgrad._autograd.engine import (
    Gradients,
    gradients_of_all,
    is_memory_missing,
    preserve_donated_buffers,
    preserve_retained_grads,
    unseen_gradient,
    watch_nodes,
)
from leafgrad._autograd.formula import (
    all_twice_differentiable,
    call_backward,
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
    refuses,
    registered_backward,
    sample_backward,
    sample_gradients,
)
from leafgrad._autograd.forward import (
    Recomputation,
    TensorType,
    applied,
    as_number,
    detached,
    has_tangent,
    is_cast,
    is_intercepted,
    is_observed,
    is_transformed,
    keeps,
    kept,
    kept_at_hand,
    kind_keeps,
    output_types,
    pop_saved_tensors,
    reader_of_kept,
    reader_of_settings,
    results_in_slots,
    run_in_backward,
    saved_is_at_hand,
    was_freed,
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
    checkpointed_blocks,
    key_text,
    preserve_checkpoint_caches,
    read_saved,
    saved_a_detached_tensor,
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
