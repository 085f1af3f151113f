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
from fixtures.shown_frames import raises_here
from pytest_fxgraph.choices import CHECKS
from pytest_fxgraph.equivalence.fixture import FxEquivalence
from pytest_fxgraph.equivalence.run import InterpreterCall
from pytest_fxgraph.errors import ChoiceError, EagerError, MismatchError, SubjectError, VacuousCheckError
from pytest_fxgraph.functions import assert_equivalent


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
    with raises_here(MismatchError) as caught:
        assert_equivalent(model, other, (torch.tensor([1.0, 2.0]),) if inputs is None else inputs, **options)
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

    with raises_here(AssertionError):
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
    with raises_here(AssertionError, match="differ"):
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

    assert_equivalent(model, other, torch.ones(2), atol=0.1)
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
    assert_equivalent(Written(eager), Written(graph), inputs)

    assert words in difference(eager, graph, inputs, grads=True)


def test_an_output_that_looks_into_the_state_keeps_its_value_when_the_state_is_put_back():
    def summing(self: Any, x: torch.Tensor) -> torch.Tensor:
        return self.total.add_(x)

    assert_equivalent(Written(summing, total=torch.zeros(2)), Written(summing, total=torch.zeros(2)), torch.ones(2))
    assert "output has other values" in difference(summing, lambda self, x: self.total.add_(2 * x))


def test_random_operators_draw_alike_in_both_runs():
    FxEquivalence()(lambda x: x + torch.rand_like(x), torch.ones(3))


