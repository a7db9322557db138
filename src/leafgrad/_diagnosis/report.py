"""The findings about a training step, ranked, as a value that shows itself."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TextIO

from leafgrad._diagnosis.diagnosis import Diagnosis, Severity
from leafgrad._diagnosis.render import as_html, as_terminal, as_text
from leafgrad._display.jsonable import fields_as_json


@dataclass(frozen=True, repr=False)
class Report:
    """What `diagnose` found, the most severe first.

    It keeps no tensor and no graph alive. ``print(report)`` shows it as text; a notebook shows it
    in colour.

    Attributes:
        diagnoses: The findings: what stops training first; what follows from a finding is listed
            with it.
        help: How to find out more, such as the lines at fault where no recording saw them.
    """

    diagnoses: tuple[Diagnosis, ...]
    help: str = ""

    @property
    def ok(self) -> bool:
        """Whether there is no error and no warning."""
        return all(one.severity is Severity.NOTE for one in self.diagnoses)

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes of the findings, in order."""
        return tuple(one.code for one in self.diagnoses)

    def about(self, *names: str) -> "Report":
        """Return the findings about some tensors, by their names.

        Args:
            names: The names, as they stand in `Diagnosis.subject`.
        """
        about = tuple(one for one in self.diagnoses if not {*names}.isdisjoint(one.subject))
        return Report(about, self.help if about else "")

    def show(self, file: TextIO | None = None) -> None:
        """Print the report, in colour if the terminal has colours and ``NO_COLOR`` is not set.

        Args:
            file: Where to print it; by default to standard output.
        """
        stream = file or sys.stdout
        print(as_terminal(self.diagnoses, self.help, stream), file=stream)

    def __str__(self) -> str:
        return as_text(self.diagnoses, self.help)

    def __repr__(self) -> str:
        return f"<Report: {', '.join(self.codes) or 'ok'}>"

    def __bool__(self) -> bool:
        raise TypeError(
            "a Report is neither true nor false: use report.ok, which is True if nothing is wrong, "
            "or report.diagnoses"
        )

    def __iter__(self) -> Iterator[Diagnosis]:
        return iter(self.diagnoses)

    def __len__(self) -> int:
        return len(self.diagnoses)

    def _repr_html_(self) -> str:
        return as_html(self.diagnoses, self.help)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON types.

        Returns:
            ``ok``, ``help``, and ``diagnoses``, a list with a dict for each finding.
        """
        return {"ok": self.ok, **fields_as_json(self)}
