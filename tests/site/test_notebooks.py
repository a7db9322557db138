"""The notebook of a page runs by itself, in a process that knows nothing of the site.

A notebook has the code of its page, cell by cell, and that runs where the page is proven. What runs
here is what does not run there: what is seen without the folds, and what is left of a page that has
cells which no reader sees.
"""

import ast
import functools
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from multiprocessing import get_start_method
from pathlib import Path
from urllib.parse import unquote

import nbformat
import pytest
import torch
from nbformat import NotebookNode
from notebooks import FOLD, FROM, add_outputs, as_notebook, has_notebook, with_images, written

from leafgrad import trace_graph
from sphinx_claims._page import Cell, Doctest, Page
from sphinx_claims._reading.read import parse_page
from sphinx_claims._versions import broken_bound
from tests.processes import unmeasured

pytestmark = pytest.mark.covered_elsewhere

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {
    file.relative_to(DOCS).with_suffix("").as_posix(): text
    for file in sorted(DOCS.rglob("*.md"))
    if has_notebook(text := file.read_text(encoding="utf-8"))
}
RUN = """
import gc, multiprocessing, nbformat, os, sys
import matplotlib.pyplot, torch, torch._dynamo, torch.autograd.gradcheck, torch.func, torch.testing
from leafgrad import higher_order_grad, laplacian, preflight
from IPython.core.interactiveshell import InteractiveShell

# Who reads no traceback need not wait for the source around each of its lines.
shell = InteractiveShell.instance(history_length=0, xmode="Minimal")
matplotlib.use("agg")
notebooks = {file: nbformat.read(file, as_version=4) for file in sys.argv[1:]}
gc.collect()
gc.freeze()

def run(file):
    for cell in notebooks[file].cells:
        if cell.cell_type == "code":
            raised = not shell.run_cell(cell.source).success
            if raised != ("raises-exception" in cell.metadata.get("tags", [])):
                open(file + ".failed", "w", encoding="utf-8").write(cell.source)
                return
    open(file + ".passed", "w").close()

for file in sys.argv[1:]:
    if multiprocessing.get_start_method() == "spawn":
        shell.reset()
        shell.user_ns["__spec__"] = None  # as in a new one
        torch.set_default_dtype(torch.float32)
        run(file)
    else:
        if os.fork() == 0:
            run(file)
            os._exit(0)
        os.wait()
"""
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


def seen(text: str) -> str:
    """Leave out what is folded: the lesson of a reader who opens no fold."""
    return FOLD.sub("", text)


LESSONS = {page: seen(text) for page, text in PAGES.items() if FOLD.search(text)}


def notebook_of(page: str, text: str) -> NotebookNode:
    return as_notebook(text, page, PAGES, "0.1.0")


def executed_by(notebook: NotebookNode) -> list[str]:
    """Return the code of each cell without its comments, in order."""
    return [ast.unparse(ast.parse(source)) for source in sources(notebook, "code")]


def executed_on(page: str) -> list[str]:
    """Return the code of each cell that the prover executes, without its comments, in order."""
    steps = read(page).steps
    return [ast.unparse(ast.parse(s.source)) for s in steps if isinstance(s, Cell | Doctest)]


@functools.cache
def read(page: str) -> Page:
    return parse_page(PAGES[page], "page.md")


