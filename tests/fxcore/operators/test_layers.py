from __future__ import annotations

import gc
import weakref

import pytest
from torch import nn

from fxcore.operators.layers import draws_randomly, layer_traits, training_matters, updates_state, works_in_place


def test_training_matters_to_dropout_and_to_norms_with_statistics_alone():
    assert training_matters(nn.Dropout())
    assert training_matters(nn.BatchNorm1d(1))
    assert not training_matters(nn.BatchNorm1d(1, track_running_stats=False))
    assert not training_matters(nn.InstanceNorm1d(1))
    assert not training_matters(nn.Linear(1, 1))


def test_a_layer_that_drops_counts_or_draws_is_not_inert():
    assert layer_traits(nn.Linear).is_inert
    assert not any(layer_traits(cls).is_inert for cls in (nn.Dropout, nn.BatchNorm1d, nn.LSTM, nn.RReLU, nn.Embedding))
    assert layer_traits(nn.Dropout).is_inert_in_eval
    assert not layer_traits(nn.Embedding).is_inert_in_eval


def test_a_class_of_the_user_has_no_facts_and_is_not_kept_alive():
    class Mine(nn.Linear):
        pass

    watch = weakref.ref(Mine)
    traits = layer_traits(Mine)
    del Mine
    gc.collect()

    assert not traits.is_layer
    assert not traits.is_of_torch
    assert traits.facts == {}
    assert "non_aliasing" in layer_traits(nn.Linear).facts
    assert watch() is None


@pytest.mark.parametrize(
    ("layer", "draws", "updates", "is_in_place"),
    [
        (nn.Dropout(0.5), True, False, False),
        (nn.Dropout(0.0), False, False, False),
        (nn.Dropout(0.5).eval(), False, False, False),
        (nn.FractionalMaxPool2d(2, output_size=1).eval(), True, False, False),
        (nn.BatchNorm1d(2), False, True, False),
        (nn.BatchNorm1d(2).eval(), False, False, False),
        (nn.Embedding(2, 2, max_norm=1.0).eval(), False, True, False),
        (nn.ReLU(inplace=True), False, False, True),
    ],
    ids=repr,
)
def test_the_settings_of_a_layer_decide_about_its_effects(layer, draws, updates, is_in_place):
    assert (draws_randomly(layer), updates_state(layer), works_in_place(layer)) == (draws, updates, is_in_place)
