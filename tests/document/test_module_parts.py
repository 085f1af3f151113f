from __future__ import annotations

from torch import nn

from pytest_fxgraph.document.module_parts import parts_of


def test_a_module_without_parts_stands_for_itself():
    layer = nn.ReLU()

    assert list(parts_of("act", layer)) == [("act", layer)]


def test_a_part_is_listed_under_each_of_its_paths():
    layer = nn.ReLU()
    block = nn.Sequential(layer, layer)

    assert list(parts_of("block", block)) == [("block", block), ("block.0", layer), ("block.1", layer)]
