"""Tracing with an example: sizes stay symbolic until Python needs a number, and then a guard says so."""

from __future__ import annotations

import functools
import io
import math
import operator
import pickle
import random
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy
import pytest
import torch
from torch import nn
from torch.autograd import Variable
from torch.nn import functional as F

import fxcore
from fxcore.errors import ExampleError, GuardError, LeafError, TraceError
from fxcore.guided import transforms
from fxcore.passes.shape_prop import ShapeProp


def expressions(graph_module):
    return [str(guard) for guard in graph_module.graph.guards]


def assert_agrees(function, graph_module, *inputs):
    torch.manual_seed(0)
    expected = function(*inputs)
    torch.manual_seed(0)
    torch.testing.assert_close(graph_module(*inputs), expected)


def test_a_graph_without_questions_is_that_of_a_trace_without_example():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x):
            return F.relu(self.layer(x)).view(x.size(0), -1) + x.shape[1]

    model = Net()

    graph_module = fxcore.symbolic_trace(model, example_inputs=torch.rand(2, 4))

    assert str(graph_module.graph) == str(fxcore.symbolic_trace(model).graph)
    assert expressions(graph_module) == []


def test_without_an_example_nothing_differs():
    with pytest.raises(TraceError, match="symbolically traced variables cannot be used as inputs to control flow"):
        fxcore.symbolic_trace(lambda x: x if x.shape[0] == 2 else -x)


# Each is refused without an example. The second input is of another size that the guards allow.
ASKING = {
    "isinstance": (lambda x: x * 2 if isinstance(x, torch.Tensor) else x, (2, 3), (4, 5)),
    "shape": (lambda x: x * 2 if x.shape[1] == 3 else x, (2, 3), (5, 3)),
    "dim": (lambda x: x.sum(-1) if x.dim() == 2 else x, (2, 3), (4, 5)),
    "unpacked sizes": (lambda x: sum(x * size for size in x.shape), (2, 3), (4, 3)),
    "len of shape": (lambda x: x.sum() if len(x.shape) > 1 else x, (2, 3), (4, 5)),
    "range": (lambda x: sum(x[:, i] for i in range(x.shape[1])), (2, 3), (5, 3)),
    "iteration": (lambda x: torch.stack([row * 2 for row in x.unbind(0)]), (2, 3), (2, 5)),
    "chunks": (lambda x: torch.cat([part + 1 for part in x.chunk(2, 1)], 1), (2, 4), (3, 4)),
    "starred": (lambda x: x.reshape(*x.shape[:1], -1) * 2, (2, 3, 4), (3, 4, 2)),
    "dtype": (lambda x: x.float() if x.dtype != torch.float32 else x * 2, (2, 3), (4, 5)),
    "device": (lambda x: x * 2 if x.device.type == "cpu" else x, (2, 3), (4, 5)),
    "is_floating_point": (lambda x: x * 2 if x.is_floating_point() else x, (2, 3), (4, 5)),
    "parity": (lambda x: x * 2 if x.shape[0] % 2 == 0 else x, (2, 3), (4, 5)),
    "factory": (lambda x: x + torch.zeros(x.shape[0], 3), (2, 3), (5, 3)),
    "factory of sizes": (lambda x: x + torch.arange(x.shape[1], device=x.device), (2, 3), (4, 5)),
    "tensor of sizes": (lambda x: x / torch.tensor([x.shape[1]], dtype=x.dtype), (2, 3), (4, 5)),
    "float of a size": (lambda x: x / math.sqrt(x.shape[1]), (2, 3), (4, 5)),
    "minimum": (lambda x: x[:, : min(x.shape[1], 2)], (2, 3), (4, 5)),
    "text": (lambda x: x * {"2": 3}.get(f"{x.dim()}", 1), (2, 3), (4, 5)),
    "membership": (lambda x: x * 2 if x.dim() in (2, 3) else x, (2, 3), (4, 5)),
    "finfo": (lambda x: x.masked_fill(x > 0.5, torch.finfo(x.dtype).min), (2, 3), (4, 5)),
    "in place": (lambda x: x.clone().add_(1).mul_(2), (2, 3), (4, 5)),
    "item assignment": (lambda x: _with_zeros(x.clone()), (2, 3), (4, 5)),
}


def _with_zeros(x):
    x[:, 0] = 0
    return x


@pytest.mark.parametrize("name", ASKING)
def test_what_python_asks_is_answered_by_the_example(name):
    function, size, other = ASKING[name]
    example = torch.rand(size)

    graph_module = fxcore.symbolic_trace(function, example_inputs=example)

    graph_module.graph.lint()
    assert_agrees(function, graph_module, example)
    graph_module.check_guards(torch.rand(other))
    assert_agrees(function, graph_module, torch.rand(other))


