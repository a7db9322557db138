"""Does this block look like what a program has printed?"""

import ast
import re

from sphinx_claims._vocabulary import known

_FIGURE = r"[-+]?\d+(?:\.\d*)?(?:e[-+]?\d+)?"
_PRINTED = re.compile(
    r"Traceback \(most recent call last\)|(?:Name: .*, )?dtype: \w+|\[\d+ rows x \d+ columns\]"
    r"|\W*\d+ (?:passed|failed)\b.* in \d|.* ± .* per loop|(?:Total|Trainable) params: \d"
    r"|<.* (?:object|at 0x[0-9a-f]+).*>|(?:True|False|None|nan)$"
)
"""What a line of output begins with."""

_ITEM = rf"(?:{_FIGURE}|nan|inf|True|False|\.\.\.)"
_ARRAY = re.compile(
    rf"[\[(]+(?=.*(?:\d|nan|True|False))[\s,]*{_ITEM}(?:[\s,\[\]()]+{_ITEM})*[\s,]*[\])]+|{_FIGURE}"
)
_SHOWN = re.compile(r"[\[({](?!\s)")
_METRIC = r"(?:loss|acc(?:uracy)?|error|[rm]?mse|mae|grad(?:ient)?|norm|speed-?up|elapsed|peak)"
_LOG = re.compile(
    rf"\b(?:epoch|step|iter(?:ation)?|batch)\W{{0,3}}\d+\b.*?(?:[=:]\s*{_FIGURE}|\s\d+\.\d+|\d%)"
    rf"|\b{_METRIC}\b[\w ]{{0,12}}\s*[=:]?\s*(?:\d+\.\d+|\d+(?:\.\d+)?e[-+]?\d+|\d+ ?%)"
    rf"(?!\s*[-*/+^\w.])|\b{_METRIC}\s*[=:]\s*{_FIGURE}\s*%?$",
    re.IGNORECASE,
)
_ROW = re.compile(r"\s*(\d+)\s+(?:\S.*\s)?[-+]?\d[\d.e+-]*(?:\s|$)")


def pasted(source: str) -> str | None:
    """Return the first line of `source` that looks printed; None where none does."""
    lines = [line.strip() for line in source.split("\n")]
    printed = known().printed
    for line in lines:
        if (
            line.startswith(printed)
            or _PRINTED.match(line)
            or _ARRAY.fullmatch(line)
            or _LOG.search(line)
        ):
            return line
    if _is_shown_value(source.strip()):
        return lines[0]
    return _repeated(lines) or _data_frame(source.split("\n"))


def _is_shown_value(text: str) -> bool:
    """Return whether `text` is a list, tuple, set or dict as Python shows it, unlike JSON."""
    if '"' in text or not _SHOWN.match(text):
        return False
    try:
        return isinstance(ast.literal_eval(text), list | tuple | set | dict)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False


def _repeated(lines: list[str]) -> str | None:
    """Return the first of two lines that differ in nothing but numbers, some with a fraction."""
    seen: dict[str, str] = {}
    for line in (line for line in lines if not line.startswith(("$", "#", "%", ">"))):
        shape = re.sub(_FIGURE, "0", line)
        is_new = line not in seen.setdefault(shape, line)
        if is_new and re.search(r"(?<![\w./-])\d+\.\d+(?![\w./-])", line):
            return seen[shape]
    return None


def _data_frame(lines: list[str]) -> str | None:
    """Return the first of the rows that are numbered from 0 on and hold more numbers."""
    rows = [(line, found) for line in lines if (found := _ROW.match(line))]
    is_numbered = [int(found[1]) for _, found in rows] == list(range(len(rows)))
    return rows[0][0].strip() if len(rows) > 1 and is_numbered else None
