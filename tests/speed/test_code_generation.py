"""Writing code takes work in proportion to the nodes; counted, not timed."""

from __future__ import annotations

import operator

import torch

import fxcore
from fixtures.call_counts import added_calls, calls_in
from fxcore.codegen import statements


def chain(length):
    graph = fxcore.Graph()
    value = graph.placeholder("x")
    for _ in range(length):
        value = graph.call_function(torch.relu, (value,))
    graph.output(value)
    return graph


def test_code_of_a_node_takes_few_calls():
    assert added_calls(chain, lambda graph: graph.python_code("self")) < 9


def test_linting_a_node_takes_no_call_of_its_own():
    assert added_calls(chain, lambda graph: graph.lint()) < 3


def test_copying_a_node_takes_few_calls():
    assert added_calls(chain, lambda graph: graph.__deepcopy__({})) < 9


def test_printing_a_node_takes_few_calls():
    assert added_calls(chain, str) < 12


def test_finding_nodes_looks_only_at_those_found():
    graph = chain(1_000)
    found = graph.call_function(operator.neg, (graph.output_node(),))
    graph.find_nodes(op="call_function", target=operator.neg)

    calls = calls_in(lambda: graph.find_nodes(op="call_function", target=operator.neg))

    assert graph.find_nodes(op="call_function", target=operator.neg) == [found]
    assert calls < 10


def test_the_signature_of_a_code_generator_is_looked_at_once(monkeypatch):
    looks = []
    graph = chain(1)
    graph.python_code("self")
    monkeypatch.setattr("inspect.signature", lambda function: looks.append(function))

    graph.python_code("self")

    assert looks == []


def test_a_function_is_named_once_for_all_its_calls(monkeypatch):
    asked = []
    plain = statements.qualified_name
    monkeypatch.setattr(statements, "qualified_name", lambda target: asked.append(target) or plain(target))

    chain(50).python_code("self")

    assert asked == [torch.relu]
