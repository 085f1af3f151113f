"""Guards as text, and as a graph that computes what they are about."""

from __future__ import annotations

import enum
import functools
import operator

import pytest
import torch
import torch.fx

from fxcore import Graph, symbolic_trace
from fxcore.guards import (
    Guard,
    Guards,
    called_text,
    condition_text,
    copied_slice,
    enforce,
    expression_of,
    is_path,
    is_same,
    negated,
    refusal,
    take_guards,
)


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


def test_guards_are_checked_if_a_graph_computes_them_and_there_is_something_to_check():
    guard, graph, outer = Guard("a == 1", "a", 1), Graph(), [object()]

    assert [
        Guards((guard,), graph).are_checked,
        Guards((), graph, outer=outer).are_checked,
        Guards((), graph).are_checked,
        Guards((guard,)).are_checked,
        Guards((), outer=outer).are_checked,
    ] == [True, True, False, False, False]


def test_guards_are_read_as_lines_with_their_places_and_notes():
    guards = [
        Guard("a == 1", "a", 1),
        Guard("b > 2", "b", True, is_assumed=True, file="model.py", line=7, source="if b > 2:", module_path="block"),
        Guard("c", "c", True, source="if c:"),
    ]

    assert Guards(guards, notes=("one more",)).lines() == [
        "guard: a == 1",
        "assumed: b > 2 (model.py:7: if b > 2: (in module 'block'))",
        "guard: c (: if c:)",
        "note: one more",
    ]


@pytest.mark.parametrize(("length", "is_cut"), [(79, False), (80, False), (81, True)])
def test_a_long_value_is_cut_in_a_refusal(length, is_cut):
    text = "e" * length
    told = refusal(Guards([Guard("a == 1", "a", 1, caught=("KeyError",))]), 0, ValueError(text), "f", "")

    shown = f"{'e' * 77}..." if is_cut else text
    assert f"  a == 1: it raises ValueError: {shown}" in told.splitlines()


def test_the_opposite_condition_of_the_example_reads_as_false():
    told = refusal(Guards([Guard("x > 2", "gt", False)]), 0, True, "f", "")

    assert "  x > 2: it is False" in told.splitlines()
    assert "  x > 2: it is False" in refusal(Guards([Guard("x > 2", "gt", True)]), 0, False, "f", "").splitlines()
    assert "  x: it is True" in refusal(Guards([Guard("x", "x", 3)]), 0, True, "f", "").splitlines()


def test_guards_are_taken_over_with_the_present_names_of_their_values():
    source, same, other = Graph(), Graph(), Graph()
    for graph, names in ((source, "ab"), (same, "cd"), (other, "e")):
        for name in names:
            graph.create_node("placeholder", name if graph is other else "abcd"["abcd".index(name) % 2], name=name)
    source.guards = Guards([Guard("a == 1", "traced", 1)], Graph())
    source.move_value("traced", "a")

    take_guards(source, same)
    take_guards(source, other)

    assert same.guards is other.guards is source.guards
    assert same.moved_values.present("traced") == "c"
    assert other.moved_values.present("traced") == "traced"


def test_a_graph_without_guards_gives_none():
    graph = Graph()

    take_guards(Graph(), graph)
    take_guards(torch.fx.Graph(), graph)
    take_guards(None, graph)

    assert not isinstance(graph.guards, Guards)


def test_enforcing_is_switched_and_none_leaves_it():
    graph, outer = Graph(), [1]
    graph.guards = Guards([Guard("a == 1", "a", 1)], graph, ("note",), outer=outer)
    before = graph.guards

    enforce(graph, None)
    assert graph.guards is before
    enforce(graph, False)
    assert (graph.guards, graph.guards.notes, graph.guards.outer) == (before, ("note",), outer)
    assert not graph.guards.are_enforced
    enforce(graph, True)
    assert graph.guards.are_enforced
    enforce(plain := Graph(), True)
    assert not isinstance(plain.guards, Guards)


