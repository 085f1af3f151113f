"""Seed 001, a notebook that introduces FX: each of its cells, with fxcore, and the output that the cell shows."""

from __future__ import annotations

import torch
import torch.nn as nn
import torch.nn.functional as F

import fxcore
import fxcore as fx
from fixtures.transcript import Transcript
from fxcore import symbolic_trace


class Clamped(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.param = torch.nn.Parameter(torch.rand(3, 4))
        self.linear = torch.nn.Linear(4, 5)

    def forward(self, x):
        return self.linear(x + self.param).clamp(min=0.0, max=1.0)


class TopK(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.param = torch.nn.Parameter(torch.rand(3, 4))
        self.linear = torch.nn.Linear(4, 5)

    def forward(self, x):
        return torch.topk(torch.sum(self.linear(x + self.linear.weight).relu(), dim=-1), 3)


class Adds(torch.nn.Module):
    def forward(self, x, y):
        return torch.add(x, y)


class ConvBNPattern(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3)
        self.bn = nn.BatchNorm2d(16)

    def forward(self, x):
        return self.bn(self.conv(x))


class ConvBNFused(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3)

    def forward(self, x):
        return self.conv(x)


def test_cells_6_and_7_print_graph_and_code(capsys):
    symbolic_traced: fxcore.GraphModule = symbolic_trace(Clamped())

    print(symbolic_traced.graph)
    graph = Transcript(capsys.readouterr().out)
    print(symbolic_traced.code)
    code = Transcript(capsys.readouterr().out)

    assert graph.is_exactly(
        """
        graph():
            %x : [num_users=1] = placeholder[target=x]
            %param : [num_users=1] = get_attr[target=param]
            %add : [num_users=1] = call_function[target=operator.add](args = (%x, %param), kwargs = {})
            %linear : [num_users=1] = call_module[target=linear](args = (%add,), kwargs = {})
            %clamp : [num_users=1] = call_method[target=clamp](args = (%linear,), kwargs = {min: 0.0, max: 1.0})
            return clamp
        """
    )
    assert code.is_exactly(
        """
        def forward(self, x):
            param = self.param
            add = x + param;  x = param = None
            linear = self.linear(add);  add = None
            clamp = linear.clamp(min = 0.0, max = 1.0);  linear = None
            return clamp
        """
    )


def test_cell_8_builds_a_new_graph_with_a_relu_before_each_linear():
    def transform(m: torch.nn.Module, tracer_class: type = fxcore.Tracer) -> torch.nn.Module:
        graph: fxcore.Graph = tracer_class().trace(m)
        for node in graph.nodes:
            if node.op == "call_module" and "linear" in node.target:
                with graph.inserting_before(node):
                    relu_node = graph.create_node("call_function", torch.relu, args=(node.args[0],))
                node.args = (relu_node,)
        return fxcore.GraphModule(m, graph)

    model = Clamped()
    x = torch.randn(3, 4)

    transformed = transform(model)

    transformed.graph.lint()
    assert [node.name for node in transformed.graph.nodes] == ["x", "param", "add", "relu", "linear", "clamp", "output"]
    assert torch.equal(transformed(x), model.linear(torch.relu(x + model.param)).clamp(0.0, 1.0))


def test_cell_10_walks_the_graph_in_place_and_changes_nothing():
    def transform(m: torch.nn.Module) -> torch.nn.Module:
        gm: fxcore.GraphModule = fxcore.symbolic_trace(m)
        for node in gm.graph.nodes:
            if node.op == "call_module" and "linear" in node.target:
                with gm.graph.inserting_after(node):
                    pass
        gm.recompile()
        return gm

    model = Clamped()
    x = torch.randn(3, 4)

    assert torch.equal(transform(model)(x), model(x))


def test_cells_11_and_12_print_tables_before_and_after_an_insertion(capsys):
    gm = fxcore.symbolic_trace(TopK())

    gm.graph.print_tabular()
    before = Transcript(capsys.readouterr().out)
    for node in gm.graph.nodes:
        if node.op == "call_module" and node.target == "linear":
            with gm.graph.inserting_before(node):
                const_node = gm.graph.create_node("call_function", torch.add, args=(node.args[0], torch.tensor(1.0)))
            node.args = (const_node,)
    gm.recompile()
    gm.graph.print_tabular()
    after = Transcript(capsys.readouterr().out)

    # The notebook was cut at its margin: the last line shown of each table, and all that follows, is incomplete.
    assert before.begins_with(
        """
        opcode         name           target                                                   args                kwargs
        -------------  -------------  -------------------------------------------------------  ------------------  -----------
        placeholder    x              x                                                        ()                  {}
        get_attr       linear_weight  linear.weight                                            ()                  {}
        call_function  add            <built-in function add>                                  (x, linear_weight)  {}
        call_module    linear         linear                                                   (add,)              {}
        call_method    relu           relu                                                     (linear,)           {}
        call_function  sum_1          <built-in method sum of type object at 0x7cdddfe647e0>   (relu,)             {'dim': -1}
        call_function  topk           <built-in method topk of type object at 0x7cdddfe647e0>  (sum_1, 3)
        """  # noqa: E501 (the table as the notebook shows it)
    )
    assert after.begins_with(
        """
        opcode         name           target                                                   args                kwargs
        -------------  -------------  -------------------------------------------------------  ------------------  -----------
        placeholder    x              x                                                        ()                  {}
        get_attr       linear_weight  linear.weight                                            ()                  {}
        call_function  add            <built-in function add>                                  (x, linear_weight)  {}
        call_function  add_1          <built-in method add of type object at 0x7cdddfe647e0>   (add, tensor(1.))   {}
        call_module    linear         linear                                                   (add_1,)            {}
        call_method    relu           relu                                                     (linear,)           {}
        call_function  sum_1          <built-in method sum of type object at 0x7cdddfe647e0>   (relu,)
        """  # noqa: E501 (the table as the notebook shows it)
    )


def test_cell_13_replaces_add_by_mul(capsys):
    def transform(m: torch.nn.Module, tracer_class: type = fx.Tracer) -> torch.nn.Module:
        graph: fx.Graph = tracer_class().trace(m)
        for node in graph.nodes:
            if node.op == "call_function" and node.target == torch.add:
                node.target = torch.mul
        graph.lint()
        return fx.GraphModule(m, graph)

    transformed_module = transform(Adds())

    output = transformed_module(torch.tensor([1, 2, 3]), torch.tensor([4, 5, 6]))
    print(output)

    assert capsys.readouterr().out == "tensor([ 4, 10, 18])\n"


def test_cell_15_replaces_the_conv_bn_pattern():
    traced = fx.symbolic_trace(ConvBNPattern())

    matches = fx.subgraph_rewriter.replace_pattern(traced, ConvBNPattern(), ConvBNFused())

    assert repr(matches) == "[Match(anchor=bn, nodes_map={bn: bn, conv: conv, x: x})]"
    assert [node.target for node in traced.graph.nodes] == ["x", "conv", "output"]


def test_cell_16_decomposes_relu_by_retracing(capsys):
    def relu_decomposition(x):
        return (x > 0) * x

    decomposition_rules = {F.relu: relu_decomposition}

    def decompose(model: torch.nn.Module, tracer_class: type = fx.Tracer) -> torch.nn.Module:
        graph: fx.Graph = tracer_class().trace(model)
        new_graph = fx.Graph()
        env = {}
        tracer = fxcore.proxy.GraphAppendingTracer(new_graph)
        for node in graph.nodes:
            if node.op == "call_function" and node.target in decomposition_rules:
                proxy_args = [fx.Proxy(env[x.name], tracer) if isinstance(x, fx.Node) else x for x in node.args]
                output_proxy = decomposition_rules[node.target](*proxy_args)
                env[node.name] = output_proxy.node
            else:
                env[node.name] = new_graph.node_copy(node, lambda x: env[x.name])
        return fx.GraphModule(model, new_graph)

    class M(torch.nn.Module):
        def forward(self, x):
            return F.relu(x)

    print(decompose(M())(torch.tensor([-1.0, 0.0, 1.0])))

    assert capsys.readouterr().out == "tensor([-0., 0., 1.])\n"


def test_cell_18_transforms_add_into_mul(capsys):
    class CustomTransformer(fx.Transformer):
        def call_function(self, target, args, kwargs):
            if target == torch.add:
                return self.call_function(torch.mul, args, kwargs)
            return super().call_function(target, args, kwargs)

    model = Adds()
    gm = fx.GraphModule(model, fx.Tracer().trace(model))

    transformed_gm = CustomTransformer(gm).transform()
    print(transformed_gm(torch.tensor(2.0), torch.tensor(3.0)))

    assert capsys.readouterr().out == "tensor(6.)\n"
