"""The memory of a rank's state."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from pytest_fxgraph.errors import ChoiceError
from pytest_fxgraph.ranks.rank_program import OPTIMIZERS, StateMemory, check_optimizer, state_memory

_CLASSES = {"sgd": (torch.optim.SGD, {}), "sgd_momentum": (torch.optim.SGD, {"momentum": 0.9}),
            "adam": (torch.optim.Adam, {}), "adamw": (torch.optim.AdamW, {})}  # fmt: skip


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_state_is_as_large_as_torchs_own(name):
    model = nn.Linear(8, 8)
    kind, options = _CLASSES[name]
    optimizer = kind(model.parameters(), lr=0.1, **options)
    model(torch.ones(2, 8)).sum().backward()
    optimizer.step()

    held = [value for state in optimizer.state.values() for value in state.values() if isinstance(value, torch.Tensor)]
    expected = sum(value.nbytes for value in held if value.dim())  # without the counter of steps
    assert state_memory(model, is_training=True, optimizer=name).optimizer == expected


def test_frozen_parameters_have_no_gradients():
    model = nn.BatchNorm1d(4)
    model.bias.requires_grad_(False)
    buffers = 4 * 4 * 2 + 8
    expected = StateMemory(parameters=32 + buffers, gradients=16, optimizer=32)
    assert state_memory(model, is_training=True, optimizer="adam") == expected
    assert state_memory(model, is_training=False, optimizer=None) == StateMemory(parameters=32 + buffers)


def test_wrong_optimizers_are_refused():
    with pytest.raises(ChoiceError, match="there is no optimizer 'lion'; there are 'sgd', 'sgd_momentum', 'adam'"):
        check_optimizer("lion", "train")
    with pytest.raises(ChoiceError, match="optimizer='adam' belongs to a training step; give mode='train', too"):
        check_optimizer("adam", None)
