"""The pictures of real models: nothing collides, folded or in full."""

import pytest

from leafgrad._picture.layout import lay_out
from leafgrad._picture.svg.svg import layout_edges, measure_boxes
from leafgrad._picture.view import view_of
from tests.models import MODELS
from tests.picture.layout.geometry import collisions, overlaps

pytestmark = pytest.mark.sweep


@pytest.mark.parametrize("fold", [True, False], ids=["folded", "in full"])
@pytest.mark.parametrize("name", MODELS)
def test_no_box_overlaps_another_and_no_link_crosses_a_box(name: str, *, fold: bool) -> None:
    trace = MODELS[name]()
    shown = view_of(trace, fold=fold)
    boxes = [one.extent() for one in measure_boxes(trace, shown)]
    drawing = lay_out(boxes, layout_edges(shown))
    assert overlaps(boxes, drawing) == []
    assert collisions(boxes, drawing) == []
