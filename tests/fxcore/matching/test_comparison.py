"""Parameters of patterns inside slices and lists, how far up patterns go, and how a mapping grows."""

from __future__ import annotations

import pytest
import torch
import torch.fx

import fxcore
from fxcore.matching.argument_pairing import pair_as_written
from fxcore.matching.comparison import PartialMatch, are_same_constants, is_convex, nodes_in, pair_parts
from fxcore.matching.matcher import SubgraphMatcher


def nodes_of(program):
    return {node.name: node for node in fxcore.symbolic_trace(program).graph.nodes}


def program(x):
    a = torch.relu(x)
    b = torch.neg(a)
    c = torch.sigmoid(b)
    return a + c


def test_a_set_that_a_value_leaves_and_comes_back_to_is_not_convex():
    nodes = nodes_of(program)

    assert not is_convex([nodes["relu"], nodes["add"]])
    assert not is_convex([nodes["relu"], nodes["sigmoid"]])


def test_a_set_with_everything_in_between_is_convex():
    nodes = nodes_of(program)

    assert is_convex([nodes["relu"], nodes["neg"], nodes["sigmoid"], nodes["add"]])
    assert is_convex([nodes["neg"], nodes["sigmoid"]])
    assert is_convex([nodes["relu"]])
    assert is_convex([])


def test_values_that_leave_for_good_do_no_harm():
    nodes = nodes_of(lambda x: (torch.relu(x), torch.neg(torch.relu(x))))

    assert is_convex([nodes["relu"], nodes["neg"]])


def test_a_reader_between_that_leads_nowhere_back_does_no_harm():
    def with_reader(x):
        a = torch.relu(x)
        aside = torch.tanh(torch.exp(a))
        return torch.neg(a), aside

    nodes = nodes_of(with_reader)

    assert list(nodes) == ["x", "relu", "exp", "tanh", "neg", "output"]
    assert is_convex([nodes["relu"], nodes["neg"]])
    assert not is_convex([nodes["relu"], nodes["tanh"]])


def matches(fx, program, pattern, replacement):
    traced = fx.symbolic_trace(program)
    found = fx.replace_pattern(traced, pattern, replacement)
    traced.graph.lint()
    return traced, len(found)


@pytest.mark.parametrize("stop", ["a constant", "a value"])
def test_a_parameter_in_a_slice_stands_for_what_is_there(stop):
    """Literals in patterns (pytorch#78201, #139163, #68534): torch.fx compares slices as a whole."""
    program = (lambda x, n: x[0:2] + n) if stop == "a constant" else (lambda x, n: x[0:n] + n)

    def pattern(x, i):
        return x[0:i]

    def replacement(x, i):
        return torch.narrow(x, 0, 0, i)

    traced, found = matches(fxcore, program, pattern, replacement)

    assert matches(torch.fx, program, pattern, replacement)[1] == 0
    assert found == 1
    assert torch.equal(traced(torch.arange(5), 2), torch.tensor([2, 3]))


def test_a_parameter_in_a_list_stands_for_what_is_there_each_time():
    def program(x):
        return torch.nn.functional.pad(x, pad=[1, 1]) + 1

    def pattern(x, p):
        return torch.nn.functional.pad(x, pad=[p, p])

    traced, found = matches(fxcore, program, pattern, lambda x, p: torch.mul(x, p))

    assert found == 1
    assert traced(torch.tensor([3.0])).tolist() == [4.0]


def test_two_parameters_do_not_stand_for_one_value_as_in_torch():
    program, pattern, replacement = (lambda x: x * x, lambda a, b: a * b, lambda a, b: a + b)

    assert matches(torch.fx, program, pattern, replacement)[1] == 0
    assert matches(fxcore, program, pattern, replacement)[1] == 0


@pytest.mark.slow
def test_a_pattern_deeper_than_pythons_stack_is_found():
    """torch.fx, which goes up by recursion, raises RecursionError here, after some seconds."""

    def deep(x):
        for _ in range(1100):
            x = torch.neg(x)
        return x

    traced, found = matches(fxcore, deep, deep, lambda x: x + 0)
    assert found == 1
    assert len(traced.graph.nodes) == 3


def test_a_list_that_holds_what_would_be_replaced_is_no_input():
    def program(x):
        a = torch.relu(x)
        return torch.cat([a, x]) + a

    def pattern(items, x):
        return torch.cat(items) + torch.relu(x)

    traced, found = matches(fxcore, program, pattern, lambda items, x: torch.stack(items))

    assert found == 0
    assert torch.equal(traced(torch.ones(1)), program(torch.ones(1)))


def anchors_and_match(pattern):
    matcher = SubgraphMatcher(fxcore.symbolic_trace(pattern).graph)
    return matcher.pattern_anchors, PartialMatch(matcher._nodes_are_equal, pair_as_written, ignores_literals=False)


