"""Code that is written the short way, and that which cannot be, is the same as torch.fx's."""

from __future__ import annotations

import operator

import pytest
import torch

import fxcore
from fixtures.oracle import assert_same_success
from fxcore.namespace import ContestedNameError, UncontestedNames


def outside(x):
    return x


def code_of(graph):
    written = graph.python_code("self")
    return written.src, sorted(written.globals), written._lineno_map


def name_of_outside(fx):
    """Find out how code calls a function of this file."""
    graph = fx.Graph()
    graph.output(graph.call_function(outside, (graph.placeholder("x"),)))
    return next(name for name in graph.python_code("self").globals if name.endswith("outside"))


@pytest.mark.parametrize("is_first", [True, False])
def test_a_value_named_like_a_function_that_the_code_mentions(is_first):
    def sights(fx):
        graph = fx.Graph()
        x = graph.placeholder("x")
        if is_first:
            x = graph.create_node("call_function", torch.relu, (x,), name=name_of_outside(fx))
        y = graph.call_function(outside, (x,))
        z = graph.create_node("call_function", operator.neg, (y,), name=name_of_outside(fx))
        graph.output(z)
        return code_of(graph)

    assert "outside_1" in str(assert_same_success(sights))


@pytest.mark.parametrize("name", ["has space", "1st", "ünlich", "for", "print", "relu", "x"])
def test_values_that_have_a_name_that_no_code_can_have(name):
    graph = fxcore.Graph()
    x = graph.placeholder("x")
    first = graph.call_function(torch.relu, (x,))
    second = graph.call_function(torch.tanh, (first,))
    graph.output((first, second))

    second._name = name  # as no setter would
    names = {}
    exec(graph.python_code("self").src, {"torch": torch}, names)

    one = torch.ones(1)
    assert names["forward"](None, one) == (one, one.tanh())


def test_a_statement_of_several_lines_counts_with_its_node_on_each():
    class Two:
        def __repr__(self):
            return "(1,\n2)"

    def sights(fx):
        graph = fx.Graph()
        x = graph.placeholder("x")
        y = graph.call_function(torch.relu, (x, Two()))
        graph.output(graph.call_function(torch.neg, (y,)))
        return code_of(graph)

    assert_same_success(sights)


def test_graphs_without_statements_are_functions_all_the_same():
    empty, inputs, unread = fxcore.Graph(), fxcore.Graph(), fxcore.Graph()
    inputs.placeholder("x")
    unread.call_function(torch.rand, (1,))

    assert empty.python_code("self").src == "\n\n\ndef forward(self):\n    pass\n    "
    assert inputs.python_code("self").src == "\n\n\ndef forward(self, x):\n    pass\n    "
    assert unread.python_code("self").src.endswith("\n    rand = torch.rand(1);  rand = None\n    ")


def test_names_that_nobody_contests_are_not_changed():
    names = UncontestedNames.of(["a", "b_1"])

    assert names.create_name("c.d", "something") == "c_d"
    assert names.create_name("anything", "something") == "c_d"
    for contested in ("a", "b_1", "c_d", "for"):
        with pytest.raises(ContestedNameError):
            names.create_name(contested, None)


@pytest.mark.parametrize("names", [["a", "a"], ["for"], ["print"], ["has space"], ["1st"], ["é"]])
def test_names_that_cannot_all_stand_as_they_are(names):
    assert UncontestedNames.of(names) is None
