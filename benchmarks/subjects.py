"""The models and graphs that benchmarks run on."""

from __future__ import annotations

import functools
import operator
from typing import Any

import torch
from torch import nn

from benchmarks.library import Library
from fixtures.catalog import CATALOG

# As in the measurements that set the targets; ratios of the six are summed up by their median.
MODELS = ("resnet50", "densenet121", "mobilenetv2", "efficientnet_b0", "gpt_like", "vit_like")
CHAINS = (100, 1_000, 10_000)

_A_TENSOR = torch.zeros(2, 3)


class Chain(nn.Module):
    """Adds and activates in turns, as often as asked."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.length = length

    # No annotations: here they are text, and torch.fx cannot pickle a graph with one.
    def forward(self, x):  # type: ignore[no-untyped-def]
        for _ in range(self.length // 2):
            x = torch.relu(x + 1)
        return x


class Identity(nn.Module):
    """Returns what it gets: what is left is the fixed cost of a trace."""

    def forward(self, x: Any) -> Any:
        return x


@functools.lru_cache(maxsize=1)
def model(name: str) -> nn.Module:
    """Build a model by the name it has in tables: `resnet50`, `chain 1000`."""
    kind, _, length = name.partition(" ")
    return Chain(int(length)) if kind == "chain" else CATALOG[name].build().eval()


def inputs_of(name: str) -> tuple[Any, ...]:
    """Return example inputs, as small as they get: what the kernels cost is the same on both sides."""
    return (torch.zeros(1),) if name.startswith("chain") else CATALOG[name].example_inputs()


def work_free(*args: Any, **kwargs: Any) -> Any:
    """Stand for any operator; what is left of running a graph is the cost of running graphs."""
    return _A_TENSOR


def hollow(library: Library, graph: Any) -> Any:
    """Return a graph module wired like `graph` in which no operator does any work."""
    copied = library.fx.Graph()
    copies: dict[Any, Any] = {}
    for node in graph.nodes:
        if node.op == "placeholder":
            copies[node] = copied.placeholder(node.name)
        elif node.op == "output":
            copied.output(library.fx.node.map_arg(node.args[0], copies.__getitem__))
        else:
            args, kwargs = library.fx.node.map_arg((node.args, dict(node.kwargs)), copies.__getitem__)
            copies[node] = copied.call_function(work_free, args, dict(kwargs))
    return library.fx.GraphModule(nn.Module(), copied)


def chain_graph(library: Library, length: int) -> Any:
    """Return a graph of `length` nodes without tracing: input, additions of two earlier values, output."""
    graph = library.fx.Graph()
    previous = value = graph.placeholder("x")
    for _ in range(length - 2):
        previous, value = value, graph.call_function(operator.add, (value, previous))
    graph.output(value)
    return graph
