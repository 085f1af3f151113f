from __future__ import annotations

import gc
import weakref

import pytest
import torch
import torch.ao.nn.quantized  # and with it the rest of torch.ao
import torch.ao.quantization
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


class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(1))


class WithoutBuffers(nn.Module):
    inplace = True


class SaysOtherwise(nn.Module):
    inplace = 1


def statistics_without_tracking():
    norm = nn.BatchNorm1d(2)
    norm.track_running_stats = False
    return norm


@pytest.mark.parametrize(
    ("module", "updates", "in_place"),
    [
        (Counts(), True, False),
        (Counts().eval(), False, False),
        (WithoutBuffers(), False, True),
        (SaysOtherwise(), False, False),
        (nn.ReLU(), False, False),
        (torch.ao.quantization.MinMaxObserver(), True, False),
        (torch.ao.quantization.MinMaxObserver().eval(), True, False),
        (nn.BatchNorm1d(2, track_running_stats=False), False, False),
        (statistics_without_tracking(), True, False),
        (nn.Embedding(2, 2), False, False),
        (nn.utils.spectral_norm(nn.Linear(1, 1)), False, False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_module_with_buffers_may_update_them(module, updates, in_place):
    assert updates_state(module) is updates
    assert works_in_place(module) is in_place


def test_an_attribute_that_is_no_truth_is_no_sign_of_a_write():
    layer = nn.ReLU()
    layer.inplace = 1

    assert not works_in_place(layer)


class Lazy(nn.Linear):
    def __getattr__(self, name):
        return super().__getattr__(name)


@pytest.mark.parametrize(
    ("cls", "is_layer", "is_of_torch"),
    [
        (nn.Linear, True, True),
        (Lazy, False, False),
        (type("Linear", (nn.Linear,), {"__module__": "torch.nn.modules.linear"}), False, True),
        (torch.ao.nn.quantized.Linear, False, True),
        (nn.Module, True, True),
    ],
    ids=["torch's", "a user's", "made at run time", "quantized", "the base"],
)
def test_a_layer_is_a_class_of_torch_nn_itself(cls, is_layer, is_of_torch):
    assert (layer_traits(cls).is_layer, layer_traits(cls).is_of_torch) == (is_layer, is_of_torch)


def test_a_quantized_layer_has_facts_of_its_own_or_those_of_the_layer_of_its_name():
    assert "non_aliasing" in layer_traits(torch.ao.nn.quantized.Linear).facts
    assert "quantizes" in layer_traits(torch.ao.nn.quantized.Quantize).facts
    assert layer_traits(torch.ao.nn.qat.Linear).facts == layer_traits(nn.Linear).facts
    assert layer_traits(WithoutBuffers).facts == {}


def test_torch_s_own_layers_write_no_buffers_unless_they_say_so():
    assert not layer_traits(nn.Linear).may_write_buffers
    assert not layer_traits(torch.ao.nn.quantized.Linear).may_write_buffers
    assert layer_traits(Counts).may_write_buffers
    assert layer_traits(torch.nn.utils.parametrizations._SpectralNorm).may_write_buffers
