"""What is wrong around the backward pass: optimizers, loss terms, targets."""

from leafgrad._diagnosis.checks.training import derivatives, optimizers, targets

__all__ = ["derivatives", "optimizers", "targets"]
