"""The sections of the report: each measures and returns a table."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Sequence

from benchmarks import rewriting
from benchmarks.equivalence import overheads
from benchmarks.examples import tracing_with_examples
from benchmarks.floors import compile_floor, trace_floor
from benchmarks.growth import SCENARIOS, curve_of
from benchmarks.library import Library
from benchmarks.memory import blocks_left_by_recompiles, bytes_per_node
from benchmarks.operations import OPERATIONS, Operation
from benchmarks.phases import PHASES, Phase
from benchmarks.result import Table, verdict
from benchmarks.subjects import CHAINS, MODELS, model
from benchmarks.task import measure_in_turns, rounds_in_turns

Libraries = tuple[Library, ...]  # this fxcore first
Say = Callable[[str], None]

_RESAMPLES = 2000


def node_count(library: Library, name: str) -> int:
    """Return how many nodes a model has."""
    return len(library.fx.symbolic_trace(model(name)).graph.nodes)


def measured(phase: Phase, libraries: Libraries, name: str, rounds: int) -> list[list[float]]:
    """Return the seconds of each library in each round of a phase of a model, without the work that is not theirs."""
    tasks = [library.task(phase.task, name) for library in libraries]
    if phase.contained is None:
        return rounds_in_turns(tasks, rounds)
    tasks += [library.task(phase.contained, name) for library in libraries]
    taken = rounds_in_turns(tasks, rounds)
    whole, contained = taken[: len(libraries)], taken[len(libraries) :]
    medians = [statistics.median(times) for times in contained]
    return [[time - median for time in times] for times, median in zip(whole, medians, strict=True)]


def phases(libraries: Libraries, rounds: int, say: Say, names: tuple[str, ...] = MODELS) -> list[Table]:
    """Measure every phase on every model: one table of each model, and one of the medians."""
    others = libraries[1:]
    tables, ratios = [], dict[tuple[str, str], list[list[float]]]()
    for name in names:
        say(name)
        nodes = node_count(libraries[0], name)
        over = [f"over {library.name}" for library in others]
        table = Table(f"{name}, {nodes:,} nodes", ("phase", "µs a node", *over, "over the floor"))
        floors = measure_in_turns([trace_floor(name), compile_floor(name)], rounds)
        for phase in PHASES:
            ours, *theirs = measured(phase, libraries, name, rounds)
            found = [[their / our for our, their in zip(ours, each, strict=True)] for each in theirs]
            for library, each in zip(others, found, strict=True):
                ratios.setdefault((phase.name, library.name), []).append(each)
            floor = {"trace": floors[0], "symbolic_trace + forward, cold": sum(floors)}.get(phase.name)
            own = statistics.median(ours)
            cells = [statistics.median(each) for each in found]
            table.rows.append([phase.name, own / nodes * 1e6, *cells, own / floor if floor else ""])
        tables.append(table)
    return [*tables, *[_medians(library, ratios, rounds) for library in others]]


def target_of(target: float, libraries: Libraries) -> float:
    """Return the ratio to reach: over torch.fx what was set for it, over an earlier fxcore not to be 10 % slower."""
    return target if libraries[1].name == "torch.fx" else 0.9


def _medians(library: Library, ratios: dict[tuple[str, str], list[list[float]]], rounds: int) -> Table:
    """Sum the ratios of all models up, with the interval that holds 95 % of the medians of resampled rounds."""
    title = f"Median over the models, {rounds} rounds: times faster than {library.name}"
    table = Table(title, ("phase", "ratio", "interval", "lowest model", "highest model", "target", "reached"))
    for phase in PHASES:
        found = ratios[phase.name, library.name]
        of_models = [statistics.median(each) for each in found]
        ratio = statistics.median(of_models)
        target = phase.target if library.name == "torch.fx" else phase.over_earlier
        low, high = interval(found)
        cells = [ratio, f"{low:.2f} to {high:.2f}", min(of_models), max(of_models), target, verdict(ratio, target)]
        table.rows.append([phase.name, *cells])
    return table


def interval(ratios: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Return the bounds of 95 % of the medians over models when the rounds of each model are drawn anew."""
    chance = random.Random(0)
    drawn = sorted(
        statistics.median([statistics.median(chance.choices(each, k=len(each))) for each in ratios])
        for _ in range(_RESAMPLES)
    )
    return drawn[_RESAMPLES // 40], drawn[-_RESAMPLES // 40 - 1]


def chains(libraries: Libraries, rounds: int, say: Say) -> list[Table]:
    """Measure the phases on synthetic models of growing length."""
    table = Table("Chains", ("phase", *[f"{length:,} nodes" for length in CHAINS]))
    columns = []
    for length in CHAINS:
        say(f"chain of {length:,}")
        few = rounds if length <= 1_000 else 3 if length <= 10_000 else 1
        taken = [measured(phase, libraries, f"chain {length}", few) for phase in PHASES]
        columns.append([[statistics.median(times) for times in each] for each in taken])
    for phase, *pairs in zip(PHASES, *columns, strict=True):
        cells = [
            f"{ours / length * 1e6:.2f} µs, {theirs / ours:.1f}x"
            for length, (ours, theirs) in zip(CHAINS, pairs, strict=True)
        ]
        table.rows.append([phase.name, *cells])
    return [table]


def operations(libraries: Libraries, rounds: int, say: Say) -> list[Table]:
    """Measure single operations and rewriting."""
    say("operations")
    first = _operation_table("Operations", OPERATIONS, libraries, rounds)
    say("rewriting")
    scenarios = [*rewriting.scenarios(1_000, 10), *rewriting.scenarios(5_000, 30)]
    return [first, _operation_table("Rewriting", scenarios, libraries, 1)]


def _operation_table(
    title: str, chosen: tuple[Operation, ...] | list[Operation], libraries: Libraries, rounds: int
) -> Table:
    table = Table(title, ("operation", "µs a unit", libraries[1].name, "ratio", "target", "reached"))
    for operation in chosen:
        ours, theirs = measure_in_turns([library.task(operation.task) for library in libraries], rounds)
        per_unit = [seconds / operation.units * 1e6 for seconds in (ours, theirs)]
        ratio, target = theirs / ours, target_of(operation.target, libraries)
        table.rows.append([operation.name, *per_unit, ratio, target, verdict(ratio, target)])
    return table


def growth(libraries: Libraries, rounds: int, say: Say) -> list[Table]:
    """Fit the exponents of every scenario."""
    columns = ("scenario", "sizes", "exponent", "torch.fx", "ms at the largest", "torch.fx, ms (at)", "reached 1.1")
    table = Table("Growth", columns)
    for scenario in SCENARIOS:
        say(scenario.name)
        ours, theirs = [curve_of(scenario, library) for library in libraries]
        sizes = f"{ours.sizes[0]:,} to {ours.sizes[-1]:,}"
        slowest = f"{theirs.seconds[-1] * 1e3:,.0f} ({theirs.sizes[-1]:,})"
        reached = "yes" if ours.exponent <= 1.1 else "**no**"
        row = [scenario.name, sizes, ours.exponent, theirs.exponent, ours.seconds[-1] * 1e3, slowest, reached]
        table.rows.append(row)
        say(f"... exponent {ours.exponent:.2f}, torch.fx {theirs.exponent:.2f}")
    return [table]


def memory(libraries: Libraries, rounds: int, say: Say) -> list[Table]:
    """Measure bytes."""
    say("memory")
    table = Table("Memory, bytes or blocks", ("of what", "fxcore", "torch.fx"))
    table.rows.append(["a node of a graph", *[bytes_per_node(library, in_module=False) for library in libraries]])
    table.rows.append(
        ["a node, with module and code", *[bytes_per_node(library, in_module=True) for library in libraries]]
    )
    table.rows.append(
        ["blocks left by 10,000 recompiles", *[blocks_left_by_recompiles(library) for library in libraries]]
    )
    return [table]


SECTIONS = {
    "phases": phases,
    "chains": chains,
    "operations": operations,
    "growth": growth,
    "memory": memory,
    "equivalence": overheads,
    "examples": tracing_with_examples,
}
