"""`python -m leafgrad.claims verify [PATHS]`: the verdict without building a site."""

import argparse
import dataclasses
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from leafgrad.claims._config import find_pages, read_config
from leafgrad.claims._ledger import ledger_json
from leafgrad.claims._report import page_line, problem_line, summary
from leafgrad.claims._site import prove


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status: 0 if everything is true, 1 if anything is not."""
    options = _parser().parse_args(arguments)
    try:
        return _verify(options.paths, options.json)
    except (FileNotFoundError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _verify(paths: Sequence[Path], json: Path | None) -> int:
    start = time.monotonic()
    config = read_config(Path())
    if paths:
        config, files = dataclasses.replace(config, docstrings=()), find_pages(paths)
    else:
        files = config.files()
    if not files:
        message = "there are no pages: name some, or set pages in [tool.leafgrad.claims]"
        raise ValueError(message)
    site = prove(config, files, report=lambda page: print(page_line(page), flush=True))
    for path, problem in site.problems:
        print(problem_line(path, problem))
    if json is not None:
        json.write_text(ledger_json(site, config), encoding="utf-8")
    print(summary(site, time.monotonic() - start))
    return 1 if site.problems else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m leafgrad.claims", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    verify = commands.add_parser("verify", help="execute pages and say what is not true")
    verify.add_argument(
        "paths",
        nargs="*",
        type=Path,
        metavar="PATH",
        help="pages, or folders of pages; without any: what pyproject.toml names, with docstrings",
    )
    verify.add_argument("--json", type=Path, metavar="FILE", help="write the ledger to FILE")
    return parser


if __name__ == "__main__":
    sys.exit(main())
