from __future__ import annotations

import pytest
import torch
from torch import nn

from pytest_fxgraph.document.module_effects import module_profile, training_matters


class Observer(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(1))


@pytest.mark.parametrize(
    ("module", "training", "evaluating"),
    [
        (nn.Dropout(0.5), ("random",), ()),
        (nn.Dropout(0.0), (), ()),
        (nn.RReLU(), ("random",), ()),
        (nn.FractionalMaxPool2d(2, output_size=1), ("random",), ("random",)),
        (nn.LSTM(2, 2, num_layers=2, dropout=0.5), ("random",), ()),
        (nn.MultiheadAttention(4, 2, dropout=0.1), ("random",), ()),
        (nn.BatchNorm2d(2), ("state",), ()),
        (nn.BatchNorm2d(2, track_running_stats=False), (), ()),
        (nn.InstanceNorm1d(2), (), ()),
        (nn.Embedding(2, 2, max_norm=1.0), ("state",), ("state",)),
        (nn.TransformerEncoderLayer(4, 2), ("random",), ()),
        (nn.Conv2d(1, 1, 1), (), ()),
        (Observer(), ("state",), ()),
        (nn.Sequential(nn.Dropout(), nn.BatchNorm1d(2)), ("random", "state"), ()),
    ],
)
def test_what_a_module_does_beside_computing_follows_its_training_flag(module, training, evaluating):
    assert module_profile(module.train()).kinds == training
    assert module_profile(module.eval()).kinds == evaluating


def test_a_module_that_works_in_place_writes_its_input():
    assert module_profile(nn.ReLU(inplace=True)).writes == ((0, "input"),)
    assert module_profile(nn.ReLU()).writes == ()


def test_the_result_of_a_layer_is_fresh_and_that_of_a_reshaping_module_is_not():
    assert module_profile(nn.Linear(1, 1)).shares == "none"
    assert module_profile(nn.ReLU(inplace=True)).shares == "all"
    assert module_profile(nn.Flatten()).shares == "all"
    assert module_profile(Observer()).shares == "all"


def test_training_matters_to_dropout_and_to_norms_with_statistics_alone():
    assert training_matters(nn.Dropout())
    assert training_matters(nn.BatchNorm1d(1))
    assert not training_matters(nn.BatchNorm1d(1, track_running_stats=False))
    assert not training_matters(nn.InstanceNorm1d(1))
    assert not training_matters(nn.Linear(1, 1))