WITH_UNSEEN_CELLS = [
    page for page, text in PAGES.items() if "remove-input" in text or FROM.match(text)
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run notebooks, each in a process of its own that has only imported.

    Where none can be forked they share one, and what fails there runs again, in one of its own.
    """
    folder = tmp_path_factory.mktemp("notebooks")
    whole = {page: PAGES[page] for page in WITH_UNSEEN_CELLS}
    files = []
    for kind, texts in {"whole": whole, "seen": LESSONS}.items():
        for page, text in texts.items():
            notebook = notebook_of(page, text)
            nbformat.validate(notebook)
            files.append(folder / f"{page.replace('/', '-')}-{kind}.ipynb")
            files[-1].write_text(written(notebook), encoding="utf-8")
    run_in_new_processes(folder, files)
    if get_start_method() == "spawn":
        for file in (file for file in files if not file.with_suffix(".ipynb.passed").exists()):
            run_in_new_processes(folder, [file])
    return folder


def run_in_new_processes(folder: Path, files: list[Path]) -> None:
    run = [sys.executable, "-c", RUN, *map(str, files)]
    subprocess.run(run, capture_output=True, check=False, cwd=folder, env=unmeasured())


@pytest.mark.parametrize("page", [page for page in PAGES if page not in WITH_UNSEEN_CELLS])
def test_a_notebook_executes_what_its_page_executes(page: str) -> None:
    notebook = notebook_of(page, PAGES[page])
    nbformat.validate(notebook)
    assert executed_by(notebook) == executed_on(page)


@pytest.mark.parametrize("page", WITH_UNSEEN_CELLS)
def test_a_notebook_without_cells_that_no_reader_sees_runs_by_itself(
    page: str, folder: Path
) -> None:
    assert_runs(page, folder / f"{page.replace('/', '-')}-whole.ipynb")


@pytest.mark.parametrize("page", LESSONS)
def test_what_is_seen_runs_by_itself_and_needs_nothing_of_what_is_folded(
    page: str, folder: Path
) -> None:
    assert_runs(page, folder / f"{page.replace('/', '-')}-seen.ipynb")


def assert_runs(page: str, notebook: Path) -> None:
    if any(broken_bound(claim, torch.__version__) for claim in read(page).claims):
        pytest.skip("it claims something of other versions of torch")
    failed = notebook.with_suffix(".ipynb.failed")
    told = failed.read_text(encoding="utf-8") if failed.exists() else "its process died"
    assert notebook.with_suffix(".ipynb.passed").exists(), told


def test_a_page_with_cells_has_a_notebook() -> None:
    assert has_notebook(PAGE)
    assert not has_notebook("# A page without cells\n")


def sources(notebook: NotebookNode, kind: str) -> list[str]:
    return [cell.source for cell in notebook.cells if cell.cell_type == kind]


def test_a_notebook_has_no_words_of_the_site() -> None:
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


def test_a_notebook_says_how_to_install_all_that_it_imports() -> None:
    first = [as_notebook(text, "a", {"a"}, "0.1.0").cells[0].source for text in (PAGE, IMPORTING)]
    assert [re.findall("`(pip .*)`", told) for told in first] == [
        ["pip install leafgrad"],
        ["pip install leafgrad deepxde matplotlib"],
    ]


FOLDED = """\
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


def test_a_fold_stands_open_in_a_notebook() -> None:
    notebook = as_notebook(FOLDED, "tutorial/a", {"tutorial/a"}, "0.1.0")
    assert sources(notebook, "markdown")[1:] == [
        "# A page\n\n**The proof**\n\nIn words.\n\n**More**"
    ]
    assert sources(notebook, "code") == ["1 + 1"]


def test_a_notebook_has_the_outputs_of_the_page() -> None:
    notebook = as_notebook(PAGE, "tutorial/a", {"tutorial/a"}, "0.1.0")
    cells = [
        nbformat.v4.new_code_cell(source, outputs=[nbformat.v4.new_output("stream", text=source)])
        for source in ['x = "#> kept"', "print(1)\n1 / 0"]
    ]
    add_outputs(notebook, nbformat.v4.new_notebook(cells=cells))
    told = [cell.outputs[0].text for cell in notebook.cells if cell.cell_type == "code"]
    assert told == ["print(1)\n1 / 0", 'x = "#> kept"']


def test_a_notebook_may_begin_where_a_page_says() -> None:
    said = (
        "---\nkeywords: [b]\nnotebook: There\n---\n# A page\n\nHere\n\n## There\n\n"
        "```{code-cell} python\n1\n```\n"
    )
    notebook = as_notebook(said, "tutorial/a", {"tutorial/a"}, "0.1.0")
    needs, heading = sources(notebook, "markdown")
    assert needs.endswith("which is not here.*")
    assert "“A page”" in needs
    assert heading == "## There"


def test_a_picture_is_an_image_that_needs_no_trust() -> None:
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


def test_an_image_has_the_style_of_what_it_shows() -> None:
    rules = (
        ".g{a:1}:root.g{b:1}@media(c:d){.g{e:1}[data-theme=f] .g,.vscode .g{g:1}}"
        ".g text{h:1}.g .box{i:1}.g .gone{j:1}.g .gone,.g .box{k:1}.g [class*=x-]{l:1}"
        ".g [class*=y-]{m:1}"
    )
    inside = '<rect class="box x-1"/>'
    svg = f'<svg xmlns="http://a" class="g"><style>{rules}</style>{inside}</svg>'
    (address,) = re.findall(',(.*?)"', with_images(svg))
    assert re.findall("(.):1", unquote(address)) == [*"abehikl"]
    assert ".gone" not in address


def test_a_picture_that_a_script_moves_stays_in_the_page() -> None:
    x = torch.tensor(2.0, requires_grad=True)
    steps = trace_graph(x.sin(), names={"x": x}, gradients=True).steps()
    assert with_images(steps._repr_html_()) == steps._repr_html_()
