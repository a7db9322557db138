"""The prover knows the words of no library; those of one stand in the table of its project."""

import json
from pathlib import Path
from typing import Any

import pytest

from sphinx_claims._config import read_config
from sphinx_claims._judging.pages import read_pages
from sphinx_claims._translating.differences import differences
from sphinx_claims._vocabulary import Vocabulary, known, speaking

Building = Any
"""The fixture `build`: a small site that builds itself."""

SOURCES = Path(__file__).parents[1] / "src"
WORDS = {"names": ["Areas", "areas"], "printed": ["Area("], "results": [r"\w+Shape\d*"]}
OF_AREAS = ", ".join(f"{kind} = {json.dumps(words)}" for kind, words in WORDS.items())
TABLE = f"[tool.claims]\nvocabulary = {{{OF_AREAS}}}\n"

TYPED = {
    "a printed value in a sentence": "It gives `Area(4.0)`.\n",
    "a printed value in a block": "```text\nso\nArea(4.0,\n```\n",
    "a result in a block": "```text\nRoundShape0 leads on\n```\n",
    "a result in a table": "| a | b |\n|---|---|\n| x | RoundShape0 |\n",
    "a result in a comment": "```{code-cell} python\nx = 1  # RoundShape0\n```\n",
    "a call of the library": "`areas.square(2) == 4`\n",
    "a snippet in its name": "```areas\nsquare 2\n```\n",
    "a snippet in its name in another": "````text\n```areas\nsquare 2\n```\n````\n",
    "a snippet in another language": "```js\nareas.square\n```\n",
    "an import in another language": "```js\nimport areas\n```\n",
}


def found(folder: Path, text: str, table: str) -> list[str]:
    (folder / "page.md").write_text(text)
    (folder / "pyproject.toml").write_text(table)
    (page,) = read_pages([folder / "page.md"], read_config(folder))
    return [problem.message for problem in page.problems]


@pytest.mark.parametrize("text", TYPED.values(), ids=TYPED)
def test_words_of_a_library_are_known_where_its_project_names_them(
    text: str, tmp_path: Path
) -> None:
    assert found(tmp_path, text, "[tool.claims]\n") == []
    assert found(tmp_path, text, TABLE) != []


def test_a_release_is_no_number_and_no_result(tmp_path: Path) -> None:
    table = "| a | Areas |\n|---|---|\n| x | `3.1` |\n| y | `3.2` |\n"
    assert len(found(tmp_path, table, "[tool.claims]\n")) == 2
    assert found(tmp_path, table, TABLE) == []
    (tmp_path / "page.md").write_text(":::{claim} a/b\nIn Areas 3.1 so.\n:::\n")
    numbers = [
        claim.numbers
        for config in (read_config(Path("/")), read_config(tmp_path))
        for claim in read_pages([tmp_path / "page.md"], config)[0].claims
    ]
    assert [[number.value for number in one] for one in numbers] == [[3.1], []]


def test_a_built_page_is_read_by_the_same_words(build: Building) -> None:
    text = "# Page\n\n```{eval-rst}\n.. parsed-literal::\n\n   RoundShape0 leads on\n```\n"
    assert build(index=text) == (0, "")
    status, told = build(toml=TABLE.partition("\n")[2], index=text)
    assert status == 1
    assert "'RoundShape0' is stated by hand" in told


def test_a_translation_is_compared_by_the_same_words() -> None:
    vocabulary = Vocabulary(printed=("Area(",))
    assert [*differences("It is so.", "Es ist Area(x).", {})] == []
    with speaking(vocabulary):
        assert known() is vocabulary
        assert "the typed result Area(4)" in " ".join(
            differences("It is so.", "Es ist Area(4).", {})
        )
    assert known() == Vocabulary()


@pytest.mark.parametrize(
    "value", ["3", "{verbs = []}", "{names = 'areas'}", "{results = ['(']}", "{results = ['']}"]
)
def test_a_table_of_words_that_is_none_is_told(value: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"vocabulary in .* must be a table of names, printed"):
        found(tmp_path, "", f"[tool.claims]\nvocabulary = {value}\n")


def test_the_prover_names_no_package_whose_pages_it_could_judge() -> None:
    for file in SOURCES.rglob("*.py"):
        text = file.read_text(encoding="utf-8").lower()
        for name in ("torch", "backward\\d", "accumulategrad", "leafgrad", "tensor("):
            assert name not in text, (file, name)
