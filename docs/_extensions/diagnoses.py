"""Show the example of a diagnosis: its smallest program, PyTorch's message, and the report.

`{diagnosis} CODE` ends the section about a code, and makes the code an anchor of that section. The
programs of a page run in a process of their own, in which a script may change what it likes.
"""

import json
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import leafgrad
import torch
from docutils import nodes
from leafgrad import diagnose, record
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

LIBRARY = Path(leafgrad.__file__).parent
MESSAGES = tomllib.loads((LIBRARY / "_messages" / "en.toml").read_text("utf-8"))
PROGRAMS = Path(__file__).parents[1] / "diagnoses"
ON_PAGE = re.compile(r"^```\{diagnosis\} (\S+)$", re.MULTILINE)
EXAMPLE = """\
:::{{fold}} Example: `{code}`
```{{code-block}} python
{program}```

{error}`diagnose` reports:

```{{code-block}} text
{report}
```
:::
"""
ERROR = "PyTorch raises:\n\n```{{code-block}} text\n{error}\n```\n\n"


def run(code: str) -> dict[str, str]:
    """Run the program of a code; return its report and what PyTorch raises."""
    file = f"{code}.py"
    variables: dict[str, Any] = {"__name__": "__main__"}
    error = ""
    torch.manual_seed(0)
    with record(values=True) as recording:
        try:
            exec(compile(Path(file).read_text("utf-8"), file, "exec"), variables)
        except RuntimeError as raised:
            error = f"RuntimeError: {raised}"
    loss, model, optimizer = map(variables.get, ("loss", "model", "optimizer"))
    options = {"recording": recording, "gradients": True, "expect": variables.get("expect")}
    report = str(diagnose(loss, model, optimizer, **options))
    if "pytorch" in MESSAGES[code] and not error:
        try:
            loss.backward()
        except RuntimeError as raised:
            error = f"RuntimeError: {raised}"
    return {"report": report, "error": error}


@cache
def results(codes: tuple[str, ...]) -> dict[str, dict[str, str]]:
    """Run the programs of a page."""
    command = [sys.executable, "-W", "ignore", __file__, *codes]
    done = subprocess.run(command, cwd=PROGRAMS, stdout=subprocess.PIPE, check=True)
    found: dict[str, dict[str, str]] = json.loads(done.stdout.splitlines()[-1])
    return found


class DiagnosisDirective(SphinxDirective):
    """Show the example of a code, and let links find its section."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Add the anchor, and return PyTorch's other messages and the folded example."""
        (code,) = self.arguments
        section = self.state_machine.node
        section["ids"].insert(0, code)
        title = section[0].astext()
        labels = self.env.domains.standard_domain
        labels.anonlabels[code] = self.env.docname, code
        labels.labels[code] = self.env.docname, code, title
        messages = [m for m in MESSAGES[code].get("pytorch", ()) if m.lower() not in title.lower()]
        text = f"Also: {', '.join(f'`{m}`' for m in messages)}\n\n" if messages else ""
        program = PROGRAMS / f"{code}.py"
        if program.is_file():
            page = Path(self.env.doc2path(self.env.docname)).read_text("utf-8")
            codes = (c for c in ON_PAGE.findall(page) if (PROGRAMS / f"{c}.py").is_file())
            found = results(tuple(codes))[code]
            error = ERROR.format(error=found["error"]) if found["error"] else ""
            shown = {"code": code, "program": program.read_text("utf-8"), "error": error}
            text += EXAMPLE.format(**shown, report=found["report"])
        for file in (program, *LIBRARY.rglob("*.py"), *LIBRARY.rglob("*.toml")):
            self.env.note_dependency(file)
        return self.parse_text_to_nodes(text)


def setup(app: Sphinx) -> ExtensionMetadata:
    """Add the directive."""
    app.add_directive("diagnosis", DiagnosisDirective)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


if __name__ == "__main__":
    print(json.dumps({code: run(code) for code in sys.argv[1:]}))
