"""Targets name operators, and a target that could never match is refused with the nearest names."""

from __future__ import annotations

import difflib
import operator
import re
import sys
import types

import pytest
import torch
from torch import nn

import fxcore
from pytest_fxgraph.errors import TargetError
from pytest_fxgraph.operator_patterns import (
    as_targets,
    listed,
    matches,
    name_of_target,
    operator_calls,
    refuse_unlimited,
    refuse_unspoken,
    validate_target,
)

aten = torch.ops.aten


class Doubling(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2


class Root(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2)
        inner = fxcore.Graph()
        inner.output(inner.call_function(torch.neg, (inner.placeholder("x"),)))
        self.inner = fxcore.GraphModule({}, inner)


def graph_of(*targets):
    """Build a graph that calls targets: a text with a dot is a method, another text a module."""
    graph = fxcore.Graph()
    value = graph.placeholder("x")
    for target in targets:
        if not isinstance(target, str):
            value = graph.call_function(target, (value,))
        elif target.startswith("."):
            value = graph.call_method(target[1:], (value,))
        else:
            value = graph.call_module(target, (value,))
    graph.output(value)
    return fxcore.GraphModule(Root(), graph)


def calls_of(*targets, **options):
    return operator_calls(graph_of(*targets), **options)


def refusal(function, *args):
    with pytest.raises(TargetError) as caught:
        function(*args)
    return str(caught.value)


# Calls.


def test_calls_have_all_their_names_in_the_order_of_the_graph():
    linear, method, relu, aten_neg = calls_of("fc", ".relu", torch.relu, aten.neg.default)

    assert linear.names == ("torch.nn.Linear", "torch.nn.modules.linear.Linear")
    assert isinstance(linear.module, nn.Linear)
    assert (method.names, method.module) == (("relu",), None)
    assert relu.names[0] == "torch.relu"
    assert aten_neg.names[:3] == ("aten.neg.default", "aten.neg.default", "aten.neg")
    assert [call.place for call in (linear, method)] == ["fc", "relu"]
    assert [call.dialect for call in (linear, method, relu, aten_neg)] == ["torch", "torch", "torch", "aten"]


def test_calls_of_inner_graphs_stand_behind_their_path_each_graph_once():
    calls = calls_of("inner", torch.relu, "inner")

    assert [call.place for call in calls] == ["relu", "inner/neg"]
    flat = calls_of("inner", torch.relu, "inner", recursive=False)
    assert [call.place for call in flat] == ["inner", "relu", "inner_1"]
    assert [call.dialect for call in flat] == ["", "torch", ""]


def test_an_own_name_comes_first_and_a_target_without_a_name_has_its_repr():
    (named,) = calls_of(torch.relu, own_name=lambda target: "acme.rectify")

    assert (named.names[0], named.names[-1]) == ("acme.rectify", f"{torch.relu.__module__}.{torch.relu.__qualname__}")


@pytest.mark.parametrize(
    ("target", "called", "is_match"),
    [
        ("relu", ".relu", True),
        ("relu", torch.relu, False),
        ("neg", ".relu", False),
        ("torch.re*", torch.relu, True),
        ("torch.re*", torch.neg, False),
        ("*Linear", "fc", True),
        (nn.Linear, "fc", True),
        (nn.Module, "fc", True),
        (nn.ReLU, "fc", False),
        (torch.relu, "fc", False),
        (torch.relu, ".relu", False),
        (torch.relu, torch.relu, True),
        (torch.neg, torch.relu, False),
        (aten.neg, aten.neg.default, True),
        (aten.neg.default, aten.neg.default, True),
        (aten.neg.out, aten.neg.default, False),
        (Doubling, Doubling.apply, True),
        (Doubling, torch.relu, False),
        (nn.Linear, torch.relu, False),
    ],
)
def test_a_call_matches_a_target(target, called, is_match):
    (call,) = calls_of(called)

    assert matches(target, call) is is_match


# Targets.


def test_one_target_or_several_are_a_list():
    assert as_targets("relu") == ["relu"]
    assert as_targets(nn.ReLU) == [nn.ReLU]
    assert as_targets(aten.neg) == [aten.neg]
    assert as_targets(torch.relu) == [torch.relu]
    assert as_targets(("relu", nn.ReLU)) == ["relu", nn.ReLU]
    assert as_targets(name for name in "ab") == ["a", "b"]


def test_a_target_has_a_name_for_messages():
    assert [name_of_target(target) for target in ("x.*", nn.ReLU, torch.relu, aten.neg.default)] == [
        "x.*",
        "torch.nn.ReLU",
        "torch.relu",
        "aten.neg.default",
    ]
    assert name_of_target(3) == "3"


def test_a_list_shows_twelve_texts_and_counts_the_others():
    assert listed([]) == "nothing"
    assert listed([*"abcdefghijkl"]) == "a, b, c, d, e, f, g, h, i, j, k, l"
    assert listed([*"abcdefghijklm"]).endswith("k, l and 1 more")


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (nn.ReLU(), "an operator is named by its class, not by a module: write ReLU"),
        (3, "no operator can be named by 3: give a function, a module class or a name"),
        ("reluu", "'reluu' could never match: it is not a method of Tensor; did you mean 'relu'"),
        ("torch.reluu", "it is not the name of any operator known here; did you mean 'torch.relu"),
        ("acme_unknown.thing", "it is not the name of any operator known here (the graph calls torch.neg)"),
        ("acme_unknown*.thing", "it is not the name of any operator known here (the graph calls torch.neg)"),
        ("softmax2d", "did you mean 'softmax'"),
        ("Linear", "did you mean 'torch.nn.Linear'"),
        ("edge.aten.negg", "did you mean 'edge.aten.neg'"),
        ("torch.pi", "it is not the name of any operator known here"),
        ("edge.torch.neg", "it is not the name of any operator known here"),
    ],
)
def test_a_target_that_could_never_match_is_refused(target, words):
    message = refusal(validate_target, target, calls_of(torch.neg))

    assert words in message


