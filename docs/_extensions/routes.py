"""Show the routes through the tutorial: a chapter's position on each, and the next chapter.

Routes are defined on the page `tutorial/index` by `route` directives. Its toctree lists the parts,
and each part's toctree lists its chapters. A `route` contains all chapters, or those that it
names, in the same order. A minus before a name excludes that chapter.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from html import escape
from typing import Any

from docutils import nodes
from sphinx.addnodes import compact_paragraph
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.locale import _
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

logger = logging.getLogger(__name__)

LISTED = "tutorial/index"
ROUTES = {
    "learner": ("Learner", "M8 4C6 2 3 2 1 3v10c2-1 5-1 7 1 2-2 5-2 7-1V3c-2-1-5-1-7 1zv10"),
    "pinn": ("PINN practitioner", "M1 8c2.5-9 4.5-9 7 0s4.5 9 7 0M1 14h14"),
}
"""The title and icon of each route: an open book, and a wave on a line."""


class RouteList(nodes.General, nodes.Element):
    """A placeholder for the list of a route's chapters, until all titles are known."""


class RouteDirective(SphinxDirective):
    """The directive `{route}`: the list of a route's chapters."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return a `RouteList`, which `resolve` fills in when all titles are known."""
        (key,) = self.arguments
        if key not in ROUTES:
            raise self.error(f"a route must be one of {', '.join(ROUTES)}, not {key}")
        listed = RouteList(ids=[_anchor(key)], key=key, named=[*self.content])
        self.set_source_info(listed)
        return [listed]


@dataclass(frozen=True, kw_only=True)
class Route:
    """A route: its chapters in their order.

    `named` contains the chapters that the directive on `line` names. It is empty if the route
    consists of all chapters, except those with a minus.
    """

    key: str
    chapters: tuple[str, ...]
    named: tuple[str, ...]
    line: int

    def after(self, chapter: str) -> str | None:
        """Return the chapter after `chapter`; None if it is the last one."""
        following = self.chapters[self.chapters.index(chapter) + 1 :]
        return following[0] if following else None

    def problems(self) -> Iterator[str]:
        """Yield a message for each name that is not a chapter, and one for a wrong order."""
        for name in dict.fromkeys(self.named):
            if name not in self.chapters:
                yield f"a route must lead to chapters, not to {name}"
        if self.named and tuple(filter(self.chapters.__contains__, self.named)) != self.chapters:
            names = " ".join(chapter.rpartition("/")[2] for chapter in self.chapters)
            yield f"a route must name each chapter once, in the order of the tutorial: {names}"


def parts(env: BuildEnvironment) -> dict[str, list[str]]:
    """Return the chapters of each part. A part without chapters is a chapter itself."""
    inside = env.toctree_includes
    return {part: inside.get(part, [part]) for part in inside.get(LISTED, [])}


def chapters(env: BuildEnvironment) -> list[str]:
    """Return all chapters in the order of the tutorial."""
    return [chapter for part in parts(env).values() for chapter in part]


@cache
def routes(env: BuildEnvironment) -> tuple[Route, ...]:
    """Return all routes that `tutorial/index` defines."""
    folder = LISTED.rpartition("/")[0]
    found = []
    for listed in env.get_doctree(LISTED).findall(RouteList):
        named = tuple(f"{folder}/{name}" for name in listed["named"] if name[0] != "-")
        left_out = {f"{folder}/{name[1:]}" for name in listed["named"]}
        taken = tuple(
            chapter
            for chapter in chapters(env)
            if (chapter in named if named else chapter not in left_out)
        )
        found.append(Route(key=listed["key"], chapters=taken, named=named, line=listed.line or 0))
    return tuple(found)


def check(_app: Sphinx, env: BuildEnvironment) -> None:
    """Warn about each broken route, and about pages of parts that have several headings."""
    if LISTED not in env.found_docs:
        return
    for route in routes(env):
        for problem in route.problems():
            logger.warning(problem, location=(LISTED, route.line))
    for part, inside in parts(env).items():
        if inside != [part] and len([*env.get_doctree(part).findall(nodes.section)]) > 1:
            message = "the page of a part must have one heading: further ones would be numbered"
            logger.warning(message, location=part)


