"""Passes of Inductor get the arguments, the fake mode and the graph that a compilation gives them."""

from __future__ import annotations

import sys
from functools import partial

import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

import fxcore
from pytest_fxgraph.captures import inductor_context
from pytest_fxgraph.captures.inductor_context import is_inductor_pass, run_inductor_pass, virtualized_fake_mode
from pytest_fxgraph.errors import SubjectError

matcher = pytest.importorskip("torch._inductor.pattern_matcher")
virtualized = pytest.importorskip("torch._inductor.virtualized").V


class OwnPass(matcher.PatternMatcherPass):
    pass


class Foreign:
    def apply(self, graph):
        raise NotImplementedError


def own(graph):
    raise NotImplementedError


@pytest.mark.parametrize(
    ("step", "is_of_inductor"),
    [
        (matcher.stable_topological_sort, True),
        (partial(partial(matcher.stable_topological_sort)), True),
        (matcher.PatternMatcherPass(), True),
        (matcher.PatternMatcherPass().apply, True),
        (OwnPass(), True),
        (matcher.PatternMatcherPass, False),
        (own, False),
        (partial(own), False),
        (Foreign(), False),
        (Foreign().apply, False),
    ],
)
def test_a_pass_of_inductor_is_known_by_its_module(step, is_of_inductor, monkeypatch):
    assert is_inductor_pass(step) is is_of_inductor
    monkeypatch.delitem(sys.modules, "torch._inductor")
    assert is_inductor_pass(step) is False


def with_values(function=lambda x: x.relu().cos()):
    return make_fx(function, tracing_mode="fake")(torch.ones(2))


def without_values():
    return torch.fx.symbolic_trace(lambda x: x.relu().cos())


def asks_for(text):
    """Return a function with these parameters."""
    scope = {"fx": torch.fx, "torch": torch}
    exec(f"def asking({text}):\n    raise NotImplementedError", scope)
    return scope["asking"]


@pytest.mark.parametrize(
    ("parameters", "given"),
    [
        ("gm", ["module"]),
        ("mod", ["module"]),
        ("g: torch.fx.GraphModule", ["module"]),
        ("g: 'fx.GraphModule'", ["module"]),
        ("graph", ["graph"]),
        ("g: torch.fx.Graph", ["graph"]),
        ("g: 'torch.fx.Graph'", ["graph"]),
        ("graph, is_inference", ["graph", True]),
        ("graph, more=3, *args, other, **kwargs", None),
        ("graph, more=3, *args, **kwargs", ["graph"]),
        ("graph, example_inputs", ["graph", "values"]),
        ("graph, unknown", None),
    ],
)
def test_the_parameters_of_a_pass_name_its_arguments(parameters, given):
    module = with_values()
    known = {id(module): "module", id(module.graph): "graph"}
    if given is None:
        with pytest.raises(SubjectError, match=r"it asks for '(unknown|other)', and the graph does not tell it; bind"):
            inductor_context._arguments(asks_for(parameters), module, "own")
        return
    found = inductor_context._arguments(asks_for(parameters), module, "own").values()
    assert [known.get(id(each), each if each is True else "values") for each in found] == given


def test_example_inputs_need_values():
    with pytest.raises(SubjectError, match="it asks for 'example_inputs'"):
        inductor_context._arguments(asks_for("example_inputs"), without_values(), "own")


def test_the_fake_mode_of_a_graph_is_that_of_inductor_and_marks_are_removed():
    module = with_values()
    (first, *_) = module.graph.nodes
    with virtualized_fake_mode(module) as mode:
        assert mode is first.meta["val"].fake_mode is virtualized.fake_mode
        first.meta["mutation_region_id"] = 3
    assert "mutation_region_id" not in first.meta
    for other in (without_values(), fxcore.symbolic_trace(nn.ReLU())):
        with virtualized_fake_mode(other) as mode:
            assert mode is None


def fails(graph):
    raise ValueError("words\nmore")


def needs_tensor_meta(graph):
    raise KeyError("tensor_meta")


def test_a_pass_that_fails_without_values_says_what_is_missing():
    with pytest.raises(
        SubjectError, match=r"meta\['val'\], and the pass failed with ValueError: words\. Hand over a gr"
    ):
        run_inductor_pass(fails, without_values(), "own")
    with pytest.raises(SubjectError, match=r"Record meta\['tensor_meta'\] first"):
        run_inductor_pass(needs_tensor_meta, without_values(), "own")
    with pytest.raises(SubjectError, match=r"and the pass reads it\. Hand over"):
        run_inductor_pass(asks_for("graph, is_inference"), without_values(), "own")
    with pytest.raises(ValueError, match="words"):
        run_inductor_pass(fails, with_values(), "own")
    with pytest.raises(SubjectError, match="it asks for 'unknown'"):
        run_inductor_pass(asks_for("unknown"), without_values(), "own")


def moves(graph):
    """Move a node behind its reader, and leave one that nobody reads."""
    relu, cos = (node for node in graph.nodes if node.op.startswith("call"))
    with graph.inserting_after(relu):
        graph.call_function(torch.sin, (relu,))
    cos.append(relu)


def test_a_changed_graph_is_sorted_without_dead_nodes():
    class Applied:
        apply = staticmethod(moves)

    for step in (moves, Applied()):
        made = run_inductor_pass(step, without_values(), "own")
        assert [node.name for node in made.graph.nodes] == ["x", "relu", "cos", "output"]


def test_a_graph_that_a_pass_returns_takes_the_place_and_an_unchanged_one_stays():
    given, other = without_values(), torch.fx.symbolic_trace(nn.ReLU())
    dead = given.graph.call_function(torch.sin, (next(iter(given.graph.nodes)),))

    assert run_inductor_pass(lambda graph: 3, given, "own") is given
    assert dead in [*given.graph.nodes]
    assert run_inductor_pass(lambda graph: other, given, "own") is other


def test_a_graph_of_fxcore_takes_over_the_changed_graph_and_new_state():
    given = fxcore.symbolic_trace(lambda x: x.relu().cos())
    before = given.graph

    assert run_inductor_pass(lambda graph: None, given, "own") is given
    assert given.graph is before

    def adds_state(gm):
        gm.register_buffer("scale", torch.ones(1))
        moves(gm.graph)

    assert run_inductor_pass(adds_state, given, "own") is given
    assert [node.name for node in given.graph.nodes] == ["x", "relu", "cos", "output"]
    assert given.graph is not before
    assert "scale" in dict(given.named_buffers())


def test_a_call_without_a_form_in_python_is_told():
    module = without_values()
    module.recompile = lambda: compile("(", "", "exec")

    with pytest.raises(SubjectError, match="the graph that own, a pass of Inductor, left: a call of it has no form"):
        run_inductor_pass(lambda gm: gm, module, "own")
