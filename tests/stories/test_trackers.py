"""Each story from a tracker has its symptom, and its repair removes it."""

import importlib
import pkgutil

import pytest
import torch
from torch.utils.checkpoint import CheckpointError

from tests.stories import trackers
from tests.stories.score import score_of_tracker
from tests.stories.training import Story, run, symptoms

STORIES = [
    story
    for module in pkgutil.iter_modules(trackers.__path__)
    for story in importlib.import_module(f"{trackers.__name__}.{module.name}").stories
    # Since 2.14.1, the gradient of clamp is zero at its bounds, which masks the infinity.
    if story.title != "a_distance_on_the_sphere_of_equal_points" or torch.__version__ < "2.14.1"
]


INCOMPLETE = {
    "a_backbone_is_frozen_with_a_typo",
    "a_checkpoint_draws_another_dropout_mask",
    "a_checkpoint_routes_by_a_bias_that_it_changes",
    "a_custom_term_is_a_constant",
    "a_density_is_differentiated_by_a_categorical_input",
    "a_frozen_layer_is_unfrozen_by_a_later_loop",
    "a_gradient_is_wanted_for_a_concatenation_made_later",
    "a_gradient_penalty_is_computed_and_not_added",
    "a_lost_gradient_is_hidden_by_requires_grad_of_the_loss",
    "a_module_hook_returns_one_gradient_too_many",
    "a_network_chases_its_own_target",
    "a_parameter_is_moved_in_the_constructor",
    "a_prediction_is_thresholded_in_a_dice_loss",
    "a_running_variance_is_negative",
    "a_slice_of_stacked_parameters_was_not_used",
    "a_warmup_by_step_is_advanced_by_epoch",
    "a_zero_vector_is_normalized",
    "all_answers_of_a_group_get_the_same_reward",
    "an_accumulated_loss_is_not_divided",
    "an_attention_layer_is_never_applied",
    "an_optimized_tensor_is_moved_after_it_requires_grad",
    "autograd_is_called_inside_vmap",
    "both_layers_of_a_gate_start_at_zero",
    "features_of_inference_mode_are_trained_on",
    "gradients_are_cleared_between_backward_and_step",
    "gradients_are_cleared_in_each_microbatch",
    "gradients_are_never_set_to_zero",
    "infinite_weights_are_replaced_row_by_row",
    "layers_in_a_python_list_are_not_trained",
    "one_bad_image_poisons_the_running_statistics",
    "one_return_is_normalized_under_no_grad",
    "padded_negatives_are_divided_by_the_temperature",
    "positions_are_written_into_an_embedding",
    "scaled_gradients_are_clipped",
    "softmax_is_applied_before_cross_entropy",
    "the_backward_cell_is_run_twice",
    "the_discriminator_also_follows_the_generator_loss",
    "the_last_batches_of_an_epoch_are_not_applied",
    "the_second_quantizer_gives_no_gradient",
    "the_state_of_a_cell_is_carried_to_the_next_sequence",
    "validation_is_nan_because_of_a_buffer",
}
"""The stories whose report lacks something; `python -m tests.stories.score` prints what."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "story", [one for one in STORIES if one.title not in INCOMPLETE], ids=lambda story: story.title
)
def test_report_has_cause_code_position_tensor_name_and_working_fix(story: Story) -> None:
    score = score_of_tracker(story)
    assert score.verdict == "whole", score


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.title)
def test_broken_program_shows_symptom_and_repaired_program_does_not(story: Story) -> None:
    broken = run(story.broken, story.names)
    assert set(symptoms(story, broken)) == {story.symptom}, broken.error
    assert type(broken.error) in {type(None), RuntimeError, ValueError, CheckpointError}
    repaired = run(story.repaired, story.names)
    assert repaired.error is None, repaired.error
    assert set(symptoms(story, repaired)) == {""}
    assert all(name in repaired.before or name in story.source[0] for name in story.names)
    assert story.spans
    assert story.address.startswith("https://")
