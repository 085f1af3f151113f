"""Seed 000, "Mastering PyTorch FX Graph: A Complete Developer's Guide": its three programs, with fxcore.

Mended in all of them: the page has lost its line ends and writes `init` for `__init__`.
"""

from __future__ import annotations

import textwrap

import torch

import fxcore
from fixtures.transcript import Transcript


class SimpleModel(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(5, 5)

    def forward(self, x):
        return torch.relu(self.linear(x))


class ConvReLUModel(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 16, 3)

    def forward(self, x):
        x = self.conv(x)
        return torch.relu(x)


# Mended: typographic quotes around 'call_function', 'call_module' and in the f-string.
def fuse_conv_relu_pass(gm: fxcore.GraphModule) -> fxcore.GraphModule:
    graph = gm.graph
    for node in list(graph.nodes):
        if node.op == "call_function" and node.target == torch.relu:
            input_node = node.args[0]
            if input_node.op == "call_module":
                print(f"Fusing {input_node.name} and {node.name}...")
                node.replace_all_uses_with(input_node)
                graph.erase_node(node)
    gm.recompile()
    return gm


# Mended: the page returns `self.tracer.create_node(...)`, a Node, where a Transformer wants a Proxy.
class MyTransformer(fxcore.Transformer):
    def call_function(self, target, args, kwargs):
        if target == torch.relu:
            return self.tracer.create_proxy("call_function", torch.sigmoid, args, kwargs)
        return super().call_function(target, args, kwargs)


def test_tracing_the_simple_model_prints_its_table_and_code(capsys):
    traced_model = fxcore.symbolic_trace(SimpleModel())

    traced_model.graph.print_tabular()
    table = Transcript(capsys.readouterr().out)
    print(traced_model.code)
    code = Transcript(capsys.readouterr().out)

    # The page says only that the table details each operation.
    assert table.column("opcode") == ["placeholder", "call_module", "call_function", "output"]
    assert table.column("name") == ["x", "linear", "relu", "output"]
    assert code.holds(
        """
        def forward(self, x):
            linear = self.linear(x);  x = None
            relu = torch.relu(linear);  linear = None
            return relu
        """
    )


def test_bypassing_the_relu_leaves_the_convolution(capsys):
    model = ConvReLUModel()
    image = torch.randn(1, 3, 8, 8)

    fused_model = fuse_conv_relu_pass(fxcore.symbolic_trace(model))

    assert capsys.readouterr().out == "Fusing conv and relu...\n"
    assert textwrap.dedent(fused_model.code).strip() == "\n".join(
        ["def forward(self, x):", "    conv = self.conv(x);  x = None", "    return conv"]
    )
    assert torch.equal(fused_model(image), model.conv(image))


def test_the_transformer_replaces_relu_by_sigmoid():
    model = SimpleModel()
    x = torch.randn(2, 5)

    transformed = MyTransformer(fxcore.symbolic_trace(model)).transform()

    assert [node.target for node in transformed.graph.nodes] == ["x", "linear", torch.sigmoid, "output"]
    assert torch.equal(transformed(x), torch.sigmoid(model.linear(x)))
