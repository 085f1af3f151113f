"""A step of a model under make_fx: state by name, and the training step with loss and gradients."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn

import fxcore
from fixtures import parallel_plans
from fixtures.process_groups import fake_group, needs_fake_group
from pytest_fxgraph.captures import step_trace
from pytest_fxgraph.captures.request import CaptureRequest
from pytest_fxgraph.captures.step_trace import Step, exchanges_parameters, local_part
from pytest_fxgraph.captures.train_step import PHASE
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


class FSDPModule(nn.Module):
    """Has the name of the class that FSDP2 puts below the class of a module."""


class Sharded(FSDPModule):
    pass


def test_a_model_with_a_module_of_fsdp_exchanges_its_parameters():
    assert exchanges_parameters(nn.Sequential(nn.ReLU(), Sharded())) is True
    assert exchanges_parameters(nn.Sequential(nn.ReLU())) is False
    assert exchanges_parameters(torch.relu) is False


def test_a_constant_is_the_state_with_its_memory_and_best_its_layout():
    model = nn.Linear(2, 3)
    model.register_buffer("turned", model.weight.detach().t())
    state = step_trace._State(model)

    assert state.of_memory(model.weight.detach())[0] == "weight"
    assert state.of_memory(model.weight.detach().t())[0] == "turned"
    assert state.of_memory(model.weight.detach()[1:])[0] == "weight"
    assert state.of_memory(torch.ones(3, 2)) is None
    assert step_trace._State(torch.relu).of_memory(model.bias.detach()) is None


def graph_with_state(*paths):
    graph = fxcore.Graph()
    return graph, [graph.get_attr(path) for path in paths]


def add(graph, *inputs, phase=None, calls=None, target=torch.add):
    node = graph.call_function(target, inputs)
    node.meta.update({PHASE: phase} if phase else {})
    node.meta.update({"nn_module_stack": calls} if calls else {})
    return node


def test_operators_of_an_optimizer_are_at_the_parameter_that_they_compute_for():
    graph, (w, v, average) = graph_with_state("fc.w", "fc.v", "optimizer.fc.w.exp_avg")
    forward = add(graph, w, v, phase="forward")
    one = add(graph, average, forward, phase="optimizer")
    next_ = add(graph, one, one, phase="optimizer")
    both = add(graph, next_, v, phase="optimizer")
    update = add(graph, average, next_)
    written = add(graph, w, next_, phase="update")
    graph.output((both, update, written))

    assert step_trace._places_in_optimizer(graph) == {
        one: "fc.w",
        next_: "fc.w",
        update: "optimizer.fc.w.exp_avg",
        written: "fc.w",
    }


def test_nodes_stand_in_their_phase_and_state_before_its_first_reader():
    graph, (w, v, _) = graph_with_state("w", "v", "unread")
    calls = {"fc": ("fc", "Linear")}
    first = add(graph, v, v, phase="forward", calls=calls)
    back = add(graph, first, w, phase="backward", calls=calls)
    lost = add(graph, first, back, phase="loss")
    stepped = add(graph, w, back, phase="optimizer", calls=calls)
    update = add(graph, w, stepped)
    graph.output((lost, update))

    step_trace._mark_phases(graph)

    paths = {node.name: [path for path, _ in node.meta.get("nn_module_stack", {}).values()] for node in graph.nodes}
    assert paths == {
        "unread": [],
        "v": ["forward", "fc"],
        first.name: ["forward", "fc"],
        "w": ["backward", "backward.fc"],
        back.name: ["backward", "backward.fc"],
        lost.name: ["loss"],
        stepped.name: ["optimizer", "optimizer.w"],
        update.name: ["update", "update.w"],
        "output": [],
    }
    assert [node.name for node in graph.nodes][:4] == ["unread", "v", first.name, "w"]
    assert w.meta[PHASE] == "backward"


def test_state_at_a_path_is_a_tensor_of_the_step():
    step = nn.Sequential(nn.Linear(2, 2))
    step.number = 3

    assert step_trace._tensor_at(step, "0.weight") is step[0].weight
    for path in ("0.none", "number", "1.weight", "none"):
        assert step_trace._tensor_at(step, path) is None


def test_marks_of_autograd_are_erased():
    aten = torch.ops.aten
    graph = fxcore.Graph()
    x = graph.placeholder("x")
    detached = [graph.call_function(target, (x,)) for target in (aten.detach.default, aten.alias.default)]
    graph.call_function(aten.cos.default, (x,))
    graph.output(graph.call_function(aten.add.Tensor, tuple(detached)))

    step_trace._without_detached(graph)

    assert [node.name for node in graph.nodes] == ["x", "add_tensor", "output"]
    assert [*graph.nodes][1].args == (x, x)


def test_marks_of_the_profiler_are_erased_where_nobody_reads_them():
    graph = fxcore.Graph()
    for name in ("enter", "exit"):
        graph.create_node("call_method", f"profiler._record_function_{name}", ())
    read = graph.create_node("call_method", "profiler._record_function_read", ())
    graph.create_node("call_method", "other", ())
    graph.output(read)

    step_trace._without_profiler(graph)

    assert [node.target for node in graph.nodes][:-1] == ["profiler._record_function_read", "other"]


def test_nodes_are_marked_once_with_the_phase_that_made_them(monkeypatch):
    graph = fxcore.Graph()
    graph.placeholder("x")
    mode = SimpleNamespace(tracer=SimpleNamespace(graph=graph))
    monkeypatch.setattr(step_trace, "part_of_torch", lambda *_: lambda: mode)

    with step_trace._marked("outer"):
        graph.placeholder("y")
        with step_trace._marked("inner", {"fc": 1}):
            graph.placeholder("z")

    assert [node.meta.get(PHASE) for node in graph.nodes] == [None, "outer", "inner"]
    assert [node.meta.get("nn_module_stack") for node in graph.nodes] == [None, None, {"fc": 1}]
