"""PyTorch's backward formulas that compute wrong derivatives. Reverse mode must not use them.

`python -m tests.derivative.formulas` finds them by finite differences over PyTorch's table of
operators, and writes the table. The key is the name of a node. The value is the highest order at
which derivatives through this node are right, and the name of a saved flag. Higher orders are wrong
only if this flag is set; if it is None, they are always wrong.
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
