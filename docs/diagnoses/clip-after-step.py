import torch
from torch import nn

model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

for batch in torch.rand(2, 5, 3):
    optimizer.zero_grad()
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
