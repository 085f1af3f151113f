"""Static quantization of small models: what is quantized, how, and what is left alone."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

import fxcore
from fxcore.errors import EvalModeError, PassArgumentError, PassError
from fxcore.interop import from_torch
from fxcore.passes.infra.working_copy import working_copy
from fxcore.transforms.quantization.dynamic import QuantizeDynamic
from fxcore.transforms.quantization.layers import Skip
from fxcore.transforms.quantization.lowering import LowerQuantized
from fxcore.transforms.quantization.observers import activation_observer, weight_observer
from fxcore.transforms.quantization.quantization_error import layer_errors, sqnr
from fxcore.transforms.quantization.static import QuantizeStatic
from fxcore.transforms.quantization.weight_only import QuantizeWeights
from pytest_fxgraph import check_transform

pytestmark = pytest.mark.filterwarnings("ignore:.*deprecated.*:UserWarning", "ignore:.*reduce_range.*:UserWarning")


class Net(nn.Module):
    """A convolution with batch norm and relu, one with a residual, and a linear layer."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.conv = nn.Conv2d(8, 8, 3, padding=1)
        self.last = nn.Conv2d(8, 8, 1)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        y = self.stem(x)
        y = torch.relu(self.conv(y) + y)
        return self.head(self.last(y).mean((2, 3)))


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Net().eval()


def examples(count=3):
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(4, 3, 8, 8, generator=generator) for _ in range(count)]


@pytest.mark.parametrize("activation", ["histogram", "minmax", "moving_average", "percentile"])
@pytest.mark.parametrize("weight", ["per_channel", "per_tensor"])
def test_the_reference_form_and_the_lowered_one_are_close_to_eager(model, activation, weight):
    x = examples()[0]
    transform = QuantizeStatic(examples(), activation=activation_observer(activation), weight=weight_observer(weight))

    result = transform(fxcore.symbolic_trace(model))
    lowered = LowerQuantized()(result.graph_module)

    assert str(result.report) == "quantized 4\n  stem.0\n  conv\n  last\n  head\nleft in floating point 0"
    assert sqnr(model(x), result.graph_module(x)) > 25
    assert lowered.report.quantized == ("add", "relu", "stem.0", "conv", "last", "head")
    assert not lowered.report.left
    assert sqnr(result.graph_module(x), lowered.graph_module(x)) > 30


def test_the_fixture_for_transforms_finds_nothing_wrong(model):
    reference = QuantizeStatic(examples())
    x = examples()[0]

    check_transform(reference, model, (x,), checks=("values", "dtype"), sqnr=25)
    result = check_transform([reference, LowerQuantized()], model, (x,), checks=("values", "dtype"), sqnr=25)

    result.assert_ops(added={"quantized.add_relu": 1}, removed={nn.Conv2d: 3, nn.Linear: 1, nn.BatchNorm2d: 1})


def test_every_value_goes_through_integers_in_the_reference_form(model):
    result = QuantizeStatic(examples())(fxcore.symbolic_trace(model))

    nodes = list(result.graph_module.graph.nodes)
    quantized = [node for node in nodes if node.target is torch.quantize_per_tensor]
    assert [str(node.args[0]) for node in quantized] == ["x", "stem_0", "conv", "relu", "last", "mean", "head"]
    assert all([user.target for user in node.users] == ["dequantize"] for node in quantized)
    assert {node.args[3] for node in quantized} == {torch.quint8}


def test_a_wrong_scale_is_caught(model):
    x = examples()[0]
    right = QuantizeStatic(examples())(fxcore.symbolic_trace(model))
    wrong = working_copy(right.graph_module)
    node = next(node for node in wrong.graph.nodes if str(node.args[:1]) == "(stem_0,)")
    node.update_arg(1, node.args[1] / 16)
    wrong.recompile()

    errors = layer_errors(right.graph_module, wrong, x)
    assert [error.path for error in errors if error.sqnr < math.inf] == ["conv", "last", "head"]
    assert errors[0].path == "stem.0"
    assert sqnr(model(x), wrong(x)) < 20
    with pytest.raises(AssertionError, match="SQNR"):
        check_transform(lambda _: wrong, model, (x,), checks=("values",), sqnr=20)


@pytest.mark.parametrize(
    ("skip", "reason"),
    [
        (Skip(paths=("stem.*",)), "stem.0: its path is skipped by 'stem.*'"),
        (Skip(types=(nn.Linear,)), "head: layers of class Linear are skipped"),
    ],
)
def test_layers_are_left_in_floating_point_by_path_and_by_type(model, skip, reason):
    result = QuantizeStatic(examples(), skip=skip)(fxcore.symbolic_trace(model))

    assert f"left in floating point 1\n  {reason}" in str(result.report)
    assert len(result.report.quantized) == 3


