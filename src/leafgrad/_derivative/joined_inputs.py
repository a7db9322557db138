"""Treat several input tensors (the parts) as columns of one joined tensor.

The outputs were computed from the parts and not from the joined tensor. To construct a path from
the joined tensor, it is split into pieces with the shapes of the parts. Each edge of the graph that
leads to a part is redirected to the piece of this part.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from leafgrad import _autograd
from leafgrad._derivative.arguments import Function, check_differentiable, evaluate
from leafgrad._derivative.dependence import find_path
from leafgrad._messages import message


class JoinedInputs(NamedTuple):
    """Several inputs, joined to one tensor ``(*batch, columns)``.

    Attributes:
        whole: The joined tensor, a leaf. It is a copy, so it does not share memory with the parts.
        parts: The tensors that outputs was computed from: ``(*batch, some columns)``, or ``batch``.
        pieces: The views of `whole` that correspond to the parts, with the same shapes.
    """

    whole: Tensor
    parts: Sequence[Tensor]
    pieces: Sequence[Tensor]

    def find_path(self, outputs: Tensor, *, allow_unused: bool | None) -> _autograd.Path | None:
        """Return the path between `whole` and `outputs`.

        If `outputs` depends on no part, raise an error, or return None if `allow_unused` is True.
        """
        paths = [
            _path_to(number, outputs, part, allow_unused=allow_unused)
            for number, part in enumerate(self.parts)
        ]
        return self._joined_path(paths)

    def path_between(self, derivative: Tensor) -> _autograd.Path | None:
        """Return the path between `whole` and `derivative`, or None if it depends on no part."""
        return self._joined_path([_autograd.path_between(derivative, p) for p in self.parts])

    def whole_of(self, gradients: Sequence[Tensor]) -> Tensor:
        """Return the gradient of `whole`: the gradients of the parts, joined in the same way."""
        if self.pieces[0].dim() == self.whole.dim():
            return torch.cat([*gradients], -1)
        return torch.stack([*gradients], -1)

    def _joined_path(self, given: Sequence[_autograd.Path | None]) -> _autograd.Path | None:
        paths = {number: path for number, path in enumerate(given) if path is not None}
        if not paths:
            return None
        end = next(iter(paths.values())).end
        cut: Any = self.pieces[0].grad_fn  # All pieces have the same `grad_fn`.
        led: dict[Any, Any] = {path.start: (cut, number) for number, path in paths.items()}
        edges = {node: edges for path in paths.values() for node, edges in path.nodes.items()}
        if any(node in edges for node, _ in led):
            raise ValueError(message("derivative.several-inputs.nested"))
        nodes = {cut: _autograd.next_functions(cut)}
        for node in reversed([*_autograd.walk([end[0]])]):
            if node in edges:
                nodes[node] = tuple(led.get(edge, edge) for edge in edges[node])
        start: Any = nodes[cut][0]
        return _autograd.Path(nodes, start, led.get(end, end))


def _path_to(
    number: int, outputs: Tensor, part: Tensor, *, allow_unused: bool | None
) -> _autograd.Path | None:
    """Return the path between `outputs` and `part`, which is input number `number`.

    Without a path, raise an error that contains the number, or return None if `allow_unused` is
    True.
    """
    try:
        return find_path(outputs, part, allow_unused=allow_unused)
    except RuntimeError as error:
        refusal = message("derivative.several-inputs.one", number=number, error=error)
        raise RuntimeError(refusal) from None


def join(outputs: Tensor | Function, inputs: Sequence[Tensor]) -> tuple[Tensor, JoinedInputs]:
    """Join several inputs. Return the outputs and the `JoinedInputs`.

    If `outputs` is a function, it is called with the inputs.
    """
    if not inputs:
        raise ValueError(message("derivative.several-inputs.none"))
    for place, part in enumerate(inputs):
        check_differentiable(f"inputs[{place}]", part)
    parts = inputs
    if not isinstance(outputs, Tensor):
        outputs, parts = evaluate(outputs, *inputs)
    if len({*map(id, parts)}) < len(parts):
        raise ValueError(message("derivative.several-inputs.twice"))
    if len({(part.dtype, part.device) for part in parts}) > 1:
        raise TypeError(message("derivative.several-inputs.dtypes"))
    values = [part.detach() for part in parts]
    if all(part.shape == outputs.shape for part in parts) and outputs.dim() <= 1:
        whole = torch.stack(values, -1).requires_grad_()
        return outputs, JoinedInputs(whole, parts, whole.unbind(-1))
    if not all(part.dim() for part in parts) or len({part.shape[:-1] for part in parts}) > 1:
        shapes = ", ".join(str(tuple(part.shape)) for part in parts)
        raise ValueError(message("derivative.several-inputs.shapes", shapes=shapes))
    whole = torch.cat(values, -1).requires_grad_()
    return outputs, JoinedInputs(whole, parts, whole.split([p.shape[-1] for p in parts], -1))
