"""replace_pattern, given the same patterns by both libraries."""

from __future__ import annotations

import operator

import pytest
import torch
from hypothesis import given
from torch import nn
from torch.nn import functional as F

import fxcore
from fixtures.oracle import assert_same, assert_same_success, outcome
from fixtures.random_modules import RandomModule, module_recipes, random_inputs
from fixtures.sight import Refusal
from fixtures.sizes import MANY, SOME
from fixtures.torch_versions import TORCH


def chain(x, y):
    a = torch.relu(x + y)
    b = torch.relu(a + x).neg()
    return torch.cat([b, a + b], dim=0).sum(), a


def module_chain() -> nn.Module:
    """Return convolutions with norms, under names that patterns can use."""

    class Chain(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.bn = nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1)
            self.other = nn.Conv2d(1, 1, 1)

        def forward(self, x):
            return self.bn(self.other(self.bn(self.conv(x)))).relu()

    return Chain().eval()


def relu_of_sum(x, y):
    return torch.relu(x + y)


def add(x, y):
    return x + y


def two_outputs(x, y):
    total = x + y
    return total, torch.relu(total)


def negated_relu(x):
    return torch.relu(x).neg()


def identity(x):
    return x


PAIRS = {
    "one operator": (add, lambda x, y: torch.mul(x, y)),
    "a chain": (relu_of_sum, lambda x, y: F.gelu(x) * y),
    "swapped operands": (relu_of_sum, lambda x, y: torch.relu(y - x)),
    "two outputs": (two_outputs, lambda x, y: (torch.mul(x, y), torch.sigmoid(x))),
    "a method": (negated_relu, lambda x: torch.clamp(x, max=0)),
    "an input comes out": (negated_relu, lambda x: x),
    "no match": (lambda x: torch.tanh(x), lambda x: torch.sigmoid(x)),
    "a literal": (lambda x: torch.cat([x, x], dim=0), lambda x: x),
    "keyword": (lambda x, y: torch.cat([x, y], dim=0), lambda x, y: torch.stack((x, y))),
    "more in the replacement": (add, lambda x, y: (torch.sin(x) + 1) * torch.ones_like(y)),
    "itself": (add, add),
}


@pytest.mark.parametrize("name", PAIRS)
def test_both_libraries_replace_the_same_places(name):
    pattern, replacement = PAIRS[name]

    def program(fx):
        traced = fx.symbolic_trace(chain)
        matches = fx.replace_pattern(traced, pattern, replacement)
        traced.graph.lint()
        found = [
            [match.anchor.name, [(key.name, str(value)) for key, value in match.nodes_map.items()]] for match in matches
        ]
        return [found, traced]

    assert_same(program)


def test_patterns_of_modules_match_by_path():
    class Pattern(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.bn = nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1)

        def forward(self, x):
            return self.bn(self.conv(x))

    class Fused(nn.Module):
        def __init__(self):
            super().__init__()
            self.fused = nn.Conv2d(1, 1, 1)

        def forward(self, x):
            return self.fused(x)

    def program(fx):
        traced = fx.symbolic_trace(module_chain())
        matches = fx.replace_pattern(traced, Pattern().eval(), Fused())
        return [len(matches), traced]

    assert_same_success(program)


def test_traced_graphs_are_taken_as_patterns():
    def program(fx):
        traced = fx.symbolic_trace(chain)
        pattern, replacement = fx.symbolic_trace(add).graph, fx.symbolic_trace(lambda a, b: operator.sub(a, b)).graph
        return [len(fx.replace_pattern(traced, pattern, replacement)), traced]

    assert_same(program)


def test_filters_decide_which_matches_are_replaced():
    def program(fx):
        traced = fx.symbolic_trace(chain)
        chosen = fx.subgraph_rewriter.replace_pattern_with_filters(
            traced,
            add,
            lambda x, y: torch.mul(x, y),
            match_filters=[lambda match, original, pattern: match.anchors[0].name != "add_1"],
        )
        return [[[each.name for each in match.replacements] for match in chosen], traced]

    assert_same_success(program)


def rewrites_alike(recipe) -> None:
    def program(fx):
        torch.manual_seed(5)
        traced = fx.symbolic_trace(RandomModule(recipe))
        counts = [len(fx.replace_pattern(traced, *PAIRS[name])) for name in ("one operator", "a chain", "a method")]
        return [counts, traced, traced(*random_inputs())]

    if TORCH < (2, 13):
        refusal = outcome(program, torch.fx)
        if isinstance(refusal, Refusal) and "should have at least one user" in str(refusal.error):
            assert not isinstance(outcome(program, fxcore), Refusal)
            return
    assert_same(program)


@pytest.mark.slow
@SOME
@given(recipe=module_recipes())
def test_both_libraries_rewrite_random_modules_alike(recipe):
    rewrites_alike(recipe)


@pytest.mark.long
@MANY
@given(recipe=module_recipes(max_steps=30))
def test_thousands_of_modules_are_rewritten_alike(recipe):
    rewrites_alike(recipe)
