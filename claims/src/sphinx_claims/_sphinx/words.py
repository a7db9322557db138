"""Translate the words that this extension puts on pages into the language of the site."""

from gettext import GNUTranslations
from io import BytesIO
from pathlib import Path

from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from sphinx import locale
from sphinx.application import Sphinx
from sphinx.config import Config

_CATALOGUE = "sphinx_claims"
_FOLDER = Path(__file__).parent / "locale"


def load_words(_app: Sphinx, config: Config) -> None:
    """Load the words in the language of the site. If there are none, they stay English."""
    locale.translators.pop(("general", _CATALOGUE), None)
    file = _FOLDER / f"{config.language}.po"
    if file.is_file():
        compiled = BytesIO()
        with file.open("rb") as stream:
            write_mo(compiled, read_po(stream))
        compiled.seek(0)
        locale.translators["general", _CATALOGUE] = GNUTranslations(compiled)


def say(text: str, **values: object) -> str:
    """Return a text in the language of the site, with `values` filled in."""
    return locale.get_translator(_CATALOGUE).gettext(text).format(**values)


def count(number: int, noun: str) -> str:
    """Return a number with a noun in the language of the site, such as "2 claims"."""
    words = locale.get_translator(_CATALOGUE)
    return words.ngettext(f"{{n}} {noun}", f"{{n}} {noun}s", number).format(n=number)
