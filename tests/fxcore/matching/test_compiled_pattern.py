""""""

from __future__ import annotations

import random

import pytest
import torch

import fxcore
from fixtures.random_calls import part_of, random_module
from fxcore.matching.compiled_pattern import CONSTANT, INPUT, KNOWN, OPERATION, SEQUENCE, QuickCorrespondence
from fxcore.matching.matcher import SubgraphMatcher


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


class GeneralMatcher(SubgraphMatcher):
    """Overrides what is equal, so that nothing is laid out in steps."""

    def _nodes_are_equal(self, pn, gn, node_name_match=""):
        return super()._nodes_are_equal(pn, gn, node_name_match)


def places(matcher, graph):
    return [
        (
            [(ours.name, str(theirs)) for ours, theirs in match.nodes_map.items()],
            match.placeholder_nodes,
            match.returning_nodes,
            match.anchors,
        )
        for match in matcher.match(graph)
    ]


@pytest.mark.parametrize("overlapping", [False, True])
@pytest.mark.parametrize("ignore_literals", [False, True])
@pytest.mark.parametrize("seed", range(40))
def test_matches_are_those_of_the_general_way(seed, ignore_literals, overlapping):
    chooser = random.Random(seed)
    graph = random_module(chooser, 25).graph
    found = 0
    for _ in range(4):
        pattern = part_of(chooser, graph)
        options = {"ignore_literals": ignore_literals, "remove_overlapping_matches": not overlapping}

        quick, general = SubgraphMatcher(pattern, **options), GeneralMatcher(pattern, **options)

        assert quick.compiled is not None
        assert general.compiled is None
        assert places(quick, graph) == places(general, graph)
        found += len(places(quick, graph))
    assert found or not overlapping


def quick_of(pattern):
    matcher = SubgraphMatcher(fxcore.symbolic_trace(pattern).graph)
    return matcher, QuickCorrespondence(matcher.compiled, matcher.pattern_returning_nodes, set(), False)


def test_nothing_is_taken_in_where_something_differs():
    matcher, found = quick_of(lambda x: torch.relu(torch.add(x, 1)))
    graph = fxcore.symbolic_trace(lambda x: torch.relu(torch.add(x, 2))).graph
    relu = next(node for node in graph.nodes if node.name == "relu")

    assert not found.extend(matcher.pattern_anchors[0], relu)
    assert len(found) == 0
    assert found.as_map() == {}


def test_what_was_taken_in_can_be_cut_back():
    matcher, found = quick_of(lambda x: (torch.relu(x), torch.neg(x)))
    graph = fxcore.symbolic_trace(lambda x: (torch.relu(x), torch.neg(x))).graph
    x, relu, neg, _ = graph.nodes
    first, second = matcher.pattern_anchors

    assert found.extend(first, relu)
    assert found.extend(second, neg)
    assert list(found.as_map().values()) == [relu, x, neg]
    found.cut_back(2)

    assert found.compute_nodes() == [relu]
    assert found.get(second) is None
    assert found.extend(second, neg)


def test_overloads_that_are_written_in_another_way_are_found_by_their_schema():
    aten = torch.ops.aten.add.Tensor
    pattern, graph = fxcore.Graph(), fxcore.Graph()
    a, b = pattern.placeholder("a"), pattern.placeholder("b")
    pattern.output(pattern.call_function(aten, (a, b)))
    x, y = graph.placeholder("x"), graph.placeholder("y")
    graph.output(graph.call_function(aten, (x,), {"other": y, "alpha": 1}))

    assert len(SubgraphMatcher(pattern).match(graph)) == 1


def test_a_list_that_stands_for_an_input_must_not_hold_what_is_matched():
    graph = fxcore.Graph()
    x = graph.placeholder("x")
    relu = graph.call_function(torch.relu, (x,))
    graph.output(graph.call_function(torch.cat, ([relu, x], relu)))

    pattern = fxcore.symbolic_trace(lambda parts, x: torch.cat(parts, torch.relu(x))).graph

    assert SubgraphMatcher(pattern).match(graph) == []
