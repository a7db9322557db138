"""The pictures of real models: nothing collides, folded or in full."""

import pytest

from leafgrad._picture.layout import draw
from leafgrad._picture.svg.svg import links_of, sketches_of
from leafgrad._picture.view import picture
from tests.models import MODELS
from tests.picture.layout.geometry import collisions, overlaps


@pytest.mark.parametrize("fold", [True, False], ids=["folded", "in full"])
@pytest.mark.parametrize("name", MODELS)
def test_no_box_overlaps_another_and_no_link_crosses_a_box(name: str, *, fold: bool) -> None:
    trace = MODELS[name]()
    shown = picture(trace, fold=fold)
    boxes = [sketch.box() for sketch in sketches_of(trace, shown)]
    drawing = draw(boxes, links_of(shown))
    assert overlaps(boxes, drawing) == []
    assert collisions(boxes, drawing) == []
