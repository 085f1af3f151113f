"""FLOPs against torch's own counter, operator by operator, and against counts by hand."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import flop_registry

import fxcore
from fxcore.transforms.analysis.costs import graph_costs
from fxcore.transforms.analysis.flop_formulas import FORMULAS, flops_of_call, operand
from fxcore.transforms.analysis.operator_names import formula_name_of_operator
from fxcore.transforms.analysis.values import OperatorCall, TensorSpec

aten = torch.ops.aten


def tensor(*shape, dtype=torch.float32):
    return torch.empty(shape, dtype=dtype, device="meta")


def spec(value):
    if not isinstance(value, torch.Tensor):
        return value
    return TensorSpec(tuple(value.shape), tuple(value.stride()), value.dtype, 0, 0)


def described(values):
    return tuple(described(each) if isinstance(each, (tuple, list)) else spec(each) for each in values)


QUERY, KEY, VALUE = tensor(2, 4, 8, 16), tensor(2, 4, 12, 16), tensor(2, 4, 12, 24)
OUT = tensor(2, 4, 8, 24)
LONG, SHORT = (tensor(2, 8, 4, 16), tensor(2, 12, 4, 16))  # length before heads
BOTH = (True, True, False)
CONVOLUTION = ((1, 1), (0, 0), (1, 1))
CALLS = [
    (aten.mm, (tensor(3, 4), tensor(4, 5)), tensor(3, 5)),
    (aten.addmm, (tensor(5), tensor(3, 4), tensor(4, 5)), tensor(3, 5)),
    (aten.bmm, (tensor(2, 3, 4), tensor(2, 4, 5)), tensor(2, 3, 5)),
    (aten.baddbmm, (tensor(2, 3, 5), tensor(2, 3, 4), tensor(2, 4, 5)), tensor(2, 3, 5)),
    (aten._scaled_mm, (tensor(16, 32), tensor(32, 16), tensor(), tensor()), tensor(16, 16)),
    (
        aten.convolution,
        (tensor(2, 3, 9, 9), tensor(4, 3, 3, 3), None, *CONVOLUTION, False, (0, 0), 1),
        tensor(2, 4, 7, 7),
    ),
    (
        aten.convolution,
        (tensor(2, 4, 9, 9), tensor(4, 2, 3, 3), None, *CONVOLUTION, False, (0, 0), 2),
        tensor(2, 4, 7, 7),
    ),
    (
        aten.convolution,
        (tensor(2, 3, 7, 7), tensor(3, 4, 3, 3), None, *CONVOLUTION, True, (0, 0), 1),
        tensor(2, 4, 9, 9),
    ),
    (aten._convolution, (tensor(2, 3, 9), tensor(4, 3, 3), None, (1,), (0,), (1,), False, (0,), 1), tensor(2, 4, 7)),
    (
        aten.convolution_backward,
        (tensor(2, 4, 7, 7), tensor(2, 3, 9, 9), tensor(4, 3, 3, 3), None, *CONVOLUTION, False, (0, 0), 1, BOTH),
        (tensor(2, 3, 9, 9), tensor(4, 3, 3, 3), None),
    ),
    (
        aten.convolution_backward,
        (tensor(2, 4, 9, 9), tensor(2, 3, 7, 7), tensor(3, 4, 3, 3), None, *CONVOLUTION, True, (0, 0), 1, BOTH),
        (tensor(2, 3, 7, 7), tensor(3, 4, 3, 3), None),
    ),
    (
        aten.convolution_backward,
        (tensor(2, 4, 7, 7), tensor(2, 3, 9, 9), tensor(4, 3, 3, 3), [4], *CONVOLUTION, False, (0, 0), 1, (True,) * 3),
        (tensor(2, 3, 9, 9), tensor(4, 3, 3, 3), tensor(4)),
    ),
    (aten._scaled_dot_product_efficient_attention, (QUERY, KEY, VALUE, None, False), (OUT,)),
    (aten._scaled_dot_product_flash_attention, (QUERY, KEY, VALUE), (OUT,)),
    (aten._scaled_dot_product_cudnn_attention, (QUERY, KEY, VALUE, None, False), (OUT,)),
    (aten._scaled_dot_product_efficient_attention_backward, (OUT, QUERY, KEY, VALUE), (QUERY,)),
    (aten._scaled_dot_product_flash_attention_backward, (OUT, QUERY, KEY, VALUE), (QUERY,)),
    (aten._scaled_dot_product_cudnn_attention_backward, (OUT, QUERY, KEY, VALUE), (QUERY,)),
]
UNFUSED = {
    aten._flash_attention_forward: aten._scaled_dot_product_flash_attention,
    aten._efficient_attention_forward: aten._scaled_dot_product_efficient_attention,
    aten._flash_attention_backward: aten._scaled_dot_product_flash_attention_backward,
    aten._efficient_attention_backward: aten._scaled_dot_product_efficient_attention_backward,
}
# Other names of convolution.
OF_OTHER_BUILDS = {"cudnn_convolution", "_slow_conv2d_forward", "convolution_overrideable"}


def name(operator):
    return formula_name_of_operator(operator)


@pytest.mark.parametrize(("operator", "args", "result"), CALLS, ids=lambda value: str(value)[:60])
def test_flops_are_those_of_torchs_counter(operator, args, result):
    if operator not in flop_registry:
        pytest.skip("this torch does not count it")
    counted = flop_registry[operator](*args, out_val=result)

    own = flops_of_call(OperatorCall(name(operator), described(args), {}, described([result])[0]))

    assert own == counted > 0


@pytest.mark.parametrize("operator", UNFUSED, ids=str)
def test_flops_of_attention_with_length_before_heads_are_those_of_torchs_counter_for_heads_first(operator):
    # Torch's counter takes the length for the heads here.
    first = (LONG,) if "backward" in str(operator) else ()
    swapped = [each.transpose(1, 2) for each in (*first, LONG, SHORT, SHORT)]
    counted = flop_registry[UNFUSED[operator]](*swapped, out_val=None)

    own = flops_of_call(OperatorCall(name(operator), described((*first, LONG, SHORT, SHORT)), {}, spec(LONG)))

    assert own == counted > 0


@pytest.mark.parametrize("operator", [each for each in flop_registry if "flex" in str(each)], ids=str)
def test_flops_of_flex_attention_are_those_of_torchs_counter(operator):
    args = (QUERY, KEY, VALUE, OUT, None, OUT) if "backward" in str(operator) else (QUERY, KEY, VALUE)
    counted = flop_registry[operator](*args, out_val=OUT)

    assert flops_of_call(OperatorCall(name(operator), described(args), {}, spec(OUT))) == counted > 0


def test_every_operator_of_aten_that_torch_counts_is_compared_above():
    counted = {operator for operator in flop_registry if str(operator).startswith("aten.")}
    compared = {operator for operator, _, _ in CALLS} | UNFUSED.keys()

    left = {str(operator).removeprefix("aten.") for operator in counted - compared}

    assert left <= OF_OTHER_BUILDS
    assert {name(operator) for operator in counted} <= FORMULAS.keys()


LAYERS = [
    (nn.Linear(8, 5), (2, 3, 8), 2 * 2 * 3 * 8 * 5),
    (nn.Linear(8, 5, bias=False), (8,), 2 * 8 * 5),
    (nn.Conv2d(3, 8, 3, padding=1), (1, 3, 6, 6), 2 * 6 * 6 * 8 * 3 * 9),
    (nn.Conv2d(4, 8, 3, stride=2, groups=2), (2, 4, 9, 9), 2 * 2 * 4 * 4 * 8 * 2 * 9),
    (nn.Conv1d(3, 4, 5), (1, 3, 20), 2 * 16 * 4 * 3 * 5),
    (nn.ConvTranspose2d(3, 5, 2, stride=2), (1, 3, 4, 4), 2 * 4 * 4 * 3 * 5 * 4),
    (nn.BatchNorm2d(3), (2, 3, 4, 4), 2 * 96),
    (nn.LayerNorm(8), (2, 8), 5 * 16),
    (nn.MaxPool2d(2), (1, 3, 4, 4), 12 * 4),
    (nn.AvgPool2d((1, 3)), (1, 3, 4, 6), 3 * 4 * 2 * 3),
    (nn.Softmax(dim=-1), (4, 5), 5 * 20),
    (nn.GELU(), (4, 5), 20),
    (nn.LSTM(4, 6, batch_first=True), (2, 3, 4), 2 * 6 * (4 * 6 * 4 + 4 * 6 * 6) + 9 * 6 * 6),
    (nn.Embedding(10, 4), (3,), 0),
    (nn.Upsample(scale_factor=2, mode="bilinear"), (1, 1, 2, 2), 16 * 2 * 4),
    (nn.Upsample(scale_factor=2), (1, 1, 2, 2), 0),
    (nn.Dropout(), (4,), 0),
    (nn.Upsample(scale_factor=2, mode="linear"), (1, 1, 2), 4 * 2 * 2),
    (nn.Upsample(scale_factor=2, mode="bicubic"), (1, 1, 2, 2), 16 * 2 * 16),
    (nn.Upsample(scale_factor=2, mode="trilinear"), (1, 1, 2, 2, 2), 64 * 2 * 8),
    (nn.AvgPool1d(3), (1, 2, 6), 4 * 3),
    (nn.MaxPool3d(2), (1, 1, 4, 4, 4), 8 * 8),
    (nn.BatchNorm2d(3, track_running_stats=False), (2, 3, 4, 4), 5 * 96),
    (nn.GRU(4, 6), (5, 4), 2 * 5 * (18 * 4 + 18 * 6) + 8 * 5 * 6),
    (nn.RNN(4, 6), (2, 3, 4), 2 * 6 * (6 * 4 + 6 * 6) + 2 * 6 * 6),
    (nn.LSTMCell(4, 6), (5, 4), 2 * 5 * (24 * 4 + 24 * 6) + 9 * 5 * 6),
    (nn.GRUCell(4, 6), (5, 4), 2 * 5 * (18 * 4 + 18 * 6) + 8 * 5 * 6),
    (nn.RNNCell(4, 6), (5, 4), 2 * 5 * (6 * 4 + 6 * 6) + 2 * 5 * 6),
    (nn.UpsamplingNearest2d(scale_factor=2), (1, 1, 2, 2), 0),
    (nn.Bilinear(3, 4, 5), ((2, 3), (2, 4)), 2 * 2 * 5 * 3 * 4),
]


@pytest.mark.parametrize(("layer", "shape", "flops"), LAYERS, ids=lambda value: str(value)[:40])
def test_flops_of_a_layer_are_those_counted_by_hand(layer, shape, flops):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layer

        def forward(self, *inputs):
            return self.layer(*inputs)

    shapes = shape if isinstance(shape[0], tuple) else (shape,)
    kind = torch.int64 if isinstance(layer, nn.Embedding) else torch.float32
    graph = fxcore.Graph()
    graph.output(graph.call_module("layer", tuple(graph.placeholder(f"x{place}") for place in range(len(shapes)))))

    costs = graph_costs(fxcore.GraphModule(Net().eval(), graph), *(torch.ones(each, dtype=kind) for each in shapes))

    assert (costs.total.flops, costs.uncounted) == (flops, ())


def ones(*shape):
    return torch.ones(shape)


WEIGHTS = (ones(24, 4), ones(24, 6), ones(24), ones(24))  # of an LSTM

# An operator, its arguments, and the floating-point operations counted by hand.
BY_HAND = [
    (aten.addmv.default, (ones(3), ones(3, 4), ones(4)), 2 * 3 * 4),
    (nn.functional.bilinear, (ones(2, 3), ones(2, 4), ones(5, 3, 4)), 2 * 2 * 5 * 3 * 4),
    (torch.addcmul, (ones(4), ones(4), ones(4)), 3 * 4),
    (torch.max, (ones(2, 3), ones(2, 1)), 6),
    (torch.logcumsumexp, (ones(2, 3), 0), 2 * 6),
    (nn.functional.mse_loss, (ones(2, 3), ones(2, 3)), 3 * 6),
    (nn.functional.normalize, (ones(2, 3),), 4 * 6),
    (nn.functional.layer_norm, (ones(2, 3), (3,)), 5 * 6),
    (nn.functional.max_pool2d, (ones(1, 1, 4, 4), 2), 4 * 4),
    (nn.functional.max_pool2d, (ones(1, 1, 4, 4), (2,)), 4 * 4),
    (nn.functional.max_pool2d, (ones(1, 1, 4, 6), (2, 3)), 4 * 6),
    (nn.functional.nll_loss, (ones(3, 4), torch.tensor([0, 1, 3])), 3),
    (nn.functional.conv_transpose1d, (ones(1, 3, 4), ones(3, 2, 5)), 2 * 3 * 4 * 2 * 5),
    (nn.functional.interpolate, (ones(1, 1, 4), 8, None, "linear"), 4 * 8),
    (nn.functional.interpolate, (ones(1, 1, 4), 8), 0),
    (aten.upsample_bicubic2d.default, (ones(1, 1, 2, 2), [4, 4], False), 2 * 16 * 16),
    (
        nn.functional.scaled_dot_product_attention,
        (ones(2, 8, 16), ones(2, 12, 16), ones(2, 12, 24)),
        2 * 2 * 8 * 12 * 40,
    ),
    (aten.addbmm.default, (ones(3, 5), ones(2, 3, 4), ones(2, 4, 5)), 2 * 2 * 3 * 4 * 5),
    (nn.functional.batch_norm, (ones(2, 3), ones(3), ones(3)), 2 * 6),
    (nn.functional.batch_norm, (ones(2, 3), ones(3), ones(3), None, None, True), 5 * 6),
    (aten._native_batch_norm_legit_no_training.default, (ones(2, 3), None, None, ones(3), ones(3), 0.1, 1e-5), 2 * 6),
    (nn.functional.embedding_bag, (torch.tensor([[0, 1], [2, 2], [1, 0]]), ones(4, 8)), 6 * 8),
    (
        aten.mkldnn_rnn_layer.default,
        # Three steps of two sequences of four numbers each, and six numbers of state.
        (ones(3, 2, 4), *WEIGHTS, ones(2, 6), ones(2, 6), False, [], 2, 6, 1, True, False, False, False),
        2 * 3 * 2 * (24 * 4 + 24 * 6),
    ),
]


@pytest.mark.parametrize(("operator", "args", "flops"), BY_HAND, ids=lambda value: getattr(value, "__name__", ""))
def test_flops_of_an_operator_are_those_counted_by_hand(operator, args, flops):
    graph = fxcore.Graph()
    inputs = {place: value for place, value in enumerate(args) if isinstance(value, torch.Tensor)}
    names = {place: graph.placeholder(f"x{place}") for place in inputs}
    graph.output(graph.call_function(operator, tuple(names.get(place, value) for place, value in enumerate(args))))

    costs = graph_costs(fxcore.GraphModule(nn.Module(), graph), *inputs.values())

    assert (costs.total.flops, costs.uncounted) == (flops, ())


@pytest.mark.parametrize(
    ("settings", "query", "key", "flops"),
    [
        # Four projections, then two products of each of 3 queries with 5 keys.
        ({}, (3, 8), (5, 8), 2 * (2 * 3 * 8 * 8 + 2 * 5 * 8 * 8) + 4 * 3 * 5 * 8),
        ({}, (3, 2, 8), (5, 2, 8), 2 * (2 * 6 * 8 * 8 + 2 * 10 * 8 * 8) + 4 * 6 * 5 * 8),
        ({"batch_first": True}, (2, 3, 8), (2, 5, 8), 2 * (2 * 6 * 8 * 8 + 2 * 10 * 8 * 8) + 4 * 6 * 5 * 8),
        ({"kdim": 4, "vdim": 6}, (3, 8), (5, 4), 2 * (2 * 3 * 8 * 8 + 5 * 8 * 10) + 4 * 3 * 5 * 8),
    ],
)
def test_multihead_attention_has_four_projections_and_two_products(settings, query, key, flops):
    module = nn.MultiheadAttention(8, 2, **settings)
    args = described((tensor(*query), tensor(*key), tensor(*key)))

    assert flops_of_call(OperatorCall("multiheadattention", args, {}, args[0], module)) == flops


def test_a_recurrent_operator_without_its_module_is_unknown_and_a_size_is_free():
    result = spec(tensor(3, 4))

    assert flops_of_call(OperatorCall("lstm", (result,), {}, result)) is None
    assert flops_of_call(OperatorCall("nobodyknows", (result,), {}, 3)) == 0
    assert flops_of_call(OperatorCall("add", (2, 3), {}, 5)) == 0


def test_a_collective_computes_nothing():
    result = spec(tensor(3, 4))

    assert flops_of_call(OperatorCall("_c10d_functional.all_reduce", (result, "sum", "0"), {}, result)) == 0
    assert flops_of_call(OperatorCall("other.all_reduce", (result, "sum", "0"), {}, result)) is None


SPELLINGS = {
    "relu": [torch.relu, nn.functional.relu, lambda x: x.relu(), lambda x: x.relu_(), aten.relu.default, aten.relu],
    "add": [lambda x: x + x, lambda x: torch.add(x, x), lambda x: x.add_(x), lambda x: aten.add.Tensor(x, x)],
    "matmul": [lambda x: x @ x, lambda x: torch.matmul(x, x), lambda x: x.mm(x), lambda x: aten.mm.default(x, x)],
    "div": [lambda x: x / 2, lambda x: x.true_divide(2), lambda x: x.div_(2), lambda x: torch.divide(x, 2)],
    "max": [lambda x: x.max(), torch.max, lambda x: x.amax(0), lambda x: x.max(dim=0)[0]],
}


@pytest.mark.parametrize("operator", SPELLINGS)
def test_every_spelling_of_an_operator_costs_the_same(operator):
    totals = [graph_costs(graph_of(spelling), torch.ones(4, 4)).total.flops for spelling in SPELLINGS[operator]]

    assert set(totals) == {{"matmul": 128}.get(operator, 16)}


def graph_of(function):
    if not hasattr(function, "overloads") and not hasattr(function, "_schema"):
        return fxcore.symbolic_trace(lambda x: function(x))
    graph = fxcore.Graph()
    graph.output(graph.call_function(function, (graph.placeholder("x"),)))
    return fxcore.GraphModule(nn.Module(), graph)


def test_a_users_leaf_module_is_counted_by_what_it_calls():
    class Leaf(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4, 4))

        def forward(self, x):
            return torch.relu(x @ self.weight) * 2

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.leaf = Leaf()

        def forward(self, x):
            return self.leaf(x)

    traced = _with_leaf(Net(), Leaf)

    costs = graph_costs(traced, torch.ones(2, 4))

    assert [each.node.op for each in costs.nodes] == ["call_module"]
    assert costs.total.flops == 2 * 2 * 4 * 4 + 8 + 8
    assert costs.total.params == 16


def _with_leaf(model, leaf):
    class Tracer(fxcore.Tracer):
        def is_leaf_module(self, module, path):
            return isinstance(module, leaf) or super().is_leaf_module(module, path)

    return fxcore.GraphModule(model, Tracer().trace(model))


def test_an_operator_that_nobody_knows_counts_as_none_and_is_named():
    library = torch.library.Library("fxcosts", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
    graph = fxcore.Graph()
    graph.output(graph.call_function(torch.ops.fxcosts.twice.default, (graph.placeholder("x"),)))

    costs = graph_costs(fxcore.GraphModule(nn.Module(), graph), torch.ones(4))

    assert (costs.total.flops, costs.uncounted) == (0, ("fxcosts.twice",))
    assert costs.total.bytes == 32


@pytest.mark.parametrize(
    ("args", "kwargs", "module", "expected"),
    [
        ((1, 2), {"weight": 3}, None, 2),
        ((1,), {"weight": 3}, None, 3),
        ((1,), {"mat2": 4}, None, 4),
        ((1,), {"other": 4}, None, None),
        ((1,), {"weight": 3}, nn.Linear(2, 3), 3),
        ((1,), {}, nn.Linear(2, 3), TensorSpec((3, 2), (2, 1), torch.float32, -1, 0)),
        ((1,), {}, nn.ReLU(), None),
    ],
)
def test_an_operand_is_given_by_position_by_keyword_or_by_the_module(args, kwargs, module, expected):
    assert operand(OperatorCall("linear", args, kwargs, None, module=module), 1, "weight", "mat2") == expected
