"""Which sentences speak of all of a kind, and by which word."""

import re

from sphinx_claims._reading.quantities import TARGET

_NUMBER = r"(?:\d+|one|two|three|four|five|six|seven|eight|nine|ten|both)\b"
_AS_SUBJECT = r"(?:^|[.,;:(] |\b(?:and|because|but|or|so|that) )"  # after "if" it is a condition

_QUANTIFYING = (
    # "Not every", "not all" and "not always" speak of one that is otherwise, and so does "nearly".
    rf"(?<!not )(?<!nearly )(?<!at )(?<!after )(?<!in )\ball\b(?! (?:of )?(?:the )?{_NUMBER})",
    r"(?<!not )(?<!nearly )\b(?:always|every(?:body|one|thing|where)?)\b",
    # "Each node has one" speaks of all nodes; "one for each node" goes through those of a sentence.
    rf"{_AS_SUBJECT}each\b(?! other\b)(?! of (?:these|those|the {_NUMBER}))",
    # "In any case" leads to what is said, "if any" speaks of what may be missing, and "it has one,
    # and the other does not have any" of the other.
    r"(?<!if )(?<!in )(?<!at )\bany(?:body|one|thing|where)?\b(?! (?:longer|more)\b)(?! ?[.,;]|$)",
    r"(?<=\bin )any\b(?! case\b)",
    r"\bno (?:matter|one)\b",
    # "No page has a title" speaks of all pages; "this page has none" of one.
    rf"{_AS_SUBJECT}(?:no|none)\b(?! (?:fewer|later|less|longer|more|sooner)\b)",
    r"\b(?:by|for|in|of|on|under) no\b(?! (?:longer|more)\b)|\bnone of\b",
    r"\b(?:never|nobody|nothing|nowhere)\b",
    # What has only one element, or exactly two, is counted; "not only" goes on with "but also".
    rf"(?<!not )(?<!not the )(?<![\w-])only\b(?! (?:once|twice|an?|{_NUMBER}))",
    r"\bexactly (?:if|then|those|what|when|where|which)\b",
    r"\b(?:whatever|whenever|wherever|whichever|whoever|regardless|irrespective)\b",
    # "It tells whether or not this is a leaf" is a question.
    r"(?<!\basks )(?<!\bsays )(?<!\bshows )(?<!\btells )\bwhether\b[^.;:]*?\bor not\b",
)
"""What quantifies: the same words elsewhere count, negate or are a turn of speech."""

_QUANTIFIED = re.compile("|".join(f"(?:{pattern})" for pattern in _QUANTIFYING), re.IGNORECASE)
_CODE = re.compile(rf"(?:\{{[\w:.-]+\}})?(`+).+?\1|\$[^$]+\$|{TARGET}", re.DOTALL)
_WORD = re.compile(
    r"\b(?:all|always|any\w*|each|every\w*|exactly|irrespective|never|no(?: one| matter)?"
    r"|nobody|none|nothing|nowhere|only|regardless|what\w+|when\w+|where\w+|whether|which\w+|who\w+)\b",
    re.IGNORECASE,
)
_VALUE = re.compile(r"(?<=[a-z,] )None\b")


def universal_word(statement: str) -> str | None:
    """Return the first word by which a sentence speaks of all of a kind; None if none does.

    What stands in code, in a formula or in the target of a link is none of its words.
    """
    prose = " ".join(_VALUE.sub("·", _CODE.sub("·", statement)).split())
    found = _QUANTIFIED.search(prose)
    word = None if found is None else _WORD.search(found[0])
    return None if word is None else word[0].lower()