def test_nothing_is_mapped_where_something_differs():
    (anchor,), found = anchors_and_match(lambda x: torch.relu(torch.add(x, 1)))

    assert not found.extend(anchor, nodes_of(lambda x: torch.relu(torch.add(x, 2)))["relu"])
    assert not found.extend(anchor, nodes_of(lambda x: torch.relu(torch.sub(x, 1)))["relu"])
    assert found.nodes_map == {}
    assert found.operations() == []


def test_a_mapping_goes_up_from_each_anchor_with_first_arguments_first():
    (anchor,), found = anchors_and_match(lambda x, y: torch.cat([torch.relu(x), torch.add(y, 1), x], 0))

    assert found.extend(anchor, nodes_of(lambda x, y: torch.cat([torch.relu(x), torch.add(y, 1), x], 0))["cat"])
    assert [node.name for node in found.nodes_map] == ["cat", "relu", "x", "add", "y"]


def test_what_was_mapped_can_be_cut_back():
    (first, second), found = anchors_and_match(lambda x: (torch.relu(x), torch.neg(x)))
    nodes = nodes_of(lambda x: (torch.relu(x), torch.neg(x)))
    x, relu, neg = nodes["x"], nodes["relu"], nodes["neg"]

    assert found.extend(first, relu)
    assert found.extend(second, neg)
    assert list(found.nodes_map.values()) == [relu, x, neg]
    found.cut_back(2)

    assert found.operations() == [relu]
    assert second not in found.nodes_map
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


@pytest.mark.parametrize(("obtained", "count"), [([1, 2], 1), ([3, 4], 1), ([1, 2, 3], 0), (5, 1)])
def test_ignored_literals_are_any_constant_but_a_list_of_another_length(obtained, count):
    def graph_with(argument):
        graph = fxcore.Graph()
        graph.output(graph.call_function(torch.permute, (graph.placeholder("x"), argument)))
        return graph

    matcher = SubgraphMatcher(graph_with([1, 2]), ignore_literals=True)

    assert len(matcher.match(graph_with(obtained))) == count


def test_parts_are_paired_where_both_containers_have_one_form():
    assert pair_parts({"a": 1, "b": 2}, {"b": 4, "a": 3}) == [(1, 3), (2, 4)]
    assert pair_parts({"a": 1}, {"b": 1}) is None
    assert pair_parts([1, 2], (3, 4)) == [(1, 3), (2, 4)]
    assert pair_parts([1, 2], [3]) is None
    assert pair_parts(slice(1, 2), slice(3, 4, 5)) == [(1, 3), (2, 4), (None, 5)]
    assert pair_parts(1, [1]) is None
    assert pair_parts([1], 1) is None
    assert pair_parts(slice(1, 2), "ab") is None
    assert pair_parts({"a": 1}, "a") is None
    assert pair_parts(torch.float32, slice(1)) is None


@pytest.mark.parametrize(
    ("expected", "obtained", "is_same", "is_same_ignored"),
    [
        (1.5, float("1.5"), True, True),
        (1.5, 2.5, False, True),
        (1, "a", False, True),
        ([1], [1], True, True),
        ([1], [2], False, False),
        ((1,), [1, 2], False, False),
        ({"a": 1}, {"b": 1}, False, False),
        (slice(1), slice(2), False, False),
        ([1], 2, False, True),
    ],
)
def test_constants_are_the_same_if_equal_or_ignored(expected, obtained, is_same, is_same_ignored):
    assert are_same_constants(expected, obtained, ignores_literals=False) is is_same
    assert are_same_constants(expected, obtained, ignores_literals=True) is is_same_ignored


def test_a_value_is_no_constant_even_where_constants_are_ignored():
    x = fxcore.Graph().placeholder("x")

    assert not are_same_constants(1, [x], ignores_literals=True)
    assert not are_same_constants([x], 1, ignores_literals=True)
    assert nodes_in([x, {"a": (x, 1)}]) == [x, x]


def test_an_input_that_stands_for_a_value_or_a_constant_stands_for_it_everywhere():
    def pattern(x, y):
        return torch.add(torch.mul(x, y), y)

    def count(program):
        return matches(fxcore, program, pattern, lambda x, y: torch.sub(x, y))[1]

    assert count(lambda x, y: torch.add(torch.mul(x, y), y)) == 1
    assert count(lambda x, y: torch.add(torch.mul(x, y), x)) == 0
    assert count(lambda x, y: torch.add(torch.mul(x, 1.5), float("1.5"))) == 1
    assert count(lambda x, y: torch.add(torch.mul(x, 1.5), 2.5)) == 0
    assert count(lambda x, y: torch.add(torch.mul(x, 1.5), y)) == 0
    assert count(lambda x, y: torch.add(torch.mul(x, y), 1.5)) == 0
