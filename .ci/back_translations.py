"""Compare back-translations with the English: claims, definitions, warnings, answers and cures.

A translator writes a back-translation: English that is based only on the Chinese. It shows mistakes
that no comparison of numbers and code can find: a lost "not", "before" for "after".

    python .ci/back_translations.py          # compare; return 1 if two sentences disagree
    python .ci/back_translations.py missing  # print the Chinese that has no back-translation
    python .ci/back_translations.py add FILE # add {key: English} from a JSON file
    python .ci/back_translations.py accept KEY ... # the sentences mean the same: stop reporting

A key is a digest of the Chinese, so a changed translation needs a new back-translation.
"""

import json
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from babel.messages.pofile import read_po
from translations import DIRECTIVE, DOCS, FRONT_MATTER, NESTED, OPTIONS, messages

from sphinx_claims._reading.markdown import parser
from sphinx_claims._translating.catalogue import digest
from sphinx_claims._translating.differences import counts_of, facts_of

LOCALE = DOCS / "locales" / "zh_CN"
KEPT = LOCALE / "back_translations.json"
LIBRARY = Path("src/leafgrad/_messages")
IMPORTANT = {"claim", "warning", "glossary"}
SIGNS = {
    "negation": r"not|no|never|without|neither|nor|cannot|none|nothing|\w+n't|un\w+ed|instead",
    "all": r"all|each|every\w*|always|any\w*|both|whole|entire",
    "only": r"only|just|except|unless|alone|sole\w*",
    "before": r"before|previous\w*|earlier|until|precede\w*",
    "after": r"after\w*|later|next|then|since|follow\w*|once",
    "larger": r"larger?|largest|great\w*|more|most|increas\w*|above|exceed\w*|grow\w*|higher",
    "smaller": r"small\w*|less|least|few\w*|decreas\w*|below|shrink\w*|lower|shorter|fall\w*",
    "units": r"seconds?|bytes|[KMG]i?B|percent|%|digits",
    "forward": r"forwards?",
    "backward": r"backwards?|reverse\w*|(?:the|each|next|this|that) pass(?:es)?",
    "rows": r"rows?",
    "columns": r"columns?",
    "inputs": r"inputs?",
    "outputs": r"outputs?",
    "first": r"first|initial\w*",
    "last": r"last|final\w*|second-to-last",
    "true": r"true|correct|right",
    "false": r"false|wrong|incorrect",
    "left": r"left",
    "outside": r"out|outside",
    "raises": r"rais\w+|throw\w*|fails?",
    "warns": r"warn\w*",
}


def important(text: str) -> Iterator[str]:
    """Yield the messages of a page that need a back-translation."""
    for token in parser().parse(text):
        if directive := DIRECTIVE.match(token.info.strip()):
            name, argument = directive.groups()
            content = OPTIONS.sub("", token.content)
            if name == "glossary":
                yield from messages(re.sub(r"^\S.*$|^ +", "", content, flags=re.MULTILINE))
            elif name in IMPORTANT or argument == "Answer":
                yield from messages(content)
            elif name in NESTED:
                yield from important(content)


def pairs() -> Iterator[tuple[str, str]]:
    """Yield each important English message with its current Chinese translation."""
    for file in sorted((LOCALE / "LC_MESSAGES").rglob("*.po")):
        page = (DOCS / file.relative_to(LOCALE / "LC_MESSAGES")).with_suffix(".md")
        if not page.is_file():
            continue
        wanted = {*important(FRONT_MATTER.sub("", page.read_text("utf-8")))}
        for one in read_po(file.open("rb")):
            source = " ".join(str(one.id).split())
            if source in wanted and one.string and not one.fuzzy:
                yield source, str(one.string)
    english, chinese = (
        dict(cures(tomllib.loads((LIBRARY / f"{name}.toml").read_text("utf-8"))))
        for name in ("en", "zh_CN")
    )
    yield from ((english[key], chinese[key]) for key in chinese)


def cures(table: dict[str, object], path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the key and text of each cure in a message file of the library.

    A cure is the help of a message. `table` is a table of the file, and `path` the key of the
    table.
    """
    for name, entry in table.items():
        if isinstance(entry, dict) and "other" not in entry:
            yield from cures(entry, f"{path}{name}.")
        elif name == "help":
            yield f"{path}{name}", str(entry["other"] if isinstance(entry, dict) else entry)


def disagreements(english: str, back: str) -> Iterator[str]:
    """Yield the name of each kind of word or number that only one of two English texts has."""
    for name, words in SIGNS.items():
        found = (
            re.search(rf"\b(?:{words})(?!\w)", plain(one), re.IGNORECASE) for one in (english, back)
        )
        if len({bool(one) for one in found}) > 1:
            yield name
    if numbers_of(english) != numbers_of(back):
        yield "numbers"
    if facts_of(english).code != facts_of(back).code:
        yield "order of code"


def plain(text: str) -> str:
    """Return a text without its code and link targets."""
    return re.sub(r"`[^`]*`|\]\([^)]*\)", "", text)


def numbers_of(text: str) -> set[float]:
    """Return the numbers of a text, in digits or words."""
    return {*facts_of(text).numbers, *counts_of(plain(text))}


def main(arguments: list[str]) -> int:
    """Run the command in `arguments` (see the module docstring); by default, compare.

    Return 1 if two sentences disagree, otherwise 0.
    """
    kept = json.loads(KEPT.read_text("utf-8")) if KEPT.is_file() else {}
    found = {digest(chinese): (english, chinese) for english, chinese in pairs()}
    if arguments[:1] == ["missing"]:
        missing = {key: chinese for key, (_, chinese) in found.items() if key not in kept}
        print(json.dumps(missing, indent=1, ensure_ascii=False))
        return 0
    if arguments[:1] == ["add"]:
        new = json.loads(Path(arguments[1]).read_text("utf-8"))
        kept |= {key: {"english": text, "accepted": []} for key, text in new.items()}
        kept = {key: kept[key] for key in sorted(kept) if key in found}
    for key in arguments[1:] if arguments[:1] == ["accept"] else []:
        kept[key]["accepted"] = [*disagreements(found[key][0], kept[key]["english"])]
    if arguments:
        KEPT.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", "utf-8")
    wrong = 0
    for key, (english, chinese) in found.items():
        if key in kept:
            back, accepted = kept[key]["english"], kept[key]["accepted"]
            if open_ones := [one for one in disagreements(english, back) if one not in accepted]:
                wrong += 1
                print(f"{key}: {', '.join(open_ones)}\n    {english}\n    {chinese}\n    {back}")
    count = sum(key in kept for key in found)
    print(f"{count} of {len(found)} messages have a back-translation, and {wrong} disagree")
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
