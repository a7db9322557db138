"""`python -m leafgrad.claims verify [PATHS]`: the verdict without building a site."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status: 0 if everything is true, 1 if anything is not."""
    options = _parser().parse_args(arguments)
    try:
        from leafgrad.claims._verify import verify  # noqa: PLC0415 - it needs the extra
    except ModuleNotFoundError as error:
        return _failed(f"install the extra, as in pip install 'leafgrad[claims]': {error}")
    try:
        return 0 if verify(options.paths, options.json) else 1
    except (FileNotFoundError, ValueError) as error:
        return _failed(str(error))


def _failed(message: str) -> int:
    print(f"error: {message}", file=sys.stderr)
    return 2


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
