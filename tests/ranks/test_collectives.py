"""Collectives of a graph: kind, bytes, sent bytes, parts, and the printed table."""

from __future__ import annotations

import operator

import pytest
import torch
import torch.distributed as dist
from torch import nn

import fxcore
from fixtures.parallel_plans import fully_sharded, inputs, tensor_parallel
from fixtures.process_groups import fake_group, needs_fake_group
from pytest_fxgraph.errors import RanksError
from pytest_fxgraph.ranks import collectives
from pytest_fxgraph.ranks.collectives import (
    Collective,
    Collectives,
    Communicator,
    collectives_of,
    communicators_by_name,
    hidden_collective,
)

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


def collective(kind="all_reduce", size=4, rank=0, **facts):
    given = {"dtype": "int8", "shapes": ((8,),), "bytes": 64, **facts}
    return Collective(rank, 0, kind, Communicator(tuple(range(size)), "tp"), **given)


@pytest.mark.parametrize(
    ("call", "sent"),
    [
        (collective(), 96),
        (collective("all_gather"), 48),
        (collective("reduce_scatter"), 48),
        (collective("all_to_all"), 48),
        (collective("gather", peer=0), 0),
        (collective("gather", peer=1), 16),
        (collective("scatter", peer=0), 48),
        (collective("scatter", peer=1), 0),
        (collective("broadcast", peer=1), 64),
        (collective("reduce", peer=1), 64),
        (collective("send", peer=1, size=2), 64),
        (collective("recv", peer=1), 0),
        (collective("barrier"), 0),
        (collective("broadcast", peer=0, size=1), 0),
        (collective(size=1), 0),
    ],
)
def test_each_kind_sends_the_bytes_of_its_algorithm(call, sent):
    assert call.sent == sent


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (collective(reduction="sum", shapes=((2, 3), (4,))), "all_reduce(sum) of int8[2, 3], int8[4] on tp"),
        (collective("gather", peer=0), "gather of int8[8] to rank 0 on tp"),
        (collective("reduce", peer=3, reduction="avg"), "reduce(avg) of int8[8] to rank 3 on tp"),
        (collective("scatter", peer=0), "scatter of int8[8] from rank 0 on tp"),
        (collective("barrier", shapes=(), dtype=""), "barrier on tp"),
    ],
)
def test_a_call_is_described_with_its_tensors_and_its_peer(call, text):
    assert call.text == text


def test_the_table_tells_what_is_not_known_and_lists_of_tensors():
    rows = [
        collective("barrier", shapes=(), dtype="", bytes=0),
        collective("all_gather", shapes=(), dtype="", bytes=0),
        collective("broadcast", shapes=((2,), (2,), (2,)), peer=1, bytes=4096),
        collective("all_to_all", shapes=((2,), (3,)), bytes=2000),
        collective(shapes=((2, 2),), reduction="sum", module="net"),
        collective("send", rank=5, size=6, peer=1, shapes=((2,),)),
    ]
    assert str(Collectives(rows)) == (
        "ranks  times  collective        group  dtype  shapes    bytes  sent   module\n"
        "0             barrier           tp                      0      0\n"
        "0             all_gather        tp                      ?      ?\n"
        "0             broadcast rank 1  tp     int8   3 x [2]   4,096  4,096\n"
        "0             all_to_all        tp     int8   [2], [3]  2,000  1,500\n"
        "0             all_reduce(sum)   tp     int8   [2, 2]    64     96     net\n"
        "5             send rank 1       tp     int8   [2]       64     64\n"
        "total on tp, rank 0: 5 collectives, 6,160 bytes, 5,692 sent\n"
        "total on tp, rank 5: 1 collective, 64 bytes, 64 sent"
    )


