from __future__ import annotations

import pytest
from torch import nn

from pytest_fxgraph.document.attributes import Attributes


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
