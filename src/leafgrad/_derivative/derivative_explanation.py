"""The value that `explain_derivative` returns: how a derivative is computed, and why."""

from dataclasses import dataclass
from typing import Any, Literal

from leafgrad._display.card import Card, ShownAsCard
from leafgrad._display.jsonable import fields_as_json


@dataclass(frozen=True, kw_only=True)
class DerivativeExplanation(ShownAsCard):
    """How a derivative is computed, and why. `explain_derivative` returns it.

    Attributes:
        method: ``"taylor"`` or ``"reverse"``, the two methods of `higher_order_grad`. None if
            nothing is computed, which is the case for order 0 and for derivatives that the graph
            proves to be zero.
        because: A sentence with the reason for this method. If it names an operation, Taylor mode
            cannot differentiate that operation, and the sentence says what you can do about it.
        rows: ``"proven"`` if the graph proves that rows are independent. ``"vouched for"`` if the
            caller promised this with ``rows="independent"``. None if nothing is computed.
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
        """Return a dict with every field, converted to JSON types.

        Example:
            >>> import torch
            >>> from leafgrad import explain_derivative
            >>> x = torch.ones(2, requires_grad=True)
            >>> explain_derivative(x.sin(), x, 2).to_dict()["method"]
            'reverse'
        """
        return fields_as_json(self)