def test_a_specialised_size_is_a_guard_with_its_place():
    def repeated(x):
        for _ in range(x.shape[0]):
            x = x + 1
        return x

    graph_module = fxcore.symbolic_trace(repeated, example_inputs=torch.rand(3, 2))

    (guard,) = graph_module.graph.guards
    assert guard.expression == "x.shape[0] == 3"
    assert guard.value == 3
    assert guard.function.endswith("repeated")
    assert guard.source == "for _ in range(x.shape[0]):"
    assert guard.place.startswith(f"{__file__}:{guard.line}: for _ in range(x.shape[0]):")
    with pytest.raises(GuardError) as caught:
        graph_module.check_guards(torch.rand(4, 2))
    assert str(caught.value).splitlines()[:2] == [
        "the graph of repeated does not hold for these inputs, which break guard 1 of 1:",
        f"  x.shape[0] == 3: it is 4; asked at {guard.place}",
    ]


def test_a_condition_is_the_guard_and_not_the_sizes_in_it():
    graph_module = fxcore.symbolic_trace(lambda x: x * 2 if x.shape[0] > 2 else x, example_inputs=torch.rand(3, 2))

    assert expressions(graph_module) == ["x.shape[0] > 2"]
    graph_module.check_guards(torch.rand(7, 2))
    with pytest.raises(GuardError, match=r"x.shape\[0\] > 2: it is False"):
        graph_module.check_guards(torch.rand(2, 2))


def test_a_condition_that_was_false_is_told_as_its_opposite():
    graph_module = fxcore.symbolic_trace(lambda x: x if x.shape[0] > 4 else x * 2, example_inputs=torch.rand(3, 2))

    with pytest.raises(GuardError, match=r"x.shape\[0\] <= 4: it is False"):
        graph_module.check_guards(torch.rand(5, 2))


def test_guards_leave_no_nodes_behind():
    graph_module = fxcore.symbolic_trace(lambda x: x * 2 if x.shape[0] > 2 else x, example_inputs=torch.rand(3, 2))

    assert [node.name for node in graph_module.graph.nodes] == ["x", "mul", "output"]


def test_checking_guards_changes_no_buffer():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(3)

        def forward(self, x):
            x = self.norm(x)
            return x * 2 if x.shape[0] > 2 else x

    graph_module = fxcore.symbolic_trace(Net().train(), example_inputs=torch.rand(4, 3))

    graph_module.check_guards(torch.rand(4, 3))

    assert int(graph_module.norm.num_batches_tracked) == 0
    assert torch.equal(graph_module.norm.running_mean, torch.zeros(3))


def test_enforced_guards_refuse_other_inputs():
    graph_module = fxcore.symbolic_trace(
        lambda x: x * 2 if x.shape[0] > 2 else x, example_inputs=torch.rand(3, 2), enforce_guards=True
    )

    graph_module(torch.rand(4, 2))
    with pytest.raises(GuardError):
        graph_module(torch.rand(1, 2))


def test_class_tokens_and_causal_masks_keep_batch_and_length_free():
    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.token = nn.Parameter(torch.rand(1, 1, 8))
            self.register_buffer("mask", torch.tril(torch.ones(32, 32)))

        def forward(self, x):
            x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1)
            b, t, c = x.shape
            scores = x @ x.transpose(1, 2) / c**0.5
            return scores.masked_fill(self.mask[:t, :t] == 0, float("-inf")).softmax(-1) @ x + torch.zeros(b, t, c)

    model = Attention()

    graph_module = fxcore.symbolic_trace(model, example_inputs=torch.rand(2, 5, 8))

    assert expressions(graph_module) == []
    assert_agrees(model, graph_module, torch.rand(7, 11, 8))


def test_a_branch_on_contents_is_refused_with_the_cures():
    def gated(x):
        if x.sum() > 0:
            return x * 2
        return x

    with pytest.raises(TraceError) as caught:
        fxcore.symbolic_trace(gated, example_inputs=torch.ones(3))

    message = str(caught.value)
    assert message.startswith("symbolically traced variables cannot be used as inputs to control flow\n")
    assert "if x.sum() > 0:" in message
    assert "It follows from the contents of a tensor" in message
    assert "fxcore.assume(condition), or assume={'test_example_tracer.py:" in message


def test_an_assumed_branch_is_taken_as_in_the_example_and_guarded():
    def gated(x):
        if fxcore.assume(x.sum() > 0):
            return x * 2
        return x

    graph_module = fxcore.symbolic_trace(gated, example_inputs=torch.ones(3))

    assert_agrees(gated, graph_module, torch.ones(5))
    assert graph_module.graph.guards[0].is_assumed
    with pytest.raises(GuardError, match=r"x.sum\(\) > 0"):
        graph_module.check_guards(-torch.ones(3))
    assert torch.equal(gated(-torch.ones(3)), -torch.ones(3))


