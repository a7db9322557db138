"""Why a graph has no answer in Taylor mode."""


class Unsupported(Exception):  # noqa: N818 (not an error: nested reverse mode may have the answer)
    """Raised where no rule is known, or none proves that rows stay apart."""


def unsupported_if(condition: bool, why: str) -> None:  # noqa: FBT001 (it reads as a sentence)
    """Raise where something stands in the way of an answer."""
    if condition:
        raise Unsupported(why)
