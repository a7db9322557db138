"""Pages in headless Chromium, where there is one."""

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

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
]
DARK = ["--blink-settings=preferredColorScheme=0"]


def ask(body: str, question: str, folder: Path, *, dark: bool = False) -> Any:
    """Show a page and give what a JavaScript expression says about it, as JSON types."""
    page = folder / "page.html"
    answer = f"document.title = JSON.stringify({question})"
    page.write_text(f"<!doctype html><meta charset=utf-8>{body}<script>{answer}</script>", "utf-8")
    run = subprocess.run(
        [
            CHROMIUM,
            *SWITCHES,
            *DARK * dark,
            f"--user-data-dir={folder / 'profile'}",
            "--window-size=1000,800",
            "--dump-dom",
            page.as_uri(),
        ],
        capture_output=True,
        check=True,
        text=True,
        timeout=120,
    )
    (title,) = re.findall("<title>(.*?)</title>", run.stdout.split("<svg")[0], re.DOTALL)
    return json.loads(html.unescape(title))
