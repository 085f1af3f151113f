"""Modules in patterns (pytorch#78201, #139163, #68534): by path as in torch, by class, by configuration."""

from __future__ import annotations

import pytest
import torch
import torch.fx
from torch import nn

import fxcore
from fxcore.matching.matcher import SubgraphMatcher
from fxcore.matching.module_equality import have_same_config


class TwoLayers(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(2, 3), nn.Linear(3, 2)
        self.act = nn.ReLU()

    def forward(self, x):
        return self.act(self.second(self.act(self.first(x))))


class LinearRelu(nn.Module):
    def __init__(self, inputs=2, outputs=3):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)
        self.relu = nn.ReLU()

    def forward(self, x):
        return self.relu(self.linear(x))


class LinearTanh(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 3)

    def forward(self, x):
        return torch.tanh(self.linear(x))


def found(fx, **options):
    return len(fx.replace_pattern(fx.symbolic_trace(TwoLayers()), LinearRelu(), LinearTanh(), **options))


def test_by_default_modules_match_by_path_as_in_torch():
    assert found(torch.fx) == 0
    assert found(fxcore) == 0


@pytest.mark.parametrize(("how", "count"), [("path", 0), ("class", 2), ("config", 1)])
def test_modules_match_by_class_or_configuration_on_request(how, count):
    assert found(fxcore, match_modules=how) == count


def test_the_replacement_calls_the_modules_that_were_matched():
    model, x = TwoLayers(), torch.randn(4, 2)
    traced = fxcore.symbolic_trace(model)

    fxcore.replace_pattern(traced, LinearRelu(), LinearTanh(), match_modules="class")

    assert torch.equal(traced(x), torch.tanh(model.second(torch.tanh(model.first(x)))))
    assert sorted(dict(traced.named_children())) == ["first", "second"]


def test_parameters_below_a_matched_module_are_the_matched_ones():
    class Weighted(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(2, 3)

        def forward(self, x):
            return torch.nn.functional.linear(x, self.linear.weight)

    model, x = TwoLayers(), torch.randn(4, 2)
    traced = fxcore.symbolic_trace(model)

    fxcore.replace_pattern(traced, LinearRelu(), Weighted(), match_modules="config")

    expected = model.act(model.second(torch.nn.functional.linear(x, model.first.weight)))
    assert torch.equal(traced(x), expected)


def test_one_module_of_a_pattern_is_one_module_of_the_graph():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(2, 2)

        def forward(self, x):
            return self.linear(self.linear(x))

    class Pair(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = nn.Linear(2, 2), nn.Linear(2, 2)

        def forward(self, x):
            return self.two(self.one(x))

    def count(model):
        return len(fxcore.replace_pattern(fxcore.symbolic_trace(model), Twice(), nn.Identity(), match_modules="class"))

    assert count(Twice()) == 1
    assert count(Pair()) == 0


def test_an_unknown_way_to_compare_is_refused_with_those_there_are():
    with pytest.raises(AssertionError, match="match_modules='type' is none of 'path', 'class', 'config'"):
        found(fxcore, match_modules="type")


@pytest.mark.parametrize(
    ("expected", "obtained", "is_same"),
    [
        (nn.Linear(2, 3), nn.Linear(2, 3), True),
        (nn.Linear(2, 3), nn.Linear(2, 3, bias=False), False),
        (nn.Linear(2, 3), nn.Linear(2, 4), False),
        (nn.Dropout(0.1), nn.Dropout(0.2), False),
        (nn.Dropout(0.1), nn.AlphaDropout(0.1), False),
        (nn.Conv2d(1, 1, 3, padding=1), nn.Conv2d(1, 1, 3, padding="same"), False),
        (nn.BatchNorm1d(2).eval(), nn.BatchNorm1d(2).train(), True),
        (nn.Sequential(nn.Linear(2, 2)), nn.Sequential(nn.Linear(2, 2)), True),
        (nn.Sequential(nn.Dropout(0.1)), nn.Sequential(nn.Dropout(0.2)), False),
    ],
)
def test_configurations_are_compared_down_to_the_last_module(expected, obtained, is_same):
    assert have_same_config(expected, obtained) is is_same


@pytest.mark.parametrize("how", ["path", "class", "config"])
def test_a_module_under_its_own_path_matches_in_every_way(how):
    traced = fxcore.symbolic_trace(LinearRelu())

    assert len(fxcore.replace_pattern(traced, LinearRelu(), LinearTanh(), match_modules=how)) == 1


def test_a_module_that_its_owner_lacks_is_named():
    pattern = fxcore.symbolic_trace(LinearRelu())
    pattern.delete_submodule("linear")

    with pytest.raises(AssertionError, match="cannot look up 'linear' of node 'linear'"):
        fxcore.replace_pattern(fxcore.symbolic_trace(TwoLayers()), pattern.graph, LinearTanh(), match_modules="class")


def test_an_input_of_the_pattern_may_stand_for_a_constant_beside_modules():
    class Shifted(LinearRelu):
        def forward(self, x, shift=0):
            return self.relu(self.linear(x) + shift)

    class ShiftedByTwo(LinearRelu):
        def forward(self, x):
            return self.relu(self.linear(x) + 2)

    traced = fxcore.symbolic_trace(ShiftedByTwo())

    assert len(fxcore.replace_pattern(traced, Shifted(), lambda x, shift: x, match_modules="class")) == 1


def test_a_module_at_the_end_of_the_pattern_may_be_matched_by_its_name():
    pattern = fxcore.symbolic_trace(LinearRelu()).graph
    graph = fxcore.symbolic_trace(LinearTanh()).graph

    (match,) = SubgraphMatcher(pattern, match_modules="class").match(graph, "tanh")

    assert [str(node) for node in match.nodes_map.values()] == ["tanh", "linear", "x"]


def test_a_graph_that_no_module_owns_has_no_modules_to_compare():
    graph = fxcore.Graph()
    graph.output(graph.create_node("call_module", "linear", (graph.placeholder("x"),)))

    with pytest.raises(AssertionError, match=r"cannot look up 'linear' of node 'linear': .* owning_module"):
        fxcore.replace_pattern(fxcore.symbolic_trace(TwoLayers()), graph, LinearTanh(), match_modules="class")
