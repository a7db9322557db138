"""Another thread computes the loss, and nothing is cut off."""

from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

encoder, head = nn.Linear(3, 4), nn.Linear(4, 1)
model = nn.ModuleDict({"encoder": encoder, "head": head})


def compute():
    features = encoder(torch.ones(2, 3))
    return head(features).mean()


with ThreadPoolExecutor() as pool:
    loss = pool.submit(compute).result()
