"""`Diagnosis`: one finding about a training step, and the functions that fill it with messages."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import reduce
from itertools import accumulate

from leafgrad._graph.nodes import Source
from leafgrad._messages import has_message, message


class Severity(StrEnum):
    """How serious a finding is, from the most to the least serious.

    Attributes:
        ERROR: Training fails, or a parameter that should be trained is not.
        WARNING: Training runs, but probably does something that you did not intend.
        NOTE: The finding is worth knowing, and may be intended.
    """

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """An expression in the user's code, with the label that the report prints below it.

    Attributes:
        source: The file, line and columns of the expression.
        label: A few words that the report prints below the expression.
    """

    source: Source
    label: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Edit:
    """A change to one line of the user's code.

    Attributes:
        file: The path of the file.
        line: The number of the line, counted from 1.
        before: The line before the change.
        after: The lines that replace it. Empty if the line is deleted.
    """

    file: str
    line: int
    before: str
    after: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Help:
    """A piece of advice on how to fix a finding.

    Attributes:
        text: The advice, including the code to type.
        edits: The same advice, as line edits. Empty if no exact change is known.
    """

    text: str
    edits: tuple[Edit, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Diagnosis:
    """One finding about a training step: what is wrong, where, and how to fix it.

    Attributes:
        code: The name of the problem, such as ``"no-grad"``. The diagnoses page has a section for
            each code.
        severity: Whether the finding is an error, a warning or a note.
        headline: The problem in one sentence.
        subject: The names of the affected tensors.
        primary: The expression at fault. None if its line is unknown: the expression was not
            recorded, and autograd does not store the line either.
        secondary: Other expressions that explain the problem, such as the line that switched
            recording off.
        notes: Further facts, as sentences.
        help: Ways to fix the problem, the most likely first.
        consequences: Other findings that this one causes.
    """

    code: str
    severity: Severity
    headline: str
    subject: tuple[str, ...] = ()
    primary: Span | None = None
    secondary: tuple[Span, ...] = ()
    notes: tuple[str, ...] = ()
    help: tuple[Help, ...] = ()
    consequences: tuple["Diagnosis", ...] = ()


def diagnosis(  # noqa: PLR0913 # one argument for each field of `Diagnosis`
    code: str,
    severity: Severity,
    *,
    subject: Sequence[str] = (),
    at: Source | None = None,
    variant: str = "",
    secondary: Sequence[Span] = (),
    notes: Sequence[str] = (),
    edits: Sequence[Edit] = (),
    **slots: object,
) -> Diagnosis:
    """Return a finding whose texts are the messages of its code.

    The message file has a ``headline``, ``label``, ``note`` and ``help`` for each code.

    Args:
        code: The code of the finding, such as ``"no-grad"``.
        severity: How serious it is.
        subject: The names of the tensors that are affected.
        at: The expression at fault.
        variant: The cause, if a code has several. With ``"data"``, the message
            ``CODE.data.help`` is used instead of ``CODE.help`` if there is one.
        secondary: Other expressions that explain the finding.
        notes: Notes to add to the note of the message file.
        edits: The changes of lines that the help describes.
        slots: The values of the placeholders in the messages. By default, ``names`` lists
            `subject`, and ``count`` is its length, at least 1.
    """
    slots = {"names": list_names(subject), "count": len(subject) or 1, **slots}

    def words(part: str) -> str | None:
        keys = (f"{code}.{variant}.{part}", f"{code}.{part}")
        key = next(filter(has_message, keys), None)
        return None if key is None else message(key, **slots)

    advice, label = words("help"), words("label") or ""
    # Without a line, the label becomes a note, unless its text refers to the line.
    own = ["" if at or POINTING.search(label) else label, words("note")]
    return Diagnosis(
        code=code,
        severity=severity,
        headline=words("headline") or code,
        subject=(*subject,),
        primary=None if at is None else Span(source=at, label=label),
        secondary=(*secondary,),
        notes=(*filter(None, own), *notes),
        help=() if advice is None else (Help(text=advice, edits=(*edits,)),),
    )


POINTING = re.compile("here|switches|这里")
MOST_NAMES = 3
NUMBER = re.compile(r"\d+")
INDICES = re.compile(r"([\d*]+\.)*[\d*]+(?=\.|$)")


def as_code(name: str) -> str:
    """Return a parameter name as an expression: `0.bias` becomes `model[0].bias`."""
    indices = INDICES.match(name)
    if indices is None:
        return name
    return f"model[{indices[0].replace('.', '][')}]{name[indices.end() :]}"


def list_names(names: Sequence[str], among: Sequence[str] = ()) -> str:
    """Return parameter names as an enumeration, such as "`a`, `b` and `c`".

    More than three names are grouped by module: "all 4 parameters of `encoder`".

    Args:
        names: The names to list.
        among: The names of all parameters of the model. If a module has no other parameter than
            those listed, its name replaces theirs.
    """
    parts = [f"`{as_code(name)}`" for name in names]
    if len(names) > MOST_NAMES:
        parts = [*_count_by_module(names, among)]
    if len(parts) > MOST_NAMES:
        more = len(parts) - MOST_NAMES + 1
        return message("report.more", listed=", ".join(parts[:-more]), count=more)
    *first, last = parts or [message("report.no-names")]
    return message("report.and", first=", ".join(first), last=last) if first else last


def join_messages(key: str, parts: Iterable[str]) -> str:
    """Return the texts `parts`, joined by a message such as "{first} and {last}".

    `key` is the key of the message. It must have the slots ``first`` and ``last``.
    """
    return reduce(lambda first, last: message(key, first=first, last=last), [*parts] or [""])


def _count_by_module(names: Sequence[str], among: Sequence[str]) -> Iterator[str]:
    """Yield a phrase for each module, such as "4 parameters of `blocks.*`".

    `names` are the parameters to name, and `among` all parameters of the model.
    """
    missing = {*names}
    kept = [name for name in among if name not in missing]
    groups: dict[tuple[str, bool], list[str]] = {}
    for name in names:
        modules = ["", *accumulate(name.split(".")[:-1], "{}.{}".format)] if among else []
        whole = (one for one in modules if not any(is_in(other, one) for other in kept))
        module = next(whole, None)
        inner = NUMBER.sub("*", name.rpartition(".")[0]) if module is None else module
        inner = inner.lstrip("*.") and inner
        groups.setdefault((inner, module is not None), []).append(name)
    for (module, is_whole), inside in groups.items():
        if len(inside) == 1:
            yield f"`{as_code(inside[0])}`"
            continue
        key = "report.all-in-module" if is_whole else "report.some-in-module"
        key = key if module else f"{key.removesuffix('-in-module')}-parameters"
        yield message(key, count=len(inside), module=f"`{as_code(module)}`")


def is_in(name: str, path: str) -> bool:
    """Return whether a parameter name lies in the module at a path, or equals the path."""
    return not path or f"{name}.".startswith(f"{path}.")


def spans(key: str, *sources: Source | None, but: Source | None = None) -> tuple[Span, ...]:
    """Return a span for each known source except `but`; all get the label message `key`."""
    known = dict.fromkeys(one for one in sources if one is not None and one != but)
    return tuple(Span(source=one, label=message(key)) for one in known)
