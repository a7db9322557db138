import torch
from torch import nn

model, head = nn.Linear(3, 4), nn.Linear(4, 2)

# Attention weights, probabilities of another loss, and a target that is detached.
attention = model(torch.rand(5, 3)).softmax(1)
logits = head(attention)
teacher = logits.detach().softmax(1)
loss = nn.functional.cross_entropy(logits, teacher) + nn.functional.nll_loss(
    logits.softmax(1).log(), torch.zeros(5).long()
)
loss = loss + nn.functional.binary_cross_entropy(logits.sigmoid(), torch.zeros(5, 2))
loss = loss + nn.functional.binary_cross_entropy_with_logits(logits, logits.detach().sigmoid())
