"""Scenarios in which torch.fx grows faster than linearly."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import nn

from benchmarks import growing_models as models
from benchmarks import rewriting
from benchmarks.library import Library
from benchmarks.operations import OPERATIONS
from benchmarks.phases import PHASES, Phase
from benchmarks.task import Task, seconds_of

_LONGEST = 0.5  # seconds; a scenario that takes longer is not made larger


@dataclass(frozen=True)
class Scenario:
    """Work that depends on a size, and the sizes to try."""

    name: str
    task: Callable[[Library, int], Task]
    sizes: Sequence[int]


@dataclass(frozen=True)
class Curve:
    """Measured sizes and seconds."""

    sizes: tuple[int, ...]
    seconds: tuple[float, ...]

    @property
    def exponent(self) -> float:
        """The slope of the curve, both axes logarithmic, by least squares over its upper half."""
        start = len(self.sizes) // 2 - 1 if len(self.sizes) > 3 else 0
        xs = [math.log(size) for size in self.sizes[start:]]
        ys = [math.log(seconds) for seconds in self.seconds[start:]]
        middle_x, middle_y = sum(xs) / len(xs), sum(ys) / len(ys)
        spread = sum((x - middle_x) ** 2 for x in xs)
        return sum((x - middle_x) * (y - middle_y) for x, y in zip(xs, ys, strict=True)) / spread if spread else 0.0


def curve_of(scenario: Scenario, library: Library) -> Curve:
    """Measure a scenario at growing sizes until it takes too long; the best of three runs each."""
    sizes, seconds = [], []
    for size in scenario.sizes:
        task = scenario.task(library, size)
        sizes.append(size)
        seconds.append(min(seconds_of(task, 1) for _ in range(3 if not seconds or seconds[-1] < 0.3 else 1)))
        if seconds[-1] > _LONGEST:
            break
    return Curve(tuple(sizes), tuple(seconds))


def _alternating(library: Library, size: int) -> Any:
    """Return a graph made by insertions between two nodes, after the lower and before the upper in turns."""
    graph = library.fx.Graph()
    middle = low = graph.placeholder("x")
    high = graph.placeholder("y")
    for index in range(size):
        if index % 2:
            with graph.inserting_before(high):
                high = graph.call_function(operator.neg, (middle,))
        else:
            with graph.inserting_after(low):
                low = graph.call_function(operator.neg, (middle,))
    return graph


def _alternating_insertions(library: Library, size: int) -> Task:
    return Task(lambda _: _alternating(library, size))


def _order_comparison(library: Library, size: int) -> Task:
    nodes = list(_alternating(library, size).nodes)
    return Task(lambda _: [first < second for first, second in pairwise(nodes)])


def _wide_node(library: Library, size: int) -> Task:
    def prepare() -> Any:
        graph = library.fx.Graph()
        inputs = [graph.placeholder(f"x_{index}") for index in range(size)]
        graph.call_function(torch.cat, (inputs,))
        return inputs, graph.placeholder("y")

    def run(prepared: Any) -> None:
        inputs, replacement = prepared
        for node in inputs:
            node.replace_all_uses_with(replacement)

    return Task(run, prepare)


def _find_per_target(library: Library, size: int) -> Task:
    def run(graph: Any) -> None:
        for index in range(size):
            graph.find_nodes(op="call_module", target=f"layers.{index}")

    return Task(run, lambda: _leaf_layers(library, size).graph)


def _leaf_layers(library: Library, size: int) -> Any:
    return library.fx.symbolic_trace(models.Layers(size))


def _unused_submodules(library: Library, size: int) -> Task:
    return Task(lambda module: module.delete_all_unused_submodules(), lambda: _leaf_layers(library, size))


def _transformer(library: Library, size: int) -> Task:
    return Task(lambda module: library.fx.Transformer(module).transform(), lambda: _leaf_layers(library, size))


def _traced(make: Callable[[int], nn.Module]) -> Callable[[Library, int], Task]:
    return lambda library, size: Task(lambda module: library.fx.symbolic_trace(module), lambda: make(size))


def _nested(library: Library, depth: int) -> Task:
    def run(_: Any) -> Any:
        module: Any = nn.ReLU()
        for _level in range(depth):
            graph = library.fx.Graph()
            graph.output(graph.call_module("inner", (graph.placeholder("x"),)))
            module = library.fx.GraphModule({"inner": module}, graph)
        return module

    return Task(run)


def _recompile(library: Library, times: int) -> Task:
    module = library.fx.symbolic_trace(models.Layers(10))

    def run(_: Any) -> None:
        for _time in range(times):
            module.graph.call_function(operator.neg, (1,))
            module.graph.eliminate_dead_code()
            module.recompile()
            _ = module.code

    return Task(run)


def _on_chain(phase: Phase) -> Callable[[Library, int], Task]:
    return lambda library, size: phase.task(library, f"chain {size}")


_POWERS = (1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 50_000)
_DECADES = (1_000, 10_000, 100_000)
_MODULES = (200, 400, 800, 1_600, 3_200)

SCENARIOS = (
    Scenario("alternating insertions", _alternating_insertions, _POWERS),
    Scenario("order comparison after them", _order_comparison, _POWERS),
    Scenario("replacing each input of one wide node", _wide_node, (500, 1_000, 2_000, 4_000)),
    Scenario("find_nodes per target", _find_per_target, _MODULES),
    Scenario("delete_all_unused_submodules", _unused_submodules, _MODULES),
    Scenario("Transformer over leaf modules", _transformer, _MODULES),
    Scenario("trace n parameters", _traced(models.Parameters), _MODULES),
    Scenario("trace n constants in n submodules", _traced(models.Constants), _MODULES),
    Scenario("trace dense skips", _traced(models.DenseSkips), (50, 100, 200, 400)),
    Scenario("nested GraphModules, by depth", _nested, (10, 20, 40, 80, 160)),
    Scenario("replace_pattern, n/2 match", rewriting.half_match, _POWERS),
    Scenario("replace_pattern, two outputs", rewriting.two_outputs, _POWERS),
    Scenario("repeated recompile", _recompile, (50, 100, 200, 400, 800)),
    *[Scenario(f"chain, {phase.name}", _on_chain(phase), _DECADES) for phase in PHASES],
    *[Scenario(each.name, each.task, _DECADES) for each in OPERATIONS if each.units > 1],
)