def test_layers_that_cannot_be_quantized_are_told_with_the_reason():
    model = nn.Sequential(nn.Conv2d(1, 1, 3, padding=1, padding_mode="reflect"), nn.Linear(4, 4).double()).eval()
    gm = fxcore.symbolic_trace(model)

    result = QuantizeStatic([])(gm)

    assert result.graph_module is gm
    assert [str(each) for each in result.report.left] == [
        "0: it pads by 'reflect', and quantized layers pad by zeros alone",
        "1: its weight is of torch.float64; only that of torch.float32 is quantized",
    ]


class Writes(nn.Module):
    """Layers whose input is written to, in one of several ways."""

    def __init__(self, way):
        super().__init__()
        self.first, self.second, self.way = nn.Linear(8, 8), nn.Linear(8, 8), way

    def forward(self, x):
        if self.way == "before":
            y = self.first(x)
            y.add_(1)
            return self.second(y)
        if self.way == "input":
            return self.first(x) + x.add_(1)
        if self.way == "through a view":
            y = x * 2
            return self.first(y[1:]) + y[1:].add_(1) + y.sum()
        if self.way == "sum":  # as residual networks do
            y = self.first(x)
            y += self.second(x)
            return self.second(y.relu_())
        y = self.first(x)
        z = self.second(y)
        z += y
        return self.second(z) + z


@pytest.mark.parametrize(
    ("way", "left"),
    [
        ("before", "second: what it takes is written to before, by add_"),
        ("input", "first: what it takes is written to by add_, which others may see"),
        ("through a view", "first: what it takes is written to by add_, which others may see"),
        ("sum", None),
        ("sum that is read", None),
    ],
)
def test_what_is_written_in_place_is_seen_by_whoever_saw_it(way, left):
    torch.manual_seed(0)
    model, x = Writes(way).eval(), torch.randn(4, 8)
    whole_bytes = activation_observer("minmax", reduce_range=False)

    result = QuantizeStatic([x.clone()], activation=whole_bytes)(fxcore.symbolic_trace(model))
    lowered = LowerQuantized()(result.graph_module).graph_module

    assert [str(each) for each in result.report.left] == ([] if left is None else [left])
    for made in (result.graph_module, lowered):
        given, expected_given = x.clone(), x.clone()
        assert sqnr(model(expected_given), made(given)) > 25
        assert given.equal(expected_given)


def test_a_layer_with_hooks_or_whose_weight_is_read_stays():
    class Reads(Net):
        def forward(self, x):
            return super().forward(x) * self.head.weight.mean()

    model = Reads().eval()
    model.last.register_forward_hook(lambda module, args, result: result * 2)
    gm = fxcore.symbolic_trace(model)
    x = examples()[0]

    for transform in (QuantizeStatic(examples()), QuantizeDynamic(), QuantizeWeights()):
        result = transform(gm)
        reasons = {str(each) for each in result.report.left}
        assert "head: the graph reads its weights itself" in reasons
        if not isinstance(transform, QuantizeDynamic):
            assert "last: it has hooks, which would see other values, or none" in reasons
        assert sqnr(model(x), result.graph_module(x)) > 20


def test_calibration_leaves_buffers_as_they_were():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x):
            self.count.add_(1)
            return self.linear(x) * self.count

    tracer = fxcore.Tracer()
    tracer.proxy_buffer_attributes = True
    model = Counts().eval()
    gm = fxcore.GraphModule(model, tracer.trace(model))

    QuantizeStatic([torch.randn(2, 4)] * 3)(gm)

    assert model.count == 0


