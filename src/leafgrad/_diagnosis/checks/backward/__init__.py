"""The checks for a `backward()` that fails or computes wrong gradients.

Importing a module registers its checks. A failed `backward()` frees a part of the graph. So the
checks for failures run before the check for freed graphs.
"""

from leafgrad._diagnosis.checks.backward import in_place, refused, second_backward, unnoticed

__all__ = ["in_place", "refused", "second_backward", "unnoticed"]
