"""A dash stands where Sphinx means one, and nowhere else."""

from typing import Any, cast

from dashes import write_dashes
from docutils import nodes
from docutils.utils import new_document


def test_double_hyphens_become_dashes_except_in_code() -> None:
    document = new_document("")
    document += nodes.paragraph("", "", nodes.strong("", "x"), nodes.Text(" -- it"))
    document += nodes.literal("", "a -- b")
    write_dashes(cast("Any", None), document)
    assert document.astext() == "x \u2013 it\n\na -- b"
