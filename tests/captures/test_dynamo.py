"""Sizes and meshes that Dynamo makes inputs of a graph have names that no version of torch decides about."""

from __future__ import annotations

import torch

import fxcore
from pytest_fxgraph.captures.dynamo import name_inputs


def test_inputs_that_are_sizes_are_numbered_past_the_names_that_are_taken():
    graph = fxcore.Graph()
    graph.placeholder("s77", type_expr=torch.SymInt)
    x = graph.placeholder("x")
    graph.placeholder("s3", type_expr=torch.SymInt)
    graph.output(graph.create_node("call_function", torch.relu, (x,), name="size_1"))
    module = fxcore.GraphModule(torch.nn.Module(), graph)

    name_inputs(module)

    assert [node.name for node in graph.nodes] == ["size_0", "x", "size_2", "size_1", "output"]
    assert [node.target for node in graph.find_nodes(op="placeholder")] == ["size_0", "x", "size_2"]


class MeshLike:
    mesh_dim_names = ("tp",)


def test_inputs_that_are_meshes_are_numbered():
    graph = fxcore.Graph()
    x = graph.placeholder("x")
    graph.placeholder("l_self_modules_up_forward_pre_hooks_0_closure_0_cell_contents")
    graph.output(x)

    name_inputs(fxcore.GraphModule(torch.nn.Module(), graph), [torch.ones(2), MeshLike()])

    assert [node.target for node in graph.find_nodes(op="placeholder")] == ["x", "mesh_0"]
