"""A training step as a module: what it computes, its state, its inputs, and the optimizers it refuses."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from fixtures.train_steps import OPTIMIZERS, Net, net_inputs, net_step, tied_inputs, tied_step
from pytest_fxgraph import TrainStep
from pytest_fxgraph.captures.train_step import summed
from pytest_fxgraph.errors import CaptureError, SubjectError


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_steps_train_as_a_loop_does(optimizer):
    torch.manual_seed(0)
    model = Net()
    plain = OPTIMIZERS[optimizer](model.parameters())
    x, target = net_inputs()
    torch.manual_seed(2)
    losses = []
    for _ in range(3):
        plain.zero_grad()
        loss = functional.mse_loss(model(x), target)
        loss.backward()
        plain.step()
        losses.append(loss.detach())

    step = net_step(optimizer)
    torch.manual_seed(2)
    torch.testing.assert_close([step(x, target) for _ in range(3)], losses)
    for name, value in model.state_dict().items():
        torch.testing.assert_close(step.state_dict()[name], value, rtol=1e-4, atol=1e-5)


def test_the_state_has_the_paths_of_the_model_and_of_the_optimizer():
    step = net_step("momentum")

    assert [name for name, _ in step.named_parameters()] == [
        "up.weight",
        "norm.weight",
        "norm.bias",
        "down.weight",
        "down.bias",
    ]
    assert "optimizer.up.weight.momentum_buffer" in dict(step.named_buffers())
    assert step.get_parameter("up.weight") is step.parts_of_step.model.up.weight


def test_a_rate_that_is_a_tensor_is_state():
    assert "optimizer.lr" in dict(net_step("clipped").named_buffers())


def test_groups_have_numbers():
    model = Net()
    groups = [
        {"params": list(model.up.parameters()), "lr": torch.tensor(0.1)},
        {"params": list(model.down.parameters()), "lr": torch.tensor(0.2)},
    ]
    names = dict(TrainStep(model, torch.optim.SGD(groups)).named_buffers())

    assert {"optimizer.group_0.lr", "optimizer.group_1.lr"} <= names.keys()


def test_a_part_of_the_model_called_optimizer_keeps_its_path():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.optimizer = nn.Linear(2, 2)

        def forward(self, x):
            return self.optimizer(x)

    names = dict(TrainStep(Odd(), OPTIMIZERS["momentum"]).named_buffers())
    assert "optimizer_.optimizer.weight.momentum_buffer" in names


def test_making_a_step_changes_no_value_and_no_gradient():
    torch.manual_seed(0)
    model = Net()
    model.up.weight.grad = torch.ones(8, 4)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    step = TrainStep(model, OPTIMIZERS["momentum"])

    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name
    assert torch.equal(model.up.weight.grad, torch.ones(8, 4))
    assert not step.get_buffer("optimizer.up.weight.momentum_buffer").any()


def test_an_optimizer_that_has_stepped_keeps_its_state():
    model = Net()
    optimizer = OPTIMIZERS["adamw"](model.parameters())
    x, target = net_inputs()
    functional.mse_loss(model(x), target).backward()
    optimizer.step()
    step = TrainStep(model, optimizer, functional.mse_loss)

    assert step.get_buffer("optimizer.up.weight.step") == 1
    step(x, target)
    assert step.get_buffer("optimizer.up.weight.step") == 2


def test_a_step_runs_in_the_mode_of_its_model_whatever_is_set():
    model = Net()
    model.norm.eval()
    step = TrainStep(model, OPTIMIZERS["sgd"], functional.mse_loss)
    for module in step.modules():
        module.training = False
    step(*net_inputs())

    assert not model.norm.num_batches_tracked
    assert not model.down.training
    with pytest.raises(NotImplementedError, match="in the mode that the model had when the step was made"):
        step.eval()


def test_inputs_are_named_by_the_parameters_of_forward_and_loss():
    step = tied_step()
    tokens, labels = tied_inputs()

    assert step.input_names((tokens, labels), {}) == ["tokens", "labels"]
    assert step.input_names((tokens,), {"labels": labels, "scale": 0.5}) == ["tokens", "labels", "scale"]


def test_a_loss_may_be_a_module_with_parameters():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(()))

        def forward(self, outputs, target):
            return functional.mse_loss(outputs * self.scale, target)

    model, loss = Net(), Scaled()
    step = TrainStep(model, torch.optim.SGD([*model.parameters(), loss.scale], 0.1, momentum=0.9), loss)
    step(*net_inputs())

    assert "optimizer.loss.scale.momentum_buffer" in dict(step.named_buffers())
    assert loss.scale != 1


def test_an_optimizer_whose_step_needs_a_closure_is_refused():
    with pytest.raises(SubjectError, match=r"cannot make a step with LBFGS: its step needs more than gradients"):
        TrainStep(Net(), torch.optim.LBFGS)


def test_an_optimizer_that_counts_in_python_is_refused():
    class Counting(torch.optim.SGD):
        def step(self, closure=None):
            for group in self.param_groups:
                for parameter in group["params"]:
                    state = self.state[parameter]
                    state["count"] = state.get("count", 0) + 1
            return super().step(closure)

    with pytest.raises(SubjectError, match="Counting: it keeps 'count' as a number, which a graph would keep as it is"):
        TrainStep(Net(), lambda parameters: Counting(parameters, lr=0.1))


def test_the_default_loss_is_the_sum_of_all_floating_outputs():
    outputs = {"a": torch.ones(2), "b": [torch.tensor(3), torch.tensor([5.0, 6.0])], "c": "text"}

    assert summed(outputs) == 13.0
    assert summed(torch.ones(3)) == 3.0
    with pytest.raises(
        CaptureError, match="returns no floating-point tensor, so its outputs have no sum to go backward"
    ):
        summed([torch.tensor(3)])


def test_outputs_without_a_sum_need_a_loss():
    class Whole(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2))

        def forward(self, x):
            return x.long()

    with pytest.raises(CaptureError, match="no floating-point tensor"):
        TrainStep(Whole(), OPTIMIZERS["sgd"])(torch.ones(2))


@pytest.mark.parametrize("steps", [0, 1.5, True])
def test_a_number_of_steps_is_a_whole_number(steps):
    with pytest.raises(ValueError, match="steps must be a whole number of at least 1"):
        net_step(steps=steps)


def test_one_step_is_enough():
    assert TrainStep(nn.Linear(2, 2), OPTIMIZERS["sgd"], steps=1).parts_of_step.steps == 1


@pytest.mark.parametrize(
    ("make", "seen"),
    [(OPTIMIZERS["sgd"], [None]), (lambda parameters: torch.optim.Adam(parameters), [True])],
    ids=["sgd", "adam"],
)
def test_an_optimizer_counts_in_tensors_during_a_step_alone(make, seen):
    step = TrainStep(nn.Linear(2, 2), make)
    optimizer, found = step.parts_of_step.optimizer, []
    before = [dict(group) for group in optimizer.param_groups]
    optimizer.register_step_pre_hook(lambda optimizer, *_: found.append(optimizer.param_groups[0].get("capturable")))

    step(torch.ones(1, 2))

    assert found == seen
    assert [{**group, "params": None} for group in optimizer.param_groups] == [
        {**group, "params": None} for group in before
    ]
