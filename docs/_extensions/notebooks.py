"""Write a downloadable, self-contained notebook for each page that shows code cells.

The site's directives become plain Markdown. A claim becomes a quotation. A link leads to another of
these notebooks or to another site; otherwise only its text is kept. Hints and answers stay folded.
The code of an answer is shown but not run, because no metadata folds a cell in JupyterLab, VS Code
and Colab alike. All other folds are open. Outputs are copied from the page.
"""

import json
import posixpath
import re
import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import nbformat
from code_comments import in_other_words
from diagnoses import ON_PAGE, program
from docutils import nodes
from light_pictures import lighter
from myst_nb.core.read import read_myst_markdown_notebook
from myst_parser.config.main import MdParserConfig
from nbformat import NotebookNode
from nbformat.v4 import nbbase
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.locale import _
from sphinx.util.osutil import relative_uri
from sphinx.util.typing import ExtensionMetadata
from translated_markdown import messages, translated

FOLDER = "_notebooks"
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
CLAIM = re.compile(
    r"^:::\{claim\} (\S+)\n((?::\w+:[^\n]*\n)*)\n*(.*?)\n*^:::$", re.MULTILINE | re.DOTALL
)
FOLD = re.compile(r"^(:{3,})\{fold\} ([^\n]*)\n(.*?)^\1 *$", re.MULTILINE | re.DOTALL)
CONTAINER = re.compile(r"^(:{3,})\{container\} [^\n]*\n(.*?)^\1 *$", re.MULTILINE | re.DOTALL)
FOLDED = ("Hint", "Answer")
CELL = re.compile(
    r"^```\{code-cell\} python\n((?::[\w-]+:[^\n]*\n)*)\n*(.*?)^```$", re.MULTILINE | re.DOTALL
)
LIVE = re.compile(r"^(`{3}|:{3,})\{live\} .*?^\1\n", re.MULTILINE | re.DOTALL)
SHOWN_CODE = re.compile(r"(?<=^```python\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)
BOUND = re.compile(r"^:(since|until): (\S+)", re.MULTILINE)
RAISES = "This raises"
RAISED = re.compile(r"^:raises: \"(.*)\"$", re.MULTILINE)
TOLD = re.compile(rf"\A# {RAISES} .*\n")
PIN = re.compile(r"^ *#> .*\n?|  #> .*", re.MULTILINE)
CODE_ROLE = re.compile(r"\{(?:claim|value)\}(`+[^`]+`+)")
TEXT_ROLE = re.compile(r"\{[\w:-]+\}`([^`<]+?)(?: <[^`>]*>)?`")
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)")
SHOWN = re.compile(r"^```\{code-cell\} python\n(?!:tags: \[remove-input\])", re.MULTILINE)
"""A code cell whose source the site shows. A page without such a cell has no notebook."""
FROM = re.compile(r"\A---\n(?:.*\n)*?notebook: (.*)\n(?:.*\n)*?---\n")
"""The front matter of a page whose notebook begins at a later heading.

The part before this heading needs files of the site.
"""
LEFT_OUT = "*The page begins with what it reads off other pages of the site, which is not here.*"
PICTURE = re.compile(r"<svg\b[^>]*\bxmlns=.*?</svg>", re.DOTALL)
TITLE = re.compile(r"<title>([^<\"]*)</title>")
UNSEEN = re.compile(r"<(title|desc)>.*?</\1>", re.DOTALL)
"""Elements of an SVG picture that an `<img>` neither shows nor passes to screen readers."""
ATTRIBUTE = re.compile(r"""="([^"'<>]*)"(?=[\s/>])""")
IN_ADDRESS = str.maketrans({"%": "%25", "#": "%23", "&": "%26", '"': "%22", "\n": "%0A"})
INSTALL = "python -m pip install . numpy"
IMPORTED = re.compile(r"^ *(?:from|import) (\w+)", re.MULTILINE)
BROUGHT = frozenset({"IPython", "functorch", "leafgrad", "torch"})
NEEDS = """\
*The page “{title}” of leafgrad's site, as a notebook. It needs leafgrad {release}, which has not
been released yet. In a clone of its repository, run `python -m pip install . numpy`.*
*Then run the cells from top to bottom. A cell that raises on purpose says so, and every assertion
holds.*"""


def has_notebook(text: str) -> bool:
    """Return whether a page shows code cells, and therefore has a notebook."""
    return bool(SHOWN.search(text))


