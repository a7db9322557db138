"""Models that are trained in evaluation mode."""

from collections.abc import Iterator
from typing import Any

from torch import nn

from leafgrad import _autograd
from leafgrad._diagnosis.build import diagnosis
from leafgrad._diagnosis.checks.backward.nodes import number_of, source_of
from leafgrad._diagnosis.diagnosis import Diagnosis, Severity
from leafgrad._diagnosis.registry import check
from leafgrad._diagnosis.situation import Situation


@check("eval-mode")
def find_evaluation_mode(situation: Situation) -> Iterator[Diagnosis]:
    """Find RNNs of cuDNN that saved nothing for backward, and models that are all in this mode."""
    with _autograd.unobserved():
        unsaved = [node for node in situation.live if _is_rnn_in_evaluation(node)]
        situation.failing.update(map(number_of, unsaved))
        reached = {id(leaf) for leaf in map(_autograd.leaf_variable, situation.live)}
        trained = reached & situation.optimized
        idle = {
            name or "model": root
            for name, root in situation.modules.items()
            if not any(one.training for one in root.modules())
            if any(map(_acts_in_training, root.modules()))
            if any(id(one) in trained for one in root.parameters())
        }
        is_untrained = any(
            map(_saw_no_batch, (one for root in idle.values() for one in root.modules()))
        )
    if unsaved:
        at = source_of(situation, unsaved[0])
        yield diagnosis("eval-mode", Severity.ERROR, at=at, variant="cudnn")
    elif idle:
        severity = Severity.WARNING if is_untrained else Severity.NOTE
        variant = "untrained" if is_untrained else ""
        yield diagnosis("eval-mode", severity, subject=[*idle], variant=variant)


def _is_rnn_in_evaluation(node: Any) -> bool:
    is_rnn = _autograd.node_name(node).startswith("CudnnRnnBackward")
    return is_rnn and not _autograd.kept(node, "train")


def _acts_in_training(module: nn.Module) -> bool:
    """Return whether a module computes something else in training mode."""
    is_dropping = isinstance(module, _DROPOUTS) and module.p > 0
    return is_dropping or (isinstance(module, _BATCH_NORMS) and module.track_running_stats)


def _saw_no_batch(module: nn.Module) -> bool:
    return isinstance(module, _BATCH_NORMS) and bool(module.num_batches_tracked == 0)


_DROPOUTS = nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout
_BATCH_NORMS = nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm
