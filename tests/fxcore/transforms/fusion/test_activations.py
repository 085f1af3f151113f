"""A layer and the activation after it become one module, where nothing else reads the layer's result."""

from __future__ import annotations

import pytest
import torch
import torch.ao.nn.intrinsic as nni
import torch.nn.functional as F
from torch import nn

import fxcore
from fxcore.errors import EvalModeError
from fxcore.interop import from_torch
from fxcore.transforms.fusion.activations import INTRINSIC, FuseActivations, in_sequence
from pytest_fxgraph import check_transform


class Net(nn.Module):
    """A layer, and what a function does with its result."""

    def __init__(self, layer, activate):
        super().__init__()
        self.layer, self.activate = layer, activate

    def forward(self, x):
        return self.activate(self.layer(x))


@pytest.mark.parametrize(
    ("activate", "expected"),
    [
        (nn.ReLU(), nni.LinearReLU),
        (nn.ReLU(inplace=True), nni.LinearReLU),
        (torch.relu, nni.LinearReLU),
        (F.relu, nni.LinearReLU),
        (lambda x: F.relu(x, inplace=True), nni.LinearReLU),
        (lambda x: x.relu(), nni.LinearReLU),
        (lambda x: x.relu_(), nni.LinearReLU),
        (lambda x: F.leaky_relu(x, 0.2), nni.LinearLeakyReLU),
        (nn.LeakyReLU(0.2), nni.LinearLeakyReLU),
        (torch.tanh, nni.LinearTanh),
    ],
)
def test_every_spelling_of_an_activation_is_joined(activate, expected):
    model, x = Net(nn.Linear(4, 4), activate).eval(), torch.randn(3, 4)
    layer = model.layer

    result = FuseActivations()(fxcore.symbolic_trace(model))

    joined = result.graph_module.layer
    assert type(joined) is expected
    assert joined[0] is layer
    assert not joined.training
    assert [node.op for node in result.graph_module.graph.nodes] == ["placeholder", "call_module", "output"]
    torch.testing.assert_close(result.graph_module(x), model(x))


@pytest.mark.parametrize(
    ("layer", "shape", "joined"),
    [
        (nn.Conv1d(2, 3, 1), (1, 2, 4), nni.ConvReLU1d),
        (nn.Conv2d(2, 3, 1), (1, 2, 4, 4), nni.ConvReLU2d),
        (nn.Conv3d(2, 3, 1), (1, 2, 2, 2, 2), nni.ConvReLU3d),
        (nn.BatchNorm2d(2), (1, 2, 4, 4), nni.BNReLU2d),
        (nn.BatchNorm3d(2), (1, 2, 2, 2, 2), nni.BNReLU3d),
    ],
)
def test_the_fixture_for_transforms_finds_nothing_wrong(layer, shape, joined):
    result = check_transform(FuseActivations(), Net(layer, torch.relu).eval(), (torch.randn(shape),))

    result.assert_ops(removed={torch.relu: 1, type(layer): 1}, added={joined: 1})


def test_patterns_of_ones_own_are_a_table():
    model, x = nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.Linear(4, 4), nn.ReLU()).eval(), torch.randn(3, 4)
    patterns = {**INTRINSIC, **in_sequence([nn.Linear], [nn.GELU, nn.SiLU])}

    result = FuseActivations(patterns)(fxcore.symbolic_trace(model))

    assert str(result.report) == "fused 2\n  0 + 1\n  2 + 3\nleft alone 0"
    assert type(result.graph_module.get_submodule("0")) is nn.Sequential
    torch.testing.assert_close(result.graph_module(x), model(x))


@pytest.mark.parametrize(
    ("activate", "reason"),
    [
        (lambda x: torch.relu(x) + x, "its result is read by relu, add"),
        (torch.exp, "what follows is exp, with which no pattern joins it"),
        (lambda x: x.relu(out=None), "what follows is relu, with which no pattern joins it"),
        (lambda x: torch.tanh(x, out=torch.empty(3, 4)), "what follows is tanh, with which no pattern joins it"),
        (lambda x: F.leaky_relu(x, x.shape[0]), "its result is read by getattr_1, leaky_relu"),
        (nn.PReLU(), "what follows is activate, with which no pattern joins it"),
        (lambda x: x, "what follows is output, with which no pattern joins it"),
    ],
)
def test_what_is_left_alone_is_told_with_the_reason(activate, reason):
    gm = fxcore.symbolic_trace(Net(nn.Linear(4, 4), activate).eval())

    result = FuseActivations()(gm)

    assert result.graph_module is gm
    assert str(result.report) == f"fused 0\nleft alone 1\n  layer: {reason}"


def test_hooks_and_weights_that_the_graph_reads_keep_a_layer_alone():
    class Reads(Net):
        def forward(self, x):
            return super().forward(x) * self.layer.weight.sum()

    hooked, active = Net(nn.Linear(4, 4), nn.ReLU()).eval(), Net(nn.Linear(4, 4), nn.ReLU()).eval()
    hooked.layer.register_forward_hook(lambda module, args, result: result + 1)
    active.activate.register_forward_hook(lambda module, args, result: result + 1)

    def reason(model):
        result = FuseActivations()(fxcore.symbolic_trace(model))
        assert not result.modified
        return result.report.left[0].reason

    assert reason(hooked) == "it has hooks, which passes after this one would not see"
    assert reason(active) == "what follows is activate, with which no pattern joins it"
    assert reason(Reads(nn.Linear(4, 4), torch.relu).eval()) == "the graph reads its weights itself"


class Shared(nn.Module):
    def __init__(self, slopes):
        super().__init__()
        self.layer, self.slopes = nn.Linear(4, 4), slopes

    def forward(self, x):
        for slope in self.slopes:
            x = F.leaky_relu(self.layer(x), slope)
        return x


@pytest.mark.parametrize(("slopes", "is_fused"), [((0.1, 0.1), True), ((0.1, 0.2), False)])
def test_a_shared_layer_is_joined_if_the_same_activation_follows_each_call(slopes, is_fused):
    model, x = Shared(slopes).eval(), torch.randn(3, 4)

    result = FuseActivations()(fxcore.symbolic_trace(model))

    assert result.modified == is_fused
    assert ("different activations follow" in str(result.report)) != is_fused
    torch.testing.assert_close(result.graph_module(x), model(x))


def test_training_is_refused_in_words():
    gm = fxcore.symbolic_trace(Net(nn.Linear(4, 4), torch.relu))

    with pytest.raises(EvalModeError) as refused:
        FuseActivations()(gm)

    assert str(refused.value) == (
        "Fusion only for eval: cannot join 'layer' and its activation, because it is in training mode; "
        "call eval() on the model, trace it, and run this pass then"
    )


def test_a_layer_that_is_a_function_has_its_reason():
    model = Net(nn.Linear(4, 4), nn.ReLU()).eval()
    gm = from_torch(torch.export.export(model, (torch.randn(3, 4),)))

    report = FuseActivations()(gm).report

    assert str(report.left[0]).startswith(
        "linear: the graph calls a function with its weight, and patterns join modules"
    )


def test_a_model_traced_with_an_example_is_joined_although_the_trace_reads_its_weights():
    model, x = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval(), torch.randn(2, 3, 8)
    gm = fxcore.symbolic_trace(model, example_inputs=(x,))

    result = FuseActivations()(gm)

    assert [str(each) for each in result.report.fused] == ["linear1 + relu"]
    torch.testing.assert_close(result.graph_module(x), model(x))
