"""The second input gets None."""

import torch


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return factor * x

    @staticmethod
    def backward(ctx, gradient):
        return ctx.factor * gradient, None


x = torch.ones(2, requires_grad=True)
model = {"x": x}

loss = Scale.apply(x, 2.0).sum()
