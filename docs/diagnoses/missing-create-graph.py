import torch
from torch import nn

w = nn.Parameter(torch.tensor(2.0))
model = {"w": w}

inner = w.square()
(step,) = torch.autograd.grad(inner, w)
loss = (w - 0.1 * step).square()