@pytest.mark.parametrize(
    ("modules", "folded"),
    [
        ("a b a b a b", ["x3 a", "x3 b"]),
        ("a b a b a", ["x2 a", "x2 b", "a"]),
        ("a a a b", ["x3 a", "b"]),
        ("a b c", ["a", "b", "c"]),
        ("a a b a a b", ["x2 a", "x2 a", "x2 b"]),
        ("a a a a", ["x4 a"]),
        ("h.0.up h.1.up", ["x2 h.*.up"]),
        ("h[0] h[1] 0.h 1.h", ["x2 h[*]", "x2 *.h"]),
        ("h_0 h_1 h2 h3", ["x2 h_*", "h2", "h3"]),
        ("h.0.up h.0.down", ["h.0.up", "h.0.down"]),
        (" ".join(f"m{place}" for place in range(64)) + " " + " ".join(f"m{place}" for place in range(64)), 64),
        (" ".join(f"m{place}" for place in range(65)) + " " + " ".join(f"m{place}" for place in range(65)), 130),
    ],
)
def test_repeated_blocks_are_folded(modules, folded):
    table = str(Collectives([collective(module=each) for each in modules.split()])).splitlines()[1:-1]
    rows = [line.split() for line in table]
    if isinstance(folded, int):
        assert len(rows) == folded
    else:
        shown = [" ".join([*([row[1]] if row[1].startswith("x") else []), row[-1]]) for row in rows]
        assert shown == folded


def called(target, *args, result=None, inner=False, communicators=None, **kwargs):
    """Return the collectives of a graph that calls one operator on tensors."""
    with fake_group(size=2):
        graph = fxcore.Graph()

        def as_node(value):
            if isinstance(value, list):
                return [as_node(each) for each in value]
            if not isinstance(value, torch.Tensor):
                return value
            node = graph.placeholder("x")
            node.meta["val"] = value
            return node

        call = graph.call_function(target, tuple(map(as_node, args)), kwargs)
        call.meta["val"] = torch.ones(2) if result is None else result
        graph.output(call)
        module = fxcore.GraphModule({}, graph)
        if inner:
            outer = fxcore.Graph()
            outer.call_module("inner", ())
            outer.output(None)
            module = fxcore.GraphModule({"inner": module}, outer)
        return collectives_of([module], 0, communicators or {})


PAIR = {"pair": Communicator((4, 6), "tp")}


@pytest.mark.parametrize(
    ("function", "kwargs", "peer"),
    [
        (dist.broadcast, {"src": 1}, 1),
        (dist.broadcast, {"group_src": 1}, 6),
        (dist.send, {"dst": 1}, 1),
        (dist.send, {"group_dst": 0}, 4),
        (dist.send, {"group_dst": 2}, 2),  # no rank of the group
        (dist.all_reduce, {}, None),
    ],
)
def test_a_peer_is_a_rank_of_the_world(function, kwargs, peer):
    (found,) = called(function, torch.ones(2), group="pair", communicators=PAIR, **kwargs)
    assert (found.peer, found.communicator) == (peer, PAIR["pair"])


def test_operators_name_a_peer_within_their_group():
    (found,) = called(torch.ops._c10d_functional.broadcast.default, torch.ones(2), 1, "pair", communicators=PAIR)
    assert (found.peer, found.communicator.text) == (6, "tp")


def test_a_call_without_a_group_is_of_the_world():
    (found,) = called(dist.all_reduce, torch.ones(2), communicators=PAIR)
    assert found.communicator == Communicator((0, 1))


def test_collectives_of_two_ranks_are_equal_whatever_their_nodes_are_named():
    assert collective(node="all_reduce_1", module="net", source="x = f(x)") == collective()


X, PARTS = torch.ones(3), [torch.ones(3), torch.ones(3)]
c10d = torch.ops.c10d


@pytest.mark.parametrize(
    ("called_operator", "arguments", "words", "message", "gives", "takes"),
    [
        (c10d.send, ([X], None, 1, 5), "send of float32[3] to rank 1 on ranks 0-1", 12, (), ()),
        (c10d.recv_, ([X], None, 1, 5), "recv of float32[3] from rank 1 on ranks 0-1", 12, (), ()),
        (c10d.recv_any_source_, ([X], None, 5), "recv of float32[3] on ranks 0-1", 12, (), ()),
        (c10d.gather_, ([PARTS], [X], None, 0), "gather of float32[3] to rank 0 on ranks 0-1", 24, (3,), (3,)),
        (c10d.gather_, ([], [X], None, 0), "gather of float32[3] to rank 0 on ranks 0-1", 24, (3,), ()),
        (c10d.scatter_, ([X], [PARTS], None, 0), "scatter of float32[3], float32[3] from rank 0 on ranks 0-1", 24, (3,),
         (3,)),
        (c10d.scatter_, ([X], [], None, 0), "scatter of float32[3] from rank 0 on ranks 0-1", 24, (), (3,)),
        (c10d.allreduce_, ([X], None, None, torch.ones(9)), "all_reduce of float32[3] on ranks 0-1", 12, (), ()),
        (c10d.barrier, (X, None, []), "barrier on ranks 0-1", 0, (), ()),
        (c10d.alltoall_, (PARTS, [torch.ones(1), torch.ones(5)], None), "all_to_all of float32[1], float32[5] on ranks "
         "0-1", 24, (1, 5), (3,)),
    ],
)  # fmt: skip
def test_a_call_of_an_operator_is_read_by_its_schema(called_operator, arguments, words, message, gives, takes):
    (found,) = called(called_operator.default, *arguments)
    assert (found.text, found.bytes, found.gives, found.takes) == (words, message, gives, takes)
    assert found.tag == (5 if "recv" in words or "send" in words else 0)
    assert found.awaited is None


