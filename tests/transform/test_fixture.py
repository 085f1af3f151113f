"""Transforms of every kind are applied the way each wants to be."""

from __future__ import annotations

import copy
import re
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

import fxcore
from fixtures.broken_table import BROKEN, BrokenEntry
from fixtures.broken_transforms import relu_bypassed
from fixtures.equivalence_page import kind_of
from fixtures.shown_frames import frames_of_the_plugin, raises_here
from fixtures.transform_models import ConvBnRelu, image
from fixtures.transforms import RIGHT, TransformEntry, copy_node_by_node, drop_dead_code
from fxcore.passes.shape_prop import ShapeProp
from pytest_fxgraph.errors import MismatchError, VacuousCheckError
from pytest_fxgraph.transform.fixture import FxTransform


def to_functional(gm: fxcore.GraphModule) -> None:
    """Change in place and return nothing."""
    for node in gm.graph.nodes:
        if node.target is torch.relu:
            node.target = nn.functional.relu
    gm.recompile()


class Pass:
    """An object that is called and says whether it changed something."""

    def __call__(self, gm: fxcore.GraphModule) -> Any:
        to_functional(gm)
        return SimpleNamespace(graph_module=gm, modified=True)


def to_graph(gm: fxcore.GraphModule) -> fxcore.Graph:
    return copy_node_by_node(gm).graph


def to_module(gm: fxcore.GraphModule) -> nn.Module:
    return nn.Sequential(gm.get_submodule("conv"), gm.get_submodule("bn"), nn.ReLU())


class Noting(fxcore.Interpreter):
    """An interpreter that changes nothing."""


class Doubling(fxcore.Interpreter):
    """An interpreter that gets it wrong."""

    def run(self, *args: Any, **kwargs: Any) -> Any:
        return super().run(*args, **kwargs) * 2


