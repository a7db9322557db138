"""What is wrong around the backward pass: optimizers, loss terms, targets."""
