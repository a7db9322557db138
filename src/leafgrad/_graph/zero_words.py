"""Why an operation hands on zeros, and what to do about it."""

from leafgrad import _autograd

Words = tuple[str, str]
"""Because and cure."""

NORMALISING = frozenset(
    "nativelayernorm nativebatchnorm nativegroupnorm cudnnbatchnorm fusedrmsnorm".split()
)
KEEPS_WITHOUT_GRAPH = "a custom function that keeps a tensor without a graph"


def own_operation(name: str) -> str:
    """Return the operation of a node by its name, in lower case, as in ``"addmm"``."""
    return _autograd.own_stem(name).lower()


def words_of_operation(name: str) -> Words:
    """Return why a node of this name may pass on nothing but zeros."""
    return WORDS.get(own_operation(name), GENERAL)


UNDERFLOW: Words = (
    "The gradient is too small for float16, which has nothing between 0 and 6e-8",
    "Scale the loss by torch.amp.GradScaler, or compute in bfloat16 or float32",
)
EMPTY: Words = (
    "Its result has no elements: a mask or an index has left nothing",
    "Check the mask or the index, and skip a batch in which nothing is left",
)
CANCELLED: Words = (
    "The gradients of its several uses add up to zero",
    "Look at these uses: they may undo each other, as in x - x or the norm of a normalised vector",
)
HOOKED: Words = (
    "A hook makes zeros of what arrives",
    "Look at what register_hook() was called with: it returns the gradient that is to be used",
)
CONSTANT: Words = (
    "The same gradient arrives there for all entries, and the sum of them is constant",
    "Change the objective: the sum or mean of a softmax or of normalised numbers cannot change",
)
STARTING_AT_ZERO = (
    "If it starts at zero by design, as in LoRA, ReZero or a normalisation that is initialised "
    "with zero, the gradient comes once an optimizer has changed it; otherwise do not start it at "
    "zero"
)
FROM_THE_START: Words = (
    "Zeros is what the backward began with",
    "Look at grad_outputs, and at the hooks on the outputs",
)
GENERAL: Words = (
    "What arrived there is not zero, and what it passed on is",
    "Look at the values that it was given, and at its backward or hook if you wrote one",
)

_FLAT = "What it was given is {} wherever a gradient arrives, so that it is flat there"
_DEAD: Words = (
    _FLAT.format("not positive"),
    (
        "In a layer, its units are dead: use leaky_relu() or gelu(), lower the learning rate, or "
        "begin with other weights and biases; in a hinge loss, all margins are met"
    ),
)
_BOUNDED: Words = (
    _FLAT.format("outside of its bounds"),
    (
        "Begin inside of the bounds, or use sigmoid() or softplus() in place of hard ones; in a "
        "hinge loss each margin is kept, and there is nothing left to learn"
    ),
)
_SATURATED: Words = (
    "It is saturated: what it was given is so large that it is flat to the last digit",
    (
        "Normalise what it is given, or make the weights before it smaller; in a loss, use one "
        "that takes logits, such as binary_cross_entropy_with_logits()"
    ),
)
_ONE_ENTRY: Words = (
    (
        "A softmax over one entry is 1 whatever that is; over more, it is saturated or gives the "
        "targets already"
    ),
    (
        "Take it over the dim of the classes; for a single class, use sigmoid() and "
        "binary_cross_entropy_with_logits()"
    ),
)
_NORMALISED: Words = (
    (
        "It normalises one number at a time, which is 0 whatever it was, or all of it is summed up "
        "after"
    ),
    "Give it more than one number to normalise over, or leave it out",
)
_SUMMED_UP: Words = (
    "What it normalised is summed up after, and that sum is constant; or its weight is zero",
    "Look at its weight, and at what is computed from its result",
)
_FACTOR: Words = (
    "What it is multiplied by is nothing but zeros where a gradient arrives, or next to it",
    "Look at that factor: a mask or a weight of the loss that leaves nothing, or a dropout of all",
)
_MATRIX: Words = (
    "The other factor of the product holds nothing but zeros, or next to it",
    (
        "Let weights begin at random, as by torch.nn.init, not at zero, except where that is "
        "meant, as in an adapter; or look at the input or the state, as that before the first step "
        "of a sequence"
    ),
)
_EQUAL: Words = (
    "The outputs give the targets already, to the last digit",
    "Look at the targets: they must not be made of the outputs",
)
_AT_ZERO: Words = (
    "What it was given is 0, or the same number everywhere, where its slope is 0",
    "See whether that should be 0, such as the difference of outputs and a target",
)
_OTHER_ONE: Words = (
    "It took the other one wherever a gradient arrives",
    "Look at its condition or at the other one; softmax() or logsumexp() would weigh them",
)

DRAWN: Words = (
    "A random draw has no slope",
    (
        "Draw by rsample() of torch.distributions, as mean + std * torch.randn_like(std) does; for "
        "what is discrete use RelaxedBernoulli or gumbel_softmax(), or weight its log_prob()"
    ),
)
ROUNDED: Words = (
    "Its slope is zero everywhere",
    (
        "Replace the operation by a smooth one, or pass the gradient straight through it, as in x "
        "+ (x.round() - x).detach()"
    ),
)
COMPARED: Words = (
    "A comparison has no slope",
    "Use a smooth one, such as torch.sigmoid((x - threshold) / width)",
)
WRITTEN_OVER: Words = (
    "What was there before is written over, and nothing depends on it any more",
    "Use it before that line, or write into a clone() of it",
)
STRAIGHT: Words = (
    "The second derivative of an activation made of straight pieces is zero wherever it exists",
    "Use tanh(), softplus() or another smooth one",
)

_PRODUCTS = "mul mm addmm bmm baddbmm mv addmv dot addr linear convolution sum prod".split()
_SEVERAL = {
    "relu threshold": _DEAD,
    "clamp clampmin clampmax hardtanh hardsigmoid hardswish": _BOUNDED,
    "sigmoid tanh erf logsigmoid silu gelu elu softplus": _SATURATED,
    "softmax logsoftmax safesoftmax": _ONE_ENTRY,
    " ".join(NORMALISING): _NORMALISED,
    "mul div nativedropout": _FACTOR,
    "mm addmm bmm baddbmm mv addmv dot addr linear convolution": _MATRIX,
    "mseloss l1loss smoothl1loss huberloss binarycrossentropywithlogits": _EQUAL,
    "pow abs linalgvectornorm norm std var": _AT_ZERO,
    "where maskedfill maximum minimum max min": _OTHER_ONE,
    "bernoulli cauchy exponential geometric lognormal normal poisson random uniform": DRAWN,
    "ceil floor round sign sgn trunc": ROUNDED,
    "eq ge gt le lt ne": COMPARED,
    "copy fill zero": WRITTEN_OVER,
    "thresholdbackward leakyrelubackward hardtanhbackward hardshrinkbackward softshrinkbackward "
    "rreluwithnoisebackward": STRAIGHT,
}
WORDS: dict[str, Words] = {
    **{name: words for names, words in _SEVERAL.items() for name in names.split()},
    "embedding": (
        "Each index is padding_idx, whose row gets no gradient",
        "Look at the indices, and at the padding_idx of the embedding",
    ),
    "nllloss": (
        "Each label is ignored, or has the weight 0",
        "Look at the labels, at ignore_index and at the weights of the classes",
    ),
    "gridsampler2d": (
        "Each place that is asked for is outside of the image",
        "Keep the grid within -1 to 1, or pass padding_mode='border'",
    ),
}
