"""Judge pages without building a site, and review their translations and blind checks."""

import argparse
import contextlib
import os
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from sphinx_claims._config import install_hint

INTERRUPTED, NO_READER = 130, 141  # Shells use these exit codes for SIGINT and SIGPIPE.


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Return its exit status: 0 if everything is true, 1 if not, 2 after an error.

    `arguments` are those of the command line, or None for those of this process.
    """
    options = _parser().parse_args(arguments)
    try:
        status: int = options.run(options)
    except ModuleNotFoundError as error:
        return _fail(f"{install_hint(error)}: {error}")
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Python flushes standard output when it exits
        return NO_READER
    except OSError as error:
        return _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except (RuntimeError, ValueError) as error:
        return _fail(str(error))
    return status


def _verify(options: argparse.Namespace) -> int:
    from sphinx_claims._verify import verify  # noqa: PLC0415 - imported only for this command

    return 0 if verify(options.paths, options.json, update=options.update) else 1


def _watch(options: argparse.Namespace) -> int:
    from sphinx_claims._watching import watch  # noqa: PLC0415 - imported only for this command

    with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C ends the command
        watch(options.paths)
    return 0


def _review(options: argparse.Namespace) -> int:
    from sphinx_claims._review import review  # noqa: PLC0415 - imported only for this command
    from sphinx_claims._verify import requested_pages  # noqa: PLC0415 - imported only for this command

    is_done = review(*requested_pages(options.paths), options.language, accept=options.accept)
    return 0 if is_done else 1


def _check(options: argparse.Namespace) -> int:
    from sphinx_claims._check import check  # noqa: PLC0415 - imported only for this command

    return 0 if check(options.ids) else 1


def _fail(message: str) -> int:
    print(f"error: {message}", file=sys.stderr)
    return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="claims", description=__doc__)
    version = f"sphinx-claims {metadata.version('sphinx-claims')}"
    parser.add_argument("--version", action="version", version=version)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    verify = commands.add_parser("verify", help="execute pages and report what is not true")
    verify.add_argument("--json", type=Path, metavar="FILE", help="write the ledger to FILE")
    verify.add_argument(
        "--update", action="store_true", help="rewrite outdated outputs and print the diff"
    )
    verify.set_defaults(run=_verify)
    watch = commands.add_parser("watch", help="do so again whenever something is saved")
    watch.set_defaults(run=_watch)
    review = commands.add_parser("review", help="show which translations nobody has compared")
    review.add_argument("language", metavar="LANGUAGE", help="of which there are catalogues")
    review.add_argument("--accept", action="store_true", help="keep that you have compared them")
    review.set_defaults(run=_review)
    check = commands.add_parser("check", help="list or accept blind checks of claims")
    check.add_argument("ids", nargs="*", metavar="ID", help="claims whose check you have read")
    check.set_defaults(run=_check)
    for command in (verify, watch, review):
        command.add_argument(
            "paths",
            nargs="*",
            type=Path,
            metavar="PATH",
            help="pages, or folders of pages; without any: what pyproject.toml names",
        )
    return parser


if __name__ == "__main__":
    sys.exit(main())
