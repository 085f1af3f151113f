from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.export import Dim, export

from pytest_fxgraph.captures.subjects import to_graph_module
from pytest_fxgraph.document.builder import build_document
from pytest_fxgraph.document.encoding import encode
from pytest_fxgraph.document.exported_ranges import RANGES, bounds_as_numbers, range_notes
from pytest_fxgraph.document.model import RANGE_NOTE, NodeRecord


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


def bounds(lower, upper):
    return SimpleNamespace(lower=lower, upper=upper)


@pytest.mark.parametrize(
    ("symbol", "lower", "upper", "note"),
    [
        ("s0", 2, math.inf, None),
        ("s0", 3, math.inf, "3 <= s0"),
        ("s0", 0, 64, "s0 <= 64"),
        ("s0", 3, 64, "3 <= s0 <= 64"),
        ("s0", -math.inf, 2**62, None),
        ("s0", 2, 2**62 - 1, f"s0 <= {2**62 - 1}"),
        ("u0", 0, math.inf, "0 <= u0"),
        ("u0", -(2**62), "oo", None),
        ("u0", 1 - 2**62, "oo", f"{1 - 2**62} <= u0"),
    ],
)
def test_a_bound_is_noted_where_not_every_size_has_it(symbol, lower, upper, note):
    module = SimpleNamespace(meta={RANGES: {symbol: bounds(lower, upper)}})

    assert range_notes(module, []) == (() if note is None else (RANGE_NOTE + note,))


def test_symbols_are_noted_in_the_order_of_the_values_and_others_last():
    ranges = {name: bounds(2, number) for number, name in enumerate(("gone", "s1", "s10", "s0"), start=5)}
    values = ["float32[s10, 2]", None, "float32[s0, s1]"]
    nodes = [NodeRecord(str(place), "placeholder", "x", value=value) for place, value in enumerate(values)]

    notes = range_notes(SimpleNamespace(meta={RANGES: ranges}), nodes)

    assert [note.split()[1] for note in notes] == ["s10", "s0", "s1", "gone"]


def test_bounds_are_numbers_or_none():
    assert bounds_as_numbers(bounds(2, math.inf)) == (2, None)


def test_the_inputs_of_an_exported_graph_tell_the_ranges():
    dims = {"x": {0: Dim("a", min=4, max=64)}, "y": None}
    gm = export(Both(), (torch.ones(8, 2), torch.ones(6)), dynamic_shapes=dims).module()
    for node in gm.graph.nodes:
        if node.op != "placeholder":
            node.meta.pop("val", None)

    notes = [note for note in build_document(to_graph_module(gm)).notes if note.startswith(RANGE_NOTE)]

    assert [note.split()[1::2] for note in notes] == [["4", "s" + notes[0].split(" s")[1].split()[0], "64"]]
