"""HTML documents, and how a notebook or a browser shows them."""

import base64
import hashlib
import sys
import tempfile
import webbrowser
from collections.abc import Callable
from html import escape
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

from leafgrad._display.markup import Markup, element, text
from leafgrad._messages import language, message

Bundle = dict[str, str]
"""The forms of a value that a notebook can show, by MIME type."""

MOST_CHARACTERS = 1_000_000
"""The maximum length of a page in a notebook: it is saved with the notebook."""

FRAME = "leafgrad-page"


def running_shell() -> Any:
    """Return the IPython shell that runs this code, None outside IPython."""
    interactive = sys.modules.get("IPython")
    return getattr(interactive, "get_ipython", lambda: None)()


def in_notebook() -> bool:
    """Return whether this code runs in a Jupyter notebook."""
    return hasattr(running_shell(), "kernel")


def bundle_of(value: Any, page: Callable[[], str]) -> Bundle:
    """Return the MIME bundle for a value, empty in an IPython terminal.

    In a notebook, it contains the text and the HTML that `page()` returns. Outside IPython, for
    example while a site is built, it contains the text and HTML without scripts.
    """
    if in_notebook():
        return {"text/plain": str(value), "text/html": page()}
    if running_shell() is not None:
        return {}
    return {"text/plain": repr(value), "text/html": value._repr_html_()}


def embed_page(page: str, *, name: str, height: float, instead: Markup) -> Markup:
    """Return a page in an HTML frame, with a fallback for notebooks that are not trusted.

    JupyterLab removes frames and stylesheets from such notebooks. Then the fallback appears, which
    the stylesheet otherwise hides.
    """
    source = page.replace("&", "&amp;").replace("'", "&#39;")
    frame = (
        f'<iframe title="{escape(name)}" sandbox="allow-scripts" width="100%" '
        f"height=\"{height:.0f}\" srcdoc='{source}'></iframe>"
    )
    return element(
        "div",
        element("style", Markup(STYLE)),
        Markup(frame),
        element("div", instead, class_="instead"),
        class_=FRAME,
    )


STYLE = f"""
.{FRAME}>.instead{{display:none}}
.{FRAME}>iframe{{border:1px solid #8884;border-radius:4px;resize:vertical}}
:is([data-jp-theme-light=false],.vscode-dark) .{FRAME}>iframe{{color-scheme:dark}}
:is([data-jp-theme-light=true],.vscode-light) .{FRAME}>iframe{{color-scheme:light}}
""".replace("\n", "")


def image(picture: str, *, name: str) -> Markup:
    """Return an SVG as an HTML image, which sanitizers of notebooks keep."""
    data = base64.b64encode(picture.encode()).decode()
    source = Markup(f"data:image/svg+xml;base64,{data}")
    shown = element("img", alt=name, src=source, style="max-width: none")
    return element("div", shown, style="overflow-x: auto")


def show(value: object, page: Callable[[], str]) -> None:
    """Show a value in the running notebook, or its page in a browser."""
    if in_notebook():
        import_module("IPython.display").display(value)
        return
    content = page()
    file = Path(tempfile.mkdtemp(prefix="leafgrad-"), "page.html")
    file.write_text(content, encoding="utf-8")
    if not webbrowser.open(file.as_uri()):
        raise RuntimeError(message("errors.display.browser", file=file))


def document(title: str, style: str, content: Markup, code: Markup) -> str:
    """Return an HTML document in which `code` is the only script that may run."""
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    head = element(
        "head",
        Markup('<meta charset="utf-8">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        element("title", text(title)),
        element("style", Markup(style)),
    )
    page = element("html", head, element("body", content), lang=language().replace("_", "-"))
    return f"<!doctype html>\n{page}\n"


def resource(package: str, name: str) -> Markup:
    """Return the text of a file in a package, such as a stylesheet."""
    return Markup(files(package).joinpath(name).read_text("utf-8"))
