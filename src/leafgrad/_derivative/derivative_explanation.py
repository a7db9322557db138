"""How a derivative was computed, as a value that shows itself."""

from dataclasses import dataclass
from typing import Any, Literal

from leafgrad._display.card import Card, ShownAsCard
from leafgrad._display.jsonable import fields_as_json


@dataclass(frozen=True, kw_only=True)
class DerivativeExplanation(ShownAsCard):
    """By which method a derivative is computed, and why; `explain_derivative` makes it.

    Attributes:
        method: ``"taylor"`` or ``"reverse"``, as `higher_order_grad` knows them; None where nothing
            is computed, as for order 0 and for zeros that the graph proves.
        because: One sentence that says why this method; where it names an operation, Taylor mode
            has no answer there, and it says what to do if anything can be done.
        rows: ``"proven"`` if the graph proves that rows are independent, ``"vouched for"`` if only
            ``rows="independent"`` promises it; None where nothing is computed.
    """

    method: Literal["taylor", "reverse"] | None
    because: str
    rows: Literal["proven", "vouched for"] | None

    def _card(self) -> Card:
        return Card(
            title="derivative",
            rows=(("method", str(self.method)), ("rows", str(self.rows))),
            sentences=(self.because,),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return every field under its name, as JSON types only.

        Example:
            >>> import torch
            >>> from leafgrad import explain_derivative
            >>> x = torch.ones(2, requires_grad=True)
            >>> explain_derivative(x.sin(), x, 2).to_dict()["method"]
            'reverse'
        """
        return fields_as_json(self)
