from __future__ import annotations

import operator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.fx.passes.utils.matcher_utils
from torch import nn
from torch.nn import functional as F

import fxcore
from fxcore.matching.explanation import MatchExplanation, MatchFailure, NearPlace
from pytest_fxgraph import rewrite
from pytest_fxgraph.captures.tracing import trace
from pytest_fxgraph.transform.rewriting import _explanation_text, explain_match


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.second = nn.Linear(3, 3, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.first(x))
        return torch.sigmoid(self.second(y))


class Pattern(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.layer(x))


def test_a_graph_module_is_rewritten_in_place_and_the_places_are_told():
    graph = fxcore.symbolic_trace(Block())

    result = rewrite(graph, lambda x: torch.relu(x), lambda x: F.gelu(x))

    assert result.graph_module is graph
    assert "gelu" in graph.code
    assert [match.anchor.name for match in result.matched] == ["relu"]
    assert result.explain() == "the pattern matched once: relu"


def test_a_model_is_traced_and_stays_as_it_was():
    model = Block()

    result = rewrite(model, lambda x: torch.relu(x), lambda x: F.gelu(x))

    assert len(result.matched) == 1
    assert "gelu" in result.graph_module.code
    assert torch.equal(model(torch.ones(1, 3)), Block.forward(model, torch.ones(1, 3)))


def test_an_explanation_names_node_source_line_and_reason():
    result = rewrite(trace(Block()), lambda x: torch.tanh(torch.exp(x)), lambda x: x)
    near = rewrite(trace(Block()), lambda x: torch.relu(torch.relu(x)), lambda x: x)

    assert not result.matched
    assert result.explain().splitlines() == [
        "the pattern did not match",
        "  the graph has nowhere torch.exp, torch.tanh",
        "  no place of the graph has any operation of the pattern",
    ]
    headline, place, reason, *others = near.explain().splitlines()
    assert headline == "the pattern did not match; the nearest places:"
    assert place.startswith("  at relu (")
    assert "y = torch.relu(self.first(x))): 1 of 2 operations are there" in place
    assert reason.startswith("    first (")
    assert reason.endswith("the pattern has torch.relu, and here is the module 'first' (Linear)")
    assert others[0].startswith("  at second (")


def test_modules_of_another_path_are_explained_with_the_option_that_takes_them():
    by_path = rewrite(Block(), Pattern(), lambda x: x)
    by_config = rewrite(Block(), Pattern(), lambda x: x, match_modules="config")

    assert "here is the module 'first' (Linear); match_modules='class' takes any of the class" in by_path.explain()
    assert len(by_config.matched) == 1


def test_places_that_a_filter_refused_are_told_apart_from_those_that_are_none():
    def never(match, graph, pattern):
        return False

    result = rewrite(Block(), lambda x: torch.relu(x), lambda x: F.gelu(x), match_filters=[never])

    assert result.matched == []
    assert "match_filters refused relu (" in result.explain()


def test_what_did_not_match_is_explained_beside_what_did():
    def program(x):
        return torch.clamp(x, 0, 6) + torch.clamp(x, 0, 5)

    result = rewrite(program, lambda x: torch.clamp(x, 0, 6), lambda x: F.relu6(x))

    assert len(result.matched) == 1
    explained = result.explain()
    assert explained.startswith("the pattern matched once: clamp (")
    assert "at clamp_1 (" in explained
    assert "an argument of torch.clamp is 6 in the pattern, and 5 here; ignore_literals=True takes any" in explained


def test_an_explanation_is_bounded_in_length():
    def program(x):
        for step in range(300):
            x = torch.clamp(x, 0, step + 7)
        return x

    explained = rewrite(program, lambda x: torch.clamp(torch.clamp(x, 0, 1), 0, 2), lambda x: x).explain()

    assert len(explained.splitlines()) <= 15
    assert max(map(len, explained.splitlines())) <= 240


@pytest.mark.parametrize("subject", [3, "text", None])
def test_what_is_no_graph_is_refused(subject):
    with pytest.raises(TypeError, match="is no subject"):
        rewrite(subject, torch.relu, torch.tanh)


class Scaled(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + y) * 2


