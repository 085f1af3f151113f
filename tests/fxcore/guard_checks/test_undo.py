"""A refused call leaves model, inputs, generators and modes as they were, and calls that write nothing keep nothing."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import fxcore
from fxcore.errors import GuardError
from fxcore.guard_checks.plan import Plan
from fxcore.guard_checks.undo import WrittenState, _may_change_itself, state_written_by
from fxcore.state.snapshot import Snapshot


class AsksLast(nn.Module):
    """Asks for the size of the result of a part, which may write before."""

    def __init__(self, part):
        super().__init__()
        self.part = part

    def forward(self, x):
        hidden = self.part(x)
        return hidden + 1 if hidden.shape[0] % 2 == 0 else hidden


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        self.seen.add_(1)
        return x * self.seen


class WritesInput(nn.Module):
    def forward(self, x):
        return x.mul_(2).relu()


class Draws(nn.Module):
    def forward(self, x):
        return x * torch.rand(4)


class WithoutGradient(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        with torch.no_grad():
            hidden = self.linear(x)
            return hidden * 2 if hidden.shape[0] > 1 else hidden


class InHalf(nn.Module):
    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            hidden = x @ x.T
            return hidden * 2 if hidden.shape[0] % 2 == 0 else hidden


def regions_of_autocast():
    """Return the number of regions of autocast that are open in this thread."""
    torch.autocast_increment_nesting()
    return torch.autocast_decrement_nesting()


PARTS = {
    "batch norm": lambda: nn.BatchNorm1d(4),
    "dropout": lambda: nn.Dropout(0.5),
    "buffer": Counter,
    "input": WritesInput,
    "random": Draws,
    "grad mode": WithoutGradient,
    "autocast": InHalf,
}


@pytest.mark.parametrize("run", [lambda gm: gm, lambda gm: fxcore.Interpreter(gm).run], ids=["call", "interpreter"])
@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_a_refused_call_changes_nothing(part, run):
    graph_module = fxcore.symbolic_trace(AsksLast(part()), example_inputs=torch.rand(2, 4))
    x = torch.rand(3, 4)
    before = Snapshot(graph_module)
    inputs, globals_ = Snapshot.of_values([("x", x)]), Snapshot.of_globals()
    modes = torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")

    with pytest.raises(GuardError):
        run(graph_module)(x)

    assert [*before.changes(), *inputs.changes(), *globals_.changes()] == []
    assert modes == (torch.is_grad_enabled(), torch.is_autocast_enabled("cpu"))
    assert regions_of_autocast() == 0
    assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is torch.float32


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_a_call_that_holds_writes_as_the_model_does(part):
    model = AsksLast(part())
    graph_module = fxcore.symbolic_trace(copy.deepcopy(model), example_inputs=torch.rand(2, 4))
    x = torch.rand(4, 4)
    other = x.clone()

    torch.manual_seed(0)
    expected = model(x)
    torch.manual_seed(0)
    obtained = graph_module(other)

    assert torch.equal(expected, obtained)
    assert torch.equal(x, other)
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in graph_module.state_dict().items())


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_check_guards_changes_nothing(part):
    graph_module = fxcore.symbolic_trace(AsksLast(part()), example_inputs=torch.rand(2, 4))
    x = torch.rand(4, 4)
    before, inputs, globals_ = Snapshot(graph_module), Snapshot.of_values([("x", x)]), Snapshot.of_globals()

    graph_module.check_guards(x)

    assert [*before.changes(), *inputs.changes(), *globals_.changes()] == []
    assert not torch.is_autocast_enabled("cpu")
    assert regions_of_autocast() == 0


def written_by(model):
    graph_module = fxcore.symbolic_trace(model, example_inputs=torch.rand(2, 4))
    plan = Plan(graph_module.graph, graph_module.graph.guards, graph_module)
    return graph_module, state_written_by(plan, graph_module)


def test_a_graph_without_writes_before_a_check_keeps_nothing():
    _, written = written_by(AsksLast(nn.Linear(4, 4)))

    assert written == WrittenState()


def test_a_layer_is_kept_in_training_alone():
    graph_module, written = written_by(AsksLast(nn.BatchNorm1d(4)))

    assert written.modules == ("part",)
    assert written.keep(graph_module, (torch.rand(2, 4),)) is not None
    assert written.keep(graph_module.eval(), (torch.rand(2, 4),)) is None


@pytest.mark.parametrize("part", ["batch norm", "buffer", "input", "grad mode"])
def test_a_compiled_graph_that_writes_is_whole(part):
    graph_module = fxcore.symbolic_trace(AsksLast(PARTS[part]()), example_inputs=torch.rand(2, 4))
    expected = copy.deepcopy(graph_module)(torch.ones(4, 4))
    torch._dynamo.reset()

    obtained = torch.compile(graph_module, backend="eager", fullgraph=True)(torch.ones(4, 4))

    assert torch.allclose(obtained, expected)


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_a_graph_that_is_traced_again_asks_what_the_graph_asked(part):
    graph_module = fxcore.symbolic_trace(AsksLast(part()), example_inputs=torch.rand(2, 4))
    x = torch.rand(4, 4)
    before, globals_ = Snapshot(graph_module), Snapshot.of_globals()

    again = fxcore.symbolic_trace(graph_module, example_inputs=x)

    assert [*before.changes(), *globals_.changes()] == []
    # The code of a graph asks for the mode that it restores behind a block.
    asked = {str(guard) for guard in again.graph.guards} - {"is_grad_enabled()"}
    assert asked == {str(guard) for guard in graph_module.graph.guards}
    with pytest.raises(GuardError):
        again(torch.rand(3, 4))


def test_a_refused_call_gives_back_the_random_numbers_of_its_conditions():
    graph_module = fxcore.symbolic_trace(
        lambda x: x + 1 if fxcore.assume(torch.rand(()) * x.sum() >= 0) else x, example_inputs=torch.ones(3)
    )
    before = torch.get_rng_state()

    with pytest.raises(GuardError):
        graph_module(-torch.ones(3))
    assert torch.equal(before, torch.get_rng_state())


def test_check_guards_leaves_the_region_of_autocast_that_it_enters():
    graph_module = fxcore.symbolic_trace(InHalf(), example_inputs=torch.rand(2, 4))

    graph_module.check_guards(torch.rand(4, 4))

    assert regions_of_autocast() == 0
    assert not torch.is_autocast_enabled("cpu")


@pytest.mark.parametrize(
    ("layer", "is_kept"),
    [
        (nn.ReLU(), False),
        (nn.Dropout(0.5), True),
        (nn.Dropout(0.0), False),
        (nn.BatchNorm1d(4), True),
        (nn.BatchNorm1d(4).eval(), True),  # the mode may change before the call
        (nn.BatchNorm1d(4, track_running_stats=False), False),
        (nn.Embedding(4, 2), False),
        (nn.Embedding(4, 2, max_norm=1.0), True),
        (nn.Sequential(nn.ReLU(), nn.Dropout(0.5)), True),
        (Counter(), True),
    ],
    ids=repr,
)
def test_a_layer_is_kept_if_a_call_may_change_it(layer, is_kept):
    assert _may_change_itself(layer) is is_kept
