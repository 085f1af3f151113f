"""Programs that keep, read or replace state: a graph answers as eager does in each call, or the trace is refused.

After every trace the model, torch's settings and the generators are as they were.
"""

from __future__ import annotations

import functools
from collections import deque
from typing import ClassVar

import numpy
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune, spectral_norm, weight_norm
from torch.utils import _pytree as pytree

import fxcore
from fxcore.errors import TraceError
from fxcore.state.snapshot import Snapshot, state_kept


def rows(seed, count=2):
    return torch.randn(count, 4, generator=torch.Generator().manual_seed(seed))


CALLS = (rows(1), rows(2), rows(3))


class Model(nn.Module):
    """A model with parameters, a buffer and a dict of tensors, and a forward from outside."""

    def __init__(self, forward):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.w = nn.Parameter(torch.ones(4))
        self.register_buffer("b", torch.zeros(4))
        self.stats = {"mean": torch.zeros(4), "all": [torch.zeros(4)], "count": 0}
        self.run = torch.zeros(4)
        self.cache, self.position, self.history, self.last = None, 0, [], None
        self.recent = deque(maxlen=2)
        self.array = numpy.zeros(4, dtype=numpy.float32)
        self.generator = torch.Generator().manual_seed(3)
        self.numpy_generator = numpy.random.default_rng(0)
        self.followed = nn.Linear(4, 4)
        self.function = forward

    def forward(self, x):
        return self.function(self, x)


def model_of(function, *prepare):
    torch.manual_seed(0)
    model = Model(function)
    for each in prepare:
        each(model)
    return model


# Parameters that forward writes.


def multiplies_data(self, x):
    self.w.data.mul_(0.5)
    return x * self.w


def multiplies_without_grad(self, x):
    with torch.no_grad():
        self.w.mul_(0.5)
    return x * self.w


def assigns_data(self, x):
    self.fc.weight.data = F.normalize(self.fc.weight.data, dim=1)
    return self.fc(x)


def swaps_data_and_back(self, x):
    before = self.fc.weight.data.clone()
    self.fc.weight.data = before * 2
    y = self.fc(x)
    self.fc.weight.data = before
    return y


def decays_all_parameters(self, x):
    for parameter in self.parameters():
        parameter.data.mul_(0.5)
    return self.fc(x) * self.w


@torch.no_grad()
def decays_without_grad(model):
    for parameter in model.fc.parameters():
        parameter.mul_(0.5)


def decays_in_a_function(self, x):
    decays_without_grad(self)
    return self.fc(x)


def decays_by_foreach(self, x):
    with torch.no_grad():
        torch._foreach_mul_(list(self.fc.parameters()), 0.5)
    return self.fc(x)


def copies_into_a_parameter(self, x):
    with torch.no_grad():
        self.fc.weight.copy_(x.t() @ x)
    return self.fc(x)


def replaces_a_parameter(self, x):
    self.w = nn.Parameter(self.w * 0.5 + x.mean(0).detach())
    return x * self.w


def initialises_a_parameter(self, x):
    nn.init.constant_(self.fc.weight, 0.5)
    return self.fc(x)


def draws_a_parameter(self, x):
    nn.init.normal_(self.fc.weight)
    return self.fc(x)


def embeds_with_a_largest_norm(self, x):
    return F.embedding(torch.arange(2), self.fc.weight, max_norm=0.1) + x


# State that is read past the attributes of modules.


def sums_all_parameters(self, x):
    return self.fc(x), sum(parameter.pow(2).sum() for parameter in self.parameters())


def reads_the_state_dict(self, x):
    return x * sum(value.norm() for value in self.state_dict().values())


def makes_a_vector_of_parameters(self, x):
    return x * nn.utils.parameters_to_vector(self.fc.parameters()).norm()


# Tensors in containers.


def writes_into_a_dict(self, x):
    self.stats["mean"].mul_(0.9).add_(x.mean(0))
    return x - self.stats["mean"]


