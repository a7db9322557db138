"""A tensor's description as a card."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from leafgrad._display.card import Card

if TYPE_CHECKING:
    from leafgrad._tensor.describe_tensor import TensorDescription


def card(description: "TensorDescription") -> Card:
    """Put the facts of a description into rows."""
    d = description
    rows = (
        ("tensor", ", ".join(_traits(d))),
        ("requires_grad", str(d.requires_grad)),
        ("is_leaf", "not known" if d.is_leaf is None else str(d.is_leaf)),
        ("grad_fn", _grad_fn(d)),
        ("retains_grad", str(d.retains_grad)),
        (".grad", GRAD[d.has_grad, d.will_accumulate_grad]),
        ("version", "not counted" if d.version is None else str(d.version)),
    )
    return Card(title=f"{d.name or 'tensor'}: {d.role}", rows=rows, sentences=d.why)


GRAD = {
    (False, False): "None; backward() leaves it so",
    (False, True): "None; backward() fills it",
    (True, False): "filled; backward() does not touch it",
    (True, True): "filled; backward() adds to it",
}


def _traits(description: "TensorDescription") -> Iterator[str]:
    """Yield what the tensor is: data type, shape, device, then only what is out of the ordinary."""
    layout = _short(description.layout)
    yield _short(description.dtype)
    yield _shape(description.shape)
    yield str(description.device)
    yield from [layout] * (layout != "strided")
    yield from ["parameter"] * description.is_parameter
    yield from ["view"] * description.is_view
    yield from ["inference"] * description.is_inference
    yield from [f"torch.func: {description.wrapped}"] * (description.wrapped is not None)


def _shape(shape: tuple[int | str, ...] | None) -> str:
    if shape is None:
        return "no shape yet"
    sizes = ", ".join(map(str, shape))
    return f"shape ({sizes},)" if len(shape) == 1 else f"shape ({sizes})"


def _grad_fn(description: "TensorDescription") -> str:
    output = f", output {description.output_nr}" * bool(description.output_nr)
    return f"{description.grad_fn}{output}"


def _short(name: object) -> str:
    return str(name).removeprefix("torch.")
