"""A step of a model under make_fx: state by name, and the training step with loss and gradients."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from fixtures import parallel_plans
from fixtures.process_groups import fake_group, needs_fake_group
from pytest_fxgraph.captures.request import CaptureRequest
from pytest_fxgraph.captures.step_trace import Step, local_part
from pytest_fxgraph.captures.ways import captured
from pytest_fxgraph.errors import CaptureError

pytestmark = needs_fake_group


def graph_of_step(model, step, inputs=None):
    request = CaptureRequest.of(model, inputs or parallel_plans.inputs(), None, "make_fx", step=step)
    return captured(request).as_graph_module()


def with_numbers(model):
    """Fill every parameter; the fake group's scatter leaves local tensors as the memory is."""
    with torch.no_grad():
        for parameter in model.parameters():
            local = getattr(parameter, "_local_tensor", parameter)
            local.copy_(torch.linspace(-1, 1, local.numel()).view(local.shape))
    return model


def state_names(graph_module):
    return [node.target for node in graph_module.graph.nodes if node.op == "get_attr" and "torchbind" not in node.name]


@pytest.mark.parametrize("plan", ["tensor_parallel", "data_parallel"])
def test_a_training_step_returns_the_loss_and_the_gradients_by_path(plan):
    with fake_group(rank=1, size=2):
        model = with_numbers(getattr(parallel_plans, plan)(1))
        graph_module = graph_of_step(model, Step(is_training=True))
        assert all(parameter.grad is None for parameter in model.parameters())
        loss, gradients = graph_module(*parallel_plans.inputs())

        model = with_numbers(getattr(parallel_plans, plan)(1))
        if plan == "data_parallel":
            model = model.module
        expected = model(*parallel_plans.inputs()).sum()
        expected.backward()
    torch.testing.assert_close(loss, expected)
    for path, parameter in model.named_parameters():
        gradient = getattr(parameter.grad, "_local_tensor", parameter.grad)
        if plan == "data_parallel":
            gradient, path = gradient / 2, f"module.{path}"  # the fake group adds nothing to this rank's gradients
        torch.testing.assert_close(gradients[path], gradient)


def test_gradients_stay_as_they_were():
    with fake_group(size=2):
        model = parallel_plans.fully_sharded(0)
        kept = {path: torch.ones_like(parameter) for path, parameter in model.named_parameters()}
        for path, parameter in model.named_parameters():
            parameter.grad = kept[path]
        graph_of_step(model, Step(is_training=True))
        assert all(parameter.grad is kept[path] for path, parameter in model.named_parameters())


def test_state_of_a_fully_sharded_model_has_its_names_and_its_readers():
    with fake_group(size=2):
        graph_module = graph_of_step(parallel_plans.fully_sharded(0), Step())
    names = state_names(graph_module)
    assert len(names) == 14
    assert {"blocks.0.up.weight._local_tensor", "head.bias._local_tensor"} <= set(names)
    assert not any("profiler" in str(node.target) for node in graph_module.graph.nodes)
    for node in graph_module.graph.nodes:  # every parameter of a layer comes from an all-gather's buffer
        if node.target is torch.ops.aten.native_layer_norm.default:
            assert [argument.target for argument in node.args[2:4]] == [torch.ops.aten.as_strided.default] * 2


def test_a_loss_may_be_given_and_must_be_given_without_floating_outputs():
    class Ranked(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(4))

        def forward(self, x):
            return (x * self.scale).argsort()

    with fake_group(size=2):
        with pytest.raises(CaptureError, match=r"no floating-point tensor, .* give loss="):
            graph_of_step(Ranked(), Step(is_training=True), (torch.ones(4),))
        model = parallel_plans.plain()
        loss, _ = graph_of_step(model, Step(is_training=True, loss=lambda out: out.square().mean()))(
            *parallel_plans.inputs()
        )
        torch.testing.assert_close(loss, model(*parallel_plans.inputs()).square().mean())


def test_make_fx_leaves_the_state_of_a_fully_sharded_model_in_place_without_a_step():
    with fake_group(size=2):
        names = state_names(graph_of_step(parallel_plans.fully_sharded(0), None))
    assert "blocks.0.up.weight._local_tensor" in names
    assert not any(name.startswith(("_param_constant", "_tensor_constant")) for name in names)


def test_a_compiled_model_runs_as_it_is_written():
    with fake_group(size=2):
        compiled = graph_of_step(torch.compile(with_numbers(parallel_plans.tensor_parallel(0))), Step())
    names = state_names(compiled)
    assert len(names) == 14
    assert "_orig_mod.blocks.0.up.weight._local_tensor" in names


class Held(torch.Tensor):
    """Holds another tensor, as a distributed tensor does."""


def test_the_local_part_of_an_output_is_behind_its_wait_and_its_placement():
    tensor = torch.ones(2)
    waiting, placed, other = (tensor.as_subclass(Held) for _ in range(3))
    waiting.trigger_wait = lambda: placed
    placed._local_tensor = tensor

    assert local_part(waiting) is tensor
    assert local_part(other) is other
    assert local_part(3) == 3
    parameter = nn.Parameter(tensor)
    assert local_part(parameter) is parameter


class Wrapper(torch.Tensor):
    """A tensor of a class of its own, with parts or without."""


def test_the_part_of_this_rank_is_inside_a_distributed_tensor_and_behind_a_wait():
    plain, unknown, sharded, awaited = torch.ones(2), *(torch.ones(2).as_subclass(Wrapper) for _ in range(3))
    sharded._local_tensor = plain
    awaited.trigger_wait = lambda: sharded

    assert local_part(3) == 3
    assert local_part(unknown) is unknown
    assert local_part(plain) is local_part(sharded) is local_part(awaited) is plain
