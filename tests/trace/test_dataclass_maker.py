"""Values made from columns are as good as those that their own constructor makes."""

import pickle
from dataclasses import FrozenInstanceError, replace

import pytest

from leafgrad import TracedEdge
from leafgrad._trace.dataclass_maker import from_columns


def test_values_made_from_columns_equal_those_made_one_by_one() -> None:
    made = from_columns(
        TracedEdge, source=[0, 1], target=iter([1, None]), input_nr=(0, 2), output_nr=range(2)
    )
    assert made == [
        TracedEdge(source=0, target=1, input_nr=0, output_nr=0),
        TracedEdge(source=1, target=None, input_nr=2, output_nr=1),
    ]


def test_a_value_made_from_columns_is_frozen_hashed_pickled_and_replaced_as_any_other() -> None:
    (made,) = from_columns(TracedEdge, source=[0], target=[1], input_nr=[0], output_nr=[0])
    assert pickle.loads(pickle.dumps(made)) == made
    assert hash(made) == hash(TracedEdge(source=0, target=1, input_nr=0, output_nr=0))
    assert replace(made, target=None).target is None
    with pytest.raises(FrozenInstanceError):
        made.source = 1


def test_a_field_without_column_and_default_is_not_made_up() -> None:
    with pytest.raises(TypeError, match="object layout differs"):
        from_columns(TracedEdge, source=[0], input_nr=[0], output_nr=[0])


def test_a_column_without_field_is_not_lost() -> None:
    with pytest.raises(TypeError, match="object layout differs"):
        from_columns(TracedEdge, source=[0], target=[1], input_nr=[0], output_nr=[0], nr=[0])


def test_columns_of_two_lengths_are_not_cut() -> None:
    with pytest.raises(ValueError, match="longer"):
        from_columns(TracedEdge, source=[0], target=[1, 2], input_nr=[0], output_nr=[0])
