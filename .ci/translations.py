"""Update the translation catalogues of pages from their Markdown, without executing the pages.

Messages that appear only in the output of cells are not updated; `nox -s catalogues` without pages
does that. A changed sentence keeps its old translation, marked as fuzzy. The verdicts on other
tutorials quote claims, so their translations are composed from the translated claims.
"""

import csv
import difflib
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.pofile import read_po, write_po

from sphinx_claims._reading.markdown import parser
from sphinx_claims._translating.catalogue import digest, read_reviews

DOCS = Path("docs")
TITLED = {"fold", "admonition", "dropdown"}
NESTED = {*TITLED, *"claim note tip warning div figure live table list-table".split()}
DIRECTIVE = re.compile(r"\{([\w-]+)\}\s*(.*)")
OPTIONS = re.compile(r"\A(?::[\w-]+:.*\n)+")
FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
SIMILAR = 0.6
PAUSE = re.compile(r"[,;:.]* ")
CLAIM = re.compile(r"^:::\{claim\} (\S+)\n(?::[\w-]+:.*\n)*\n*((?:.+\n)+?):::$", re.MULTILINE)
VERDICTS_PAGE, ERRATA_PAGE = "reference/coming-from", "tutorial/errata"
VERDICTS = {
    "true": "正确",
    "true under a condition": "在一定条件下正确",
    "false": "错误",
    "outdated": "已过时",
    "promised": "预告",
    "does not run": "无法运行",
}


def messages(text: str) -> Iterator[str]:
    """Yield the translatable messages of a page, except the outputs of its cells."""
    for token in parser().parse(text):
        if token.type == "inline":
            yield " ".join(token.content.split())
        elif found := DIRECTIVE.match(token.info.strip()):
            name, argument = found.groups()
            if name == "code-cell" and "remove-input" not in token.content:
                yield from comments(OPTIONS.sub("", token.content))
            if name == "glossary":
                terms = [line for line in token.content.splitlines() if line[:1].strip()]
                yield from terms
                yield from messages(re.sub(r"^\S.*$|^ +", "", token.content, flags=re.MULTILINE))
            if name in TITLED:
                yield argument.replace("`", "")  # Sphinx's message for a fold has no backticks.
            if name in NESTED:
                yield from messages(OPTIONS.sub("", token.content))


def comments(code: str) -> Iterator[str]:
    """Yield the translatable comments in the code of a cell."""
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        if token.type == tokenize.COMMENT and token.string.startswith("# "):
            yield token.string.removeprefix("# ")


def update(catalogue: Catalog, said: list[str]) -> None:
    """Add the missing messages of a page to its catalogue.

    `said` contains the messages of the page. A message that replaces a similar old one keeps its
    translation, marked as fuzzy.
    """
    known = {" ".join(str(message.id).split()): message for message in catalogue if message.id}
    gone = [source for source in known if source not in said]
    for source in said:
        if re.search("[A-Za-z]{2}", source) and source not in known:
            near = difflib.get_close_matches(source, gone, 1, SIMILAR)
            if near:
                old = known[near[0]]
                gone.remove(near[0])
                catalogue.delete(old.id)
                is_same = PAUSE.sub(" ", near[0]) == PAUSE.sub(" ", source)
                flags, before = (old.flags, []) if is_same else ({"fuzzy"}, [f"before: {old.id}"])
                catalogue.add(source, old.string, flags=flags, user_comments=before)
            else:
                catalogue.add(source)
    for message in list(catalogue):
        if message.id and not message.fuzzy:
            message.user_comments = []
        if not message.string and not re.search("[A-Za-z]{2}", str(message.id)):
            catalogue.delete(message.id)  # a number in a table


def plain(sentence: str) -> str:
    """Return a sentence without the markup of links and terms, for use in a verdict."""
    sentence = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", " ".join(sentence.split()))
    return re.sub(r"\{term\}`([^`<]*?)(?: <[^>]*>)?`", r"\1", sentence)


def link(claim: str) -> str:
    """Return the link to a claim in the Markdown that pages use."""
    return f"{{ref}}`{claim} <claim-{re.sub('[^a-z0-9]+', '-', claim.lower())}>`"


