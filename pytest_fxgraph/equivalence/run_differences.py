"""The mismatches between a run of eager and a run of the graph, by kind of comparison."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

import torch

from fxcore.state.storage import has_values
from pytest_fxgraph.equivalence.aliasing import compare_sharing
from pytest_fxgraph.equivalence.gradients import compare_gradients
from pytest_fxgraph.equivalence.inputs import Arguments
from pytest_fxgraph.equivalence.mismatch import Mismatch
from pytest_fxgraph.equivalence.nested_values import tensors_in
from pytest_fxgraph.equivalence.outputs import EXACTLY, OutputComparison
from pytest_fxgraph.equivalence.run import RunResult, SecondOutput
from pytest_fxgraph.equivalence.state_changes import compare_state
from pytest_fxgraph.equivalence.tolerance import (
    AFTER_SECOND_CALL,
    LOOSE,
    OUTPUT,
    SECOND_CALL,
    ToleranceRule,
    largest_magnitude,
)

_ORDINALS = {2: "second", 3: "third"}


def differences_of_runs(
    expected: RunResult, obtained: RunResult, given: Arguments, comparison: OutputComparison, *, loosely: bool
) -> list[Mismatch]:
    """List the mismatches of two runs on the arguments `given`.

    `loosely` compares the second call with wide tolerances, because the first call already judged rounding.
    """
    checks = comparison.checks
    found = list(comparison.compare(expected.output, obtained.output, OUTPUT))
    if "mutation" in checks:
        found += _differences_of_arguments(expected.arguments, obtained.arguments, given, comparison.of_values())
        found += _differences_of_requires_grad(expected.arguments, obtained.arguments)
    if "aliasing" in checks:
        found += compare_sharing(expected.sharing, obtained.sharing)
    if "state" in checks:
        found += compare_state(expected.state, obtained.state, comparison)
    if "rng" in checks:
        found += _differences_of_random_draws(expected, obtained)
    if "global state" in checks:
        found += _differences_of_settings(expected.global_changes, obtained.global_changes)
    if expected.gradients is not None:
        inputs = {path for path, _ in given.tensors()}
        found += compare_gradients(expected.gradients, obtained.gradients or {}, comparison, inputs)
    # A difference of the first call is reported as such. The second call would repeat it.
    if not found and "second call" in checks:
        calls = expected.second_output, obtained.second_output
        found += _differences_of_later_calls(*calls, comparison, loosely=loosely)
    return found


def _differences_of_arguments(
    expected: Arguments, obtained: Arguments, given: Arguments, comparison: OutputComparison
) -> Iterator[Mismatch]:
    """Yield a mismatch for every input that the two runs left in different states."""
    # A user's hook that calls two outputs equal says nothing about writes into inputs.
    plain = dataclasses.replace(comparison, requires_grad=False, custom_comparison=None)
    exact = dataclasses.replace(plain, rule=EXACTLY.rule)
    originals, in_eager, in_graph = (dict(each.tensors()) for each in (given, expected, obtained))
    named = zip(given.named(), expected.named(), obtained.named(), strict=True)
    for (where, original), (_, after_eager), (_, after_graph) in named:
        # An input that eager leaves alone must be left alone to the bit, because nothing is rounded there.
        is_unchanged = not any(exact.compare(original, after_eager, where))
        for mismatch in (exact if is_unchanged else plain).compare(after_eager, after_graph, where):
            path = mismatch.where
            description = _described_change(originals.get(path), in_eager.get(path), in_graph.get(path), exact)
            description = description or f"differs after the calls: it {mismatch.description}"
            yield Mismatch("mutation", path, description, mismatch.statistics)


def _described_change(
    original: torch.Tensor | None,
    after_eager: torch.Tensor | None,
    after_graph: torch.Tensor | None,
    comparison: OutputComparison,
) -> str | None:
    """Name the run that changed a tensor; return None if there is no such tensor in all three."""
    if original is None or after_eager is None or after_graph is None:
        return None
    by_eager = any(comparison.compare_tensors(original, after_eager, ""))
    by_graph = any(comparison.compare_tensors(original, after_graph, ""))
    if by_eager and by_graph:
        return "was changed in place by eager and by the graph, to different values"
    return f"was changed in place by {'eager, not by the graph' if by_eager else 'the graph, not by eager'}"


def _differences_of_requires_grad(expected: Arguments, obtained: Arguments) -> Iterator[Mismatch]:
    """Yield a mismatch for each input whose `requires_grad` one run alone changed."""
    in_graph = dict(obtained.tensors())
    for where, tensor in expected.tensors():
        other = in_graph.get(where, tensor)
        if tensor.requires_grad != other.requires_grad:
            yield Mismatch(
                "mutation",
                where,
                f"has requires_grad={tensor.requires_grad} after eager's call, {other.requires_grad} after the graph's",
            )


def _differences_of_random_draws(expected: RunResult, obtained: RunResult) -> Iterator[Mismatch]:
    """Yield a mismatch if the two runs left a random generator in different states."""
    own, others = expected.generators, obtained.generators
    rng = obtained.rng  # one of the two runs may be the first to import a library with a generator
    generators = [name for name, state in expected.rng.items() if name in rng and state != rng[name]]
    generators += [name for name in {**own, **others} if own.get(name) != others.get(name)]
    if generators:
        yield Mismatch("rng", " and ".join(generators), "drew otherwise in the graph than in eager")


def _differences_of_settings(expected: Mapping[str, str], obtained: Mapping[str, str]) -> Iterator[Mismatch]:
    """Yield a mismatch for each setting of torch that the two runs left differently."""
    for name in {**expected, **obtained}:
        of_eager, of_graph = (changes.get(name, "unchanged") for changes in (expected, obtained))
        if of_eager != of_graph:
            yield Mismatch(
                "global state", name, f"was left {of_graph} by the graph, {of_eager} by eager; it was put back"
            )


def _differences_of_later_calls(
    expected: SecondOutput | None, obtained: SecondOutput | None, comparison: OutputComparison, *, loosely: bool
) -> list[Mismatch]:
    """List the differences of the first call that differs, after the first one in a row."""
    found: list[Mismatch] = []
    number = 2
    while not found and expected is not None and obtained is not None:
        word = _ORDINALS.get(number, f"{number}th")
        found += _differences_of_second_calls(expected, obtained, comparison, word, loosely=loosely)
        expected, obtained, number = expected.next, obtained.next, number + 1
    return found


def _differences_of_second_calls(
    expected: SecondOutput, obtained: SecondOutput, comparison: OutputComparison, word: str, *, loosely: bool
) -> Iterator[Mismatch]:
    """Yield the differences of a second call in a row, which shows state that one of the two alone kept.

    The first call judged rounding. The second call may differ by the rounding of the largest value, or, `loosely`, by
    more.
    """
    if expected.error is None and obtained.error is None:
        measured = [tensor for _, tensor in tensors_in(expected.value, OUTPUT) if has_values(tensor)]
        largest = max(1.0, largest_magnitude(measured))
        rule = dataclasses.replace(comparison.rule, scale=largest)
        rule = ToleranceRule(LOOSE, LOOSE * largest) if loosely else rule
        plain = dataclasses.replace(comparison.of_values(), rule=rule)
        yield from plain.compare(expected.value, obtained.value, SECOND_CALL.replace("second", word))
        if "state" in comparison.checks and expected.state is not None and obtained.state is not None:
            changed = expected.state.changed.values()
            scale = max(largest, largest_magnitude(state.tensor for state in changed if has_values(state.tensor)))
            rule = ToleranceRule(LOOSE, LOOSE * scale) if loosely else dataclasses.replace(rule, scale=scale)
            plain = dataclasses.replace(plain, rule=rule)
            yield from compare_state(
                expected.state, obtained.state, plain, suffix=AFTER_SECOND_CALL.replace("second", word)
            )
    elif (expected.error is None) != (obtained.error is None):
        names = ("the graph", "eager") if expected.error is None else ("eager", "the graph")
        error = expected.error or obtained.error
        yield Mismatch(
            "error", f"a {word} call of {names[0]}", f"raised {type(error).__name__}: {error}; {names[1]} ran"
        )