def reads_a_dict_before_the_write(self, x):
    y = (self.stats["mean"] * 2 + 1) * x
    self.stats["mean"].add_(x.mean(0))
    return y


def counts_in_a_list(self, x):
    self.stats["all"][0] += 1
    return x - self.stats["all"][0]


def replaces_in_a_dict(self, x):
    self.stats["mean"] = self.stats["mean"] * 0.5 + x.mean(0).detach()
    return x + self.stats["mean"]


def replaces_a_plain_tensor(self, x):
    self.run = 0.9 * self.run + 0.1 * x.mean(0).detach()
    return x - self.run


def replaces_a_buffer(self, x):
    self.b = self.b + x.mean(0).detach()
    return x + self.b


def draws_from_its_generator(self, x):
    return x + torch.rand(4, generator=self.generator)


def seeds_the_generator(self, x):
    torch.manual_seed(7)
    return x + torch.rand(4)


GROWING = []


def appends_to_a_global(self, x):
    GROWING.append(x.shape[0])
    return x + 1


def makes_a_generator(self, x):
    generator = torch.Generator().manual_seed(3)
    return x + torch.rand(x.shape[0], 4, generator=generator) + torch.randn(4, generator=generator)


def forks_the_generator(self, x):
    with torch.random.fork_rng():
        y = x + torch.rand(4)
    return y + torch.rand(4)


def halves_in_a_dict(self, x):
    self.stats["mean"] = self.stats["mean"] * 0.5 + 1
    return x + self.stats["mean"]


def writes_out(self, x):
    y = x + self.stats["mean"]
    torch.add(self.stats["mean"], 1, out=self.stats["mean"])
    return y


def normalises_by_plain_tensors(self, x):
    F.batch_norm(x, self.stats["mean"], self.stats["all"][0], training=True)
    return x - self.stats["mean"]


def steps_down(self, x):
    with torch.enable_grad():
        gradients = torch.autograd.grad(self.fc(x).pow(2).mean(), list(self.fc.parameters()))
    with torch.no_grad():
        for parameter, gradient in zip(self.fc.parameters(), gradients, strict=True):
            parameter.sub_(0.1 * gradient)
    return self.fc(x)


def follows_another_layer(self, x):
    other = self.followed
    for parameter, target in zip(other.parameters(), self.fc.parameters(), strict=True):
        parameter.data.lerp_(target.data, 0.1)
    return other(x)


def loads_a_state_dict(self, x):
    self.fc.load_state_dict(self.followed.state_dict())
    return self.fc(x)


def replaces_a_registered_buffer(self, x):
    before = self.b
    del self.b
    self.register_buffer("b", before + 1)
    return x + self.b


# Modules with replaced state, and modules that forward makes.


def calls_with_computed_parameters(self, x):
    computed = {name: value * x.mean() for name, value in self.fc.named_parameters()}
    return torch.func.functional_call(self.fc, computed, (x,))


def calls_with_other_parameters(self, x):
    return torch.func.functional_call(self.fc, {"weight": self.fc.weight * 2, "bias": self.w}, (x,))


def calls_with_plain_parameters(self, x):
    doubled = {name: value * 2 for name, value in self.fc.named_parameters()}
    return torch.func.functional_call(self.fc, doubled, (x,))


def generates_weights(self, x):
    layer = nn.Linear(4, 4, bias=False, device="meta")
    del layer._parameters["weight"]
    layer.weight = self.fc(x).t() @ x
    return layer(x)


class Adds(nn.Module):
    def __init__(self, value):
        super().__init__()
        self.value = value

    def forward(self, x):
        return x + self.value


def makes_a_module_of_a_value(self, x):
    return Adds(x * 2)(x)


# State beside the model.


class WithClassAttributes(Model):
    seen = torch.zeros(4)
    table: ClassVar = {"count": torch.zeros(4)}
    calls = 0


def writes_into_the_class(self, x):
    WithClassAttributes.seen.add_(1)
    WithClassAttributes.table["count"].add_(1)
    WithClassAttributes.calls += 1
    return x + WithClassAttributes.seen + WithClassAttributes.table["count"]


