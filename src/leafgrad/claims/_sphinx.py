"""The Sphinx extension: pages are judged before they are read, and MyST-NB renders the records."""

from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from sphinx.application import Sphinx
from sphinx.config import Config as SphinxConfig
from sphinx.environment import BuildEnvironment
from sphinx.util import logging

from leafgrad.claims._build import Build, current
from leafgrad.claims._config import read_config
from leafgrad.claims._directives import add_directives
from leafgrad.claims._doctree import census, executed_examples
from leafgrad.claims._ledger import ledger_json
from leafgrad.claims._notebook import executed_notebook
from leafgrad.claims._page import Problem
from leafgrad.claims._pending import note_pending
from leafgrad.claims._read import MYST_EXTENSIONS
from leafgrad.claims._report import page_line
from leafgrad.claims._site import page_name, prove

_log = logging.getLogger(__name__)


def setup(app: Sphinx) -> dict[str, Any]:
    """Set up MyST-NB as the renderer of what this extension has executed."""
    app.setup_extension("myst_nb")
    add_directives(app)
    app.connect("config-inited", _configure)
    app.connect("env-get-outdated", _every_page)
    app.connect("env-before-read-docs", _judge)
    app.connect("build-finished", _finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def read_notebook(text: str) -> NotebookNode:
    """Hand MyST-NB the page that it is reading, executed."""
    build = current.get()
    verdict = build.page(build.env.docname)
    notebook = executed_notebook(text, verdict, vars(build.env)["myst_config"])
    note_pending(build.env, verdict, notebook)
    return notebook


def _configure(_app: Sphinx, config: SphinxConfig) -> None:
    config.nb_execution_mode = "off"
    config.nb_custom_formats = {".md": [f"{__name__}.read_notebook", {}, False]}
    config.myst_enable_extensions = {*config.myst_enable_extensions, *MYST_EXTENSIONS}


def _every_page(_app: Sphinx, env: BuildEnvironment, *_changes: set[str]) -> set[str]:
    """No verdict is older than the build: every page is read again, whatever has changed."""
    return set(env.found_docs)


def _judge(app: Sphinx, env: BuildEnvironment, _docnames: list[str]) -> None:
    config = read_config(Path(app.confdir))
    files = {docname: Path(env.doc2path(docname)) for docname in sorted(env.found_docs)}
    pages = {docname: file for docname, file in files.items() if file.suffix == ".md"}
    asked = dict.fromkeys([*(file.resolve() for file in pages.values()), *config.files()])
    site = prove(config, list(asked), report=lambda page: _log.info(page_line(page)))
    paths = {docname: page_name(file, config.root) for docname, file in files.items()}
    current.set(Build(env=env, config=config, site=site, paths=paths))


def _finish(app: Sphinx, error: Exception | None) -> None:
    """Write the ledger, and tell what is not true at the very end, where it is read."""
    if error is not None:
        return
    build = current.get()
    text = ledger_json(build.site, build.config)
    Path(app.outdir, "claims.json").write_text(text, encoding="utf-8")
    for path, problem in _problems(build):
        _log.error(problem.message, location=f"{path}:{problem.line}", type="claims")
        app.statuscode = 1


def _problems(build: Build) -> list[tuple[str, Problem]]:
    """Add what the census finds on the built pages to what the pages themselves told."""
    executed = executed_examples(build.site)
    problems = dict.fromkeys(build.site.problems)
    told = {(path, problem.snippet) for path, problem in problems if problem.snippet}
    for docname, path in build.paths.items():
        found = census(build.env.get_doctree(docname), executed)
        problems |= {(path, new): None for new in found if (path, new.snippet) not in told}
    return list(problems)
