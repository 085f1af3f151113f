"""A pass keeps the collectives of each group, their order, and the waits for them."""

from __future__ import annotations

import copy
import importlib
import importlib.util
import inspect

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from fixtures.process_groups import fake_group, needs_fake_group
from pytest_fxgraph.transform.collective_order import CollectiveOrder, _Call

pytestmark = needs_fake_group


@pytest.fixture(scope="module", autouse=True)
def world():
    """Be rank 0 of four."""
    with fake_group():
        yield


@pytest.fixture(scope="module")
def graph_module(world):
    """Return a graph with two reductions, a gather, and their waits."""
    ops = torch.ops._c10d_functional

    def model(x):
        name = torch.distributed.group.WORLD.group_name
        first, second = ops.all_reduce(x.sin(), "sum", name), ops.all_reduce(x.cos(), "sum", name)
        gathered = ops.all_gather_into_tensor(x, 4, name)
        return ops.wait_tensor(first) + ops.wait_tensor(second), ops.wait_tensor(gathered)

    return make_fx(model)(torch.linspace(0.5, 2, 8))


def node(graph, name):
    return next(each for each in graph.nodes if each.name == name)


def swap(graph):
    node(graph, "all_reduce").prepend(node(graph, "cos"))
    node(graph, "all_reduce").prepend(node(graph, "all_reduce_1"))


def drop(graph):
    node(graph, "all_reduce_1").replace_all_uses_with(node(graph, "cos"))
    graph.erase_node(node(graph, "all_reduce_1"))


def read_before_the_wait(graph):
    wait = node(graph, "wait_tensor_1")
    wait.replace_all_uses_with(node(graph, "all_reduce_1"))
    graph.erase_node(wait)


def reduce_otherwise(graph):
    call = node(graph, "all_reduce_1")
    call.args = (call.args[0], "max", call.args[2])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (reduce_otherwise, "all_reduce_1 of the group 0 is gone, and no all_reduce.sum. of as many bytes"),
        (swap, "all_reduce was called before all_reduce_1 in the group 0, and is called after it now"),
        (drop, "all_reduce_1 of the group 0 is gone, and no all_reduce.sum. of as many bytes takes its place"),
        (read_before_the_wait, "no node waits for all_reduce_1 any more"),
    ],
)
def test_a_pass_that_harms_the_order_is_told(fx_transform, graph_module, change, words):
    def harmful(given):
        change(given.graph)
        given.recompile()
        return given

    inputs = torch.linspace(0.5, 2, 8)
    with pytest.raises(AssertionError, match=f"harmful broke the order of collectives: {words}"):
        fx_transform(harmful, graph_module, inputs)
    assert fx_transform(harmful, graph_module, inputs, may_change="collectives").is_changed


def test_a_pass_that_waits_later_keeps_the_order(fx_transform, graph_module):
    def overlap(given):
        node(given.graph, "add").prepend(node(given.graph, "wait_tensor"))
        node(given.graph, "sin").append(node(given.graph, "cos"))
        given.recompile()
        return given

    with pytest.warns(UserWarning, match="overlap: the order of 3 collectives was checked, and their values were not"):
        assert fx_transform(overlap, graph_module, torch.linspace(0.5, 2, 8)).is_changed


_BUCKETING = "torch._inductor.fx_passes.bucketing"