def test_a_place_can_be_assumed_from_outside():
    def gated(x):
        if x.sum() > 0:
            return x * 2
        return x

    place = f"{__file__}:{gated.__code__.co_firstlineno + 1}"

    graph_module = fxcore.symbolic_trace(gated, example_inputs=torch.ones(3), assume={place: True})

    assert [node.name for node in graph_module.graph.nodes] == ["x", "mul", "output"]


def test_an_assertion_about_contents_stays_an_assertion():
    names = {}
    exec("def checked(x):\n    assert x.min() >= 0\n    return x * 2", names)  # pytest rewrites assertions of this file
    checked = names["checked"]

    graph_module = fxcore.symbolic_trace(checked, example_inputs=torch.ones(3))

    assert_agrees(checked, graph_module, torch.rand(4))
    with pytest.raises(AssertionError):
        graph_module(-torch.ones(3))


def test_a_branch_on_what_the_model_keeps_is_a_guard():
    class Counted(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("is_ready", torch.tensor(True))

        def forward(self, x):
            return x * 2 if self.is_ready else x

    graph_module = fxcore.symbolic_trace(Counted(), example_inputs=torch.ones(3))

    assert expressions(graph_module) == ["bool(self.is_ready)"]


def test_sizes_beside_one_that_contents_decide_about_can_be_asked_for():
    def filtered(edges):
        kept = edges[:, edges[0] != edges[1]]
        if kept.size(0) != 2:
            raise ValueError
        return kept * 2 if kept.dim() == 2 else kept

    edges = torch.tensor([[0, 1, 2, 3, 4], [1, 1, 0, 3, 3]])

    graph_module = fxcore.symbolic_trace(filtered, example_inputs=edges)

    assert_agrees(filtered, graph_module, torch.tensor([[0, 1, 2, 3], [0, 1, 2, 0]]))
    with pytest.raises(TraceError, match="It follows from the contents of a tensor"):
        fxcore.symbolic_trace(lambda x: range(x.nonzero().shape[0]), example_inputs=edges)


def test_a_variable_of_autograd_is_detached():
    graph_module = fxcore.symbolic_trace(lambda x: Variable(x * 2) + x, example_inputs=torch.ones(3))

    x = torch.rand(3, requires_grad=True)
    graph_module(x).sum().backward()
    assert torch.equal(x.grad, torch.ones(3))
    assert torch.equal(graph_module(x), x * 3)


def test_a_model_with_a_sparse_buffer_is_left_as_it_was():
    class Aligned(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("heads", torch.eye(3).to_sparse())

        def forward(self, x):
            return x * self.heads.shape[0]

    graph_module = fxcore.symbolic_trace(Aligned(), example_inputs=torch.ones(3))

    assert_agrees(Aligned(), graph_module, torch.rand(3))


def test_inputs_in_lists_dicts_and_stars_are_taken_apart():
    def mixed(x, others, *more, scale=1, **named):
        total = x
        for other in (*others, *more):
            total = total + other
        return total * scale + named["bias"]

    inputs = (torch.rand(3), [torch.rand(3), torch.rand(3)], torch.rand(3))

    graph_module = fxcore.symbolic_trace(
        mixed, example_inputs=inputs, example_kwargs={"bias": torch.rand(3), "scale": 2}
    )

    torch.testing.assert_close(graph_module(*inputs, bias=inputs[0], scale=3), mixed(*inputs, bias=inputs[0], scale=3))
    assert expressions(graph_module) == ["len(more) == 1", "len(others) == 2"]


def test_an_argument_left_at_its_default_must_stay_there():
    def masked(x, mask=None):
        return x if mask is None else x * mask

    graph_module = fxcore.symbolic_trace(masked, example_inputs=torch.ones(3))

    assert expressions(graph_module) == ["mask is None"]
    with pytest.raises(GuardError, match="mask is None: it is tensor"):
        graph_module.check_guards(torch.ones(3), torch.ones(3))


@dataclass
class Result:
    values: torch.Tensor
    count: int


def test_dataclasses_come_out_as_what_they_are():
    def result(x):
        return Result(x * 2, x.shape[0])

    graph_module = fxcore.symbolic_trace(result, example_inputs=torch.ones(3))

    obtained = graph_module(torch.ones(5))
    assert isinstance(obtained, Result)
    assert obtained.count == 5


class Cache:
    def __init__(self, keys):
        self.keys = keys


def test_objects_that_hold_values_come_out_as_what_they_are():
    graph_module = fxcore.symbolic_trace(lambda x: Cache([x * 2]), example_inputs=torch.ones(3))

    obtained = graph_module(torch.ones(4))

    assert type(obtained) is Cache
    assert torch.equal(obtained.keys[0], 2 * torch.ones(4))


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 5


def test_a_function_of_autograd_keeps_its_backward():
    graph_module = fxcore.symbolic_trace(lambda x: Doubled.apply(x), example_inputs=torch.ones(3))
    x = torch.ones(3, requires_grad=True)

    graph_module(x).sum().backward()

    assert torch.equal(x.grad, torch.full((3,), 5.0))


@torch.jit.script
def scripted(x: torch.Tensor) -> torch.Tensor:
    if x.sum() > 0:
        return x * 2
    return x


def test_a_scripted_function_is_a_leaf():
    graph_module = fxcore.symbolic_trace(lambda x: scripted(x) + 1, example_inputs=torch.ones(3))

    assert torch.equal(graph_module(-torch.ones(3)), torch.zeros(3))
    assert torch.equal(graph_module(torch.ones(3)), 3 * torch.ones(3))


@pytest.mark.parametrize(
    "function", [lambda x: x + torch.rand(3), lambda x: x * F.dropout(torch.ones(3))], ids=["rand", "dropout"]
)
def test_random_numbers_are_drawn_anew_in_each_run(function):
    graph_module = fxcore.symbolic_trace(function, example_inputs=torch.ones(3))

    assert_agrees(function, graph_module, torch.ones(3))
    assert not torch.equal(torch.stack([graph_module(torch.ones(3)) for _ in range(8)]).std(0), torch.zeros(3))


@pytest.mark.parametrize(
    ("function", "transform"),
    [
        (lambda x: torch.vmap(lambda row: row.sum() * row)(x), transforms.vmap),
        (lambda x: torch.func.grad(lambda values: (values**2).sum())(x), transforms.grad),
    ],
    ids=["vmap", "grad"],
)
def test_a_transform_of_a_function_is_one_call(function, transform):
    graph_module = fxcore.symbolic_trace(function, example_inputs=torch.rand(2, 3))

    calls = [node.target for node in graph_module.graph.nodes if node.op == "call_function"]
    assert [target for target in calls if target is not operator.getitem] == [transform]
    assert_agrees(function, graph_module, torch.rand(5, 3))


def test_a_comparison_of_dtypes_by_identity_is_a_guard():
    graph_module = fxcore.symbolic_trace(
        lambda x: x * 2 if x.dtype is torch.float32 else x, example_inputs=torch.rand(3)
    )

    assert expressions(graph_module) == ["x.dtype == torch.float32"]
    assert torch.equal(graph_module(torch.ones(2)), 2 * torch.ones(2))


def test_a_layer_that_moves_to_the_device_of_the_input_is_traced():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 2)

        def forward(self, x):
            self.layer.to(x.device)
            return self.layer(x)

    model = Net()

    graph_module = fxcore.symbolic_trace(model, example_inputs=torch.rand(3, 2))

    assert type(model.layer.weight.data) is torch.Tensor
    assert_agrees(model, graph_module, torch.rand(4, 2))


def test_moving_a_part_of_the_model_leaves_its_parameters():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.part = nn.Sequential(nn.Linear(2, 2))

        def forward(self, x):
            self.part._apply(lambda tensor: moved.write(f"{tuple(tensor.shape)};") and tensor.to(x.device))
            return self.part(x)

    moved, model = io.StringIO(), Net()

    graph_module = fxcore.symbolic_trace(model, example_inputs=torch.rand(3, 2), verify=False)

    assert moved.getvalue() == "(2, 2);(2,);"
    assert type(model.part[0].weight.data) is torch.Tensor
    assert_agrees(model, graph_module, torch.rand(4, 2))


def test_a_module_made_in_forward_is_kept():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3)])

        def forward(self, x):
            return nn.Sequential(*self.layers, nn.ReLU())(x)

    model = Net()

    graph_module = fxcore.symbolic_trace(model, example_inputs=torch.rand(2, 3))

    assert_agrees(model, graph_module, torch.rand(4, 3))