def writes_an_enclosed_tensor():
    seen = torch.zeros(4)

    def forward(self, x):
        seen.add_(1)
        return x + seen

    return forward


# Hooks and parametrizations.


def keeps_features(features):
    return lambda model: model.fc.register_forward_hook(lambda module, args, output: features.update(fc=output))


def keeps_inputs(features):
    return lambda model: model.fc.register_forward_pre_hook(lambda module, args: features.update(fc=args[0]))


def uses_features(features):
    return lambda self, x: self.fc(x * 2) + features["fc"].relu()


def hooks_in_forward(self, x):
    found = []
    handle = self.fc.register_forward_hook(lambda module, args, output: found.append(output))
    y = self.fc(x)
    handle.remove()
    return y + found[0].sum()


def calls_fc(self, x):
    return self.fc(x)


def calls_fc_and_reads_its_weight(self, x):
    return self.fc(x) + self.fc.weight.sum()


def doubles_the_result(model):
    model.register_forward_hook(lambda module, args, output: output * 2 + module.b)


def adds_to_the_input(model):
    model.register_forward_pre_hook(lambda module, args: (args[0] + 1,))


def has_a_forward_of_its_own(model):
    model.forward = lambda x: x.relu() + 1


def changes_inputs_by_name(model):
    model.register_forward_pre_hook(lambda module, args, kwargs: ((args[0] * 3,), kwargs), with_kwargs=True)


def doubles_in_the_leaf(model):
    model.fc.register_forward_hook(lambda module, args, output: output * 2)


class Doubled(nn.Module):
    factor = 2.0

    def forward(self, weight):
        return weight * self.factor


def scales_a_parametrization(self, x):
    self.fc.parametrizations.weight[0].factor = x.mean()
    return self.fc(x)


def saves_its_attention(self, x):
    self.last = x.softmax(-1)
    return self.last @ self.fc.weight


def counts_what_nobody_reads(self, x):
    self.position += 1
    return x * 2


def caches_by_size(self, x):
    if self.cache is None or self.cache.shape[0] < x.shape[0]:
        self.cache = torch.arange(x.shape[0], dtype=x.dtype)[:, None]
    return x + self.cache[: x.shape[0]]


def parametrized(model):
    parametrize.register_parametrization(model.fc, "weight", Doubled())


FEATURES, INPUTS = {}, {}
SOUND = {
    function.__name__: functools.partial(model_of, function)
    for function in (
        *(multiplies_data, multiplies_without_grad, assigns_data, swaps_data_and_back, decays_all_parameters),
        *(decays_in_a_function, decays_by_foreach, copies_into_a_parameter, replaces_a_parameter),
        *(initialises_a_parameter, draws_a_parameter, embeds_with_a_largest_norm, sums_all_parameters),
        *(reads_the_state_dict, makes_a_vector_of_parameters, writes_into_a_dict, reads_a_dict_before_the_write),
        *(counts_in_a_list, replaces_in_a_dict, replaces_a_plain_tensor, replaces_a_buffer, draws_from_its_generator),
        *(appends_to_a_global, makes_a_generator, forks_the_generator, halves_in_a_dict, writes_out, steps_down),
        *(normalises_by_plain_tensors, follows_another_layer, loads_a_state_dict, replaces_a_registered_buffer),
        *(seeds_the_generator, calls_with_computed_parameters, calls_with_other_parameters),
        *(calls_with_plain_parameters, generates_weights, makes_a_module_of_a_value, hooks_in_forward),
        *(saves_its_attention, counts_what_nobody_reads, caches_by_size),
    )
}
SOUND |= {
    "class_attributes": lambda: WithClassAttributes(writes_into_the_class),
    "enclosed_tensor": lambda: model_of(writes_an_enclosed_tensor()),
    "features_of_a_hook": lambda: model_of(uses_features(FEATURES), keeps_features(FEATURES)),
    "inputs_of_a_hook": lambda: model_of(uses_features(INPUTS), keeps_inputs(INPUTS)),
    "hooks_of_a_root_with_a_forward_of_its_own": lambda: model_of(
        calls_fc, doubles_the_result, adds_to_the_input, has_a_forward_of_its_own
    ),
    "hooks_of_the_root": lambda: model_of(calls_fc, doubles_the_result, adds_to_the_input, changes_inputs_by_name),
    "hook_of_a_leaf": lambda: model_of(calls_fc, doubles_in_the_leaf),
    "parametrization": lambda: model_of(calls_fc_and_reads_its_weight, parametrized),
    "parametrization_by_input": lambda: model_of(scales_a_parametrization, parametrized),
    "old_weight_norm": lambda: model_of(calls_fc_and_reads_its_weight, lambda model: weight_norm(model.fc)),
    "weight_norm": lambda: model_of(
        calls_fc_and_reads_its_weight, lambda model: parametrizations.weight_norm(model.fc)
    ),
    "old_spectral_norm": lambda: model_of(calls_fc, lambda model: spectral_norm(model.fc)),
    "spectral_norm": lambda: model_of(calls_fc, lambda model: parametrizations.spectral_norm(model.fc)),
    "pruning": lambda: model_of(
        calls_fc_and_reads_its_weight, lambda model: prune.l1_unstructured(model.fc, "weight", 0.5)
    ),
}