@pytest.mark.skipif(importlib.util.find_spec(_BUCKETING) is None, reason=f"this torch has no {_BUCKETING}")
@pytest.mark.parametrize("kind", ["all_gather", "reduce_scatter", "all_reduce"])
def test_buckets_of_torch_keep_the_order(fx_transform, kind):
    bucketing = importlib.import_module(_BUCKETING)
    bucketed = getattr(bucketing, f"bucket_{kind}", None)
    if bucketed is None:
        pytest.skip(f"this torch has no bucket_{kind}")
    ops = torch.ops._c10d_functional

    def model(x):
        name = torch.distributed.group.WORLD.group_name
        calls = {
            "all_gather": lambda value: ops.all_gather_into_tensor(value, 4, name),
            "reduce_scatter": lambda value: ops.reduce_scatter_tensor(value, "sum", 4, name),
            "all_reduce": lambda value: ops.all_reduce(value, "sum", name),
        }
        first, second = (calls[kind](x * factor) for factor in (2, 3))
        return ops.wait_tensor(first) + 1, ops.wait_tensor(second) + 1

    def buckets(given):
        bucketed(given, lambda number: 1000.0)
        given.recompile()
        return given

    given = make_fx(model, tracing_mode="fake")(torch.linspace(0.5, 2, 8))
    result = fx_transform(buckets, given, torch.linspace(0.5, 2, 8))
    assert str(result.after.graph).count("wait_tensor.default") == 1


_OVERLAP = "torch._inductor.fx_passes.overlap_scheduling"


@pytest.mark.skipif(importlib.util.find_spec(_OVERLAP) is None, reason=f"this torch has no {_OVERLAP}")
def test_the_overlap_of_torch_keeps_the_order(fx_transform, monkeypatch):
    schedule = importlib.import_module(_OVERLAP).schedule_overlap_bucketing
    # torch asks triton for the speed of a GPU's memory.
    for place in ("torch.utils._runtime_estimation", "torch._inductor.utils"):
        if hasattr(importlib.import_module(place), "get_gpu_dram_gbps"):
            monkeypatch.setattr(f"{place}.get_gpu_dram_gbps", lambda: 1000)
    options = {"custom_runtime_estimation": lambda node, *_: 1.0, "compute_estimator": "analytical"}
    known = inspect.signature(schedule).parameters
    options = {name: value for name, value in options.items() if name in known}

    def model(x):
        reduced = torch.ops._c10d_functional.all_reduce(x, "sum", torch.distributed.group.WORLD.group_name)
        return torch.ops._c10d_functional.wait_tensor(reduced) + (x @ x) @ x

    def overlap(given):
        made = schedule(given, **options)
        made.recompile()
        return made

    given = make_fx(model, tracing_mode="fake")(torch.ones(8, 8))
    places = [each.name for each in fx_transform(overlap, given, torch.ones(8, 8)).after.graph.nodes]
    assert places.index("all_reduce") < places.index("mm") < places.index("wait_tensor")


def test_the_order_of_collectives_is_judged_by_waits_readers_places_and_bytes(graph_module):
    order = CollectiveOrder.of(graph_module.graph.nodes)
    first, second, gather = order.calls
    assert (first.waits, first.early_readers, first.bytes, gather.bytes) == (1, (), 32, 128)

    def harm(*after, before=order.calls):
        return CollectiveOrder(before).harm(CollectiveOrder(after)) or ""

    assert harm(*order.calls) == ""
    assert harm(first, second, gather._replace(name="g")) == ""
    assert harm(first, second._replace(waits=0), gather).startswith("no node waits for all_reduce_1 any more")
    assert harm(first, second._replace(early_readers=("add", "mul")), gather) == (
        "add, mul reads the result of all_reduce_1 before the wait for it"
    )
    read = second._replace(early_readers=("add",))
    assert harm(first, read, gather, before=(first, read, gather)) == ""
    assert harm(first, read._replace(early_readers=("add", "mul")), gather, before=(first, read, gather)) == ""


def test_collectives_of_one_group_keep_their_order_and_those_of_others_need_not(graph_module):
    first, second, gather = CollectiveOrder.of(graph_module.graph.nodes).calls
    other = second._replace(group="1")

    moved = CollectiveOrder((first, second, gather)).harm(CollectiveOrder((second, first, gather)))
    assert moved is not None
    assert moved.startswith("all_reduce was called before all_reduce_1 in the group 0, and is called after it now")
    assert CollectiveOrder((first, other, gather)).harm(CollectiveOrder((other, first, gather))) is None
    late = CollectiveOrder((first, other, gather)).harm(CollectiveOrder((gather, other, first)))
    assert late is not None
    assert "all_reduce was called before all_gather_into_tensor in the group 0" in late


