from __future__ import annotations

import operator
import random

import pytest
import torch
import torch.fx
import torch.fx.passes.infra.partitioner as theirs
import torch.fx.passes.operator_support as their_support

import fxcore
from fixtures.torch_versions import TORCH
from fxcore.passes.infra.partitioner import CapabilityBasedPartitioner, Partition
from fxcore.passes.operator_support import create_op_support

UNARY = [torch.relu, torch.neg, torch.sigmoid]
BINARY = [torch.add, operator.add, torch.mul]


def random_graph(fx, seed, size=25):
    """Make the same graph in either fx: calls of one or two values, some tuples, several outputs."""
    dice = random.Random(seed)
    graph = fx.Graph()
    values = [graph.placeholder("x"), graph.placeholder("y")]
    for _ in range(size):
        kind = dice.randrange(8)
        if kind == 0:
            pair = graph.call_function(torch.max, (dice.choice(values), 0))
            values += [graph.call_function(operator.getitem, (pair, index)) for index in range(2)]
        elif kind < 4:
            values.append(graph.call_function(dice.choice(UNARY), (dice.choice(values[-6:]),)))
        else:
            values.append(graph.call_function(dice.choice(BINARY), (dice.choice(values), dice.choice(values[-4:]))))
    graph.output([values[-1], dice.choice(values), dice.choice(values)])
    return fx.GraphModule({}, graph)


def is_supported(submodules, node):
    return node.op == "call_function" and node.target in (torch.add, torch.relu, torch.mul, torch.max, operator.getitem)


def partitioners(seed, **options):
    ours = CapabilityBasedPartitioner(random_graph(fxcore, seed), create_op_support(is_supported), **options)
    expected = theirs.CapabilityBasedPartitioner(
        random_graph(torch.fx, seed), their_support.create_op_support(is_supported), **options
    )
    return ours, expected


def names(partitions):
    named = [(partition.id, [node.name for node in partition.nodes]) for partition in partitions]
    # Before torch 2.13, partitions and the nodes in them come in the order in which they were merged.
    return named if TORCH >= (2, 13) else sorted(sorted(nodes) for _, nodes in named)


def can_fuse(partitioner, partitions):
    try:
        partitioner.fuse_partitions(partitions)
    except AssertionError:  # a partition with a way out and back
        return False
    return True


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"allows_single_node_partition": True},
        {"non_compute_ops": ["torch.relu"]},
        {"allowed_single_node_partition_ops": ["torch.mul"]},
        {"skip_horizontal_fusion": True, "allows_single_node_partition": True},
    ],
    ids=lambda it: "-".join(it) or "plain",
)
@pytest.mark.parametrize("seed", range(30))
def test_partitions_are_those_of_torch(seed, options):
    ours, expected = partitioners(seed, **options)

    partitions, their_partitions = ours.propose_partitions(), expected.propose_partitions()

    proposed, expected_names = names(partitions), names(their_partitions)
    if can_fuse(expected, their_partitions):
        assert proposed == expected_names
    assert can_fuse(ours, partitions)


def test_partitions_that_torch_proposes_in_a_circle_are_not_proposed():
    options = {"skip_horizontal_fusion": True, "allows_single_node_partition": True}
    ours, expected = partitioners(1, **options)

    assert not can_fuse(expected, expected.propose_partitions())
    assert can_fuse(ours, ours.propose_partitions())


@pytest.mark.parametrize("seed", range(10))
def test_a_fused_module_reads_as_torchs_and_computes_what_the_original_does(seed):
    ours, expected = partitioners(seed)
    x, y = torch.randn(3), torch.randn(3)
    before = random_graph(fxcore, seed)

    fused = ours.partition_and_fuse()
    their_fused = expected.partition_and_fuse()

    if TORCH >= (2, 13):  # an older torch puts the nodes in another order
        assert str(fused.graph) == str(their_fused.graph)
        assert fused.code == their_fused.code
        assert [child.code for child in fused.children()] == [child.code for child in their_fused.children()]
    try:
        results = before(x, y)
    except (RuntimeError, IndexError):  # torch.max of what is no vector any more
        return
    torch.testing.assert_close(fused(x, y), results)


@pytest.mark.parametrize("seed", range(10))
def test_nodes_that_compute_nothing_leave_the_ends_as_in_torch(seed):
    ours, expected = partitioners(seed, non_compute_ops=["torch.relu", "_operator.getitem"])
    our_partitions, their_partitions = ours.propose_partitions(), expected.propose_partitions()

    ours.remove_bookend_non_compute_ops(our_partitions)
    expected.remove_bookend_non_compute_ops(their_partitions)

    assert names(our_partitions) == names(their_partitions)


def test_a_partition_that_a_value_would_leave_and_enter_again_is_not_made():
    def function(x):
        a = torch.relu(x)
        b = torch.neg(a)  # not supported
        return torch.add(a, b)

    gm = fxcore.symbolic_trace(function)
    support = create_op_support(is_supported)

    partitions = CapabilityBasedPartitioner(gm, support, allows_single_node_partition=True).propose_partitions()

    assert [[node.name for node in partition.nodes] for partition in partitions] == [["add"], ["relu"]]


def test_a_partition_holds_nodes_in_order():
    partition = Partition(3, ["a", "b"], [5, 4])

    partition.add_node("c")
    partition.remove_node("a")

    assert partition.size() == 2
    assert repr(partition) == "{'b': 4, 'c': None}"


def test_a_partition_needs_no_order():
    assert repr(Partition(3, ["a", "b"])) == "{'a': None, 'b': None}"
    assert Partition(3, None, [1]).size() == 0


def test_nodes_that_compute_nothing_stay_between_nodes_that_compute_and_leave_the_ends():
    def function(x):
        return torch.relu(torch.add(x[0], 1)[1])[2]

    gm = fxcore.symbolic_trace(function)
    support = create_op_support(lambda submodules, node: node.op.startswith("call_"))
    partitioner = CapabilityBasedPartitioner(gm, support, non_compute_ops=["_operator.getitem"])
    (partition,) = partitions = partitioner.propose_partitions()

    partitioner.remove_bookend_non_compute_ops(partitions)

    assert sorted(node.name for node in partition.nodes) == ["add", "getitem_1", "relu"]


def test_inputs_that_are_supported_are_part_of_a_partition():
    gm = fxcore.symbolic_trace(lambda x: torch.add(torch.relu(x), 1))
    support = create_op_support(lambda submodules, node: node.op != "output")
    partitioner = CapabilityBasedPartitioner(
        gm, support, non_compute_ops=["torch.relu"], allows_single_node_partition=True
    )

    (partition,) = partitions = partitioner.propose_partitions()
    assert [node.name for node in partition.nodes] == ["x", "relu", "add"]
    partitioner.remove_bookend_non_compute_ops(partitions)

    assert [node.name for node in partition.nodes] == ["x", "add"]


def test_items_whose_tuple_is_made_elsewhere_are_no_partition():
    gm = fxcore.symbolic_trace(lambda x: torch.max(x, 0)[1])
    support = create_op_support(lambda submodules, node: node.target is operator.getitem)

    assert CapabilityBasedPartitioner(gm, support, allows_single_node_partition=True).propose_partitions() == []
