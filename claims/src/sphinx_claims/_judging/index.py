"""Find the exceptions and blind checks of claims in the text of pages, without executing them.

A blind check is a check written by somebody who saw only the sentence of the claim.
"""

import dataclasses
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

_CLAIM = re.compile(r"^[`:]{3,}\{claim\} +(\S+)", re.MULTILINE)
_PAIR = re.compile(r"^:(checks|exception-to): +(\S+) +(.*\S)", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Index:
    """Maps from the id of each claim to its file, its exceptions and its blind checks.

    A blind check is written by somebody who saw only the sentence of the claim. `digests` contains
    the digests that the blind checks name, and `checked_on` the files in which they are.
    """

    files: Mapping[str, Path]
    exceptions: Mapping[str, tuple[str, ...]]
    digests: Mapping[str, tuple[str, ...]]
    checked_on: Mapping[str, set[Path]]


def read_index(files: Iterable[Path]) -> Index:
    """Return an index of the claims in some pages, their exceptions and their blind checks.

    A blind check is written by somebody who saw only the sentence of the claim.
    """
    places: dict[str, Path] = {}
    checked_on: defaultdict[str, set[Path]] = defaultdict(set)
    pairs: defaultdict[tuple[str, str], tuple[str, ...]] = defaultdict(tuple)
    for file in dict.fromkeys(file.resolve() for file in files):
        text = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
        places |= dict.fromkeys(_CLAIM.findall(text), file)
        for key, identifier, value in _PAIR.findall(text):
            pairs[key, identifier] = (*pairs[key, identifier], value)
            if key == "checks":
                checked_on[identifier].add(file)
    exceptions = {one: names for (key, one), names in pairs.items() if key == "exception-to"}
    digests = {one: found for (key, one), found in pairs.items() if key == "checks"}
    return Index(places, exceptions, digests, checked_on)
