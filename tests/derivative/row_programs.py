"""Programs on five rows of two columns that keep rows independent, or mix or move them."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from leafgrad import higher_order_grad

Program = Callable[[Tensor], Tensor]

SIDE = torch.tensor([True, False, True, True, False])
OTHER = torch.tensor([True, True, False, True, False])
FIRST, ONE = torch.tensor([1, 0]), torch.tensor([1])
MATRIX = torch.linspace(-1, 1, 8, dtype=torch.float64).view(2, 4)


def put(x: Tensor, mask: Any, values: Tensor) -> Tensor:
    result = torch.zeros_like(x)
    result[mask] = values
    return result


def written(x: Tensor, shift: int = 0) -> Tensor:
    result = torch.zeros_like(x)
    result[:, 0] = x[:, 1]
    result[:, 1:] += x[:, 1:].roll(shift, 0)
    result[:, 1] *= x[:, 0]
    return result


def squashed(x: Tensor) -> Tensor:
    return (x @ torch.ones(2, 4, dtype=x.dtype)).tanh() @ torch.ones(4, 1, dtype=x.dtype)


def slope_of(function: Program) -> Program:
    return lambda x: torch.autograd.grad(function(x).sum(), x, create_graph=True)[0]


class Within(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x.sum(1, keepdim=True)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (x,), (g,) = ctx.saved_tensors, gradients
        return g * x.sum(1, keepdim=True) + (g * x).sum(1, keepdim=True)


class Across(Within):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x.sum(0)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (x,), (g,) = ctx.saved_tensors, gradients
        return g * x.sum(0) + (g * x).sum(0)


def applied(function: Any) -> Program:
    return function.apply  # type: ignore[no-any-return]


APART: dict[str, Program] = {
    "columns": lambda x: x[:, 0] * x[:, 1],
    "bases": lambda x: (x.unsqueeze(-1) - torch.arange(3.0)).exp().flatten(1),
    "an axis of size 1": lambda x: (x.unsqueeze(1) * x.unsqueeze(-2)).squeeze(1),
    "features": lambda x: torch.cat([x.sin(), x.new_ones(5, 2), x.cos()], -1),
    "a sum": lambda x: x.sum(-1, keepdim=True) * x.mean(1)[:, None],
    "exchanged": lambda x: (x[:, :, None] * torch.ones(3)).transpose(1, -1).mean((-1, 1)),
    "a layer norm": lambda x: functional.layer_norm(x, (2,)),
    "experts": lambda x: put(put(x.sin(), SIDE, x[SIDE].cos()), ~SIDE, x.new_ones(2)) * x,
    "rows over rows": lambda x: (y := x * 2).index_put((SIDE,), y[SIDE].tanh()),
    "a constant": lambda x: (x * 2).index_put((SIDE,), x.new_ones(2)),
    "a constant of each row": lambda x: x.sin() * torch.arange(5).view(5, 1),
    "an axis added in front": lambda x: (x * 2)[None].index_put((SIDE[:1],), x.new_ones(5, 2))[0],
    "columns of rows": lambda x: x.t()[SIDE[:2]].t() * x,
    "a mask with holes": lambda x: put(x, (m := SIDE.repeat_interleave(2)[::2]), x[m]),
    "numbers": lambda x: put(x, torch.tensor([2, 0]), x[[2, -5]].exp()),
    "numbers over numbers": lambda x: put(
        x, SIDE, x[SIDE].exp().index_put((FIRST,), x[SIDE][FIRST].sin())
    ),
    "no rows": lambda x: x * x[SIDE & ~SIDE].exp().sum(),
    "one number": lambda x: put(x, torch.tensor([2]), x[torch.tensor([2])]),
    "elements": lambda x: put(x, x > 1, x[x > 1]),
    "one row after another": lambda x: put(x, FIRST[:1], x[1:2]).index_put(
        (FIRST[1:],), x[:1].sin()
    ),
    "numbers written to": lambda x: (x * 2).index_put((torch.tensor([0]),), x.new_ones(2)),
    "nobody": lambda x: put(x.sin(), SIDE & ~SIDE, x[SIDE & ~SIDE].exp()) * x,
    "another axis is cut": lambda x: torch.cat([x[:, 1:], x[:, :1]], -1),
    "another axis is put in": lambda x: (x.unsqueeze(-1) * torch.ones(2)).sum(-1),
    "another axis is added up": lambda x: x.sum(1, keepdim=True) * torch.ones(1, 2, dtype=x.dtype),
    "other axes are exchanged": lambda x: x.unsqueeze(-1).transpose(1, 2).flatten(1),
    "another axis is normalised": lambda x: functional.layer_norm(x, (2,)),
    "a weight depends on inputs": lambda x: x @ torch.ones(2, 2, dtype=x.dtype),
    "there and back": lambda x: x.movedim(-1, 0).exp().t(),
    "flattened and back": lambda x: (x.reshape(-1, 2) @ MATRIX).reshape(-1).sin().view(5, 2, 2),
    "attention within rows": lambda x: (
        (x[..., None] @ x[..., None, :]).softmax(-1) @ x[..., None]
    ).squeeze(-1),
    "pixels": lambda x: functional.conv1d(x.unsqueeze(1), x.new_ones(2, 1, 1)).mean(1),
    "a stack": lambda x: torch.stack([x.sin(), x.cos()], 1).softmax(1).flatten(1),
    "a stack of rows": lambda x: torch.stack([row.exp() for row in x.unbind(0)]),
    "flipped and back": lambda x: x.flip(0).cos().flip(0) * x.flip(1),
    "numbered and back": lambda x: x[[3, 1, 4, 0, 2]].sin()[[3, 1, 4, 0, 2]],
    "chunks": lambda x: torch.cat([x[:2].sin(), x[2:].cos()]),
    "chosen columns": lambda x: x[:, torch.tensor([1, 0, 1])] * x.index_select(1, ONE),
    "sorted columns": lambda x: x.sort(1).values * x.gather(1, x.argsort(1)) * x.cumsum(1),
    "written columns": lambda x: (x * 2).index_copy(1, ONE, x[:, :1]).index_add(1, ONE, x[:, 1:]),
    "columns written in place": written,
    "a branch": lambda x: torch.where(x > 1, x, x.square()),
    "matrices of rows": lambda x: torch.linalg.inv(
        x.unsqueeze(-1) @ x.unsqueeze(1) + torch.eye(2, dtype=x.dtype)
    ),
    "systems of rows": lambda x: torch.linalg.solve(
        torch.eye(2, dtype=x.dtype) * 4 + x[:, :, None] * 0.1, x
    ),
    "a diagonal": lambda x: torch.einsum("ni,nj->nij", x, x.cos()).diagonal(0, 1, 2),
    "repeated": lambda x: x.view(-1, 1, 2).repeat(1, 2, 1).reshape(-1, 4)[:, ::2],
    "a norm": lambda x: x.renorm(2, 0, 1.0),
    "a custom function": applied(Within),
    "_FusedBackward": lambda x: higher_order_grad(squashed(x), x, (2, 0), method="taylor"),
    "_SolutionBackward": lambda x: higher_order_grad((x * x).exp(), x, (2, 0)),
    "_SinCosBackward": lambda x: higher_order_grad((x * x).sin(), x, (5, 0)),
    "_ContractBackward": lambda x: higher_order_grad(
        torch.linalg.cross(x.sin()[:, [0, 1, 0]], (x * x).exp()[:, [0, 1, 1]]), x, (2, 0)
    ),
    "_ProductBackward": lambda x: higher_order_grad(x.sin() * (x * x).exp(), x, (2, 0)),
    "TanhBackwardBackward0": slope_of(torch.tanh),
    "SoftplusBackwardBackward0": slope_of(lambda x: functional.softplus(squashed(x))),
}
MIXED: dict[str, Program] = {
    "another axis is cut": lambda x: torch.cat([x[1:], x[:1]], 0),
    "another axis is put in": lambda x: (x.unsqueeze(0) * torch.ones(2, 1, 1)).sum(1),
    "another axis is added up": lambda x: x.sum(0, keepdim=True) * torch.ones(2, 2),
    "other axes are exchanged": lambda x: x.unsqueeze(-1).transpose(0, 1).flatten(1),
    "another axis is normalised": lambda x: functional.layer_norm(x, (2, 2)),
    "a weight depends on inputs": lambda x: torch.ones(2, 2, dtype=x.dtype) @ x,
    "other numbers": lambda x: put(x, torch.tensor([0, 2]), x[torch.tensor([2, 0])]),
    "rows of rows": lambda x: put(x, torch.tensor([0, 1]), x[SIDE][torch.tensor([0, 1])]),
    "rows of another mask": lambda x: put(x, OTHER, x[SIDE]),
    "no axes": lambda x: x.sin().sum(()) + x,
    "one row": lambda x: x.index_put((SIDE,), (x * 2)[0]),
    "a sum over all": lambda x: x + x.sum(),
    "a mean over all": lambda x: x + x.mean(dim=None),
    "a mean": lambda x: x - x.mean(0),
    "a product": lambda x: x * x.prod(0).tanh(),
    "a norm over all": lambda x: x / x.norm(),
    "a maximum": lambda x: x / x.max(),
    "sorted": lambda x: x.sort(0).values,
    "flipped": lambda x: x.flip(0),
    "rolled": lambda x: x + 0.5 * x.roll(1, 0),
    "rolled with its columns": lambda x: x.roll(2),
    "swapped": lambda x: x[[1, 0, 2, 3, 4]],
    "gathered": lambda x: x.gather(0, torch.zeros(5, 2, dtype=torch.int64)),
    "a running sum": lambda x: x.cumsum(0),
    "a running product": lambda x: x.cumprod(0),
    "a running sum of exponentials": lambda x: x.logcumsumexp(0),
    "the first row": lambda x: x * x[0],
    "the first rows": lambda x: x * x[:1],
    "swapped chunks": lambda x: torch.cat(x.split(2)[::-1]),
    "a stack turned round": lambda x: torch.stack(x.unbind()[::-1]),
    "softmax": lambda x: x.softmax(0),
    "all pairs": lambda x: x @ x.t() @ x,
    "all products": lambda x: x.tanh() @ (x.t() @ x).tanh(),
    "all differences": lambda x: (x[:, None] - x[None]).square().sum(1),
    "all distances": lambda x: torch.cdist(x, x).sum(1),
    "a matrix from the left": lambda x: torch.ones(5, 5, dtype=x.dtype).triu() @ x,
    "put along two axes": lambda x: x.index_put((torch.arange(2), torch.arange(2)), x.sum()),
    "copied to other rows": lambda x: x.index_copy(0, torch.tensor([0]), x[1:2]),
    "added to other rows": lambda x: x.index_add(0, torch.arange(4, -1, -1), x * x),
    "scattered": lambda x: x.scatter(0, torch.tensor([[0, 1]]), x[1:2]),
    "written in place": lambda x: written(x, 1),
    "written to other rows": lambda x: put(x.new_zeros(6, 2), slice(1, None), x)[:5],
    "shown of some rows": lambda x: x.exp().as_strided((2, 2), (4, 1)).repeat(3, 1)[:5],
    "padded": lambda x: functional.pad(x, (0, 0, 1, 0))[:5],
    "rows that were columns": lambda x: x.t().reshape(-1, 2),
    "rows in a row": lambda x: x.reshape(2, 5).t(),
    "a view of one more axis": lambda x: (x * x.new_ones(5, 1, 1)).view(5, 10),
    "exchanged rows": lambda x: (x @ x.new_ones(2, 5)).transpose(0, 1) @ x.new_ones(5, 2),
    "an axis in front": lambda x: x[:, :1] + x.new_ones(5, 1, 1),
    "rows and columns of one size": lambda x: x[:, 0] + x @ x.new_ones(2, 5),
    "one of several axes": lambda x: (x * x.new_ones(5, 1, 1))[:, 0],
    "one of an axis without rows": lambda x: (x[:, 0] * x.new_ones(5, 1))[:, 0],
    "a sum over two of three axes": lambda x: (x * x.new_ones(5, 1, 1)).sum((1, -1)),
    "a weight of a norm": lambda x: functional.layer_norm(x.new_ones(5, 2), (5, 2), x),
    "convolution": lambda x: functional.conv1d(x.t()[None], x.new_ones(2, 2, 3), padding=1)[0].t(),
    "batch norm": lambda x: functional.batch_norm(x, None, None, training=True),
    "a condition": lambda x: x + torch.where(x.sum(0) > 0, x[:1], x[1:2]),
    "a custom function over rows": applied(Across),
}
"""With the names of programs in `APART`: those have the same kinds of nodes, on two rows."""
