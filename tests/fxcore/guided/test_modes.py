"""Questions about modes become guards, unless the traced code switches the mode."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import fxcore
from fxcore.errors import GuardError

X = torch.rand(3, 4)


def guards_of(graph_module):
    return [str(guard) for guard in graph_module.graph.guards]


def test_grad_mode_is_a_guard():
    graph_module = fxcore.symbolic_trace(lambda x: x * 2 if torch.is_grad_enabled() else x, example_inputs=(X,))

    assert guards_of(graph_module) == ["is_grad_enabled()"]
    assert not graph_module.graph.guards[0].is_assumed
    graph_module.check_guards(X)
    with torch.no_grad(), pytest.raises(GuardError, match=r"is_grad_enabled\(\)"):
        graph_module.check_guards(X)


class Checkpointed(nn.Module):
    by_class = False

    def __init__(self, checkpoints):
        super().__init__()
        self.checkpoints = checkpoints

    def forward(self, x):
        if torch.is_grad_enabled() and self.checkpoints:
            return x * 2
        if self.training and self.by_class:
            x = x + 1
        return x


def test_a_redundant_condition_is_no_guard():
    assert guards_of(fxcore.symbolic_trace(Checkpointed(False), example_inputs=(X,))) == []
    for needed in (True, 0):  # a trace does not ask a number for its truth
        assert guards_of(fxcore.symbolic_trace(Checkpointed(needed), example_inputs=(X,))) == ["is_grad_enabled()"]


class CheckpointedWithout(Checkpointed):
    def forward(self, x):
        return x * 2 if torch.is_grad_enabled() or self.checkpoints else x


class CheckpointedOtherwise(Checkpointed):
    def forward(self, x):
        return x * 2 if torch.is_grad_enabled() and not self.checkpoints else x


@pytest.mark.parametrize(
    ("model", "is_enabled", "guards"),
    [
        (CheckpointedWithout(True), False, []),
        (CheckpointedWithout(False), False, ["not is_grad_enabled()"]),
        (CheckpointedWithout(True), True, ["is_grad_enabled()"]),
        (CheckpointedOtherwise(True), True, []),
        (CheckpointedOtherwise(False), True, ["is_grad_enabled()"]),
    ],
)
def test_a_condition_is_redundant_where_the_next_one_decides_alone(model, is_enabled, guards):
    with torch.set_grad_enabled(is_enabled):
        assert guards_of(fxcore.symbolic_trace(model, example_inputs=(X,))) == guards


def test_a_question_that_leaves_another_condition_unread_is_a_guard():
    with torch.no_grad():
        graph_module = fxcore.symbolic_trace(Checkpointed(False).eval(), example_inputs=(X,))
    assert set(guards_of(graph_module)) == {"not is_grad_enabled()", "not self.training"}


def test_the_deciding_condition_may_not_change():
    model = Checkpointed(False)
    graph_module = fxcore.symbolic_trace(model, example_inputs=(X,))
    model.checkpoints = True

    with pytest.raises(GuardError, match="checkpoints"):
        graph_module(X)


def test_inference_mode_is_a_guard():
    graph_module = fxcore.symbolic_trace(
        lambda x: x if torch.is_inference_mode_enabled() else x * 2, example_inputs=(X,)
    )

    assert guards_of(graph_module) == ["not is_inference_mode_enabled()"]
    with torch.inference_mode(), pytest.raises(GuardError):
        graph_module.check_guards(X)


def test_autocast_is_a_guard_with_its_device_and_dtype():
    def cast(x):
        if torch.is_autocast_enabled("cpu"):
            return x.to(torch.get_autocast_dtype("cpu"))
        return x * 2

    outside = fxcore.symbolic_trace(cast, example_inputs=(X,))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = fxcore.symbolic_trace(cast, example_inputs=(X,))

    assert guards_of(outside) == ["not is_autocast_enabled('cpu')"]
    assert guards_of(inside) == ["is_autocast_enabled('cpu')", "get_autocast_dtype('cpu') == torch.bfloat16"]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside.check_guards(X)
        with pytest.raises(GuardError):
            outside.check_guards(X)
    with pytest.raises(GuardError):
        inside.check_guards(X)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.enable_grad, torch.inference_mode])
def test_a_mode_that_the_traced_code_switches_is_no_guard(mode):
    def switched(x):
        with mode():
            x = x * 2 if torch.is_grad_enabled() else x * torch.is_inference_mode_enabled()
        return x + 1 if torch.is_grad_enabled() else x  # behind the block it is the mode of the call

    assert guards_of(fxcore.symbolic_trace(switched, example_inputs=(X,))) == ["is_grad_enabled()"]


def test_questions_of_torch_itself_are_no_guards():
    def repeated(x):
        return checkpoint(torch.sin, x, use_reentrant=False)  # asks for autocast and more

    assert guards_of(fxcore.symbolic_trace(repeated, example_inputs=(X,))) == []


def test_a_dtype_that_is_asked_for_under_autocast_is_checked_under_autocast():
    def product(x, y):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            z = x @ y
            return z * 2 if z.dtype == torch.bfloat16 else z

    graph_module = fxcore.symbolic_trace(product, example_inputs=(X, X.t()))

    assert guards_of(graph_module) == ["matmul(...).dtype == torch.bfloat16"]
    graph_module.check_guards(X, X.t())
    assert not torch.is_autocast_enabled("cpu")


class Dropped(nn.Module):
    def forward(self, x):
        return F.dropout(x, 0.5, self.training)


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Dropped(), Dropped()
        self.layer = nn.Dropout(0.5)  # a leaf asks when it runs

    def forward(self, x):
        return self.layer(self.second(self.first(x)))


def test_a_module_s_training_is_a_guard():
    graph_module = fxcore.symbolic_trace(Dropped().eval(), example_inputs=(X,))

    assert guards_of(graph_module) == ["not self.training"]
    assert not graph_module.graph.guards[0].is_assumed
    graph_module.check_guards(X)
    with pytest.raises(GuardError, match=r"not self\.training: it is False"):
        graph_module.train().check_guards(X)
    assert guards_of(fxcore.symbolic_trace(Dropped().train(), example_inputs=(X,))) == ["self.training"]


def test_the_mode_of_a_module_that_forward_makes_is_no_guard():
    assert guards_of(fxcore.symbolic_trace(lambda x: x * nn.Dropout(0.5).training, example_inputs=(X,))) == []


def test_the_modes_of_several_modules_are_one_guard():
    graph_module = fxcore.symbolic_trace(Outer().eval(), example_inputs=(X,))

    assert guards_of(graph_module) == ["not any([self.first.training, self.second.training])"]
    graph_module.check_guards(X)
    graph_module.second.train()
    with pytest.raises(GuardError):
        graph_module.check_guards(X)


def test_modules_in_two_modes_have_two_guards():
    model = Outer().train()
    model.first.eval()

    graph_module = fxcore.symbolic_trace(model, example_inputs=(X,))

    assert guards_of(graph_module) == ["self.second.training", "not self.first.training"]
    graph_module.check_guards(X)


def test_training_is_a_plain_attribute_again_after_the_trace():
    fxcore.symbolic_trace(Dropped().eval(), example_inputs=(X,))

    assert "training" not in vars(nn.Module)


def test_a_model_without_the_question_runs_in_both_modes():
    graph_module = fxcore.symbolic_trace(nn.Sequential(nn.Dropout(0.5)), example_inputs=(X,))

    graph_module.train().check_guards(X)
    graph_module.eval().check_guards(X)


class Stopped(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        with torch.no_grad():
            scale = self.layer(x).abs().max()
        return self.layer(x) / scale


def test_the_mode_of_the_run_holds_behind_a_block_without_gradients():
    graph_module = fxcore.symbolic_trace(Stopped(), example_inputs=(X,))

    with torch.no_grad():
        assert not graph_module(X).requires_grad
        assert not torch.is_grad_enabled()
    assert graph_module(X).requires_grad


def test_a_block_with_gradients_has_them_in_a_run_without():
    @torch.enable_grad()
    def derived(x):
        x = x.detach().requires_grad_()
        return torch.autograd.grad((x**3).sum(), x)[0]

    graph_module = fxcore.symbolic_trace(derived, example_inputs=(X,))

    with torch.no_grad():
        torch.testing.assert_close(graph_module(X), 3 * X**2)
        assert not torch.is_grad_enabled()


def test_nested_blocks_restore_each_mode():
    def nested(x):
        with torch.no_grad():
            y = x * 2
            with torch.enable_grad():
                z = x * 3
            w = x * 4
        return x * 5, w, y, z

    x = X.clone().requires_grad_()
    graph_module = fxcore.symbolic_trace(nested, example_inputs=(x,))

    assert [each.requires_grad for each in graph_module(x)] == [True, False, False, True]
    with torch.no_grad():
        assert [each.requires_grad for each in graph_module(x)] == [False, False, False, True]


def test_a_block_without_autocast_refuses_a_run_under_autocast():
    def precise(x):
        with torch.autocast("cpu", enabled=False):
            return x @ x.t()

    graph_module = fxcore.symbolic_trace(precise, example_inputs=(X,))

    assert guards_of(graph_module) == ["not is_autocast_enabled('cpu')"]
    with torch.autocast("cpu", dtype=torch.bfloat16), pytest.raises(GuardError):
        graph_module(X)


def test_gradients_stop_too_where_the_example_needs_none():
    def stopped(x):
        with torch.no_grad():
            y = x * 2
        return y + x

    graph_module = fxcore.symbolic_trace(stopped, example_inputs=(X,))

    x = X.clone().requires_grad_()
    graph_module(x).sum().backward()
    assert torch.equal(x.grad, torch.ones_like(X))


@pytest.mark.parametrize(
    "make", [lambda: torch.tensor([0.5]), lambda: torch.zeros(3).exp(), lambda: torch.tensor([1]) / 2]
)
def test_a_constant_of_the_default_dtype_is_refused_under_another(make):
    graph_module = fxcore.symbolic_trace(lambda x: x + make(), example_inputs=(torch.ones(3),))

    assert guards_of(graph_module) == ["get_default_dtype() == torch.float32"]
    torch.set_default_dtype(torch.float64)
    try:
        assert graph_module.supports(torch.ones(3)) is False
    finally:
        torch.set_default_dtype(torch.float32)


def test_constants_with_a_given_dtype_and_calls_of_each_run_ask_for_no_default_dtype():
    def added(x):
        given = torch.tensor([0.5], dtype=torch.float32) + torch.as_tensor([1], dtype=torch.float64)
        return x + given + torch.arange(3) + torch.zeros(x.shape[0])

    assert guards_of(fxcore.symbolic_trace(added, example_inputs=(torch.ones(3),))) == []


def test_a_flag_of_matrix_products_is_a_guard():
    flags = torch.backends.cuda.matmul
    graph_module = fxcore.symbolic_trace(lambda x: x if flags.allow_tf32 else x + 1, example_inputs=(X,))
    before = flags.allow_tf32

    graph_module.check_guards(X)
    try:
        flags.allow_tf32 = not before
        with pytest.raises(GuardError, match=r"torch\.backends\.cuda\.matmul\.allow_tf32"):
            graph_module.check_guards(X)
    finally:
        flags.allow_tf32 = before


class AsksScripted(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = torch.jit.script(nn.Dropout(0.5))

    def forward(self, x):
        return self.drop(x) + 1 if self.drop.training else x


def test_the_mode_of_a_scripted_module_is_a_guard():
    graph_module = fxcore.symbolic_trace(AsksScripted().eval(), example_inputs=X)

    assert guards_of(graph_module) == ["not self.drop.training"]
    assert torch.equal(graph_module(X), X)
    with pytest.raises(GuardError, match=r"not self\.drop\.training"):
        graph_module.train()(X)


def test_a_module_without_a_mode_has_none_while_a_trace_runs():
    modeless = nn.Identity()
    del modeless.training

    graph_module = fxcore.symbolic_trace(lambda x: x * hasattr(modeless, "training"), example_inputs=X)

    assert not graph_module(X).any()


def test_a_block_in_inference_mode_stops_gradients_in_the_graph():
    class Frozen(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.head = nn.Linear(3, 3), nn.Linear(3, 3)

        def forward(self, x):
            with torch.inference_mode():
                y = self.layer(x)
            return y.clone(), self.head(x)

    model = Frozen()
    x = torch.rand(2, 3, requires_grad=True)

    graph_module = fxcore.symbolic_trace(model, example_inputs=torch.rand(2, 3))

    for expected, obtained in zip(model(x), graph_module(x), strict=True):
        assert obtained.requires_grad == expected.requires_grad
        assert torch.equal(obtained, expected)
    assert torch.is_grad_enabled()


def beside_whole_numbers(x, index):
    y = x * 2
    with torch.no_grad():
        index = index + 1
    return y * index


def of_an_input(x, index):
    y = x * 2
    with torch.no_grad():
        z = x + index
    return y * z


def in_two_blocks(x, index):
    with torch.no_grad(), torch.no_grad():
        y = x + index
    return y * x


def comparison_in_two_modes(x, index):
    with torch.no_grad():
        with torch.enable_grad():
            mask = x > index
        y = x * 2
    return y * mask


def comparison_with_gradients(x, index):
    with torch.enable_grad():
        mask = x > index
    return x * mask


def sizes_without_autocast(x, index):
    with torch.autocast("cpu", enabled=False):
        rows = x.shape[0] + 1
    return x * rows + index


def sum_without_autocast(x, index):
    with torch.autocast("cpu", enabled=False):
        y = x + index
    return x * y


_BLOCK = "is_grad_enabled _set_grad_enabled {} _set_grad_enabled_1"


@pytest.mark.parametrize("needs_grad", [False, True])
@pytest.mark.parametrize(
    ("function", "nodes", "guards"),
    [
        (beside_whole_numbers, "mul add mul_1", []),
        (of_an_input, f"mul {_BLOCK.format('add')} mul_1", []),
        (in_two_blocks, f"{_BLOCK.format('add')} mul", []),
        (comparison_in_two_modes, f"{_BLOCK.format('gt mul')} mul_1", []),
        (comparison_with_gradients, "gt mul", []),
        (sizes_without_autocast, "getattr_1 getitem add mul add_1", []),
        (sum_without_autocast, "add mul", ["not is_autocast_enabled('cpu')"]),
    ],
)
def test_a_block_is_in_the_graph_if_its_mode_changes_what_the_block_computes(function, nodes, guards, needs_grad):
    example = torch.rand(3, 4, requires_grad=needs_grad), torch.arange(4)

    graph_module = fxcore.symbolic_trace(function, example_inputs=example)

    assert " ".join(node.name for node in graph_module.graph.nodes) == f"x index {nodes} output"
    assert guards_of(graph_module) == guards
    assert torch.equal(graph_module(*example), function(*example))


def test_a_call_that_sets_the_grad_mode_sets_it_in_each_run():
    def stopped(x):
        torch.set_grad_enabled(False)
        y = x * 2
        torch.set_grad_enabled(True)
        return y, x * 3

    x = torch.rand(3, requires_grad=True)

    graph_module = fxcore.symbolic_trace(stopped, example_inputs=torch.rand(3))

    assert [each.requires_grad for each in graph_module(x)] == [each.requires_grad for each in stopped(x)]
    assert torch.is_grad_enabled()


def test_a_graph_that_sets_the_grad_mode_does_so_when_it_is_traced_again():
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    graph.call_function(torch._C._set_grad_enabled, (False,))
    doubled = graph.call_function(torch.mul, (x, 2))
    graph.call_function(torch._C._set_grad_enabled, (True,))
    graph.output((doubled, graph.call_function(torch.mul, (x, 3))))
    original = torch.fx.GraphModule(torch.nn.Module(), graph)

    graph_module = fxcore.symbolic_trace(original, example_inputs=torch.rand(3))

    x = torch.rand(3, requires_grad=True)
    assert [each.requires_grad for each in graph_module(x)] == [each.requires_grad for each in original(x)]


def test_a_grad_mode_that_a_size_decides_is_a_guard():
    def trained(x):
        with torch.set_grad_enabled(x.shape[0] > 1):
            return x * 2

    x = torch.rand(3, requires_grad=True)

    graph_module = fxcore.symbolic_trace(trained, example_inputs=x)

    assert graph_module(x).requires_grad
    assert guards_of(graph_module) == ["x.shape[0] > 1"]
    with pytest.raises(GuardError, match=r"x\.shape\[0\] > 1"):
        graph_module(x[:1])


def test_a_block_with_gradients_has_them_in_a_run_without_where_the_example_needs_none():
    def kept(x):
        with torch.enable_grad():
            return x * 2

    graph_module = fxcore.symbolic_trace(kept, example_inputs=torch.rand(3))

    with torch.no_grad():
        assert graph_module(torch.rand(3, requires_grad=True)).requires_grad
