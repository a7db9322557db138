"""It requires grad from then on, and is a leaf."""

import torch

x = torch.tensor([0.25, 0.75]).view(2, 1).requires_grad_()
model = {"x": x}
loss = x.square().sum()
