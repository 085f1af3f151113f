"""Reductions of collectives, and the places where Python waits for them, in a graph of make_fx."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist

from fixtures.parallel_plans import inputs, plain_collectives
from fixtures.process_groups import fake_group, needs_fake_group
from pytest_fxgraph.captures.collective_trace import REDUCTION, _forgotten_numbers, collectives_noted, wait
from pytest_fxgraph.captures.request import CaptureRequest
from pytest_fxgraph.captures.step_trace import Step
from pytest_fxgraph.captures.ways import captured

pytestmark = needs_fake_group


def graph_of(function, *values):
    with fake_group(size=2):
        return captured(CaptureRequest.of(function, values, None, "make_fx", step=Step())).as_graph_module().graph


def reduced(x):
    y = x.clone()
    dist.all_reduce(y, op=dist.ReduceOp.MAX)
    dist.all_reduce(y)
    return y


def test_the_reduction_of_a_collective_stands_in_the_metadata_of_its_node():
    before = dict(vars(dist.ProcessGroup)), dist.Work.wait
    nodes = [node for node in graph_of(reduced, torch.ones(4)).nodes if REDUCTION in node.meta]
    found = [node.meta[REDUCTION] for node in nodes if node.op == "call_function"]
    assert found == ["max", "sum"]
    assert [node.meta[REDUCTION] for node in nodes if node.op == "get_attr"] == found  # of the object of C++
    assert (dict(vars(dist.ProcessGroup)), dist.Work.wait) == before


@pytest.mark.skipif(not hasattr(getattr(dist, "Work", None), "unbox"), reason="this torch cannot open handles")
def test_a_wait_is_a_node_where_the_model_waits():
    called = [node for node in graph_of(plain_collectives(0), *inputs()).nodes if node.op == "call_function"]
    names = [getattr(node.target, "_opname", node.target.__name__) for node in called]
    of_collectives = [name for name in names if name == "wait" or (name.endswith("_") and name != "empty_")]
    assert of_collectives == [
        *("allreduce_", "_allgather_base_", "wait", "wait"),  # the first is asynchronous
        *("_reduce_scatter_base_", "wait", "broadcast_", "wait"),
    ]
    waits = [node for node in called if node.target is wait]
    assert waits[1].args[0].args[0].target is torch.ops.c10d.allreduce_.default


def sent(x):
    y = x.clone()
    dist.isend(y, 1).wait()
    return y


@pytest.mark.skipif(not hasattr(getattr(dist, "Work", None), "unbox"), reason="this torch cannot open handles")
def test_a_wait_for_a_send_names_the_tensors_that_it_reads():
    nodes = {node.name: node for node in graph_of(sent, torch.ones(4)).nodes}

    assert nodes["wait"].args == (nodes["send"], nodes["clone"])


def test_only_known_numbers_of_exchanged_tensors_are_forgotten():
    x, y, unknown = torch.ones(1), torch.ones(2), torch.ones(3)
    records = {id(x): SimpleNamespace(constant=torch.ones(1)), id(y): SimpleNamespace(constant=None)}

    found = _forgotten_numbers(
        (([x], y), {"rank": 1, "more": unknown}), None, lambda tensor, *_: records.get(id(tensor))
    )

    assert len(found) == 1
    assert found[0] is x
    assert records[id(x)].constant is None


def lost(x):
    y = x.clone()
    dist.all_reduce(y, async_op=True)
    return y


def test_a_lost_wait_is_no_node():
    assert not any(node.target is wait for node in graph_of(lost, torch.ones(4)).nodes)


def test_a_collective_without_a_trace_runs_as_it_is():
    with fake_group(size=2), collectives_noted():
        x = torch.ones(4)
        assert dist.all_reduce(x) is None
        assert dist.all_reduce(x, async_op=True).wait()


def test_nothing_is_waited_for_where_no_collective_runs():
    assert wait(None, torch.ones(1)) is None
