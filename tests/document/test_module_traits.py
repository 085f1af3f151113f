from __future__ import annotations

import gc
import weakref

from torch import nn
from torch.nn.utils import parametrize

from pytest_fxgraph.document.module_traits import traits_of


def test_the_parameters_of_a_constructor_come_with_what_goes_unsaid():
    parameters = dict(traits_of(nn.ReLU).parameters)

    assert parameters == {"inplace": False}


def test_a_layer_of_torch_is_told_from_a_class_of_the_user():
    class Mine(nn.Linear):
        pass

    assert traits_of(nn.Linear).is_layer
    assert not traits_of(Mine).is_layer
    assert not traits_of(Mine).is_of_torch


def test_a_class_that_parametrization_derives_is_no_layer():
    layer = nn.Linear(2, 2)
    parametrize.register_parametrization(layer, "weight", nn.Identity())

    assert not traits_of(type(layer)).is_layer


def test_a_layer_that_drops_counts_or_draws_is_not_inert():
    assert traits_of(nn.Linear).is_inert
    assert not any(traits_of(cls).is_inert for cls in (nn.Dropout, nn.BatchNorm1d, nn.LSTM, nn.RReLU, nn.Embedding))


def test_the_traits_of_torch_are_found_once_and_keep_no_class_of_the_user_alive():
    class Mine(nn.Module):
        pass

    watch = weakref.ref(Mine)
    traits_of(Mine)
    del Mine
    gc.collect()

    assert traits_of(nn.Conv2d) is traits_of(nn.Conv2d)
    assert watch() is None
