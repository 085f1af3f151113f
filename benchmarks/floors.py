"""What no symbolic tracer in Python can do without."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import fxcore
from benchmarks.subjects import model
from benchmarks.task import Task


class _Slotted:
    """As much of a node as there must be: something with room for attributes and three dicts."""

    __slots__ = ("__dict__", "__weakref__", "first", "second", "third")

    def __init__(self) -> None:
        self.first: dict[Any, Any] = {}
        self.second: dict[Any, Any] = {}
        self.third: dict[Any, Any] = {}


class _Dispatched:
    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return None


class _ReturnsItsInput(nn.Module):
    def forward(self, x: Any) -> Any:
        return x


def trace_floor(name: str) -> Task:
    """Dispatch each operator of a model, call each module, make each node: nothing else."""
    graph = fxcore.symbolic_trace(model(name)).graph
    calls = [node.op for node in graph.nodes]
    operators = sum(op in ("call_function", "call_method") for op in calls)
    modules = calls.count("call_module")
    value, module = _Dispatched(), _ReturnsItsInput()

    def run(_: Any) -> None:
        for _call in range(operators):
            torch.relu(value)  # type: ignore[arg-type]  # dispatched before anybody looks
        for _call in range(modules):
            module(value)
        for _node in calls:
            _Slotted()

    return Task(run)


def compile_floor(name: str) -> Task:
    """Compile the source of a model's forward."""
    source = fxcore.symbolic_trace(model(name)).code
    return Task(lambda _: compile(source, "<floor>", "exec"))
