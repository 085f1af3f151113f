"""Seed 002, the commit "writing transformations" to PyTorch's own manual: its three programs, with fxcore.

Mended in all of them: the transcript lost indentation, imports and every `node.target`, `node.name` and `x.name`.
"""

from __future__ import annotations

import torch
import torch.nn as nn
import torch.nn.functional as F

import fxcore as fx
from fxcore import GraphModule


class M(torch.nn.Module):
    def forward(self, x, y):
        return torch.add(x, y)


# Mended: `symbolice_trace`; `traced`, which is called `fx_model` here; lint() belongs to the graph, not to the module;
# and the module is returned, which the manual forgot.
def add_to_mul(m: nn.Module) -> nn.Module:
    fx_model: GraphModule = fx.symbolic_trace(m)
    for node in fx_model.graph.nodes:
        if node.op == "call_function":  # noqa: SIM102 (the manual's own lines)
            if node.target == torch.add:
                node.target = torch.mul
    fx_model.graph.lint()
    fx_model.recompile()
    return fx_model


# Mended: `new_node` reads `node`, so replacing all uses would make it read itself; it gets its argument back.
def append_relu(traced: GraphModule, node: fx.Node) -> None:
    with traced.graph.inserting_after(node):
        new_node = traced.graph.call_function(torch.relu, args=(node,))
        node.replace_all_uses_with(new_node)
    new_node.args = (node,)


def relu_decomposition(x):
    return (x > 0) * x


decomposition_rules = {}
decomposition_rules[F.relu] = relu_decomposition


def decompose(model: torch.nn.Module) -> torch.nn.Module:
    model = fx.symbolic_trace(model)
    new_graph = fx.Graph()
    env = {}
    for node in model.graph.nodes:
        if node.op == "call_function" and node.target in decomposition_rules:
            proxy_args = [fx.Proxy(env[x.name]) if isinstance(x, fx.Node) else x for x in node.args]
            new_node = decomposition_rules[node.target](*proxy_args).node
            env[node.name] = new_node
        else:
            new_node = new_graph.node_copy(node, lambda x: env[x.name])
            env[node.name] = new_node
    return fx.GraphModule(model, new_graph)


def test_add_becomes_mul():
    transformed = add_to_mul(M())

    assert torch.equal(transformed(torch.tensor(2.0), torch.tensor(3.0)), torch.tensor(6.0))
    assert "torch.mul(x, y)" in transformed.code


def test_a_relu_is_appended_after_a_node():
    traced = fx.symbolic_trace(M())
    (node,) = [node for node in traced.graph.nodes if node.target is torch.add]

    append_relu(traced, node)

    traced.graph.lint()
    traced.recompile()
    assert torch.equal(traced(torch.tensor([1.0, -3.0]), torch.tensor([1.0, 1.0])), torch.tensor([2.0, 0.0]))


def test_as_the_manual_writes_it_the_appended_relu_reads_itself():
    traced = fx.symbolic_trace(M())
    (node,) = [node for node in traced.graph.nodes if node.target is torch.add]

    with traced.graph.inserting_after(node):
        new_node = traced.graph.call_function(torch.relu, args=(node,))
        node.replace_all_uses_with(new_node)

    assert new_node.args == (new_node,)


def test_relu_is_decomposed_by_calling_the_rule_with_proxies():
    class Relu(nn.Module):
        def forward(self, x):
            return F.relu(x) + 1

    x = torch.tensor([-1.0, 0.0, 2.0])

    decomposed = decompose(Relu())

    assert [node.name for node in decomposed.graph.nodes] == ["x", "gt", "mul", "add", "output"]
    assert torch.equal(decomposed(x), F.relu(x) + 1)
