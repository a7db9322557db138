"""One finding about a training step: what is wrong, where, and what to type."""

from dataclasses import dataclass
from enum import StrEnum

from leafgrad._graph.nodes import Source


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
