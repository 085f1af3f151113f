from __future__ import annotations

import copy
import random
from collections import OrderedDict

import pytest
import torch
import torch.fx
from torch.fx.passes.utils.matcher_utils import SubgraphMatcher as TorchMatcher

import fxcore
from fixtures.random_calls import part_of, random_module
from fxcore.matching.matcher import SubgraphMatcher


def maps(fx, matcher_class, pattern, program, **options):
    matcher = matcher_class(fx.symbolic_trace(pattern).graph, **options)
    matches = matcher.match(fx.symbolic_trace(program).graph)
    return [
        (
            [node.name for node in match.anchors],
            {ours.name: str(node) for ours, node in match.nodes_map.items()},
            [str(node) for node in match.placeholder_nodes],
            [node.name for node in match.returning_nodes],
        )
        for match in matches
    ]


def attention(x, a, b, c):
    return torch.matmul(x, a) + torch.matmul(x, b) + torch.matmul(x, c)


CASES = {
    "each": (lambda x, w: torch.matmul(x, w), {}),
    "overlapping": (lambda x, w, y: torch.matmul(x, w) + y, {"remove_overlapping_matches": False}),
    "pairs": (lambda x, v, w: (torch.matmul(x, v), torch.matmul(x, w)), {}),
    "overlapping pairs": (
        lambda x, v, w: (torch.matmul(x, v), torch.matmul(x, w)),
        {"remove_overlapping_matches": False},
    ),
    "outputs": (lambda x, y: x + y, {"match_output": True}),
    "all of it": (attention, {"match_output": True, "match_placeholder": True}),
}


@pytest.mark.parametrize("name", CASES)
def test_matches_and_their_order_are_those_of_torch(name):
    pattern, options = CASES[name]

    theirs = maps(torch.fx, TorchMatcher, pattern, attention, **options)
    ours = maps(fxcore, SubgraphMatcher, pattern, attention, **options)

    assert ours == theirs
    assert ours


def test_an_effect_in_the_pattern_must_be_there_too():
    def pattern(x):
        torch._assert(x, "positive")
        return torch.relu(x)

    with pytest.raises(KeyError):
        torch.fx.replace_pattern(torch.fx.symbolic_trace(pattern), pattern, lambda x: torch.neg(x))
    traced = fxcore.symbolic_trace(pattern)
    assert len(fxcore.replace_pattern(traced, pattern, lambda x: torch.neg(x))) == 1
    assert [node.name for node in traced.graph.nodes] == ["x", "neg", "output"]
    assert len(fxcore.replace_pattern(fxcore.symbolic_trace(lambda x: torch.relu(x)), pattern, lambda x: x)) == 0


def test_a_parameter_that_the_pattern_does_not_use_stands_for_nothing():
    def program(x):
        return torch.relu(x)

    def pattern(x, y):
        return torch.relu(x)

    with pytest.raises(KeyError):
        torch.fx.replace_pattern(torch.fx.symbolic_trace(program), pattern, lambda x, y: torch.neg(x))
    traced = fxcore.symbolic_trace(program)
    fxcore.replace_pattern(traced, pattern, lambda x, y: torch.neg(x))
    assert "torch.neg(x)" in traced.code
    with pytest.raises(AssertionError, match="uses its parameter 'y', but the pattern's, 'y', stands for nothing"):
        fxcore.replace_pattern(traced, lambda x, y: torch.neg(x), lambda x, y: torch.neg(y))


def test_subclasses_may_compare_nodes_otherwise():
    class Loose(SubgraphMatcher):
        def _nodes_are_equal(self, pn, gn, node_name_match=""):
            return super()._nodes_are_equal(pn, gn, node_name_match) or (pn.target, gn.target) == (
                torch.relu,
                torch.neg,
            )

    pattern = fxcore.symbolic_trace(lambda x: torch.sigmoid(torch.relu(x))).graph
    graph = fxcore.symbolic_trace(lambda x: torch.sigmoid(torch.neg(x))).graph

    assert len(SubgraphMatcher(pattern).match(graph)) == 0
    assert len(Loose(pattern).match(graph)) == 1


def test_attributes_match_by_kind_as_in_torch():
    class Weighted(torch.nn.Module):
        def __init__(self, weight):
            super().__init__()
            self.weight = weight

        def forward(self, x):
            return x * self.weight

    def found(expected, obtained):
        pattern, traced = fxcore.symbolic_trace(Weighted(expected)), fxcore.symbolic_trace(Weighted(obtained))
        return len(SubgraphMatcher(pattern.graph).match(traced.graph))

    parameter = torch.nn.Parameter(torch.ones(2))
    assert found(parameter, torch.nn.Parameter(torch.zeros(3))) == 1
    assert found(parameter, torch.zeros(2)) == 0


