"""The words for saved tensors, by state."""

from typing import NamedTuple


class StateWords(NamedTuple):
    """The words for one state.

    Attributes:
        verb: What stands before the tensors' names in the box of a node.
        status: What stands after a tensor's name in a table, where that is not its shape.
        sentence: What is said of all of them together, with ``{slots}`` and ``{bytes}``.
    """

    verb: str = ""
    status: str = ""
    sentence: str = ""


SAVED_STATES = {
    "live": StateWords(verb="saves"),
    "packed": StateWords(
        verb="packed:",
        status="packed by a hook",
        sentence="{slots} were packed by a hook, into {bytes} where that can be seen.",
    ),
    "offloaded": StateWords(
        verb="offloaded:",
        status="offloaded",
        sentence="{slots} were moved to the CPU by save_on_cpu() and keep {bytes} there.",
    ),
    "recompute": StateWords(verb="recomputes", status="to be recomputed"),
    "freed": StateWords(
        verb="freed:",
        status="freed",
        sentence="{slots} were freed already, as a backward does that does not retain the graph.",
    ),
    "cached": StateWords(
        sentence="{slots} ({bytes}) are cached by selective checkpointing, not computed again."
    ),
    "on ctx": StateWords(
        sentence="{slots} ({bytes}) stand on the ctx of a custom function, where no backward frees "
        "them: ctx.save_for_backward() keeps tensors that are freed."
    ),
}
"""By `SavedTensor.state`, in the order in which a box names them, and what a memory parts further.

The last two are live, and told apart in `GraphMemory.states` alone.
"""