def verdicts(claims: dict[str, tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield verdicts on other tutorials with translations, composed from sentences of claims."""
    with (DOCS / f"{VERDICTS_PAGE}.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            names, verdict = row["claims"].split(), row["verdict"]
            english, chinese = verdict, VERDICTS[verdict]
            if verdict != "true":
                english += ": " + " ".join(plain(claims[name][0]) for name in names)
                chinese += "：" + "".join(plain(claims[name][1]) for name in names)  # noqa: RUF001
            links = [link(name) for name in names]
            is_known = verdict == "true" or all(claims[name][1] for name in names)
            target = f"{chinese}（{'、'.join(links)}）" if is_known else ""  # noqa: RUF001
            yield f"{english} ({', '.join(links)})", target


def errata(claims: dict[str, tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield the correction of each common error, composed from a claim, and its translation."""
    for name in re.findall(r'^ +"([\w-]+/[\w-]+)": ', read(ERRATA_PAGE), re.MULTILINE):
        english, chinese = claims[name]
        yield f"{english} {link(name)}", f"{chinese}{link(name)}" if chinese else ""


def compose(catalogue: Catalog, composed: dict[str, str], kind: re.Pattern[str]) -> None:
    """Replace the messages that match `kind` by those in `composed`, which maps them to Chinese."""
    for message in list(catalogue):
        source = " ".join(str(message.id).split())
        if source in composed:
            message.string = composed.pop(source)
        elif kind.search(source):
            catalogue.delete(message.id)
    for english, chinese in composed.items():
        catalogue.add(english, chinese)


def sentences(catalogues: dict[str, Catalog]) -> dict[str, tuple[str, str]]:
    """Return each claim's sentence and its translation, or "" if it has none."""
    found = {}
    for page, catalogue in catalogues.items():
        shown = {
            " ".join(str(m.id).split()): "" if m.fuzzy else str(m.string or "") for m in catalogue
        }
        for claim, text in CLAIM.findall(read(page)):
            sentence = " ".join(text.split())
            found[claim] = sentence, shown.get(sentence, "")
    return found


def read(page: str) -> str:
    """Return the Markdown of a page."""
    return (DOCS / f"{page}.md").read_text("utf-8")


def main(locale: Path, chosen: list[str]) -> None:
    """Update the catalogues of the chosen pages.

    Then print how many messages of all pages are stale, missing or not yet compared.
    """
    files = {f.relative_to(locale / "LC_MESSAGES"): f for f in locale.rglob("*.po")}
    pages = {name.with_suffix("").as_posix(): file for name, file in files.items()}
    pages = {name: file for name, file in pages.items() if (DOCS / f"{name}.md").is_file()}
    catalogues = {name: read_po(file.open("rb"), locale.name) for name, file in pages.items()}
    asked = [name for name in pages if f"docs/{name}.md".startswith(tuple(chosen) or "docs")]
    for name in asked:
        update(catalogues[name], [*messages(FRONT_MATTER.sub("", read(name)))])
    claims = sentences(catalogues)
    if VERDICTS_PAGE in asked:
        kind = re.compile(f"^(?:{'|'.join(VERDICTS)})(?:: | \\()")
        compose(catalogues[VERDICTS_PAGE], dict(verdicts(claims)), kind)
    if ERRATA_PAGE in asked:
        kind = re.compile(r"\{ref\}`\S+/\S+ <claim-\S+>`$")
        compose(catalogues[ERRATA_PAGE], dict(errata(claims)), kind)
    for name in asked:
        with pages[name].open("wb") as out:
            write_po(out, catalogues[name], width=100, ignore_obsolete=True)
    counts, reviews = Counter(), read_reviews(locale / "reviewed.json")
    for name, catalogue in catalogues.items():
        for message in filter(lambda one: one.id, catalogue):
            texts = str(message.id), str(message.string or "")
            compared = reviews.get(f"docs/{name}.md", {}).get(digest(texts[0])) == digest(*texts)
            counts["fuzzy" if message.fuzzy else "missing" if not texts[1] else compared] += 1
    stale, missing, unread = counts["fuzzy"], counts["missing"], counts[False]
    print(f"{counts.total()} messages: {stale} stale, {missing} missing, {unread} never compared")


if __name__ == "__main__":
    for folder in DOCS.glob("locales/*/LC_MESSAGES"):
        main(folder.parent, sys.argv[1:])