def test_an_empty_pattern_is_refused():
    with pytest.raises(ValueError, match="SubgraphMatcher cannot be initialized with an empty pattern"):
        SubgraphMatcher(fxcore.Graph())


def test_dead_code_in_a_pattern_is_refused_by_name():
    def pattern(x):
        torch.neg(x)
        return torch.relu(x)

    with pytest.raises(AssertionError, match=r"pattern with dead code: 'neg' \(call_function\) has no users"):
        SubgraphMatcher(fxcore.symbolic_trace(pattern).graph)


def test_a_rare_operator_below_a_common_one_is_found_by_going_down_from_it():
    def program(x):
        for step in range(200):
            x = torch.relu(torch.exp(x) if step == 150 else torch.neg(x))
        return x

    compared: list[str] = []

    class Counting(SubgraphMatcher):
        def has_usual_equality(self):
            return True

        def _nodes_are_equal(self, pn, gn, node_name_match=""):
            compared.append(gn.name)
            return super()._nodes_are_equal(pn, gn, node_name_match)

    matcher = Counting(fxcore.symbolic_trace(lambda x: torch.relu(torch.exp(x))).graph)

    assert len(matcher.match(fxcore.symbolic_trace(program).graph)) == 1
    assert len(compared) < 10


class Reference(SubgraphMatcher):
    """Asks of a match, in the slowest way, what it must fulfil; and so looks nothing up in an index."""

    def _nodes_are_equal(self, pn, gn, node_name_match=""):
        return super()._nodes_are_equal(pn, gn, node_name_match)

    def _is_contained(self, nodes_map):
        inside = {node for ours, node in nodes_map.items() if ours.op != "placeholder"}
        return all(
            inside.issuperset(node.users) or ours in self.pattern_returning_nodes
            for ours, node in nodes_map.items()
            if ours.op != "placeholder"
        )


def places(matcher, graph):
    return [
        ({ours.name: str(node) for ours, node in match.nodes_map.items()}, match.placeholder_nodes, match.anchors[0])
        for match in matcher.match(graph)
    ]


@pytest.mark.parametrize("overlapping", [False, True])
@pytest.mark.parametrize("ignore_literals", [False, True])
@pytest.mark.parametrize("seed", range(40))
def test_matches_found_by_the_index_are_those_of_a_look_at_every_node(seed, ignore_literals, overlapping):
    chooser = random.Random(seed)
    graph = random_module(chooser, 25).graph
    found = 0
    for _ in range(4):
        pattern = part_of(chooser, graph)
        options = {"ignore_literals": ignore_literals, "remove_overlapping_matches": not overlapping}

        expected = places(Reference(pattern, **options), graph)

        assert places(SubgraphMatcher(pattern, **options), graph) == expected
        found += len(expected)
    assert found or not overlapping


def test_literals_count_unless_the_caller_ignores_them():
    def of(number):
        return lambda x: torch.add(x, number)

    assert maps(fxcore, SubgraphMatcher, of(1), of(1))
    assert not maps(fxcore, SubgraphMatcher, of(1), of(2))
    assert maps(fxcore, SubgraphMatcher, of(1), of(2), ignore_literals=True)


def test_a_copy_of_a_match_may_be_changed_alone():
    graph = fxcore.symbolic_trace(lambda x: torch.relu(x)).graph
    (match,) = SubgraphMatcher(graph).match(fxcore.symbolic_trace(lambda x: torch.relu(x)).graph)

    copied = copy.copy(match)
    copied.nodes_map.clear()
    copied.placeholder_nodes.clear()
    copied.returning_nodes.clear()

    assert match.anchors == copied.anchors
    assert [len(part) for part in (match.nodes_map, match.placeholder_nodes, match.returning_nodes)] == [2, 1, 1]


def test_a_match_may_be_asked_for_at_one_node():
    matcher = SubgraphMatcher(fxcore.symbolic_trace(lambda x: torch.relu(torch.neg(x))).graph)
    graph = fxcore.symbolic_trace(lambda x: (torch.relu(torch.neg(x)), torch.relu(torch.exp(x)))).graph
    nodes = {node.name: node for node in graph.nodes}

    found = {name: matcher.match_at(graph, node) for name, node in nodes.items()}

    assert [name for name, match in found.items() if match is not None] == ["relu"]
    assert [str(node) for node in found["relu"].nodes_map.values()] == ["relu", "neg", "x"]


