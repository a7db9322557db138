"""A script with a mistake, which `python -m leafgrad` shows if it is given no script."""

import torch

model = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(16, 2), torch.randn(16, 1)
for _ in range(3):
    optimizer.zero_grad()
    hidden = model[1](model[0](x)).detach()
    loss = (model[2](hidden) - y).square().mean()
    loss.backward()
    optimizer.step()
