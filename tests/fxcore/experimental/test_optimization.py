from __future__ import annotations

import pytest
import torch
import torch.fx
import torch.fx.experimental.optimization as theirs
import torch.nn.functional as F
from torch import nn

import fxcore
from fxcore.experimental import optimization as ours

needs_mkldnn = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="built without oneDNN")


def test_dropout_layers_go_as_in_torch():
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(), nn.Sequential(nn.Dropout(0.3), nn.ReLU()))

    without = ours.remove_dropout(model)

    assert str(without.graph) == str(theirs.remove_dropout(model).graph)
    assert "Dropout" not in str(without)


class Functional(nn.Module):
    def forward(self, x):
        return F.dropout2d(F.dropout(x, 0.5, training=self.training), 0.5, self.training)


def test_functional_dropout_baked_in_by_training_goes_where_torch_leaves_it():
    model, x = Functional().train(), torch.ones(1, 50, 2, 2)
    left = theirs.remove_dropout(model).eval()
    assert not torch.equal(left(x), x)

    without = ours.remove_dropout(model)

    assert torch.equal(without(x), x)


def test_functional_dropout_that_does_nothing_stays_as_in_torch():
    model = Functional().eval()

    assert str(ours.remove_dropout(model).graph) == str(theirs.remove_dropout(model).graph)


def test_a_subgraph_is_taken_out():
    gm = fxcore.symbolic_trace(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)))
    placeholder, linear, relu, _, _ = gm.graph.nodes
    x = torch.randn(4, 2)

    part = ours.extract_subgraph(gm, [linear, relu], [placeholder], [relu, linear])

    hidden = getattr(gm, "0")(x)
    torch.testing.assert_close(part(x), [hidden.relu(), hidden])


def test_sets_are_joined_and_named():
    sets = ours.UnionFind(4)
    for number in range(3):
        sets.make_set(number)

    assert sets.join(0, 1) is None
    assert sets.join(1, 0) == sets.find(0) == sets.find(1)
    assert sets.find(2) == 2
    with pytest.raises(AssertionError, match="Parent is None: 3 is in no set"):
        sets.find(3)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, padding=1)
        self.norm = nn.BatchNorm2d(3)
        self.pool = nn.MaxPool2d(2)
        self.again = nn.Conv2d(3, 4, 1)

    def forward(self, x):
        y = F.relu(self.norm(self.conv(x)))
        y = self.pool((y + x) * 2)
        return self.again(y).flatten(1)


@needs_mkldnn
@pytest.mark.parametrize(
    "config",
    [
        {},
        {"mkldnn_layout_optimize": False},
        {"mkldnn_layout_optimize": {"heuristic": lambda graph: False}},
        {"conv_bn_fuse": False, "mkldnn_layout_optimize": {"heuristic": lambda graph: True}},
    ],
    ids=["default", "no layout", "never", "always"],
)
def test_a_model_is_optimized_as_in_torch(config):
    model, x = Residual().eval(), torch.randn(2, 3, 8, 8)

    fast = ours.optimize_for_inference(model, config)
    expected = theirs.optimize_for_inference(model, config)

    assert str(fast.graph) == str(expected.graph)
    assert str(fast) == str(expected)
    torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-4)


@needs_mkldnn
def test_adding_a_number_stays_outside_where_torch_fails():
    class Adding(Residual):
        def forward(self, x):
            return self.again(1 + self.conv(x) + 3)

    model, x = Adding().eval(), torch.randn(2, 3, 8, 8)
    with pytest.raises(Exception, match=r"tensor input|has no attribute"):
        theirs.optimize_for_inference(model, {"mkldnn_layout_optimize": {"heuristic": lambda graph: True}})(x)

    fast = ours.optimize_for_inference(model, {"mkldnn_layout_optimize": {"heuristic": lambda graph: True}})

    torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-4)


@needs_mkldnn
def test_the_autotuner_times_both_where_torch_fails():
    model, x = Residual().eval(), torch.randn(2, 3, 8, 8)
    with pytest.raises(RuntimeError, match="ShapeProp error"):
        theirs.optimize_for_inference(model, {"mkldnn_layout_optimize": {"heuristic": theirs.gen_mkl_autotuner([x])}})
    asked = []
    tune = ours.gen_mkl_autotuner([x], iters=1)

    def heuristic(graph):
        asked.append(len(graph.nodes))
        return tune(graph)

    fast = ours.optimize_for_inference(model, {"mkldnn_layout_optimize": {"heuristic": heuristic}})

    assert asked
    torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-4)


@needs_mkldnn
def test_the_model_itself_is_never_changed():
    model = Residual().eval()

    ours.optimize_for_inference(model, {"conv_bn_fuse": False, "remove_dropout": False})

    assert type(model.conv) is nn.Conv2d


@needs_mkldnn
def test_modules_of_other_types_are_refused():
    with pytest.raises(AssertionError, match=r"only for torch.float modules; 0 is torch.float64"):
        ours.optimize_for_inference(nn.Sequential(nn.Linear(2, 2)).double().eval())


@pytest.mark.parametrize(
    ("layout", "words"), [(True, "config is not a dict: True"), ({}, "Heuristic not found in mkldnn_layout_optimize")]
)
def test_a_config_of_another_form_is_refused(layout, words):
    with pytest.raises(RuntimeError, match=words):
        ours.optimize_for_inference(nn.ReLU(), {"mkldnn_layout_optimize": layout})


def test_every_public_name_of_torch_is_there():
    assert set(theirs.__all__) <= set(ours.__all__)
