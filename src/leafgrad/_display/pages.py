"""HTML pages, and how to show them in a notebook or a browser."""

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
"""What a notebook may show, by the kind of it."""

MOST_CHARACTERS = 1_000_000
"""How long a page may be that goes into a notebook, which is a file that one keeps."""

FRAME = "leafgrad-page"


def running_shell() -> Any:
    """Return the IPython shell that runs this code, None outside IPython."""
    interactive = sys.modules.get("IPython")
    return getattr(interactive, "get_ipython", lambda: None)()


def in_notebook() -> bool:
    """Return whether this is the kernel of a notebook."""
    return hasattr(running_shell(), "kernel")


def bundle_of(value: Any, page: Callable[[], str]) -> Bundle:
    """Return what IPython shows of a value: a page in a notebook, nothing in a terminal.

    Where no IPython runs, what asks, such as the builder of a site, gets the picture that stands
    still.
    """
    if in_notebook():
        return {"text/plain": str(value), "text/html": page()}
    if running_shell() is not None:
        return {}
    return {"text/plain": repr(value), "text/html": value._repr_html_()}


def embed_page(page: str, *, name: str, height: float, instead: Markup) -> Markup:
    """Put a page into a frame, with a fallback for a notebook that is not trusted.

    JupyterLab leaves out frames and stylesheets of notebooks that were not run there, and keeps
    what is `instead`, which the stylesheet hides.
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
    """Return an SVG as an image, which sanitizers leave intact."""
    data = base64.b64encode(picture.encode()).decode()
    source = Markup(f"data:image/svg+xml;base64,{data}")
    shown = element("img", alt=name, src=source, style="max-width: none")
    return element("div", shown, style="overflow-x: auto")


def show(value: object, page: Callable[[], str]) -> None:
    """Show a value in the running notebook, else its page in a browser."""
    if in_notebook():
        import_module("IPython.display").display(value)
        return
    content = page()
    file = Path(tempfile.mkdtemp(prefix="leafgrad-"), "page.html")
    file.write_text(content, encoding="utf-8")
    if not webbrowser.open(file.as_uri()):
        raise RuntimeError(message("errors.display.browser", file=file))


def document(title: str, style: str, content: Markup, code: Markup) -> str:
    """Return a page in which `code` is the only script that may run."""
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
    """Read a file of a package."""
    return Markup(files(package).joinpath(name).read_text("utf-8"))
