"""Collectives of a graph: kind, bytes, sent bytes, parts, and the printed table."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from torch import nn

import fxcore
from fixtures.parallel_plans import fully_sharded, inputs, tensor_parallel
from fixtures.process_groups import fake_group, needs_fake_group
from pytest_fxgraph.errors import RanksError
from pytest_fxgraph.ranks.collectives import Collective, Collectives, Communicator, collectives_of

pytestmark = needs_fake_group


class EveryCall(nn.Module):
    """Calls the collectives of torch.distributed, a receive and a send among them, on 4 kB."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        size, rank = dist.get_world_size(), dist.get_rank()
        whole, part = x.new_empty(4 * size, 256), torch.empty_like(x)
        parts = [torch.empty_like(x) for _ in range(size)]
        dist.all_reduce(x, op=dist.ReduceOp.MAX)
        dist.all_gather(parts, x)
        dist.all_gather_into_tensor(whole, x)
        dist.reduce_scatter_tensor(part, whole)
        dist.all_to_all_single(torch.empty_like(whole), whole)
        dist.broadcast(x, 1)
        dist.scatter(part, parts if rank == 0 else None, 0)
        dist.recv(part, (rank - 1) % size)
        dist.send(x, (rank + 1) % size)
        dist.barrier()
        return x + part


@pytest.fixture(scope="module")
def programs():
    from pytest_fxgraph.ranks.fixture import FxRanks

    return FxRanks()(lambda rank: EveryCall(), torch.ones(4, 256), world_size=4, ranks=[0, 1])


def test_bytes_are_those_of_the_message_and_sent_bytes_those_of_a_ring(programs):
    found = [(each.kind, each.bytes, each.sent) for each in programs.collectives.of_rank(0)]
    assert found == [
        ("all_reduce", 4096, 6144),
        ("all_gather", 16384, 12288),
        ("all_gather", 16384, 12288),
        ("reduce_scatter", 16384, 12288),
        ("all_to_all", 16384, 12288),
        ("broadcast", 4096, 4096),
        ("scatter", 16384, 12288),
        ("recv", 4096, 0),
        ("send", 4096, 4096),
        ("barrier", 0, 0),
    ]
    assert {each.kind: each.sent for each in programs.collectives.of_rank(1)}["scatter"] == 0


def test_reductions_peers_and_waits_are_known(programs):
    calls = {each.kind: each for each in programs.collectives.of_rank(1)}
    assert calls["all_reduce"].text == "all_reduce(max) of float32[4, 256] on ranks 0-3"
    assert calls["recv"].text == "recv of float32[4, 256] from rank 0 on ranks 0-3"
    assert calls["recv"].awaited == calls["recv"].order + 1
    assert (calls["send"].peer, calls["broadcast"].peer) == (2, 1)
    assert (calls["reduce_scatter"].gives, calls["reduce_scatter"].takes) == ((1024,), (1024,))


def test_ranks_that_receive_first_are_found_without_a_run(programs):
    from pytest_fxgraph.ranks.fixture import FxRanks

    both = FxRanks()(lambda rank: EveryCall(), torch.ones(4, 256), world_size=2)
    with pytest.raises(AssertionError, match=r"rank 0 waits in recv of .* for a send of rank 1"):
        both.assert_matching_collectives()


def test_the_table_folds_ranks_and_blocks_and_has_totals():
    group = Communicator(tuple(range(4)), "tp")
    rows = [
        Collective(rank, 2 * block + half, kind, group, "float32", ((2, 8),), size, module=f"blocks.{block}.{module}")
        for rank in range(4)
        for block in range(12)
        for half, (kind, size, module) in enumerate([("all_gather", 256, "up"), ("reduce_scatter", 256, "down")])
    ]
    assert str(Collectives(rows)) == (
        "ranks  times  collective      group  dtype    shapes  bytes  sent  module\n"
        "0-3    x12    all_gather      tp     float32  [2, 8]  256    192   blocks.*.up\n"
        "0-3    x12    reduce_scatter  tp     float32  [2, 8]  256    192   blocks.*.down\n"
        "total on tp, each of ranks 0-3: 24 collectives, 6,144 bytes, 4,608 sent"
    )


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize(
    ("plan", "frontend", "reason"),
    [
        (tensor_parallel, "symbolic", r"blocks_0_up \(blocks.0.up\) computes with DTensors"),
        (tensor_parallel, "dynamo", "computes with DTensors, and its collectives are inside of it"),
        (fully_sharded, "aot", "hooks of FSDPModule call collectives outside of the graphs of frontend='aot'"),
    ],
)
def test_hidden_collectives_are_refused_by_name(fx_ranks, plan, frontend, reason):
    programs = fx_ranks(plan, inputs(), world_size=2, ranks=[0], frontend=frontend)
    with pytest.raises(RanksError, match=f"cannot list the collectives of rank 0: .*{reason}.*frontend='make_fx'"):
        assert programs.collectives
    with pytest.raises(RanksError, match="cannot match the collectives of rank 0"):
        programs.assert_matching_collectives()


@pytest.mark.parametrize(
    ("stack", "source"),
    [("", ""), ('  File "net.py", line 3, in forward\n    return self.reduce(x)\n', "return self.reduce(x)")],
)
def test_a_collective_knows_the_line_of_the_model_that_called_it(stack, source):
    with fake_group(size=2):
        graph = fxcore.Graph()
        x = graph.placeholder("x")
        group = dist.group.WORLD.group_name
        call = graph.call_function(torch.ops._c10d_functional.all_reduce.default, (x, "sum", group))
        graph.output(call)
        for node in (x, call):
            node.meta["val"] = torch.ones(2)
        call.meta["stack_trace"] = stack

        (collective,) = collectives_of([fxcore.GraphModule({}, graph)], 0, {})

    assert (collective.kind, collective.source) == ("all_reduce", source)
