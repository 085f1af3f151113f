from __future__ import annotations

import threading

import pytest
import torch
from torch import nn

import fxcore
from fxcore import active_trace


class Waiting(nn.Module):
    """Lets another thread work in the middle of its forward."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.scale = nn.Parameter(torch.ones(2))
        self.reached, self.go_on = threading.Event(), threading.Event()

    def forward(self, x):
        y = self.linear(x)
        self.reached.set()
        assert self.go_on.wait(10)
        return y * self.scale


def in_thread(function):
    outcome = []

    def run():
        try:
            outcome.append(function())
        except Exception as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, outcome


def test_a_module_that_runs_in_another_thread_is_not_traced():
    tracing, other = Waiting(), nn.Sequential(nn.Linear(2, 2))
    expected = other(torch.ones(2))
    thread, outcome = in_thread(lambda: fxcore.symbolic_trace(tracing))
    assert tracing.reached.wait(10)

    meanwhile = other(torch.ones(2))
    weight = other[0].weight
    tracing.go_on.set()
    thread.join()

    assert torch.equal(meanwhile, expected)
    assert isinstance(weight, nn.Parameter)
    assert [node.name for node in outcome[0].graph.nodes] == ["x", "linear", "scale", "mul", "output"]


def test_a_compiled_module_runs_in_another_thread_while_one_is_traced():
    tracing, compiled = Waiting(), torch.compile(nn.Linear(2, 2), backend="eager")
    expected = compiled(torch.ones(2))
    thread, _ = in_thread(lambda: fxcore.symbolic_trace(tracing))
    assert tracing.reached.wait(10)

    meanwhile = compiled(torch.ones(2))
    tracing.go_on.set()
    thread.join()

    assert torch.equal(meanwhile, expected)


def test_two_traces_in_two_threads_are_right_and_leave_nothing_behind():
    call, getattr_ = nn.Module.__call__, nn.Module.__getattr__
    first, second = Waiting(), Waiting()
    started = [in_thread(lambda model=model: str(fxcore.symbolic_trace(model).graph)) for model in (first, second)]
    assert first.reached.wait(10)
    assert second.reached.wait(10)

    first.go_on.set()
    started[0][0].join()
    second.go_on.set()
    started[1][0].join()

    assert started[0][1] == started[1][1]
    assert "%scale" in started[0][1][0]
    assert (nn.Module.__call__, nn.Module.__getattr__) == (call, getattr_)


def test_a_failed_trace_leaves_nothing_behind():
    call, getattr_ = nn.Module.__call__, nn.Module.__getattr__

    class Broken(nn.Module):
        def forward(self, x):
            raise KeyError("broken")

    with pytest.raises(KeyError):
        fxcore.symbolic_trace(Broken())

    assert (nn.Module.__call__, nn.Module.__getattr__) == (call, getattr_)
    assert active_trace.current() is None


def test_a_trace_inside_a_trace_is_its_own():
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(2, 2)

        def forward(self, x):
            inner = fxcore.symbolic_trace(nn.Sequential(self.linear))
            return self.linear(x) + len(inner.graph.nodes)

    traced = fxcore.symbolic_trace(Outer())

    assert [str(node) for node in traced.graph.nodes] == ["x", "linear", "add", "output"]
    assert traced.graph.find_nodes(op="output")[0].args[0].args[1] == 3
