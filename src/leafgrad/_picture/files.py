"""A graph in a file, in the form that the ending of the file's name asks for."""

import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path

from leafgrad._graph.graph import Graph
from leafgrad._graph.serialize import graph_to_dict
from leafgrad._picture import dot, mermaid, text
from leafgrad._picture.html import page
from leafgrad._picture.look import Look
from leafgrad._picture.svg import svg
from leafgrad._picture.svg.style import LIGHT
from leafgrad._picture.view import Fold, Open

PATIENCE = 120.0
"""Seconds that a program may take to convert a picture."""

TEXTS: Mapping[str, Callable[[Graph], str]] = {
    ".dot": dot.dot,
    ".gv": dot.dot,
    ".json": lambda graph: json.dumps(graph_to_dict(graph)),
    ".mmd": mermaid.mermaid,
    ".txt": text.text,
}
CONVERTED = (".pdf", ".png")
DRAWN = (".html", ".svg", *CONVERTED)
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome", "msedge")


def save(
    graph: Graph,
    path: str | PathLike[str],
    *,
    fold: Fold,
    open: Open = (),  # noqa: A002
    look: Look,
) -> Path:
    """Write a graph into a file, all of it or nothing, and return the file."""
    if not isinstance(path, str | PathLike):
        raise TypeError(f"path must be a str or a path, not {type(path).__name__}; name the file")
    target = Path(path)
    ending = target.suffix.lower()
    if ending in TEXTS:
        target.write_text(TEXTS[ending](graph), encoding="utf-8")
    elif ending == ".html":
        target.write_text(page.page(graph, look), encoding="utf-8")
    elif ending == ".svg":
        target.write_text(svg.svg(graph, fold=fold, open=open, look=look), encoding="utf-8")
    elif ending in CONVERTED:
        _convert(svg.svg(graph, fold=fold, open=open, look=look), target)
    else:
        raise ValueError(
            f"path must end in {', '.join(sorted([*DRAWN, *TEXTS]))}, not in {ending!r}; "
            "name the file as in 'graph.svg'"
        )
    return target


def _convert(picture: str, target: Path) -> None:
    """Let a program that is there make a PNG or a PDF of a picture."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder, f"made{target.suffix.lower()}")
        command = _command(picture, Path(folder), made)
        done = subprocess.run(  # noqa: S603 - a converter on the path, given our own file
            command, capture_output=True, timeout=PATIENCE, check=False
        )
        if not made.is_file():
            told = done.stderr.decode(errors="replace").strip()  # in whatever encoding
            raise RuntimeError(
                f"{target.name} must be made by {command[0]}, which failed: {told}; "
                "save the graph as .svg or .html"
            )
        shutil.copyfile(made, target)


def _command(picture: str, folder: Path, made: Path) -> list[str]:
    """Return the command that makes a file of a picture that it writes into the folder."""
    if converter := shutil.which("rsvg-convert"):
        source = folder / "graph.svg"
        source.write_text(_plain(picture), encoding="utf-8")
        form = [f"--format={made.suffix[1:]}", "--zoom=2", "--background-color=white"]
        return [converter, *form, f"--output={made}", str(source)]
    found = (shutil.which(name) for name in BROWSERS)
    if browser := next(filter(None, found), None):
        source = folder / "graph.html"
        width, height = _size(picture)
        style = f"@page{{size:{width}px {height}px;margin:0}}body{{margin:0}}svg{{display:block}}"
        content = f"<!doctype html><style>{style}</style>{picture}"
        source.write_text(content, encoding="utf-8")
        form = [f"--print-to-pdf={made}", "--no-pdf-header-footer"]
        if made.suffix == ".png":
            form = [f"--screenshot={made}", "--force-device-scale-factor=2", "--hide-scrollbars"]
        window = ["--headless", "--no-sandbox", "--disable-gpu", f"--window-size={width},{height}"]
        return [browser, *window, *form, source.as_uri()]
    raise RuntimeError(
        f"{made.suffix} must be made by rsvg-convert (of librsvg) or a Chromium, and none is "
        "there; install one, or save the graph as .svg or .html"
    )


def _plain(picture: str) -> str:
    """Put the colours of the light in the places of variables, which not every program knows.

    Only the stylesheet has any: names in the picture stay as they are, whatever they say.
    """
    colours = dict(pair.split(":") for pair in LIGHT.split(";"))
    before, opening, after = picture.partition("<style>")
    style, closing, rest = after.partition("</style>")
    style = re.sub(r"var\((--[\w-]+)\)", lambda found: colours[found[1]], style)
    style = style.replace("CanvasText", "black").replace("Canvas", "white")
    return f"{before}{opening}{style}{closing}{rest}"


def _size(picture: str) -> tuple[int, int]:
    """Read the width and the height of a picture."""
    found = re.search(r'width="([\d.]+)" height="([\d.]+)"', picture)
    return (0, 0) if found is None else (round(float(found[1])) + 1, round(float(found[2])) + 1)
