"""Batch norm is folded into the layer before it, whatever the spelling, and left alone where that would be wrong."""

from __future__ import annotations

import operator

import pytest
import torch
import torch.fx
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

import fxcore
from fixtures.lowered import in_the_edge_dialect
from fxcore import interop
from fxcore.errors import EvalModeError
from fxcore.transforms.fusion.batch_norm import FuseBatchNorm
from pytest_fxgraph import check_transform

RIGHT = {"rtol": 1e-4, "atol": 1e-4}


def settled(norm):
    """Give a norm statistics and weights that change values."""
    norm.running_mean.normal_()
    norm.running_var.uniform_(0.5, 2)
    if norm.affine:
        nn.init.normal_(norm.weight)
        nn.init.normal_(norm.bias)
    return norm


class Pair(nn.Module):
    def __init__(self, layer, norm):
        super().__init__()
        self.layer, self.norm = layer, settled(norm)

    def forward(self, x):
        return self.norm(self.layer(x))


class Functional(nn.Module):
    """The same by functions that read the weights from the modules."""

    def __init__(self, pair):
        super().__init__()
        self.layer, self.norm = pair.layer, pair.norm

    def forward(self, x):
        layer, norm = self.layer, self.norm
        if isinstance(layer, nn.Linear):
            y = F.linear(x, layer.weight, layer.bias)
        else:
            turned = "_transpose" if layer.transposed else ""
            call = getattr(F, f"conv{turned}{len(layer.kernel_size)}d")
            y = call(x, layer.weight, layer.bias, stride=layer.stride, groups=layer.groups)
        return F.batch_norm(y, norm.running_mean, norm.running_var, norm.weight, norm.bias, False, 0.1, norm.eps)


def pair(kind, size, groups=1, bias=True, affine=True):
    norm = getattr(nn, f"BatchNorm{size}d")(6, affine=affine, eps=1e-3)
    if kind == "Linear":
        return Pair(nn.Linear(4, 6, bias=bias), norm).eval(), torch.randn(3, 4)
    layer = getattr(nn, f"{kind}{size}d")(4, 6, 2, groups=groups, bias=bias)
    return Pair(layer, norm).eval(), torch.randn(3, 4, *[5] * size)


KINDS = [*((kind, size) for kind in ("Conv", "ConvTranspose") for size in (1, 2, 3)), ("Linear", 1)]
FORMS = ("module", "functional", "exported", "decomposed", "make_fx", "edge")


def graph_of(model, x, form):
    if form in ("module", "functional"):
        return fxcore.symbolic_trace(model if form == "module" else Functional(model).eval())
    if form == "make_fx":
        return interop.from_torch(make_fx(model)(x))
    program = torch.export.export(model, (x,))
    made = interop.from_torch(program if form == "exported" else program.run_decompositions())
    return in_the_edge_dialect(made) if form == "edge" else made


def norms_in(gm):
    return [node for node in gm.graph.nodes if "norm" in str(node.target)]


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize(
    ("kind", "size", "form"),
    [
        pytest.param(kind, size, form, marks=[pytest.mark.slow] if size != 1 and form in ("decomposed", "edge") else [])
        for kind, size in KINDS
        for form in FORMS
    ],
)
def test_every_kind_of_layer_takes_the_norm_in_every_spelling(kind, size, form):
    model, x = pair(kind, size, groups=1 if kind == "Linear" else 2)
    gm = graph_of(model, x, form)
    state = {name: value.clone() for name, value in gm.state_dict().items()}

    result = FuseBatchNorm()(gm)

    assert result.modified
    assert len(result.report.fused) == 1
    assert not result.report.left
    assert not norms_in(result.graph_module)
    assert len(result.graph_module.state_dict()) == 2
    torch.testing.assert_close(result.graph_module(x), model(x), rtol=1e-4, atol=1e-5)
    assert norms_in(gm), "the graph that is given stays"
    assert all(torch.equal(value, state[name]) for name, value in gm.state_dict().items())