def pattern_graph(library: Any) -> Any:
    """Return `relu(x) * 3` as a graph of fxcore or torch.fx."""
    graph = library.Graph()
    doubled = graph.call_function(operator.mul, (graph.call_function(torch.relu, (graph.placeholder("x"),)), 3))
    graph.output(doubled)
    return graph


@pytest.mark.parametrize("library", [fxcore, torch.fx])
def test_a_pattern_graph_that_is_nowhere_is_explained(library):
    traced = library.symbolic_trace(Scaled())
    matcher = library.passes.utils.matcher_utils.SubgraphMatcher(pattern_graph(library))
    assert matcher.match(traced.graph) == []

    told = explain_match(pattern_graph(library), traced)

    assert told == (
        "the pattern did not match; the nearest places:\n"
        "  at mul: 2 of 2 operations are there, but\n"
        "    an argument of operator.mul is 3 in the pattern, and 2 here; ignore_literals=True takes any constant"
    )
    assert explain_match(matcher, traced) == told


def test_options_of_a_matcher_of_torch_count():
    traced = torch.fx.symbolic_trace(Scaled())
    matcher = torch.fx.passes.utils.matcher_utils.SubgraphMatcher(pattern_graph(torch.fx), ignore_literals=True)
    assert len(matcher.match(traced.graph)) == 1

    assert explain_match(matcher, traced).startswith("the pattern matched once: mul")
    assert explain_match(pattern_graph(torch.fx), traced, ignore_literals=True) == explain_match(matcher, traced)
    assert "did not match" in explain_match(pattern_graph(torch.fx), traced)


def test_a_pattern_of_operators_is_explained_in_an_exported_program():
    program = torch.export.export(Scaled(), (torch.ones(2), torch.ones(2)))
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_function(torch.ops.aten.gelu.default, (x,)))

    told = explain_match(graph, program)

    assert "the graph has nowhere" in told
    assert "aten.gelu.default" in told


def nodes_named(*names: str) -> list[fxcore.Node]:
    graph = fxcore.Graph()
    return [graph.create_node("call_function", torch.relu, name=name) for name in names]


def text_of(matches="", absent=(), near=(), refused="", replaced=None) -> list[str]:
    """Return the lines of an explanation; each letter is the node of a match."""
    found: Any = [
        [SimpleNamespace(anchors=["x"], nodes_map={"x": node}) for node in nodes_named(*names)]
        for names in (matches, refused)
    ]
    explanation = MatchExplanation(tuple(found[0]), tuple(absent), tuple(near))
    return _explanation_text(explanation, *found, len(matches) if replaced is None else replaced).splitlines()


def near_place(*messages: str) -> NearPlace:
    """Return a place where two of three operations are there; the first reason is about another node."""
    here, other = nodes_named("here", "other")
    failures = [
        MatchFailure("operator", here, (other, here, None)[min(number, 2)], message)
        for number, message in enumerate(messages)
    ]
    return NearPlace(here, 2, 3, tuple(failures))


def test_five_places_of_a_pattern_are_named():
    assert text_of("a") == ["the pattern matched once: a"]
    assert text_of("abcde") == ["the pattern matched 5 times: a; b; c; d; e"]
    assert text_of("abcdef") == ["the pattern matched 6 times: a; b; c; d; e and 1 more"]
    assert (
        text_of("ab", near=[near_place()])[0] == "the pattern matched 2 times: a; b; the nearest places that did not:"
    )


def test_three_reasons_against_a_place_are_named():
    assert text_of(near=[near_place("no", "nor")]) == [
        "the pattern did not match; the nearest places:",
        "  at here: 2 of 3 operations are there, but",
        "    other: no",
        "    nor",
    ]
    assert text_of(near=[near_place(*"abcde")])[2:] == ["    other: a", "    b", "    c", "    and 2 more reasons"]


def test_operations_and_filters_that_stand_in_the_way_are_named_once():
    assert text_of(absent=nodes_named("a", "b")) == [
        "the pattern did not match",
        "  the graph has nowhere torch.relu",
        "  no place of the graph has any operation of the pattern",
    ]
    assert text_of(refused="ab") == ["the pattern did not match", "  match_filters refused a, b"]


def test_a_line_of_an_explanation_has_240_letters_at_most():
    lines = text_of(near=[near_place("-", "x" * 236, "y" * 237)])

    assert lines[3] == "    " + "x" * 236
    assert lines[4] == "    " + "y" * 233 + "..."
