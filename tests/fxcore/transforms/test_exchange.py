"""Activations are exchanged in every spelling; dtypes and devices that a trace wrote down move along."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fxcore
from fxcore.errors import PassArgumentError
from fxcore.interop import from_torch
from fxcore.transforms.exchange import ExchangeActivations, MoveTo


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin, self.act = nn.Linear(4, 4), nn.ReLU()

    def forward(self, x):
        y = self.act(self.lin(x))
        return self.act(y - 1) + torch.relu(y - 2) + F.relu(y - 3, inplace=True) + (y - 4).relu() + y.tanh()


def test_an_activation_is_exchanged_however_it_is_spelled():
    model, x = Net(), torch.randn(3, 4)
    gm = fxcore.symbolic_trace(model)

    made = ExchangeActivations({nn.ReLU: nn.GELU})(gm).graph_module

    y = F.gelu(model.lin(x))
    torch.testing.assert_close(made(x), sum(F.gelu(y - shift) for shift in (1, 2, 3, 4)) + y.tanh())
    assert sum(type(module) is nn.GELU for module in made.modules()) == 4, "the shared one stays shared"
    assert type(gm.act) is nn.ReLU


def test_one_that_works_in_place_on_a_value_with_other_readers_stays():
    def function(x):
        y = x + 1
        return y.relu_() + y

    gm = fxcore.symbolic_trace(function)

    assert ExchangeActivations({nn.ReLU: nn.GELU})(gm).graph_module is gm


def test_one_that_works_in_place_on_memory_that_others_see_stays():
    def through_a_view(x):
        y = x + 1
        y[0].relu_()
        return y

    def on_an_input(x):
        return x.relu_() + 1

    for function in (through_a_view, on_an_input):
        gm = fxcore.symbolic_trace(function)
        assert ExchangeActivations({nn.ReLU: nn.GELU})(gm).graph_module is gm


def test_a_shared_module_is_exchanged_only_where_it_can_be():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.act = nn.ReLU(inplace=True)

        def forward(self, x):
            y = x - 1
            return self.act(x + 1) + self.act(y) + y

    model, x = Twice(), torch.randn(9)

    made = ExchangeActivations({nn.ReLU: nn.GELU})(fxcore.symbolic_trace(model)).graph_module

    torch.testing.assert_close(made(x), F.gelu(x + 1) + 2 * (x - 1).relu())


def test_an_activation_with_weights_or_hooks_stays():
    class Attends(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention, self.act = nn.MultiheadAttention(4, 2), nn.ReLU()
            self.act.register_forward_hook(lambda module, args, result: result + 1)

        def forward(self, x):
            return self.act(self.attention(x, x, x)[0])

    gm = fxcore.symbolic_trace(Attends())

    assert ExchangeActivations({nn.ReLU: nn.GELU, nn.MultiheadAttention: nn.GELU})(gm).graph_module is gm


class MakesTensors(nn.Module):
    def forward(self, x):
        count = x.shape[1]
        made = torch.zeros(count), torch.full((count,), 0.5), torch.ones(count, device="cpu"), torch.arange(count)
        return torch.cat([x, torch.eye(count), sum(made).unsqueeze(0).to("cpu")]).matmul(torch.ones((count, 1)))


def test_tensors_that_the_graph_makes_of_nothing_move_along():
    gm = fxcore.symbolic_trace(MakesTensors())
    x = torch.randn(2, 3)

    half = MoveTo(torch.bfloat16)(gm).graph_module
    elsewhere = MoveTo(device="meta")(gm).graph_module

    assert half(x.bfloat16()).dtype is torch.bfloat16
    torch.testing.assert_close(half(x.bfloat16()).float(), gm(x), rtol=0.02, atol=0.05)
    assert elsewhere(x.to("meta")).device.type == "meta"
    arange = next(node for node in half.graph.nodes if node.target is torch.arange)
    assert "dtype" not in arange.kwargs, "of integers it stays"


class Precise(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, x):
        mask = torch.ones(4, dtype=torch.float32, device=torch.device("cpu"))
        y = self.lin(x.float()).to(torch.float32) * mask + torch.zeros_like(x, dtype=torch.float32, device="cpu")
        return y.softmax(-1, dtype=torch.float32).cpu()


def test_dtypes_and_devices_in_the_graph_move_with_the_state():
    gm = fxcore.symbolic_trace(Precise())
    x = torch.randn(2, 4)

    moved = MoveTo(torch.float64)(gm).graph_module
    kept = MoveTo(torch.float64, keep=lambda node: node.target == "softmax")(gm).graph_module

    assert moved(x).dtype is torch.float64
    assert kept(x).dtype is torch.float32
    torch.testing.assert_close(moved(x).float(), gm(x))
    assert gm.lin.weight.dtype is torch.float32


def test_a_graph_moves_to_a_device_whole():
    gm = fxcore.symbolic_trace(Precise())

    moved = MoveTo(device="meta")(gm).graph_module

    assert moved(torch.randn(2, 4, device="meta")).device.type == "meta"


@pytest.mark.parametrize(
    ("move", "expected"), [(MoveTo(torch.float64), True), (MoveTo(device="cpu"), True), (MoveTo(), False)]
)
def test_a_move_to_somewhere_counts_as_a_change(move, expected):
    assert move(fxcore.symbolic_trace(Net())).modified is expected


def test_integers_are_refused_in_words():
    with pytest.raises(PassArgumentError, match=r"moved to torch.int8; give a floating dtype, or quantize"):
        MoveTo(torch.int8)(fxcore.symbolic_trace(Net()))


def test_an_activation_that_stays_has_its_reason():
    def function(x):
        y = x + 1
        return y.relu_() + y, torch.relu_(x)

    report = ExchangeActivations({nn.ReLU: nn.GELU})(fxcore.symbolic_trace(function)).report

    assert [str(each) for each in report.left] == [
        "relu_: it works in place, on a value that other nodes read",
        "relu__1: it works in place, on x, which belongs to the caller or the module",
    ]


def test_an_activation_of_an_exported_program_is_exchanged():
    x = torch.randn(3, 4)
    gm = from_torch(torch.export.export(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), (x,)))

    result = ExchangeActivations({nn.ReLU: nn.GELU})(gm)

    assert result.report.changed == ("relu",)
    assert [type(module) for module in result.graph_module.modules()][-1] is nn.GELU


def test_an_activation_of_a_number_or_by_keyword_stays():
    graph = fxcore.Graph()
    x = graph.placeholder("x")
    number, by_keyword = (graph.call_function(F.relu, *arguments) for arguments in (((2.0,),), ((), {"input": x})))
    graph.output((number, by_keyword))
    gm = fxcore.GraphModule(nn.Module(), graph)

    result = ExchangeActivations({nn.ReLU: nn.GELU})(gm)

    assert result.graph_module is gm
    assert dict(result.report.left) == {"relu": "its argument is no value of the graph"}


@pytest.mark.parametrize(
    ("function", "arguments", "keywords", "is_moved"),
    [
        (torch.eye, (2,), {}, True),
        (torch.rand, ((2, 2),), {}, True),
        (torch.linspace, (0, 1, 2), {}, True),
        (torch.hann_window, (2,), {}, True),
        (torch.full, ((2,), 1), {}, False),
        (torch.full, ((2,), 1.0), {}, True),
        (torch.scalar_tensor, (2,), {"dtype": torch.float32}, True),
        (torch.arange, (2,), {}, False),
        (torch.randint, (0, 9, (2,)), {}, False),
        (torch.randperm, (2,), {}, False),
        (torch.zeros, (2,), {"dtype": torch.int32}, False),
        (torch.zeros, (2,), {"dtype": torch.float16}, False),
    ],
)
def test_a_new_tensor_moves_if_it_has_the_precision_of_the_graph(function, arguments, keywords, is_moved):
    graph = fxcore.Graph()
    graph.output(graph.call_function(function, arguments, keywords))
    gm = fxcore.GraphModule(nn.Module(), graph)

    made = MoveTo(torch.float64)(gm).graph_module

    assert made().dtype is (torch.float64 if is_moved else gm().dtype)


def test_a_new_tensor_of_the_default_precision_stays_if_the_graph_has_another():
    graph = fxcore.Graph()
    graph.output(graph.call_function(torch.zeros, (2,)))
    gm = fxcore.GraphModule(nn.Module(), graph)

    made = MoveTo(torch.float64, from_dtype=torch.float16)(gm).graph_module

    assert made().dtype is torch.float32


def test_a_move_to_a_precision_keeps_devices_and_a_move_to_a_device_keeps_precisions():
    gm = fxcore.symbolic_trace(lambda x: x.to(torch.device("cpu"), torch.float32))

    precise, elsewhere = MoveTo(torch.float64)(gm).graph_module, MoveTo(device="meta")(gm).graph_module

    assert [node.args[1:] for node in precise.graph.find_nodes(op="call_method")] == [
        (torch.device("cpu"), torch.float64)
    ]
    assert [node.args[1:] for node in elsewhere.graph.find_nodes(op="call_method")] == [
        (torch.device("meta"), torch.float32)
    ]


def test_a_moved_node_forgets_its_value_and_keeps_its_other_metadata():
    gm = fxcore.symbolic_trace(lambda x: torch.relu(x))
    for node in gm.graph.nodes:
        node.meta.update(val=1, tensor_meta=2, stack_trace="net.py:1")

    made = MoveTo(torch.float64)(gm).graph_module

    assert [node.meta for node in made.graph.nodes] == [{"stack_trace": "net.py:1"}] * 3
