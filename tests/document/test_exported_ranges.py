from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.export import Dim, export

from pytest_fxgraph.captures.subjects import to_graph_module
from pytest_fxgraph.document.builder import build_document
from pytest_fxgraph.document.encoding import encode
from pytest_fxgraph.document.model import RANGE_NOTE


class Both(nn.Module):
    def forward(self, x, y):
        return x.sum() + y.sum()


def ranges(**dims):
    program = export(
        Both(),
        (torch.ones(8, 2), torch.ones(6)),
        dynamic_shapes={name: {0: dims[name]} if name in dims else None for name in "xy"},
    )
    document = build_document(to_graph_module(program))
    symbols = [
        node.value.split("[")[1].split(",")[0].rstrip("]") for node in document.nodes if node.op == "placeholder"
    ]
    notes = [note.removeprefix(RANGE_NOTE) for note in document.notes if note.startswith(RANGE_NOTE)]
    for name, symbol in zip("xy", symbols, strict=True):
        notes = [" ".join(name if word == symbol else word for word in note.split()) for note in notes]
    return notes


@pytest.mark.parametrize(
    ("dims", "notes"),
    [
        ({}, []),
        ({"x": Dim("a")}, []),
        ({"x": Dim("a", min=2)}, []),
        ({"x": Dim("a", max=64)}, ["x <= 64"]),
        ({"x": Dim("a", min=4)}, ["4 <= x"]),
        ({"x": Dim("a", min=4, max=64)}, ["4 <= x <= 64"]),
        ({"x": Dim("zz", max=64), "y": Dim("a", max=32)}, ["x <= 64", "y <= 32"]),
    ],
)
def test_bounds_of_exported_dimensions_are_noted_in_the_order_of_the_inputs(dims, notes):
    assert ranges(**dims) == notes


def test_a_graph_that_was_not_exported_has_no_ranges():
    assert build_document(to_graph_module(nn.ReLU())).notes == ()


@pytest.mark.parametrize("meta", ["version 2", 2, [], None])
def test_a_users_model_may_have_anything_in_its_attribute_meta(meta):
    model, plain = nn.Sequential(nn.ReLU()), nn.Sequential(nn.ReLU())
    model.meta = meta

    documents = [build_document(root, graph=to_graph_module(plain).graph) for root in (model, plain)]

    assert encode(documents[0]) == encode(documents[1])
