"""Read the pages of a site, and check them against each other."""

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from pathlib import Path

from sphinx_claims._config import TABLE, Config, relative_path
from sphinx_claims._executing.raised import describe
from sphinx_claims._judging.anchors import claim_anchor
from sphinx_claims._judging.index import Index, read_index
from sphinx_claims._judging.kinds import kind_problems, pair_problems
from sphinx_claims._judging.scope import DefaultScope, read_scope, scope_problems, with_scope
from sphinx_claims._page import Cell, Claim, Escape, Page, Problem, Scope
from sphinx_claims._reading.include import unjudged_includes
from sphinx_claims._reading.read import read_page


def page_name(file: Path, root: Path) -> str:
    """Return the path of the page `file` relative to `root`, under which it is reported."""
    return relative_path(root, file.resolve())


def read_pages(
    files: Sequence[Path], config: Config, taken: dict[str, str] | None = None
) -> list[Page]:
    """Read pages. A claim with a duplicate id or invalid sources becomes a problem of its page.

    `taken` maps the ids of the claims read so far to their places. This function adds to it.
    Without `taken`, duplicates are found only among these pages.
    """
    taken = {} if taken is None else taken

    @functools.cache
    def judged_files() -> frozenset[Path]:
        return frozenset(file.resolve() for file in (*files, *config.files()))

    pages, default = [], read_scope(config)
    index = read_index([*files, *config.files()])
    for file in files:
        page = _with_claims(_read(file, config), default, index)
        blind = {cell.checks[0] for cell in page.of(Cell) if cell.checks}
        others = {index.files[one] for one in blind & index.files.keys()}
        read = [_with_claims(_read(other, config), default, index) for other in others]
        page = dataclasses.replace(page, checked_elsewhere=tuple(c for p in read for c in p.claims))
        misfits = [found for claim in page.claims for found in _misfits(page, claim, taken, config)]
        scoped = (item for item in page.items if isinstance(item, Claim | Scope))
        misfits += [problem for item in scoped for problem in scope_problems(item, default, config)]
        misfits += pair_problems(page, index.files)
        unjudged = [*unjudged_includes(page, judged_files)]
        items, problems = [*page.items], [*page.problems, *misfits]
        if config.python_fences == "refuse":
            problems += unjudged
        else:
            items += [Escape(line=include.line, because="") for include in unjudged]
        page = dataclasses.replace(page, items=tuple(items), problems=tuple(problems))
        pages.append(with_settings(page, config))
    return pages


def _with_claims(page: Page, default: DefaultScope, index: Index) -> Page:
    """Return the page with the scope, exceptions and blind checks of its claims filled in.

    Blind checks are described in `Cell`. Exceptions and blind checks come from all pages in
    `index`.
    """

    def complete(claim: Claim) -> Claim:
        named = index.exceptions.get(claim.id, ()), index.digests.get(claim.id, ())
        scoped = with_scope(page, claim, default)
        return dataclasses.replace(scoped, exceptions=named[0], digests=named[1])

    items = (complete(item) if isinstance(item, Claim) else item for item in page.items)
    return dataclasses.replace(page, items=tuple(items))


def _read(file: Path, config: Config) -> Page:
    path = page_name(file, config.root)
    try:
        return read_page(file, path, config.python_fences)
    except OSError as error:
        problem = Problem(1, f"a page must be readable: {error.strerror}")
    except Exception as error:  # noqa: BLE001 - the other pages are still judged
        problem = Problem(1, f"the prover failed on this page: {describe(error)}")
    return Page(path=path, items=(), problems=(problem,))


def with_settings(page: Page, config: Config) -> Page:
    """Return the page with the settings of `config` that its execution needs."""
    flags, setup = config.doctest_default_flags, config.doctest_global_setup
    zoo = _zoo_of(config.root / config.zoo) if config.zoo else None
    return dataclasses.replace(page, flags=flags, setup=setup, zoo=zoo)


@functools.cache
def _zoo_of(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def _misfits(page: Page, claim: Claim, taken: dict[str, str], config: Config) -> Iterator[Problem]:
    yield from kind_problems(page, claim, config)
    here = f"{page.path}:{claim.line}"
    first = taken.setdefault(claim.id, here)
    if first != here:
        yield Problem(claim.line, f"claim {claim.id} stands at {first} already")
    elif taken.setdefault(claim_anchor(claim.id), here) != here:
        anchor = claim_anchor(claim.id)
        yield Problem(
            claim.line,
            "the ids of claims must differ in more than case and marks: "
            f"{claim.id} has the anchor #{anchor} of the claim at {taken[anchor]}: rename one",
        )
    if config.package is None and (claim.since or claim.until):
        rule = "the versions of a claim are those of a package"
        yield Problem(claim.line, f"{rule}: set package in {TABLE} to its name")
    for source in claim.sources:
        document = source.split()[0]
        if document not in config.documents:
            known = ", ".join(config.documents) or "none"
            rule = f"a source begins with a document that pyproject.toml names ({known})"
            yield Problem(claim.line, f"{rule}, not {document!r}")
