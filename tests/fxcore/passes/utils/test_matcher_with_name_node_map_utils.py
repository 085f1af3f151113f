from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

import fxcore
from fxcore import interop
from fxcore.passes.utils.matcher_with_name_node_map_utils import SubgraphMatcherWithNameNodeMap


def pattern(x, weight):
    conv = F.conv2d(x, weight)
    relu = F.relu(conv)
    return relu, {"conv": conv, "relu": relu}


def program(x, weight):
    return F.relu(F.conv2d(x, weight)) * 2


@pytest.mark.parametrize("nested", [False, True])
def test_matches_tell_what_the_names_of_the_pattern_stand_for(nested):
    concrete = {"x": fxcore.PH, "weight": fxcore.PH} if nested else None
    matcher = SubgraphMatcherWithNameNodeMap(fxcore.symbolic_trace(pattern, concrete))

    (match,) = matcher.match(fxcore.symbolic_trace(program).graph)

    assert {name: node.name for name, node in match.name_node_map.items()} == {"conv": "conv2d", "relu": "relu"}


def test_the_dict_is_taken_off_the_pattern():
    traced = fxcore.symbolic_trace(pattern)

    SubgraphMatcherWithNameNodeMap(traced)

    assert [node.name for node in traced.graph.output_node().all_input_nodes] == ["relu"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda x: torch.relu(x), "to return a tuple"),
        (lambda x: (torch.relu(x),), "at least two outputs"),
        (lambda x: (torch.relu(x), torch.neg(x)), "a dict output as the last element"),
    ],
)
def test_a_pattern_without_names_is_refused(wrong, message):
    with pytest.raises(AssertionError, match=rf'{message}.*let the pattern end in `return value, \{{"name": value\}}`'):
        SubgraphMatcherWithNameNodeMap(fxcore.symbolic_trace(wrong))


class OfModules(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x, weight):
        return self.function(x, weight)


def test_an_exported_pattern_names_its_nodes_too():
    inputs = torch.ones(1, 2, 4, 4), torch.ones(3, 2, 1, 1)
    traced, graph = (
        interop.from_torch(torch.export.export(OfModules(function), inputs).module()) for function in (pattern, program)
    )
    matcher = SubgraphMatcherWithNameNodeMap(traced)

    (match,) = matcher.match(graph.graph)

    assert {name: node.name for name, node in match.name_node_map.items()} == {"conv": "conv2d", "relu": "relu"}
    (result,) = traced(*inputs)
    assert torch.equal(result, pattern(*inputs)[0])
