"""The generated checks ask each guard in a form of its own, and name the guard that an error belongs to."""

from __future__ import annotations

from types import FunctionType

import pytest
import torch

import fxcore
from fxcore import Interpreter
from fxcore.errors import GuardError
from fxcore.guard_checks.check_code import CheckFunctions, is_check
from fxcore.guard_checks.plan import Plan

PAIR = torch.ones(2, 3)


def traced(function, *example, **options):
    return fxcore.symbolic_trace(function, example_inputs=example, **options)


def asks_none(x, mask=None):
    return x if mask is None else x + mask


def asks_number(x, count=2):
    return x * 2 if count == 2 else x


def asks_text(x, mode="sum"):
    return x.sum() if mode == "sum" else x


def asks_flag(x, flag=True):
    return x + 1 if flag is True else x


def asks_shape(x):
    return x.relu() if x.shape == (2, 3) else x


def asks_size(x):
    return x.relu() if tuple(x.shape) == (2, 3) else x


def asks_comparison(x):
    return x.relu() if x.shape[0] > 1 else x


def asks_comparison_that_is_false(x):
    return x.relu() if x.shape[0] > 2 else x


def asks_dtype(x):
    return x.relu() if x.dtype is torch.float32 else x


def asks_device(x):
    return x.relu() if x.device == torch.device("cpu") else x


def asks_type(x, value=1):
    return x.relu() if type(value) is int else x


def asks_list(x, names=("a", "b")):
    return x.relu() if names == ("a", "b") else x


@pytest.mark.parametrize(
    ("function", "example", "held", "broken"),
    [
        (asks_none, (PAIR,), (PAIR, None), (PAIR, PAIR)),
        (asks_none, (PAIR, PAIR), (PAIR, PAIR + 1), (PAIR, None)),
        (asks_number, (PAIR,), (PAIR, 2), (PAIR, 3)),
        (asks_text, (PAIR, "sum"), (PAIR, "sum"), (PAIR, "mean")),
        (asks_flag, (PAIR, True), (PAIR, True), (PAIR, 1)),
        (asks_flag, (PAIR, False), (PAIR, False), (PAIR, True)),
        (asks_shape, (PAIR,), (PAIR + 1,), (PAIR.t(),)),
        (asks_size, (PAIR,), (PAIR + 1,), (PAIR.t(),)),
        (asks_comparison, (PAIR,), (PAIR.t(),), (PAIR[:1],)),
        (asks_comparison_that_is_false, (PAIR,), (PAIR[:1],), (PAIR.t(),)),
        (asks_dtype, (PAIR,), (PAIR + 1,), (PAIR.double(),)),
        (asks_device, (PAIR,), (PAIR + 1,), (PAIR.to("meta"),)),
        (asks_type, (PAIR, 1), (PAIR, 1), (PAIR, 1.0)),
        (asks_list, (PAIR, ("a", "b")), (PAIR, ("a", "b")), (PAIR, ("a", "c"))),
    ],
)
def test_a_call_that_breaks_a_guard_is_refused(function, example, held, broken):
    graph_module = traced(function, *example)

    assert torch.equal(graph_module(*held), function(*held))
    with pytest.raises(GuardError, match="which break guard "):
        graph_module(*broken)


def test_an_error_names_the_guard_that_could_not_be_computed():
    def function(x, w):
        if x.dim() != 2:
            return x
        y = x.squeeze()
        size = y.shape[1]
        z = w.relu()
        return z + 1 if size + z.shape[0] > 3 else z

    graph_module = traced(function, torch.ones(3, 4), torch.ones(2))

    with pytest.raises(GuardError, match=r"break guard 2 of 2:\n  .* > 3: it cannot be computed \(IndexError"):
        graph_module(torch.ones(3, 1), torch.ones(2))


def test_a_function_keeps_the_values_that_a_later_check_reads():
    def function(x, w):
        y = x.relu()
        z = w.relu()
        if y.shape[0] > 1 and z.shape[0] > y.shape[1]:
            return y
        return z

    graph_module = traced(function, PAIR, torch.ones(5))
    graph = graph_module.graph
    functions = CheckFunctions(Plan(graph, graph.guards, graph_module), graph.guards, graph_module, "function")
    (entry, first, second) = [functions.by_position[position] for position in sorted(functions.by_position)]

    state = entry.function(graph_module, PAIR, torch.ones(5))
    after_first = first.function(graph_module, state, PAIR.relu())
    after_second = second.function(graph_module, after_first, torch.ones(5))

    assert [node.name for node in first.inputs] == ["relu"]
    assert state == (None,)
    assert after_first[1:] == (3,), "the size that the second check reads"
    assert after_second == (None,), "nobody reads it afterwards"


def starred(x, *rest, **named):
    return x + 1 if rest == () and named == {} else x


def test_an_interpreter_checks_starred_arguments():
    graph_module = traced(starred, PAIR)

    assert torch.equal(Interpreter(graph_module).run(PAIR), PAIR + 1)
    with pytest.raises(GuardError, match="rest"):
        Interpreter(graph_module).run(PAIR, PAIR)


def test_a_generated_check_is_told_from_a_function_of_a_module_of_the_same_name():
    graph_module = traced(asks_shape, PAIR)
    graph = graph_module.graph
    functions = CheckFunctions(Plan(graph, graph.guards, graph_module), graph.guards, graph_module, "function")
    of_the_user = FunctionType(asks_shape.__code__, {})
    of_the_user.__module__ = "guards"

    assert is_check(functions.at_entry.function)
    assert not is_check(of_the_user)
    assert not is_check(asks_shape)
    assert not is_check(graph_module.forward.__func__), "generated, and no check"


def seed_of(is_high):
    """Return a seed that gives a first number above or below one half."""
    for seed in range(99):
        if bool(torch.rand(1, generator=torch.Generator().manual_seed(seed)) > 0.5) is is_high:
            return seed
    raise ValueError(is_high)


@pytest.mark.parametrize("run", [lambda g: g(), lambda g: Interpreter(g).run(), lambda g: g.check_guards()])
def test_a_value_of_the_first_node_is_checked_in_each_way_to_run_a_graph(run):
    def program():
        value = torch.rand(1)
        return value * 2 if fxcore.assume(value.sum() > 0.5) else value

    torch.manual_seed(seed_of(True))
    graph_module = traced(program)

    torch.manual_seed(seed_of(True))
    run(graph_module)
    torch.manual_seed(seed_of(False))
    with pytest.raises(GuardError, match="break guard 1 of 1"):
        run(graph_module)