@pytest.fixture(autouse=True)
def same_weights_in_every_run():
    """Some draws give a relu nothing but zeros, and a check of zeros is an error."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


@pytest.mark.parametrize("transform", [to_functional, Pass(), to_graph, to_module, Noting, fxcore.Transformer])
def test_every_kind_of_transform_is_applied(transform):
    result = FxTransform()(transform, ConvBnRelu(), image(), modes=("eval", "train"))

    assert isinstance(result.after, fxcore.GraphModule)


@pytest.mark.parametrize("transform", [lambda gm: gm, drop_dead_code, [drop_dead_code, drop_dead_code]])
@pytest.mark.parametrize(
    "subject",
    [
        ConvBnRelu,
        lambda: nn.Sequential(nn.Sequential(ConvBnRelu())),
        lambda: nn.Sequential(nn.Sequential(ConvBnRelu())).eval(),
        lambda: fxcore.symbolic_trace(nn.Sequential(ConvBnRelu()).eval()),
        lambda: fxcore.symbolic_trace(ConvBnRelu()),
        lambda: torch.fx.symbolic_trace(ConvBnRelu()),
        lambda: torch.export.export(ConvBnRelu().eval(), (image(),)),
    ],
)
def test_a_transform_that_does_nothing_is_refused_unless_that_is_meant(transform, subject):
    with raises_here(VacuousCheckError, match=r"checking .* says nothing: the graph is as it was, .*; allow_vacuous"):
        FxTransform()(transform, subject(), image())

    assert not FxTransform()(transform, subject(), image(), allow_vacuous=True).is_changed


def with_shapes(gm: fxcore.GraphModule) -> None:
    """Change metadata alone."""
    ShapeProp(gm).propagate(image())


@pytest.mark.parametrize("transform", [[drop_dead_code, to_functional], copy_node_by_node, Noting, with_shapes])
def test_one_transform_that_does_something_is_enough(transform):
    assert FxTransform()(transform, ConvBnRelu(), image()).is_changed


def test_metadata_that_no_node_has_cannot_be_kept():
    with raises_here(VacuousCheckError, match=r"keeps_meta=\('valu',\) says nothing: no node has the metadata 'valu'"):
        FxTransform()(copy_node_by_node, ConvBnRelu(), image(), keeps_meta=("valu",))

    FxTransform()(copy_node_by_node, ConvBnRelu(), image(), keeps_meta=("source",))


def test_an_interpreter_is_run_and_compared():
    with raises_here(AssertionError, match="eager and graph after Doubling differ"):
        FxTransform()(Doubling, ConvBnRelu(), image())


def test_of_a_list_the_pass_that_broke_it_is_named():
    with raises_here(AssertionError, match=r"graph after pass 2 \(relu_bypassed\) differ"):
        FxTransform()([drop_dead_code, relu_bypassed, to_functional], ConvBnRelu(), image())

    result = FxTransform()([drop_dead_code, to_functional], ConvBnRelu(), image())
    assert result.passes == ("drop_dead_code", "to_functional")


@pytest.mark.parametrize(
    ("transform", "words"),
    [
        ([], r"an empty list of transforms checks nothing"),
        (3, "3 is no transform"),
        (lambda gm: 5, "<lambda> returned int; a transform returns a module"),
    ],
)
def test_what_is_no_transform_is_refused(transform, words):
    with pytest.raises(TypeError, match=words):
        FxTransform()(transform, ConvBnRelu(), image())


def test_a_change_of_the_model_is_allowed_where_it_is_declared():
    def scaled(gm: fxcore.GraphModule) -> fxcore.GraphModule:
        with torch.no_grad():
            gm.get_submodule("conv").weight.mul_(2)
        return gm

    model = ConvBnRelu()
    weight = model.conv.weight.detach().clone()

    with raises_here(AssertionError, match=r"scaled changed the model that it was given: parameter conv\.weight"):
        FxTransform()(scaled, model, image())
    assert torch.equal(model.conv.weight, weight)

    # In place the weights may change; that the results change with them is still found.
    with raises_here(AssertionError, match="eager and graph after scaled differ"):
        FxTransform()(scaled, model, image(), inplace=True)


def test_an_idempotent_transform_passes_as_one():
    FxTransform()(drop_dead_code, ConvBnRelu(), image(), idempotent=True, allow_vacuous=True)


def made(entry: TransformEntry | BrokenEntry) -> torch.nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return entry.model()


@pytest.mark.parametrize("entry", RIGHT, ids=lambda entry: entry.name)
def test_no_right_transform_is_refused(entry):
    model = made(entry)
    state = copy.deepcopy(model.state_dict())

    result = FxTransform()(
        entry.transform, model, entry.inputs(), modes=entry.modes, grads=entry.grads, **entry.options
    )

    assert model.training
    assert all(torch.equal(model.state_dict()[name], value) for name, value in state.items())
    assert result.difference.is_empty != entry.changes_graph


@pytest.mark.parametrize("entry", BROKEN, ids=lambda entry: entry.name)
def test_every_broken_transform_is_caught_by_its_check(entry):
    model = made(entry)
    state = copy.deepcopy(model.state_dict())

    with raises_here(AssertionError) as caught:
        FxTransform()(entry.transform, model, entry.inputs(), modes=entry.modes, **entry.options)

    assert re.search(entry.words, str(caught.value))
    assert entry.name in str(caught.value)
    assert len(str(caught.value).splitlines()) <= 6
    assert kind_of(caught.value) == entry.caught_by
    assert frames_of_the_plugin(caught) == []
    assert all(torch.equal(model.state_dict()[name], value) for name, value in state.items())


def test_a_setting_of_torch_that_a_transform_leaves_changed_is_told_and_put_back():
    def sets_dtype(gm: fxcore.GraphModule) -> fxcore.GraphModule:
        torch.set_default_dtype(torch.float64)
        return gm

    with raises_here(AssertionError, match=r"sets_dtype changed .*: the default dtype \(torch.float32 -> "):
        FxTransform()(sets_dtype, ConvBnRelu(), image())

    assert torch.get_default_dtype() is torch.float32


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.ones(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(1)
        return x * 2


def test_the_state_after_the_second_call_is_compared():
    def doubled(gm: torch.fx.GraphModule) -> None:
        call = next(node for node in gm.graph.nodes if "add_" in str(node.target))
        call.target, call.args = torch.ops.aten.mul_.Scalar, (call.args[0], 2)  # the first call leaves 2 in both
        gm.recompile()

    program = torch.export.export(Counting(), (torch.ones(2),), strict=False)

    with raises_here(AssertionError, match=r"doubled differ.*: .*count.* second call"):
        FxTransform()(doubled, program.module(), torch.ones(2))


def test_a_mismatch_names_the_edits_of_the_transform():
    class Twice(nn.Module):
        def forward(self, x):
            return torch.relu(torch.relu(x - 0.5) - 0.25)

    def to_sigmoid(gm):
        for node in gm.graph.find_nodes(op="call_function", target=torch.relu):
            node.target = torch.sigmoid
        gm.recompile()
        return gm

    with raises_here(MismatchError) as raised:
        FxTransform()(to_sigmoid, Twice(), torch.rand(2, 3))

    told = "edits so far: torch.relu -> torch.sigmoid at 2 places"
    assert told in str(raised.value)
    assert len(str(raised.value).splitlines()) <= 6
    assert told in raised.value.section


@pytest.mark.parametrize(("is_training", "mode"), [(True, "eval"), (False, "train")])
def test_both_graphs_get_the_mode_of_the_model(is_training, mode):
    model = ConvBnRelu().train(is_training)

    result = FxTransform()(to_functional, model, image(), modes=(mode,))

    assert (result.before.training, result.after.training) == (is_training, is_training)
    assert model.training is is_training


def test_a_function_has_graphs_in_eval_mode():
    result = FxTransform()(to_functional, lambda x: torch.relu(x), image())

    assert (result.before.training, result.after.training) == (False, False)


def test_the_state_that_a_model_changes_in_runs_is_as_before():
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.count.copy_(x.flatten()[:1])
            return torch.relu(x + self.count)

    model = Counting()

    FxTransform()(to_functional, model, image())

    assert model.count.item() == 0


def test_a_transform_may_draw_random_numbers():
    def drawing(gm: fxcore.GraphModule) -> fxcore.GraphModule:
        torch.rand(3)
        return copy_node_by_node(gm)

    assert FxTransform()(drawing, ConvBnRelu(), image()).is_changed


@pytest.mark.parametrize("trace", [fxcore.symbolic_trace, torch.fx.symbolic_trace])
def test_a_transform_may_not_change_the_graph_that_was_handed_over(trace):
    subject = trace(ConvBnRelu())

    def elsewhere(gm: Any) -> Any:
        to_functional(subject)
        return gm

    with raises_here(
        AssertionError, match="elsewhere was given a copy and changed the graph that the test handed over"
    ):
        FxTransform()(elsewhere, subject, image())
