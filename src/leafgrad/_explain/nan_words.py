"""Why an operation makes NaN or infinity, and what to do about it."""

from typing import Literal

import torch

from leafgrad._graph.summary import NotFinite
from leafgrad._graph.zero_words import Words

VALUES: dict[str, Words] = {
    "acosh": (
        "acosh() is NaN below 1.",
        "Clamp what it is given: x.clamp(min=1 + 1e-6).",
    ),
    "acos": (
        "acos() is NaN outside of -1 to 1.",
        "Clamp what it is given: x.clamp(-1, 1), or inside of that for its gradient.",
    ),
    "addmm": (
        "A product of matrices is beyond the largest number of its type, 65,504 in float16.",
        "Compute it in bfloat16 or float32, or look for what made the numbers so large.",
    ),
    "atanh": (
        "atanh() is infinite at -1 and 1, and NaN outside.",
        "Clamp what it is given inside: x.clamp(-1 + 1e-6, 1 - 1e-6).",
    ),
    "binarycrossentropy": (
        "The logarithm of a probability that is 0 or 1 is not finite.",
        "Leave the sigmoid() out, and use binary_cross_entropy_with_logits().",
    ),
    "div": (
        "A division by 0, or by a number next to it, gives infinity, and 0 / 0 gives NaN.",
        "Keep the divisor away from 0 before dividing, as by y.clamp(min=1e-12) if it is positive.",
    ),
    "exp": (
        "exp() overflows: in float32 from 88.73 on, in float16 from 11.09 on.",
        (
            "Clamp what it is given, as a log-variance by x.clamp(-30, 20); or use softmax(), "
            "logsumexp() or softplus(), or subtract the maximum before."
        ),
    ),
    "fmod": (
        "The remainder of a division by 0 is NaN.",
        "Keep the divisor away from 0.",
    ),
    "kldiv": (
        "The logarithm of a target that is 0 is -inf.",
        "Pass log_target=True with log_softmax() on both sides, or clamp the target before.",
    ),
    "linalgslogdet": (
        "The logarithm of the determinant of a singular matrix is -inf.",
        "Add a small multiple of the identity: a + 1e-6 * torch.eye(n).",
    ),
    "logit": (
        "logit() is infinite at 0 and 1.",
        "Pass its eps, as in x.logit(eps=1e-6), or keep the scores that sigmoid() was given.",
    ),
    "log": (
        "log() is -inf at 0 and NaN below.",
        (
            "Use log_softmax() or logsigmoid(), or binary_cross_entropy_with_logits() for a loss; "
            "or clamp before: x.clamp(min=1e-12).log()."
        ),
    ),
    "maskedfill": (
        "softmax() of a row that is all masked is NaN; the loss of a masked target is infinite.",
        "Leave each row an entry, or mask with torch.finfo(x.dtype).min; do not mask a target.",
    ),
    "mul": (
        "0 times infinity is NaN, and a product may be beyond the largest number of its type.",
        (
            "Look for the factor that is infinite or very large; replace p * log(p) by "
            "torch.xlogy(p, p.clamp(min=1e-12)), which is 0 at 0 and has a finite gradient there."
        ),
    ),
    "nllloss": (
        "The mean over no label is NaN: all of them are ignore_index, or have the weight 0.",
        "Leave such a batch out, or pass reduction='sum' and divide by the number of labels.",
    ),
    "pow": (
        (
            "A negative number to a fractional power is NaN, 0 to a negative power is infinite, "
            "and a power may be beyond the largest number of its type, 65,504 in float16."
        ),
        (
            "Keep the base above 0 before: x.clamp(min=1e-12) ** p; of large numbers, compute it "
            "in bfloat16 or float32."
        ),
    ),
    "reciprocal": (
        "1 / 0 is infinite.",
        "Keep what it is given away from 0 before, as by x.clamp(min=1e-12) if it is positive.",
    ),
    "softmax": (
        "A softmax over +inf is NaN, or over nothing but -inf: there, a mask has left no entry.",
        "Leave each row an entry, or mask with torch.finfo(x.dtype).min, and keep +inf out.",
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
    "sum": (
        "The sum is beyond the largest number of its type, 65,504 in float16.",
        "Sum in float32, as by x.sum(dtype=torch.float32), or take the mean.",
    ),
    "prod": (
        "The result is beyond the largest number of its type, 65,504 in float16.",
        "Make the numbers smaller before, or compute in bfloat16 or float32.",
    ),
    "ctcloss": (
        "No path is long enough for the labels, so that their probability is 0.",
        "Pass zero_infinity=True, or see that no target is longer than its input allows.",
    ),
    "lgamma": (
        "The gamma function and its logarithm are infinite at 0 and below at whole numbers.",
        "Keep what it is given above 0: x.clamp(min=1e-6).",
    ),
    "linalginvex": (
        "The matrix is singular, or nearly so.",
        "Add a small multiple of the identity: a + 1e-6 * torch.eye(n).",
    ),
    "log1p": (
        "log1p() is -inf at -1 and NaN below.",
        "Clamp what it is given: x.clamp(min=-1 + 1e-6).",
    ),
    "weightnorminterface": (
        "A weight of norm 0 is divided by its norm.",
        "Let the weights begin at random, as by torch.nn.init.",
    ),
    "tocopy": (
        "The number is beyond the largest one of the type that it was turned into.",
        "Keep it in float32, turn it into bfloat16 in place of float16, or make it smaller before.",
    ),
}
"""By operation, on the way forward."""

GRADIENTS: dict[str, Words] = {
    "acos": (
        "The slope of acos() at -1 and 1 is infinite.",
        "Clamp what it is given inside: x.clamp(-1 + 1e-6, 1 - 1e-6).acos(), or use atan2().",
    ),
    "atanh": (
        "The slope of atanh() at -1 and 1 is infinite.",
        "Clamp what it is given inside: x.clamp(-1 + 1e-6, 1 - 1e-6).atanh().",
    ),
    "acosh": (
        "The slope of acosh() at 1 is infinite.",
        "Clamp what it is given: x.clamp(min=1 + 1e-6).",
    ),
    "atan2": (
        "Where both of what atan2() is given are 0, it has no slope.",
        "Replace them there before: torch.atan2(y, torch.where((x == 0) & (y == 0), 1.0, x)).",
    ),
    "div": (
        "Dividing by 0 or next to it has no finite slope, even where torch.where() drops it.",
        "Replace a divisor of 0 before: x / torch.where(y == 0, 1.0, y); make a tiny one larger.",
    ),
    "exp": (
        "exp() is its own slope, and overflows with it, also where torch.where() drops its value.",
        (
            "Clamp what it is given; or use softmax(), logsumexp() or softplus(), or subtract the "
            "maximum before."
        ),
    ),
    "hypot": (
        "Where both of what hypot() is given are 0, it has no slope.",
        "Add a small number inside: (x * x + y * y + 1e-12).sqrt().",
    ),
    "linalgeigh": (
        (
            "Eigenvectors have no derivative where two eigenvalues are equal: it divides by their "
            "difference."
        ),
        "Use torch.linalg.eigvalsh() alone if that will do, or keep them apart by a little noise.",
    ),
    "linalgsvd": (
        (
            "Singular vectors have no derivative where two singular values are equal, or 0: it "
            "divides by their difference."
        ),
        "Use torch.linalg.svdvals() alone if that will do, or keep them apart by a little noise.",
    ),
    "log": (
        "The slope of log() at 0 is infinite, also where torch.where() drops its value.",
        (
            "Use log_softmax() or logsigmoid(), or replace what it is given before: "
            "torch.where(x > 0, x, 1.0).log(), or x.clamp(min=1e-12).log()."
        ),
    ),
    "log1p": (
        "The slope of log1p() at -1 is infinite.",
        "Clamp what it is given: x.clamp(min=-1 + 1e-6).",
    ),
    "logsumexp": (
        "A logsumexp() over nothing but -inf has no slope.",
        "Leave each row an entry, or mask with torch.finfo(x.dtype).min in place of -inf.",
    ),
    "pow": (
        "The slope of a power below 1 is infinite at 0; otherwise, the gradient overflows.",
        "At 0, add a small number inside: (x + 1e-12) ** p; otherwise make the numbers smaller.",
    ),
    "rsqrt": (
        "rsqrt() and its slope are infinite at 0, also where a clamp() or where() drops that.",
        "Add a small number inside, before: (x + 1e-12).rsqrt(), or use normalize().",
    ),
    "xlogy": (
        "The slope of xlogy() in its first argument is log(y), which is infinite at 0.",
        "Clamp what it is given: p.clamp(min=1e-12).",
    ),
    "sqrt": (
        "The slope of sqrt() at 0 is infinite.",
        "Add a small number inside: (x + 1e-12).sqrt().",
    ),
}
"""By operation, on the way back."""

LIKE = {
    "asin": "acos",
    "cholesky": "linalgslogdet",
    **dict.fromkeys(["cosh", "cumprod", "cumsum", "exp2", "mean", "mseloss", "sinh"], "prod"),
    "digamma": "lgamma",
    "expm1": "exp",
    "linalgsolveex": "linalginvex",
    "linalgeig": "linalgeigh",
    "nllloss2d": "nllloss",
    "remainder": "fmod",
    "specialentr": "xlogy",
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
    "lower the learning rate. If none did, it was never initialised, as torch.empty() and "
    "torch.Tensor(sizes) leave it."
)
OF_INFINITY: Words = (
    "The NaN is made of the infinity: that times 0, or minus another one, or divided by one.",
    "Mend the infinity, and it goes with it.",
)


NOT_SEEN: Words = (
    "The output holds it, and no recording shows where it came up.",
    "Compute the output inside record(values=True), and pass the recording.",
)


HALF_VALUE: Words = (
    "The result is beyond 65,504, the largest number of float16.",
    "Compute it in bfloat16 or float32, or make the numbers smaller before.",
)
PRODUCT_GRADIENT: Words = (
    "The gradient is beyond the largest number of its type, as a product of large numbers is.",
    "Look at the numbers that it was given, and make them smaller before, or clip the gradient.",
)
HALF_GRADIENT: Words = (
    "The gradient is beyond 65,504, the largest number of float16; the slope itself is finite.",
    (
        "Scale the loss by torch.amp.GradScaler, which skips such a step and then scales by less, "
        "or compute in bfloat16 or float32."
    ),
)
_PRODUCTS = {"addmm", "mul"}
_RANGE = {"add", "mul", "sub"}
CURE_OF_NUMBER = "Look at where that number comes from: it is no tensor, and has no gradient."


EMPTY: Words = (
    "It was given no elements: a mask or an index has left nothing.",
    "Check the mask or the index, and skip a batch in which nothing is left.",
)
_NAN_ALONE = {"acos", "acosh", "fmod", "nllloss", "softmax", "sqrt", "std", "sub"}
_BOUNDS = {
    torch.float16: {"1e-12": "1e-3", "1e-6": "1e-3", "(-30, 20)": "(-10, 10)"},
    torch.bfloat16: {"1e-6": "1e-2"},
}
"""What to write in a cure where a type is too coarse for the numbers that stand there."""


def words_for(
    operation: str,
    way: Literal["value", "gradient"],
    dtype: torch.dtype,
    kind: NotFinite = "NaN",
) -> Words:
    """Return why an operation makes what is not finite, and the cure that fits the type."""
    because, cure = _words_for(operation, way, dtype, kind)
    for bound, fitting in _BOUNDS.get(dtype, {}).items():
        cure = cure.replace(bound, fitting)
    return because, cure


def _words_for(
    operation: str, way: Literal["value", "gradient"], dtype: torch.dtype, kind: NotFinite
) -> Words:
    """Return why an operation makes what is not finite, in general if need be."""
    table = VALUES if way == "value" else GRADIENTS
    known = LIKE.get(operation, operation)
    is_listed = not {operation, known}.isdisjoint(table)
    if way == "value" and kind == "infinity" and known in _NAN_ALONE:
        return VALUES["prod"]
    if dtype is torch.float16 and way == "value" and known in _RANGE:
        return HALF_VALUE
    if way == "gradient" and not is_listed and (dtype is torch.float16 or known in _PRODUCTS):
        return HALF_GRADIENT if dtype is torch.float16 else PRODUCT_GRADIENT
    if is_listed:
        return table.get(operation) or table[known]
    if way == "value":
        return (
            f"What {operation} was given is finite, as far as that was seen; what it made is not.",
            "Look at what it was given: too large, at the edge of its domain, or nothing at all.",
        )
    return (
        f"The gradient that arrived at {operation} was finite, and what it passed on is not.",
        "Look at the values that it was given: its slope may not be finite there.",
    )
