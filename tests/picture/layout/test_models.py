"""Pictures of models have no collisions."""

from itertools import pairwise

import pytest

from tests.models import MODELS
from tests.picture.layout.geometry import collisions, overlaps
from tests.picture.picture import picture_of

HEAD = 6  # distance from the end of a line to the tip of its arrow

pytestmark = pytest.mark.sweep


@pytest.mark.parametrize("direction", ["backward", "forward"])
@pytest.mark.parametrize("fold", [True, False], ids=["folded", "in full"])
@pytest.mark.parametrize("name", MODELS)
def test_layout_of_model_has_no_collision_and_no_upward_arrow(
    name: str, direction: str, *, fold: bool
) -> None:
    shown = picture_of(MODELS[name](), fold=fold, direction=direction)
    boxes = [(box.rect.left, box.rect.top, box.rect.right, box.rect.bottom) for box in shown.boxes]
    assert overlaps(boxes) == []
    # Rounding to a tenth of a pixel may make a line touch its own box.
    inner = [(left + 1, top + 1, right - 1, bottom - 1) for left, top, right, bottom in boxes]
    assert collisions(inner, shown.paths) == []
    for points in shown.paths:
        assert all(above < below + HEAD for (_, above), (_, below) in pairwise(points))
