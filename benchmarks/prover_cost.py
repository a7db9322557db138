"""Compare the cost of building a site with sphinx-claims and with MyST-NB in force mode.

The figures are medians of CPU time (all child processes) and wall-clock time. Runs use one job
each and are interleaved. Sphinx without executing anything is the floor of every build.
"""

import argparse
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
SPHINX = [sys.executable, "-m", "sphinx", "-q", "-E", "-a", "--jobs=1"]
PROVER = [sys.executable, "-m", "sphinx_claims"]
USUAL = "MyST-NB, force mode"
NOTEBOOK = "---\nfile_format: mystnb\nkernelspec:\n  name: python3\n---\n\n"
PLAIN_SETTINGS = """
extensions.remove("sphinx_claims")
extensions.append("myst_nb")
nb_execution_mode = "{mode}"
nb_execution_allow_errors = True  # one page writes a page of its own kind
"""
PLAIN = {
    r"^:::\{claim\}.*$": ":::{note}",
    r"^:(sources|since|until):.*\n": "",
    r"^( *):raises:.*$": r"\1:tags: [raises-exception]",
    r"^ *:warns:.*\n": "",
    r"\{(claim|value)\}(`[^`]+`)": r"\2",
    r"^```\{claims-(ledger|total)\}\n(.*\n)*?```$": "",
}
"""Patterns that only sphinx_claims understands, and their replacements for MyST-NB."""

CLAIM = """
:::{{claim}} {1}/gradient-{0}
The gradient of the squares is twice as large as what is squared.
:::

```{{code-cell}} python
x{0} = torch.arange({0}.0, {0}.0 + 3.0, requires_grad=True)
(x{0} ** 2).sum().backward()
assert torch.equal(x{0}.grad, 2 * x{0})
```
"""
IMPORT = "\n```{code-cell} python\nimport torch\n```\n"

Cost = tuple[float, float]


def main() -> None:
    """Print a table for each site."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        small = small_site(Path(folder, "small"), pages=15, cells=6)
        report("This site", ROOT / "docs", rounds)
        report("15 pages of 6 cells, in Sphinx's own theme", small, rounds)
        saved = statistics.median(seconds_to_verdict(small, saves=4 * rounds + 1))
        print(f"\nwatch, from the saving of a page to its verdict: {saved:.2f} s")


def small_site(folder: Path, pages: int, cells: int) -> Path:
    """Write a site whose pages have `cells` cells: an import, then claims about gradients."""
    folder.mkdir()
    (folder / "conf.py").write_text('extensions = ["sphinx_claims"]\n')
    table = "[tool.claims]\npages = ['.']\npreload = ['torch']\n"
    (folder / "pyproject.toml").write_text(table)
    names = ["index", *(f"page{number}" for number in range(1, pages))]
    toctree = "\n```{toctree}\n" + "\n".join(names[1:]) + "\n```\n"
    for name in names:
        body = "".join(CLAIM.format(number, name) for number in range(1, cells))
        start = toctree if name == "index" else ""
        (folder / f"{name}.md").write_text(f"# {name}\n{start}{IMPORT}{body}")
    return folder


def report(title: str, docs: Path, rounds: int) -> None:
    """Run every way to build `docs`, in turn; print medians and their ratios to MyST-NB's."""
    with tempfile.TemporaryDirectory() as folder:
        ways = commands(docs, Path(folder))
        taken = [[cost(command, docs) for command in ways.values()] for _ in range(rounds)]
    costs = [
        tuple(map(statistics.median, zip(*way, strict=True))) for way in zip(*taken, strict=True)
    ]
    medians = dict(zip(ways, costs, strict=True))
    print(f"\n{title}\n{'':34}{'CPU':>8}{'ratio':>8}{'wall':>9}{'ratio':>8}")
    for name, (cpu, wall) in medians.items():
        ratios = cpu / medians[USUAL][0], wall / medians[USUAL][1]
        print(f"{name:34}{cpu:6.1f} s{ratios[0]:8.3f}{wall:7.1f} s{ratios[1]:8.3f}")


def commands(docs: Path, folder: Path) -> dict[str, list[str]]:
    """Return the commands that build or verify `docs`, by name."""
    plain, off = (plain_copy(docs, folder / mode, mode) for mode in ("force", "off"))
    return {
        USUAL: [*SPHINX, str(plain), f"{folder}/usual"],
        "Sphinx, nothing executed": [*SPHINX, str(off), f"{folder}/floor"],
        "sphinx_claims, the whole site": [*SPHINX, str(docs), f"{folder}/site"],
        "sphinx_claims, the verdict alone": [*PROVER, "verify", str(docs)],
    }


def seconds_to_verdict(docs: Path, saves: int) -> list[float]:
    """Save a watched page `saves` times; return the seconds until each verdict."""
    page, seconds = docs / "page1.md", []
    with subprocess.Popen(
        [*PROVER, "watch"], stdout=subprocess.PIPE, text=True, cwd=docs
    ) as watching:
        lines = watching.stdout or ()
        next(line for line in lines if "all true" in line)
        for _ in range(saves):
            time.sleep(0.5)
            page.write_text(page.read_text() + "\n")
            start = time.perf_counter()
            next(line for line in lines if page.name in line)
            seconds.append(time.perf_counter() - start)
        watching.terminate()
    return seconds


def plain_copy(docs: Path, folder: Path, mode: str) -> Path:
    """Copy the site to `folder`, rewritten for MyST-NB; return the folder of its pages."""
    copied = Path(shutil.copytree(docs, folder / "docs", ignore=shutil.ignore_patterns("_build")))
    for file in ("README.md", "CHANGELOG.md"):
        shutil.copy(ROOT / file, folder)
    with (copied / "conf.py").open("a") as settings:
        settings.write(PLAIN_SETTINGS.format(mode=mode))
    for page in copied.rglob("*.md"):
        text = page.read_text(encoding="utf-8")
        for pattern, replacement in PLAIN.items():
            text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
        page.write_text(NOTEBOOK * ("{code-cell}" in text) + text, encoding="utf-8")
    return copied


def cost(command: list[str], folder: Path) -> Cost:
    """Run a command; return the CPU seconds of it and its children, and the wall-clock seconds."""
    start, before = time.perf_counter(), cpu_of_children()
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    wall, cpu = time.perf_counter() - start, cpu_of_children() - before
    if done.returncode:
        sys.exit(f"failed: {' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return cpu, wall


def cpu_of_children() -> float:
    """Return the CPU seconds of all child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
