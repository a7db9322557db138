"""Links to pages that the site does not have: excluded, deleted, or never written."""

import posixpath
from collections.abc import Iterator

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.environment import BuildEnvironment
from sphinx.util import docname_join

from sphinx_claims._page import Problem
from sphinx_claims._sphinx.tree import line_of


def dead_links(doctree: nodes.document, env: BuildEnvironment) -> Iterator[Problem]:
    """Yield a problem for each link of `doctree`, as it was read, that leads to no page."""
    for link in doctree.findall(pending_xref):
        target = _document(link)
        if target is not None and target not in env.found_docs:
            message = f"this link leads to no page of the site: {link['reftarget']}"
            yield Problem(line_of(link), message)


def _document(link: pending_xref) -> str | None:
    """Return the document that a link means; None where it means something else."""
    kind, target = (link.get("refdomain"), link.get("reftype")), link["reftarget"]
    here = link.get("refdoc", "")
    match kind:
        case ("doc", "myst"):
            return str(target)
        case ("std", "doc"):
            return docname_join(here, target)
        case (_, "myst") if target.partition("#")[0].endswith(".md"):
            path = target.partition("#")[0].removesuffix(".md")
            return posixpath.normpath(posixpath.join("/", posixpath.dirname(here), path))[1:]
    return None