def test_three_names_of_other_modules_and_three_similar_names_are_shown():
    same = re.findall(r"'[\w.]+\.conv2d'", refusal(validate_target, "conv2d", calls_of(torch.neg)))
    similar = re.search("did you mean (.*)\\?", refusal(validate_target, "reluu", calls_of(torch.neg)))

    assert len(same) == 3
    assert similar[1].count(", ") == 2


def test_the_nearest_names_hold_a_called_name_and_a_name_of_its_own_module():
    module = types.ModuleType("acme_kernels")
    module.rectify = lambda x: x
    sys.modules["acme_kernels"] = module
    try:
        message = refusal(validate_target, "acme_kernels.rectifi", calls_of(torch.neg))
    finally:
        del sys.modules["acme_kernels"]

    assert "did you mean 'acme_kernels.rectify', " in message


@pytest.mark.parametrize(
    "target",
    [
        "relu",
        "torch.relu",
        "torch.re*",
        "torch.nn.ReLU",
        "operator.add",
        "aten.neg",
        "aten.neg.default",
        "aten.add",
        "aten.add.Tensor",
        "higher_order.cond",
        "edge.aten.neg.default",
        "collections.OrderedDict",
        "collections.OrderedDict.items",
        "collect*.OrderedDict",
        "json.tool.*",
        "tests.test_operator_patterns.<locals>.inner",
        torch.relu,
        nn.ReLU,
    ],
)
def test_a_target_that_could_match_elsewhere_is_accepted(target):
    validate_target(target, calls_of(torch.neg))


def test_names_of_a_hook_may_have_any_form():
    def own_name(_):
        return "acme.rectify"

    validate_target("acme.*", calls_of(torch.relu, own_name=own_name))
    validate_target("unheard.*", calls_of(torch.relu, own_name=own_name), own_name)
    assert "could never match" in refusal(validate_target, "unheard.*", calls_of(torch.relu, own_name=own_name))