def test_the_model_and_the_generators_are_left_as_they_were():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(3)
            self.calls = 0
            self.register_buffer("total", torch.zeros(3))

        def forward(self, x):
            self.calls += 1
            self.total = self.total + x.sum(0)
            self.total.add_(1)
            return F.dropout(self.norm(x), training=self.training)

    model = Net().train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    example = torch.rand(4, 3)
    state = torch.get_rng_state()

    fxcore.symbolic_trace(model, example_inputs=example)

    assert model.calls == 0
    assert type(model.total) is torch.Tensor
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)


def test_a_cache_that_a_trace_filled_serves_eager_and_the_next_trace():
    @functools.lru_cache
    def causal(length):
        return torch.ones(length, length).tril()

    def masked(x):
        return x * causal(x.shape[0])

    first = fxcore.symbolic_trace(masked, example_inputs=torch.ones(3, 3))
    assert torch.equal(masked(torch.ones(3, 3)), torch.ones(3, 3).tril())
    causal.cache_clear()
    fxcore.symbolic_trace(masked, example_inputs=torch.ones(3, 3))
    second = fxcore.symbolic_trace(masked, example_inputs=torch.ones(3, 3))

    assert str(second.graph) == str(first.graph)
    assert torch.equal(second(torch.ones(3, 3)), torch.ones(3, 3).tril())


