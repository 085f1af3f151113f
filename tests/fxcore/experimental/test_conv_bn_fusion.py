from __future__ import annotations

import pytest
import torch
import torch.fx
import torch.fx.experimental.optimization as theirs
from torch import nn

import fxcore
from fxcore.experimental.conv_bn_fusion import matches_module_pattern, replace_node_module
from fxcore.experimental.optimization import fuse


def settled(norm):
    """Give a normalisation statistics and weights that change values."""
    norm.running_mean.normal_()
    norm.running_var.uniform_(0.5, 2)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    return norm


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = nn.Sequential(nn.Conv2d(3, 4, 3), settled(nn.BatchNorm2d(4)), nn.ReLU())
        self.line = nn.Conv1d(4, 4, 1)
        self.line_norm = settled(nn.BatchNorm1d(4))
        self.cube = nn.Conv3d(1, 2, 1, bias=False)
        self.cube_norm = settled(nn.BatchNorm3d(2))
        self.linear = nn.Linear(2, 2)
        self.linear_norm = settled(nn.BatchNorm1d(2))
        self.without_statistics = nn.BatchNorm2d(4, track_running_stats=False)

    def forward(self, x):
        y = self.without_statistics(self.block(x))
        z = self.line_norm(self.line(y.flatten(2)))
        cube = self.cube_norm(self.cube(z[:, None, None]))
        return self.linear_norm(self.linear(cube.mean((2, 3, 4))))


@pytest.mark.parametrize("no_trace", [False, True])
def test_layers_are_fused_as_in_torch(no_trace):
    model, x = Net().eval(), torch.randn(2, 3, 6, 6)
    ours, expected = (fxcore.symbolic_trace(model), torch.fx.symbolic_trace(model)) if no_trace else (model, model)

    fused, expected = fuse(ours, no_trace=no_trace), theirs.fuse(expected, no_trace=no_trace)

    assert str(fused.graph) == str(expected.graph)
    assert str(fused) == str(expected)
    torch.testing.assert_close(fused(x), model(x), rtol=1e-4, atol=1e-4)
    assert not fused.training


def test_the_model_stays_as_it_is():
    model = Net().eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}

    fuse(model)

    assert type(model.block[1]) is nn.BatchNorm2d
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize(
    ("options", "is_changed"), [({}, False), ({"inplace": False}, False), ({"inplace": True}, True)]
)
def test_a_graph_module_is_changed_only_if_asked_for(options, is_changed):
    traced = {fx: fx.symbolic_trace(Net().eval()) for fx in (fxcore, torch.fx)}
    layers = {fx: traced[fx].get_submodule("block.0") for fx in traced}

    fuse(traced[fxcore], no_trace=True, **options)
    theirs.fuse(traced[torch.fx], no_trace=True, **options)

    for fx in traced:
        assert (traced[fx].get_submodule("block.0") is not layers[fx]) == is_changed


class Shared(nn.Module):
    """A convolution that is called twice, by one of several rules."""

    def __init__(self, rule):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 1)
        self.first = settled(nn.BatchNorm2d(3))
        self.second = settled(nn.BatchNorm2d(3))
        self.rule = rule

    def forward(self, x):
        if self.rule == "two norms":
            return self.first(self.conv(x)), self.second(self.conv(x))
        if self.rule == "one call without norm":
            return self.first(self.conv(x)), self.conv(x)
        if self.rule == "weight is read":
            return self.first(self.conv(x)), self.conv.weight * 2
        return self.first(self.conv(x)), self.first(self.conv(x * 2))


@pytest.mark.parametrize(
    ("rule", "norms_left"),
    [("two norms", 2), ("one call without norm", 1), ("weight is read", 1), ("one norm", 0)],
)
def test_a_shared_convolution_is_right_where_torch_is_wrong(rule, norms_left):
    model, x = Shared(rule).eval(), torch.randn(2, 3, 4, 4)
    right = model(x)
    wrong = theirs.fuse(model)(x)
    assert not all(torch.allclose(a, b, atol=1e-4) for a, b in zip(wrong, right, strict=True))

    fused = fuse(model)

    for obtained, expected in zip(fused(x), right, strict=True):
        torch.testing.assert_close(obtained, expected, rtol=1e-4, atol=1e-4)
    assert fused.code.count("self.first") + fused.code.count("self.second") == norms_left


def test_a_convolution_that_others_read_is_left_alone():
    class Branching(Shared):
        def forward(self, x):
            y = self.conv(x)
            return self.first(y) + y

    model, x = Branching("").eval(), torch.randn(2, 3, 4, 4)

    fused = fuse(model)

    assert "self.first" in fused.code
    torch.testing.assert_close(fused(x), model(x))


def test_a_model_in_training_is_refused():
    with pytest.raises(AssertionError, match="Fusion only for eval"):
        fuse(Net())


def test_a_pattern_of_two_modules_is_found_and_replaced():
    gm = fxcore.symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    modules = dict(gm.named_modules())
    placeholder, linear, relu, _ = gm.graph.nodes

    assert matches_module_pattern((nn.Linear, nn.ReLU), relu, modules)
    assert not matches_module_pattern((nn.ReLU, nn.Linear), relu, modules)
    assert not matches_module_pattern((nn.Linear, nn.ReLU), linear, modules)
    assert not matches_module_pattern((nn.Linear, nn.ReLU), placeholder, modules)
    replace_node_module(relu, modules, new := nn.Sigmoid())
    assert getattr(gm, "1") is new is modules["1"]


def test_a_node_that_calls_no_module_has_none_to_replace():
    gm = fxcore.symbolic_trace(lambda x: torch.relu(x))
    _, relu, _ = gm.graph.nodes

    with pytest.raises(AssertionError, match=r"Expected str target, got .*: relu calls no module"):
        replace_node_module(relu, {}, nn.ReLU())