@pytest.fixture
def batch():
    """The operator of several sends and receives at once, which torch 2.6 does not have."""
    functional = torch.ops._c10d_functional
    if not hasattr(functional, "batch_p2p_ops"):
        pytest.skip("this torch has no operator of several sends and receives")
    return functional.batch_p2p_ops.default


def test_a_batch_is_a_record_for_each_send_and_receive(batch):
    found = called(batch, ["isend", "irecv"], [1, 0], [7, 8], [X, torch.ones(5)], "pair", communicators=PAIR)
    assert [(each.text, each.tag, each.order, each.bytes, each.awaited) for each in found] == [
        ("send of float32[3] to rank 6 on tp", 7, 0, 12, None),
        ("recv of float32[5] from rank 4 on tp", 8, 1, 20, None),
    ]


def test_a_receive_is_awaited_by_the_wait_for_its_data(batch):
    functional = torch.ops._c10d_functional
    with fake_group(size=2):
        graph = fxcore.Graph()
        x = graph.placeholder("x")
        batch = graph.call_function(batch, (["irecv", "isend"], [1, 1], [0, 0], [x, x], "0"))
        alone = graph.call_function(functional.irecv.default, (x, 1, 0, "0"))
        graph.call_function(dist.recv, (x, 1))
        part = graph.call_function(operator.getitem, (batch, 0))
        graph.call_function(functional.wait_tensor.default, (part,))
        lost = graph.call_function(functional.irecv.default, (x, 1, 0, "0"))
        graph.call_function(functional.all_reduce.default, (x, "sum", "0"))
        graph.call_function(functional.wait_tensor.default, (alone,))
        graph.output(lost)
        for node in graph.nodes:
            node.meta["val"] = X
        found = collectives_of([fxcore.GraphModule({}, graph)], 0, {})

    assert [(each.kind, each.awaited) for each in found] == [
        ("recv", 4), ("send", None), ("recv", 6), ("recv", 4), ("recv", None), ("all_reduce", None),
    ]  # fmt: skip


def test_a_mesh_names_the_dimensions_of_its_groups():
    device_mesh = pytest.importorskip("torch.distributed.device_mesh")
    with fake_group(size=4):
        mesh = device_mesh.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        first, second = (dist.new_group([0, 1, 2]) for _ in range(2))
        found = communicators_by_name([mesh, torch.relu])
        names = [str(mesh.get_group(dimension).group_name) for dimension in ("dp", "tp")]
        numbers = [found[str(group.group_name)].text for group in (first, second)]

    assert [found[name] for name in names] == [Communicator((0, 2), "dp"), Communicator((0, 1), "tp")]
    assert numbers == ["ranks 0-2", "ranks 0-2 (group 2 of these ranks)"]


def test_the_tensor_of_a_scatter_is_written_and_that_of_others_is_given():
    (scattered,) = called(dist.scatter, X, PARTS, src=0)
    (sent,) = called(dist.broadcast, X, src=0)

    assert (scattered.text, scattered.gives, scattered.takes) == (
        "scatter of float32[3], float32[3] from rank 0 on ranks 0-1", (3,), (3,),
    )  # fmt: skip
    assert (scattered.bytes, sent.bytes, sent.shapes) == (24, 12, ((3,),))
    assert collective().tag == 0


class Spread(torch.Tensor):
    """Stands for a distributed tensor."""


