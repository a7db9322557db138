"""The Sphinx extension. It judges all pages before Sphinx reads any.

MyST-NB renders the records.
"""

import contextlib
import dataclasses
import functools
import gc
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from nbformat import NotebookNode
from sphinx.application import Sphinx
from sphinx.config import Config as SphinxConfig
from sphinx.environment import BuildEnvironment
from sphinx.errors import ConfigError
from sphinx.util import logging

from sphinx_claims._config import find_pages, read_config
from sphinx_claims._executing.spawned import workers
from sphinx_claims._executing.workers import Workers
from sphinx_claims._judging.ledger import ledger_json
from sphinx_claims._judging.pages import page_name, read_pages
from sphinx_claims._judging.prover import prove_in
from sphinx_claims._judging.report import (
    annotations,
    excluded_line,
    kinds_line,
    page_line,
    red_lines,
    shown_line,
    summary,
)
from sphinx_claims._page import Problem
from sphinx_claims._reading.markdown import MYST_EXTENSIONS
from sphinx_claims._sphinx.badges import ShowVerdicts, unjudged_claims
from sphinx_claims._sphinx.build import Build, current
from sphinx_claims._sphinx.directives import add_directives
from sphinx_claims._sphinx.doctree import unexecuted_code
from sphinx_claims._sphinx.ledger_page import find_unlisted_claims
from sphinx_claims._sphinx.notebook import executed_notebook, note_pending
from sphinx_claims._sphinx.words import load_words

_OUTPUT = {"output", "traceback"}


def silence_traceback_lexer(_app: Sphinx, doctree: nodes.document) -> None:
    """Prevent warnings of the traceback lexer, because an error message may contain any text."""
    for block in doctree.findall(nodes.literal_block):
        if _OUTPUT.issubset(block["classes"]):
            block["force"] = True


_log = logging.getLogger(__name__)
_STATIC = Path(__file__).parent / "static"


def setup(app: Sphinx) -> dict[str, Any]:
    """Register this extension, with MyST-NB as the renderer of executed cells.

    Return its metadata.
    """
    _collect_rarely(app)
    app.setup_extension("myst_nb")
    app.setup_extension("sphinx.ext.doctest")  # This extension renders the directives of doctest.
    add_directives(app)
    app.add_config_value("claims_shown_with", {}, "env", dict)
    app.add_post_transform(ShowVerdicts)
    app.connect("config-inited", _configure)
    app.connect("config-inited", load_words)
    app.add_css_file("sphinx-claims.css")
    # Read every page again, so that no verdict is older than the build.
    app.connect("env-get-outdated", lambda _app, env, *_: set(env.found_docs))
    app.connect("env-before-read-docs", functools.partial(_judge, _start_workers(app)))
    app.connect("doctree-read", silence_traceback_lexer)
    app.connect("env-check-consistency", _check_documents)
    app.connect("build-finished", _report)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _collect_rarely(app: Sphinx) -> None:
    """Make garbage collection rare until the build ends; it would take a fifth of the time."""
    usual = gc.get_threshold()
    gc.set_threshold(200_000, 10, 100)
    app.connect("build-finished", lambda *_: gc.set_threshold(*usual))


def read_notebook(text: str) -> NotebookNode:
    """Return the executed notebook of the page that MyST-NB is reading."""
    build = current.get()
    verdict = build.page(build.env.docname)
    notebook = executed_notebook(text, verdict, vars(build.env)["myst_config"])
    note_pending(build.env, verdict, notebook)
    return notebook


def _configure(_app: Sphinx, config: SphinxConfig) -> None:
    config.nb_execution_mode = "off"
    config.nb_custom_formats = {".md": [f"{__name__}.read_notebook", {}, False]}
    # MyST-NB creates this folder. Its files are not pages, so Sphinx must not read them.
    config.exclude_patterns = [*config.exclude_patterns, "jupyter_execute"]
    config.html_static_path = [str(_STATIC), *config.html_static_path]
    config.myst_enable_extensions = {*config.myst_enable_extensions, *MYST_EXTENSIONS}


def _start_workers(app: Sphinx) -> list[Workers]:
    """Start worker processes early, so that they import modules while Sphinx starts.

    Return them in a list, which is empty if they could not be started.
    """
    with contextlib.suppress(OSError, RuntimeError, ValueError):  # the build reports these errors
        config = read_config(Path(app.confdir))
        return [workers(config.preload, config.processes)]
    return []


def _judge(
    started: list[Workers], app: Sphinx, env: BuildEnvironment, _docnames: list[str]
) -> None:
    start = time.monotonic()
    try:
        config = dataclasses.replace(
            read_config(Path(app.confdir)), shown_with=app.config.claims_shown_with
        )
        files = {docname: Path(env.doc2path(docname)) for docname in sorted(env.found_docs)}
        pages = [file for file in files.values() if file.suffix == ".md"]
        judged = {file.resolve(): None for file in (*pages, *config.files())}
        others = find_pages([Path(app.srcdir), *config.beside()])
        beside = [file for file in others if file.resolve() not in judged]
        with started.pop() if started else workers(config.preload, config.processes) as running:
            read = read_pages(list(judged), config)
            site = prove_in(running, config, read, lambda verdict: _log.info(page_line(verdict)))
    except (OSError, RuntimeError, ValueError) as error:
        raise ConfigError(str(error)) from error
    excluded = tuple(page_name(file, config.root) for file in beside)
    paths = {docname: page_name(file, config.root) for docname, file in files.items()}
    site = dataclasses.replace(site, built=tuple(paths), excluded=excluded)
    seconds = time.monotonic() - start
    current.set(Build(env=env, config=config, site=site, paths=paths, seconds=seconds))


def _check_documents(app: Sphinx, env: BuildEnvironment) -> None:
    """Add to the verdict the problems that only parsed documents show, and write the ledger."""
    build = current.get()
    found = (*_find_problems_on_pages(build, env), *find_unlisted_claims(build.site, env))
    build = dataclasses.replace(build, site=build.site.with_problems(found))
    current.set(build)
    ledger = Path(app.outdir, "claims.json")
    ledger.write_text(ledger_json(build.site, build.config), encoding="utf-8")


def _find_problems_on_pages(build: Build, env: BuildEnvironment) -> Iterator[tuple[str, Problem]]:
    for docname, path in build.paths.items():
        doctree = env.get_doctree(docname)
        for problem in (*unexecuted_code(doctree), *unjudged_claims(doctree)):
            yield path, problem


def _report(app: Sphinx, error: Exception | None) -> None:
    """Report all problems at the very end of the build, so that they are not overlooked."""
    if error is not None:
        return
    build = current.get()
    _log.info(summary(build.site, build.seconds))
    for counted in (excluded_line, shown_line, kinds_line):
        if text := counted(build.site):
            _log.info(text)
    red = list(red_lines(build.site))
    for line in red:
        place = f"{line.path}:{line.line}"
        # With a type, the setting `suppress_warnings` could hide the error.
        _log.error(line.text, location=place, type=None)
        app.statuscode = 1
    for annotation in annotations(red, build.config.root):
        print(annotation)
