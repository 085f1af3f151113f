"""What torch.fx refuses, fxcore refuses: caught by the same `except`, known again by the same phrase."""

from __future__ import annotations

import operator

import pytest
import torch
from torch import nn

from fixtures.oracle import assert_same_refusal, assert_same_success


def branches(x):
    return x if x.sum() > 0 else -x


def foreign_node(fx):
    other = fx.Graph().placeholder("x")
    graph = fx.Graph()
    graph.output(graph.call_function(torch.relu, (other,)))
    graph.lint()


def erased_while_read(fx):
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_function(operator.neg, (x,)))
    graph.erase_node(x)


def read_before_made(fx):
    graph = fx.Graph()
    x = graph.placeholder("x")
    one = graph.call_function(torch.relu, (x,))
    two = graph.call_function(torch.neg, (one,))
    one.args = (two,)
    graph.output(one)
    graph.lint()


def inserted_into_another_graph(fx):
    node = fx.Graph().placeholder("x")
    with fx.Graph().inserting_before(node):
        pass


def called_module_is_missing(fx):
    graph = fx.Graph()
    graph.output(graph.call_module("nowhere.to.be.found", (graph.placeholder("x"),)))
    return fx.GraphModule(nn.Module(), graph)


def attribute_is_missing(fx):
    graph = fx.Graph()
    graph.output(graph.get_attr("nowhere"))
    return fx.GraphModule(nn.Module(), graph)


def module_missing_when_run(fx):
    traced = fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2)))
    delattr(traced, "0")
    return traced(torch.ones(2))


def assigned_item(fx):
    def function(x):
        x[0] = 1

    return fx.symbolic_trace(function)


def unknown_opcode(fx):
    fx.Graph().create_node("call_nothing", "x")


def function_that_is_none(fx):
    fx.Graph().create_node("call_function", "not a function")


def copied_without_its_inputs(fx):
    # By itself the copied node reads a node of the other graph; lint() would say so.
    traced = fx.symbolic_trace(lambda x: torch.relu(x))
    fx.Graph().node_copy(list(traced.graph.nodes)[1])


def erased_twice(fx):
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.erase_node(x)
    graph.erase_node(x)


def wrapped_inside_a_function(fx):
    fx.wrap("len")


def wrapped_something_else(fx):
    fx.wrap(3)


def two_modules_of_one_name(fx):
    return fx.GraphModule({"block.weight": nn.Linear(2, 2)}, fx.symbolic_trace(lambda x: x).graph).missing


def keyword_of_a_star(fx):
    return fx.symbolic_trace(lambda x: torch.relu(**x))


def unpacked_too_far(fx):
    def function(x):
        return [*x]

    return fx.symbolic_trace(function)


PROGRAMS = {
    "control flow": lambda fx: fx.symbolic_trace(branches),
    "and": lambda fx: fx.symbolic_trace(lambda x: x and x),
    "not": lambda fx: fx.symbolic_trace(lambda x: not x),
    "assert": lambda fx: fx.symbolic_trace(lambda x: 1 if bool(x) else 2),
    "len": lambda fx: fx.symbolic_trace(lambda x: len(x)),
    "iteration": lambda fx: fx.symbolic_trace(lambda x: [row for row in x]),  # noqa: C416
    "star unpacking": unpacked_too_far,
    "keyword unpacking": keyword_of_a_star,
    "range": lambda fx: fx.symbolic_trace(lambda x: list(range(x.size(0)))),
    "int": lambda fx: fx.symbolic_trace(lambda x: int(x)),
    "float": lambda fx: fx.symbolic_trace(lambda x: float(x)),
    "contains": lambda fx: fx.symbolic_trace(lambda x: 1 in x),
    "slice of a list": lambda fx: fx.symbolic_trace(lambda x: [1, 2][x]),
    "item assignment": assigned_item,
    "unsupported argument": lambda fx: fx.symbolic_trace(lambda x: torch.relu(x, object())),
    "dict key is a proxy": lambda fx: fx.symbolic_trace(lambda x: torch.cat({x: 1})),
    "foreign node": foreign_node,
    "erased while read": erased_while_read,
    "read before made": read_before_made,
    "inserted into another graph": inserted_into_another_graph,
    "called module is missing": called_module_is_missing,
    "attribute is missing": attribute_is_missing,
    "module missing when run": module_missing_when_run,
    "unknown opcode": unknown_opcode,
    "function that is none": function_that_is_none,
    "wrap inside a function": wrapped_inside_a_function,
    "wrap of a number": wrapped_something_else,
    "attribute that is not there": two_modules_of_one_name,
    "too few inputs": lambda fx: fx.symbolic_trace(lambda x, y: x + y)(torch.ones(2)),
    "graph module without a root": lambda fx: fx.GraphModule(3, fx.Graph()),
    "set_submodule of nothing": lambda fx: fx.symbolic_trace(nn.ReLU()).get_submodule("nowhere"),
    "argument out of range": lambda fx: (
        fx.symbolic_trace(lambda x: torch.neg(x)).graph.output_node().update_arg(7, None)
    ),
}


# Wrong, and yet torch.fx says nothing, or only warns.
PERMITTED = {
    "erased twice": erased_twice,
    "copied without its inputs": copied_without_its_inputs,
    "__setitem__ by name": lambda fx: fx.symbolic_trace(lambda x: x.__setitem__(0, 1)),
    "replaced input is no node": lambda fx: fx.symbolic_trace(lambda x: x).graph.output_node().replace_input_with(1, 2),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_both_libraries_refuse(name):
    assert_same_refusal(PROGRAMS[name])


@pytest.mark.filterwarnings("ignore:erase_node")
@pytest.mark.parametrize("name", PERMITTED)
def test_both_libraries_permit(name):
    assert_same_success(PERMITTED[name])
