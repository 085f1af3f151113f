"""Ten passes over the graph of a training step: each right one passes over three steps, each broken one is named."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from fixtures import step_passes
from fixtures.train_steps import OPTIMIZERS, Net, frozen, net_inputs
from pytest_fxgraph import TrainStep, capture
from pytest_fxgraph.errors import MismatchError, VacuousCheckError


def frozen_step():
    torch.manual_seed(0)
    return TrainStep(frozen(Net()), OPTIMIZERS["momentum"], functional.mse_loss)


def plain_step():
    torch.manual_seed(0)
    return TrainStep(Net(), lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9), functional.mse_loss)


RIGHT = {
    "fuse_updates": plain_step,
    "recompute_activation": plain_step,
    "freeze_frozen_weight": frozen_step,
    "fold_seed": plain_step,
    "decompose_addmm": plain_step,
    "reorder_updates": plain_step,
    "update_in_place": plain_step,
    "donate_momentum": plain_step,
}
# A broken pass, and the first difference that the check tells.
BROKEN = {
    "fuse_updates_and_lose_the_rate": (plain_step, "parameter up.weight has other values after the graph's call"),
    "recompute_dropout": (plain_step, "up.weight has other values after the graph's call"),
    "freeze_trained_weight": (plain_step, "differ: output of a second call has other values"),
    "share_calls_by_first_argument": (plain_step, "the forward of the graph raised RuntimeError"),
    "drop_calls_without_readers": (plain_step, "buffer norm.running_mean was changed by eager, not by the graph"),
    "fold_seed_to_two": (plain_step, "up.weight has other values after the graph's call"),
    "decompose_without_bias": (plain_step, "differ: output has other values"),
    "reorder_values_only": (plain_step, "parameter norm.weight has other values after the graph's call"),
    "update_in_place_and_copy": (plain_step, "parameter up.weight has other values after the graph's call"),
    "donate_momentum_early": (plain_step, "momentum_buffer"),
}


@pytest.mark.sampled(every=4, start=2)
@pytest.mark.parametrize("name", RIGHT)
def test_a_right_pass_keeps_three_steps(fx_transform, name):
    result = fx_transform(getattr(step_passes, name), RIGHT[name](), net_inputs())

    assert result.is_changed


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("name", ["share_equal_calls", "drop_dead_code"])
def test_a_clean_up_keeps_three_steps(fx_transform, name):
    graph_module = capture(plain_step(), net_inputs(), frontend="make_fx").graphs[0]
    node = step_passes.nodes_of(graph_module, torch.ops.aten.t.default, "backward")[0]
    with graph_module.graph.inserting_after(node):
        again = graph_module.graph.node_copy(node)
    if name == "share_equal_calls":
        list(node.users)[-1].replace_input_with(node, again)
    graph_module.recompile()
    result = fx_transform(getattr(step_passes, name), graph_module, net_inputs())

    result.assert_ops(removed={"aten.t": 1})


@pytest.mark.sampled(every=6)
@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_pass_is_named_with_its_effect(fx_transform, name):
    make, words = BROKEN[name]
    with pytest.raises(MismatchError) as caught:
        fx_transform(getattr(step_passes, name), make(), net_inputs())
    assert f"graph after {name} differ" in str(caught.value)
    assert words in str(caught.value)


def test_a_pass_that_changes_nothing_is_no_check(fx_transform):
    with pytest.raises(VacuousCheckError):
        fx_transform(lambda graph_module: graph_module, plain_step(), net_inputs())


def test_a_step_is_no_subject_of_passes_in_place(fx_transform):
    with pytest.raises(ValueError, match="a copy of an optimizer has no hooks; leave it out"):
        fx_transform(step_passes.fold_seed, plain_step(), net_inputs(), inplace=True)
