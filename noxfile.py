#!/usr/bin/env -S uv run --script
# /// script
# dependencies = ["nox>=2025.5.1"]
# ///
"""The project's tasks: `nox -s docs` verifies and builds the site, `nox -s tests` runs the tests.

Every session accepts `-- --torch VERSION` to use another PyTorch than the pinned one; `oldest` and
`newest` work too. Other arguments after `--` go to the session's main tool.
"""

import argparse
import contextlib
import datetime as dt
import hashlib
import json
import os
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import nox
from nox.command import CommandFailed
from nox.virtualenv import ALL_VENVS, ProcessEnv, get_virtualenv

nox.needs_version = ">=2025.5.1"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.reuse_venv = "yes"

PROJECT = Path("pyproject.toml")
PROJECT_OF_THE_PROVER = Path("claims/pyproject.toml")
PINNED_TORCH = Path("constraints/torch.txt")
VERSIONS = Path("docs/_versions")
SITE = Path("docs/_build/html")
LOOKED_AT = tuple(
    f"tests/site/test_{name}.py" for name in ("site", "reference", "visible_text", "notebooks_run")
)
LOCALES = Path("docs/locales")
DISTRIBUTIONS = Path("dist").resolve()
TABLE_OF_OPERATORS = ("-m", "sweep", "-k", "operator_table or no_operator", "tests/derivative")
LIBRARY = ("--include=src/leafgrad/*", "--fail-under=100")
PROVER = ("--include=claims/src/sphinx_claims/*", "--fail-under=90")
CORES = ("--numprocesses=logical", "--maxprocesses=8")
ON_ALL_CORES = (*CORES, "--dist=worksteal")
ONE_THREAD = {"OMP_NUM_THREADS": "1"}  # This applies to each process: more threads would compete.
# Let tests write bytecode: otherwise each of their processes compiles all modules again.
IN_TESTS = ONE_THREAD | {"PYTHONDONTWRITEBYTECODE": ""}
NEWEST = "--upgrade"
OWN = ("test", "docs", "types")  # dependency groups of the shared environment


def shared(envdir: str, **options: Any) -> ProcessEnv:
    """Return one environment for all sessions that run the project, because PyTorch is large."""
    location = Path(envdir).with_name("project")
    return get_virtualenv("uv", "virtualenv", envdir=str(location), **options)


ALL_VENVS["shared"] = shared


@nox.session(venv_backend="shared")
def docs(session: nox.Session) -> None:
    """Verify every page, build the site, run its notebooks, and test the site in Chromium."""
    options = install(session, *OWN)
    build_site(session, *options)
    session.run("python", ".ci/back_translations.py")
    if not options:  # options may select another Sphinx builder
        site = {"SITE": str(SITE.resolve())}
        session.run("pytest", *CORES, "--dist=loadfile", *LOOKED_AT, env=IN_TESTS | site)
        session.run("pytest", "-n0", "-s", "tests/site/test_live.py", env=IN_TESTS | site)


@nox.session(venv_backend="shared")
def tests(session: nox.Session) -> None:
    """Run all tests except the sweeps; with arguments, pass them to pytest.

    A sweep is a slow test over a whole table of operators, a range of values or many seeds.
    """
    options = install(session, *OWN)
    session.run("pytest", *(options or ON_ALL_CORES), env=IN_TESTS)


@nox.session(venv_backend="shared")
def sweeps(session: nox.Session) -> None:
    """Run the slow tests that cover whole tables, ranges, seeds and random programs."""
    options = install(session, *OWN)
    session.run("pytest", "-m", "sweep", *(options or ON_ALL_CORES), env=IN_TESTS)


@nox.session(default=False, venv_backend="shared")
def coverage(session: nox.Session) -> None:
    """Check that the tests run every line and branch of the library; skip most slow sweeps."""
    options = install(session, *OWN)
    measured = ("--cov=leafgrad", "--cov=sphinx_claims", "--cov-report=")
    session.run("pytest", *measured, *(options or ON_ALL_CORES), env=IN_TESTS)
    session.run("pytest", *measured, "--cov-append", *TABLE_OF_OPERATORS, env=IN_TESTS)
    session.run("coverage", "report", *LIBRARY)
    session.run("coverage", "report", *PROVER)


