"""What tests that build small sites share."""

from typing import Any

from jinja2 import BytecodeCache
from jinja2.bccache import Bucket
from sphinx.application import Sphinx


class _Kept(BytecodeCache):
    """The templates that this process has compiled."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        if kept := self._kept.get(bucket.key):
            bucket.bytecode_from_string(kept)

    def dump_bytecode(self, bucket: Bucket) -> None:
        self._kept[bucket.key] = bucket.bytecode_to_string()


_KEPT = _Kept()


def build(app: Sphinx, **options: Any) -> None:
    """Build a site, with templates that are compiled once: it takes half of a small build."""
    if templates := getattr(app.builder, "templates", None):
        templates.environment.bytecode_cache = _KEPT
    app.build(**options)
