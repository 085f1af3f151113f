from __future__ import annotations

import torch

import fxcore
from fxcore.compiled_pattern import CONSTANT, INPUT, KNOWN, OPERATION, SEQUENCE
from fxcore.matcher import SubgraphMatcher


def compiled(pattern, **options):
    return SubgraphMatcher(fxcore.symbolic_trace(pattern).graph, **options).compiled


def test_steps_go_upwards_from_the_left():
    pattern = compiled(lambda x, y: torch.cat([torch.relu(x), torch.add(y, 1), x], 0))

    assert [node.name for node in pattern.order] == ["cat", "relu", "x", "add", "y"]
    assert [step.kind for step in pattern.climbs[0].steps] == [
        *(SEQUENCE, OPERATION, INPUT, OPERATION, INPUT, CONSTANT, KNOWN, CONSTANT),
    ]


def test_a_further_last_node_goes_on_from_what_is_known():
    pattern = compiled(lambda x: (torch.relu(x), torch.neg(x)))

    assert [climb.sink.target for climb in pattern.climbs] == [torch.relu, torch.neg]
    assert [climb.nodes_before for climb in pattern.climbs] == [0, 2]
    assert [step.kind for step in pattern.climbs[1].steps] == [KNOWN]


def test_patterns_that_are_compared_in_other_ways_are_not_laid_out():
    def pattern(x):
        return torch.relu(x)

    class Own(SubgraphMatcher):
        def _is_contained(self, nodes_map):
            return True

    assert compiled(pattern) is not None
    assert compiled(pattern, bind_arguments=True) is None
    assert compiled(pattern, match_output=True) is None
    assert compiled(pattern, match_placeholder=True) is None
    assert Own(fxcore.symbolic_trace(pattern).graph).compiled is None
