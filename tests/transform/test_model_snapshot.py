"""A change of a model is noticed and named, whatever part it touches."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from pytest_fxgraph.transform.model_snapshot import ModelSnapshot


def _write(model: Any) -> None:
    with torch.no_grad():
        model.lin.weight.zero_()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_write, "parameter lin.weight has other values"),
        (lambda model: setattr(model.lin, "weight", nn.Parameter(torch.ones(1))), "lin.weight is another tensor"),
        (lambda model: delattr(model, "bn"), "parameter bn.weight is gone"),
        (lambda model: model.register_buffer("more", torch.zeros(1)), "more is new"),
        (lambda model: setattr(model.bn, "eps", 0.5), "bn.eps was 1e-05 and is 0.5"),
        (lambda model: model.bn.eval(), "bn.training was True and is False"),
        (lambda model: setattr(model, "act", nn.GELU()), "module act was ReLU and is GELU"),
        (lambda model: model.lin.weight.requires_grad_(False), "parameter lin.weight has requires_grad=False now"),
        (lambda model: model.act.register_forward_hook(print), "act._forward_hooks holds something else"),
        (lambda model: setattr(model.act, "forward", torch.neg), "act.forward holds something else"),
        (lambda model: setattr(model, "_cache", object()), "_cache holds something else"),
    ],
)  # fmt: skip
def test_each_change_is_named_and_undone(change, words):
    model = nn.Module()
    model.lin, model.bn, model.act = nn.Linear(1, 1), nn.BatchNorm1d(1), nn.ReLU()
    snapshot = ModelSnapshot(model)
    assert snapshot.changes() == []

    change(model)
    found = snapshot.changes()
    snapshot.restore()

    assert any(words in sentence for sentence in found)
    assert snapshot.changes() == []
