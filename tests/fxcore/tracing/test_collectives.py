"""Collectives of torch.distributed are nodes of the graph, kept in their order, with an example and without."""

from __future__ import annotations

import copy
import pickle
import sys
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import _functional_collectives as collectives
from torch.distributed.nn import functional as differentiables

import fxcore
from fixtures.process_groups import fake_group, needs_fake_group
from fxcore.tracing import collectives as recording

pytestmark = [
    needs_fake_group,
    pytest.mark.filterwarnings("ignore:.*deprecated:FutureWarning"),
]


@pytest.fixture(autouse=True)
def group():
    with fake_group():
        yield


def names_of(graph_module):
    return [getattr(node.target, "__name__", str(node.target)) for node in graph_module.graph.nodes]


def in_place(x):
    y = x.clone()
    dist.all_reduce(y)
    dist.broadcast(y, 0)
    return y + 1


def gathered(x):
    parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, x)
    return torch.cat(parts)


def waited_for(x):
    y = x.clone()
    work = dist.all_reduce(y, op=dist.ReduceOp.MAX, async_op=True)
    work.wait()
    return y


def functional(x):
    return collectives.wait_tensor(collectives.all_reduce(x * 2, "sum", dist.group.WORLD)) + 1


def of_operators(x):
    name = dist.group.WORLD.group_name
    return torch.ops._c10d_functional.wait_tensor(torch.ops._c10d_functional.all_reduce(x, "sum", name))


def functional_parts(x):
    parts = collectives.all_gather_tensor(x, 0, dist.group.WORLD)
    return collectives.reduce_scatter_tensor(parts, "sum", 0, dist.group.WORLD)


def differentiable(x):
    return torch.cat(list(differentiables.all_gather(differentiables.all_reduce(x))))


PLAIN = (in_place, gathered, waited_for, functional, of_operators)
# Torch itself asks for shapes in these.
WITH_EXAMPLE = (*PLAIN, functional_parts, differentiable)


def assert_runs(graph_module, function):
    graph_module.graph.lint()
    assert len([node for node in graph_module.graph.nodes if node.is_impure()]) > 2
    x = torch.rand(4, 3)
    assert graph_module(x.clone()).shape == function(x.clone()).shape


@pytest.mark.parametrize("function", PLAIN)
def test_collectives_are_recorded(function):
    assert_runs(fxcore.symbolic_trace(function), function)


@pytest.mark.parametrize("function", WITH_EXAMPLE)
def test_collectives_are_recorded_with_an_example(function):
    assert_runs(fxcore.symbolic_trace(function, example_inputs=torch.rand(4, 3)), function)


def test_collectives_stay_in_their_order_and_survive_dead_code():
    def two(x):
        torch.ops._c10d_functional.all_reduce(x, "sum", "0")
        dist.all_reduce(x, op=dist.ReduceOp.MIN)
        return x

    graph_module = fxcore.symbolic_trace(two)
    before = names_of(graph_module)

    graph_module.graph.eliminate_dead_code()

    assert names_of(graph_module) == before == ["x", "all_reduce", "all_reduce", "output"]


def test_a_barrier_is_recorded_with_an_example_alone():
    def stopped(x):
        dist.barrier()
        return x + 1

    with_example = fxcore.symbolic_trace(stopped, example_inputs=torch.rand(3))

    assert names_of(with_example) == ["x", "barrier", "add", "output"]
    assert names_of(fxcore.symbolic_trace(stopped)) == ["x", "add", "output"]


def test_a_reduction_is_written_into_the_code_by_name():
    graph_module = fxcore.symbolic_trace(waited_for)

    assert "op = torch.distributed.ReduceOp.MAX" in graph_module.code
    for again in (pickle.loads(pickle.dumps(graph_module)), copy.deepcopy(graph_module)):
        assert again.code == graph_module.code


def test_a_group_of_processes_is_an_attribute_of_the_graph_module():
    class Reduced(nn.Module):
        def __init__(self):
            super().__init__()
            self.pair = dist.new_group([0, 1])

        def forward(self, x):
            dist.all_reduce(x, group=self.pair)
            return x

    graph_module = fxcore.symbolic_trace(Reduced(), example_inputs=torch.rand(3))

    (node,) = [node for node in graph_module.graph.nodes if node.op == "get_attr"]
    assert isinstance(getattr(graph_module, node.target), dist.ProcessGroup)
    graph_module(torch.rand(3))


def test_torch_distributed_is_as_it_was_after_a_trace():
    before = dict(vars(dist))

    fxcore.symbolic_trace(in_place, example_inputs=torch.rand(3))

    assert dict(vars(dist)) == before


def test_collectives_are_replaced_only_in_a_process_with_a_group(monkeypatch):
    replaced = []

    def looks(x):
        replaced.append(dist.all_reduce is not all_reduce)
        return x

    all_reduce = dist.all_reduce
    fxcore.symbolic_trace(looks)
    monkeypatch.setattr(dist, "is_initialized", lambda: False)
    fxcore.symbolic_trace(looks)

    assert replaced == [True, False]


def test_a_torch_that_waits_by_an_operator_keeps_its_function(monkeypatch):
    monkeypatch.setattr(collectives, "_wrap_tensor_autograd", None, raising=False)
    kept, wait = [], collectives._maybe_wrap_tensor

    fxcore.symbolic_trace(lambda x: [x, kept.append(collectives._maybe_wrap_tensor is wait)][0])

    assert kept == [True]


def test_a_trace_needs_no_functional_collectives(monkeypatch):
    monkeypatch.delitem(sys.modules, recording.FUNCTIONAL)

    assert names_of(fxcore.symbolic_trace(lambda x: x + 1)) == ["x", "add", "output"]


def test_a_call_that_torch_does_not_record_has_its_defaults_by_name(monkeypatch):
    monkeypatch.setattr(recording, "_is_recorded_by_torch", lambda function: False)
    all_reduce = recording._recorded(dist.all_reduce)

    graph = fxcore.symbolic_trace(lambda x: [x, all_reduce(x, dist.ReduceOp.MAX)][0]).graph

    (node,) = graph.find_nodes(op="call_function", target=dist.all_reduce)
    assert [each.name for each in node.args] == ["x"]
    assert node.kwargs == {"op": dist.ReduceOp.MAX, "group": None, "async_op": False}


def test_a_function_of_torch_records_if_it_or_a_collective_in_it_asks_for_proxies(monkeypatch):
    def asks(x):
        return handle_torch_function(x)  # noqa: F821 - never called

    def calls(x):
        return all_reduce(x)  # noqa: F821 - never called

    answers = []
    for function in (asks, lambda x: x):
        monkeypatch.setattr(dist.distributed_c10d, "all_reduce", function)
        monkeypatch.setattr(recording, "effects_of", lambda op, target: SimpleNamespace(kinds=("collective",)))
        answers.append([recording._is_recorded_by_torch(each) for each in (asks, calls, lambda x: x)])

    assert answers == [[True, True, False], [True, False, False]]


@pytest.mark.skipif(not hasattr(collectives, "_wrap_tensor_autograd"), reason="this torch waits by itself")
def test_a_torch_that_waits_at_the_first_read_gets_a_node_that_waits(monkeypatch):
    monkeypatch.delattr(collectives, "_wrap_tensor_autograd")

    graph = fxcore.symbolic_trace(lambda x: collectives._maybe_wrap_tensor(x * 2)).graph

    wait = graph.output_node().args[0]
    assert [node.name for node in graph.nodes] == ["x", "mul", "wait_tensor", "output"]
    assert str(wait.format_node()).endswith("(args = (%mul,), kwargs = {})")
