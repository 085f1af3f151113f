from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.fx.passes.utils import source_matcher_utils as torchs

from fxcore import interop
from fxcore.passes.utils import source_matcher_utils as ours


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(2, 3), nn.Linear(3, 2)

    def forward(self, x):
        return torch.relu(self.second(torch.relu(self.first(x)))) + 1


@pytest.fixture(scope="module")
def exported():
    return torch.export.export(Model(), (torch.ones(1, 2),)).module()


def described(partitions):
    return {
        str(source): [
            [[node.name for node in nodes] for nodes in (each.nodes, each.output_nodes)]
            + [sorted(node.name for node in nodes) for nodes in (each.params, each.input_nodes)]
            for each in found
        ]
        for source, found in partitions.items()
    }


@pytest.mark.parametrize("wanted", [[nn.Linear], ["relu", nn.Linear], [torch.relu], [nn.Conv2d], []])
def test_partitions_are_those_of_torch(exported, wanted):
    theirs = torchs.get_source_partitions(exported.graph, wanted)

    mine = ours.get_source_partitions(interop.from_torch(exported).graph, wanted)

    assert described(mine) == described(theirs)


def test_a_filter_decides_about_whole_partitions(exported):
    graph = interop.from_torch(exported).graph

    partitions = ours.get_source_partitions(graph, [nn.Linear], lambda node: node.name != "linear")

    # Before torch 2.13, the parameters that a module reads belong to it, too.
    found = [[node.name for node in each.nodes if node.op == "call_function"] for each in partitions[nn.Linear]]
    assert found == [["linear_1"]]


def test_connection_goes_from_the_first_to_the_second(exported):
    graph = interop.from_torch(exported).graph
    linear = ours.get_source_partitions(graph, [nn.Linear])[nn.Linear]
    (relu,) = ours.get_source_partitions(graph, ["relu", torch.relu]).values()  # the name since torch 2.13

    assert ours.check_subgraphs_connected(linear[0], relu[0])
    assert not ours.check_subgraphs_connected(relu[0], linear[0])
    assert not ours.check_subgraphs_connected(linear[0], linear[1])


def test_classes_are_recognised_by_the_class_of_the_module(exported):
    graph = interop.from_torch(exported).graph
    linear = [node for node in graph.nodes if "linear" in node.name]
    for node in graph.nodes:
        for key in ("torch_fn", "source_fn_stack", "nn_module_stack"):
            node.meta.pop(key, None)
    for number, node in enumerate(linear):
        node.meta["nn_module_stack"] = {"": ("", Model), "inner": (f"inner{number}", nn.Linear)}

    assert len(ours.get_source_partitions(graph, [nn.Linear])[nn.Linear]) == len(linear) == 2
    assert ours.get_source_partitions(graph, [nn.Conv2d, torch.relu]) == {}


def test_classes_are_recognised_by_their_name_too(exported):
    graph = interop.from_torch(exported).graph
    for node in graph.nodes:
        if "nn_module_stack" in node.meta:
            node.meta["nn_module_stack"] = {
                key: (path, f"{kind.__module__}.{kind.__qualname__}" if isinstance(kind, type) else kind)
                for key, (path, kind) in node.meta["nn_module_stack"].items()
            }
        node.meta.pop("torch_fn", None)

    assert len(ours.get_source_partitions(graph, [nn.Linear])[nn.Linear]) == 2


@pytest.mark.parametrize("wanted", [[torch.relu], ["relu"], [nn.Linear], [nn.Module, torch.relu]])
def test_sources_of_dynamo_and_parameters_are_found_as_in_torch(wanted):
    gm = torch.fx.GraphModule(nn.Linear(2, 2), torch.fx.Graph())
    graph = gm.graph
    x, weight = graph.placeholder("x"), graph.get_attr("weight")
    linear = graph.call_function(torch.nn.functional.linear, (x, weight))
    relu = graph.call_function(torch.relu, (linear,))
    graph.output(relu)
    for node, source in ((weight, ("l", nn.Linear)), (linear, ("l", nn.Linear)), (relu, ("relu", torch.relu))):
        node.meta["source_fn_stack"] = [("outer", nn.Sequential), source]

    found = ours.get_source_partitions(interop.from_torch(gm).graph, wanted)

    assert described(found) == described(torchs.get_source_partitions(graph, wanted))
    if nn.Linear in wanted:
        assert [node.name for node in found[nn.Linear][0].params] == ["weight"]
