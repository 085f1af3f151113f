from __future__ import annotations

import gc
import weakref

import pytest
from torch import nn
from torch.nn.utils import parametrize

from pytest_fxgraph.document.module_traits import Attributes, parts_of, traits_of


def test_modules_parameters_and_plain_attributes_are_found_by_path():
    root = nn.ModuleDict({"block": nn.Sequential(nn.Linear(1, 1))})
    root.block.config = {"a": 1}
    attributes = Attributes(root)

    assert attributes.at("") is root
    assert attributes.at("block.0") is root.block[0]
    assert attributes.at("block.0.weight") is root.block[0].weight
    assert attributes.at("block.config") == {"a": 1}


def test_a_missing_part_is_an_attribute_error():
    with pytest.raises(AttributeError, match="block"):
        Attributes(nn.Module()).at("block.weight")


def test_a_module_without_parts_stands_for_itself():
    layer = nn.ReLU()

    assert list(parts_of("act", layer)) == [("act", layer)]


def test_a_part_is_listed_under_each_of_its_paths():
    layer = nn.ReLU()
    block = nn.Sequential(layer, layer)

    assert list(parts_of("block", block)) == [("block", block), ("block.0", layer), ("block.1", layer)]


def test_the_parameters_of_a_constructor_come_with_what_goes_unsaid():
    (parameter,) = traits_of(nn.ReLU).parameters

    assert (parameter.name, parameter.unsaid) == ("inplace", False)


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
