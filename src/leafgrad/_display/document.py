"""A page of its own: everything in one text, and nothing from anywhere else."""

import base64
import hashlib
from importlib.resources import files

from leafgrad._display.markup import Markup, element, text


def document(title: str, style: str, content: Markup, code: Markup) -> str:
    """Put a page together, in which `code` is the only script that may run."""
    head = element(
        "head",
        Markup('<meta charset="utf-8">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{_policy(code)}">'),
        element("title", text(title)),
        element("style", Markup(style)),
    )
    return f"<!doctype html>\n{element('html', head, element('body', content), lang='en')}\n"


def _policy(code: str) -> str:
    """Allow this page's own code and style, and nothing from anywhere."""
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"


def resource(package: str, name: str) -> Markup:
    """Read a file that stands in a package."""
    return Markup(files(package).joinpath(name).read_text("utf-8"))
