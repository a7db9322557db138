"""Why a graph has no answer in Taylor mode."""


class Refusal(Exception):  # noqa: N818 (not an error: nested reverse mode may have the answer)
    """Raised where no rule is known, or none proves that rows stay apart."""
