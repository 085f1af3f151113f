"""`fx_ranks(..., backend="gloo")`: real ranks give the graphs of fake ones, and see what other ranks send."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

import fxcore
from fixtures.parallel_plans import data_parallel, fully_sharded, inputs, tensor_parallel
from fixtures.process_groups import needs_fake_group
from fixtures.process_groups import training_forks as training_forks
from pytest_fxgraph.captures import collective_trace
from pytest_fxgraph.document.builder import build_document
from pytest_fxgraph.document.encoding import encode
from pytest_fxgraph.errors import ChoiceError, RanksError
from pytest_fxgraph.ranks import sent_programs

pytestmark = [
    needs_fake_group,
    pytest.mark.skipif(not dist.is_available() or not dist.is_gloo_available(), reason="this torch has no gloo"),
]


def assert_same_program(real, fake):
    """Compare the goldens, collectives and costs of two programs, and each graph of a rank."""
    assert encode(build_document(real.as_graph_module())) == encode(build_document(fake.as_graph_module()))
    assert [*real.collectives] == [*fake.collectives]
    assert str(real.cost) == str(fake.cost)
    assert real.groups == fake.groups
    for rank, graph in fake.graphs.items():
        names = [(node.op, node.name, str(node.target)) for node in graph.graph.nodes]
        assert names == [(node.op, node.name, str(node.target)) for node in real.graphs[rank].graph.nodes]


def test_real_ranks_give_the_golden_of_fake_ones(fx_ranks):
    real, fake = (fx_ranks(tensor_parallel, inputs(), world_size=2, backend=name) for name in ("gloo", "fake"))
    real.assert_spmd()
    real.assert_matching_collectives()
    assert len(real.collectives.of_rank(1)) == 2
    assert_same_program(real, fake)


@pytest.mark.slow
@pytest.mark.usefixtures("training_forks")
@pytest.mark.parametrize("plan", [tensor_parallel, fully_sharded, data_parallel])
def test_training_steps_of_real_ranks_give_the_golden_of_fake_ones(fx_ranks, plan):
    made = [fx_ranks(plan, inputs(), world_size=2, mode="train", backend=name) for name in ("gloo", "fake")]
    assert_same_program(*made)


class Counted(nn.Module):
    """Reads as many columns as all ranks together count."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        count = torch.tensor(dist.get_rank() + 1)
        dist.all_reduce(count)
        return x[:, : count.item()]


def columns_of(programs):
    return [graph.graph.output_node().args[0].meta["val"].shape[1] for graph in programs.graphs.values()]


def test_a_graph_that_depends_on_an_exchanged_number_is_that_of_a_real_run(fx_ranks):
    programs = fx_ranks(lambda rank: Counted(), torch.ones(4, 4), world_size=2, backend="gloo")
    assert columns_of(programs) == [3, 3]
    programs.assert_spmd()
    assert columns_of(fx_ranks(lambda rank: Counted(), torch.ones(4, 4), world_size=2)) == [1, 2]


def wide_as_all_ranks(rank: int) -> nn.Module:
    width = torch.tensor(rank + 1)
    dist.all_reduce(width)
    return nn.Linear(int(width), 2)


def test_a_builder_may_exchange_tensors_and_some_ranks_return(fx_ranks):
    programs = fx_ranks(wide_as_all_ranks, torch.ones(1, 6), world_size=3, backend="gloo", ranks=[2])
    assert programs.world.size == 3
    assert [*programs.graphs] == [2]
    assert programs.graphs[2].get_parameter("weight").shape == (2, 6)


def test_a_real_rank_that_raises_is_told_with_what_the_others_wait_for(fx_ranks):
    def build(rank):
        if rank == 1:
            raise KeyError("no shard")
        return wide_as_all_ranks(rank)

    with pytest.raises(RanksError) as caught:
        fx_ranks(build, torch.ones(1, 3), world_size=2, backend="gloo", timeout=500)
    told = str(caught.value)
    assert "rank 1 of 2 failed in capture_of_rank: RanksError: cannot build the model of rank 1: KeyError:" in told
    assert "rank 0 waits in all_reduce, called in wide_as_all_ranks (test_sent_programs.py:" in told


def test_real_ranks_of_another_frontend_are_refused(fx_ranks):
    with pytest.raises(ChoiceError, match=re.escape("backend='gloo' records a run of each rank")):
        fx_ranks(tensor_parallel, inputs(), world_size=2, backend="gloo", frontend="aot")


class Importable(nn.Module):
    """A class that another process finds by its name."""


def sent(value):
    """Return a value as the process of the test receives it."""
    stream = io.BytesIO()
    torch.save(value, stream, pickle_module=sent_programs._PICKLE)
    return torch.load(io.BytesIO(stream.getvalue()), weights_only=False)


def test_a_graph_arrives_with_the_values_and_modules_of_its_nodes():
    class Traced(nn.Module):
        def forward(self, x):
            return x.t()

    with FakeTensorMode():
        x = torch.empty(2, 3, dtype=torch.float64, requires_grad=True)
        values = x, x.detach().t()
    graph_module = fxcore.symbolic_trace(Traced())
    nodes = list(graph_module.graph.nodes)
    for node, value in zip(nodes, values, strict=False):
        node.meta = {"val": value, "nn_module_stack": {"": ("", Traced)}, "other": object()}

    made = sent(graph_module)

    assert type(made).__name__ == type(graph_module).__name__
    assert str(made.graph) == str(graph_module.graph)
    first, second = (node.meta for node in list(made.graph.nodes)[:2])
    assert "other" not in first
    assert [type(each["val"]) for each in (first, second)] == [FakeTensor, FakeTensor]
    assert first["val"].fake_mode is second["val"].fake_mode
    assert (first["val"].dtype, first["val"].requires_grad) == (torch.float64, True)
    assert (second["val"].shape, second["val"].stride(), second["val"].requires_grad) == ((3, 2), (1, 3), False)
    kind = first["nn_module_stack"][""][1]
    assert (kind.__name__, kind.__module__, kind.__qualname__) == ("Traced", __name__, Traced.__qualname__)
    assert issubclass(kind, nn.Module)


def test_what_another_process_has_arrives_as_its_own():
    class Local:
        pass

    assert sent([Importable, collective_trace.wait]) == [Importable, collective_trace.wait]
    assert not issubclass(sent(Local), nn.Module)


def test_a_rank_that_is_not_wanted_sends_nothing(monkeypatch):
    monkeypatch.setattr(sent_programs, "program_of_rank", lambda request, rank: f"the program of {rank}")
    request: Any = None

    assert sent_programs.capture_of_rank(1, request, {0}) == b""
    stream = io.BytesIO(sent_programs.capture_of_rank(0, request, {0}))
    assert torch.load(stream, weights_only=False) == "the program of 0"