class Color(enum.Enum):
    RED = 1


def local():
    class Inner:
        pass

    return Inner


@pytest.mark.parametrize(
    ("op", "target", "args", "kwargs", "text"),
    [
        ("call_function", operator.is_, ("x", None), {}, "x is None"),
        ("call_function", operator.is_not, ("x", None), {}, "x is not None"),
        ("call_function", operator.contains, ("x", 3), {}, "3 in x"),
        ("call_function", operator.contains, ("x",), {}, "contains(x)"),
        ("call_function", getattr, ("x", "shape"), {}, "x.shape"),
        ("call_function", getattr, ("x", "shape", None), {}, "getattr(x, 'shape', None)"),
        ("call_function", operator.add, ("x", 1), {}, "x + 1"),
        ("call_function", operator.add, ("x",), {}, "add(x)"),
        ("call_function", operator.neg, ("x",), {}, "-x"),
        ("call_function", operator.getitem, ("x", (0, slice(1, "x", 2), ...)), {}, "x[(0, 1:x:2, Ellipsis)]"),
        ("call_function", operator.getitem, ("x", (slice(None, 3),)), {}, "x[(:3,)]"),
        ("call_function", isinstance, ("x", torch.Tensor), {}, "isinstance(x, torch.Tensor)"),
        ("call_function", isinstance, ("x", (int, Color)), {}, "isinstance(x, (int, Color))"),
        ("call_function", isinstance, ("x", local()), {}, "isinstance(x, Inner)"),
        ("call_function", len, ([1, "x", Color.RED],), {"key": len}, "len([1, x, Color.RED], key=len)"),
        ("call_method", "sum", ("x", 1), {"keepdim": True}, "x.sum(1, keepdim=True)"),
        ("get_attr", "layer.weight", (), {}, "self.layer.weight"),
        ("call_module", "layer", ("x",), {}, "layer(x)"),
    ],
)
def test_a_call_is_written_as_python(op, target, args, kwargs, text):
    graph = Graph()
    x = graph.placeholder("x")

    def filled(argument):
        if isinstance(argument, (tuple, list)):
            return type(argument)(map(filled, argument))
        if isinstance(argument, slice):
            return slice(argument.start, filled(argument.stop), argument.step)
        return x if argument == "x" else argument

    node = graph.create_node(op, target, filled(args), kwargs)

    assert expression_of(node, lambda node: True) == text
    assert expression_of(node, lambda node: False) == called_text(node)


def test_a_call_is_named_without_its_arguments():
    graph = Graph()
    x = graph.placeholder("x")
    nodes = [
        graph.get_attr("weight"),
        graph.call_module("layer", (x,)),
        graph.call_method("sum", (x,)),
        graph.call_function(torch.relu, (x,)),
        graph.create_node("call_function", functools.partial(torch.relu), (x,), name="named"),
    ]

    assert [called_text(node) for node in nodes[:4]] == ["self.weight", "self.layer(...)", "sum(...)", "relu(...)"]
    assert called_text(nodes[4]).startswith("functools.partial(")


def test_a_part_of_an_input_is_a_path():
    graph = Graph()
    x = graph.placeholder("x")
    shape = graph.call_function(getattr, (x, "shape"))
    size = graph.call_function(operator.getitem, (shape, 0))
    total = graph.call_function(operator.add, (size, 1))
    of_a_constant = graph.call_function(operator.getitem, ((1, 2), size))
    of_a_result = graph.call_function(operator.getitem, (total, 0))

    assert [is_path(node) for node in (x, shape, size, total, of_a_constant, of_a_result)] == [True] * 3 + [False] * 3


def test_a_guard_and_guards_made_by_hand_have_the_usual_facts():
    guard = Guard("x > 2", "gt", 1)

    assert (guard.line, guard.is_assumed, guard.place) == (0, False, "")
    assert guard == Guard("x > 2", "gt", 2) != Guard("x > 2", "gt", 1, is_assumed=True)
    assert Guards([guard]).are_enforced