@pytest.mark.parametrize(
    ("lost", "made", "is_gone"),
    [(32, [32], False), (32, [31], True), (32, [33], False), (32, [16, 16], False), (0, [], True), (0, [0], False)],
)
def test_another_collective_of_as_many_bytes_takes_the_place_of_one(graph_module, lost, made, is_gone):
    first, second, gather = CollectiveOrder.of(graph_module.graph.nodes).calls
    before = second._replace(bytes=lost)
    buckets = [before._replace(name=f"bucket_{place}", lineage=place, bytes=size) for place, size in enumerate(made)]

    harm = CollectiveOrder((first, before, gather)).harm(CollectiveOrder((first, *buckets, gather)))

    assert (harm or "").startswith("all_reduce_1 of the group 0 is gone, and no all_reduce(sum)") is is_gone
    assert CollectiveOrder((first, gather)).harm(CollectiveOrder((first, *buckets, gather))) is None


def test_only_a_fake_group_with_collectives_is_warned_of(graph_module, monkeypatch, recwarn):
    order = CollectiveOrder.of(graph_module.graph.nodes)

    CollectiveOrder(()).warn_of_fake_values("mine")
    monkeypatch.setattr(torch.distributed, "get_backend", lambda: "gloo")
    order.warn_of_fake_values("mine")
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: False)
    order.warn_of_fake_values("mine")
    assert not recwarn.list

    monkeypatch.undo()
    with pytest.warns(UserWarning, match="mine: the order of 3 collectives was checked") as told:
        order.warn_of_fake_values("mine")
    assert told[0].filename == __file__


def call(name, lineage, size=4, kind="all_reduce(sum)"):
    return _Call(name, kind, "0", size, lineage, 1, ())


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ([call("a", 1)], [call("b", 1)], None),  # the same call under another name
        ([call("a", 1)], [call("a", 2)], None),  # of another value, under the same name
        ([call("a", 1, 8)], [call("b", 2, 8)], None),
        ([call("a", 1, 8)], [call("b", 2, 4)], "a of the group 0 is gone"),
        ([call("a", 1, 2)], [call("b", 2, 1)], "a of the group 0 is gone"),
        ([call("a", 1, 0)], [], "a of the group 0 is gone"),  # of an unknown size
        ([call("a", 1, 0)], [call("b", 2, 0)], None),
        ([call("a", 1), call("b", 2)], [call("c", 3, 8)], None),  # a bucket
        ([call("a", 1), call("b", 2)], [call("c", 3, 7)], "a, b of the group 0 is gone"),
        # The name of a call that goes on under another name is taken by the call in place of the lost one.
        ([call("a", 1), call("c", 3, 8)], [call("b", 1), call("a", 2, 8)], None),
        ([call("a", 1)], [call("b", 2, kind="all_reduce(max)")], "a of the group 0 is gone"),
    ],
)
def test_lost_collectives_are_made_up_for_by_new_ones_of_as_many_bytes(before, after, words):
    harm = CollectiveOrder(tuple(before)).harm(CollectiveOrder(tuple(after)))

    assert harm is None if words is None else str(harm).startswith(words)


def test_names_of_nodes_do_not_tell_calls_apart_and_their_values_do(graph_module):
    renamed = copy.deepcopy(graph_module.graph)
    for number, each in enumerate(renamed.nodes):
        each.name = f"n{number}"

    first, second = (
        [call.lineage for call in CollectiveOrder.of([*graph.nodes]).calls] for graph in (graph_module.graph, renamed)
    )

    assert first == second
    assert len(set(first)) == 3