@settings(max_examples=25, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    groups=st.sampled_from([1, 2]),
    bias=st.booleans(),
    affine=st.booleans(),
    dtype=st.sampled_from([torch.float32, torch.float64, torch.bfloat16, torch.float16]),
    form=st.sampled_from(["module", "functional"]),
)
def test_weights_of_all_precisions_are_folded_and_keep_theirs(kind, groups, bias, affine, dtype, form):
    model, x = pair(*kind, groups=groups, bias=bias, affine=affine)
    expected = model.double()(x.double())
    model = model.to(dtype)

    fused = FuseBatchNorm()(graph_of(model, x, form)).graph_module

    assert {value.dtype for value in fused.state_dict().values()} == {dtype}
    tolerance = 1e-9 if dtype is torch.float64 else 1e-4 if dtype is torch.float32 else 0.1
    if dtype is torch.float64:  # statistics went through single precision and back
        torch.testing.assert_close(fused(x.to(dtype)), expected, rtol=tolerance, atol=tolerance)
    else:
        torch.testing.assert_close(fused(x.to(dtype)).double(), expected, rtol=tolerance, atol=3 * tolerance)


def test_the_fixture_for_transforms_finds_nothing_wrong():
    model, x = pair("Conv", 2)

    result = check_transform(FuseBatchNorm(), model, (x,), **RIGHT)

    result.assert_ops(removed={nn.BatchNorm2d: 1})


def test_a_graph_of_torch_is_fused_through_interop():
    model, x = pair("Conv", 2)

    result = check_transform(interop.on_torch_graphs(FuseBatchNorm()), torch.fx.symbolic_trace(model), (x,), **RIGHT)

    assert isinstance(result.after, torch.fx.GraphModule)
    result.assert_ops(removed={nn.BatchNorm2d: 1})


class Several(nn.Module):
    """A convolution and norms, put together in one of several ways."""

    def __init__(self, way):
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 1)
        self.tied = nn.Conv2d(4, 4, 1)
        self.first, self.second = settled(nn.BatchNorm2d(4)), settled(nn.BatchNorm2d(4))
        self.way = way
        if way == "weights are tied":
            self.tied.weight = self.conv.weight
        if way == "hooks":
            self.conv.register_forward_hook(lambda *_: None)
        if way == "no statistics":
            self.first = nn.BatchNorm2d(4, track_running_stats=False)
        if way == "channels":
            self.first = settled(nn.BatchNorm2d(2))
        if way == "subclass":
            self.conv = type("Mine", (nn.Conv2d,), {})(4, 4, 1)

    def forward(self, x):
        y = self.conv(x)
        if self.way == "result is read":
            return self.first(y) + y
        if self.way == "two norms":
            return self.first(y) + self.second(self.conv(x + 1))
        if self.way == "called without":
            return self.first(y) + self.conv(x + 1)
        if self.way == "weights are read":
            return self.first(y) * self.conv.weight.sum()
        if self.way == "weights are tied":
            return self.first(y) + self.tied(x)
        if self.way == "relu between":
            return self.first(torch.relu(y))
        if self.way == "statistics are written":
            self.first.running_mean.mul_(2)
        if self.way == "input":
            return self.first(x) + y
        return self.first(y)


@pytest.mark.parametrize(
    ("way", "reason"),
    [
        ("result is read", "add reads the result of conv, too"),
        ("two norms", "conv is called several times, and different norms follow"),
        ("called without", "conv is called elsewhere without this norm"),
        ("weights are read", "the weights of conv are read elsewhere, too"),
        ("weights are tied", "the weights of conv are read elsewhere, too"),
        ("relu between", "it follows relu, which is no layer with a weight that the module holds"),
        ("input", "it normalises an input"),
        ("statistics are written", "the graph writes to its statistics or weights"),
        ("hooks", "the Conv2d has hooks, which would no longer run or see other values"),
        ("no statistics", "it keeps no statistics, or they or its weights are computed in the graph"),
        ("channels", "it normalises 2 channels, and conv has 4"),
        ("subclass", "conv is of class Mine, which may compute something else than Conv2d"),
    ],
)
def test_what_is_left_alone_is_told_with_the_reason(way, reason):
    model = Several(way).eval()
    # Functions of the module class are traced as one call, as torch's own are.
    tracer = fxcore.Tracer()
    tracer.proxy_buffer_attributes = True
    tracer.is_leaf_module = lambda module, path: isinstance(module, (nn.Conv2d, nn.BatchNorm2d))
    gm = fxcore.GraphModule(model, tracer.trace(model))

    result = FuseBatchNorm()(gm)

    assert result.graph_module is gm
    assert not result.modified
    assert f"  first: {reason}" in str(result.report).splitlines()


def test_a_layer_that_is_called_twice_takes_the_norm_that_follows_both_calls():
    class Twice(Several):
        def forward(self, x):
            return self.first(self.conv(x)) * self.first(self.conv(x + 1))

    model, x = Twice("").eval(), torch.randn(2, 4, 3, 3)

    result = FuseBatchNorm()(fxcore.symbolic_trace(model))

    assert str(result.report) == "fused 2\n  conv + first\n  conv + first\nleft alone 0"
    torch.testing.assert_close(result.graph_module(x), model(x), rtol=1e-4, atol=1e-4)