def resolve(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """Fill in each `RouteList`: all chapters by part, or the chapters that the route names."""
    for listed in [*doctree.findall(RouteList)]:
        route = next(route for route in routes(app.env) if route.key == listed["key"])
        written = nodes.container(ids=listed["ids"], classes=["route-list"])
        if route.named:
            items = (_item(app, page, chapter) for chapter in route.chapters)
            written += nodes.enumerated_list("", *items, enumtype="arabic", prefix="", suffix=".")
        else:
            written += nodes.bullet_list("", *_outline(app, page, route))
        listed.replace_self(written)


def _outline(app: Sphinx, page: str, route: Route) -> Iterator[nodes.list_item]:
    """Yield a numbered list item per part, with the part's chapters on the route below it."""
    for part, all_inside in parts(app.env).items():
        if inside := [chapter for chapter in all_inside if chapter in route.chapters]:
            item = _item(app, page, part, number=_number(app.env, part))
            if inside != [part]:
                below = (_item(app, page, name, number=_number(app.env, name)) for name in inside)
                item += nodes.bullet_list("", *below)
            yield item


def _number(env: BuildEnvironment, chapter: str) -> str:
    return ".".join(map(str, env.toc_secnumbers.get(chapter, {}).get("", ())))


def _item(app: Sphinx, page: str, chapter: str, *, number: str = "") -> nodes.list_item:
    uri = app.builder.get_relative_uri(page, chapter)
    title = [child.deepcopy() for child in app.env.titles[chapter].children]
    link = nodes.reference("", "", *title, refuri=uri, internal=True)
    shown = nodes.inline("", f"{number} ", classes=["number"]) if number else nodes.Text("")
    return nodes.list_item("", compact_paragraph("", "", shown, link))


def mark(
    app: Sphinx, page: str, _template: str, context: dict[str, Any], _tree: nodes.document | None
) -> None:
    """Add a chapter's routes below its title, and links to the next chapters at its end."""
    if LISTED not in app.env.found_docs:
        return
    on = [route for route in routes(app.env) if page in route.chapters]
    if not on:
        return
    heading = "</h1>"
    body, listed = context["body"], app.builder.get_relative_uri(page, LISTED)
    places = " ".join(_place(route, page, listed) for route in on)
    marked = body.replace(heading, f'{heading}\n<p class="routes">{places}</p>', 1)
    ways = "".join(_way(app, route, page, listed) for route in on)
    label = escape(_("Next on a route"))
    context["body"] = f'{marked}<nav class="routes-next" aria-label="{label}">{ways}</nav>'


def _place(route: Route, page: str, listed: str) -> str:
    number = route.chapters.index(page) + 1
    of = {"route": _(ROUTES[route.key][0]), "number": number, "all": len(route.chapters)}
    words = _("{route}: {number} of {all}").format(**of)
    return f'<a href="{listed}#{_anchor(route.key)}">{_icon(route.key)}{words}</a>'


def _way(app: Sphinx, route: Route, page: str, listed: str) -> str:
    name = f"{_icon(route.key)}{_(ROUTES[route.key][0])}"
    following = route.after(page)
    if following is None:
        ends = _("{route}: the route ends here.").format(route=name)
        return f'<p>{ends} <a href="{listed}">{_("All routes")}</a></p>'
    if not route.named:  # a reader of all chapters starts each part at its own page
        following = _opening(app.env, page, following)
    title = escape(app.env.titles[following].astext())
    uri = app.builder.get_relative_uri(page, following)
    return f'<p>{_("{route}, next:").format(route=name)} <a href="{uri}">{title}</a></p>'


def _opening(env: BuildEnvironment, page: str, following: str) -> str:
    """Return the page to open after `page`: the chapter `following`, or the page of its part.

    It is the page of the part if `following` begins a new part.
    """
    for part, inside in parts(env).items():
        if following in inside and page not in inside:
            return part
    return following


def _icon(key: str) -> str:
    return f'<svg viewBox="0 0 16 16" aria-hidden="true"><path d="{ROUTES[key][1]}"/></svg>'


def _anchor(key: str) -> str:
    return f"route-{key}"


def setup(app: Sphinx) -> ExtensionMetadata:
    """Connect the handlers to the reading and writing of pages."""
    app.add_node(RouteList)
    app.add_directive("route", RouteDirective)
    app.connect("env-check-consistency", check)
    app.connect("doctree-resolved", resolve)
    app.connect("html-page-context", mark)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
