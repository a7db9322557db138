"""Check that every written page is complete, small and works offline; warn otherwise.

- It fetches nothing from another site.
- Each link within the site leads to an existing file and anchor.
- Each picture has a text alternative.
- The page with its styles and scripts, but without its pictures, is small when compressed.
"""

import gzip
import re
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from os.path import normpath
from pathlib import Path
from urllib.parse import unquote, urlsplit

from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.typing import ExtensionMetadata

logger = logging.getLogger(__name__)

LIGHT = 64_000
"""The most bytes that a page may have, with its styles and scripts, each compressed by gzip."""
LIGHT_ELSEWHERE = 68_000
"""The same limit for translated pages, because a Chinese character takes three bytes."""
FETCHED = {"img": "src", "script": "src", "iframe": "src", "source": "src", "video": "src"}
FETCHED_LINKS = {"icon", "stylesheet", "preload", "modulepreload", "prefetch", "manifest"}
IN_STYLES = re.compile(r"""(?:url\(|@import)\s*["']?([^"')\s;]+)""")
BARE = re.compile(r'<(?!img|script|style)\w+(?: class=(?:"[^"]*"|\w+))?>|</(?!script|style)\w+>')
"""Tags without attributes except `class`. Most tags are such, and no check needs them."""
PICTURE = re.compile(r"<svg\b.*?</svg>|data:image/[^\"']*|srcdoc='[^']*'", re.DOTALL)


class Page(HTMLParser):
    """The resources, links and anchors of a page, and its pictures without a text alternative."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.silent: list[str] = []
        self.feed(BARE.sub("", text))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record the resources, links and anchors of one element."""
        given = {name: value or "" for name, value in attrs}
        self.anchors.update(given[name] for name in ("id", "name") if name in given)
        # A link with `hreflang` leads to another language, which is another build.
        if tag == "a" and "href" in given and "hreflang" not in given:
            self.links.append(given["href"])
        elif tag == "link" and FETCHED_LINKS & {*given.get("rel", "").split()}:
            self.fetched.append(given["href"])
        elif tag in FETCHED and FETCHED[tag] in given:
            self.fetched.append(given[FETCHED[tag]])
        if tag == "img" and not given.get("alt"):
            self.silent.append(given.get("src", "")[:60])
        self.fetched += IN_STYLES.findall(given.get("style", ""))


class Site:
    """The built site, whose pages can be checked. Each file is read only once.

    `folder` contains the files. `root` is the URL path of this folder, such as ``/en/``: a link
    that starts with it leads to the folder. `light` is the most bytes that a page may have (see
    `LIGHT`).
    """

    def __init__(self, folder: Path, root: str = "/", light: int = LIGHT) -> None:
        self._folder = folder
        self._light = light
        self._root = root
        self._page = cache(lambda file: Page(file.read_text(encoding="utf-8")))
        self._size = cache(lambda file: _compressed(file.read_bytes()))
        self._is_there = cache(Path.is_file)

    def problems(self) -> Iterator[tuple[Path, str]]:
        """Yield each problem of the site: the file, and a message."""
        for style in sorted(self._folder.rglob("*.css")):
            for target in filter(_is_elsewhere, IN_STYLES.findall(style.read_text("utf-8"))):
                yield style, f"a style must stand on this site, not at {target}"
        for file in sorted(self._folder.rglob("*.html")):
            if not file.is_relative_to(self._folder / "_static"):
                yield from ((file, problem) for problem in self._problems(file))

    def _problems(self, file: Path) -> Iterator[str]:
        page = self._page(file)
        for target in filter(_is_elsewhere, page.fetched):
            yield f"nothing may be fetched from another site: {target}"
        for source in page.silent:
            yield f"a picture must have an alternative text: {source}"
        for target in dict.fromkeys((*page.links, *page.fetched)):
            if missing := self._missing(file, target):
                yield f"a link must lead to a {missing}, not to {target}"
        weight = self._weight(file)
        if weight > self._light:
            yield f"a page must have at most {self._light:,} bytes compressed, not {weight:,}"

    def _missing(self, file: Path, target: str) -> str | None:
        """Return what the target of a link on the page `file` lacks: a file or an anchor.

        Return None if the target exists.
        """
        parts = urlsplit(target)
        if parts.scheme or parts.netloc:
            return None
        there = self._led(file, unquote(parts.path))
        if not self._is_there(there):
            return "file of the site"
        if parts.fragment and there.suffix == ".html":
            anchors = self._page(there).anchors
            return None if unquote(parts.fragment) in anchors else "place of its page"
        return None

    def _led(self, file: Path, path: str) -> Path:
        """Return the file at `path`, which is relative to the page `file` or to the site's root."""
        if path.startswith(self._root):
            return self._folder / path.removeprefix(self._root)
        return Path(normpath(file.parent / path)) if path else file

    def _weight(self, file: Path) -> int:
        """Return the compressed bytes of a page and of its styles and scripts."""
        text = PICTURE.sub("", file.read_text(encoding="utf-8"))
        fetched = dict.fromkeys(target.partition("?")[0] for target in self._page(file).fetched)
        beside = [self._led(file, target) for target in fetched if target.endswith((".css", ".js"))]
        parts = {part for part in beside if part.is_file()}
        return _compressed(text.encode()) + sum(map(self._size, parts))


def _is_elsewhere(target: str) -> bool:
    return urlsplit(target).scheme not in {"", "data"} or target.startswith("//")


def _compressed(data: bytes) -> int:
    return len(gzip.compress(data, mtime=0))


def check(app: Sphinx, error: Exception | None) -> None:
    """Warn about each problem of the finished site."""
    if error is None and app.builder.format == "html":
        light = LIGHT if app.config.language == "en" else LIGHT_ELSEWHERE
        site = Site(Path(app.outdir), app.config.notfound_urls_prefix, light)
        for file, problem in site.problems():
            logger.warning("%s: %s", file.relative_to(app.outdir).as_posix(), problem)


def setup(app: Sphinx) -> ExtensionMetadata:
    """Check the site after all pages and notebooks are written."""
    app.connect("build-finished", check, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
