"""The patterns of Inductor's passes, of torch and of users, with their functions and examples."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from pytest_fxgraph.captures.inductor_patterns import InductorPattern, joint_graph_patterns, name_of, patterns_of
from pytest_fxgraph.equivalence.check import GraphCall
from pytest_fxgraph.errors import MismatchError
from pytest_fxgraph.transform import rule_check

pattern_matcher = pytest.importorskip("torch._inductor.pattern_matcher")


def compare_functions(name: str, pattern: Any, replacement: Any, inputs: Any, **options: Any) -> rule_check.RuleVerdict:
    """Return the verdict on two functions as they are, without a trace: for patterns of another pattern matcher."""
    try:
        account = rule_check._searched(name, pattern, GraphCall(replacement, replacement), inputs, options)
    except MismatchError as error:
        return rule_check.RuleVerdict(name, "wrong", rule_check._words_of(error, inputs), error)
    return rule_check.RuleVerdict(name, "right", account)


@pytest.fixture(scope="module")
def patterns():
    return {pattern.name: pattern for pattern in joint_graph_patterns()}


def test_torchs_patterns_have_their_functions_and_example_inputs(patterns):
    named = [pattern for pattern in patterns.values() if pattern.search is not None]

    assert len(named) > 50
    assert all(callable(pattern.replacement) for pattern in named)
    attention = next(each for each in named if each.search.__name__ == "_sfdp_pattern_1")
    query, key, value, scale = attention.arguments()
    assert query.shape == key.shape == value.shape == (2, 4, 8, 16)
    assert query.abs().sum() > 0, "the examples have values"
    assert isinstance(scale, (float, torch.Tensor))
    assert any("bmm" in operator or "expand" in operator or "view" in operator for operator in attention.operators)


def test_arguments_of_a_pattern_have_values_of_every_dtype_and_draw_nothing_out():
    def search(mask, index, count, scale, dropout_p):
        raise NotImplementedError

    empty = torch.empty(64, dtype=torch.bool), torch.empty(64, dtype=torch.int64), 3
    pattern = InductorPattern("a", (), None, search, None, empty, {"dropout_p": 0.5, "scale": 2.0})

    mask, index, *others = pattern.arguments()
    assert 0 < mask.sum() < 64
    assert len(index.unique()) > 2
    assert others == [3, 2.0, 0.0]
    assert index.abs().max() > 3
    assert torch.equal(pattern.arguments(0)[1], index)
    assert not torch.equal(pattern.arguments(1)[1], index)
    floats = pattern._replace(example_inputs=(mask, torch.empty(64), 3)).arguments()[1]
    assert 1.5 < floats.abs().max() < 4
    for without in ({"search": None}, {"example_inputs": None}):
        assert pattern._replace(**without).arguments() is None


def test_an_entry_has_the_name_of_its_registration_its_search_or_its_handler():
    def checked(search_fn):
        return lambda match: search_fn

    def search():
        raise NotImplementedError

    def handler():
        raise NotImplementedError

    def entry(**facts):
        return SimpleNamespace(**{"extra_check": handler, "pattern": "the pattern", **facts})

    named, searched = entry(pattern_name="own", handler=handler), entry(extra_check=checked(search), handler=handler)
    assert name_of(named) == "own"
    assert name_of(searched) == "search"
    assert name_of(entry(extra_check=checked(partial(search)))) == "search"
    assert name_of(entry(handler=handler)) == f"{handler.__qualname__.replace('<locals>.', '')}"
    assert name_of(entry()) == "'the pattern'"


@pytest.mark.parametrize("name", ["joint_fwd_bwd", "fwd_only"])
def test_a_pattern_that_was_traced_with_its_backward_is_of_training(name):
    def trace_fn():
        raise NotImplementedError

    trace_fn.__name__ = name
    entry = SimpleNamespace(extra_check=lambda match: trace_fn, pattern="a")
    (found,) = patterns_of(SimpleNamespace(patterns={("call_function", "relu"): [entry]}))

    assert found.is_training is (name == "joint_fwd_bwd")


def test_a_pattern_by_hand_has_its_operators_and_no_functions(patterns):
    pattern = patterns["pointless_convert"]

    assert pattern.operators == ("prims.convert_element_type.default",)
    assert pattern.search is None
    assert pattern.arguments() is None


def test_the_patterns_of_a_users_pass_are_found():
    def pattern(x, y):
        return torch.relu(x) + y

    def replacement(x, y):
        return torch.clamp(x, min=0) + y

    registry = pattern_matcher.PatternMatcherPass()
    examples = [torch.empty(3, 3), torch.empty(3, 3)]
    pattern_matcher.register_replacement(pattern, replacement, examples, pattern_matcher.fwd_only, registry)

    (found,) = patterns_of(registry)

    assert found.name == "pattern"
    assert found.operators == ("aten.add.Tensor",)
    assert found.search is pattern
    assert found.replacement is replacement
    assert found.example_inputs is None, "torch keeps the examples of its own registrations only"


def test_a_pattern_of_torch_whose_replacement_answers_otherwise_is_found(patterns):
    pytest.importorskip("hypothesis")
    pattern = next(each for each in patterns.values() if getattr(each.search, "__name__", "") == "_sfdp_pattern_1")

    right = compare_functions(
        "attention", pattern.search, pattern.replacement, pattern.arguments(), search=0, checks=("values", "dtype")
    )
    wrong = compare_functions(
        "attention", pattern.search, lambda q, k, v, scale: q @ k.mT @ v, pattern.arguments(), search=0
    )

    assert right.state == "right", right
    assert wrong.state == "wrong"
    assert "input: 0 = float32[2, 4, 8, 16]" in wrong.account
