"""Show the ledger on pages: totals, and each claim with its verdict, evidence and sources."""

import itertools
import operator
import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatch
from typing import Any

from docutils import nodes
from sphinx import locale
from sphinx.addnodes import pending_xref
from sphinx.environment import BuildEnvironment
from sphinx.util.docutils import SphinxDirective
from sphinx.util.i18n import docname_to_domain

from sphinx_claims._judging.anchors import anchor, claim_anchor
from sphinx_claims._judging.site import SiteVerdict
from sphinx_claims._page import Problem
from sphinx_claims._sphinx.badges import badge, entry_label
from sphinx_claims._sphinx.build import current
from sphinx_claims._sphinx.ledger_tables import (
    Row,
    about,
    counts,
    elsewhere,
    pages_table,
    versions_table,
)
from sphinx_claims._sphinx.unproven import escapes_list
from sphinx_claims._sphinx.words import count, say

Ledger = Mapping[str, Any]
Pages = Mapping[str, Sequence[Mapping[str, Any]]]


class TotalDirective(SphinxDirective):
    """The directive `{claims-total}`: the number of claims on each page, without the claims."""

    def run(self) -> list[nodes.Node]:
        """Return the totals, a table of runs on other versions, and a table of pages.

        In the table of pages, each page is a link to its entries in the ledger.
        """
        ledger = current.get().ledger
        rows: Iterator[Row] = (
            [
                _link(_page_label(path), _title(path, self.env), self.env.docname),
                *counts(of_page),
            ]
            for path, of_page in _by_page(ledger).items()
        )
        return [*_head(ledger), pages_table(rows), *escapes_list(ledger["escapes"])]


class LedgerDirective(SphinxDirective):
    """The directive `{claims-ledger}`: the claims of the pages that its content lists.

    Without content, it shows the claims of all pages.
    """

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return nodes for the claims, page by page, with their verdicts, evidence and sources."""
        ledger = current.get().ledger
        pages = _by_page(ledger)
        if not self.content:
            entries = self._entries(pages, ledger)
            return [*_head(ledger), *entries, *escapes_list(ledger["escapes"])]
        named = dict.fromkeys(path for name in self.content for path in self._matching(name, pages))
        return [*self._entries({path: pages[path] for path in named}, ledger)]

    def _matching(self, name: str, pages: Pages) -> list[str]:
        """Return the pages that the line `name` names. It may contain `*`, as in file names."""
        meant = name.strip()
        found = [path for path in pages if fnmatch(path, meant)]
        if meant and not found and meant not in current.get().paths.values():
            raise self.error(f"a line of claims-ledger must name a page, not {name!r}")
        return found

    def _entries(self, pages: Pages, ledger: Ledger) -> Iterator[nodes.Node]:
        for path, claims in pages.items():
            yield nodes.rubric("", _title(path, self.env), ids=[self._anchor(_page_label(path))])
            entries = [self._entry(claim, ledger) for claim in claims]
            yield nodes.definition_list("", *entries, classes=["claims"])

    def _entry(self, claim: Mapping[str, Any], ledger: Ledger) -> nodes.definition_list_item:
        sentence, messages = self.parse_inline(current.get().sentence(claim), lineno=self.lineno)
        facts = [*about(claim)]
        facts += [count(len(claim["evidence"]), "check")]
        facts += elsewhere(claim, ledger["package"])
        facts += [_title_of_source(source, ledger["documents"]) for source in claim["sources"]]
        mark = badge(claim["page"], claim["id"])
        link = _link(claim_anchor(claim["id"]), claim["id"], self.env.docname)
        label = self._anchor(entry_label(claim["page"], claim["id"]))
        return nodes.definition_list_item(
            "",
            nodes.term("", "", mark, nodes.Text(" "), link, ids=[label]),
            nodes.definition(
                "",
                nodes.paragraph("", "", *sentence, *messages),
                nodes.paragraph("", " · ".join(facts), classes=["claim-sources"]),
            ),
        )

    def _anchor(self, label: str) -> str:
        self.env.domains.standard_domain.anonlabels[label] = self.env.docname, label
        return label


def find_unlisted_claims(site: SiteVerdict, env: BuildEnvironment) -> Iterator[tuple[str, Problem]]:
    """Yield a problem, with its page, for each claim without an entry in a ledger.

    If no claim has an entry, the site has no ledger, and there is no problem.
    """
    known = env.domains.standard_domain.anonlabels
    without = [c for c in site.claims if entry_label(c.path, c.claim.id) not in known]
    for claim in without if len(without) < len(site.claims) else ():
        message = f"no ledger lists claim {claim.claim.id}: name {claim.path} in a claims-ledger"
        yield claim.path, Problem(claim.claim.line, message)


def _head(ledger: Ledger) -> Iterator[nodes.Node]:
    """Yield nodes with the numbers of claims and checks, and a table of other versions."""
    checks = sum(len(claim["evidence"]) for claim in ledger["claims"])
    total = [count(len(ledger["claims"]), "claim"), count(checks, "check")]
    package = ledger["package"]
    if package:
        total.append(f"{package} {ledger[package]}")
    # The text is translated already, so catalogues need no message for it.
    told = say(", ").join(total)
    yield nodes.paragraph("", told, classes=["claims-total"], translatable=False)
    yield from versions_table(ledger)


def _by_page(ledger: Ledger) -> Pages:
    pages = itertools.groupby(ledger["claims"], key=operator.itemgetter("page"))
    return {path: [*of_page] for path, of_page in pages}


def _title(path: str, env: BuildEnvironment) -> str:
    """Return the title of a page in the language of the site, or its path if it has none."""
    file = current.get().config.root / path
    if file.suffix != ".md":
        return path
    found = re.search(r"^# (.+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
    if not found:
        return path
    domain = docname_to_domain(env.path2doc(file) or "", env.config.gettext_compact)
    folders = [env.srcdir / folder for folder in env.config.locale_dirs]
    catalogue, _ = locale.init(folders, env.config.language, domain)
    return catalogue.gettext(found[1]).replace("`", "")


def _page_label(path: str) -> str:
    return anchor(f"ledger-{path}")


def _link(label: str, text: str, docname: str) -> nodes.Element:
    about = {"refdomain": "std", "reftype": "ref", "refexplicit": True}
    return pending_xref("", nodes.inline("", text), refdoc=docname, reftarget=label, **about)


def _title_of_source(source: str, documents: Mapping[str, str]) -> str:
    key, _, lines = source.partition(" ")
    return f"{documents.get(key, key)} {lines}".strip()
