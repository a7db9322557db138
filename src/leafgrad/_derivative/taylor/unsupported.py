"""The reasons for which Taylor mode has no answer."""

from leafgrad._messages import message


class Unsupported(Exception):  # noqa: N818 (not an error: nested reverse mode may have the answer)
    """Raised if a node has no rule, its rule does not apply, or rows are not proven independent."""

    def __init__(self, key: str, **slots: object) -> None:
        """Take the reason from the messages below ``derivative``."""
        super().__init__(message(f"derivative.{key}", **slots))


def unsupported_if(condition: bool, reason: str) -> None:  # noqa: FBT001 (it reads as a sentence)
    """Raise `Unsupported` with a reason below ``derivative.reason``, if the condition holds."""
    if condition:
        raise Unsupported(f"reason.{reason}")
