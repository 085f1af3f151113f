from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
import torch.fx
import torch.fx.passes.split_utils as theirs
from torch import nn

import fxcore
from fxcore.passes.shape_prop import ShapeProp
from fxcore.passes.split_utils import (
    Component,
    getattr_recursive,
    move_non_tensor_nodes_on_boundary,
    setattr_recursive,
    split_by_tags,
)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        self.weight = nn.Parameter(torch.randn(4))

    def forward(self, x, y):
        a = self.first(x) * self.weight
        b = self.second(y) + self.weight
        c = torch.cat([a, b])
        return {"c": c.relu(), "a": a, "weight": self.weight}


TAGS = {"first": "left", "mul": "left", "second_0": "right", "second_1": "right", "add": "right"}


def tagged(fx):
    gm = fx.symbolic_trace(Model() if fx is torch.fx else MODEL)
    for node in gm.graph.nodes:
        if node.op.startswith("call_"):
            node.tag = TAGS.get(node.name, "main")
    return gm


MODEL = Model()


@pytest.mark.parametrize("tuples", [False, True])
def test_a_split_by_tags_reads_as_torchs(tuples):
    tags = ["left", "right", "main"]

    ours, our_paths = split_by_tags(tagged(fxcore), tags, return_fqn_mapping=True, return_tuple=tuples)
    expected, paths = theirs.split_by_tags(tagged(torch.fx), tags, return_fqn_mapping=True, return_tuple=tuples)

    assert str(ours.graph) == str(expected.graph)
    assert str(ours) == str(expected)
    assert [getattr(ours, tag).code for tag in tags] == [getattr(expected, tag).code for tag in tags]
    assert our_paths == paths
    x, y = torch.randn(2, 4), torch.randn(2, 4)
    torch.testing.assert_close(ours(x, y), MODEL(x, y))


def test_results_stand_in_the_order_of_their_first_use_as_torchs_do():
    def two_results(x):
        a, b = x.neg(), x.exp()
        late, early = b.abs(), a.abs()  # `late` has the later tag, and comes first
        return late + early

    tags = {"neg": "first", "exp": "first", "abs_1": "third", "abs_2": "second", "add": "third"}

    def split(fx, split_by):
        gm = fx.symbolic_trace(two_results)
        for node in gm.graph.nodes:
            node.tag = tags.get(node.name)
        return split_by(gm, ["first", "second", "third"])

    ours, expected = split(fxcore, split_by_tags), split(torch.fx, theirs.split_by_tags)

    assert ours.first.code == expected.first.code
    assert "return (exp, neg)" in ours.first.code
    assert str(ours.graph) == str(expected.graph)


def test_the_result_is_of_the_class_asked_for():
    class Own(fxcore.GraphModule):
        pass

    split = split_by_tags(tagged(fxcore), ["left", "right", "main"], GraphModuleCls=Own)

    assert isinstance(split, Own)


def test_a_call_without_a_tag_is_refused_by_name():
    gm = fxcore.symbolic_trace(lambda x: x + 1)

    with pytest.raises(AssertionError, match="Node does not have tag: %add"):
        split_by_tags(gm, ["left"])


def test_a_value_of_a_later_tag_is_refused():
    with pytest.raises(AssertionError, match=r"Component main order must be >= max of its upstream .*cat reads"):
        split_by_tags(tagged(fxcore), ["main", "left", "right"])


def test_a_graph_without_output_is_refused():
    graph = fxcore.Graph()
    graph.placeholder("x")

    with pytest.raises(RuntimeError, match="Graph had no output node!"):
        split_by_tags(fxcore.GraphModule({}, graph), [])


def test_a_component_starts_empty():
    component = Component(fxcore.Graph(), 0, "left")

    assert component.orig_inputs == component.orig_outputs == []
    assert component.gm is None


def test_dotted_attributes_are_read_and_set():
    model = Model()
    model.several = nn.ModuleList([nn.Linear(1, 1)])

    setattr_recursive(model, "second.0.extra", 5)

    assert getattr_recursive(model, "second.0.extra") == 5
    assert getattr_recursive(model, "several.0") is model.several[0]
    assert getattr_recursive(model, "several.7.weight") is None
    assert getattr_recursive(model, "second.gone.weight") is None


@dataclass
class Run:
    nodes: list
    is_acc: bool


def sizes(x, y):
    a = torch.relu(x)
    size = a.size(0)
    double = size * 2
    b = torch.neg(y)
    return b.sum() * double


