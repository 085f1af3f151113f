"""Scenarios of `replace_pattern`."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import nn

from benchmarks.library import Library
from benchmarks.operations import Operation
from benchmarks.task import Task


def _pattern(x: Any) -> Any:
    return torch.relu(x + 1)


def _replacement(x: Any) -> Any:
    return torch.sigmoid(x)


def _absent(x: Any) -> Any:
    return torch.tanh(x + 1)


def _rare(x: Any) -> Any:
    return torch.relu(torch.tanh(x) + 1)


def _two_outputs(x: Any) -> Any:
    shared = x + 1
    return torch.relu(shared), torch.tanh(shared)


def _two_replaced(x: Any) -> Any:
    return torch.sigmoid(x), torch.cos(x)


def chain(library: Library, length: int, *, rare_every: int | None = None) -> Any:
    """Return a graph module that adds and activates in turns, now and then with a tanh before."""
    graph = library.fx.Graph()
    value = graph.placeholder("x")
    for index in range(length // 2):
        if rare_every is not None and index % rare_every == 0:
            value = graph.call_function(torch.tanh, (value,))
        value = graph.call_function(torch.relu, (graph.call_function(operator.add, (value, 1)),))
    graph.output(value)
    return library.fx.GraphModule(nn.Module(), graph)


def forks(library: Library, length: int) -> Any:
    """Return a graph module of blocks with two results each."""
    graph = library.fx.Graph()
    value = graph.placeholder("x")
    for _ in range(length // 4):
        shared = graph.call_function(operator.add, (value, 1))
        one, other = graph.call_function(torch.relu, (shared,)), graph.call_function(torch.tanh, (shared,))
        value = graph.call_function(operator.mul, (one, other))
    graph.output(value)
    return library.fx.GraphModule(nn.Module(), graph)


def half_match(library: Library, length: int) -> Task:
    """Replace n/2 matches."""
    return _rewriting(library, _pattern, _replacement, lambda: chain(library, length))


def two_outputs(library: Library, length: int) -> Task:
    """Replace matches of a pattern with two outputs."""
    return _rewriting(library, _two_outputs, _two_replaced, lambda: forks(library, length))


def _rewriting(library: Library, pattern: Any, replacement: Any, prepare: Any) -> Task:
    replace = library.subgraph_rewriter.replace_pattern
    return Task(lambda module: replace(module, pattern, replacement), prepare)


def scenarios(length: int, target: float) -> list[Operation]:
    """Return the scenarios on graphs of `length` nodes."""
    rare = length // 20

    def few(library: Library) -> Task:
        return _rewriting(library, _rare, _replacement, lambda: chain(library, length, rare_every=rare))

    def none(library: Library) -> Task:
        return _rewriting(library, _absent, _replacement, lambda: chain(library, length))

    name = f"replace_pattern, {length:,} nodes"
    return [
        Operation(f"{name}, n/2 match", target, lambda library: half_match(library, length), length),
        Operation(f"{name}, 10 match", target, few, length),
        Operation(f"{name}, none matches", target, none, length),
        Operation(f"{name}, two outputs", 80, lambda library: two_outputs(library, min(length, 2_000)), length),
    ]
