"""Why an operation makes NaN or infinity, and what to do about it."""

from typing import Literal

Words = tuple[str, str]
"""Because and cure."""

VALUES: dict[str, Words] = {
    "acos": (
        "acos() is NaN outside of -1 to 1.",
        "Clamp what it is given: x.clamp(-1, 1), or inside of that for its gradient.",
    ),
    "addmm": (
        "A product of matrices is beyond the largest number of its type, 65,504 in float16.",
        "Compute it in bfloat16 or float32, or look for what made the numbers so large.",
    ),
    "div": (
        "A division by 0 gives infinity, and 0 / 0 gives NaN.",
        "Keep the divisor away from 0 before dividing, as by y.clamp(min=1e-12) if it is positive.",
    ),
    "exp": (
        "exp() overflows: in float32 from 88.73 on, in float16 from 11.09 on.",
        "Use softmax(), logsumexp() or softplus(), or subtract the maximum before.",
    ),
    "log": (
        "log() is -inf at 0 and NaN below.",
        "Use log_softmax() or logsigmoid(), or clamp before: x.clamp(min=1e-12).log().",
    ),
    "maskedfill": (
        "A mask of infinities that leaves a row nothing makes softmax() divide 0 by 0.",
        "Leave each row an entry, or mask with torch.finfo(x.dtype).min in place of -inf.",
    ),
    "mean": (
        "The mean of no numbers is NaN, and that of very large ones overflows.",
        "Look at the shape that it is given: a mask or an index may have left nothing.",
    ),
    "mul": (
        "0 times infinity is NaN, and a product may be beyond the largest number of its type.",
        "Look for the factor that is infinite or very large.",
    ),
    "pow": (
        "A negative number to a broken power is NaN, and 0 to a negative power is infinite.",
        "Keep the base above 0 before: x.clamp(min=1e-12) ** p.",
    ),
    "reciprocal": (
        "1 / 0 is infinite.",
        "Keep what it is given away from 0 before, as by x.clamp(min=1e-12) if it is positive.",
    ),
    "softmax": (
        "A softmax over nothing but -inf is NaN: a mask has left no entry in some row.",
        "Leave each row an entry, or mask with torch.finfo(x.dtype).min in place of -inf.",
    ),
    "sqrt": (
        "sqrt() is NaN below 0.",
        "Clamp what it is given: x.clamp(min=1e-12).sqrt().",
    ),
    "std": (
        "The standard deviation of one number is NaN, as it divides by n - 1.",
        "Pass correction=0, or look at the shape that it is given.",
    ),
    "sub": (
        "Infinity minus infinity is NaN.",
        "Look for what made its operands infinite.",
    ),
}
"""By operation, on the way forward."""

GRADIENTS: dict[str, Words] = {
    "acos": (
        "The slope of acos() at -1 and 1 is infinite.",
        "Clamp what it is given inside: x.clamp(-1 + 1e-6, 1 - 1e-6).acos(), or use atan2().",
    ),
    "div": (
        "A division by 0 has no finite slope, also where torch.where() drops its value.",
        "Replace the divisor where it is 0, before: x / torch.where(y == 0, 1.0, y).",
    ),
    "exp": (
        "exp() is its own slope, and overflows with it.",
        "Use softmax(), logsumexp() or softplus(), or subtract the maximum before.",
    ),
    "log": (
        "The slope of log() at 0 is infinite.",
        "Use log_softmax() or logsigmoid(), or clamp before: x.clamp(min=1e-12).log().",
    ),
    "pow": (
        "The slope of a power below 1 is infinite at 0.",
        "Add a small number inside: (x + 1e-12) ** p.",
    ),
    "sqrt": (
        "The slope of sqrt() at 0 is infinite.",
        "Add a small number inside: (x + 1e-12).sqrt().",
    ),
}
"""By operation, on the way back."""

LIKE = {
    "asin": "acos",
    "baddbmm": "addmm",
    "bmm": "addmm",
    "convolution": "addmm",
    "linear": "addmm",
    "log10": "log",
    "log2": "log",
    "logsoftmax": "softmax",
    "mm": "addmm",
    "rsqrt": "reciprocal",
    "var": "std",
}
"""Operations that the words of another one fit."""

CURE_OF_LEAF = (
    "Look at the step that wrote it: clip its gradients by torch.nn.utils.clip_grad_norm_(), or "
    "lower the learning rate."
)
OF_INFINITY: Words = (
    "The NaN is made of the infinity: that times 0, or minus another one, or divided by one.",
    "Mend the infinity, and it goes with it.",
)


def words_for(operation: str, way: Literal["value", "gradient"]) -> Words:
    """Return why an operation makes what is not finite, and the cure, in general if need be."""
    table = VALUES if way == "value" else GRADIENTS
    if operation in table:
        return table[operation]
    if LIKE.get(operation) in table:
        because, cure = table[LIKE[operation]]
        return because, cure
    if way == "value":
        return (
            f"What {operation} was given is finite, as far as that was seen; what it made is not.",
            "Look at what it was given: too large, at the edge of its domain, or nothing at all.",
        )
    return (
        f"The gradient that arrived at {operation} was finite, and what it passed on is not.",
        "Look at the values that it was given: at such a point its slope is not finite.",
    )
