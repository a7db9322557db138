"""Signatures and parameters in the built reference are those of the library."""

import dataclasses
import enum
import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from bs4 import BeautifulSoup, Tag

import leafgrad.testing
from tests.site.built import SITE, needs_site

pytestmark = needs_site

LISTS = {"Parameters:", "参数:"}
LIKE_TENSOR = "leafgrad.Jet."  # its methods have the parameters of tensor methods
PARAMETER = re.compile(r"\*{0,2}(\w+) \((.+?)\) – (.+)", re.DOTALL)


@pytest.fixture(scope="module", params=["", "zh-cn"], ids=["English", "Chinese"])
def entries(request: pytest.FixtureRequest) -> dict[str, Tag]:
    """Return the entry of each documented name."""
    found = {}
    for file in sorted(Path(SITE, request.param).glob("reference/*.html")):
        soup = BeautifulSoup(file.read_text("utf-8"), "html.parser")
        for head in soup.select("dt[id^='leafgrad.']"):
            assert head.parent is not None
            found[str(head["id"])] = head.parent
    return found


def words(element: Tag) -> str:
    """Return the text of an element on one line."""
    return " ".join(element.get_text().split())


def head(entry: Tag) -> str:
    return words(entry.select("dt")[0]).removesuffix("¶").strip()


def library(name: str) -> Any:
    """Return the object with a documented name, None for a field of a dataclass."""
    found: Any = leafgrad
    for part in name.split(".")[1:]:
        found = getattr(found, part, None)
    return found


def parameters(name: str) -> list[inspect.Parameter]:
    """Return the parameters without their annotations."""
    given = inspect.signature(library(name)).parameters.values()
    return [one.replace(annotation=one.empty) for one in given if one.name != "self"]


def expected(name: str) -> str:
    """Return the text with which the entry of a name should begin."""
    found, (owner, _, last) = library(name), name.rpartition(".")
    if isinstance(found, type):
        is_value = dataclasses.is_dataclass(found) or issubclass(found, enum.Enum | tuple)
        shown = "" if is_value else str(inspect.Signature(parameters(name)))
        return f"class {name}{shown}"
    if callable(found):
        shown = name if owner in {"leafgrad", "leafgrad.testing"} else last
        return f"{shown}{inspect.Signature(parameters(name))}"
    return last


def test_reference_shows_the_signature_of_each_public_name(entries: dict[str, Tag]) -> None:
    assert {f"leafgrad.{name}" for name in leafgrad.__all__} <= entries.keys()
    wrong = {}
    for name, entry in entries.items():
        shown = re.sub(r"^(?:property|static|classmethod) ", "", head(entry))
        ends = re.escape(expected(name)) + ("" if callable(library(name)) else "(?:: | = ).+")
        if not re.fullmatch(ends, shown):  # a type or a value follows the name of an attribute
            wrong[name] = shown
    assert wrong == {}


def test_parameters_have_name_type_and_description(entries: dict[str, Tag]) -> None:
    wrong = {}
    for name, entry in entries.items():
        fields = entry.select(":scope > dd > dl.field-list > dt")
        for field in fields:
            if words(field) in LISTS:
                listed = field.find_next_sibling("dd")
                assert isinstance(listed, Tag)
                items = listed.select(":scope > ul > li") or [listed]
                found = [PARAMETER.fullmatch(words(item)) for item in items]
                names = [one and one[1] for one in found]
                if names != [one.name for one in parameters(name)]:
                    wrong[name] = [words(item)[:60] for item in items]
        has_list = any(words(field) in LISTS for field in fields)
        is_function = callable(library(name)) and not isinstance(library(name), type)
        if is_function and parameters(name) and not has_list and not name.startswith(LIKE_TENSOR):
            wrong[name] = ["no list of parameters"]
        if not words(entry.select(":scope > dd")[0]):
            wrong[name] = ["no description"]
    assert wrong == {}