def as_notebook(
    text: str,
    page: str,
    pages: Collection[str],
    release: str,
    folded: Collection[str] = FOLDED,
) -> NotebookNode:
    """Return the Markdown `text` of a page as a notebook.

    `pages` contains the pages that have a notebook. Links to them lead to their notebooks. Folds
    whose title is in `folded` stay closed. `release` is the version of leafgrad that it needs.
    """
    config = MdParserConfig(enable_extensions={"colon_fence", "dollarmath"})
    text = _without_directives(text, folded)
    title = re.search(r"^# (.*)", text, re.MULTILINE)
    begins = FROM.match(text)
    start = text.index(f"\n## {begins[1]}\n") if begins else 0
    with _unchecked():
        notebook: NotebookNode = read_myst_markdown_notebook(text[start:], config)
    shown = [c for c in notebook.cells if "remove-input" not in c.metadata.get("tags", [])]
    for cell in shown:
        if cell.cell_type == "markdown":
            cell.source = _text(cell.source, page, pages)
        else:
            cell.source, cell.metadata = _code(cell)
    others = _not_brought(cell.source for cell in shown if cell.cell_type == "code")
    called = title[1] if title else page
    needs = _needs(called, release, others, LEFT_OUT if begins else "")
    notebook.cells = [needs, *shown]
    notebook.metadata = nbformat.from_dict({"kernelspec": KERNEL})
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"  # This makes each build write the same file.
    return notebook


@contextmanager
def _unchecked() -> Iterator[None]:
    """Make nbformat skip the validation of each new cell, which is slow."""
    check = nbbase.validate
    nbbase.validate = lambda *_, **__: None
    try:
        yield
    finally:
        nbbase.validate = check


def _without_directives(text: str, folded: Collection[str]) -> str:
    """Return the text of a page with plain Markdown instead of containers and folds.

    Live figures and claims about the zoo are left out.
    """

    def fold(found: re.Match[str]) -> str:
        # Unfold the text, so that its code cells become cells of the notebook. Hints and answers
        # stay folded, and show their code as text.
        if found[2] not in folded:
            return f"**{found[2]}**\n\n{found[3]}"
        inside = CELL.sub(_shown, found[3]).strip()
        return f"<details>\n<summary>{found[2]}</summary>\n\n{inside}\n\n</details>\n"

    text = ON_PAGE.sub(lambda found: f"```python\n{program(found[1])}```", text)
    # Omit claims about the zoo (tensors, operations, modules), which a notebook does not have.
    text = CELL.sub(lambda cell: "" if "@for_all(" in cell[2] else cell[0], text)
    text = CONTAINER.sub(r"\2", LIVE.sub("", text))
    while FOLD.search(text):
        text = FOLD.sub(fold, text)
    return text


def _shown(cell: re.Match[str]) -> str:
    """Return a cell as a fenced code block; expected output becomes comments."""
    raises = RAISED.search(cell[1])
    told = f"# {RAISES} {raises[1]}\n" if raises else ""
    return f"```python\n{told}{cell[2].replace('#>', '#')}```"


def add_outputs(notebook: NotebookNode, executed: NotebookNode) -> None:
    """Copy the outputs of the `executed` page to the cells of a notebook with the same code.

    Cells are matched by their code, because those on the page may have another order.
    """
    outputs = defaultdict(list)
    for cell in executed.cells:
        if cell.cell_type == "code":
            outputs[cell.source.strip()].append(cell.outputs)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            found = outputs[TOLD.sub("", cell.source).strip()]
            cell.outputs = found.pop(0) if found else []
            for output in cell.outputs:
                if html := output.get("data", {}).get("text/html"):
                    output.data["text/html"] = with_images(lighter("".join(html)))


def translate_comments(notebook: NotebookNode, said: Mapping[str, str]) -> None:
    """Translate the comments in the code of a notebook.

    `said` maps each comment to its translation.
    """

    def in_language(code: str) -> str:
        raises = TOLD.sub(lambda told: told[0].replace(RAISES, str(_(RAISES)), 1), code)
        return in_other_words(raises, said)

    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.source = in_language(cell.source)
        else:
            cell.source = SHOWN_CODE.sub(lambda code: in_language(code[0]), cell.source)


def with_images(html: str) -> str:
    """Return HTML with each SVG picture as an image, unless it contains a script.

    Notebooks from other people are not trusted until they are run. JupyterLab then shows only the
    text of an SVG picture, but it shows images. Scripts need the picture itself to animate it.
    """
    return html if "<script" in html else PICTURE.sub(_as_image, html)


