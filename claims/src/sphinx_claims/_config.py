"""The settings in `[tool.claims]` of pyproject.toml."""

import dataclasses
import doctest
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn


def relative_path(root: Path | str, file: Path | str) -> str:
    """Return the path of `file` relative to `root`, with slashes.

    On Windows, a file on another drive keeps its whole path.
    """
    try:
        return Path(os.path.relpath(file, root)).as_posix()
    except ValueError:
        return Path(file).as_posix()


def install_hint(error: ModuleNotFoundError) -> str:
    """Return a message that says how to install the module that `error` misses."""
    package = "watchfiles" if error.name == "watchfiles" else "./claims"
    place = "" if error.name == "watchfiles" else " in a clone of leafgrad"
    return f"something is missing: run `python3 -m pip install {package}`{place}"


TABLE = "[tool.claims]"
FENCES = ("execute", "refuse", "show")
"""The values that `python_fences` may have."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """The settings of a project, whose pyproject.toml is in the folder `root`.

    - `pages`: the files and folders to judge; `docstrings`: the modules whose docstrings to judge.
    - `preload`: modules that are imported before pages run.
    - `doctest_global_setup`: code that runs before the first `>>>` example of a page;
      `doctest_default_flags`: doctest's option flags for all examples.
    - `processes`: how the processes of pages start, "fork" or "spawn"; `timeout`: the seconds that
      a page may take.
    - `translations`: the folder of the gettext catalogues; `glossary`: the page that defines terms.
    - `package`: the package whose version the ledger shows and `:since:` refers to.
    - `documents`: the titles of the documents that claims name as sources, by their keys.
    - `versions`: the folder with the verdicts of earlier runs on other versions of the package.
    - `python_fences`: how to treat plain Python fences, one of `FENCES`.
    - `scope`: the page that defines the words for the cases that claims cover.
    - `zoo`: a Python file that collects tensors, operations and modules that rules run over.
    - `shown_with`: environment variables for the outputs that readers see, not for the checks.
    - `without_kind`: whether to count or to refuse claims without a kind.
    - `unchecked`: whether to count or to refuse rules and defaults without a blind check, which is
      a check written by somebody who saw only the sentence of the claim.
    """

    root: Path
    pages: tuple[str, ...] = ()
    docstrings: tuple[str, ...] = ()
    preload: tuple[str, ...] = ()
    doctest_global_setup: str = ""
    doctest_default_flags: tuple[str, ...] = ("ELLIPSIS",)
    package: str | None = None
    processes: str | None = None
    timeout: float = 60.0
    documents: Mapping[str, str] = dataclasses.field(default_factory=dict)
    versions: str | None = None
    python_fences: str = "show"
    translations: str | None = None
    glossary: str | None = None
    scope: str | None = None
    zoo: str | None = None
    without_kind: str = "count"
    unchecked: str = "count"
    shown_with: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def files(self) -> list[Path]:
        """Return the Markdown files in `pages`, without build outputs."""
        return find_pages([self.root / page for page in self.pages])

    def beside(self) -> list[Path]:
        """Return a list with the README.md beside pyproject.toml; empty if `pages` contains it."""
        named = {file.resolve() for file in self.files()}
        readme = self.root / "README.md"
        return [readme] if readme.is_file() and readme.resolve() not in named else []


def read_config(start: Path) -> Config:
    """Return the settings in `[tool.claims]` of the nearest pyproject.toml, from `start` upwards.

    Only files with this table count. If there is none, return the default settings with `start` as
    root.
    """
    for folder in (start.resolve(), *start.resolve().parents):
        table = _table(folder / "pyproject.toml")
        if table is not None:
            return _validate(table, folder)
    return Config(root=start.resolve())


def find_pages(paths: Sequence[Path]) -> list[Path]:
    """Return the Markdown files in `paths`, which are files or folders, each file once.

    Raise an error if a path does not exist or a file is not Markdown.
    """
    found: dict[Path, Path] = {}
    for path in paths:
        if not path.exists():
            message = f"a page or folder of pages must exist: {path} does not"
            raise FileNotFoundError(message)
        if path.is_file() and path.suffix != ".md":
            message = f"a page must be Markdown (.md), not {path}"
            raise ValueError(message)
        for file in sorted(_walk_folder(path)) if path.is_dir() else [path]:
            found.setdefault(file.resolve(), file)
    return list(found.values())


def _walk_folder(folder: Path) -> Iterator[Path]:
    """Yield the Markdown files in a folder. Skip files and folders that begin with `_` or `.`."""
    for here, folders, files in os.walk(folder, onerror=_raise):
        folders[:] = filter(_is_public, folders)
        yield from (Path(here, name) for name in files if name.endswith(".md") and _is_public(name))


def _is_public(name: str) -> bool:
    return not name.startswith(("_", "."))


def _raise(error: OSError) -> NoReturn:
    raise error


def _table(file: Path) -> Any:
    """Return the table `[tool.claims]` of a pyproject.toml, or None if it has none."""
    text = file.read_bytes() if file.is_file() else b""
    if b"claims" not in text:  # Do not report errors in the tables of other tools.
        return None
    try:
        return tomllib.loads(text.decode())["tool"]["claims"]
    except (KeyError, TypeError):
        return None
    except ValueError as error:
        message = f"{file} must be TOML in UTF-8: {error}"
        raise ValueError(message) from None


def _validate(table: Any, root: Path) -> Config:
    if not isinstance(table, dict):
        message = f"{TABLE} must be a table, not {table!r}"
        raise ValueError(message)  # noqa: TRY004 - the value comes from a file
    for key in sorted(set(table) - set(_RULES)):
        message = f"{TABLE} holds {', '.join(sorted(_RULES))}, not {key!r}"
        raise ValueError(message)
    for key, value in table.items():
        rule, holds = _RULES[key]
        if not holds(value):
            message = f"{key} in {TABLE} must be {rule}, not {value!r}"
            raise ValueError(message)
    values: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in table.items()
    }
    config = Config(root=root, **values)
    if config.versions is not None and config.package is None:
        message = f"versions in {TABLE} needs package: the name of what they are versions of"
        raise ValueError(message)
    return config


def is_flag(text: str) -> bool:
    """Return whether `text` is an option flag of doctest, with or without + or - in front."""
    return text.lstrip("+-") in doctest.OPTIONFLAGS_BY_NAME


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_mapping(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())


def _is_time(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < _FOREVER


def _is_package(value: Any) -> bool:
    return isinstance(value, str) and value.isidentifier()


_FOREVER = 1e6
_RULES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "pages": ("a list of files and folders", _is_list),
    "docstrings": ("a list of modules", _is_list),
    "doctest_default_flags": (
        "a list of option flags of doctest",
        lambda value: _is_list(value) and all(map(is_flag, value)),
    ),
    "doctest_global_setup": ("Python", lambda value: isinstance(value, str)),
    "preload": ("a list of modules", _is_list),
    "package": ("the name of a module", _is_package),
    "processes": ("fork or spawn", lambda value: value in ("fork", "spawn")),
    "timeout": (f"a number of seconds above 0 and below {_FOREVER:,.0f}", _is_time),
    "documents": ("a table of titles", _is_mapping),
    "versions": ("a folder", lambda value: isinstance(value, str)),
    "python_fences": (" or ".join(FENCES), lambda value: value in FENCES),
    "translations": ("a folder", lambda value: isinstance(value, str)),
    "glossary": ("a page", lambda value: isinstance(value, str)),
    "scope": ("a page", lambda value: isinstance(value, str)),
    "zoo": ("a file of Python", lambda value: isinstance(value, str)),
    "without_kind": ("count or refuse", lambda value: value in ("count", "refuse")),
    "unchecked": ("count or refuse", lambda value: value in ("count", "refuse")),
}