@nox.session(venv_backend="shared")
def types(session: nox.Session) -> None:
    """Check all types, and that the public API of both packages is fully typed."""
    options = install(session, *OWN)
    session.run("mypy", *options)
    if shutil.which("node") is None:
        session.warn("pyright runs on Node.js, which is not here: public types go unverified")
        return
    for package in ("leafgrad", "sphinx_claims"):
        session.run("pyright", "--verifytypes", package, "--ignoreexternal")


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, imports, code size, packaging metadata, workflows and repository files."""
    install(session, "lint", project=False)
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    sources = {"PYTHONPATH": os.pathsep.join(["src", "claims/src"])}
    session.run("lint-imports", "--no-logo", "--no-cache", env=sources)
    session.run("python", ".ci/budget.py")
    session.run("validate-pyproject", str(PROJECT), str(PROJECT_OF_THE_PROVER))
    session.run("sp-repo-review", ".")
    session.run("zizmor", "--offline", "--no-progress", "--quiet", ".github")
    workflows = sorted(map(str, Path(".github/workflows").glob("*.yml")))
    chooser = ".github/ISSUE_TEMPLATE/config.yml"
    templates = (file.as_posix() for file in Path(".github/ISSUE_TEMPLATE").glob("*.yml"))
    forms = sorted(file for file in templates if file != chooser)
    for schema, files in (
        ("vendor.github-workflows", workflows),
        ("vendor.github-issue-forms", forms),
        ("vendor.github-issue-config", [chooser]),
        ("vendor.dependabot", [".github/dependabot.yml"]),
        ("vendor.readthedocs", [".readthedocs.yaml"]),
        ("vendor.citation-file-format", ["CITATION.cff"]),
    ):
        session.run("check-jsonschema", "--builtin-schema", schema, *files)


@nox.session
def build(session: nox.Session) -> None:
    """Build both distributions and check their contents and metadata."""
    install(session, "build", project=False)
    shutil.rmtree(DISTRIBUTIONS, ignore_errors=True)
    for project in (PROJECT, PROJECT_OF_THE_PROVER):
        with session.chdir(project.parent):
            session.run("python", "-m", "hatchling", "build", "-d", str(DISTRIBUTIONS))
    built = sorted(map(str, DISTRIBUTIONS.iterdir()))
    session.run("twine", "check", "--strict", *built)
    wheels = [file for file in built if file.endswith(".whl")]
    session.run("check-wheel-contents", *wheels)


@nox.session(default=False, reuse_venv=False, requires=["build"])
@nox.parametrize("name", ["leafgrad", "sphinx-claims"])
def wheel(session: nox.Session, name: str) -> None:
    """Install a wheel in a new environment and try it."""
    (file,) = DISTRIBUTIONS.glob(f"{name.replace('-', '_')}-*.whl")
    install_lean(session, str(file), *session.posargs)
    trial = Path(".ci", f"try_{name.replace('-', '_')}.py").resolve()
    with session.chdir(session.create_tmp()):
        session.run("python", str(trial))


@nox.session(default=False)
def libraries(session: nox.Session) -> None:
    """Test the guide's programs that use Lightning, transformers and other libraries."""
    options = install(session, "test", "libraries")
    session.run("pytest", "tests/debug/test_libraries.py", *options, env=IN_TESTS)


@nox.session(default=False)
def bench(session: nox.Session) -> None:
    """Run all benchmarks, which measure the figures quoted by the site and the README."""
    options = install(session, "bench", "peers")
    for benchmark in sorted(Path("benchmarks").glob("*.py")):
        # Some files only define what others import.
        session.run("python", str(benchmark), *options)


@nox.session(default=False)
@nox.parametrize("torch", sorted(file.stem for file in VERSIONS.glob("*.json")))
def matrix(session: nox.Session, torch: str) -> None:
    """Test each PyTorch version that has a file in `docs/_versions`, and update the file.

    `-- --keep` keeps the environments, 5 GB each.
    """
    is_kept = "--keep" in session.posargs
    if not is_kept:  # each cached wheel takes another 5 GB
        session.env.update(UV_NO_CACHE="1", PIP_NO_CACHE_DIR="1")
    try:
        install(session, "test", "docs", torch=torch)
        fill_column(session)
    finally:
        if not is_kept:
            shutil.rmtree(session.virtualenv.location, ignore_errors=True)