def test_the_example_is_left_as_it_was_and_not_kept():
    example = torch.zeros(3)

    graph_module = fxcore.symbolic_trace(lambda x: x.add_(1), example_inputs=example)

    assert torch.equal(example, torch.zeros(3))
    assert not any(isinstance(value, torch.Tensor) for node in graph_module.graph.nodes for value in node.meta.values())


def test_examples_that_do_not_fit_are_refused():
    with pytest.raises(ExampleError, match=r"example_inputs do not fit .*too many positional arguments"):
        fxcore.symbolic_trace(lambda x: x, example_inputs=(torch.ones(1), torch.ones(1)))
    with pytest.raises(ExampleError, match="need an example: give example_inputs="):
        fxcore.symbolic_trace(lambda x: x, enforce_guards=True)


def test_guards_survive_pickles_and_copies():
    graph_module = fxcore.symbolic_trace(_large, example_inputs=torch.rand(3, 2))

    again = pickle.loads(pickle.dumps(graph_module))

    assert expressions(again) == ["x.shape[0] > 2"]
    with pytest.raises(GuardError):
        again.check_guards(torch.rand(1, 2))


def _large(x):
    return x * 2 if x.shape[0] > 2 else x


def test_a_model_on_the_meta_device_is_traced_without_memory():
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(10**5, 10**5), nn.ReLU())
        example = torch.empty(2, 10**5)

    graph_module = fxcore.symbolic_trace(model, example_inputs=example)

    assert [node.op for node in graph_module.graph.nodes] == ["placeholder", "call_module", "call_module", "output"]


def test_a_tracer_of_the_users_takes_an_example_too():
    class Tracer(fxcore.Tracer):
        def is_leaf_module(self, m, module_qualified_name):
            return True

    graph = Tracer().trace(nn.Sequential(nn.Sequential(nn.ReLU())), example_inputs=torch.rand(2))

    assert [node.op for node in graph.nodes] == ["placeholder", "call_module", "output"]


def test_shapes_can_be_propagated_through_the_graph():
    graph_module = fxcore.symbolic_trace(lambda x: x.view(x.shape[0], -1), example_inputs=torch.rand(2, 3, 4))

    ShapeProp(graph_module).propagate(torch.rand(5, 3, 4))

    assert graph_module.graph.output_node().meta["tensor_meta"].shape == (5, 12)


def test_leaf_modules_by_path_and_by_class():
    model = nn.Sequential(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), nn.Sequential(nn.Linear(2, 2)))

    by_path = fxcore.symbolic_trace(model, leaf_modules=("0",))

    assert [node.target for node in by_path.graph.nodes if node.op == "call_module"] == ["0", "1.0"]
    with pytest.raises(LeafError, match=r"Sequential has no module at '7'; it has '0', '0.0'"):
        fxcore.symbolic_trace(model, leaf_modules=("7",))


class KeepsFirst(fxcore.Tracer):
    """A tracer as users write it, with one module kept and all calls counted."""

    def __init__(self):
        super().__init__()
        self.kinds = []

    def is_leaf_module(self, m, module_qualified_name):
        return module_qualified_name == "0" or super().is_leaf_module(m, module_qualified_name)

    def create_proxy(self, kind, target, args, kwargs, *others, **options):
        self.kinds.append(kind)
        return super().create_proxy(kind, target, args, kwargs, *others, **options)


def test_a_tracer_of_the_user_s_traces_with_an_example_and_keeps_its_class():
    tracer, model = KeepsFirst(), nn.Sequential(nn.Sequential(nn.ReLU()), nn.Flatten())

    graph = tracer.trace(model, example_inputs=torch.rand(2, 3))

    assert [node.target for node in graph.nodes if node.op == "call_module"] == ["0", "1"]
    assert tracer.kinds == ["placeholder", "call_module", "call_module"]
    assert type(tracer) is KeepsFirst is graph._tracer_cls
    assert not vars(tracer).keys() & {"answers", "written_tensors"}


def test_a_tracer_keeps_its_class_where_its_trace_fails():
    tracer = KeepsFirst()

    with pytest.raises(TraceError):
        tracer.trace(lambda x: 1 if x.sum() > 0 else 2, example_inputs=torch.rand(2))

    assert type(tracer) is KeepsFirst
    assert [node.op for node in tracer.trace(nn.ReLU()).nodes] == ["placeholder", "call_function", "output"]


class ChoosesLayers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4)])

    def forward(self, x):
        return nn.Sequential(*self.layers[:2])(x)


def test_layers_in_a_container_that_forward_makes_are_one_call_each():
    model, example = ChoosesLayers(), torch.rand(2, 4)

    graph_module = fxcore.symbolic_trace(model, example_inputs=example)

    calls = [node.target for node in graph_module.graph.nodes if node.op == "call_module"]
    assert calls == ["layers.0", "layers.1"]
    assert torch.equal(graph_module(example), model(example))


