"""A call of a module in a trace with an example: one node or operations, with its hooks."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.modules import module as of_all_modules

import fxcore
from fxcore.errors import TraceError
from fxcore.guided.module_calls import has_forward_hooks

X = torch.rand(2, 3, generator=torch.Generator().manual_seed(0))


class Outer(nn.Module):
    def __init__(self, before=lambda model, x: None):
        super().__init__()
        self.part = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
        self.before = before

    def forward(self, x):
        self.before(self, x)
        return self.part(x)


def operations_of(model, **options):
    graph_module = fxcore.symbolic_trace(model, example_inputs=X, verify=False, **options)
    return [str(getattr(node.target, "__name__", node.target)) for node in graph_module.graph.nodes][1:-1]


def test_a_leaf_is_one_call_and_another_module_its_parts():
    assert operations_of(Outer()) == ["part.0", "part.1"]
    assert operations_of(Outer(), leaf_modules=["part"]) == ["part"]


def put_weight(model, x):
    model.part[0].weight = nn.Parameter(x.new_ones(3, 3) * x.mean())


def put_attribute(model, x):
    model.part[0].scale = x.mean()


def put_buffer(model, x):
    model.part[0].register_buffer("scale", x.mean())


@pytest.mark.parametrize("put", [put_weight, put_attribute, put_buffer])
def test_a_leaf_of_torch_with_computed_state_becomes_its_operations(put):
    assert "part.0" not in operations_of(Outer(put))
    assert "part.1" in operations_of(Outer(put))


@pytest.mark.parametrize(
    ("put", "name"), [(put_weight, "0.weight"), (put_attribute, "0.scale"), (put_buffer, "0.scale")]
)
def test_a_leaf_of_the_user_with_computed_state_is_refused(put, name):
    with pytest.raises(TraceError, match=f"cannot record the leaf 'part' as one call: its attribute '{name}' holds"):
        operations_of(Outer(put), leaf_modules=["part"])


class Own(nn.Linear):
    pass


def test_a_leaf_without_parts_that_has_computed_state_is_refused_by_its_own_name():
    model = Outer(put_weight)
    model.part[0] = Own(3, 3)

    with pytest.raises(TraceError, match=r"cannot record the leaf 'part\.0' as one call: its attribute 'weight' holds"):
        operations_of(model, leaf_modules=["part.0"])


@pytest.mark.parametrize("register", ["register_full_backward_hook", "register_full_backward_pre_hook"])
def test_backward_hooks_of_a_module_that_is_no_leaf_are_refused(register):
    model = Outer()
    getattr(model.part, register)(lambda module, *gradients: None)

    with pytest.raises(TraceError, match=r"the module 'part' \(Sequential\) has one"):
        operations_of(model)
    assert operations_of(model, leaf_modules=["part"]) == ["part"]


def test_backward_hooks_of_an_opened_leaf_are_refused():
    model = Outer(put_weight)
    model.part[0].register_full_backward_hook(lambda module, inputs, outputs: None)

    with pytest.raises(TraceError, match=r"the module 'part\.0' \(Linear\) has one"):
        operations_of(model)


def test_backward_hooks_of_the_root_are_refused():
    model = Outer()
    model.register_full_backward_hook(lambda module, inputs, outputs: None)

    with pytest.raises(TraceError, match=r"the module '' \(Outer\) has one"):
        operations_of(model)


def test_backward_hooks_of_all_modules_are_refused():
    handle = of_all_modules.register_module_full_backward_hook(lambda module, inputs, outputs: None)
    try:
        with pytest.raises(TraceError, match="cannot trace through backward hooks: each module has one"):
            operations_of(Outer())
    finally:
        handle.remove()


@pytest.mark.parametrize("register", ["register_forward_hook", "register_forward_pre_hook"])
def test_forward_hooks_are_known_of_a_module_and_its_parts(register):
    model = Outer()
    assert not has_forward_hooks(model)
    assert not has_forward_hooks(model.part[1])

    getattr(model.part[1], register)(lambda *call: None)

    assert has_forward_hooks(model)
    assert has_forward_hooks(model.part[1])
    assert not has_forward_hooks(model.part[0])


@pytest.mark.parametrize("register", ["register_module_forward_hook", "register_module_forward_pre_hook"])
def test_forward_hooks_of_all_modules_are_hooks_of_each(register):
    handle = getattr(of_all_modules, register)(lambda *call: None)
    try:
        assert has_forward_hooks(nn.ReLU())
    finally:
        handle.remove()


HOOKS = {
    "before": lambda model: model.register_forward_pre_hook(lambda module, args: (args[0] + 1,)),
    "after": lambda model: model.register_forward_hook(lambda module, args, output: output * 2),
}


@pytest.mark.parametrize("add_hook", HOOKS.values(), ids=HOOKS)
@pytest.mark.parametrize("has_own_forward", [True, False])
def test_hooks_of_the_root_are_traced_and_its_forward_is_left(add_hook, has_own_forward):
    model = Outer()
    if has_own_forward:
        model.forward = lambda x: x.relu()
    before = dict(vars(model))
    add_hook(model)

    graph_module = fxcore.symbolic_trace(model, example_inputs=X)

    assert torch.equal(graph_module(X), model(X))
    assert vars(model).get("forward") is before.get("forward")


def computes_and_returns_nothing(module, args, output):
    args[0].add(1)


@pytest.mark.parametrize(
    "hook",
    [
        lambda module, args, output: output * 2,
        lambda module, args, output: output,
        computes_and_returns_nothing,
    ],
)
def test_a_hook_of_all_modules_that_computes_is_refused_and_kept(hook):
    handle = of_all_modules.register_module_forward_hook(hook)
    try:
        with pytest.raises(TraceError, match="cannot trace with a hook of all modules that computes"):
            operations_of(Outer())
        assert list(of_all_modules._global_forward_hooks.values()) == [hook]
    finally:
        handle.remove()


def test_a_hook_of_all_modules_that_only_looks_sees_each_call():
    seen = []
    handle = of_all_modules.register_module_forward_pre_hook(lambda module, args: seen.append(type(module)))
    try:
        assert operations_of(Outer()) == ["part.0", "part.1"]
    finally:
        handle.remove()
