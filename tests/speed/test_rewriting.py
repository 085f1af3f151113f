"""Rewriting looks at what it must, once; counted, not timed."""

from __future__ import annotations

import operator

import pytest
import torch
from torch import nn

import fxcore
from fxcore.matching import replacer
from fxcore.matching.candidates import OperatorLookup
from fxcore.matching.comparison import PartialMatch


def module_of(graph, result):
    graph.output(result)
    return fxcore.GraphModule(nn.Module(), graph)


def chain(pairs):
    """Return a module that adds and activates in turns."""
    graph = fxcore.Graph()
    value = graph.placeholder("x")
    for _ in range(pairs):
        value = graph.call_function(torch.relu, (graph.call_function(operator.add, (value, 1)),))
    return module_of(graph, value)


def forks(count):
    """Return a module of blocks with two results each."""
    graph = fxcore.Graph()
    value = graph.placeholder("x")
    for _ in range(count):
        shared = graph.call_function(operator.add, (value, 1))
        one, other = graph.call_function(torch.relu, (shared,)), graph.call_function(torch.tanh, (shared,))
        value = graph.call_function(operator.mul, (one, other))
    return module_of(graph, value)


def activate(x):
    return torch.relu(x + 1)


def both(x):
    shared = x + 1
    return torch.relu(shared), torch.tanh(shared)


def two(x):
    return torch.sigmoid(x), torch.cos(x)


@pytest.fixture
def count_calls(monkeypatch):
    """Count the calls of a function of a class or module; the list that comes back grows by one each."""

    def count(owner, name):
        calls = []
        original = getattr(owner, name)

        def counted(*args, **kwargs):
            calls.append(name)
            return original(*args, **kwargs)

        monkeypatch.setattr(owner, name, counted)
        return calls

    return count


def test_no_code_is_written_for_a_graph_that_is_about_to_change(count_calls):
    module = chain(20)
    written = count_calls(fxcore.Graph, "python_code")

    for _ in range(3):
        fxcore.replace_pattern(module, activate, lambda x: torch.relu(x + 1))

    assert len(written) == 0
    assert module.code.count("torch.relu") == 20
    assert len(written) == 1


@pytest.mark.parametrize("size", [50, 200])
def test_each_place_is_compared_once(count_calls, size):
    module = chain(size)
    compared = count_calls(PartialMatch, "extend")

    assert len(fxcore.replace_pattern(module, activate, lambda x: torch.sigmoid(x))) == size

    assert len(compared) == size


@pytest.mark.parametrize("size", [50, 200])
def test_a_second_result_is_looked_for_next_to_the_first(count_calls, size):
    module = forks(size)
    compared = count_calls(PartialMatch, "extend")

    assert len(fxcore.replace_pattern(module, both, two)) == size

    assert len(compared) == 2 * size


def test_a_second_result_that_reads_something_else_everywhere_is_not_tried_for_each_first(count_calls):
    graph = fxcore.Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    values = [graph.call_function(torch.relu, (x,)) for _ in range(100)]
    values += [graph.call_function(torch.tanh, (y,)) for _ in range(100)]
    compared = count_calls(PartialMatch, "extend")

    assert fxcore.replace_pattern(module_of(graph, values), lambda x: (torch.relu(x), torch.tanh(x)), two) == []

    assert len(compared) == 100


def test_matching_begins_at_the_rarest_operator(count_calls):
    module = chain(100)
    add = module.graph.find_nodes(op="call_function", target=operator.add)[50]
    with module.graph.inserting_before(add):
        add.args = (module.graph.call_function(torch.tanh, (add.args[0],)), 1)
    compared = count_calls(PartialMatch, "extend")

    assert len(fxcore.replace_pattern(module, lambda x: torch.relu(torch.tanh(x) + 1), lambda x: torch.sigmoid(x))) == 1

    assert len(compared) == 1


def test_nothing_is_compared_where_an_operator_is_absent(count_calls):
    compared = count_calls(PartialMatch, "extend")
    looked_up = count_calls(OperatorLookup, "find")

    assert fxcore.replace_pattern(chain(100), lambda x: torch.tanh(x + 1), lambda x: torch.sigmoid(x)) == []

    assert len(compared) == 0
    assert len(looked_up) <= 2


def test_each_reader_is_rewritten_once_after_all_matches(count_calls):
    graph = fxcore.Graph()
    x = graph.placeholder("x")
    values = [graph.call_function(torch.relu, (x,)) for _ in range(50)]
    module = module_of(graph, [graph.call_function(torch.cat, (values,)) for _ in range(3)])
    rewritten = count_calls(fxcore.Node, "_set_arguments")
    prepared = count_calls(replacer, "ReplacingGraph")

    assert len(fxcore.replace_pattern(module, lambda x: torch.relu(x), lambda x: torch.neg(x))) == 50

    assert len(rewritten) == 3
    assert len(prepared) == 1


def test_most_nodes_are_not_looked_at_when_few_match(count_calls):
    module = chain(500)
    first = module.graph.find_nodes(op="call_function", target=torch.relu)[0]
    first.target = torch.tanh
    linked = count_calls(fxcore.graph.OperatorIndex, "insert")

    assert len(fxcore.replace_pattern(module, lambda x: torch.tanh(x), lambda x: torch.sigmoid(x))) == 1

    assert len(linked) <= 3