def _as_image(found: re.Match[str]) -> str:
    title = TITLE.search(found[0])
    name = title[1] if title else "A picture"
    data = as_address(UNSEEN.sub("", found[0]))
    return f'<img alt="{name}" src="data:image/svg+xml,{data}" style="max-width: none">'


def as_address(svg: str) -> str:
    """Return an SVG picture encoded for a `data:` address; base64 would be a third longer."""
    return ATTRIBUTE.sub(r"='\1'", svg).translate(IN_ADDRESS)


def _not_brought(code: Iterable[str]) -> list[str]:
    """Return the modules that `code` imports and that a reader must install besides leafgrad."""
    imported = {name for source in code for name in IMPORTED.findall(source)}
    return sorted(imported - BROUGHT - sys.stdlib_module_names)


def _needs(title: str, release: str, others: list[str], left_out: str) -> NotebookNode:
    needs = _(NEEDS).format(title=title, release=release)
    needs = needs.replace(f"`{INSTALL}`", f"`{' '.join([INSTALL, *others])}`")
    words = f"{needs}\n{_(left_out)}" if left_out else needs
    cell: NotebookNode = nbformat.v4.new_markdown_cell(words)
    return cell


def _code(cell: NotebookNode) -> tuple[str, NotebookNode]:
    """Return the source and the metadata of a code cell for the notebook."""
    raises = cell.metadata.get("raises")
    told = f"# {RAISES} {raises}\n" if raises else ""
    tags = [*cell.metadata.get("tags", []), *(["raises-exception"] if raises else [])]
    metadata: NotebookNode = nbformat.from_dict({"tags": tags} if tags else {})
    return told + PIN.sub("", cell.source).rstrip(), metadata


def _text(text: str, page: str, pages: Collection[str]) -> str:
    def led(found: re.Match[str]) -> str:
        target, _, anchor = found[2].partition("#")
        name = posixpath.normpath(posixpath.join(posixpath.dirname(page), target)).removesuffix(
            ".md"
        )
        if "://" in target:
            return found[0]
        if name not in pages:
            return found[1]
        path = relative_uri(page, name) or posixpath.basename(name)
        return f"[{found[1]}]({path}.ipynb{'#' + anchor if anchor else ''})"

    text = CLAIM.sub(_quoted, text)
    text = TEXT_ROLE.sub(r"\1", CODE_ROLE.sub(r"\1", text))
    return LINK.sub(led, text)


def _quoted(claim: re.Match[str]) -> str:
    sentence = " ".join(claim[3].split())
    bounds = "".join(f", {_(word)} PyTorch {version}" for word, version in BOUND.findall(claim[2]))
    return f"> {sentence}\n>\n> *{_('claim')} {claim[1]}{bounds}*"


def write(
    app: Sphinx,
    page: str,
    _template: str,
    context: dict[str, Any],
    _tree: nodes.document | None,
) -> None:
    """Write the notebook of a page that has one, and add a download link to the page."""
    pages = _pages(app.env)
    if page in pages:
        said = messages(app.config, Path(app.srcdir), page)
        folded = {said.get(title, title) for title in FOLDED}
        text = translated(pages[page], said)
        notebook = as_notebook(text, page, pages, app.config.release, folded)
        executed = Path(app.outdir).parent / "jupyter_execute" / f"{page}.ipynb"
        if executed.is_file():
            add_outputs(notebook, nbformat.v4.reads_json(executed.read_text("utf-8")))
        translate_comments(notebook, said)
        target = Path(app.outdir, FOLDER, f"{page}.ipynb")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(written(notebook), "utf-8")
        file = context["pathto"](f"{FOLDER}/{page}.ipynb", resource=True)
        words = _("Download this page as a notebook")
        context["body"] += f'<p class="notebook"><a download href="{file}">{words}</a></p>'


def written(notebook: NotebookNode) -> str:
    """Return a notebook as compact JSON."""
    return json.dumps(notebook, ensure_ascii=False, separators=(",", ":"))


@cache
def _pages(env: BuildEnvironment) -> dict[str, str]:
    """Return the Markdown of each page that has a notebook, by page name."""
    texts = {name: env.doc2path(name).read_text("utf-8") for name in sorted(env.found_docs)}
    return {name: text for name, text in texts.items() if has_notebook(text)}


def setup(app: Sphinx) -> ExtensionMetadata:
    """Connect `write` to the writing of pages."""
    app.connect("html-page-context", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