@pytest.fixture
def fbgemm():
    if "fbgemm" not in torch.backends.quantized.supported_engines:
        pytest.skip("this build of torch has no engine fbgemm")
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = "fbgemm"
    yield
    torch.backends.quantized.engine = before


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("groups", [1, 2])
def test_transposed_convolutions_are_quantized_and_lowered_where_the_engine_can(size, groups, fbgemm):
    torch.manual_seed(0)
    layer = getattr(nn, f"ConvTranspose{size}d")(4, 6, 3, stride=2, groups=groups)
    model, x = nn.Sequential(layer, nn.ReLU()).eval(), torch.randn(2, 4, *[5] * size)
    gm = fxcore.symbolic_trace(model)

    per_channel = QuantizeStatic([x])(gm)
    per_tensor = QuantizeStatic([x], weight=weight_observer("per_tensor"))(gm)
    lowered = LowerQuantized()(per_tensor.graph_module)
    left = LowerQuantized()(per_channel.graph_module)

    assert per_channel.graph_module.get_submodule("0").weight_axis == 1
    assert all(sqnr(model(x), result.graph_module(x)) > 30 for result in (per_channel, per_tensor))
    assert lowered.report.quantized == ("0",)
    assert sqnr(model(x), lowered.graph_module(x)) > 30
    assert "0: no engine has transposed convolutions with a scale for each channel" in str(left.report)
    torch.backends.quantized.engine = "onednn"
    again = LowerQuantized()(per_tensor.graph_module)
    assert "0: the engine 'onednn' is wrong on transposed convolutions" in str(again.report)


def test_what_cannot_be_calibrated_is_refused_in_words(model):
    gm = fxcore.symbolic_trace(model)

    with pytest.raises(PassError, match="cannot find scales: there is no example; give some inputs"):
        QuantizeStatic([])(gm)
    with pytest.raises(PassArgumentError, match="an example is a dict; give a tuple of the graph's arguments"):
        QuantizeStatic([{"x": 1}])(gm)
    numbers = torch.ones(2, 4, dtype=torch.long)
    with pytest.raises(PassError, match="cannot quantize input_1: its value is a Tensor, no floating tensor"):
        QuantizeStatic([numbers])(fxcore.symbolic_trace(nn.Sequential(nn.Linear(4, 4)).eval()))
    with pytest.raises(EvalModeError, match="Fusion only for eval"):
        QuantizeStatic(examples())(fxcore.symbolic_trace(Net()))


def test_examples_go_through_the_progress_that_is_given(model):
    seen = []

    def progress(items):
        for item in items:
            seen.append(item.shape)
            yield item

    QuantizeStatic(examples(2), progress=progress)(fxcore.symbolic_trace(model))

    assert seen == [(4, 3, 8, 8)] * 2


def test_outliers_do_not_decide_the_scale_by_percentiles():
    observer = activation_observer("percentile", percentile=99.0)()

    observer(torch.cat([torch.linspace(0, 1, 1000), torch.tensor([1000.0])]))

    assert observer.max_val < 1.01
    with pytest.raises(PassArgumentError, match="a percentile of 20 leaves nothing"):
        activation_observer("percentile", percentile=20)()
    with pytest.raises(PassArgumentError, match="no observer is called 'mean'; there are histogram, minmax"):
        activation_observer("mean")
    with pytest.raises(PassArgumentError, match="per_channel or per_tensor, not 'rows'"):
        weight_observer("rows")


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.head = nn.Embedding(5, 4), nn.Linear(4, 3)

    def forward(self, words):
        return torch.nn.functional.linear(self.head(self.table(words)), self.head.weight.t())


@pytest.mark.parametrize("transform", [QuantizeStatic([torch.ones(2, dtype=torch.long)]), QuantizeWeights()])
def test_every_layer_with_a_weight_that_stays_has_its_reason(transform):
    model, words = Words().eval(), torch.ones(2, dtype=torch.long)
    function = (
        "the graph calls a function with its weight, and only modules are replaced; trace the model with its layers"
    )

    traced = transform(fxcore.symbolic_trace(model)).report
    exported = transform(from_torch(torch.export.export(model, (words,)))).report

    assert [str(each) for each in traced.left] == [
        "table: layers of class Embedding are not quantized",
        "head: the graph reads its weights itself",
        "linear: the graph computes its weight, and only weights that a module holds are quantized",
    ]
    assert traced.quantized == exported.quantized == ()
    assert [str(each) for each in exported.left] == [
        f"{name}: {function}" for name in ("embedding", "linear", "linear_1")
    ]


def test_a_layer_stays_if_one_of_its_calls_cannot_be_quantized():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x):
            return self.layer(input=self.layer(x))

    result = QuantizeStatic([torch.randn(2, 4)])(fxcore.symbolic_trace(Twice().eval()))

    assert not result.modified
    assert [str(each) for each in result.report.left] == ["layer: it is not called with one value"]


def test_a_layer_without_shapes_stays():
    model = nn.Sequential(nn.LazyLinear(4), nn.Linear(4, 4)).eval()

    assert QuantizeWeights()(fxcore.symbolic_trace(model)).report.quantized == ("1",)
