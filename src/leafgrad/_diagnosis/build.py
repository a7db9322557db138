"""Making a `Diagnosis` from a code: its words come from the message file."""

from collections.abc import Sequence

from leafgrad._diagnosis.diagnosis import Diagnosis, Edit, Help, Severity, Span
from leafgrad._graph.nodes import Source
from leafgrad._messages import has_message, message


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
        slots: The placeholders of the messages; `subject` fills ``names`` and ``count``.
    """
    slots = {"names": list_names(subject), "count": len(subject), **slots}

    def words(part: str) -> str | None:
        keys = (f"{code}.{variant}.{part}", f"{code}.{part}")
        key = next(filter(has_message, keys), None)
        return None if key is None else message(key, **slots)

    advice, label = words("help"), words("label") or ""
    own = [label if at is None else "", words("note")]  # without a line, a label is a note
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


MOST_NAMES = 3


def list_names(names: Sequence[str]) -> str:
    """Return a few names as a list in words; of many, the first ones and how many follow."""
    if len(names) > MOST_NAMES:
        shown = ", ".join(f"`{name}`" for name in names[: MOST_NAMES - 1])
        return message("report.more", listed=shown, count=len(names) - MOST_NAMES + 1)
    quoted = [f"`{name}`" for name in names]
    *first, last = quoted or [""]
    return message("report.and", first=", ".join(first), last=last) if first else last
