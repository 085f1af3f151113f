"""The options of symbolic_trace, and the question whether a trace runs."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import fxcore
from fxcore._symbolic_trace import _Patcher, is_fx_symbolic_tracing
from fxcore.errors import ExampleError, TraceError


def test_leaf_modules_become_one_node_each():
    model = nn.Sequential(nn.Sequential(nn.ReLU()), nn.ReLU())

    with_leaf = fxcore.symbolic_trace(model, leaf_modules=("0",))

    assert [node.target for node in with_leaf.graph.nodes if node.op == "call_module"] == ["0", "1"]
    assert [node.target for node in fxcore.symbolic_trace(model).graph.nodes if node.op == "call_module"] == [
        "0.0",
        "1",
    ]


@pytest.mark.parametrize("option", [{"verify": True}, {"enforce_guards": True}, {"assume": {"model.py:3": True}}])
def test_an_option_that_needs_an_example_is_refused_without_one(option):
    with pytest.raises(ExampleError, match="verify, enforce_guards and assume need an example: give example_inputs="):
        fxcore.symbolic_trace(nn.ReLU(), **option)


@pytest.mark.parametrize("option", [{"verify": False}, {"enforce_guards": False}, {"assume": {}}])
def test_an_option_that_is_off_needs_no_example(option):
    assert fxcore.symbolic_trace(nn.ReLU(), **option)(-torch.ones(2)).tolist() == [0, 0]


def test_examples_of_keywords_alone_are_an_example():
    def doubled(x):
        return x * 2 if x.shape[0] > 1 else x

    graph_module = fxcore.symbolic_trace(doubled, example_kwargs={"x": torch.ones(2)})

    assert [str(guard) for guard in graph_module.graph.guards] == ["x.shape[0] > 1"]


def branches_twice(x):
    if x.sum() > 0:
        x = x + 1
    return x if x.mean() > 0 else -x


def test_a_refusal_with_an_example_names_the_other_places():
    with pytest.raises(TraceError, match="lists all 2 places that stop this trace"):
        fxcore.symbolic_trace(branches_twice, example_inputs=torch.ones(3))


def test_a_refusal_without_an_example_names_its_own_place_alone():
    with pytest.raises(TraceError) as refusal:
        fxcore.symbolic_trace(branches_twice)

    assert "places that stop this trace" not in str(refusal.value)


class Counts(nn.Module):
    """A model whose second call depends on the first."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x * self.calls


def test_a_model_that_keeps_state_between_calls_is_refused():
    with pytest.raises(TraceError, match="a second call of the model computes with state that the first call left"):
        fxcore.symbolic_trace(Counts(), example_inputs=torch.ones(2))


def test_verify_false_gives_the_graph_of_the_first_call():
    graph_module = fxcore.symbolic_trace(Counts(), example_inputs=torch.ones(2), verify=False)

    assert graph_module(torch.ones(2)).tolist() == [1, 1]


def test_a_trace_that_compiles_is_no_symbolic_trace(monkeypatch):
    answers = []

    def asks(x):
        answers.append(is_fx_symbolic_tracing())
        with monkeypatch.context() as context:
            context.setattr(torch.compiler, "is_compiling", lambda: True)
            answers.append(is_fx_symbolic_tracing())
        return x

    fxcore.symbolic_trace(asks)

    assert answers == [True, False]
    assert not is_fx_symbolic_tracing()


def test_constants_of_a_trace_with_an_example_do_not_stay_on_the_model():
    class Adds(nn.Module):
        def forward(self, x):
            return x + torch.ones(2)

    plain, guided = Adds(), Adds()

    fxcore.symbolic_trace(plain)
    fxcore.symbolic_trace(guided, example_inputs=(torch.ones(2),))

    assert hasattr(plain, "_tensor_constant0")
    assert not hasattr(guided, "_tensor_constant0")


def test_a_patcher_puts_back_what_was_there():
    class Has:
        def method(self):
            return 1

    def new(*args):
        return 2

    method, names = Has.method, {"len": len, "own": 1}
    with _Patcher() as patcher:
        patcher.patch(names, "len", new, deduplicate=False)
        patcher.patch(names, "abs", new, deduplicate=False)
        patcher.patch(names, "own", new, deduplicate=False)
        patcher.patch_method(Has, "method", new, deduplicate=False)
        assert names == {"len": new, "own": new, "abs": new}
        assert Has().method() == 2
        with pytest.raises(KeyError):
            patcher.patch(names, "no builtin", new)

    assert (names, Has.method) == ({"len": len, "own": 1}, method)


@pytest.mark.parametrize(("options", "is_second"), [({}, False), ({"deduplicate": False}, True)])
def test_a_patcher_leaves_a_function_alone_that_somebody_installed_for_all(options, is_second):
    class Has:
        def method(self):
            return 1

    (first, second), (third, fourth) = [((lambda *args: 1), (lambda *args: 2)) for _ in range(2)]
    names = {"own": len}
    with _Patcher() as patcher:
        patcher.patch(names, "own", first, **options)
        patcher.patch(names, "own", second)
        assert names["own"] is (second if is_second else first)
        patcher.patch_method(Has, "method", third, **options)
        patcher.patch_method(Has, "method", fourth)
        assert Has.method is (fourth if is_second else third)
