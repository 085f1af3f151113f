from __future__ import annotations

import torch
from torch import nn

from fxcore import Tracer


def helper(x):
    return x * 2


class Inner(nn.Module):
    def forward(self, x):
        return helper(x) + 1


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def forward(self, x):
        return self.inner(torch.relu(x))


def traces(**settings):
    tracer = Tracer()
    tracer.record_stack_traces = True
    for name, value in settings.items():
        setattr(tracer, name, value)
    return {node.name: node.stack_trace for node in tracer.trace(Outer()).nodes}


def functions_in(trace):
    return [line.rpartition(" in ")[2] for line in trace.splitlines() if line.strip().startswith("File")]


def test_the_user_s_frames_from_forward_inwards_are_kept():
    stacks = traces()

    assert functions_in(stacks["mul"]) == ["forward", "forward", "helper"]
    assert functions_in(stacks["relu"]) == ["forward"]
    assert stacks["mul"].startswith(f'File "{__file__}", line ')
    assert stacks["mul"].endswith("return x * 2")


def test_inputs_and_outputs_have_none():
    stacks = traces()

    assert (stacks["x"], stacks["output"]) == (None, None)


def test_only_frames_of_forward_are_kept_if_asked_for():
    stacks = traces(_record_forward_stack_traces_only=True)

    assert functions_in(stacks["mul"]) == ["forward", "forward"]
