"""The places where long names in a table may be broken."""

import pytest
from narrow_tables import breakable, mark

CASES = {
    "requires_grad": "requires_|grad",
    "torch.nn.Parameter(...)": "torch|.nn|.Parameter(|...)",
    "loss(prediction, y)": "loss(|prediction, y)",
    "create_graph=True": "create_|graph=|True",
    "is_leaf": "is_leaf",
    "x*x+0.5_or_so": "x*x+0.5_|or_|so",
    "a sentence of words": "a sentence of words",
    "&lt;SumBackward0&gt;": "&lt;SumBackward0&gt;",
}


@pytest.mark.parametrize(("name", "expected"), CASES.items())
def test_long_name_may_break_at_its_joints(name: str, expected: str) -> None:
    assert breakable(name) == expected.replace("|", "<wbr>")


def test_line_breaks_are_inserted_in_text_of_tables_only() -> None:
    cell = '<a href="#requires_grad">requires_grad</a>'
    table = f'<table class="docutils align-default"><tr><td>{cell}</td></tr></table>'
    context = {"body": cell + table}
    mark(None, "", "", context, None)  # type: ignore[arg-type]
    marked = cell.replace(">requires_grad", ">requires_<wbr>grad")
    assert context["body"] == cell + table.replace(cell, marked)
