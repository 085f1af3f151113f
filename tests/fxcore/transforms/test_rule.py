"""A rule holds its pattern, its replacement and its name, and refuses what cannot be searched or replaced."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import fxcore
from fxcore.errors import GraphArgumentError, PassArgumentError
from fxcore.transforms import Action, Calls, Rule, RuleSet


def half(x):
    return x * 0.5


def test_a_rule_is_named_after_its_functions():
    assert Rule(half, lambda x: x / 2).name == "half"
    assert Rule(lambda x: x / 2, half).name == "half"
    assert Rule(lambda x: x / 2, half, name="own").name == "own"
    assert repr(RuleSet([Rule(half, half), Rule(lambda x: x + 1, lambda x: 1 + x)])) == "RuleSet(half, rule 1)"


def test_graphs_and_modules_are_patterns_too():
    graph = fxcore.symbolic_trace(half).graph
    rule = Rule(graph, fxcore.symbolic_trace(lambda x: x / 2))

    made = RuleSet([rule])(fxcore.symbolic_trace(lambda x: torch.exp(x * 0.5))).graph_module

    assert "truediv" in made.code


def test_calls_without_a_target_are_refused():
    with pytest.raises(PassArgumentError, match=r"Calls\(\) matches no call; name functions, methods or classes"):
        Calls()


def test_an_action_for_several_results_is_refused():
    with pytest.raises(GraphArgumentError, match="returns 2 values, and an Action replaces one"):
        Rule(lambda x: (torch.sin(x), torch.cos(x)), Action(lambda match: match.node), name="both")


def test_a_pattern_without_an_operation_is_refused():
    with pytest.raises(GraphArgumentError, match="the pattern has no operation"):
        Rule(lambda x: x, lambda x: x + 0)


def test_the_paths_of_modules_matched_by_class_mean_the_matched_modules():
    pattern = nn.Sequential(nn.Linear(1, 1), nn.ReLU())
    gm = fxcore.symbolic_trace(nn.Sequential(nn.Linear(4, 4), nn.ReLU()))
    found = []
    rule = Rule(
        fxcore.symbolic_trace(pattern),
        fxcore.symbolic_trace(nn.Sequential(pattern[0])),
        when=lambda match: found.append(match.module) or True,
        match_modules="class",
    )

    made = RuleSet([rule])(gm).graph_module

    assert found == [gm.get_submodule("1")]
    assert "0.weight" in made.state_dict()
    assert made.state_dict()["0.weight"].shape == (4, 4)
