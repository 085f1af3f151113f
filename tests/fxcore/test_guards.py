"""Guards as text, and as a graph that computes what they are about."""

from __future__ import annotations

import operator

import pytest
import torch

from fxcore import Graph, symbolic_trace
from fxcore.guards import Guard, Guards, condition_text, copied_slice, expression_of, is_same, negated, refusal


@pytest.mark.parametrize(
    ("expression", "opposite"),
    [
        ("x > 2", "x <= 2"),
        ("x.shape[0] == 3", "x.shape[0] != 3"),
        ("(x > 2) == (y > 2)", "(x > 2) != (y > 2)"),
        ("x.is_cuda", "not x.is_cuda"),
        ("x & y", "not (x & y)"),
    ],
)
def test_the_opposite_of_a_condition_is_written_as_one_writes_it(expression, opposite):
    assert negated(expression) == opposite


@pytest.mark.parametrize(
    ("value", "text"), [(True, "x > 2"), (False, "x <= 2"), (None, "x > 2 is None"), (16, "x > 2 == 16")]
)
def test_a_value_is_asked_for_in_python(value, text):
    assert condition_text("x > 2", value) == text


def test_values_in_between_are_written_out():
    graph = Graph()
    x = graph.placeholder("x")
    shape = graph.call_function(getattr, (x, "shape"))
    size = graph.call_function(operator.getitem, (shape, slice(1, None)))
    total = graph.call_function(operator.add, (size, (2,)))
    rest = graph.call_function(operator.mul, (total, 2))

    assert expression_of(rest, lambda node: True) == "(x.shape[1:] + (2,)) * 2"
    assert expression_of(rest, lambda node: node is rest) == "add(...) * 2"


def test_a_slice_of_a_graph_has_all_inputs_and_nothing_that_is_not_needed():
    graph = Graph()
    x, _ = graph.placeholder("x"), graph.placeholder("y")
    needed = graph.call_method("sum", (x,))
    graph.output(graph.call_method("mean", (x,)))

    copied = copied_slice(graph, [needed])

    assert [node.name for node in copied.nodes] == ["x", "y", "sum_1", "output"]
    copied.lint()


def test_a_refusal_tells_the_guard_its_place_the_found_value_and_the_cure():
    asked = {"file": "model.py", "line": 7, "source": "if b == 2:"}
    guards = Guards([Guard("a == 1", "a", 1), Guard("b == 2", "b", 2, **asked)])

    assert refusal(guards, 1, 3, "Model", "x: 0, 1").splitlines() == [
        "the graph of Model does not hold for these inputs, which break guard 2 of 2:",
        "  b == 2: it is 3; asked at model.py:7: if b == 2:",
        "The trace followed its example there. Trace the model with an example like these inputs, change the line so "
        "that it asks for no value, or keep the line in a leaf (leaf_modules=, fxcore.wrap); enforce_guards=False runs "
        "the graph without checks",
        "These sizes are free: x: 0, 1",
    ]


def test_a_refusal_tells_the_error_of_a_condition_that_cannot_be_computed():
    told = refusal(Guards([Guard("x.shape[2] == 3", "n", 3)]), 0, IndexError("tuple index out of range"), "f", "")

    assert "  x.shape[2] == 3: it cannot be computed (IndexError: tuple index out of range)" in told.splitlines()


def test_a_node_that_only_conditions_need_knows_the_node_before_it():
    def function(x):
        y = x.relu()
        return y * 2 if y.shape[0] > 2 else y

    graph = symbolic_trace(function, example_inputs=torch.rand(3)).graph

    assert [node.name for node in graph.nodes] == ["x", "relu", "mul", "output"]
    after = {node.name: node.meta.get("guard_after") for node in graph.guards.graph.nodes}
    assert after == {"x": None, "relu": None, "getattr_1": "relu", "getitem": "relu", "gt": "relu", "output": None}


def test_guards_are_shown_and_compared_by_their_conditions():
    guard, other = Guard("x.shape[0] == 3", "getitem", 3), Guard("x.dim() == 2", "dim", 2)

    assert repr(Guards((guard, other))) == "Guards(['x.shape[0] == 3', 'x.dim() == 2'])"
    assert Guards((guard,)) == Guards((guard,), are_enforced=False)
    assert hash(Guards((guard,))) == hash(Guards((guard,), are_enforced=False))
    assert Guards((guard,)) != Guards((other,))
    assert Guards((guard,)) != (guard,)


def test_a_value_is_the_example_s_if_it_is_equal_or_both_are_nan():
    assert is_same(2, 2.0)
    assert is_same(float("nan"), float("nan"))
    assert not is_same(float("nan"), 1.0)
    assert not is_same(1.0, float("nan"))
    assert not is_same(True, 1)
    assert not is_same(None, 0)
    assert not is_same(torch.ones(2), torch.ones(2))  # their comparison has no truth
