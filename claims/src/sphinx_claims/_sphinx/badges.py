"""Show the verdict on a page: a badge on each claim, and the problems of false ones.

The verdict is complete only after all pages are read. Badges and problems are therefore filled in
just before a page is written.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from docutils import nodes
from sphinx.addnodes import start_of_file
from sphinx.transforms.post_transforms import SphinxPostTransform

from sphinx_claims._judging.anchors import anchor
from sphinx_claims._judging.report import RedLine, red_lines
from sphinx_claims._page import Problem
from sphinx_claims._sphinx.build import current
from sphinx_claims._sphinx.fold import Fold
from sphinx_claims._sphinx.ledger_tables import about
from sphinx_claims._sphinx.words import say

_JUDGED = "claims_judged"


def note_sentence(box: nodes.Element) -> None:
    """Store the sentence of a claim in its box, before Sphinx translates the box."""
    box[_JUDGED] = " ".join(" ".join(child.astext() for child in box.children).split())


def original(box: nodes.Element) -> str | None:
    """Return the sentence that was judged if the box shows its translation, otherwise None."""
    is_translated = any(node.get("translated") for node in box.findall(nodes.Element))
    return box[_JUDGED] if is_translated and _JUDGED in box else None


BADGES = {
    "true": ("✓", "true"),
    "false": ("✗", "false"),
    "skipped": ("–", "skipped: outside its version range"),
}
"""For each verdict, a mark and a word. A style may hide the word, except from screen readers."""
TRANSLATIONS = {
    "stale": "The sentence has changed since it was translated.",
    "missing": "This sentence is not translated.",
    "false": "The translation says something else than what was proven.",
    "unreviewed": "Nobody has compared the translation with what was proven.",
}
"""A note on a translated claim, for each state of the translation."""

_BADGE, _BOX = "claims_badge", "claims_box"


def badge(path: str, identifier: str) -> nodes.inline:
    """Return a placeholder for the badge of a claim of the page `path`."""
    return nodes.inline("", "", classes=["claim-badge"], **{_BADGE: (path, identifier)})


def entry_label(path: str, identifier: str) -> str:
    """Return the anchor of the ledger entry for a claim of the page `path`."""
    return anchor(f"ledger-{path}-{identifier}")


def claim_box(identifier: str, *, is_key: bool = False) -> nodes.container:
    """Return the box node of a claim. An empty `identifier` marks a claim that was not judged."""
    classes = ["claim", *(["claim-key"] if is_key else [])]
    return nodes.container(classes=classes, **{_BOX: identifier})


def unjudged_claims(doctree: nodes.document) -> Iterator[Problem]:
    """Yield a problem for each claim in the document that was not judged with its page."""
    for box in doctree.findall(nodes.container):
        if box.get(_BOX) == "":
            yield Problem(box.line or 1, "nobody judges this claim: put it on a page of Markdown")


class ShowVerdicts(SphinxPostTransform):
    """A transform that inserts the final verdicts into a page."""

    default_priority = 5  # This runs before Sphinx resolves references.

    def run(self, **_options: Any) -> None:
        """Fill the badges and boxes; list problems outside claims at the top of the page."""
        build, boxes = current.get(), set()
        entries = {(entry["page"], entry["id"]): entry for entry in build.ledger["claims"]}
        red = list(red_lines(build.site))
        for element in self.document.findall(nodes.Element):
            if _BADGE in element:
                verdict = build.verdict(*element[_BADGE])
                element["classes"].append(f"claim-{verdict}")
                mark, word = BADGES[verdict]
                said = nodes.Text(mark), nodes.inline("", f" {say(word)}", classes=["claim-word"])
                element.extend(self._to_ledger(said, element))
            elif _BOX in element:
                claim = next(n[_BADGE] for n in element.findall(nodes.inline) if _BADGE in n)
                boxes.add(claim)
                element["classes"].append(f"claim-{build.verdict(*claim)}")
                _add_to_proof(element, entries.get(claim))
                _add_translation(element, build.translation_of(claim[1]), original(element))
                _add_list(element, [line for line in red if (line.path, line.claim) == claim])
        others = [line for line in red if (line.path, line.claim) not in boxes]
        for path, page in self._pages().items():
            _add_above(page, [line for line in others if line.path == path])

    def _pages(self) -> dict[str, nodes.Element]:
        """Return the part of this document for each page.

        Single-file builds contain several pages.
        """
        paths = current.get().paths
        parts: dict[str, nodes.Element] = {paths[self.env.docname]: self.document}
        for part in self.document.findall(start_of_file):
            parts[paths[part["docname"]]] = part
        return parts

    def _to_ledger(self, said: Sequence[nodes.Node], badge: nodes.Element) -> list[nodes.Node]:
        """Return the nodes of a badge, as a link to the ledger if there is one.

        `said` contains the nodes. A badge in the ledger itself is not a link.
        """
        label = entry_label(*badge[_BADGE])
        ledger, _ = self.env.domains.standard_domain.anonlabels.get(label, (None, None))
        if ledger is None or isinstance(badge.parent, nodes.term):
            return [*said]
        place = self.app.builder.get_relative_uri(self.env.docname, ledger)
        return [nodes.reference("", "", *said, refuri=f"{place}#{label}", internal=True)]


def _add_to_proof(box: nodes.Element, claim: Mapping[str, Any] | None) -> None:
    """Add the kind and scope of a claim to the fold with its proof: below its box or around it.

    A fold is a part of a page that a reader can open. Without a fold or a kind, add nothing.
    """
    told = " · ".join(about(claim)) if claim is not None else ""
    place = box.parent.index(box) + 1
    following = box.parent.children[place : place + 2]
    fold = next((node for node in following if isinstance(node, Fold)), None)
    said = nodes.paragraph("", told, classes=["claim-kind"])
    if told and fold is not None:
        fold.insert(1, said)
    elif told and isinstance(box.parent, Fold):
        box.parent.insert(place, said)


def _add_translation(box: nodes.Element, word: str | None, judged: str | None) -> None:
    """Add a note on the translation of a claim to its box, and the sentence that was judged.

    `word` is the state of the translation, and `judged` the original sentence, or None. For a
    current translation, add nothing.
    """
    if word == "current":
        return
    if word is not None:
        told = nodes.paragraph("", say(TRANSLATIONS[word]), classes=["claim-translation"])
        box["classes"].append(f"translation-{word}")
        box.append(told)
    if judged is not None:
        text = say("judged: {sentence}", sentence=judged)
        box.append(nodes.paragraph("", text, classes=["claim-original"]))


def _add_above(page: nodes.Element, red: Sequence[RedLine]) -> None:
    """Put a box with the problems in `red` under the title of a page, if there are any."""
    if red:
        title = nodes.title("", say("This page is not true"))
        above = nodes.admonition("", title, classes=["error"])
        _add_list(above, red)
        section = next(iter(page.findall(nodes.section)), None)
        place = (page, 0) if section is None else (section, 1)
        place[0].insert(place[1], above)


def _add_list(element: nodes.Element, red: Iterable[RedLine]) -> None:
    told = (nodes.paragraph("", say("line {n}: {found}", n=r.line, found=r.found)) for r in red)
    items = [nodes.list_item("", paragraph) for paragraph in told]
    if items:
        element += nodes.bullet_list("", *items, classes=["claim-problems"])
