from __future__ import annotations

import operator

import pytest
import torch
import torch.fx
import torch.fx.passes.utils.fuser_utils as theirs
from torch import nn

import fxcore
from fixtures.torch_versions import TORCH
from fxcore.passes.utils.fuser_utils import (
    fuse_as_graphmodule,
    fuse_by_partitions,
    insert_subgm,
    stable_topological_sort,
    topo_sort,
    validate_partition,
)


def test_nodes_in_order_stay_the_very_same():
    gm = fxcore.symbolic_trace(lambda x, y: torch.relu(x) + y)
    nodes = list(gm.graph.nodes)

    assert stable_topological_sort(gm) is gm

    assert list(gm.graph.nodes) == nodes


def test_nodes_out_of_order_are_moved_and_the_module_recompiled():
    graph = fxcore.Graph()
    x = graph.placeholder("x")
    neg = graph.call_function(torch.neg, (x,))
    other = graph.call_function(torch.abs, (x,))
    add = graph.call_function(operator.add, (neg, other))
    graph.output(add)
    gm = fxcore.GraphModule({}, graph)
    relu = graph.call_function(torch.relu, (x,))  # after the output
    neg.args = (relu,)

    stable_topological_sort(gm)

    assert [node.name for node in graph.nodes] == ["x", "abs_1", "relu", "neg", "add", "output"]
    graph.lint()
    assert torch.equal(gm(torch.ones(2)), torch.zeros(2))


def test_nodes_in_a_circle_are_refused():
    gm = fxcore.symbolic_trace(lambda x: torch.relu(torch.neg(x)))
    _, neg, relu, _ = gm.graph.nodes
    neg.args = (relu,)

    with pytest.raises(AssertionError, match="cycles: these nodes read one another in a circle: neg, relu"):
        topo_sort(list(gm.graph.nodes))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.weight = nn.Parameter(torch.randn(4))
        self.deep = nn.Sequential(nn.Linear(4, 4))

    def forward(self, a, b, c):
        add = a + b
        linear = self.linear(add)
        scaled = linear * self.weight
        deep = self.deep(scaled)
        return deep + c, linear, scaled.relu()


def named(gm, *names):
    nodes = {node.name: node for node in gm.graph.nodes}
    return [nodes[name] for name in names]


GROUPS = [
    [["linear", "add"]],
    [["add", "linear"], ["mul", "deep_0"]],
    [["add", "linear", "mul", "weight", "deep_0"]],
    [["relu"]],
]


@pytest.mark.parametrize("always_tuple", [False, True])
@pytest.mark.parametrize("groups", GROUPS, ids=lambda groups: "+".join(map("-".join, groups)))
def test_fused_modules_read_as_torchs(groups, always_tuple):
    model = Model()
    ours, expected = fxcore.symbolic_trace(model), torch.fx.symbolic_trace(model)
    inputs = torch.randn(2, 4), torch.randn(2, 4), torch.randn(2, 4)

    for module, fuse in ((ours, fuse_by_partitions), (expected, theirs.fuse_by_partitions)):
        fuse(module, [dict.fromkeys(named(module, *group)) for group in groups], "f_", always_return_tuple=always_tuple)

    if TORCH >= (2, 13):
        assert str(ours.graph) == str(expected.graph)
        assert ours.code == expected.code
        assert str(ours) == str(expected)
    else:  # an older torch puts all nodes in another order, where only the fused ones have to move
        assert sorted(str(ours.graph).splitlines()) == sorted(str(expected.graph).splitlines())
    assert str(ours.f_0.graph) == str(expected.f_0.graph)
    torch.testing.assert_close(ours(*inputs), model(*inputs))


def test_a_partition_with_a_way_out_and_back_is_not_valid():
    gm = fxcore.symbolic_trace(Model())

    assert validate_partition(named(gm, "add", "linear", "mul"))
    assert not validate_partition(named(gm, "add", "mul"))
    with pytest.raises(AssertionError, match=r"Invalid partition, found dependency cycles.*\(add, mul\)"):
        fuse_as_graphmodule(gm, named(gm, "add", "mul"), "fused")


