"""The Chinese catalogues have the same numbers and units as the English text, also in words."""

import re
from pathlib import Path

import pytest
from babel.messages.pofile import read_po

CATALOGUES = Path(__file__).parents[2] / "docs/locales/zh_CN/LC_MESSAGES"
WORDS = (
    "three=3 four=4 five=5 six=6 seven=7 eight=8 nine=9 ten=10 eleven=11 twelve=12 thirteen=13"
    " fourteen=14 fifteen=15 sixteen=16 seventeen=17 eighteen=18 nineteen=19 twenty=20 thirty=30"
    " forty=40 fifty=50 sixty=60 hundred=100 thousand=1000 million=1000000 third=3 thirds=3"
    " fourth=4 quarter=4 fifth=5 fifths=5 tenth=10 thirtieth=30 hundredth=100"
)
ENGLISH = {word: int(number) for word, number in re.findall(r"(\w+)=(\d+)", WORDS)}
ROUND = {100, 1000, 1_000_000}  # English also has "hundreds of".
DIGITS = {digit: value for value, digit in enumerate("零一二三四五六七八九")} | {"两": 2}
POWERS = {"十": 10, "百": 100, "千": 1000}
NUMBER = "([一二三四五六七八九十百千万两]+)"
COUNTED = "[个种条次步项行列层阶倍圈张页章点分秒轮篇段块组套件维部处样份类位支者门]"
CHINESE = re.compile(
    f"(?<![几数{NUMBER[2:-3]}]){NUMBER}(?={COUNTED})|第{NUMBER}|{NUMBER}分之|分之{NUMBER}"
)
FIGURE = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")
UNITS = {"分钟": "minute", "秒": "second", "字节": "byte"}
CODE = re.compile(r"`[^`]*`|\$[^$]*\$|\]\([^)]*\)|powers of ten")


def value(word: str) -> int:
    """Return the value of a Chinese number word."""
    high, ten_thousands, low = word.rpartition("万")
    if ten_thousands:
        return (value(high) or 1) * 10_000 + value(low)
    total = digit = 0
    for sign in word:
        if sign in POWERS:
            total, digit = total + (digit or 1) * POWERS[sign], 0
        else:
            digit = DIGITS[sign]
    return total + digit


def figures(text: str) -> set[float]:
    """Return the numbers that a text contains in digits."""
    return {float(found.replace(",", "")) for found in FIGURE.findall(text)}


def mistakes(source: str, translation: str) -> set[str]:
    """Return the number words and units that only one of two texts has."""
    source, translation = CODE.sub(" ", source.lower()), CODE.sub(" ", translation)
    said = {ENGLISH[word] for word in re.findall("[a-z]+", source) if word in ENGLISH}
    found = {value("".join(groups)) for groups in CHINESE.findall(translation)}
    wrong = {number for number in found if number > 2} - said - figures(source)
    wrong |= said - found - figures(translation) - ROUND
    units = {unit for unit, word in UNITS.items() if unit in translation and word not in source}
    return {*map(str, wrong), *units}


def test_translations_have_the_numbers_and_units_of_their_source() -> None:
    wrong = {}
    for file in CATALOGUES.rglob("*.po"):
        with file.open("rb") as stream:
            messages = [m for m in read_po(stream) if m.id and m.string and not m.fuzzy]
        for message in messages:
            source, translation = str(message.id), str(message.string)
            if source != translation and (found := mistakes(source, translation)):
                wrong[file.stem, source] = found
    assert wrong == {}


@pytest.mark.parametrize(
    ("source", "translation", "found"),
    [
        ("Three things are new.", "有四处是新的。", {"3", "4"}),
        ("It is exact to two minutes.", "只精确到两秒钟。", {"秒"}),
        ("It takes twenty steps.", "走十二步。", {"20", "12"}),
        ("At most a tenth of 15,000 bytes", "至多 15,000 字节的十分之一", set()),
    ],
)
def test_wrong_number_or_unit_is_reported(source: str, translation: str, found: set[str]) -> None:
    assert mistakes(source, translation) == found
