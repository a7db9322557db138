"""A verdict as lines of text."""

from leafgrad.claims._page import Page, Problem
from leafgrad.claims._site import SiteVerdict
from leafgrad.claims._verdict import PageVerdict


def page_line(verdict: PageVerdict) -> str:
    """Return the line that tells of one judged page."""
    mark = "false" if verdict.problems else "true"
    counts = f"{_count(verdict.claims, 'claim')}, {_count(verdict.checks, 'check')}"
    return f"{mark:5}  {_place(verdict.page)}  ({counts}, {verdict.seconds:.1f} s)"


def problem_line(path: str, problem: Problem) -> str:
    """Return the line that tells of one problem, as compilers write it."""
    return f"{path}:{problem.line}: {problem.message}"


def summary(site: SiteVerdict, seconds: float) -> str:
    """Return the last line: how much there was, and how much of it is not true."""
    checks = [check for page in site.pages for check in page.checks]
    total = (
        f"{_count(site.pages, 'page')}, {_count(site.claims, 'claim')}, {_count(checks, 'check')}"
    )
    verdict = f"{_count(site.problems, 'problem')}" if site.problems else "all true"
    return f"{total}: {verdict} ({seconds:.1f} s)"


def _place(page: Page) -> str:
    """Name a page by its file, and a docstring by its line as well."""
    is_page = page.path.endswith(".md") or not page.items
    return page.path if is_page else f"{page.path}:{page.items[0].line}"


def _count(things: object, noun: str) -> str:
    number = len(things)  # type: ignore[arg-type]
    return f"{number} {noun}" + ("" if number == 1 else "s")
