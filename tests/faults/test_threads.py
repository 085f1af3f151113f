"""Threads beside a trace: shown with torch.fx where that leaves the process whole, then right with fxcore."""

from __future__ import annotations

import threading

import pytest
import torch
import torch.fx
from torch import nn

import fxcore


class Pausing(nn.Module):
    """Waits in the middle of forward until it is told to go on."""

    def __init__(self):
        super().__init__()
        self.linear, self.last = nn.Linear(2, 2), nn.ReLU()
        self.reached, self.go_on = threading.Event(), threading.Event()

    def forward(self, x):
        y = self.linear(x)
        self.reached.set()
        assert self.go_on.wait(10)
        return self.last(y)


class PausedTrace:
    """A trace in another thread that has come half-way; leaving the block lets it finish."""

    def __init__(self, fx):
        self.model, self.traced = Pausing(), None
        self._thread = threading.Thread(target=lambda: setattr(self, "traced", fx.symbolic_trace(self.model)))

    def __enter__(self):
        self._thread.start()
        assert self.model.reached.wait(10)
        return self

    def __exit__(self, *error):
        self.model.go_on.set()
        self._thread.join()


def names(traced):
    return [node.name for node in traced.graph.nodes]


def test_a_module_that_runs_while_another_thread_traces():
    def run(fx):
        model = nn.Linear(2, 2)
        with PausedTrace(fx):
            return model(torch.ones(2))

    with pytest.raises(NameError, match="module is not installed as a submodule"):
        run(torch.fx)
    assert isinstance(run(fxcore), torch.Tensor)


def test_a_trace_goes_on_undisturbed_by_another_thread():
    other = nn.Sequential(nn.Linear(2, 2), nn.Tanh())

    with PausedTrace(fxcore) as paused:
        meanwhile = fxcore.symbolic_trace(other)
        assert isinstance(other(torch.ones(2)), torch.Tensor)

    assert names(meanwhile) == ["input_1", "_0", "_1", "output"]
    assert names(paused.traced) == ["x", "linear", "last", "output"]


def test_overlapping_traces_leave_modules_as_they_were():
    """Whichever trace ends last; torch.fx puts back what it found, which may be the other trace's."""
    call, attribute = nn.Module.__call__, nn.Module.__getattr__
    first, second = PausedTrace(fxcore), PausedTrace(fxcore)

    first.__enter__()
    with second:
        first.__exit__()

    assert nn.Module.__call__ is call
    assert nn.Module.__getattr__ is attribute
    assert names(first.traced) == names(second.traced) == ["x", "linear", "last", "output"]