@dataclass
class Residuals(dict):
    """A dataclass that is a dict, as outputs of diffusers are."""

    down: torch.Tensor
    middle: torch.Tensor

    def __post_init__(self):
        self.update(down=self.down, middle=self.middle)


def test_a_dataclass_that_is_a_dict_is_made_of_its_fields():
    graph_module = fxcore.symbolic_trace(lambda x: Residuals(x + 1, x * 2), example_inputs=torch.ones(2))

    result = graph_module(torch.ones(3))
    assert type(result) is Residuals
    assert torch.equal(result.middle, torch.full((3,), 2.0))
    assert torch.equal(result["down"], result.middle)


@dataclass
class Prepared:
    x: torch.Tensor
    total: Any = field(default=None, init=False)

    def __post_init__(self):
        self.x, self.total = self.x * 2, self.x.sum()


class Moved(Result):
    def __init__(self, x):
        self.values = x + 1


def extended(x):
    result = Result(x, 1)
    result.beside = x * 2
    return result


def of_a_local_class(x):
    class Local:
        pass

    result = Local()
    result.x = x
    return result


@pytest.mark.parametrize("make", [Prepared, Moved, extended, of_a_local_class])
def test_an_object_that_its_fields_do_not_make_has_the_attributes_that_the_traced_code_gave_it(make):
    graph_module = fxcore.symbolic_trace(lambda x: make(x), example_inputs=torch.ones(2))

    expected, obtained = make(torch.arange(3.0)), graph_module(torch.arange(3.0))

    assert type(obtained).__qualname__ == type(expected).__qualname__
    assert vars(obtained).keys() == vars(expected).keys()
    for name, value in vars(expected).items():
        torch.testing.assert_close(vars(obtained)[name], value)


class Images(list):
    def __init__(self, images, size):
        super().__init__(images)
        self.size = size


class Features(dict):
    def __init__(self, named, stride):
        super().__init__(named)
        self.stride = stride


class Rows(list):
    pass


class Corner(tuple):
    __slots__ = ()


class Pair(tuple):
    def __new__(cls, first, second):
        return super().__new__(cls, (first, second))


class Named(dict):
    def __init__(self, x):
        super().__init__(x=x)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: Pair(x, x * 2),
        lambda x: Named(x * 2),
        lambda x: Images([x, x * 2], x.shape[0]),
        lambda x: Features({"x": x * 2}, x * 3),
        lambda x: Rows([x * 2, x]),
        lambda x: Corner((x, x * 2)),
        lambda x: defaultdict(list, x=x * 2),
    ],
)
def test_a_container_of_another_class_comes_out_with_its_items_and_attributes(make):
    graph_module = fxcore.symbolic_trace(make, example_inputs=torch.ones(2))

    expected, obtained = make(torch.arange(3.0)), graph_module(torch.arange(3.0))

    assert type(obtained) is type(expected)
    torch.testing.assert_close(obtained, expected)
    torch.testing.assert_close(getattr(obtained, "__dict__", {}), getattr(expected, "__dict__", {}))
    assert getattr(obtained, "default_factory", None) is getattr(expected, "default_factory", None)


def test_concrete_arguments_are_a_part_of_the_example():
    def scaled(x, flag, y=2):
        return x * y if flag else x

    with pytest.raises(ExampleError, match="scaled with concrete_args and an example: give these values in example_in"):
        fxcore.symbolic_trace(scaled, {"flag": True}, example_inputs=(torch.ones(2), True))
    traced = fxcore.symbolic_trace(scaled, example_inputs=torch.ones(2), example_kwargs={"flag": True})

    assert torch.equal(traced(torch.ones(2), flag=True), 2 * torch.ones(2))
    with pytest.raises(GuardError, match="flag"):
        traced(torch.ones(2), flag=False)


def test_a_text_may_name_a_dtype_by_its_old_class():
    x = torch.ones(2)

    traced = fxcore.symbolic_trace(lambda x: x.type(torch.DoubleTensor), example_inputs=x)

    assert traced(x).dtype is torch.float64
    assert "'torch.DoubleTensor'" in traced.code


def test_a_parameter_that_the_traced_code_makes_is_a_constant():
    class Makes(nn.Module):
        def forward(self, x):
            return x * nn.Parameter(torch.full((2,), 3.0))

    traced = fxcore.symbolic_trace(Makes(), example_inputs=torch.ones(2))

    assert torch.equal(traced(torch.ones(2)), torch.full((2,), 3.0))


