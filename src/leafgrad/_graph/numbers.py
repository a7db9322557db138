"""Numbers of tensors, as one reads them."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leafgrad._graph.nodes import TracedNode
    from leafgrad._graph.summary import Number, TensorSummary

UNKNOWN = "not recorded"


def summary(tensor: "TensorSummary") -> str:
    """Write the number itself, a handful of numbers, or what sums many up."""
    if tensor.unread is not None:
        return f"not read: {tensor.unread}"
    if tensor.numbers is None:
        return ", ".join(_facts(tensor))
    numbers = list(map(number, tensor.numbers))
    return numbers[0] if len(numbers) == 1 else f"[{', '.join(numbers)}]"


def _facts(tensor: "TensorSummary") -> list[str]:
    known = {"mean": tensor.mean, "norm": tensor.norm}
    facts = [f"{name} {number(fact)}" for name, fact in known.items() if fact is not None]
    facts += [f"{tensor.nans} nan"] * bool(tensor.nans)
    return facts + [f"{tensor.infinities} inf"] * bool(tensor.infinities)


def number(value: "Number") -> str:
    """Write a number with five digits, an integer with all it has."""
    return str(value) if isinstance(value, int) else f"{value:.5g}"


def value(node: "TracedNode") -> str | None:
    """Write what a node's operation made; None where nobody asked."""
    return _several(node.values, UNKNOWN)


def gradient(node: "TracedNode") -> str | None:
    """Write the gradient that arrived at a node; None where none did."""
    return _several(node.gradients, "none") if any(node.gradients) else None


def _several(tensors: "tuple[TensorSummary | None, ...]", missing: str) -> str | None:
    """Write what there is for each output, and one word where there is nothing at all."""
    written = [missing if tensor is None else str(tensor) for tensor in tensors]
    return "; ".join(written if any(tensors) else written[:1]) or None
