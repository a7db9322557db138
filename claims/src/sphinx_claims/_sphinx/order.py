"""Which pages can be read as soon as they are judged, and which when all are."""

import re

_ALONE = frozenset(
    (
        *(
            "claim",
            "code-cell",
            "eval-rst",
            "unproven",
            "toctree",
            "contents",
            "index",
            "glossary",
            "fold",
        ),
        *("admonition", "attention", "caution", "danger", "error", "hint", "important", "note"),
        *("seealso", "tip", "warning", "deprecated", "versionadded", "versionchanged", "rubric"),
        *("code", "code-block", "math", "list-table", "table", "tab-set", "tab-item", "dropdown"),
        *("autoclass", "autodata", "autoexception", "autofunction", "automethod", "automodule"),
    )
)
"""The directives that show no file."""

_DIRECTIVE = re.compile(r"(?:[`:~]{3,}\{|\.\. (?:\|.*\| )?)([\w:+-]+)(?:\}|::)")


def shows_others(text: str) -> bool:
    """Tell whether a page may show what other pages have come to, or a file that they write.

    It does where it has an image, or any directive that is not known to show no file.
    """
    return "![" in text or not _ALONE.issuperset(_DIRECTIVE.findall(text))
