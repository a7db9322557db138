"""Why a tensor has no gradient, as a card."""

from typing import TYPE_CHECKING

from leafgrad._display.card import Card

if TYPE_CHECKING:
    from leafgrad._explain.explanation import GradExplanation


def card(explanation: "GradExplanation") -> Card:
    """Put the facts into rows, and cause and cure into sentences."""
    e = explanation
    rows = (
        (".grad", "filled" if e.has_grad else "None"),
        ("requires_grad", str(e.requires_grad)),
        ("is_leaf", "not known" if e.is_leaf is None else str(e.is_leaf)),
        ("retains_grad", str(e.retains_grad)),
        ("reached from outputs", str(e.is_reached)),
        ("graph freed", str(e.is_freed)),
        *((("filled by backward", "cannot be seen"),) if e.will_be_filled is None else ()),
        *(("hook", hook) for hook in e.hooks),
        *(("cut", f"{cut.kind} by {cut.operation}, {cut.source}") for cut in e.cuts),
    )
    title = f"gradient of {e.name or 'tensor'}: {e.cause}"
    return Card(title=title, rows=rows, sentences=(e.because, *_on_hooks(e), e.cure))


def _on_hooks(explanation: "GradExplanation") -> tuple[str, ...]:
    """Say that hooks have the last word."""
    told = "What its hooks do to the gradient is not looked at: they may make it zero or take it."
    return (told,) * bool(explanation.hooks)
