"""Random patterns, replaced in random programs by both libraries."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.fx
import torch.fx.subgraph_rewriter

import fxcore
from fixtures.torch_versions import TORCH

OPERATORS = {"relu": 1, "neg": 1, "sigmoid": 1, "add": 2, "mul": 2}
PROGRAMS = 150
MANY_PROGRAMS = 20_000
# What torch.fx fails with. Before torch 2.13 it asserts that what is replaced is read.
REFUSALS = (KeyError, RuntimeError) if TORCH >= (2, 13) else (KeyError, RuntimeError, AssertionError)


class Source:
    """The source of a random function: `inputs` parameters and a line for each operator."""

    def __init__(self, rng: random.Random, inputs: int, lines: int, outputs: int) -> None:
        names = [f"a{index}" for index in range(inputs)]
        body, read = [], set()
        for index in range(lines):
            operator = rng.choice(list(OPERATORS))
            arguments = [rng.choice(names[-4:] if rng.random() < 0.8 else names) for _ in range(OPERATORS[operator])]
            body.append(f"  v{index} = torch.{operator}({', '.join(arguments)})\n")
            names.append(f"v{index}")
            read.update(arguments)
        returned = list(dict.fromkeys([names[-1], *rng.sample(names[inputs:], min(outputs - 1, lines))]))
        self.outputs = len(returned)
        self.reads_everything = read | set(returned) == set(names)
        result = returned[0] if len(returned) == 1 else ", ".join(returned)
        self.text = f"def function({', '.join(names[:inputs])}):\n{''.join(body)}  return {result}\n"

    def function(self) -> Callable[..., Any]:
        names: dict[str, Any] = {"torch": torch}
        exec(self.text, names)
        return names["function"]


def pattern_of(rng: random.Random) -> Source:
    while True:
        pattern = Source(rng, rng.randint(1, 2), rng.randint(1, 3), rng.randint(1, 3))
        if pattern.reads_everything:
            return pattern


def replacement_of(rng: random.Random, pattern: Source) -> Source:
    inputs = pattern.function().__code__.co_argcount
    while True:
        replacement = Source(rng, inputs, rng.randint(1, 3), pattern.outputs)
        if replacement.outputs == pattern.outputs:
            return replacement


def outcome(fx: Any, program: Source, pattern: Source, replacement: Source) -> tuple[Any, ...]:
    traced = fx.symbolic_trace(program.function())
    matches = fx.subgraph_rewriter.replace_pattern(traced, pattern.function(), replacement.function())
    traced.graph.lint()
    users = [(node.name, [user.name for user in node.users]) for node in traced.graph.nodes]
    return str(traced.graph), traced.code, users, [str(match.nodes_map) for match in matches]


def compare(seeds: range) -> tuple[int, int]:
    """Replace in a program for each seed; return how many had a match, and at how many torch.fx failed."""
    found = failed = 0
    for seed in seeds:
        rng = random.Random(seed)
        program, pattern = Source(rng, 2, rng.randint(5, 25), rng.randint(1, 2)), pattern_of(rng)
        replacement = replacement_of(rng, pattern)
        ours = outcome(fxcore, program, pattern, replacement)
        try:
            theirs = outcome(torch.fx, program, pattern, replacement)
        except REFUSALS:
            failed += 1
            continue
        assert ours == theirs, f"seed {seed}:\n{program.text}\n{pattern.text}\n{replacement.text}"
        found += bool(ours[-1])
    return found, failed


@pytest.mark.slow
def test_random_patterns_are_replaced_as_by_torch_wherever_that_succeeds():
    found, failed = compare(range(PROGRAMS))

    assert found > PROGRAMS / 10
    assert failed > 0


def test_replacing_a_pattern_by_itself_changes_no_result():
    inputs = torch.randn(3), torch.randn(3)
    found = 0
    for seed in range(PROGRAMS):
        rng = random.Random(seed)
        program, pattern = Source(rng, 2, rng.randint(5, 25), 2), pattern_of(rng)
        traced = fxcore.symbolic_trace(program.function())

        found += len(fxcore.replace_pattern(traced, pattern.function(), pattern.function()))

        traced.graph.lint()
        expected, obtained = program.function()(*inputs), traced(*inputs)
        torch.testing.assert_close(obtained, expected, rtol=0, atol=0)
    assert found > PROGRAMS / 10


@pytest.mark.long
def test_thousands_of_random_patterns_are_replaced_as_by_torch():
    found, failed = compare(range(PROGRAMS, PROGRAMS + MANY_PROGRAMS))

    assert found > MANY_PROGRAMS / 10
    assert failed > 0
