"""Try an installed sphinx-claims by verifying a page and building a site.

`nox -s wheel` runs this script.
"""

import subprocess
import sys
from pathlib import Path

PAGE = """\
# Roots

:::{claim} roots/four
The root of four is two.
:::

{claim}`4**0.5 == 2`
"""


def run(module: str, *arguments: str) -> int:
    """Run a module with this Python, and return its exit status."""
    return subprocess.run([sys.executable, "-m", module, *arguments], check=False).returncode


# This file hides any in a parent folder.
Path("pyproject.toml").write_text("[tool.claims]\n", "utf-8")
Path("docs").mkdir(exist_ok=True)
Path("docs/conf.py").write_text('extensions = ["sphinx_claims"]\n', "utf-8")
Path("docs/index.md").write_text(PAGE, "utf-8")
assert run("sphinx_claims", "verify", "docs") == 0
assert run("sphinx", "-q", "docs", "site") == 0
assert "The root of four is two" in Path("site/index.html").read_text("utf-8")

Path("docs/index.md").write_text(PAGE.replace("== 2", "== 3"), "utf-8")
assert run("sphinx_claims", "verify", "docs") == 1