def test_a_linear_layer_on_sequences_is_left_alone_where_its_shape_is_known():
    model = Pair(nn.Linear(4, 6), nn.BatchNorm1d(6)).eval()
    x = torch.randn(2, 6, 4)
    gm = fxcore.symbolic_trace(model)
    fxcore.passes.shape_prop.ShapeProp(gm).propagate(x)

    result = FuseBatchNorm()(gm)

    assert not result.modified
    assert "layer has 3 dimensions, of which it normalises the second, not the last" in str(result.report)


def test_a_convolution_without_batch_is_left_alone_where_its_shape_is_known():
    model = Pair(nn.Conv1d(4, 6, 1), nn.BatchNorm1d(6)).eval()
    x = torch.randn(4, 6)  # six places, which the norm takes for channels
    gm = fxcore.symbolic_trace(model)
    fxcore.passes.shape_prop.ShapeProp(gm).propagate(x)

    result = FuseBatchNorm()(gm)

    assert not result.modified
    assert "the result of layer has no batch" in str(result.report)


@pytest.mark.parametrize("form", ["module", "functional"])
def test_training_is_refused_in_words(form):
    model, _ = pair("Conv", 2)
    model.train()

    class Training(nn.Module):
        def __init__(self):
            super().__init__()
            self.pair = model

        def forward(self, x):
            norm, y = self.pair.norm, F.conv2d(x, self.pair.layer.weight)
            return F.batch_norm(y, norm.running_mean, norm.running_var, training=self.training)

    gm = fxcore.symbolic_trace(model if form == "module" else Training())
    names = ("norm", "layer") if form == "module" else ("batch_norm", "conv2d")

    with pytest.raises(EvalModeError) as refused:
        FuseBatchNorm()(gm)

    assert str(refused.value) == (
        f"Fusion only for eval: cannot fold batch norm {names[0]!r} into {names[1]!r}, because {names[0]!r} is in "
        "training mode, where statistics and weights change; call eval() on the model, trace it, and run this pass then"
    )


def test_a_graph_without_norm_comes_back_itself():
    gm = fxcore.symbolic_trace(nn.Linear(2, 2))

    result = FuseBatchNorm()(gm)

    assert result.graph_module is gm
    assert str(result.report) == "fused 0\nleft alone 0"


def test_a_norm_whose_statistics_are_read_is_left_alone():
    model, x = pair("Conv", 2)
    gm = make_fx(model)(x)
    native = next(node for node in gm.graph.nodes if "native_batch_norm" in str(node.target))
    with gm.graph.inserting_after(native):
        mean = gm.graph.call_function(operator.getitem, (native, 1))
    gm.graph.output_node().args = ((gm.graph.output_node().args[0], mean),)

    result = FuseBatchNorm()(interop.from_torch(gm))

    assert not result.modified
    assert "the statistics that it returns are read" in str(result.report)


def test_a_layer_that_is_called_with_keywords_takes_new_weights_by_keyword():
    class Keywords(Pair):
        def forward(self, x):
            layer, norm = self.layer, self.norm
            y = F.linear(input=x, weight=layer.weight, bias=layer.bias)
            return F.batch_norm(y, norm.running_mean, norm.running_var, norm.weight, norm.bias, False, 0.1, norm.eps)

    torch.manual_seed(0)
    model = Keywords(nn.Linear(4, 6), nn.BatchNorm1d(6)).eval()

    result = check_transform(FuseBatchNorm(), model, (torch.randn(3, 4),), **RIGHT)

    (linear,) = [node for node in result.after.graph.nodes if node.op == "call_function"]
    assert (linear.args, list(linear.kwargs)) == ((), ["input", "weight", "bias"])


def test_a_function_without_bias_takes_the_new_bias_as_its_next_argument():
    class WithoutBias(Pair):
        def forward(self, x):
            return self.norm(F.conv1d(x, self.layer.weight))

    model = WithoutBias(nn.Conv1d(4, 6, 1, bias=False), nn.BatchNorm1d(6)).eval()

    result = check_transform(FuseBatchNorm(), model, (torch.randn(3, 4, 5),), **RIGHT)

    (convolution,) = [node for node in result.after.graph.nodes if node.op == "call_function"]
    assert [str(each) for each in convolution.args] == ["x", "layer_fused_weight", "layer_fused_bias"]
    assert convolution.kwargs == {}
