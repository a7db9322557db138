"""Which names in highlighted code lead somewhere, and where."""

import re
from pathlib import Path

import pytest
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace

from tests.sphinx_builds import build

CONF = """
extensions = ["sphinx.ext.autodoc", "sphinx.ext.intersphinx", "accessible", "code_links"]
source_suffix = {".rst": "restructuredtext"}  # the default dict is shared between sites
intersphinx_mapping = {"torch": ("https://a.b/c", "torch.txt")}
"""
INVENTORY = """\
# Sphinx inventory version 1
# Project: PyTorch
# Version: stable
torch.nn.Linear class generated/torch.nn.Linear.html
torch.nn.Linear.bias attribute generated/torch.nn.Linear.html
"""
HEAD = "A\n=\n\n.. function:: leafgrad.trace_graph\n\n.. code-block:: python\n\n   "
TORCH = 'href="https://a.b/c/generated/torch.nn.Linear.html"'
OURS = 'href="#leafgrad.trace_graph"'


@pytest.fixture
def links(tmp_path: Path) -> "Links":
    return Links(tmp_path)


class Links:
    """`links(code)` returns the links of a page that shows `code`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for name, text in {"conf.py": CONF, "torch.txt": INVENTORY}.items():
            (folder / name).write_text(text)

    def __call__(self, code: str) -> list[str]:
        (self._folder / "index.rst").write_text(HEAD + code)
        out = self._folder / "_build"
        with docutils_namespace():
            build(Sphinx(self._folder, self._folder, out, out, "html", status=None))
        blocks = re.findall("<pre.*?</pre>", (out / "index.html").read_text(), re.DOTALL)
        return [link for block in blocks for link in re.findall("<a ([^>]*)>", block)]


NEXT = "\n\n.. code-block:: python\n\n   "
SECTION = f"\n\nB\n-{NEXT}"
CASES = {
    "torch": ("y = torch.nn.Linear(1, 2)", [TORCH]),
    "nn": ("y = nn.Linear(1, 2)", [TORCH]),
    "unknown to the inventory": ("y = torch.nn.Other(1)", []),
    "of something else": ("y = my.torch_nn.Linear(1)", []),
    "imported": ("from leafgrad import trace_graph", [OURS]),
    "used again": ("from leafgrad import trace_graph\n   trace_graph(y)", [OURS]),
    "a part of a page": ("torch.nn.Linear.bias", [f'{TORCH[:-1]}#torch.nn.Linear.bias"']),
    "used in the next block": (f"torch.nn.Linear(){NEXT}torch.nn.Linear()", [TORCH]),
    "used in the next section": (f"torch.nn.Linear(){SECTION}torch.nn.Linear()", [TORCH, TORCH]),
    "not imported": ("trace_graph(y)", []),
    "not public": ("from leafgrad import Trace\n   Trace()", []),
    "an attribute": ("import leafgrad\n   y.trace_graph(y)", []),
    "another thing of that name": ("import leafgrad\n   trace_graph = 1", []),
}


@pytest.mark.parametrize(("code", "expected"), CASES.values(), ids=CASES)
def test_name_in_code_links_to_its_documentation(
    code: str, expected: list[str], links: Links
) -> None:
    assert links(code) == expected