@pytest.mark.parametrize(
    "target",
    [
        "collections.OrderedDictt",
        "collections.OrderedDict.itemss",
        "collections.abc",
        "collections.namedtuple.__name__",
        "collections.gone.*",
        "json.no_such_module.*",
        "json.tool.main.*",
        "not_loaded.inner.function",
        "colle*.zzz",
    ],
)
def test_a_name_that_no_loaded_or_installed_module_has_is_refused(target, tmp_path, monkeypatch):
    monkeypatch.setattr(difflib, "get_close_matches", lambda *_, **options: [])  # takes most of the time
    monkeypatch.setitem(sys.modules, "collections.gone", None)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "not_loaded").mkdir()
    (tmp_path / "not_loaded/inner.py").touch()

    assert "could never match" in refusal(validate_target, target, calls_of(torch.neg))


# Dialects.


@pytest.mark.parametrize(
    ("targets", "called", "words"),
    [
        (["aten.relu*"], torch.relu, "aten.relu* could never match: the graph speaks torch and not aten"),
        (["aten.relu*"], torch.relu, "(it calls torch.relu). Name the operator in a dialect of the graph"),
        (["aten.relu*"], torch.relu, "here it is 'torch.relu'"),
        ([aten.relu.default, "prims.neg"], torch.relu, "aten.relu.default, prims.neg could never match"),
        ([aten.relu.default, "prims.neg"], torch.relu, "speaks torch and not aten, prims"),
        ([torch.neg], aten.relu.default, "torch.neg could never match: the graph speaks aten and not torch"),
        ([torch.neg], aten.relu.default, "Name the operator in a dialect of the graph: here it is '"),
        ([nn.Linear], aten.relu.default, "here it is 'aten.linear'"),
        (["aten.batch_norm*"], torch.batch_norm, "here it is 'torch.batch_norm'"),
        (["edge.aten.neg*"], aten.relu.default, "not edge (it calls aten.relu.default)"),
        (["tor?h.relu"], aten.relu.default, "tor?h.relu could never match: the graph speaks aten and not torch "),
        ([torch.neg], aten.relu.default, "here it is 'operator.neg' or 'aten.neg' or 'prims.neg'; or with a glob"),
        (["aten.linear*"], "fc", "here it is 'torch.nn.Linear' or 'torch.nn.functional.linear'"),
    ],
)
def test_a_question_in_another_dialect_is_refused(targets, called, words):
    assert words in refusal(refuse_unspoken, targets, calls_of(called))


@pytest.mark.parametrize(
    ("targets", "called"),
    [
        ([], torch.relu),
        (["aten.*"], torch.relu),
        (["edge.*"], torch.relu),
        (["edge.aten.*"], torch.relu),
        (["torch.nn.functional.*"], aten.relu.default),
        (["*relu*"], torch.relu),
        (["*relu*"], aten.relu.default),
        (["aten.relu*", "torch.relu"], torch.relu),
        (["relu"], torch.relu),
        ([nn.ReLU], torch.relu),
        ([operator.add], aten.relu.default),
        (["*unheard*"], aten.relu.default),
    ],
)
def test_a_question_in_a_dialect_of_the_graph_or_about_a_dialect_is_answered(targets, called):
    refuse_unspoken(targets, calls_of(called))


def test_a_list_that_allows_every_operator_is_refused():
    words = "could never fail: the list allows every operator. Name the allowed operators"

    assert refusal(refuse_unlimited, ["*"]) == f"only_from(['*']) {words}"
    assert refusal(refuse_unlimited, [nn.ReLU, "[a-m]*", "[!a-m]*"]).endswith(words)
    for allowed in ([], [nn.ReLU], ["aten.*"], ["[a-m]*", torch.relu]):
        refuse_unlimited(allowed)


def test_a_method_of_tensor_names_calls_of_the_method():
    calls = operator_calls(fxcore.symbolic_trace(lambda x: x.mean(0).add_(1) + torch.mean(x)))

    assert [call.node.name for call in calls if matches(torch.Tensor.mean, call)] == ["mean"]
    assert [call.node.name for call in calls if matches(torch.Tensor.add_, call)] == ["add_"]
    assert not any(matches(torch.Tensor.sum, call) for call in calls)