def runs(gm, propagate):
    propagate(gm).propagate(torch.randn(2, 3), torch.randn(3))
    nodes = {node.name: node for node in gm.graph.nodes}
    return [
        Run([nodes["relu"], nodes["size"], nodes["mul"]], is_acc=True),
        Run([nodes["neg"], nodes["sum_1"], nodes["mul_1"]], is_acc=False),
    ]


def test_nodes_without_tensors_move_to_the_subgraph_that_reads_them():
    from torch.fx.passes.shape_prop import ShapeProp as TorchShapeProp

    ours = runs(fxcore.symbolic_trace(sizes), ShapeProp)
    expected = runs(torch.fx.symbolic_trace(sizes), TorchShapeProp)

    move_non_tensor_nodes_on_boundary(ours)
    theirs.move_non_tensor_nodes_on_boundary(expected)

    assert [[node.name for node in run.nodes] for run in ours] == [
        ["relu"],
        ["neg", "sum_1", "mul_1", "mul", "size"],
    ]
    assert [{node.name for node in run.nodes} for run in ours] == [
        {node.name for node in run.nodes} for run in expected
    ]


def test_a_node_that_several_subgraphs_read_stays():
    gm = fxcore.symbolic_trace(sizes)
    first, second = runs(gm, ShapeProp)
    third = Run([second.nodes.pop()], is_acc=False)
    second.nodes[0].args = (first.nodes[2],)

    move_non_tensor_nodes_on_boundary([first, second, third])

    assert [node.name for node in first.nodes] == ["relu", "size", "mul"]


def test_a_node_stays_with_a_node_that_another_subgraph_reads():
    def two_readers(x, y):
        size = torch.relu(x).size(0)
        double = size * 2
        return torch.neg(y).sum() * size * double

    def subgraphs(fx, propagate):
        gm = fx.symbolic_trace(two_readers)
        propagate(gm).propagate(torch.randn(2, 3), torch.randn(3))
        nodes = {node.name: node for node in gm.graph.nodes}
        parts = (["relu", "size", "mul"], ["neg", "sum_1", "mul_1"], ["mul_2"])
        return [Run([nodes[name] for name in names], is_acc=not number) for number, names in enumerate(parts)]

    from torch.fx.passes.shape_prop import ShapeProp as TorchShapeProp

    def moved(runs, move):
        move(runs)
        return [{node.name for node in run.nodes} for run in runs]

    ours = moved(subgraphs(fxcore, ShapeProp), move_non_tensor_nodes_on_boundary)

    assert [len(names) for names in ours] == [2, 3, 2]
    if hasattr(theirs, "move_non_tensor_nodes_on_boundary"):  # torch 2.6 lacks it
        expected = subgraphs(torch.fx, TorchShapeProp)
        assert ours == moved(expected, theirs.move_non_tensor_nodes_on_boundary)


def test_a_size_that_stays_holds_no_other_size_back():
    def several(x, y):
        a = torch.relu(x)
        shared = a.size(0)
        moving = a.size(1)
        outside = a.dim()
        return y * shared * moving, y + shared, y - outside

    gm = fxcore.symbolic_trace(several)
    ShapeProp(gm).propagate(torch.randn(2, 3), torch.randn(3))
    nodes = {node.name: node for node in gm.graph.nodes}
    names = (["relu", "size", "size_1", "dim"], ["mul", "mul_1"], ["add"])  # sub is in no subgraph
    parts = [Run([nodes[name] for name in part], is_acc=not number) for number, part in enumerate(names)]

    move_non_tensor_nodes_on_boundary(parts)

    assert [[node.name for node in part.nodes] for part in parts] == [
        ["relu", "size", "dim"],
        ["mul", "mul_1", "size_1"],
        ["add"],
    ]


def test_a_size_that_moved_along_with_another_is_not_moved_again():
    def chained(x, y):
        a = torch.relu(x)
        size = a.size(0)
        double = size * 2
        return y * size, y + double, y - a.size(1)

    gm = fxcore.symbolic_trace(chained)
    ShapeProp(gm).propagate(torch.randn(2, 3), torch.randn(3))
    nodes = {node.name: node for node in gm.graph.nodes}
    names = (["relu", "size", "mul", "size_1"], ["mul_1", "add", "sub"])
    parts = [Run([nodes[name] for name in part], is_acc=not number) for number, part in enumerate(names)]

    move_non_tensor_nodes_on_boundary(parts)

    assert [sorted(node.name for node in part.nodes) for part in parts] == [
        ["relu"],
        ["add", "mul", "mul_1", "size", "size_1", "sub"],
    ]