def test_a_proxy_may_be_made_by_a_function_of_the_caller():
    made = []

    class Own(fxcore.Tracer):
        def call_module(self, m, forward, args, kwargs):
            return self.create_proxy("call_function", torch.neg, args, kwargs, proxy_factory_fn=keeps)

    def keeps(node):
        made.append(node.name)
        raise ValueError("seen")

    with pytest.raises(ValueError, match="seen"):
        Own().trace(nn.Sequential(nn.ReLU()), example_inputs=torch.ones(2))


class Output(dict):
    """A dict of a class of the user's."""


@fxcore.wrap
def first_of(output):
    return output["first"] * (2 if type(output) is Output else 1)


def test_a_dict_of_another_class_reaches_a_leaf_as_one():
    def function(x):
        return first_of(Output(first=x + 1))

    assert_agrees(function, fxcore.symbolic_trace(function, example_inputs=torch.ones(3)), torch.arange(3.0))


class Renormalized(nn.Module):
    def __init__(self, max_norm):
        super().__init__()
        self.table = nn.Embedding(3, 2, max_norm=max_norm)

    def forward(self, index):
        return self.table(index)


@pytest.mark.parametrize("max_norm", [None, 0.1])
def test_a_layer_that_writes_its_weight_writes_it_in_each_run(max_norm):
    model = Renormalized(max_norm)
    before = model.table.weight.detach().clone()
    graph_module = fxcore.symbolic_trace(model, example_inputs=torch.arange(3))

    assert torch.equal(model.table.weight, before)
    found = graph_module(torch.arange(2))
    assert (float(found.norm(dim=-1).max()) < 0.11) == (max_norm is not None)
    assert torch.equal(model.table.weight[2], before[2])


