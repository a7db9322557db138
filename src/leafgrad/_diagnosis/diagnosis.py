"""One finding about a training step: what is wrong, where, and what to type."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate

from leafgrad._graph.nodes import Source
from leafgrad._messages import has_message, message


class Severity(StrEnum):
    """How much a finding matters; the most severe come first.

    Attributes:
        ERROR: Training fails, or a parameter that should be trained is not.
        WARNING: Training runs, and probably does something else than intended.
        NOTE: It is worth knowing, and may be intended.
    """

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """An expression in the user's code, and what to say about it.

    Attributes:
        source: The file, the line and the columns.
        label: A few words that stand under the expression.
    """

    source: Source
    label: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Edit:
    """A change of one line of code.

    Attributes:
        file: The file.
        line: The line that changes.
        before: The line as it is.
        after: The lines that replace it.
    """

    file: str
    line: int
    before: str
    after: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Help:
    """What to do about a finding.

    Attributes:
        text: The advice, which names what to type.
        edits: The same as changes of the user's lines, if the fix can be written down exactly.
    """

    text: str
    edits: tuple[Edit, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Diagnosis:
    """One finding.

    Attributes:
        code: Its name, such as ``"no-grad"``, which is also its section on the page of diagnoses.
        severity: How much it matters.
        headline: The finding in one sentence.
        subject: The names of the tensors it is about.
        primary: The expression at fault; None if no recording saw it and autograd keeps no line.
        secondary: Further expressions that explain it, such as the line that switched recording
            off.
        notes: Facts that are needed to understand it.
        help: What to do, the most likely fix first.
        consequences: The findings that follow from this one.
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


def diagnosis(  # noqa: PLR0913 # it fills a value with as many fields
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
    """Make a finding, with the ``headline``, ``label``, ``note`` and ``help`` of its code.

    Args:
        code: The code.
        severity: How much it matters.
        subject: The names of the tensors.
        at: The expression at fault.
        variant: Which messages to prefer where a code has several causes: for ``"data"``,
            ``CODE.data.help`` stands before ``CODE.help``.
        secondary: Further expressions.
        notes: Notes.
        edits: The changes of the user's lines that the help describes.
        slots: The placeholders of the messages; `subject` fills ``names`` and ``count``, which is
            one where nothing is named.
    """
    slots = {"names": list_names(subject), "count": len(subject) or 1, **slots}

    def words(part: str) -> str | None:
        keys = (f"{code}.{variant}.{part}", f"{code}.{part}")
        key = next(filter(has_message, keys), None)
        return None if key is None else message(key, **slots)

    advice, label = words("help"), words("label") or ""
    # Without a line, a label is a note, unless it points to the line.
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
    """Return a name as code: ``0.bias`` reads like a number, ``model[0].bias`` does not."""
    indices = INDICES.match(name)
    if indices is None:
        return name
    return f"model[{indices[0].replace('.', '][')}]{name[indices.end() :]}"


def list_names(names: Sequence[str], among: Sequence[str] = ()) -> str:
    """Return names as a list in words; many are counted by module.

    Args:
        names: The names.
        among: All names of the model: a module of which all parameters are listed is named once.
    """
    parts = [f"`{as_code(name)}`" for name in names]
    if len(names) > MOST_NAMES:
        parts = [*_count_by_module(names, among)]
    if len(parts) > MOST_NAMES:
        more = len(parts) - MOST_NAMES + 1
        return message("report.more", listed=", ".join(parts[:-more]), count=more)
    *first, last = parts or [message("report.no-names")]
    return message("report.and", first=", ".join(first), last=last) if first else last


def _count_by_module(names: Sequence[str], among: Sequence[str]) -> Iterator[str]:
    """Yield how many parameters of each module there are, with a star for each number."""
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
    """Return whether a name is that of something in a module, or of the module itself."""
    return not path or f"{name}.".startswith(f"{path}.")


def spans(key: str, *sources: Source | None, but: Source | None = None) -> tuple[Span, ...]:
    """Return spans with one label for the known lines, leaving out the line of the finding."""
    known = dict.fromkeys(one for one in sources if one is not None and one != but)
    return tuple(Span(source=one, label=message(key)) for one in known)
