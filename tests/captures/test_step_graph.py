"""The graph of a training step: it trains as eager does, and its inputs, state, phases and updates are named."""

from __future__ import annotations

import operator
import os
import subprocess
import sys

import pytest
import torch
from torch import nn
from torch.nn import functional

from fixtures import step_passes
from fixtures.train_steps import (
    OPTIMIZERS,
    Net,
    frozen,
    net_inputs,
    net_step,
    tied_inputs,
    tied_step,
)
from pytest_fxgraph import TrainStep, assert_equivalent, assert_graph_matches_golden, capture, diff_graphs
from pytest_fxgraph.captures.train_step import PHASE, PHASES
from pytest_fxgraph.document.builder import build_document
from pytest_fxgraph.errors import CaptureError, ChoiceError, MismatchError

COPY = torch.ops.aten.copy_.default


def graph_of(step, inputs=None, **options):
    return capture(step, net_inputs() if inputs is None else inputs, frontend="make_fx", **options).graphs[0]


def updated(graph_module):
    return [node.args[0].target for node in graph_module.graph.nodes if node.target is COPY]


# The default run takes the optimizers with the most unlike graphs; the slow step takes all.
SAMPLE = ("momentum", "adamw_foreach", "scheduled_adamw")


@pytest.mark.parametrize(
    "optimizer",
    [name if name in SAMPLE else pytest.param(name, marks=pytest.mark.slow) for name in OPTIMIZERS],
)
def test_the_graph_trains_as_eager_does_for_three_steps(fx_equivalence, optimizer):
    fx_equivalence(net_step(optimizer), net_inputs())


@pytest.mark.parametrize("optimizer", ["momentum_foreach", "adamw", "scheduled_adamw"])
def test_tied_weights_are_one_state(fx_equivalence, optimizer):
    graph = fx_equivalence(tied_step(optimizer), tied_inputs())

    assert updated(graph).count("embed.weight") == 1
    assert "head.weight" not in updated(graph)