def test_nodes_of_another_module_are_refused():
    gm, other = fxcore.symbolic_trace(Model()), fxcore.symbolic_trace(Model())

    with pytest.raises(AssertionError, match="add doesn't belong to passed in graph module Model"):
        fuse_as_graphmodule(gm, named(other, "add"), "fused")


def test_a_module_without_outputs_needs_a_place():
    gm = fxcore.symbolic_trace(Model())
    graph = fxcore.Graph()
    graph.output(())

    with pytest.raises(AssertionError, match="Cannot determine insertion point"):
        insert_subgm(gm, fxcore.GraphModule({}, graph, "empty"), (), ())


def test_nodes_are_sorted_and_keep_their_order_where_they_may():
    gm = fxcore.symbolic_trace(Model())
    nodes = named(gm, "relu", "mul", "linear", "add")

    assert [node.name for node in topo_sort(nodes)] == ["add", "linear", "mul", "relu"]


def test_a_node_that_is_erased_is_refused():
    gm = fxcore.symbolic_trace(lambda x: torch.relu(x) + 1)
    nodes = named(gm, "relu", "add")
    nodes[1].replace_all_uses_with(nodes[0])
    gm.graph.erase_node(nodes[1])

    with pytest.raises(AssertionError, match="add has been removed from owning graph; it cannot be fused"):
        fuse_as_graphmodule(gm, nodes, "fused")


def test_values_that_leave_the_nodes_are_outputs_unless_a_table_holds_their_readers():
    gm = fxcore.symbolic_trace(Model())
    nodes = named(gm, "add", "linear")

    alone = fuse_as_graphmodule(gm, nodes, "alone")
    with_all_readers = fuse_as_graphmodule(gm, nodes, "all", dict.fromkeys(gm.graph.nodes))

    assert ([str(each) for each in alone[1]], [str(each) for each in alone[2]]) == (["a", "b"], ["linear"])
    assert with_all_readers[2] == ()


def test_the_call_of_a_fused_part_has_the_metadata_of_its_result():
    gm = fxcore.symbolic_trace(lambda x: torch.neg(torch.relu(x)) + 1)
    (neg,) = named(gm, "neg")
    neg.meta["note"] = "kept"

    fuse_by_partitions(gm, [dict.fromkeys(named(gm, "relu", "neg"))])

    (call,) = gm.graph.find_nodes(op="call_module")
    assert call.meta["note"] == "kept"


@pytest.mark.parametrize("place", [None, 3])
def test_the_call_of_a_fused_part_goes_after_its_last_output_or_after_the_given_node(place):
    gm = fxcore.symbolic_trace(lambda x: torch.neg(torch.relu(x)) + torch.relu(x).abs())
    nodes = list(gm.graph.nodes)
    fused, inputs, outputs = fuse_as_graphmodule(gm, [nodes[1]], "part")

    insert_subgm(gm, fused, inputs, outputs, None if place is None else nodes[place])

    names = [node.name for node in gm.graph.nodes]
    assert names.index("part") == (2 if place is None else place + 1)


@pytest.mark.parametrize("always_tuple", [False, True])
def test_the_values_of_a_fused_part_have_the_metadata_of_the_old_ones(always_tuple):
    gm = fxcore.symbolic_trace(lambda x: (torch.neg(torch.relu(x)), torch.abs(x)))
    nodes = list(gm.graph.nodes)
    nodes[2].meta.update(tag="of neg", val=2)
    nodes[3].meta.update(tag="of abs", val=3)

    fuse_by_partitions(gm, [dict.fromkeys(nodes[1:3])], always_return_tuple=always_tuple)

    (read,) = [node for node in gm.graph.output_node().all_input_nodes if node.name != "abs_1"]
    assert read.target == (operator.getitem if always_tuple else "fused_0")
    assert read.meta["tag"] == "of neg"
