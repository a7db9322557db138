"""The private functions of the prover that tests call: other test files import none of its modules.

Tests that check what a user sees belong to the command, the extension or the plugin.
"""

from collections.abc import Callable

import pytest

from sphinx_claims._config import Config, find_pages, read_config
from sphinx_claims._executing.docstrings import find_docstrings
from sphinx_claims._executing.spawned import SpawnedWorkers, usual_kind, workers
from sphinx_claims._executing.workers import Workers
from sphinx_claims._judging.digest import digest
from sphinx_claims._judging.pages import read_pages
from sphinx_claims._judging.prover import find_release, judge_page, prove
from sphinx_claims._judging.scope import read_scope
from sphinx_claims._judging.verdict import ClaimVerdict, PageVerdict
from sphinx_claims._page import Cell, Claim, Doctest, Escape, Page, Problem
from sphinx_claims._reading.include import Context, unjudged_includes
from sphinx_claims._reading.read import parse_page, read_page
from sphinx_claims._translating.differences import differences, is_reordered
from sphinx_claims._translating.translation import (
    TranslatedPage,
    Translation,
    read_translations,
    translated_pages,
)
from sphinx_claims._versions import Release, broken_bound

Judge = Callable[..., PageVerdict]
WorkersFor = Callable[[str], Workers]
forked = pytest.mark.skipif(usual_kind() == "spawn", reason="tests forked processes")

__all__ = [
    "Cell",
    "Claim",
    "ClaimVerdict",
    "Config",
    "Context",
    "Doctest",
    "Escape",
    "Judge",
    "Page",
    "PageVerdict",
    "Problem",
    "Release",
    "SpawnedWorkers",
    "TranslatedPage",
    "Translation",
    "Workers",
    "WorkersFor",
    "broken_bound",
    "differences",
    "digest",
    "find_docstrings",
    "find_pages",
    "find_release",
    "forked",
    "is_reordered",
    "judge_page",
    "parse_page",
    "prove",
    "read_config",
    "read_page",
    "read_pages",
    "read_scope",
    "read_translations",
    "translated_pages",
    "unjudged_includes",
    "usual_kind",
    "workers",
]
