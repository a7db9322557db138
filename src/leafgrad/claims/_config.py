"""What is proven, as `[tool.leafgrad.claims]` in pyproject.toml says it for every front end."""

import dataclasses
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """The pages (files and folders under `root`), the modules with docstrings, and the limits."""

    root: Path
    pages: tuple[str, ...] = ()
    docstrings: tuple[str, ...] = ()
    preload: tuple[str, ...] = ("torch",)
    timeout: float = 60.0
    documents: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def files(self) -> list[Path]:
        """List the Markdown files of `pages`, without what a build left behind."""
        return find_pages([self.root / page for page in self.pages])


def read_config(start: Path) -> Config:
    """Read the nearest pyproject.toml with the table, from `start` upwards."""
    for folder in (start.resolve(), *start.resolve().parents):
        file = folder / "pyproject.toml"
        if file.is_file():
            tool = tomllib.loads(file.read_text(encoding="utf-8")).get("tool", {})
            if "claims" in tool.get("leafgrad", {}):
                return _checked(tool["leafgrad"]["claims"], folder)
    return Config(root=start.resolve())


def find_pages(paths: Sequence[Path]) -> list[Path]:
    """List the Markdown files among `paths` and in the folders among them."""
    found: dict[Path, None] = {}
    for path in paths:
        if not path.exists():
            message = f"a page or folder of pages must exist: {path} does not"
            raise FileNotFoundError(message)
        if path.is_file() and path.suffix != ".md":
            message = f"a page must be Markdown (.md), not {path}"
            raise ValueError(message)
        inside = sorted(path.rglob("*.md")) if path.is_dir() else [path]
        found.update(dict.fromkeys(file for file in inside if not _is_built(file, path)))
    return list(found)


def _is_built(file: Path, folder: Path) -> bool:
    if file == folder:
        return False
    return any(part.startswith(("_", ".")) for part in file.relative_to(folder).parts)


def _checked(table: dict[str, Any], root: Path) -> Config:
    known = {field.name for field in dataclasses.fields(Config)} - {"root"}
    for key in sorted(set(table) - known):
        message = f"[tool.leafgrad.claims] holds {', '.join(sorted(known))}, not {key!r}"
        raise ValueError(message)
    values: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in table.items()
    }
    return Config(root=root, **values)
