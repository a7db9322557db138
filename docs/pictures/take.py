"""Take the pictures of the README, in the light and in the dark, and the social card.

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
STATIC = HERE.parent / "_static"
TERMINAL = """<!doctype html><meta charset="utf-8"><style>:root { color-scheme: light dark }
pre { padding: 1.2rem 1.4rem; font: 15px/1.5 "DejaVu Sans Mono", monospace; width: fit-content }
pre { color: light-dark(#1f2328, #e6edf3); background: light-dark(#f6f8fa, #161b22) }
b { color: light-dark(#cf222e, #ff7b72) }
i { color: light-dark(#1a6b3c, #7fd1a0); font-style: normal }
</style><pre>"""
RED = re.compile(r"^(error\[[a-z-]+\]|\d+ -.*)|\^+.*$", re.MULTILINE)
GREEN = re.compile(r"^(help|\d* +\+.*)", re.MULTILINE)


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
    run = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    report = re.sub(r"\S*/train.py", "train.py", run.stderr).strip()
    text = html.escape(f"$ python -m leafgrad train.py\n{report}", quote=False)
    return TERMINAL + GREEN.sub(r"<i>\g<0></i>", RED.sub(r"<b>\g<0></b>", text))


def explorer() -> str:
    """Return the page in which to explore a network of two towers, coloured by gradient."""
    towers = [torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh()) for _ in range(2)]
    model = torch.nn.ModuleDict({"towers": torch.nn.ModuleList(towers)})
    model["head"] = torch.nn.Linear(16, 1)
    features = [tower(x) for tower, x in zip(towers, torch.randn(2, 16, 4), strict=True)]
    loss = model["head"](torch.cat(features, 1)).square().mean()
    return trace_graph(loss, names=model, gradients=True).to_html(color="gradient")


def card() -> str:
    """Return the card that stands for the site where somebody links to it."""
    leaf = (STATIC / "leaf.svg").read_text("utf-8")
    return f"""<!doctype html><meta charset="utf-8"><style>svg {{ width: 2em; height: 2em }}
    body {{ margin: 0; padding: 60px 90px; height: 510px; font: 44px/1.4 sans-serif; color: #14532d;
      display: flex; align-items: center; justify-content: space-between }} img {{ height: 510px }}
    h1 {{ margin: 0 }}</style><div>{leaf}<h1>leafgrad</h1>See what PyTorch's<br>
    autograd sees.</div><img src="{(HERE / "stepper-light.png").as_uri()}">"""


STEPS = """document.querySelectorAll("h1, ol, .legend").forEach((part) => part.remove());
const frame = document.querySelector(".leafgrad-frame");
const bottoms = [...frame.querySelectorAll(".part")].map((b) => b.getBoundingClientRect().bottom);
frame.style = `height: ${Math.max(...bottoms) - frame.getBoundingClientRect().top + 4}px;
  max-height: none; overflow: hidden`;
for (let step = 0; step < 10; step++) document.querySelector("[data-do=next]").click();
document.getAnimations().forEach((animation) => animation.finish())"""
SHOTS = {  # what is drawn, how wide the window is, what is done in it, and the part that is kept
    "stepper": (stepper, 470, STEPS, "main"),
    "diagnosis": (diagnosis, 1000, "", "pre"),
    "explorer": (explorer, 1000, "", "body"),
    "card": (card, 1200, "", "html"),
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
        box = f"document.querySelector({part!r}).getBoundingClientRect().toJSON()"
        clip = {key: shown.ask(box)[key] for key in ("x", "y", "width", "height")} | {"scale": 2}
        data = shown.send("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)["data"]
    file.write_bytes(base64.b64decode(data))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, chromium(Path(folder)) as started:
        for picture in ("stepper", "diagnosis", "explorer"):
            for theme in ("light", "dark"):
                take(started, picture, HERE / f"{picture}-{theme}.png", dark=theme == "dark")
        take(started, "card", STATIC / "card.png", dark=False)