def results(call, inputs):
    """Return the outputs of successive calls, copied; torch's generator starts at the same place in each call."""
    found = []
    for x in inputs:
        torch.manual_seed(1)
        found.append([leaf.detach().clone() for leaf in pytree.tree_leaves(call(x.clone()))])
    return found


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("is_training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("name", SOUND)
def test_a_trace_leaves_the_model_as_it_was_and_the_graph_answers_as_eager_does_in_each_call(name, is_training):
    model = SOUND[name]().train(is_training)
    with state_kept(model, parameters=True):
        expected = results(model, CALLS)
    before, settings = Snapshot(model), Snapshot.of_globals()

    graph_module = fxcore.symbolic_trace(model, example_inputs=CALLS[0])

    assert not before.changes()
    assert not settings.changes()
    assert GROWING == []
    with state_kept(model, parameters=True):
        torch.testing.assert_close(results(graph_module, CALLS), expected)


def test_a_graph_reads_parameters_as_they_are_when_it_runs():
    model = model_of(sums_all_parameters)
    graph_module = fxcore.symbolic_trace(model, example_inputs=CALLS[0])

    with torch.no_grad():
        model.fc.weight.mul_(3)

    torch.testing.assert_close(results(graph_module, CALLS), results(model, CALLS))


def test_a_trace_restores_attributes_of_classes_and_enclosed_variables():
    count, kept = 0, []

    def forward(self, x):
        nonlocal count
        count += 1
        kept.append(x)
        type(self).calls += 1
        type(self).table["made"] = x
        WithClassAttributes.seen.add_(1)
        return x * 2

    fxcore.symbolic_trace(WithClassAttributes(forward), example_inputs=CALLS[0])

    assert (count, kept, WithClassAttributes.calls, list(WithClassAttributes.table)) == (0, [], 0, ["count"])
    assert not WithClassAttributes.seen.any()


def test_a_failed_trace_leaves_nothing_on_the_model():
    def forward(self, x):
        self.fc.weight.data.mul_(2)
        y = Adds(x)(x) + torch.ones(4)
        return y if y.sum() > 0 else x

    model = model_of(forward)
    before = Snapshot(model)

    with pytest.raises(TraceError):
        fxcore.symbolic_trace(model, example_inputs=CALLS[0])

    assert not before.changes()


# State that a graph of one call cannot keep.


def caches_a_value(self, x):
    if self.cache is None:
        self.cache = x.mean(0)
    return x + self.cache


def counts_its_calls(self, x):
    self.position += x.shape[0]
    return x * self.position


def counts_in_a_dict(self, x):
    self.stats["count"] += 1
    return x * self.stats["count"]


def collects(self, x):
    self.history.append(x)
    return sum(self.history)


def keeps_the_last_two(self, x):
    self.recent.append(x)
    return sum(self.recent)


def uses_the_input_before_the_last(self, x):
    y = x + self.recent[0] if len(self.recent) == 2 else x
    self.recent.append(x.detach())
    return y


def draws_from_its_own_numpy(self, x):
    return x * float(self.numpy_generator.random())


def counts_in_an_array(self, x):
    self.array += 1
    return x + torch.from_numpy(self.array)


def turns_on_autocast(self, x):
    torch.set_autocast_enabled("cpu", True)
    return self.fc(x)


def keeps_a_number_of_a_hook():
    kept = {}

    def forward(self, x):
        return self.fc(x) * kept["mean"]

    model = model_of(forward)
    model.fc.register_forward_hook(lambda module, args, output: kept.update(mean=output.mean().item()))
    return model


@pytest.mark.parametrize(
    ("make", "state"),
    [
        (functools.partial(model_of, caches_a_value), "self.cache"),
        (functools.partial(model_of, counts_its_calls), "self.position"),
        (functools.partial(model_of, counts_in_a_dict), r"self.stats\['count'\]"),
        (functools.partial(model_of, collects), "self.history"),
        (functools.partial(model_of, keeps_the_last_two), r"self.recent\[0\]"),
        (functools.partial(model_of, uses_the_input_before_the_last), r"self.recent\[0\]"),
        (functools.partial(model_of, draws_from_its_own_numpy), "self.numpy_generator"),
        (functools.partial(model_of, counts_in_an_array), "self.array"),
        (functools.partial(model_of, turns_on_autocast), "autocast on cpu"),
        (keeps_a_number_of_a_hook, "kept"),
    ],
)
def test_state_that_decides_about_the_next_call_is_refused_by_name(make, state):
    with pytest.raises(
        TraceError, match=f"(?s)a second call of the model computes with state.*forward assigns.*{state}"
    ):
        fxcore.symbolic_trace(make(), example_inputs=CALLS[0])


class Leaf(nn.Module):
    factor = 1.0

    def forward(self, x):
        self.kept = x * 3
        return x + self.factor


class WithLeaf(nn.Module):
    def __init__(self, forward):
        super().__init__()
        self.leaf, self.function = Leaf(), forward

    def forward(self, x):
        return self.function(self, x)


def reads_the_leaf(self, x):
    return self.leaf(x) + self.leaf.kept


def sets_the_leaf(self, x):
    self.leaf.factor = x.mean()
    return self.leaf(x)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (
            reads_the_leaf,
            r"cannot become a constant of the graph: the leaf 'leaf' computed it on the example at .*kept",
        ),
        (
            sets_the_leaf,
            r"cannot record the leaf 'leaf' as one call: its attribute 'factor' holds a value of the graph",
        ),
    ],
)
def test_a_leaf_that_shares_state_with_the_traced_code_is_refused(function, words):
    with pytest.raises(TraceError, match=words):
        fxcore.symbolic_trace(WithLeaf(function), example_inputs=CALLS[0], leaf_modules=(Leaf,))


