"""What is lost is told per layer; int8 ResNet-18 stays within 20 dB and keeps its answers."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import nn

import fxcore
from fxcore.node_data.attribute_paths import set_attribute
from fxcore.passes.infra.working_copy import working_copy
from fxcore.transforms.quantization.dynamic import QuantizeDynamic
from fxcore.transforms.quantization.layers import Skip
from fxcore.transforms.quantization.lowering import LowerQuantized
from fxcore.transforms.quantization.observers import activation_observer
from fxcore.transforms.quantization.quantization_error import layer_errors, sensitivity, sqnr, state_bytes
from fxcore.transforms.quantization.static import QuantizeStatic
from fxcore.transforms.quantization.weight_only import QuantizeWeights
from pytest_fxgraph import check_transform

pytestmark = pytest.mark.filterwarnings("ignore:.*deprecated.*:UserWarning", "ignore:.*reduce_range.*:UserWarning")


def test_noise_is_measured_in_decibels():
    signal = torch.tensor([1.0, -1.0])

    assert sqnr(signal, signal) == math.inf
    assert sqnr(signal, signal + 0.1) == pytest.approx(20, abs=1e-4)
    assert sqnr(signal, signal * torch.nan) == -math.inf
    assert sqnr(signal * 0, signal) == -math.inf
    assert sqnr(signal, torch.quantize_per_tensor(signal + 0.1, 0.1, 0, torch.qint8)) == pytest.approx(20, abs=0.1)


@pytest.mark.skipif(torch.backends.quantized.engine == "none", reason="this build has no quantized operators")
def test_packed_weights_of_a_recurrent_layer_count():
    model = nn.Sequential(nn.LSTM(16, 32))
    quantized = torch.ao.quantization.quantize_dynamic(model, {nn.LSTM}, dtype=torch.qint8)

    # A byte for each weight, and four for each bias.
    assert state_bytes(quantized) == 4 * 32 * (16 + 32) + 4 * 2 * 4 * 32
    assert state_bytes(model) == 4 * state_bytes(quantized) - 3 * 4 * 2 * 4 * 32


def test_scales_and_zero_points_of_channels_are_counted():
    module = nn.Module()
    by_channel = torch.quantize_per_channel(
        torch.ones(3, 5), torch.ones(3).double(), torch.zeros(3).long(), 0, torch.qint8
    )
    module.register_buffer("by_channel", by_channel)

    assert state_bytes(module) == 3 * 5 + 3 * (8 + 8)


def images(seed):
    """Squares of four by four pixels, of which random weights tell more than of noise."""
    squares = torch.randn(32, 3, 16, 16, generator=torch.Generator().manual_seed(seed))
    return nn.functional.interpolate(squares, 64)


@pytest.fixture(scope="module")
def resnet18():
    """ResNet-18 with random weights, whose batch norms have the statistics of the images that are given."""
    resnet = pytest.importorskip("pytorchcv.models.resnet")
    torch.manual_seed(0)
    model = resnet.resnet18()
    model.features.final_pool = nn.AdaptiveAvgPool2d(1)
    for norm in model.modules():
        if isinstance(norm, nn.BatchNorm2d):
            norm.momentum = None
    with torch.no_grad():
        model.train()(images(1))
    return model.eval()


@pytest.fixture(scope="module")
def engine():
    """An engine that does not saturate sums of products of whole bytes, as others do on old processors."""
    before = torch.backends.quantized.engine
    if "qnnpack" in torch.backends.quantized.supported_engines:
        torch.backends.quantized.engine = "qnnpack"
    yield torch.backends.quantized.engine
    torch.backends.quantized.engine = before


@pytest.fixture(scope="module")
def quantized(resnet18):
    whole_bytes = activation_observer(reduce_range=False)
    return QuantizeStatic([images(3)], activation=whole_bytes)(fxcore.symbolic_trace(resnet18))


@pytest.fixture(scope="module")
def lowered(quantized, engine):
    if engine != "qnnpack":
        pytest.skip(f"the engine {engine!r} may saturate")
    return LowerQuantized()(quantized.graph_module)


@pytest.fixture(params=["reference", pytest.param("lowered", marks=pytest.mark.slow)])
def integers(request, quantized):
    """The quantized model, in each of its two forms."""
    return (quantized if request.param == "reference" else request.getfixturevalue("lowered")).graph_module


@pytest.fixture(scope="module")
def expected(resnet18):
    return answers(resnet18)


def answers(module):
    with torch.no_grad():
        return module(images(2))


def check_answers(expected, obtained):
    """Fail if more is lost than 20 dB, or if an answer changes that the error does not excuse."""
    assert sqnr(expected, obtained) >= 20
    best, second = expected.topk(2).values.T
    is_clear = best - second > 2 * (expected - obtained).abs().amax(1)
    assert is_clear.sum() >= 3, "something is looked at"
    assert torch.equal(expected.argmax(1)[is_clear], obtained.argmax(1)[is_clear])


@pytest.mark.slow
def test_int8_resnet18_reaches_20_decibels_and_keeps_its_answers(expected, integers):
    assert len(expected.argmax(1).unique()) >= 10
    check_answers(expected, answers(integers))


def test_what_int8_resnet18_loses_is_told_layer_by_layer(quantized, integers):
    errors = layer_errors(quantized.float_module, integers, images(2))

    told = {error.path: error.sqnr for error in errors}
    assert told.keys() >= set(quantized.report.quantized)
    assert len(quantized.report.quantized) == 21
    assert str(errors[0]) == f"features.init_block.conv.conv: {errors[0].sqnr:.1f} dB"
    assert errors[0].sqnr > 30, "errors add up along the graph"
    assert min(told.values()) > 15


def test_int8_resnet18_computes_with_integers_throughout(quantized, lowered):
    assert len(lowered.report.quantized) == 21 + 14, "layers, and additions with what follows"
    assert not lowered.report.left
    assert len([node for node in lowered.graph_module.graph.nodes if node.target is torch.quantize_per_tensor]) == 3
    assert 3.9 < state_bytes(quantized.float_module) / state_bytes(lowered.graph_module) < 4


def with_wrong_scale(gm, path):
    """Return a model that takes values of one layer for sixteen times smaller than they are."""
    wrong = working_copy(gm)
    (call,) = wrong.graph.find_nodes(op="call_module", target=path)
    layer = wrong.get_submodule(path)
    if hasattr(layer, "scale"):
        made = copy.deepcopy(layer)
        made.scale /= 16
        set_attribute(wrong, path, made)
    else:
        (scaled,) = call.users
        scaled.update_arg(1, scaled.args[1] / 16)
    wrong.recompile()
    return wrong


def test_a_wrong_scale_in_resnet18_fails_the_check_and_the_layer_is_named(expected, quantized, integers):
    path = "features.stage2.unit2.body.conv1.conv"
    wrong = with_wrong_scale(integers, path)

    with pytest.raises(AssertionError):
        check_answers(expected, answers(wrong))
    errors = layer_errors(quantized.float_module, wrong, images(2))
    assert next(error.path for error in errors if error.sqnr < 15) in (path, "features.stage2.unit2.body.conv2.conv")


def test_the_layer_that_loses_most_comes_first():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 8)).eval()
    with torch.no_grad():
        model[0].weight[:, 0] = 4.0
    x = torch.randn(32, 64)
    gm = fxcore.symbolic_trace(model)

    def quantize(skip):
        return QuantizeStatic([x], skip=skip)

    order = sensitivity(gm, quantize, x)

    assert [error.sqnr for error in order] == sorted(error.sqnr for error in order)
    assert sorted(error.path for error in order) == ["0", "2", "4"]
    assert str(order[0]) == f"{order[0].path}: {order[0].sqnr:.1f} dB"
    without = {error.path: quantize(Skip((error.path,)))(gm).graph_module(x) for error in order}
    gains = [sqnr(model(x), without[error.path]) for error in order]
    assert gains[0] == max(gains)


def test_the_loss_is_measured_at_the_first_tensor_of_a_nested_result():
    class Nested(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x):
            return {"found": [self.first(x), self.second(x)]}

    torch.manual_seed(0)
    x = torch.randn(4, 8)

    errors = sensitivity(fxcore.symbolic_trace(Nested().eval()), lambda skip: QuantizeStatic([x], skip=skip), x)

    assert [error.path for error in errors] == ["first", "second"]
    assert errors[0].sqnr < errors[1].sqnr, "the first result does not depend on the second layer"


@pytest.mark.parametrize(
    ("transform", "least", "smaller"),
    [
        (QuantizeDynamic(), 25, 3.5),
        (QuantizeWeights(), 35, 3.5),
        (QuantizeWeights(bits=8, group_size=16), 38, 2.9),
        (QuantizeWeights(bits=4), 15, 5),
        (QuantizeWeights(bits=4, group_size=9), 17, 3.5),
    ],
    ids=["dynamic", "int8", "int8 groups", "int4", "int4 uneven groups"],
)
def test_weights_alone_are_smaller_and_close(transform, least, smaller):
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(65, 64), nn.ReLU(), nn.Linear(64, 7)).eval(), torch.randn(8, 65)

    result = check_transform(transform, model, (x,), checks=("values", "dtype"), sqnr=least)

    assert state_bytes(model) / state_bytes(result.after) > smaller
    report = transform(fxcore.symbolic_trace(model)).report
    assert report.quantized == ("0", "2")


@pytest.mark.parametrize("kind", ["Conv1d", "Conv2d", "Conv3d"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weights_of_convolutions_are_stored_as_integers(kind, dtype):
    size = int(kind[4])
    model = nn.Sequential(getattr(nn, kind)(4, 6, 3, groups=2, padding=1, padding_mode="circular")).eval().to(dtype)
    x = torch.randn(2, 4, *[5] * size, dtype=dtype)

    made = QuantizeWeights()(fxcore.symbolic_trace(model)).graph_module

    assert made.get_submodule("0").integers.dtype is torch.int8
    assert made(x).dtype is dtype
    assert sqnr(model(x), made(x)) > 30
    assert copy.deepcopy(made)(x).equal(made(x))


class Recurrent(nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.layer, self.kind = getattr(nn, kind)(8, 16, **options), kind

    def forward(self, x):
        result = self.layer(x)
        return result if self.kind in ("GRUCell", "RNNCell") else result[0]


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        *(("LSTM", {}), ("GRU", {}), ("LSTMCell", {}), ("GRUCell", {}), ("RNNCell", {"nonlinearity": "relu"})),
        *((kind, {"num_layers": 2, "bidirectional": True, "batch_first": True}) for kind in ("LSTM", "GRU")),
    ],
    ids=str,
)
def test_recurrent_layers_are_quantized_dynamically(kind, options):
    torch.manual_seed(0)
    model = Recurrent(kind, **options).eval()
    x = torch.randn(*((5,) if "Cell" in kind else (3, 5)), 8)
    settings = dict(vars(model.layer))

    result = QuantizeDynamic()(fxcore.symbolic_trace(model))

    assert str(result.report) == "quantized 1\n  layer\nleft in floating point 0"
    assert sqnr(model(x), result.graph_module(x)) > 30
    assert vars(model.layer) == settings, "the layer that is given stays"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"bias": False}, "it has no bias, and torch quantizes recurrent layers with bias alone"),
        ({"proj_size": 4}, "it projects its hidden state, and torch's quantized layers do not"),
    ],
)
def test_recurrent_layers_that_torch_cannot_quantize_are_told_with_the_reason(options, reason):
    gm = fxcore.symbolic_trace(Recurrent("LSTM", **options).eval())

    assert [str(each) for each in QuantizeDynamic()(gm).report.left] == [f"layer: {reason}"]


def test_layers_are_skipped_and_bad_settings_refused():
    gm = fxcore.symbolic_trace(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)).eval())

    for transform in (QuantizeWeights(skip=Skip(("1",))), QuantizeDynamic(skip=Skip(("1",)))):
        assert [str(each) for each in transform(gm).report.left] == ["1: its path is skipped by '1'"]
    with pytest.raises(fxcore.errors.PassArgumentError, match="weights of 3 bits in groups of None cannot be made"):
        QuantizeWeights(bits=3)(gm)


@pytest.mark.parametrize("rows", [1, 8, 9])
@pytest.mark.parametrize("bias", [True, False])
def test_few_rows_of_bfloat16_go_to_the_kernel_of_torch(rows, bias, monkeypatch):
    calls = []
    kernel = torch._weight_int8pack_mm
    monkeypatch.setattr(torch, "_weight_int8pack_mm", lambda *args: (calls.append(args), kernel(*args))[1])
    model, x = nn.Sequential(nn.Linear(64, 32, bias=bias)).to(torch.bfloat16), torch.randn(rows, 1, 64).bfloat16()
    made = QuantizeWeights()(fxcore.symbolic_trace(model)).graph_module

    result = made(x)
    with_gradient = made(x.clone().requires_grad_())

    assert len(calls) == (rows <= 8), "a run that needs gradients never goes there"
    assert result.shape == (rows, 1, 32)
    assert result.dtype is with_gradient.dtype is torch.bfloat16
    assert min(sqnr(model(x), result), sqnr(model(x), with_gradient)) > 35


def test_weights_alone_keep_the_type_under_autocast_and_give_gradients():
    model, x = nn.Sequential(nn.Linear(64, 32)), torch.randn(4, 64, requires_grad=True)
    made = QuantizeWeights()(fxcore.symbolic_trace(model)).graph_module

    with torch.autocast("cpu", torch.bfloat16):
        assert made(x).dtype is model(x).dtype is torch.bfloat16
    expected, obtained = (torch.autograd.grad(each(x).sum(), x)[0] for each in (model, made))
    assert sqnr(expected, obtained) > 35
    assert sqnr(made(x), fxcore.symbolic_trace(made)(x)) > 100
