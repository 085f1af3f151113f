from __future__ import annotations

import pytest
import torch
from torch import nn

import fxcore
from fxcore.errors import FxError


def fresh():
    module = fxcore.symbolic_trace(nn.Sequential(nn.Linear(1, 1), nn.ReLU()))
    return module.graph, list(module.graph.nodes)


def refusal(graph, builtin):
    with pytest.raises(builtin) as caught:
        graph.lint()
    assert isinstance(caught.value, FxError)
    return str(caught.value)


def test_a_graph_that_was_traced_is_right():
    graph, _ = fresh()

    assert graph.lint() is None


def test_a_value_read_before_it_is_defined_is_named_with_its_reader():
    graph, (_, linear, relu, _) = fresh()

    linear.prepend(relu)

    assert refusal(graph, RuntimeError).startswith("Argument '_0' of Node '_1' was used before it has been defined!")


def test_a_value_of_another_graph_is_named():
    graph, (_, linear, *_) = fresh()
    _, (stranger, *_) = fresh()

    linear.args = (stranger,)

    assert "Argument 'input_1' of Node '_0' does not belong to this Graph" in refusal(graph, RuntimeError)


def test_a_value_that_is_erased_is_named_with_the_cure():
    graph, (_, linear, relu, output) = fresh()
    relu.replace_all_uses_with(linear)
    graph.erase_node(relu)

    output.args = (relu,)

    assert refusal(graph, RuntimeError).endswith(
        "It was erased from the graph while it still had a reader; replace its uses first with replace_all_uses_with()"
    )


def test_a_node_of_another_graph_is_named():
    graph, (_, linear, *_) = fresh()

    linear.graph = fxcore.Graph()

    assert refusal(graph, RuntimeError).startswith("Node '_0' does not belong to this Graph! Make it with this graph's")


def test_two_nodes_of_one_name_are_refused():
    graph, (_, _, relu, _) = fresh()

    relu.name = "_0"

    assert refusal(graph, RuntimeError).startswith("Node redefined name _0!")


def test_an_unknown_opcode_is_refused():
    graph, (_, linear, *_) = fresh()

    linear.op = "call"

    assert refusal(graph, RuntimeError).startswith("Node _0 had unknown opcode call! It must be one of call_function")


@pytest.mark.parametrize(
    ("op", "target", "builtin", "words"),
    [
        ("call_module", "0.gain", RuntimeError, "references nonexistent attribute gain of 0; install it"),
        ("get_attr", "missing", RuntimeError, "references nonexistent attribute missing of Sequential"),
        ("call_module", "training", RuntimeError, "training of Sequential does not reference an nn.Module"),
        ("call_function", "0", ValueError, "has type str but a Callable is expected"),
        ("call_module", torch.relu, ValueError, "but a str is expected"),
    ],
)
def test_a_target_that_is_not_there_or_of_the_wrong_kind_is_refused(op, target, builtin, words):
    graph, (_, linear, *_) = fresh()

    linear.op, linear.target = op, target

    assert words in refusal(graph, builtin)
