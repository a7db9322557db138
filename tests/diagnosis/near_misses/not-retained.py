"""Its gradient is retained."""

import torch

w = torch.ones(3, requires_grad=True)
h = w.exp()
h.retain_grad()
model = {"h": h}
loss = h.sum()