def test_a_module_with_random_weights_made_in_forward_is_refused():
    def forward(self, x):
        return nn.Linear(4, 4)(x)

    with pytest.raises(TraceError, match=r"it was drawn while tracing.*\n.*in __init__"):
        fxcore.symbolic_trace(model_of(forward), example_inputs=CALLS[0])


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = model_of(calls_fc)

    def forward(self, x):
        return self.inner(x)


def test_backward_hooks_are_kept_in_a_leaf_and_refused_elsewhere():
    model = Outer()
    model.inner.register_full_backward_hook(lambda module, inputs, outputs: (inputs[0] * 3,))
    x = CALLS[0].clone().requires_grad_()

    with pytest.raises(TraceError, match=r"cannot trace through backward hooks: the module 'inner' \(Model\) has one"):
        fxcore.symbolic_trace(model, example_inputs=x)

    graph_module = fxcore.symbolic_trace(model, example_inputs=x, leaf_modules=["inner"])
    (obtained,) = torch.autograd.grad(graph_module(x).sum(), x)
    (expected,) = torch.autograd.grad(model(x).sum(), x)
    torch.testing.assert_close(obtained, expected)


def test_a_hook_of_all_modules_may_look_and_may_not_compute():
    seen = []
    handle = nn.modules.module.register_module_forward_hook(lambda module, args, output: seen.append(type(module)))
    try:
        graph_module = fxcore.symbolic_trace(Outer(), example_inputs=CALLS[0])
    finally:
        handle.remove()
    torch.testing.assert_close(graph_module(CALLS[1]), Outer()(CALLS[1]))

    handle = nn.modules.module.register_module_forward_hook(lambda module, args, output: output * 2)
    try:
        with pytest.raises(TraceError, match="cannot trace with a hook of all modules that computes"):
            fxcore.symbolic_trace(Outer(), example_inputs=CALLS[0])
    finally:
        handle.remove()