def test_a_gradient_that_is_all_rounding_is_no_difference(fx_equivalence):
    class Attends(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(16, 4, batch_first=True)

        def forward(self, x):
            return self.attention(x, x, x)[0]

    torch.manual_seed(0)
    step = TrainStep(Attends(), OPTIMIZERS["adamw_foreach"])
    fx_equivalence(step, torch.randn(2, 5, 16))


def test_inputs_and_state_have_names():
    graph = graph_of(tied_step(), tied_inputs()).graph
    names = [str(node.target) for node in graph.nodes if node.op in ("placeholder", "get_attr")]

    assert [node.target for node in graph.nodes if node.op == "placeholder"] == ["tokens", "labels"]
    assert {"mix.weight", "optimizer.mix.weight.exp_avg"} <= {*names}
    assert not [name for name in names if "constant" in name or "arg" in name]


def test_nested_inputs_and_inputs_by_name_reach_the_graph(fx_equivalence):
    class Nested(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 2)

        def forward(self, batch, *, mask):
            return self.layer(batch["x"][0]) * mask

    x, target = net_inputs()
    step = TrainStep(Nested(), OPTIMIZERS["momentum"], functional.mse_loss)
    kwargs = {"mask": torch.full((6, 2), 0.5), "target": target}
    graph = fx_equivalence(step, ({"x": [x]},), kwargs=kwargs)

    names = [node.target for node in graph.graph.nodes if node.op == "placeholder"]
    assert names == ["batch_x_0", "mask", "target"]


def test_each_operator_has_its_phase():
    graph = graph_of(net_step()).graph
    found = {}
    for node in graph.nodes:
        if node.op == "call_function" and node.target is not operator.getitem:
            found.setdefault(node.meta[PHASE], []).append(str(node.target))

    assert tuple(found) == PHASES
    assert "aten._native_batch_norm_legit_functional.default" in found["forward"]
    assert found["loss"] == ["aten.mse_loss.default"]
    assert "aten.mse_loss_backward.default" in found["backward"]
    assert {*found["update"]} == {"aten.copy_.default"}
    assert not [name for name in found["optimizer"] if "mm" in name]


def test_the_graph_is_functional_until_the_updates():
    graph = graph_of(net_step("adamw_foreach")).graph
    calls = [node for node in graph.nodes if node.op == "call_function"]
    first = next(place for place, node in enumerate(calls) if node.target is COPY)

    assert all(node.target is COPY for node in calls[first:])
    assert not [node for node in calls[:first] if "_." in str(node.target)]


def test_buffers_of_a_batch_norm_are_updated():
    assert {"norm.running_mean", "norm.running_var", "norm.num_batches_tracked"} <= {*updated(graph_of(net_step()))}


def test_a_frozen_parameter_is_not_updated(fx_equivalence):
    torch.manual_seed(0)
    step = TrainStep(frozen(Net()), OPTIMIZERS["adamw"], functional.mse_loss)
    names = updated(fx_equivalence(step, net_inputs()))

    assert "down.weight" in names
    assert not [name for name in names if "up.weight" in name]


def test_a_rate_of_a_schedule_is_state_of_the_graph():
    step = net_step("scheduled_adamw")
    graph = graph_of(step)

    assert "optimizer.lr" in updated(graph)
    assert graph.get_buffer("optimizer.lr").data_ptr() == step.get_buffer("optimizer.lr").data_ptr()


def test_a_number_as_rate_is_a_constant_of_the_graph():
    graph = graph_of(net_step("sgd")).graph
    assert [node.kwargs["alpha"] for node in graph.nodes if "alpha" in node.kwargs] == [-0.1] * 5


def test_capture_leaves_model_optimizer_and_generators_as_they_were():
    step = net_step("adamw_foreach")
    step(*net_inputs())
    before = {name: value.clone() for name, value in step.state_dict().items()}
    generator = torch.get_rng_state()
    graph_of(step)

    for name, value in step.state_dict().items():
        assert torch.equal(value, before[name]), name
    assert torch.equal(torch.get_rng_state(), generator)
    assert not any(group["capturable"] for group in step.parts_of_step.optimizer.param_groups)
    assert not torch.compiler.is_compiling()
    assert all(parameter.grad is None for parameter in step.parameters())


def test_calls_of_the_graph_train_the_model():
    step = net_step("momentum")
    graph = graph_of(step)
    before = step.parts_of_step.model.up.weight.detach().clone()
    losses = [float(graph(*net_inputs())) for _ in range(20)]

    assert losses[-1] < losses[0]
    assert not torch.equal(step.parts_of_step.model.up.weight, before)


def with_loss(graph_module, function):
    """Let a function of Python see, or change, the loss of each call of a graph."""
    output = graph_module.graph.output_node()
    with graph_module.graph.inserting_before(output):
        output.args = (graph_module.graph.call_function(function, (output.args[0],)),)
    graph_module.recompile()
    return graph_module


@pytest.mark.parametrize(
    ("number", "words"), [(1, "output"), (2, "output of a second call"), (3, "output of a third call")]
)
def test_a_fault_of_a_later_step_is_named_by_the_step(number, words):
    step = net_step("sgd")
    calls = []

    def wrong_once(loss):
        calls.append(loss)
        return loss + 1 if len(calls) % 3 == number % 3 else loss

    with pytest.raises(MismatchError, match=rf"differ: {words} "):
        assert_equivalent(step, with_loss(graph_of(step), wrong_once), net_inputs())


def test_the_number_of_compared_steps_can_be_given():
    step = net_step("sgd", steps=5)
    calls = []

    def counted(loss):
        calls.append(loss)
        return loss

    assert_equivalent(step, with_loss(graph_of(step), counted), net_inputs())
    assert len(calls) in (5, 10)  # a check may run both once more


@pytest.mark.slow
def test_the_document_is_the_same_in_other_processes_and_hash_seeds():
    code = (
        "from fixtures.train_steps import *; from pytest_fxgraph import capture, structural_hash;"
        "print(structural_hash(capture(net_step('adamw'), net_inputs(), frontend='make_fx')))"
    )
    found = {
        subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, check=True,
                       capture_output=True, text=True).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(found) == 1
    assert found.pop().strip()


def test_two_steps_are_structurally_equal_and_another_rate_is_a_difference():
    assert diff_graphs(graph_of(net_step("sgd")), graph_of(net_step("sgd"))).is_empty
    text = str(diff_graphs(graph_of(net_step("sgd")), graph_of(net_step("momentum"))))
    assert "momentum_buffer" in text


def test_names_of_inputs_count_as_the_users():
    graph = graph_of(net_step())
    other = graph_of(net_step())
    node = next(node for node in other.graph.nodes if node.target == "target")
    node.target = "labels"
    other.recompile()

    assert not diff_graphs(graph, other).is_empty


def test_the_text_shows_phases_and_updates():
    document = build_document(graph_of(net_step("sgd")), sources=False)
    scopes = {node.scope for node in document.nodes if node.scope}

    assert {"loss", "backward.up", "optimizer.up.weight", "update.norm.running_mean", "up"} <= scopes


class Layers(nn.Module):
    """A model whose part has a name that a step has, too; its layers are equal."""

    def __init__(self, count=4):
        super().__init__()
        self.model = nn.Sequential(*[nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in range(count)])

    def forward(self, x):
        return self.model(x)


def test_nodes_have_the_modules_and_parameters_below_their_phase():
    step = TrainStep(Layers(2), lambda parameters: torch.optim.Adam(parameters), functional.mse_loss)
    x = torch.rand(3, 4)
    document = build_document(graph_of(step, (x, x)), sources=False)
    scopes = {node.target: node.scope for node in document.nodes}

    assert scopes["aten.addmm.default"] == "model.1.0"
    assert scopes["aten.threshold_backward.default"] == "backward.model.0.1"
    assert scopes["aten.addcdiv.default"] == "optimizer.model.1.0.bias"


def test_equal_layers_are_written_once(tmp_path):
    def lines(count):
        step = TrainStep(Layers(count), lambda parameters: torch.optim.Adam(parameters), functional.mse_loss)
        path = tmp_path / f"{count}.yaml"
        assert_graph_matches_golden(step, path, example_inputs=(torch.rand(3, 4), torch.rand(3, 4)), update=True)
        return len(path.read_text().splitlines())

    # A layer adds a call for forward, backward, optimizer and both kinds of updates, in graph and code, and its state.
    assert lines(8) - lines(5) <= 3 * 14


def test_one_tensor_can_be_an_input_of_the_model_and_of_the_loss():
    x = torch.rand(3, 4)
    step = TrainStep(Layers(1), lambda parameters: torch.optim.SGD(parameters), functional.mse_loss)
    graph = graph_of(step, (x, x)).graph

    assert [node.name for node in graph.nodes if node.op == "placeholder"] == ["x", "target"]


def test_symbolic_sizes_are_refused():
    with pytest.raises(CaptureError, match="the graph of a train step has fixed sizes"):
        graph_of(net_step(), dynamic_shapes=True)


@pytest.mark.parametrize("frontend", ["export", "symbolic", "dynamo", "aot"])
def test_frontends_without_a_backward_are_refused(frontend):
    with pytest.raises(ChoiceError, match=f"frontend='{frontend}' takes no train step.*frontend='make_fx'"):
        capture(net_step(), net_inputs(), frontend=frontend)


def test_a_step_that_asks_for_a_value_names_the_users_line():
    class Asking(Net):
        def forward(self, x):
            out = super().forward(x)
            return out * 2 if out.sum() > 0 else out

    with pytest.raises(CaptureError, match=r"test_step_graph.py:\d+"):
        graph_of(TrainStep(Asking(), OPTIMIZERS["sgd"], functional.mse_loss))


def test_an_optimizer_that_asks_for_the_number_of_its_rate_is_refused():
    step = TrainStep(Net(), lambda parameters: torch.optim.SGD(parameters, lr=torch.tensor(0.1)))
    with pytest.raises(CaptureError, match=r"the step of SGD asks for the number in a tensor.*unless it has foreach=T"):
        graph_of(step, net_inputs()[:1])


def test_stages_of_a_step_are_its_graph_before_and_after_a_pass(fx_stages):
    stages = fx_stages(net_step("sgd"), net_inputs(), ["make_fx", step_passes.fuse_updates])

    assert stages[-1].name == "fuse_updates"


def test_operators_of_a_step_can_be_asked(fx_ops):
    captured = capture(net_step("sgd"), net_inputs(), frontend="make_fx")

    assert fx_ops(captured).count("aten.copy_*") == len(updated(captured.graphs[0])) == 8
