"""Kernels and their bytes against torch's own counters and program, for the same compilation."""

from collections import Counter

import pytest
import torch
from torch import nn

from fixtures.catalog import CATALOG
from fixtures.models.attention import SelfAttention
from fixtures.models.gpt_like import GptLike
from fixtures.models.mlp import MLP
from fixtures.models.sequences import BagOfWords, UnrolledGru
from pytest_fxgraph import capture
from pytest_fxgraph.captures import inductor_internals
from pytest_fxgraph.captures.kernels import EXTERN, FALLBACK


class Rows(nn.Module):
    """Reads and adds to some rows of a table."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(1000, 8)

    def forward(self, places, x):
        return self.table(places).sum(-1), torch.zeros(500, 4).index_add(0, places, x)


def of_catalog(name, mark=pytest.mark.slow):
    return pytest.param(CATALOG[name].build, CATALOG[name].example_inputs, id=name, marks=mark)


MODELS = [
    pytest.param(MLP, lambda: (torch.rand(2, 8),), id="mlp"),
    pytest.param(Rows, lambda: (torch.tensor([1, 7, 2]), torch.rand(3, 4)), id="rows"),
    pytest.param(SelfAttention, lambda: (torch.rand(2, 5, 16),), id="attention"),
    pytest.param(UnrolledGru, lambda: (torch.rand(2, 4),), id="unrolled_gru", marks=pytest.mark.slow),
    pytest.param(
        lambda: GptLike(layers=2), lambda: (torch.randint(0, 50, (2, 8)),), id="gpt_like", marks=pytest.mark.slow
    ),
    pytest.param(
        BagOfWords, lambda: (torch.randint(0, 9, (6,)), torch.tensor([0, 2, 5])), id="bag", marks=pytest.mark.slow
    ),
    *map(of_catalog, ("u_net", "conv_bn_relu", "resnet10")),
    of_catalog("mobilenetv2", pytest.mark.long),
]


@pytest.fixture
def compiled(monkeypatch):
    """The lowered graphs of captures, each with its kernels, and with torch's kernels and their bytes."""
    found = []
    plan_of = inductor_internals.plan_of

    def watched(graph, *args):
        virtualized = pytest.importorskip("torch._inductor.virtualized")
        plan = plan_of(graph, *args)
        nodes = [
            node
            for node in graph.scheduler.nodes
            if type(node).__name__ != "NopKernelSchedulerNode" and type(node.node).__name__ != "MultiOutput"
        ]
        with virtualized.V.set_graph_handler(graph):
            sizes = [node.get_read_write_buffers_sizes() for node in nodes]
            total = graph.count_bytes()[0]
        found.append((plan, nodes, sizes, total))
        return plan

    monkeypatch.setattr(inductor_internals, "plan_of", watched)
    return found


@pytest.mark.sampled(every=3, start=1)
@pytest.mark.parametrize(("make", "inputs"), MODELS)
def test_kernels_are_torch_s_nodes_with_torch_s_bytes(make, inputs, compiled):
    for mode in ("eval", "train"):
        capture(make(), inputs(), frontend="inductor", mode=mode)

    assert len(compiled) >= 3, "both forwards and the backward"
    for plan, nodes, sizes, total in compiled:
        assert len(plan.kernels) == len(nodes)
        assert sum(sizes) == total
        for kernel, node, size in zip(plan.kernels, nodes, sizes, strict=True):
            if len(node.get_nodes()) == 1:
                assert kernel.bytes == size, kernel
            else:  # torch takes all of a tensor of which a fused kernel reads a part
                assert 0 < kernel.bytes <= size, kernel
        targets = Counter(kernel.target for kernel in plan.kernels if kernel.kind in (EXTERN, FALLBACK))
        assert targets == {target: plan.code.count(f"{target}(") for target in targets}


def test_a_part_of_a_table_counts_as_a_part_in_a_fused_kernel_too(compiled):
    table = nn.Embedding(1000, 8)
    (kernel,) = capture(lambda places: table(places).softmax(-1), torch.tensor([1, 7]), frontend="inductor").kernels
    assert (kernel.bytes_read, kernel.bytes_written) == (2 * 8 + 2 * 8 * 4, 2 * 8 * 4)
    assert compiled[0][2][0] > table.weight.nbytes, "torch counts the whole table"
