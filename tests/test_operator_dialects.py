from __future__ import annotations

import operator

import pytest
import torch

from pytest_fxgraph.operator_dialects import could_be_found, dialect_of_name, operator_names


def test_an_operator_has_a_name_with_and_without_its_overload():
    assert operator_names(torch.ops.aten.add.Tensor) == ("aten.add.Tensor", "aten.add")
    assert operator_names(torch.ops.aten.add) == ("aten.add",)


@pytest.mark.parametrize("target", [operator.add, torch.relu, "relu"])
def test_a_function_or_method_is_no_operator(target):
    assert operator_names(target) == ()


@pytest.mark.parametrize(
    ("name", "dialect"),
    [
        ("aten.add.Tensor", "aten"),
        ("edge.aten.add", "edge"),
        ("torch.relu", "torch"),
        ("relu", "torch"),
        ("math.floor", "python"),
        ("operator.add", "python"),
        ("operator.getitem", ""),
        ("torch.sym_max", ""),
        ("torch._check", ""),
    ],
)
def test_a_name_belongs_to_a_dialect_or_to_all(name, dialect):
    assert dialect_of_name(name) == dialect


@pytest.mark.parametrize(
    ("asked", "spoken", "is_possible"),
    [
        ({"aten"}, {"aten"}, True),
        ({"aten"}, {"torch"}, False),
        ({"torch"}, {"aten"}, False),
        ({"prims"}, {"aten"}, True),
        ({"edge"}, {"aten"}, False),
        ({"aten"}, {"edge"}, True),
        ({"backend"}, {"edge"}, True),
        ({"edge"}, {"torch"}, False),
        ({"torch"}, {"edge"}, False),
        ({"aten"}, {"torch", "aten"}, True),
        ({"edge"}, {"torch", "aten"}, False),
        ({"aten"}, set(), True),  # a graph without calls
        ({"aten"}, {"mylib"}, True),
        ({"aten"}, {"python"}, False),
        ({"torch"}, {"python"}, True),
        ({"mylib"}, {"torch"}, True),  # a library's operator has one name for all
        ({"mylib", "aten"}, {"torch"}, True),
    ],
)
def test_a_graph_of_one_dialect_calls_no_operator_of_another(asked, spoken, is_possible):
    assert could_be_found(asked, spoken) is is_possible
