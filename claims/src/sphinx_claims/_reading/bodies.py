"""Which directives hold code, and which hold no Markdown."""

import difflib

PLAIN = frozenset(
    "autosummary bibliography claims-ledger contents csv-table d2 digraph eval-rst graph graphviz"
    " highlight inheritance-diagram math mermaid meta parsed-literal plantuml productionlist raw"
    " raw-cell role tabularcolumns toctree uml".split()
)
"""Directives whose body is neither Markdown nor executed."""

CODE = frozenset({"code", "code-block", "sourcecode"})
PYTHON = frozenset(
    "python python2 python3 py py2 py3 pycon pycon3 python-console python-repl ipython ipython2"
    " ipython3 ipythonconsole".split()
)
"""The languages under which a fence holds Python."""

_OWN = {"codecell": "code-cell", "claim": "claim", "unproven": "unproven"}


def misspelt(name: str) -> str | None:
    """Return the directive of ours that `name` nearly spells; None where it spells none."""
    plain = "".join(filter(str.isalnum, name.lower()))
    close = difflib.get_close_matches(plain, _OWN, n=1, cutoff=0.8)
    return _OWN[close[0]] if close else None
