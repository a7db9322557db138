"""Take the pictures of the README and the social card, in the light and in the dark.

    .nox/project/bin/python -m docs.pictures.take

It needs Chromium, as the tests of the pictures do.
"""

import base64
import html
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

from leafgrad import trace_graph
from tests.devtools import Browser, Page, chromium

HERE = Path(__file__).parent
TERMINAL = """<!doctype html><meta charset="utf-8"><style>
:root { color-scheme: light dark }
body { margin: 0 }
pre { margin: 0; padding: 1.2rem 1.4rem; font: 15px/1.5 "DejaVu Sans Mono", monospace;
  width: fit-content;
  color: light-dark(#1f2328, #e6edf3);
  background: light-dark(#f6f8fa, #161b22) }
b { color: light-dark(#cf222e, #ff7b72) }
i { font-style: normal; color: light-dark(#1a6b3c, #7fd1a0) }
s { text-decoration: none; color: light-dark(#59636e, #9198a1) }
</style><pre>"""
COLOURS = {  # of the parts of a report
    r"^(\$ .*)$": r"<s>\1</s>",
    r"^(error\[.*?\]|- .*|.*\^+.*)$|^(error\[[a-z-]+\])": r"<b>\g<0></b>",
    r"^(help|\d+ \+.*)": r"<i>\1</i>",
    r"^(\d+ -.*)": r"<b>\1</b>",
}


def stepper() -> str:
    """Return the page that goes through the backward pass of `x**2 + sin(2 * y)`."""
    x = torch.tensor(4.0, requires_grad=True)
    y = torch.tensor(1.0, requires_grad=True)
    a, u = x * x, 2 * y
    s = torch.sin(u)
    z = a + s
    names = {"x": x, "y": y, "a": a, "u": u, "s": s, "z": z}
    return trace_graph(z, names=names, values=True, gradients=True).steps().to_html()


def diagnosis() -> str:
    """Return the report of `python -m leafgrad` on its own example, as a terminal shows it."""
    command = [sys.executable, "-m", "leafgrad"]
    report = subprocess.run(command, capture_output=True, text=True, check=True).stderr  # noqa: S603
    text = "$ python -m leafgrad train.py\n" + re.sub(r"\S*/train.py", "train.py", report)
    text = html.escape(text.strip(), quote=False)
    for part, coloured in COLOURS.items():
        text = re.sub(part, coloured, text, flags=re.MULTILINE)
    return TERMINAL + text + "</pre>"


def explorer() -> str:
    """Return the page in which to explore a network of two towers, coloured by gradient."""
    towers = [torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh()) for _ in range(2)]
    model = torch.nn.ModuleDict({"towers": torch.nn.ModuleList(towers)})
    model["head"] = torch.nn.Linear(16, 1)
    features = [tower(x) for tower, x in zip(towers, torch.randn(2, 16, 4), strict=True)]
    loss = model["head"](torch.cat(features, 1)).square().mean()
    return trace_graph(loss, names=model, gradients=True).to_html(color="gradient")


SHOTS = {  # what is drawn, how wide the window is, what is done in it, and the part that is kept
    "stepper": (
        stepper,
        470,
        """document.querySelector("h1").remove(); document.querySelector("ol").remove();
        document.querySelector(".legend").remove();
        const frame = document.querySelector(".leafgrad-frame");
        const bottom = (part) => part.getBoundingClientRect().bottom;
        const lowest = Math.max(...[...frame.querySelectorAll(".part")].map(bottom));
        frame.style.height = `${lowest - frame.getBoundingClientRect().top + 4}px`;
        frame.style.maxHeight = "none"; frame.style.overflow = "hidden";
        for (let step = 0; step < 10; step++) document.querySelector("[data-do=next]").click()""",
        "main",
    ),
    "diagnosis": (diagnosis, 1000, "", "pre"),
    "explorer": (
        explorer,
        1000,
        'document.querySelector("[data-do=in]").click()',
        "body",
    ),
}


def take(browser: Browser, name: str, file: Path, *, dark: bool) -> None:
    """Take one picture, at twice the resolution."""
    draw, width, prepare, part = SHOTS[name]
    torch.manual_seed(0)
    with tempfile.NamedTemporaryFile("w", suffix=".html", encoding="utf-8") as page:
        page.write(draw())
        page.flush()
        shown = Page(browser, Path(page.name).as_uri(), width, 620, dark=dark)
        shown.ask(f"{prepare};0")
        box = f"document.querySelector({part!r}).getBoundingClientRect()"
        left, top, wide, high = shown.ask(f"(b => [b.x, b.y, b.width, b.height])({box})")
        clip = {"x": left, "y": top, "width": wide, "height": high, "scale": 2}
        data = shown.send("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)["data"]
    file.write_bytes(base64.b64decode(data))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, chromium(Path(folder)) as started:
        for picture in SHOTS:
            for theme in ("light", "dark"):
                kept = HERE / f"{picture}-{theme}.png"
                take(started, picture, kept, dark=theme == "dark")
