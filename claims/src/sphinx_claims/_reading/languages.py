"""What a fence says of itself by the language that it names."""

import enum
import re
from pathlib import Path

from sphinx_claims._vocabulary import known


class Kind(enum.Enum):
    """How much Python a snippet may look like before it is taken for Python."""

    PYTHON = enum.auto()
    """It says so itself."""
    BARE = enum.auto()
    """It names nothing, or nothing known, as a misspelt name is."""
    TEXT = enum.auto()
    """It says that it is text: a formula is no code then."""
    PLAIN = enum.auto()
    """Data, a terminal, a diagram: `name = value` is common there."""
    FOREIGN = enum.auto()
    """Another language, in which a call looks as it does in Python."""
    MATHEMATICS = enum.auto()
    """Nothing in it is code."""


PYTHON = frozenset(
    "python python2 python3 py py2 py3 pyi pycon pycon3 python-console python-repl ipython ipython2"
    " ipython3 ipy ipythonconsole jupyter numpy sage cython pyx xonsh pyodide".split()
)
"""The languages under which a snippet says of itself that it is Python."""

TEXT = frozenset("text txt plain plaintext none default output".split())
"""The languages under which a snippet says that it is text."""

OUTPUT = frozenset(
    "bash console log pytb py2tb py3tb session sh shell shell-session shellsession terminal"
    " traceback".split()
)
"""The languages, beside none and text, under which a snippet may be what a program printed."""

DRAWN = frozenset("d2 digraph dot graph graphviz mermaid plantuml uml".split())
"""The languages in which somebody draws a diagram."""

_KINDS = {
    Kind.PYTHON: PYTHON,
    Kind.TEXT: TEXT,
    Kind.PLAIN: OUTPUT
    | DRAWN
    | frozenset(
        "bat batch bib bibtex cfg cmake conf config css csv dif diff docker dockerfile dotenv env"
        " fish git gitignore html http ini json json5 jsonc jsonl make makefile markdown md myst"
        " patch powershell properties protobuf ps1 pwsh requirements restructuredtext rst sql"
        " ssh-config svg tex-diagram toml tsv udiff url vim xml yaml yml zsh".split()
    ),
    Kind.FOREIGN: frozenset(
        "asm c c# c++ clojure cpp csharp cuda dart elixir erlang f# fortran fsharp glsl go groovy"
        " haskell hs java javascript jl js jsx julia kotlin lean lisp llvm lua matlab mlir nim"
        " objective-c ocaml octave perl php ptx r rb ruby rust rs scala scheme solidity swift ts"
        " tsx typescript v wasm wolfram zig".split()
    ),
    Kind.MATHEMATICS: frozenset("amsmath katex latex math mathml tex".split()),
}
_KIND_OF = {language: kind for kind, languages in _KINDS.items() for language in languages}


def language_of(info: str) -> str:
    """Return the language that the words after a fence name, in lower case."""
    match = re.match(r"[{.\s]*([\w.+#-]*)", info)
    return match[1].lower().strip(".") if match else ""


def kind_of(language: str) -> Kind:
    """Return the kind of a language."""
    language = language.lower()
    return Kind.PYTHON if language in python_languages() else _KIND_OF.get(language, Kind.BARE)


def python_languages() -> frozenset[str]:
    """Return the languages that are Python: a snippet may be in the name of a package."""
    return PYTHON | {name.lower() for name in known().names}


def language_of_file(file: Path) -> str:
    """Return the language that the suffix of a file stands for."""
    suffix = file.suffix.removeprefix(".").lower()
    return "python" if suffix in {"py", "pyi", "pyw", "ipynb"} else suffix