def test_a_graph_that_was_traced_again_has_the_code_of_one_trace():
    graph = fxcore.symbolic_trace(model_of(decays_in_a_function), example_inputs=CALLS[0]).graph

    assert [node.target for node in graph.nodes if node.op == "call_method"] == ["mul_", "mul_"]
    assert [node.name for node in graph.nodes if node.op == "get_attr"] == ["fc_weight", "fc_bias"]


def test_a_cache_by_shape_is_emptied_after_the_trace():
    def forward(self, x):
        if x.shape not in self.stats:
            self.stats[x.shape] = torch.arange(x.shape[1], dtype=x.dtype)
        return x + self.stats[x.shape]

    model = model_of(forward)

    graph_module = fxcore.symbolic_trace(model, example_inputs=CALLS[0])

    assert list(model.stats) == ["mean", "all", "count"]
    torch.testing.assert_close(graph_module(CALLS[1]), CALLS[1] + torch.arange(4.0))


class RunningSum(nn.Module):
    def __init__(self, *shape):
        super().__init__()
        self.dims = (0,) if shape else (0, 1)
        self.register_buffer("sum", torch.zeros(shape))

    def forward(self, x):
        self.sum = self.sum * 0.5 + x.detach().sum(self.dims)
        return x - self.sum


@pytest.mark.parametrize(
    ("shape", "other", "guard"),
    [
        ((), torch.ones(2, 3, dtype=torch.float64), r"\(\(self.sum \* 0.5\) \+ .*\)\.dtype == torch.float32: it is"),
        ((3,), torch.ones(2, 3, dtype=torch.float64), r"add\(...\)\.dtype == torch.float32: it is torch.float64"),
        ((1,), torch.ones(2, 3), r"add\(...\)\.shape == torch.Size\(\[1\]\): it is .*: def forward"),
    ],
)
def test_a_buffer_that_would_get_another_dtype_or_shape_is_refused(shape, other, guard):
    graph_module = fxcore.symbolic_trace(RunningSum(*shape), example_inputs=torch.ones(2, *(shape or (3,))))

    with pytest.raises(fxcore.errors.GuardError, match=guard):
        graph_module(other)

    assert torch.equal(graph_module.sum, torch.zeros(shape))
    assert graph_module.supports(torch.ones(5, *(shape or (3,)))) is not False


def test_a_list_of_the_same_weights_is_no_assignment():
    graph_module = fxcore.symbolic_trace(nn.LSTM(4, 5), example_inputs=torch.rand(2, 3, 4))

    assert graph_module.graph.guards.notes == ()


def test_a_list_of_other_tensors_is_an_assignment():
    class Keeps(nn.Module):
        def __init__(self):
            super().__init__()
            self.kept = [torch.zeros(2)]

        def forward(self, x):
            self.kept = [x]
            return x + 1

    graph_module = fxcore.symbolic_trace(Keeps(), example_inputs=torch.rand(2))

    assert graph_module.graph.guards.notes == ("forward assigns self.kept, which the graph does not",)
