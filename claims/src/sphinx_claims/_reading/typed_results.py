"""Results that somebody typed where a page should show those of its code."""

import ast
import functools
import io
import re
import tokenize
from collections.abc import Iterator

from sphinx_claims._python import examples, parsed
from sphinx_claims._vocabulary import Vocabulary, known, one_of

ROLES = ("claim", "value")
"""The roles whose content is executed."""

SHOW_IT = "let a cell or {value} show it, or say why not, in {unproven}"
"""The cure of what is stated by hand."""

_END = r"[ ]*(?:[.,;:!(—–]|$)"
_SHOWN = re.compile(
    "|".join(
        (
            r"(?:True|False)\b",
            rf"None{_END}|(?:[Yy]es|[Nn]o)$",
            "[✓✔✗✘☑☒✅❌❎]",
            r"<[A-Za-z_][\w.]*(?: .*)?>",
            rf"(?:\w+\.)*[A-Z]\w*(?:Error|Exception|Warning)\b{_END}",
        )
    )
)
"""What any program prints, at the start of a text."""

_NUMBER = re.compile(rf"[+-]?(?:nan|inf|\d+\.\d*(?:e[+-]?\d+)?){_END}")
_DTYPE = re.compile(r"\w+\.(?:u?int\d+|b?float\d*|double|half|bool|complex\d+|strided)$")
_ARROW = re.compile(r"(?:-+|=+)?>+|→|⇒|⟶")
_ANNOUNCED = re.compile(
    r"(?:[=≈]+|(?:is|now|prints?|shows?|returns?|gives?|yields?|raises?|warns?|equals?|out(?:put)?"
    r"|results?|shape|size|dtype|value|grad(?:ient)?)\b|\w[\w\[\]()]*\.\w[\w.\[\]()]*[ ]*"
    rf"(?:==|:|is\b|{_ARROW.pattern}))[ ]*(?:\[\d*\])?[:=]?[ ]*(?=\S)",
    re.IGNORECASE,
)
_TOOL = re.compile(r"(?:noqa|type|pragma|doctest|fmt|ruff|mypy|pylint)\b")
_ROLE = re.compile(rf"\{{(?:{'|'.join(ROLES)})\}}`")


def by_hand(text: str) -> str:
    """Return the message that nobody checks a result."""
    return f"{text!r} is stated by hand and nobody checks it: {SHOW_IT}"


def unchecked(comment: str) -> str:
    """Return the message that nobody checks a comment."""
    return f"nobody checks what this comment says: {comment!r}: pin it with #>, or assert it"


def is_result(text: str) -> bool:
    """Return whether `text`, in a table say, is what code gives."""
    return _is_shown(plain(text))


def plain(text: str) -> str:
    """Return `text` as it is read, without the marks of code and emphasis."""
    return text.strip("`*_ \n")


def printed_value(text: str) -> str | None:
    """Return the first value in a sentence that is written as it is printed, not as it is made."""
    found = _printed(known()).search(text)
    return found[0] if found else None


def holds_roles(text: str) -> bool:
    """Return whether `text` holds the Markdown of an expression that has to be evaluated."""
    return _ROLE.search(text) is not None


def shown_result(text: str) -> str | None:
    """Return the first result that a block names, or value that it shows printed."""
    found = _given(known()).search(text)
    return found[0] if found else None


def comments(source: str) -> Iterator[tuple[int, str]]:
    """Yield line, from 0, and text of each comment in Python that states a result."""
    tree = parsed(source) if "#" in source else None
    if tree is None:
        return
    shown = {node.end_lineno for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith(("#>", "#!")):
            line, column = token.start
            is_beside = bool(token.line[:column].strip())
            text = token.string.strip("# ")
            if (is_beside or line - 1 in shown) and _states(text):
                yield line - 1, text


def comments_in_examples(source: str) -> Iterator[tuple[int, str]]:
    """Yield line, from 0, and text of each comment in `>>>` examples that states a result."""
    for example in examples(source):
        for line, text in comments(example.source):
            yield example.lineno + line, text


def _states(text: str) -> bool:
    if _TOOL.match(text):
        return False
    said = text[announced.end() :] if (announced := _ANNOUNCED.match(text)) else text
    patterns = (_NUMBER, _DTYPE)
    is_stated = any(
        _is_shown(one) or any(pattern.match(one) for pattern in patterns) for one in (text, said)
    )
    return is_stated or is_literal(text) or is_literal(said) or _ARROW.match(text) is not None


def _is_shown(text: str) -> bool:
    """Return whether `text` begins with what a program prints."""
    vocabulary = known()
    is_printed = text.startswith(vocabulary.printed) or _SHOWN.match(text) is not None
    return is_printed or re.match(rf"{_results(vocabulary)}\b", text) is not None


def _results(vocabulary: Vocabulary) -> str:
    return f"(?:{'|'.join(vocabulary.results) or '(?!)'})"


def _calls(vocabulary: Vocabulary) -> str:
    """Return how printed values begin that end with a bracket, but for calls of attributes."""
    words = (word for word in vocabulary.printed if re.fullmatch(r"\w+\(", word))
    return rf"(?<![\w.:]){one_of(words)}"


@functools.cache
def _printed(vocabulary: Vocabulary) -> re.Pattern[str]:
    return re.compile(rf"{_calls(vocabulary)}(?:\[.*\]|[-+]?\d[^()]*)\)")


@functools.cache
def _given(vocabulary: Vocabulary) -> re.Pattern[str]:
    results, calls = _results(vocabulary), _calls(vocabulary)
    return re.compile(rf"\b{results}\b|{calls}\s*[-+\[\d][^()]*\)")


def is_literal(text: str) -> bool:
    """Return whether `text` is a value of Python, written out."""
    try:
        return ast.literal_eval(text.rstrip(".,;")) is not ...
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
