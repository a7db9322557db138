"""Formulas of PyTorch whose derivatives are wrong, so that reverse mode must not use them.

`python -m tests.derivative.formulas` finds them, by finite differences over PyTorch's table of
operators, and writes the rows. Each has the name of a node, the highest order of derivatives
through this node that are right, and the saved flag with which they are wrong, None if they always
are.
"""

WRONG_FORMULAS: dict[str, tuple[int, str | None]] = {
    "AsStridedScatterBackward0": (0, None),
    "BatchNormBackwardBackward0": (1, None),
    "BatchNormWithUpdateBackward0": (2, None),
    "CudnnBatchNormBackward0": (2, "training"),
    "CudnnBatchNormBackwardBackward0": (1, "train"),
    "I0Backward0": (3, None),
    "LogcumsumexpBackward0": (2, None),
    "MaxUnpool2DBackward0": (0, None),
    "MaxUnpool3DBackward0": (0, None),
    "MiopenBatchNormBackward0": (2, "training"),
    "MiopenBatchNormBackwardBackward0": (1, "train"),
    "NativeBatchNormBackward0": (2, "training"),
    "NativeBatchNormBackwardBackward0": (1, "train"),
    "NativeBatchNormLegitBackward0": (2, "training"),
    "NativeBatchNormLegitBackward1": (2, None),
    "NativeLayerNormBackward0": (2, None),
    "NativeLayerNormBackwardBackward0": (1, None),
    "NormalBackward1": (0, None),
    "NormalBackward3": (0, None),
    "SpecialI1Backward0": (2, None),
}
