"""The numbers of a table's row."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy
import pytest
import torch
from torch import nn

import fxcore
from fixtures.train_steps import net_inputs, net_step
from pytest_fxgraph import Capture, capture
from pytest_fxgraph.errors import CaptureError, ChoiceError, GateError
from pytest_fxgraph.gate.table_numbers import costs_of, findings_of, measured_numbers, numbers_of, row_values
from pytest_fxgraph.goldens.table_columns import KERNEL_BYTES, KERNELS, QUANTIZED


def test_the_parameters_of_one_graph_are_the_parameters_that_it_reads():
    traced = fxcore.symbolic_trace(nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2)))
    (second,) = traced.graph.find_nodes(op="call_module", target="1")
    second.replace_all_uses_with(second.args[0])
    traced.graph.erase_node(second)
    traced.recompile()

    assert costs_of(traced, (torch.ones(1, 3),), None, is_asked=True)["params"] == 8
    assert sum(each.numel() for each in traced.parameters()) == 14


def with_inner() -> fxcore.GraphModule:
    """Return a graph of 3 nodes that calls a graph of 4."""
    root = nn.Module()
    root.inner = fxcore.symbolic_trace(lambda x: torch.exp(torch.sin(x)))
    graph = fxcore.Graph()
    graph.output(graph.call_module("inner", (graph.placeholder("x"),)))
    return fxcore.GraphModule(root, graph)


def test_nodes_and_operators_of_inner_graphs_count():
    numbers = numbers_of(with_inner())

    assert (numbers["graphs"], numbers["nodes"], numbers["breaks"]) == (1, 7, 0)
    assert "quantized" not in numbers
    assert findings_of(with_inner()) == []


@pytest.mark.parametrize(
    ("value", "number"), [(3, 3), (2.5, 2.5), (numpy.int64(3), 3), (numpy.float32(0.5), 0.5), (-1, -1)]
)
def test_a_measured_number_becomes_a_number_of_python(value, number):
    (made,) = measured_numbers({"time": value}, "net").values()

    assert (made, type(made)) == (number, type(number))


@pytest.mark.parametrize(
    ("value", "shown"),
    [(True, "True"), (math.nan, "nan"), (math.inf, "inf"), ("3", "an object of type str"), (None, "an object of type")],
)
def test_a_measured_value_that_is_no_finite_number_is_refused(value, shown):
    with pytest.raises(GateError, match=f"column 'time' of row 'net' is {shown}.*: a table holds finite numbers"):
        measured_numbers({"time": value}, "net")


@pytest.mark.parametrize("column", ["nodes", "flops", "row", 3])
def test_a_column_of_the_table_cannot_be_measured(column):
    with pytest.raises(ChoiceError, match=r"a table has .* itself; give the column another name"):
        measured_numbers({column: 1}, "net")


def test_costs_of_a_graph_without_shapes_are_left_out_unless_they_are_asked_for():
    graph = fxcore.symbolic_trace(nn.Linear(3, 2))

    assert costs_of(graph, None, None, is_asked=False) == {}
    with pytest.raises(
        CaptureError, match="cannot count what the graphs cost: the shapes of their inputs are not known"
    ):
        costs_of(graph, None, None, is_asked=True)
    assert costs_of(graph, None, {"input": torch.ones(1, 3)}, is_asked=False)["params"] == 8


@pytest.mark.parametrize(("costs", "has_costs"), [(None, True), (True, True), (False, False)])
def test_a_row_has_counts_costs_and_measured_numbers(costs, has_costs):
    values = row_values(with_inner(), {"time": 2}, costs=costs, example_inputs=(torch.ones(1),))

    assert ("flops" in values, values["time"], values["nodes"]) == (has_costs, 2, 7)


def test_a_step_has_columns_for_the_memory_of_its_state():
    capture_of_step = capture(net_step("sgd"), net_inputs(), frontend="make_fx")
    numbers = costs_of(capture_of_step, None, None, is_asked=True)

    assert numbers["memory_gradients"] == 4 * numbers["params"]
    assert numbers["memory_optimizer"] == 0


class Compiled(Capture):
    """A capture of Inductor with two kernels."""

    kernels = (SimpleNamespace(bytes=100), SimpleNamespace(bytes=20))


def test_a_capture_of_inductor_has_columns_for_its_kernels_and_any_other_has_none():
    counted = [numbers_of(Compiled(frontend, "Net", [with_inner()])) for frontend in ("inductor", "aot")]

    assert counted[0] == {**counted[1], KERNELS: 2, KERNEL_BYTES: 120}
    assert (counted[1]["graphs"], counted[1]["nodes"]) == (1, 7)


def test_a_model_of_plain_numbers_has_no_column_of_quantized_tensors():
    traced = fxcore.symbolic_trace(nn.Linear(3, 2))

    assert QUANTIZED not in numbers_of(traced)


@pytest.mark.parametrize("costs", [None, True, False])
def test_costs_of_unknown_shapes_are_an_error_only_where_they_are_asked_for(costs):
    traced = fxcore.symbolic_trace(nn.Linear(3, 2))

    if costs:
        with pytest.raises(CaptureError, match="the shapes of their inputs are not known"):
            row_values(traced, {}, costs=costs)
    else:
        assert row_values(traced, {"seconds": 1.5}, costs=costs) == {**numbers_of(traced), "seconds": 1.5}
