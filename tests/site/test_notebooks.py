"""The notebook of a page has its code, cell by cell, its words and its outputs."""

import ast
import functools
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from urllib.parse import unquote

import nbformat
import pytest
import torch
from nbformat import NotebookNode
from notebooks import (
    FOLD,
    FOLDED,
    FROM,
    add_outputs,
    as_notebook,
    has_notebook,
    translate_comments,
    with_images,
)

from leafgrad import trace_graph
from tests.proving import Cell, Doctest, Page, parse_page

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {
    file.relative_to(DOCS).with_suffix("").as_posix(): text
    for file in sorted(DOCS.rglob("*.md"))
    if has_notebook(text := file.read_text(encoding="utf-8"))
}
PAGE = """\
# A page

See [another](b.md#here), [what no notebook is](../glossary.md) and [the web](https://a.b/c.md).

:::{claim} a/one
:sources: article L1
:since: 2.1
:until: 9

One is **one**,
a {term}`number <numbers>` and {claim}`1 == 1`.
:::

```{code-cell} python
:raises: "ZeroDivisionError: by zero"

print(1)  #> 1
#> 2
1 / 0
```

```{code-cell} python
:tags: [hide-cell]

x = "#> kept"
```
"""


def notebook_of(page: str, text: str) -> NotebookNode:
    return as_notebook(text, page, PAGES, "0.1.0")


def executed_by(notebook: NotebookNode) -> list[str]:
    """Return the code of each cell without its comments, in order."""
    return [ast.unparse(ast.parse(source)) for source in sources(notebook, "code")]


def executed_on(page: str) -> list[str]:
    """Return the code of each cell that the prover executes, without its comments, in order.

    Answers are left out, because a notebook shows them without running them. Rules are left out,
    because they need the prover.
    """
    steps = parse_page(without_answers(PAGES[page]), "page.md").steps
    sources = [s.source for s in steps if isinstance(s, Cell | Doctest)]
    return [ast.unparse(ast.parse(one)) for one in sources if "@for_all(" not in one]


def without_answers(text: str) -> str:
    return FOLD.sub(lambda fold: "" if fold[2] in FOLDED else fold[0], text)


@functools.cache
def read(page: str) -> Page:
    return parse_page(PAGES[page], "page.md")


WITH_UNSEEN_CELLS = [
    page for page, text in PAGES.items() if "remove-input" in text or FROM.match(text)
]


@pytest.mark.parametrize("page", [page for page in PAGES if page not in WITH_UNSEEN_CELLS])
def test_notebook_executes_the_same_code_as_its_page(page: str) -> None:
    notebook = notebook_of(page, PAGES[page])
    nbformat.validate(notebook)
    assert executed_by(notebook) == executed_on(page)


def sources(notebook: NotebookNode, kind: str) -> list[str]:
    return [cell.source for cell in notebook.cells if cell.cell_type == kind]


def test_notebook_has_no_site_markup() -> None:
    assert (has_notebook(PAGE), has_notebook("# No cells\n")) == (True, False)
    notebook = as_notebook(PAGE, "tutorial/a", {"tutorial/a", "tutorial/b"}, "0.1.0")
    assert sources(notebook, "markdown")[1] == (
        "# A page\n\n"
        "See [another](b.ipynb#here), what no notebook is and [the web](https://a.b/c.md).\n\n"
        "> One is **one**, a number and `1 == 1`.\n>\n"
        "> *claim a/one, since PyTorch 2.1, until PyTorch 9*"
    )
    assert sources(notebook, "code") == [
        "# This raises ZeroDivisionError: by zero\nprint(1)\n1 / 0",
        'x = "#> kept"',
    ]


IMPORTING = """\
# A page

```{code-cell} python
import math
import matplotlib.pyplot as plt
from leafgrad import record
from torch import nn
```

```{code-cell} python
from IPython.display import HTML


def late():
    import deepxde
```
"""


def test_notebook_says_how_to_install_its_imports() -> None:
    first = [as_notebook(text, "a", {"a"}, "0.1.0").cells[0].source for text in (PAGE, IMPORTING)]
    assert [re.findall("`python -m (pip .*)`", told) for told in first] == [
        ["pip install . numpy"],
        ["pip install . numpy deepxde matplotlib"],
    ]


NESTED = """\
# A page

::::{fold} The proof
In words.

:::{fold} More
```{code-cell} python
1 + 1
```
:::
::::
"""


def test_folds_of_page_are_open_in_notebook() -> None:
    notebook = as_notebook(NESTED, "tutorial/a", {"tutorial/a"}, "0.1.0")
    assert sources(notebook, "markdown")[1:] == [
        "# A page\n\n**The proof**\n\nIn words.\n\n**More**"
    ]
    assert sources(notebook, "code") == ["1 + 1"]


ANSWERED = """\
**Why?**

:::{fold} 答案
It is {term}`so <a>`:

```{code-cell} python
:raises: "ValueError: a"

print(1)  # one
#> 1
```
:::
"""


def test_notebook_keeps_answers_folded() -> None:
    notebook = as_notebook(ANSWERED, "a", {"a"}, "0.1.0", {"答案"})
    translate_comments(notebook, {"one": "一"})
    assert sources(notebook, "code") == []
    assert sources(notebook, "markdown")[1] == (
        "**Why?**\n\n<details>\n<summary>答案</summary>\n\nIt is so:\n\n"
        "```python\n# This raises ValueError: a\nprint(1)  # 一\n# 1\n```\n\n</details>"
    )


def test_notebook_has_the_outputs_of_its_page() -> None:
    notebook = as_notebook(PAGE, "tutorial/a", {"tutorial/a"}, "0.1.0")
    cells = [
        nbformat.v4.new_code_cell(source, outputs=[nbformat.v4.new_output("stream", text=source)])
        for source in ['x = "#> kept"', "print(1)\n1 / 0"]
    ]
    add_outputs(notebook, nbformat.v4.new_notebook(cells=cells))
    told = [cell.outputs[0].text for cell in notebook.cells if cell.cell_type == "code"]
    assert told == ["print(1)\n1 / 0", 'x = "#> kept"']


def test_notebook_begins_at_the_heading_that_front_matter_names() -> None:
    said = (
        "---\nkeywords: [b]\nnotebook: There\n---\n# A page\n\nHere\n\n## There\n\n"
        "```{code-cell} python\n1\n```\n"
    )
    notebook = as_notebook(said, "tutorial/a", {"tutorial/a"}, "0.1.0")
    needs, heading = sources(notebook, "markdown")
    assert needs.endswith("which is not here.*")
    assert "“A page”" in needs
    assert heading == "## There"


def test_picture_is_an_image_that_untrusted_notebooks_show() -> None:
    x = torch.ones(2, requires_grad=True)
    drawn = trace_graph(x.sin(), names={'<x> & "y" #1 100%': x})
    html = with_images(f"<p>Before</p>{drawn._repr_html_()}")
    assert "<svg" not in html.replace("+xml,<svg", "")
    (name, address) = re.findall('<img alt="(.*?)" src="data:image/svg.xml,(.*?)"', html)[0]
    assert name == "Autograd graph of 2 nodes"
    assert not {*'"#&\n'} & {*address}
    picture = ET.fromstring(unquote(address))
    assert picture.tag.endswith("svg")
    assert '<x> & "y" #1 100%' in {text.text for text in picture.iter()}
    assert html.startswith("<p>Before</p>")
    x = torch.tensor(2.0, requires_grad=True)
    steps = trace_graph(x.sin(), names={"x": x}, gradients=True).steps()
    assert with_images(steps._repr_html_()) == steps._repr_html_()  # A script moves it.
