"""The checks of optimizers, loss terms and derivatives."""

from leafgrad._diagnosis.checks.training import derivatives, optimizers, targets

__all__ = ["derivatives", "optimizers", "targets"]
