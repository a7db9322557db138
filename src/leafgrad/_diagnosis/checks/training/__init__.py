"""What is wrong around the backward pass: optimizers, loss terms, targets."""

from leafgrad._diagnosis.checks.training import optimizers, steps, targets

__all__ = ["optimizers", "steps", "targets"]