@pytest.fixture
def hidden(monkeypatch):
    """Return a function that makes a graph of one call, and returns the name of the node that hides collectives."""
    monkeypatch.setattr(collectives, "is_distributed", lambda value: isinstance(value, Spread))

    def first_hidden(op, target, of_value=X, of_input=X, root=None):
        graph = fxcore.Graph()
        given = graph.get_attr("held") if root is not None and hasattr(root, "held") else graph.placeholder("x")
        call = graph.create_node(op, target, (given,))
        graph.output(call)
        call.meta["val"], given.meta["val"] = of_value, of_input
        found = hidden_collective(fxcore.GraphModule({} if root is None else root, graph))
        return None if found is None else found.op

    return first_hidden


SPREAD = X.as_subclass(Spread)


def holding(value):
    root = nn.Module()
    root.layer, root.held = nn.Linear(1, 1), value
    return root


@pytest.mark.parametrize(
    ("call", "op"),
    [
        (("call_method", "relu"), None),
        (("call_method", "redistribute"), "call_method"),
        (("call_method", "full_tensor"), "call_method"),
        (("call_function", torch.relu), None),
        (("call_function", torch.relu, SPREAD), "call_function"),
        (("call_function", torch.relu, X, SPREAD), "call_function"),
        (("call_method", "relu", X, SPREAD), "call_method"),
        (("call_method", "relu", (X, [SPREAD])), "call_method"),
        (("call_function", torch.relu, X, X, holding(X)), None),
        (("call_function", torch.relu, X, X, holding(SPREAD)), "call_function"),
        (("call_module", "layer", X, SPREAD, holding(X)), None),
    ],
)
def test_a_node_that_computes_with_distributed_tensors_hides_collectives(hidden, call, op):
    assert hidden(*call) == op


def test_a_module_with_distributed_parameters_hides_collectives(hidden):
    root = holding(X)
    root.layer.parameters = lambda: [SPREAD]

    assert hidden("call_module", "layer", X, X, root) == "call_module"


def test_collectives_are_counted_in_their_repr():
    assert repr(Collectives([collective()])) == "<1 collective>"
    assert repr(Collectives([])) == "<0 collectives>"


def test_collectives_of_inner_graphs_are_listed():
    functional = torch.ops._c10d_functional
    (found,) = called(functional.all_reduce.default, torch.ones(2), "sum", "0", inner=True)
    assert found.text == "all_reduce(sum) of float32[2] on ranks 0-1"


@pytest.mark.parametrize(
    ("name", "arguments", "result", "gives", "takes"),
    [
        ("all_gather_into_tensor", (torch.ones(3), 2, "0"), torch.ones(6), (3,), (3,)),
        ("reduce_scatter_tensor", (torch.ones(6), "sum", 2, "0"), torch.ones(3), (3,), (3,)),
        ("all_to_all_single", (torch.ones(6), [2, 4], [4, 2], "0"), torch.ones(6), (4, 2), (2, 4)),
        ("all_to_all_single", (torch.ones(6, 5), [6, 6], [2, 4], "0"), torch.ones(12, 5), (10, 20), (30, 30)),
        ("all_to_all_single", (torch.ones(6), [], [], "0"), torch.ones(6), (3,), (3,)),
        ("all_to_all_single", (torch.ones(1), [1, 0], [0, 1], "0"), torch.ones(1), (0, 1), (1, 0)),
        ("all_to_all_single", (torch.ones(0), [0, 0], [0, 0], "0"), torch.ones(0), (0, 0), (0, 0)),
        ("all_gather_into_tensor_coalesced", ([torch.ones(3), torch.ones(1)], 2, "0"), [torch.ones(6), torch.ones(2)],
         (4,), (4,)),
        ("broadcast", (torch.ones(3), 1, "0"), torch.ones(3), (), ()),
    ],
)  # fmt: skip
def test_the_parts_of_a_call_are_counted_in_elements(name, arguments, result, gives, takes):
    (found,) = called(getattr(torch.ops._c10d_functional, name).default, *arguments, result=result)
    assert (found.gives, found.takes) == (gives, takes)


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


def test_a_mesh_without_names_names_no_dimension():
    device_mesh = pytest.importorskip("torch.distributed.device_mesh")
    with fake_group(size=4):
        mesh = device_mesh.init_device_mesh("cpu", (4,))
        found = communicators_by_name([mesh])

    assert {each.ranks for each in found.values()} == {(0, 1, 2, 3)}
