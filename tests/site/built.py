"""The site that `nox -s docs` has built, whose folder it names in SITE."""

import os

import pytest

SITE = os.environ.get("SITE", "")
needs_site = pytest.mark.skipif(not SITE, reason="nox -s docs looks at the site that it builds")
