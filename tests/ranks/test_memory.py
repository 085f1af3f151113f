"""The memory of a rank's state."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from pytest_fxgraph.errors import CaptureError, ChoiceError
from pytest_fxgraph.ranks import rank_program
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


def test_a_subject_that_is_no_module_has_no_state():
    assert state_memory(torch.relu, is_training=True, optimizer="adam") == StateMemory()
    assert rank_program._placements(torch.relu) == {}


class FSDPModule(nn.Module):
    """A class by the name of torch's."""


class DistributedDataParallel(nn.Module):
    """A class by the name of torch's."""


@pytest.mark.parametrize(
    ("model", "mode", "part"),
    [
        (FSDPModule(), None, "FSDPModule"),
        (nn.Sequential(nn.ReLU(), FSDPModule()), "eval", "FSDPModule 1"),
        (nn.Sequential(DistributedDataParallel()), "train", "DistributedDataParallel 0"),
        (nn.Sequential(DistributedDataParallel()), "eval", ""),
        (nn.ReLU(), "train", ""),
        (torch.relu, "train", ""),
    ],
)
def test_a_module_whose_hooks_exchange_tensors_is_named(model, mode, part):
    assert rank_program._hooked(model, mode) == part


@pytest.mark.parametrize(
    ("frontend", "model", "error", "words"),
    [
        ("make_fx", FSDPModule(), "'Stream' object has no attribute 'x'", "fully_shard of torch"),
        ("aot", FSDPModule(), "'Stream' object has no attribute 'x'", "fully_shard of torch"),
        ("aot", nn.ReLU(), "'Stream' object has no attribute 'x'", ""),
        ("make_fx", FSDPModule(), "other", ""),
        ("aot", nn.ReLU(), "other", ""),
        ("aot", FSDPModule(), "other", "frontend='aot' cannot take this model with FSDPModule under torch"),
        ("aot", DistributedDataParallel(), "other", "frontend='aot' cannot take this model with DistributedDataPar"),
    ],
)
def test_a_frontend_that_fails_names_the_next_step_for_a_parallel_model(frontend, model, error, words):
    request: Any = SimpleNamespace(frontend=frontend)

    told = rank_program._refused(request, model, CaptureError(error))

    assert told.startswith(words)
    assert bool(told) is bool(words)


def test_placements_and_builders_are_named_alike_under_every_torch():
    shard, replicate, partial_ = (type(name, (), {}) for name in ("_Shard", "Replicate", "Partial"))
    shard.dim, partial_.reduce_op = 0, "sum"

    assert [rank_program._placement_text(each()) for each in (shard, replicate, partial_)] == [
        *("Shard(0)", "Replicate()", "Partial(sum)")
    ]
    assert [rank_program._name(each) for each in (state_memory, partial(state_memory))] == ["state_memory", "partial"]
