"""The notebook of a page runs by itself, in a process that knows nothing of the site.

A notebook has the code of its page, and that runs where the page is proven. What runs here is what
does not run there: what is seen without the folds, and what is left of a page that has cells which
no reader sees. `nox -s docs` has both run.
"""

import subprocess
import sys
from multiprocessing import get_start_method
from pathlib import Path

import nbformat
import pytest
import torch
from notebooks import FOLD, written

from tests.proving import broken_bound
from tests.site.built import needs_site
from tests.site.test_notebooks import PAGES, WITH_UNSEEN_CELLS, notebook_of, read

pytestmark = needs_site

RUN = """
import gc, multiprocessing, nbformat, os, sys
import matplotlib.pyplot, torch, torch._dynamo, torch.autograd.gradcheck, torch.func, torch.testing
from leafgrad import diagnose, higher_order_grad, laplacian
from IPython.core.interactiveshell import InteractiveShell

# Minimal tracebacks do not read the source of each frame.
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
        shell.user_ns["__spec__"] = None  # as in a new process, without loaded modules
        torch.set_default_dtype(torch.float32)
        run(file)
    else:
        if os.fork() == 0:
            run(file)
            os._exit(0)
        os.wait()
"""


def seen(text: str) -> str:
    """Return the text without folds, as for a reader who opens none of them."""
    return FOLD.sub("", text)


LESSONS = {page: seen(text) for page, text in PAGES.items() if FOLD.search(text)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run notebooks, each in a new process that has only imported its modules.

    If the system cannot fork, they share a process. Those that fail there run again in a new one.
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
    subprocess.run(run, capture_output=True, check=False, cwd=folder)


@pytest.mark.parametrize("page", WITH_UNSEEN_CELLS)
def test_notebook_without_hidden_cells_runs_by_itself(page: str, folder: Path) -> None:
    assert_runs(page, folder / f"{page.replace('/', '-')}-whole.ipynb")


@pytest.mark.parametrize("page", LESSONS)
def test_code_of_page_runs_without_its_folds(page: str, folder: Path) -> None:
    assert_runs(page, folder / f"{page.replace('/', '-')}-seen.ipynb")


def assert_runs(page: str, notebook: Path) -> None:
    if any(broken_bound(claim, torch.__version__) for claim in read(page).claims):
        pytest.skip("it claims something of other versions of torch")
    failed = notebook.with_suffix(".ipynb.failed")
    told = failed.read_text(encoding="utf-8") if failed.exists() else "its process died"
    assert notebook.with_suffix(".ipynb.passed").exists(), told