class Lazy(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.LazyLinear(2)

    def forward(self, x):
        return self.layer(x)


def test_a_layer_without_shapes_is_refused_until_it_has_been_called():
    model = Lazy()
    x = torch.rand(2, 3)

    with pytest.raises(TraceError, match=r"cannot run with an example, at .*a lazy module that is not initialized yet"):
        fxcore.symbolic_trace(model, example_inputs=x)
    model(x)
    assert_agrees(model, fxcore.symbolic_trace(model, example_inputs=x), x)


def asked_for_true(x):
    return x.sum() if x.is_contiguous() is True else x.mean()


def asked_for_false(x):
    return x.sum() if torch.is_floating_point(x) is False else x.mean()


def with_a_mask(x, mask=None):
    return x if mask is None else x * mask


def with_starred(x, *masks, **named):
    first = masks[0]
    bias = named["bias"]
    return x if first is None or bias is None else x * first + bias


def of_a_missing_item(x, pair):
    try:
        return x * pair[2]
    except IndexError:
        return x


@pytest.mark.parametrize(
    ("function", "inputs", "named", "guards", "nodes"),
    [
        (asked_for_true, (torch.ones(3),), {}, ["x.is_contiguous()"], "x sum_1 output"),
        (asked_for_false, (torch.ones(3),), {}, ["is_floating_point(x)"], "x mean output"),
        (with_a_mask, (torch.ones(3),), {}, ["mask is None"], "x mask output"),
        (with_a_mask, (torch.ones(3), torch.ones(3)), {}, ["mask is not None"], "x mask mul output"),
        (with_a_mask, (torch.ones(3), None), {}, ["mask is None"], "x mask output"),
        (
            with_starred,
            (torch.ones(3), torch.ones(3)),
            {"bias": torch.ones(3)},
            ["masks[0] is not None", "named['bias'] is not None"],
            "x _masks _named getitem getitem_1 mul add output",
        ),
    ],
)
def test_a_program_has_exactly_these_guards(function, inputs, named, guards, nodes):
    graph_module = fxcore.symbolic_trace(function, example_inputs=inputs, example_kwargs=named)

    assert expressions(graph_module) == guards
    assert " ".join(node.name for node in graph_module.graph.nodes) == nodes
    assert torch.equal(graph_module(*inputs, **named), function(*inputs, **named))


def test_the_item_that_a_list_does_not_have_is_a_guard_on_its_length():
    graph_module = fxcore.symbolic_trace(of_a_missing_item, example_inputs=(torch.ones(3), (torch.ones(3),)))

    assert expressions(graph_module) == ["type(pair) is tuple", "len(pair) == 1"]


@dataclass
class Batch:
    x: torch.Tensor
    mask: torch.Tensor | None = None


def masked(x, mask):
    return x if mask is None else x * mask


def masked_by_key(named):
    return named["x"] if named["mask"] is None else named["x"] * named["mask"]


def masked_by_attribute(batch):
    return batch.x if batch.mask is None else batch.x * batch.mask


def of_a_present_item(x, pair):
    try:
        return x * pair[0]
    except IndexError:
        return x


def same_or_nothing(query, key, value):
    return query * 2 if key is query else query + key + (0 if value is None else value)


def named_as_a_method(x, mean=2):
    return x.mean() * mean


def shape_before_a_change(x):
    x = x.clone()
    before = x.shape
    x.unsqueeze_(0)
    return x.reshape(before) * 2


class AsksAWrittenAttribute(nn.Module):
    def __init__(self):
        super().__init__()
        self.total = torch.ones(3)

    def forward(self, x):
        self.total.add_(x)
        return x * 2 if self.total.sum() > 0 else x


ONES, HALVES = torch.ones(3), torch.full((3,), 0.5)


@pytest.mark.parametrize(
    ("function", "inputs", "guards", "nodes"),
    [
        (masked, (ONES, HALVES), ["mask is not None"], "x mask mul output"),
        (masked, (ONES, None), ["mask is None"], "x mask output"),
        (
            masked_by_key,
            ({"x": ONES, "mask": HALVES},),
            ["named['mask'] is not None"],
            "named getitem_1 getitem_2 mul output",
        ),
        (
            masked_by_attribute,
            (Batch(ONES, HALVES),),
            ["batch.mask is not None"],
            "batch getattr_2 getattr_3 mul output",
        ),
        (lambda x, bias=None: x + bias, (ONES, HALVES), ["bias is not None"], "x bias add output"),
        (
            of_a_present_item,
            (ONES, (HALVES, 1)),
            ["getitem(...) raises no IndexError", "len(pair) == 2", "mul(...) raises no IndexError"],
            "x pair getitem mul output",
        ),
        (
            same_or_nothing,
            (ONES, HALVES, None),
            ["key is not query", "value is None", "query is not None", "key is not None"],
            "query key value add add_1 output",
        ),
        (named_as_a_method, (ONES,), ["mean == 2"], "x mean mean_1 mul output"),
        (shape_before_a_change, (ONES,), [], "x clone getattr_1 unsqueeze_ reshape mul output"),
        (
            lambda x: torch.from_numpy(x.numpy() * numpy.float64(2)),
            (ONES,),
            [],
            "x numpy _tensor_constant0 numpy_1 mul from_numpy output",
        ),
        (AsksAWrittenAttribute(), (ONES,), ["bool(self.total.sum() > 0)"], "x total add_ mul output"),
    ],
)
def test_a_small_program_has_these_guards_and_these_nodes(function, inputs, guards, nodes):
    graph_module = fxcore.symbolic_trace(function, example_inputs=inputs)

    assert expressions(graph_module) == guards
    assert " ".join(node.name for node in graph_module.graph.nodes) == nodes
    assert torch.equal(graph_module(*inputs), function(*inputs))


def test_a_number_of_sizes_is_computed_in_a_branch_and_a_drawn_number_is_not():
    def scaled(x):
        scale, shape = x.shape[0] ** -0.5, x.shape
        return torch.cond(x.sum() > 0, lambda x: x.reshape(shape) * scale, lambda x: -x, (x,))

    def drawn(x):
        scale = random.uniform(1, 2)
        return torch.cond(x.sum() > 0, lambda x: x * scale, lambda x: -x, (x,))

    torch.testing.assert_close(
        fxcore.symbolic_trace(scaled, example_inputs=torch.ones(4))(torch.ones(9)), torch.ones(9) / 3
    )
    with pytest.raises(TraceError, match="a float cannot be an input of it"):
        fxcore.symbolic_trace(drawn, example_inputs=torch.ones(4))


class Assigns(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x):
        self.total = self.total + x
        return x


def test_a_guard_behind_the_run_of_the_model_has_the_line_of_its_forward():
    graph_module = fxcore.symbolic_trace(Assigns(), example_inputs=ONES)

    line = Assigns.forward.__code__.co_firstlineno
    assert [(guard.expression, guard.line, guard.source) for guard in graph_module.graph.guards] == [
        ("add(...).dtype == torch.float32", line, "def forward(self, x):"),
        ("add(...).shape == torch.Size([3])", line, "def forward(self, x):"),
    ]


def test_a_list_that_a_traced_function_encloses_is_as_it_was():
    calls = []

    def counted(x):
        calls.append(len(calls))
        return x * 2

    fxcore.symbolic_trace(counted, example_inputs=ONES)

    assert calls == []


class WritesAttributes(nn.Module):
    def __init__(self):
        super().__init__()
        self.added, self.copied, self.indexed = torch.ones(3), torch.ones(3), torch.ones(3)

    def forward(self, x):
        self.added.add_(x)
        torch.mul(x, 2, out=self.copied)
        self.indexed[0] = x.sum()
        return self.added + self.copied + self.indexed


def test_a_trace_leaves_the_attributes_that_recorded_calls_write():
    model, eager = WritesAttributes(), WritesAttributes()

    graph_module = fxcore.symbolic_trace(model, example_inputs=HALVES)

    assert all(torch.equal(each, ONES) for each in (model.added, model.copied, model.indexed))
    for _ in range(2):
        assert torch.equal(graph_module(HALVES), eager(HALVES))
