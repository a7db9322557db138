"""What makes `backward()` fail or compute wrong gradients.

Importing the modules registers their checks. A graph that an attempt at a failing backward pass has
freed is no finding, so what fails comes before what is freed.
"""

from leafgrad._diagnosis.checks.backward import in_place, refused, second_backward, unnoticed

__all__ = ["in_place", "refused", "second_backward", "unnoticed"]
