"""The exception for derivatives that Taylor mode cannot compute, with the reason."""

from leafgrad._messages import message


class Unsupported(Exception):  # noqa: N818 (it is no error, because reverse mode may succeed)
    """Raised if Taylor mode cannot compute a derivative.

    A node has no rule, its rule does not apply, or rows are not proven independent.
    """

    def __init__(self, key: str, **slots: object) -> None:
        """Set the message to the text with the key ``derivative.<key>``, with `slots` filled in."""
        super().__init__(message(f"derivative.{key}", **slots))


def unsupported_if(condition: bool, reason: str) -> None:  # noqa: FBT001 (it reads as a sentence)
    """Raise `Unsupported` if the condition is true.

    Its message is ``derivative.reason.<reason>``.
    """
    if condition:
        raise Unsupported(f"reason.{reason}")
