"""Where Chromium is and how it is started."""

import shutil

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or ""
needs_chromium = pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed")
SWITCHES = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--no-first-run",
    "--hide-scrollbars",
    "--no-startup-window",  # tests open their own tabs
]