def test_a_difference_that_only_other_samples_show_is_found():
    def graph(self: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clamp(max=1.0)

    inputs = (torch.tensor([0.5, 1.0, 0.0]),)
    assert_equivalent(Written(lambda self, x: x * 1), Written(graph), inputs, samples=4)
    wrong = Written(lambda self, x: x + (x - 0.5) * (x - 1.0) * x)

    assert_equivalent(Written(lambda self, x: x * 1), wrong, inputs)
    with raises_here(AssertionError, match="sample 2 of 3, seed 0"):
        assert_equivalent(Written(lambda self, x: x * 1), wrong, inputs, samples=3)


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

    with raises_here(AssertionError, match=r"generated code is older than the graph.*call recompile\(\)"):
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


def quantized(x: torch.Tensor) -> torch.Tensor:
    """Round as a pass does that quantizes to 8 bits: right, and far beyond every tolerance for each element."""
    return (x * 32).round() / 32


def test_a_pass_that_rounds_on_purpose_passes_at_the_signal_to_noise_that_it_promises():
    x = torch.linspace(-2, 2, 4001)
    graph = fxcore.symbolic_trace(quantized)

    FxEquivalence()(lambda x: x * 1, x, graph=graph, sqnr=40, cosine=0.9999)
    with raises_here(
        MismatchError, match=r"has other values in the graph than in eager\n  SQNR is 42\.\d dB, at least 60"
    ):
        FxEquivalence()(lambda x: x * 1, x, graph=graph, sqnr=60)
    with raises_here(MismatchError, match=r"4.. of 4001 elements|differ beyond rtol"):
        FxEquivalence()(lambda x: x * 1, x, graph=graph)


def test_integers_beside_thresholds_are_exact_and_a_scaled_output_passes_a_cosine_alone():
    def eager(x):
        return x * 1, x.argmax()

    FxEquivalence()(eager, torch.arange(4.0), graph=fxcore.symbolic_trace(lambda x: (x * 3, x.argmax())), cosine=0.999)
    with raises_here(MismatchError, match=r"output\[1\] has other values"):
        FxEquivalence()(
            eager, torch.arange(4.0), graph=fxcore.symbolic_trace(lambda x: (x * 1, x.argmin())), cosine=0.999
        )


@pytest.mark.parametrize("options", [{"sqnr": 20}, {"cosine": 0.9}])
def test_thresholds_on_an_output_of_zeros_say_nothing(options):
    with raises_here(
        VacuousCheckError,
        match=r"is compared with an? (SQNR|cosine) of at least [\d.]+( dB)?\. Init.*inputs; allow_vac",
    ):
        FxEquivalence()(lambda x: x * 0, torch.ones(3), **options)


def test_gradients_have_to_reach_the_thresholds_unless_they_are_rounding_alone():
    class Model(nn.Module):
        def __init__(self, scale):
            super().__init__()
            self.weight = nn.Parameter(torch.linspace(1, 2, 8))
            self.bias = nn.Parameter(torch.ones(8))
            self.scale = scale

        def forward(self, x):
            y = x * (self.weight + (self.scale - 1) * (self.weight - self.weight.detach())) + self.bias
            return y + 1e-7 * self.scale * self.bias - self.bias  # what reaches the bias is next to nothing

    x = torch.linspace(1, 3, 8)
    assert_equivalent(Model(1.0), Model(1.01), x, grads=True, sqnr=30)
    with raises_here(MismatchError, match=r"gradient of weight .*\n  SQNR is 14\.0 dB, at least 30 dB"):
        assert_equivalent(Model(1.0), Model(1.2), x, grads=True, sqnr=30)


def test_each_output_has_a_tolerance_of_its_own():
    def eager(x):
        return {"logits": x * 1, "loss": x.sum()}

    def rounded(x):
        return {"logits": x * 1.001, "loss": x.sum() * 1.001}

    graph = fxcore.symbolic_trace(rounded)

    FxEquivalence()(eager, torch.ones(3), graph=graph, rtol={"*logits*": 1e-2, "output['loss']": 1e-2})
    with raises_here(MismatchError, match=r"output\['loss'\] has other values"):
        FxEquivalence()(eager, torch.ones(3), graph=graph, rtol={"*logits*": 1e-2})
    FxEquivalence(rtol=1e-2)(eager, torch.ones(3), graph=graph, rtol={"*logits*": 2e-2})


def test_a_tolerance_for_a_path_that_does_not_exist_is_refused_with_those_that_do():
    words = r"there is a tolerance for 'output\[2\]'.* matches it; there are output\[0\], output\[1\], input 0"
    with pytest.raises(ChoiceError, match=words):
        FxEquivalence()(lambda x: (x + 1, x - 1), torch.ones(2), atol={"output[2]": 0.1, "*": 0.1})


def test_thresholds_of_a_call_take_the_place_of_the_tests_tolerances_and_the_other_way_round():
    x, graph = torch.linspace(-2, 2, 4001), fxcore.symbolic_trace(quantized)

    FxEquivalence(rtol=0.0, atol=0.0)(lambda x: x * 1, x, graph=graph, sqnr=40)
    FxEquivalence(sqnr=60)(lambda x: x * 1, x, graph=graph, atol=0.1)
    with raises_here(MismatchError, match="differ beyond"):
        FxEquivalence(sqnr=40)(lambda x: x * 1, x, graph=graph, atol=0.001)
    with raises_here(MismatchError, match="differ beyond"):
        FxEquivalence()(lambda x: x * 1, x, graph=graph, sqnr=40, atol=0.001)


def noisy(self, x):
    return x * 1 + 0 * torch.rand(2)


@pytest.mark.parametrize(
    ("check", "eager", "graph"),
    [
        ("values", lambda self, x: x * 2, lambda self, x: x * 3),
        ("dtype", lambda self, x: x * 2, lambda self, x: (x * 2).double()),
        ("strides", lambda self, x: x.expand(2, 2) + 1, lambda self, x: (x.expand(2, 2) + 1).t().contiguous().t() * 1),
        ("aliasing", lambda self, x: x.view(2), lambda self, x: x.clone()),
        ("mutation", lambda self, x: x * 2, lambda self, x: x.mul_(2) * 1),
        ("state", lambda self, x: x * 2, lambda self, x: (self.total.add_(1), x * 2)[1]),
        ("rng", lambda self, x: x * 1, noisy),
        ("global state", lambda self, x: x * 1, lambda self, x: (torch.set_grad_enabled(False), x * 1)[1]),
    ],
)
def test_each_check_can_be_left_out_and_chosen(check, eager, graph):
    # The state of one is that of the second call, too.
    others = set(CHECKS) - {check} - ({"second call"} if check == "state" else set())

    assert difference(eager, graph, checks=check)
    assert_equivalent(
        Written(eager, total=torch.zeros(2)),
        Written(graph, total=torch.zeros(2)),
        torch.tensor([1.0, 2.0]),
        checks=others - ({"values"} if check == "strides" else set()),
    )


def test_a_second_call_can_be_left_out():
    def counting(self, x):
        self.lin.calls = getattr(self.lin, "calls", 0) + 1
        return x * self.lin.calls

    assert "second call" in difference(counting, lambda self, x: x * 1)
    model, other = Written(counting), Written(lambda self, x: x * 1)
    assert_equivalent(model, other, torch.ones(2), checks=set(CHECKS) - {"second call"})


def test_gradients_are_compared_with_grads_whatever_the_checks_are():
    def detached(self, x):
        return self.lin(x).detach() + self.lin.weight.sum() * 0

    assert "gradient" in difference(lambda self, x: self.lin(x), detached, grads=True, checks="values")


@pytest.mark.parametrize(
    ("checks", "words"),
    [
        (("value",), "did you mean 'values'"),
        ("gradients", r"checks=\('gradients',\) compares nothing without grads=True"),
        ((), "compares nothing; name at least one"),
    ],
)
def test_checks_that_say_nothing_are_refused(checks, words):
    with pytest.raises(ChoiceError, match=words):
        FxEquivalence()(lambda x: x * 1, torch.ones(2), checks=checks)


def test_only_what_is_compared_keeps_a_check_from_being_vacuous():
    model = Written(lambda self, x: (self.total.add_(1), x * 0)[1], total=torch.zeros(2))

    assert_equivalent(model, copy.deepcopy(model), torch.ones(2))
    with raises_here(VacuousCheckError):
        assert_equivalent(model, copy.deepcopy(model), torch.ones(2), checks="values")
    assert_equivalent(model, copy.deepcopy(model), torch.ones(2), checks=("strides", "dtype"))


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x):
        self.total.add_(x.detach().sum(0))
        return self.linear(x).relu()


