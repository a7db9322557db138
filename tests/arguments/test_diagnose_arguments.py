"""`diagnose` accepts common arguments, and says what to pass instead of others."""

from typing import Any

import pytest
import torch
from torch import nn

from leafgrad import diagnose


class ModelOutput(dict[str, Any]):
    """A mapping with attributes, as models of Hugging Face return it."""

    def __getattr__(self, name: str) -> Any:
        return self[name]


def test_diagnose_accepts_an_object_with_a_loss() -> None:
    model = nn.Linear(2, 3)
    logits = model(torch.ones(4, 2))
    assert diagnose(ModelOutput(loss=logits.square().mean(), logits=logits), model).ok
    with pytest.raises(TypeError, match="pass `labels=`"):
        diagnose(ModelOutput(loss=None, logits=logits), model)


def test_report_without_recording_suggests_debug_once() -> None:
    model = nn.Linear(2, 3)
    report = diagnose(model.weight.detach().sum(), model)
    assert not report.ok
    assert "with leafgrad.debug()" in report.help
    assert str(report).count("help:") == 1


def test_gradients_option_changes_no_tensor_and_no_random_state() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Dropout(0.5))
    loss = model(torch.randn(4, 2)).square().mean()
    tensors = [*model.parameters(), *model.buffers()]
    before = [(one.clone(), one._version) for one in tensors], torch.get_rng_state()
    diagnose(loss, model, gradients=True)
    assert all(one.grad is None for one in model.parameters())
    for (old, version), now in zip(before[0], tensors, strict=True):
        assert torch.equal(old, now)
        assert now._version == version
    assert torch.equal(before[1], torch.get_rng_state())
    loss.backward()