@nox.session(default=False)
def column(session: nox.Session) -> None:
    """Test one PyTorch version, which may be new, and write its file in `docs/_versions`."""
    fill_column(session, *install(session, "test", "docs"))


@nox.session(default=False, venv_backend="shared")
def catalogues(session: nox.Session) -> None:
    """Update the translation catalogues from the pages.

    `-- docs/PAGE.md` updates only the catalogues of this page, without executing it.
    """
    pages = install(session, *OWN)
    if pages:
        session.run("python", ".ci/translations.py", *pages)
        return
    templates = Path(session.create_tmp()).resolve()
    session.run("sphinx-build", "-q", "-b", "gettext", "docs", str(templates))
    (templates / "sphinx.pot").unlink()  # contains only some of the theme's messages
    languages = [f"--language={language}" for language in translations()]
    where = (f"--pot-dir={templates}", f"--locale-dir={LOCALES}")
    session.run("sphinx-intl", "update", *where, *languages, "--line-width=100", "--no-obsolete")


@nox.session(default=False, venv_backend="shared")
def serve(session: nox.Session) -> None:
    """Build the site and serve it on localhost."""
    options = install(session, *OWN)
    build_site(session)
    session.run("python", "-m", "http.server", "--bind", "localhost", "-d", str(SITE), *options)


@nox.session(default=False, venv_backend="none")
def clean(session: nox.Session) -> None:
    """Remove the site and the files that tests left behind."""
    for leftover in (SITE.parent, *Path().glob(".coverage*"), *Path().glob(".*_cache")):
        session.log(f"removing {leftover}")
        shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink(missing_ok=True)


def build_site(session: nox.Session, *options: str) -> None:
    """Build the site with Sphinx; treat warnings as errors and report all of them."""
    shutil.rmtree(SITE, ignore_errors=True)  # This removes deleted pages from the site.
    strict = ("--nitpicky", "--fail-on-warning", "--keep-going")
    jobs = f"--jobs={'auto' if sys.platform == 'linux' else 1}"  # Sphinx forks for several jobs
    for language, site in {"en": SITE, **translations()}.items():
        doctrees = f"--doctree-dir={SITE.with_name(f'doctrees-{language}')}"
        build = ("sphinx-build", *strict, jobs, doctrees, *options, "docs", str(site))
        session.run(*build, env={"SITE_LANGUAGE": language})
    shutil.rmtree(SITE / "jupyter_execute", ignore_errors=True)  # written next to translations
    session.log(f"the site: {(SITE / 'index.html').resolve()}")


def translations() -> dict[str, Path]:
    """Return the languages that have catalogues, and the folder of each one's site."""
    languages = sorted(folder.parent.name for folder in LOCALES.glob("*/LC_MESSAGES"))
    return {language: SITE / language.lower().replace("_", "-") for language in languages}


def fill_column(session: nox.Session, *options: str) -> None:
    """Run the tests and verify the claims; write the results to `docs/_versions`."""
    results = Path(session.virtualenv.location)
    tests, ledger = results / "tests.xml", results / "claims.json"
    verify = ("claims", "verify", "--json", str(ledger))
    run = ("pytest", f"--junitxml={tests}", *ON_ALL_CORES, *options)
    session.run(*run, success_codes=[0, 1], env=IN_TESTS)
    if session.run(*verify, success_codes=[0, 1]) is None:
        return  # `session.run` ran nothing, under --install-only
    file, kept = what_was_found(tests, ledger)
    session.log(f"the column: {file}")
    if kept["tests"]["failed"] or kept["problems"]:
        session.error(f"{kept['tests']['failed']} tests fail, {kept['problems']} lines are false")


def what_was_found(tests: Path, ledger: Path) -> tuple[Path, dict[str, Any]]:
    """Write the results of pytest and `claims verify` to a file in `docs/_versions`.

    Return the file and its data.
    """
    suite = ET.parse(tests).getroot()[0].attrib
    judged = json.loads(ledger.read_text(encoding="utf-8"))
    failed = int(suite["failures"]) + int(suite["errors"])
    skipped = int(suite["skipped"])
    claims = judged["claims"]
    red = [*judged["problems"], *(line for claim in claims for line in claim["problems"])]
    red = [line for line in red if VERSIONS.as_posix() not in line.get("page", "")]
    kept = {
        "torch": judged["torch"],
        "python": judged["python"],
        "date": dt.datetime.now(tz=dt.UTC).date().isoformat(),
        "tests": {
            "passed": int(suite["tests"]) - failed - skipped,
            "failed": failed,
            "skipped": skipped,
        },
        "problems": len(red),
        "claims": {claim["id"]: f"{claim['verdict']} {claim['digest']}" for claim in claims},
    }
    file = VERSIONS / f"{judged['torch']}.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    return file, kept


def install(
    session: nox.Session, *groups: str, project: bool = True, torch: str | None = None
) -> list[str]:
    """Install dependency groups; return the session's arguments without `--torch VERSION`.

    If the environment already contains exactly these, do nothing, so that repeated runs start at
    once. `project` adds both packages in editable mode.
    """
    session.env["PYTHONUTF8"] = "1"  # All files of this project are UTF-8, on any system.
    chosen, options = chosen_torch(session.posargs)
    pin = pin_of(torch or chosen)
    wanted = nox.project.dependency_groups(nox.project.load_toml(PROJECT), *groups)
    if project:
        wanted = ("--editable", ".", "--editable", "claims", *wanted, *pin)
    stamp = Path(session.virtualenv.location) / "installed.sha256"
    files = (PROJECT, PROJECT_OF_THE_PROVER, PINNED_TORCH)
    said = "\n".join([*wanted, *(file.read_text("utf-8") for file in files)])
    digest = hashlib.sha256(said.encode()).hexdigest()
    if NEWEST in wanted or not (stamp.is_file() and stamp.read_text() == digest):
        stamp.unlink(missing_ok=True)
        install_lean(session, *wanted)
        # Use run_install because it does nothing under --no-install, like install.
        session.run_install(
            "python", "-c", f"open({str(stamp)!r}, 'w').write({digest!r})", log=False
        )
    return options


def install_lean(session: nox.Session, *wanted: str) -> None:
    """Install `wanted`, with a PyTorch without CUDA (5 GB smaller) if uv can download it."""
    if session.venv_backend == "uv" and "UV_TORCH_BACKEND" not in os.environ:
        for_the_cpu = {"UV_TORCH_BACKEND": "cpu", "UV_HTTP_RETRIES": "0"}
        with contextlib.suppress(CommandFailed):
            session.install(*wanted, env=like_pip() | for_the_cpu, silent=True)
            return
        session.log("PyTorch's builds for the CPU cannot be had: taking what can, maybe 5 GB")
    session.install(*wanted, env=like_pip())


def chosen_torch(posargs: list[str]) -> tuple[str | None, list[str]]:
    """Return the value of `--torch`, or None, and the other arguments."""
    parser = argparse.ArgumentParser(prog="nox -s SESSION --", allow_abbrev=False, add_help=False)
    parser.add_argument("--torch", metavar="VERSION")
    chosen, options = parser.parse_known_args(posargs)
    return chosen.torch, options


def pin_of(torch: str | None) -> tuple[str, ...]:
    """Return the pip arguments that select a PyTorch version: the given or the pinned one."""
    match torch:
        case None | "pinned":
            return ("--constraint", str(PINNED_TORCH))
        case "newest":
            return (NEWEST,)
        case "oldest":
            (needed,) = tomllib.loads(PROJECT.read_text("utf-8"))["project"]["dependencies"]
            return (f"{needed.replace('>=', '==')}.*",)
        case _:
            return (f"torch=={torch}",)


def like_pip() -> dict[str, str]:
    """Return environment variables that make uv behave like pip.

    uv then finds the wheels in `PIP_FIND_LINKS` and compiles bytecode. Without bytecode, importing
    PyTorch takes twice as long.
    """
    folders = os.environ.get("PIP_FIND_LINKS", "").split()
    found = {"UV_FIND_LINKS": ",".join(folders)} if folders else {}
    return {"UV_COMPILE_BYTECODE": "1"} | found


if __name__ == "__main__":
    nox.main()