class Forgetting(Counting):
    def forward(self, x):
        return self.linear(x).relu()


def test_a_scripted_module_is_compared_with_its_state_and_gradients():
    torch.manual_seed(0)
    model, forgetting, x = Counting(), Forgetting(), torch.randn(3, 4)
    forgetting.load_state_dict(model.state_dict())
    scripted, traced = torch.jit.script(model), torch.jit.trace(model, x, check_trace=False)
    before = scripted.total.clone()

    for graph in (scripted, traced):
        for mode in ("eval", "train"):
            assert_equivalent(model, graph, x, grads=True, modes=mode)
        assert torch.equal(graph.total, before)
    assert_equivalent(lambda x: x.sin(), torch.jit.trace(lambda x: x.sin(), x), x)

    with raises_here(MismatchError, match="buffer total was changed by eager, not by the graph"):
        assert_equivalent(model, torch.jit.script(forgetting), x)
    with raises_here(MismatchError, match="output has other values"):
        assert_equivalent(lambda x: x.sin(), torch.jit.trace(lambda x: x.cos(), x), x)


def test_a_scripted_graph_of_the_fixture_is_refused_with_the_function_that_compares_it(fx_equivalence):
    model, x = Counting(), torch.randn(3, 4)

    with pytest.raises(SubjectError, match=r"Compare it by assert_equivalent\(model, scripted, inputs\)"):
        fx_equivalence(model, x, graph=torch.jit.script(model))


class Runs(fxcore.Interpreter):
    """An interpreter of the user's."""


def test_an_interpreter_takes_only_arguments_that_its_graph_has():
    call = InterpreterCall(Runs, fxcore.symbolic_trace(nn.ReLU()))

    assert call(torch.ones(1)) == 1
    with pytest.raises(SubjectError, match=r"cannot run Runs: the graph's inputs do not name .* \['mask'\]"):
        call(torch.ones(1), mask=1)


@pytest.mark.parametrize("option", ["rtol", "atol"])
def test_a_tolerance_for_a_path_that_nothing_has_is_refused(fx_equivalence, option):
    with pytest.raises(ChoiceError, match="there is a tolerance for 'outptu', and nothing is compared at a path"):
        fx_equivalence(torch.nn.ReLU(), torch.randn(2), **{option: {"outptu": 0.1}})


class ByMode(nn.Module):
    def forward(self, x):
        return x * (3 if self.training else 2)


@pytest.mark.parametrize(("before", "mode"), [(True, "eval"), (False, "train"), (True, "train"), (False, "eval")])
def test_the_model_runs_in_the_mode_of_the_check_or_in_its_own(before, mode):
    model = ByMode().train(before)
    graphs = {True: fxcore.symbolic_trace(lambda x: x * 3), False: fxcore.symbolic_trace(lambda x: x * 2)}

    FxEquivalence()(model, torch.ones(2), graph=graphs[mode == "train"], modes=mode)
    FxEquivalence().assert_equivalent(model, graphs[before], torch.ones(2), None, {})

    assert model.training is before


def test_a_lazy_model_and_a_branch_on_sizes_are_traced_with_the_inputs():
    def halved(x):
        return x[: len(x) // 2] if len(x) > 1 else x + 1

    assert isinstance(FxEquivalence()(nn.LazyLinear(2), torch.ones(2, 3)), fxcore.GraphModule)
    assert isinstance(FxEquivalence()(halved, torch.ones(4)), fxcore.GraphModule)


def test_a_graph_module_of_torch_keeps_its_nodes_and_a_function_is_traced():
    made = torch.fx.symbolic_trace(nn.ReLU())
    for node in made.graph.nodes:
        node.name = f"own_{node.name}"
    made.recompile()

    graph = FxEquivalence()(made, torch.ones(2))
    traced = FxEquivalence()(nn.ReLU(), torch.ones(2), graph=lambda x: x.relu())

    assert [node.name for node in graph.graph.nodes][1:2] == ["own_relu"]
    assert [node.target for node in traced.graph.nodes] == ["x", "relu", "output"]
