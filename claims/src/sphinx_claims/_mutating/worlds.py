"""Worlds in which PyTorch is broken in one place, to see which claims notice."""

from sphinx_claims._mutating.pass_worlds import PASS_WORLDS
from sphinx_claims._mutating.tensor_worlds import TENSOR_WORLDS

WORLDS = (*PASS_WORLDS, *TENSOR_WORLDS)
