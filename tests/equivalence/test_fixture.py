"""Eager and graph are compared in all that can be seen, and nothing is left behind."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import fxcore
from pytest_fxgraph.equivalence.fixture import FxEquivalence, check_equivalent
from pytest_fxgraph.equivalence.mismatch import EagerError, MismatchError


class Block(nn.Module):
    """Convolution, batch norm, dropout; nested outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.bn = nn.BatchNorm2d(4)

    def forward(self, x: torch.Tensor, scale: float = 2.0) -> dict[str, Any]:
        y = torch.relu(self.bn(self.conv(x))) * scale
        y = F.dropout(y, 0.5, self.training)
        return {"y": y, "parts": [y.mean((2, 3)), y.view(-1)]}


def image() -> torch.Tensor:
    return torch.rand(2, 3, 6, 6, generator=torch.Generator().manual_seed(1))


class Written(nn.Module):
    """A forward made of a function, so that two modules can stand for model and graph."""

    def __init__(self, forward: Any, **buffers: torch.Tensor) -> None:
        super().__init__()
        self.made_of = forward
        self.lin = nn.Linear(2, 2, bias=False)
        for name, value in buffers.items():
            self.register_buffer(name, value)
        with torch.no_grad():
            self.lin.weight.copy_(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.made_of(self, *args, **kwargs)


def difference(eager: Any, graph: Any, inputs: Any = None, **options: Any) -> str:
    """Compare two forwards, each over the same parameters, and give the message."""
    model, other = Written(eager, total=torch.zeros(2)), Written(graph, total=torch.zeros(2))
    with pytest.raises(MismatchError) as caught:
        check_equivalent(model, other, (torch.tensor([1.0, 2.0]),) if inputs is None else inputs, **options)
    assert len(str(caught.value).splitlines()) <= 6
    assert caught.value.mismatches[0].sentence() in caught.value.section
    return str(caught.value)


def test_a_traced_model_agrees_in_both_modes_with_gradients_on_many_samples():
    model = Block()

    graph = FxEquivalence()(model, image(), modes=("eval", "train"), grads=True, samples=3)

    assert isinstance(graph, fxcore.GraphModule)
    assert model.training


def test_keyword_arguments_reach_both():
    FxEquivalence()(Block(), (image(),), kwargs={"scale": 0.5})


def test_model_inputs_and_generators_are_left_as_they_were_even_when_it_raises():
    model, x = Block(), image().requires_grad_()
    model.bn.eval()
    state, before = copy.deepcopy(model.state_dict()), x.detach().clone()
    generators = torch.get_rng_state(), random.getstate()
    graph = fxcore.symbolic_trace(model)
    list(graph.graph.nodes)[-2].replace_all_uses_with(next(iter(graph.graph.nodes)))
    graph.recompile()

    with pytest.raises(AssertionError):
        FxEquivalence()(model, x, graph=graph, modes=("train",), grads=True)

    assert all(torch.equal(model.state_dict()[name], value) for name, value in state.items())
    assert torch.equal(x.detach(), before)
    assert x.grad is None
    assert all(parameter.grad is None for parameter in model.parameters())
    assert model.training
    assert not model.bn.training
    assert torch.equal(torch.get_rng_state(), generators[0])
    assert random.getstate() == generators[1]


def test_what_tracing_does_to_a_buffer_is_undone_before_the_comparison():
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls.add_(1)
            return x * self.calls

    model = Counting()

    # Symbolic tracing runs add_ once, for it meets no input; the graph never counts again.
    with pytest.raises(AssertionError, match="differ"):
        FxEquivalence()(model, torch.ones(2))

    assert model.calls == 0


def test_other_values_are_told_with_statistics():
    message = difference(lambda self, x: {"a": [self.lin(x)]}, lambda self, x: {"a": [self.lin(x) * 1.5]})

    assert "output['a'][0] has other values in the graph than in eager" in message
    assert "2 of 2 elements (100.0%) differ beyond rtol=1.3e-06, atol=1e-05 (float32)" in message
    assert "max abs error 5.5 at [1] (eager 11, graph 16.5); max rel error 0.5" in message
    assert "SQNR 6.0 dB, cosine 1.000000" in message


def test_wider_tolerances_are_obeyed():
    model, other = Written(lambda self, x: x * 1), Written(lambda self, x: x + 0.01)

    check_equivalent(model, other, torch.ones(2), atol=0.1)
    FxEquivalence(atol=0.1)(lambda x: x * 1, torch.ones(2), graph=fxcore.symbolic_trace(lambda x: x + 0.01))


@pytest.mark.parametrize(
    ("eager", "graph", "words"),
    [
        (lambda self, x: x.add_(1), lambda self, x: x + 1, "input 0 was changed in place by eager, not by the graph"),
        (lambda self, x: x + 1, lambda self, x: x.add_(1), "input 0 was changed in place by the graph, not by eager"),
        (lambda self, x: x.add_(1) * 0, lambda self, x: x.add_(2) * 0,
         "input 0 was changed in place by eager and by the graph, to different values"),
        (lambda self, x: x.view(1, 2), lambda self, x: x.view(1, 2).clone(),
         "output shares storage with input 0 in eager, with nothing in the graph"),
        (lambda self, x: (x * 2,) * 2, lambda self, x: (x * 2, x * 2),
         "output[1] shares storage with output[0] in eager, with nothing in the graph"),
        (lambda self, x: self.lin.weight, lambda self, x: self.lin.weight.detach().clone(),
         "output shares storage with lin.weight in eager"),
        (lambda self, x: self.total.add_(x).sum() * 0, lambda self, x: (self.total + x).sum() * 0,
         "buffer total was changed by eager, not by the graph"),
        (lambda self, x: x * 1, lambda self, x: (self.total.add_(x), x * 1)[1],
         "buffer total was changed by the graph, not by eager"),
        (lambda self, x: (self.total.add_(x), x * 1)[1], lambda self, x: (self.total.add_(2 * x), x * 1)[1],
         "buffer total has other values after the graph's call"),
        (lambda self, x: (setattr(self, "total", x * 2), x * 1)[1], lambda self, x: x * 1,
         "buffer total was changed by eager, not by the graph"),
        (lambda self, x: (self.lin.weight.data.mul_(2), x * 1)[1], lambda self, x: x * 1,
         "parameter lin.weight was changed by eager, not by the graph"),
        (lambda self, x: (torch.rand(1), x * 1)[1], lambda self, x: x * 1, "torch's CPU generator drew otherwise"),
        (lambda self, x: x * random.random(), lambda self, x: x * 0.8444218515250481,
         "Python's random drew otherwise"),
        (lambda self, x: x * 1, lambda self, x: x.undefined(), "the forward of the graph raised AttributeError"),
        (lambda self, x: x.double(), lambda self, x: x * 1, "output has dtype torch.float64 in eager, torch.float32"),
    ],
)  # fmt: skip
def test_every_sort_of_difference_is_caught_and_named(eager, graph, words):
    assert words in difference(eager, graph)


@pytest.mark.parametrize(
    ("eager", "graph", "words"),
    [
        (lambda self, x: self.lin(x), lambda self, x: self.lin(x.detach()), "gradient of input 0 exists in eager"),
        (lambda self, x: self.lin(x), lambda self, x: F.linear(x, self.lin.weight.detach()), "gradient of lin.weight"),
        (lambda self, x: x * 2, lambda self, x: x.detach() * 2, "output has requires_grad=True in eager, False"),
        (lambda self, x: x.clamp(min=0), lambda self, x: x + (x.relu() - x).detach(), "gradient of input 0 has other"),
    ],
)  # fmt: skip
def test_gradients_are_compared_where_asked_for(eager, graph, words):
    inputs = (torch.tensor([1.0, -2.0]),)
    check_equivalent(Written(eager), Written(graph), inputs)

    assert words in difference(eager, graph, inputs, grads=True)


def test_an_output_that_looks_into_the_state_keeps_its_value_when_the_state_is_put_back():
    def summing(self: Any, x: torch.Tensor) -> torch.Tensor:
        return self.total.add_(x)

    check_equivalent(Written(summing, total=torch.zeros(2)), Written(summing, total=torch.zeros(2)), torch.ones(2))
    assert "output has other values" in difference(summing, lambda self, x: self.total.add_(2 * x))


def test_random_operators_draw_alike_in_both_runs():
    FxEquivalence()(lambda x: x + torch.rand_like(x), torch.ones(3))


def test_a_difference_that_only_other_samples_show_is_found():
    def graph(self: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clamp(max=1.0)

    inputs = (torch.tensor([0.5, 1.0, 0.0]),)
    check_equivalent(Written(lambda self, x: x * 1), Written(graph), inputs, samples=4)
    wrong = Written(lambda self, x: x + (x - 0.5) * (x - 1.0) * x)

    check_equivalent(Written(lambda self, x: x * 1), wrong, inputs)
    with pytest.raises(AssertionError, match="sample 2 of 3, seed 0"):
        check_equivalent(Written(lambda self, x: x * 1), wrong, inputs, samples=3)


def test_a_model_that_fails_by_itself_is_not_called_a_mismatch():
    with pytest.raises(EagerError, match=r"the forward of the model itself raised RuntimeError.*Nothing was compared"):
        FxEquivalence()(nn.Linear(3, 1), torch.ones(2, 5))


def test_a_model_that_cannot_be_differentiated_is_not_called_a_mismatch():
    with pytest.raises(EagerError, match=r"the backward of the model itself raised.*so drop grads=True"):
        FxEquivalence()(lambda x: torch.floor_divide(x, 2), torch.ones(3), grads=True)


def test_gradients_of_a_model_without_any_are_refused_rather_than_passed():
    with pytest.raises(EagerError, match="no output of the model itself requires grad"):
        FxEquivalence()(lambda x: x.argmax(), torch.ones(3), grads=True)


def test_a_model_that_never_repeats_itself_is_told_so():
    calls = iter(range(100))

    message = difference(lambda self, x: x + next(calls), lambda self, x: x + 1)

    assert "eager does not agree with itself when run twice" in message


def test_a_graph_whose_code_is_older_than_itself_is_refused_though_its_results_agree():
    graph = fxcore.symbolic_trace(lambda x: torch.relu(x))
    next(node for node in graph.graph.nodes if node.op == "call_function").target = torch.sigmoid

    with pytest.raises(AssertionError, match=r"generated code is older than the graph.*call recompile\(\)"):
        FxEquivalence()(lambda x: torch.relu(x), torch.ones(2), graph=graph)


@pytest.mark.parametrize("modes", [(), ("test",), None, "evaluate"])
def test_unknown_modes_are_refused(modes):
    with pytest.raises(ValueError, match="modes must name at least one of 'eval', 'train'"):
        FxEquivalence()(nn.Linear(1, 1), torch.ones(1), modes=modes)


@pytest.mark.parametrize("samples", [0, -1, 1.5, True])
def test_a_number_of_samples_below_one_is_refused(samples):
    with pytest.raises(ValueError, match="samples must be a whole number of at least 1"):
        FxEquivalence()(nn.Linear(1, 1), torch.ones(1), samples=samples)


def test_no_grad_and_inference_mode_of_the_caller_are_respected():
    with torch.no_grad():
        FxEquivalence()(Block(), image())
        FxEquivalence()(Block(), image(), grads=True)
    with torch.inference_mode():
        FxEquivalence()(Block(), image())


def test_parametrised_and_hooked_modules_agree():
    model = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(3, 3)), nn.Linear(3, 2))
    model[1].register_forward_hook(lambda module, args, output: output * 2)

    FxEquivalence()(model, torch.ones(2, 3), modes=("eval", "train"), grads=True)


def test_a_mode_of_the_models_own_is_respected():
    class Frozen(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bn = nn.BatchNorm1d(3)

        def train(self, mode: bool = True) -> nn.Module:
            super().train(mode)
            self.bn.eval()
            return self

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.bn(x)

    FxEquivalence()(Frozen(), torch.rand(4, 3), modes=("train",))