def test_an_input_may_stand_for_the_same_constant_below_two_anchors():
    def pattern(x, y, n):
        return torch.add(x, n), torch.mul(y, n)

    def count(program):
        return len(maps(fxcore, SubgraphMatcher, pattern, program))

    assert count(lambda x, y: (torch.add(x, 2), torch.mul(y, 2))) == 1
    assert count(lambda x, y: (torch.add(x, 2), torch.mul(y, 3))) == 0
    assert count(lambda x, y: (torch.add(x, 2), torch.mul(y, 3), torch.mul(y, 2))) == 1


@pytest.mark.parametrize("fx", [torch.fx, fxcore], ids=["torch.fx", "fxcore"])
def test_a_value_that_leaves_a_pattern_of_one_anchor_and_comes_back_is_no_match(fx):
    def pattern(x, y):
        inner = torch.relu(x)
        return inner, torch.add(inner, y)

    def around(x):
        inner = torch.relu(x)
        return torch.add(inner, torch.exp(inner))

    traced = fx.symbolic_trace(around)
    matcher = (SubgraphMatcher if fx is fxcore else TorchMatcher)(fx.symbolic_trace(pattern).graph)

    assert matcher.match(traced.graph) == []


def count(pattern, program, name="", kind=SubgraphMatcher, **options):
    return len(kind(fxcore.symbolic_trace(pattern).graph, **options).match(fxcore.symbolic_trace(program).graph, name))


def named(**modules):
    return torch.nn.Sequential(OrderedDict(modules))


@pytest.mark.parametrize(
    ("option", "pattern", "program", "counts"),
    [
        ({"match_output": True}, torch.nn.ReLU(), lambda x: torch.neg(torch.relu(x)), (0, 0)),
        ({"match_output": True}, lambda x: torch.relu(x), lambda x: torch.neg(torch.relu(x)), (1, 0)),
        ({"match_placeholder": True}, lambda x: torch.relu(x), lambda x: torch.relu(torch.neg(x)), (1, 0)),
        (
            {"remove_overlapping_matches": False},
            lambda x: (x.neg(), x.exp()),
            lambda x: (x.neg(), x.exp(), x.exp()),
            (1, 2),
        ),
        ({"ignore_literals": True}, lambda x: x + 1, lambda x: x + 2, (0, 1)),
        ({"match_modules": "class"}, named(act=torch.nn.ReLU()), named(other=torch.nn.ReLU()), (0, 1)),
        ({"bind_arguments": True}, lambda x: torch.sum(x, 1), lambda x: torch.sum(x, dim=1), (0, 1)),
    ],
)
def test_each_option_is_off_unless_it_is_given(option, pattern, program, counts):
    assert (count(pattern, program), count(pattern, program, **option)) == counts


def test_a_name_stands_for_the_last_operation_and_for_no_other():
    def program(x):
        return torch.relu(torch.exp(x)), torch.exp(torch.relu(x))

    assert count(lambda x: torch.neg(x), program, "relu") == 2
    assert count(lambda x: torch.neg(torch.exp(x)), program, "relu") == 1
    assert count(lambda x: torch.neg(torch.exp(x)), program, "sigmoid") == 0
    assert count(lambda x: torch.relu(torch.neg(x)), program, "relu") == 0


def test_methods_match_by_name():
    assert count(lambda x: x.relu(), lambda x: x.exp()) == 0
    assert count(lambda x: x.relu(), lambda x: x.relu().relu()) == 2


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (lambda x: (torch.relu(x), torch.cat([x, x])), 1),
        (lambda x: (r := torch.relu(x), torch.cat([x, r])), 0),
        (lambda x: (r := torch.relu(x), torch.cat([r])), 0),
    ],
)
def test_a_list_for_an_input_may_hold_inputs_and_no_value_of_the_match(program, expected):
    assert count(lambda x, ys: (torch.relu(x), torch.cat(ys)), program) == expected


def test_a_subclass_that_takes_any_readers_takes_no_cycle():
    class Takes(SubgraphMatcher):
        def _is_contained(self, nodes_map):
            return True

    def cycle(x):
        inner = torch.neg(x)
        return inner + torch.exp(inner)

    def read_outside(x, y):
        inner = torch.neg(x)
        return inner + y, torch.exp(inner)

    assert count(lambda x, y: torch.neg(x) + y, cycle, kind=Takes) == 0
    assert count(lambda x, y: torch.neg(x) + y, read_outside, kind=Takes) == 1
