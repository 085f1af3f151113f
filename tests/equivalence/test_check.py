"""What a check can see: small outputs, large outputs, untouched inputs, and outputs that say nothing."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings, strategies
from torch import nn
from torch.overrides import TorchFunctionMode

import fxcore
from fxcore.state.snapshot import Snapshot
from pytest_fxgraph.choices import CHECKS
from pytest_fxgraph.equivalence import check
from pytest_fxgraph.equivalence.check import EquivalenceCheck, GraphCall, code_is_stale
from pytest_fxgraph.equivalence.fixture import FxEquivalence
from pytest_fxgraph.equivalence.inputs import Arguments
from pytest_fxgraph.equivalence.outputs import OutputComparison
from pytest_fxgraph.equivalence.tolerance import ToleranceRule
from pytest_fxgraph.errors import ChoiceError, EagerError, MismatchError, VacuousCheckError
from pytest_fxgraph.functions import assert_equivalent


def graph_of(function):
    return fxcore.symbolic_trace(function)


def values(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("size", [1.0, 1e-5, 1e-9, 1e-14, 1e-30])
def test_another_activation_is_caught_however_small_the_output(size):
    def eager(x):
        return torch.nn.functional.silu(x) * size

    def wrong(x):
        return torch.nn.functional.gelu(x) * size

    FxEquivalence()(eager, values(64), graph=graph_of(lambda x: (x * x.sigmoid()) * size))
    with pytest.raises(MismatchError, match="has other values in the graph than in eager"):
        FxEquivalence()(eager, values(64), graph=graph_of(wrong))


def test_zeros_for_a_tiny_output_are_caught():
    with pytest.raises(MismatchError):
        FxEquivalence()(lambda x: x * 1e-13, values(8), graph=graph_of(lambda x: x * 0.0))


def test_rounding_in_a_small_gradient_passes_and_an_error_does_not():
    def eager(x):
        return (x * 1e-7).tanh()

    def wrong(x):
        return (x * 1e-7).tanh().detach() + (x * 0.9e-7) - (x * 0.9e-7).detach()

    FxEquivalence()(eager, values(64), graph=graph_of(lambda x: ((x * 2) * 5e-8).tanh()), grads=True)
    with pytest.raises(MismatchError, match="gradient of input 0"):
        FxEquivalence()(eager, values(64), graph=graph_of(wrong), grads=True)


class Sums(nn.Module):
    """Adds many large numbers, which end near zero here and there; `reverse` adds them in another order."""

    def __init__(self, reverse):
        super().__init__()
        self.weight = nn.Parameter(1e4 * values(64, 512))
        self.reverse = reverse

    def forward(self, x):
        if self.reverse:
            return torch.nn.functional.linear(x.flip(1), self.weight.flip(1))
        return torch.nn.functional.linear(x, self.weight)


def test_sums_of_large_numbers_may_be_rounded_otherwise():
    with pytest.raises(AssertionError):
        torch.testing.assert_close(Sums(True)(values(16, 512)), Sums(False)(values(16, 512)))

    FxEquivalence()(Sums(False), values(16, 512), graph=fxcore.symbolic_trace(Sums(True)))


def test_a_small_error_beside_large_values_is_no_rounding():
    def eager(x):
        return torch.cat([x * 1e4, x / 1.5])

    with pytest.raises(MismatchError):
        FxEquivalence()(eager, values(16), graph=graph_of(lambda x: torch.cat([x * 1e4, x / 1.5001])))


def test_an_input_that_eager_leaves_alone_must_be_left_alone_to_the_bit():
    def graph(x, y):
        x[0].add_(1e-3)
        return y * 2

    inputs = (torch.full((4,), 1e4), values(4))
    with pytest.raises(MismatchError, match="input 0 was changed in place by the graph, not by eager"):
        FxEquivalence()(lambda x, y: y * 2, inputs, graph=graph_of(graph))


@pytest.mark.parametrize(
    ("model", "options"),
    [(lambda x: x * 0.0, {}), (lambda x: x * 1e-9, {"atol": 1e-5}), (lambda x: {"a": x * 0, "b": (None, x * 0)}, {})],
    ids=["zeros", "below the atol that was given", "zeros in a structure"],
)
def test_a_check_that_zeros_would_pass_is_an_error(model, options):
    with pytest.raises(VacuousCheckError, match="says nothing: a graph that gives zeros would pass, too") as caught:
        FxEquivalence()(model, values(4), **options)

    assert "Initialise the model so that its output is not zero" in str(caught.value)


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (lambda x: x[:0] * 2, "output is empty"),
        (lambda x: {"a": x / 0 * 0}, r"output\['a'\] holds only NaN and infinities"),
        (lambda x: (x.to("meta") * 2, None), r"output\[0\] has no values on the meta device"),
        (lambda x: None, "the model returns no value and changes no state"),
    ],
    ids=["empty", "NaN", "meta", "nothing"],
)
def test_a_check_without_a_finite_value_is_an_error_with_its_reason(model, reason):
    with pytest.raises(VacuousCheckError, match=f"says nothing: {reason}. .*; allow_vacuous=True lets the check pass"):
        FxEquivalence()(model, values(4))

    FxEquivalence()(model, values(4), allow_vacuous=True)


@pytest.mark.parametrize("checks", ["dtype", ("strides", "aliasing")])
def test_a_check_of_facts_needs_an_output(checks):
    with pytest.raises(VacuousCheckError, match="the model returns no value and changes no state"):
        FxEquivalence()(lambda x: None, values(4), checks=checks)

    FxEquivalence()(lambda x: x.to("meta"), values(4), checks=checks)
    FxEquivalence()(
        lambda x: None, values(4), checks=(checks, "state") if isinstance(checks, str) else (*checks, "rng")
    )


def test_one_sample_that_could_differ_is_enough():
    with pytest.raises(VacuousCheckError, match="No magnitude in the output exceeds 0"):
        FxEquivalence()(lambda x: x * 2, torch.zeros(8))

    FxEquivalence()(lambda x: x * 2, torch.zeros(8), samples=2)  # the second sample is drawn


def test_an_example_of_hypothesis_that_says_nothing_is_passed_over():
    seen = []

    @settings(database=None, derandomize=True)
    @given(strategies.sampled_from([0.0, 1.0]))
    def checked(factor):
        FxEquivalence()(lambda x: x * factor, values(4))
        seen.append(factor)

    checked()

    assert set(seen) == {1.0}


@pytest.mark.parametrize(
    "model",
    [
        lambda x: (x * 0, x > 0),
        lambda x: (x * 0, x.shape[0]),
        lambda x: (x * 0, x),
        lambda x: (x * 0, x / 0 * 0, x),
        lambda x: x.add_(1) * 0,
    ],
    ids=["a bool beside", "a number beside", "a value beside", "a value beside NaN", "a changed input"],
)
def test_one_value_that_could_differ_is_enough(model):
    FxEquivalence()(model, values(4))


def test_what_an_iterator_gives_is_compared():
    def eager(x):
        return {"parts": map(torch.neg, (x, x * 2))}

    assert_equivalent(eager, eager, values(4))
    with pytest.raises(MismatchError, match=r"output\['parts'\]\[1\] has other values"):
        assert_equivalent(eager, lambda x: {"parts": map(torch.neg, (x, x * 3))}, values(4))


def test_gradients_that_are_not_zero_are_enough():
    FxEquivalence()(lambda x: x - x.detach(), values(4), grads=True)


def set_grad_mode(x):
    torch.set_grad_enabled(False)
    return x * 2


def set_dtype(x):
    torch.set_default_dtype(torch.float64)
    return x * 2


def set_threads(x):
    torch.set_num_threads(torch.get_num_threads() + 1)
    return x * 2


def set_deterministic(x):
    torch.use_deterministic_algorithms(True)
    return x * 2


def set_device(x):
    torch.set_default_device("meta")
    return x * 2


def set_autocast(x):
    torch.set_autocast_enabled("cpu", True)
    return x * 2


def set_precision(x):
    torch.set_float32_matmul_precision("medium")
    return x * 2


def hook_all_modules(x):
    torch.nn.modules.module.register_module_forward_pre_hook(lambda module, args: None)
    return x * 2


class Plain(TorchFunctionMode):
    """Changes nothing."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def enter_a_mode(x):
    Plain().__enter__()
    return x * 2


def set_print_options(x):
    torch.set_printoptions(precision=2)
    return x * 2


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (set_precision, "the precision of float32 matrix products was left highest -> medium by the graph"),
        (hook_all_modules, "hooks of all modules was left 0 hooks -> 1 hook by the graph"),
        (enter_a_mode, "the number of modes for torch functions was left 0 -> 1 by the graph"),
        (set_print_options, "the print options was left "),
        (set_grad_mode, "grad mode was left True -> False by the graph, unchanged by eager; it was put back"),
        (set_dtype, "the default dtype was left torch.float32 -> torch.float64 by the graph"),
        (set_threads, "the number of threads was left "),
        (set_deterministic, "use of deterministic algorithms was left (False, False) -> (True, False) by the graph"),
        (set_device, "the default device was left None -> meta by the graph"),
        (set_autocast, "autocast on cpu was left (False, torch.bfloat16) -> (True, torch.bfloat16) by the graph"),
    ],
)
def test_a_setting_of_torch_that_the_graph_leaves_changed_is_told_and_put_back(wrong, words):
    before = Snapshot.of_globals(generators=False)

    with pytest.raises(MismatchError) as caught:
        assert_equivalent(lambda x: x * 2, wrong, values(4))

    assert words in str(caught.value)
    assert before.changes() == []


def test_a_setting_that_both_change_is_put_back_and_no_difference():
    before = Snapshot.of_globals(generators=False)

    assert_equivalent(set_deterministic, set_deterministic, values(4))

    assert before.changes() == []


def test_settings_are_put_back_after_an_error():
    def fails(x):
        set_dtype(x)
        raise ValueError("no")

    with pytest.raises(EagerError, match="no"):
        assert_equivalent(fails, fails, values(4))

    assert torch.get_default_dtype() == torch.float32


class Counting(nn.Module):
    """Adds how often it was called: tracing takes the count for a constant."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x + self.calls


class Summing(nn.Module):
    """Adds a sum over all calls."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(()))

    def forward(self, x):
        self.total.add_(x.sum())
        return x + self.total


def test_state_that_only_shows_in_a_second_call_is_found():
    model = Counting()

    with pytest.raises(MismatchError, match="output of a second call has other values in the graph than in eager"):
        FxEquivalence()(model, values(4))

    assert model.calls == 0


def test_two_calls_in_a_row_of_a_right_graph_agree():
    FxEquivalence()(Summing(), values(4), modes=("eval", "train"), samples=2)


def test_a_second_call_that_only_the_graph_does_not_survive_is_told():
    class Once(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("used", torch.zeros(()))

        def forward(self, x):
            if self.used:
                raise RuntimeError("used up")
            self.used += 1
            return x * 2

    class Twice(Once):
        def forward(self, x):
            self.used.fill_(1)
            return x * 2

    with pytest.raises(MismatchError, match="a second call of the graph raised RuntimeError: used up; eager ran"):
        assert_equivalent(Twice(), Once(), values(4))


def test_an_input_that_is_made_to_require_grad_by_the_graph_alone_is_told():
    def wrong(x):
        x.requires_grad_()
        return (x * 2).detach()

    with pytest.raises(
        MismatchError, match=r"input 0 has requires_grad=False after eager's call, True after the graph"
    ):
        assert_equivalent(lambda x: x * 2, wrong, values(4))


def test_code_is_written_again_only_for_a_graph_that_changed_since_its_last_recompile(monkeypatch):
    graph = graph_of(lambda x: x.relu() + 1)
    assert "relu" in graph.code
    written = []
    write = fxcore.Graph.python_code
    monkeypatch.setattr(
        fxcore.Graph, "python_code", lambda *args, **kwargs: written.append(1) or write(*args, **kwargs)
    )

    assert not code_is_stale(graph)
    assert not written

    (called,) = [node for node in graph.graph.nodes if node.op == "call_method"]
    called.target = "sigmoid"
    assert code_is_stale(graph)
    called.target = "relu"
    assert not code_is_stale(graph)
    called.target = "tanh"
    graph.recompile()
    assert not code_is_stale(graph)


def test_a_part_of_an_input_that_one_run_replaces_is_told():
    class Wrapped(torch.Tensor):
        pass

    def replaced(parts):
        parts[0] = parts[0].as_subclass(Wrapped)
        return parts[1] * 1

    graph = fxcore.Graph()
    graph.output(graph.call_function(replaced, (graph.placeholder("parts"),)))

    with pytest.raises(MismatchError, match=r"input 0\[0\]"):
        assert_equivalent(lambda parts: parts[1] * 1, fxcore.GraphModule({}, graph), ([torch.ones(1), torch.ones(1)],))


@pytest.mark.parametrize("samples", [0, -1, 1.0, True, "2"])
def test_samples_are_a_whole_number_of_at_least_1(samples):
    with pytest.raises(ChoiceError, match="samples must be a whole number of at least 1, got "):
        FxEquivalence()(torch.relu, values(2), samples=samples)


def new_check(*inputs, grads=False, samples=1, **options):
    comparison = OutputComparison(ToleranceRule(), requires_grad=grads)
    return EquivalenceCheck(Arguments(inputs, {}), comparison, samples, 0, grads, **options)


def test_a_check_without_a_guard_restores_model_and_graph_as_well():
    model, graph = Summing(), Summing()

    new_check(values(4)).run(model, GraphCall(graph, graph), None)

    assert model.total == graph.total == 0


def test_the_graph_that_explanations_show_is_the_one_of_fxcore():
    graph, other, call = graph_of(lambda x: x * 2), nn.Identity(), lambda x: x

    assert GraphCall(graph, graph).shown() == GraphCall(graph, graph)
    assert GraphCall(other, other, graph).shown() == GraphCall(graph, graph)
    for own_call in (GraphCall(graph, call), GraphCall(other, call, graph)):
        assert own_call.shown() is own_call


class Counted(nn.Module):
    """Adds to its buffer, seen by torch's version counter or not; fails from a value of the buffer on."""

    def __init__(self, *, uncounted=0.0, counted=0.0, limit=9.0, factor=2.0):
        super().__init__()
        self.register_buffer("total", torch.zeros(()))
        self.uncounted, self.counted, self.limit, self.factor = uncounted, counted, limit, factor

    def forward(self, x):
        if self.total >= self.limit:
            raise ValueError("too much")
        if self.uncounted:
            self.total.data.add_(self.uncounted)
        if self.counted:
            self.total.add_(self.counted)
        return x * self.factor


@pytest.fixture
def runs_of(monkeypatch):
    """Return a function that lists the runs of a check: which, whether versions are trusted, how often."""

    def listed(model, graph, **options):
        runs = []
        run_model = check.run_model

        def noted(call, root, settings):
            name = "eager" if call is model else "graph"
            twice = f" twice {settings.second_inputs}" if settings.second_call else ""
            runs.append(f"{name} {'quick' if settings.trust_versions else 'whole'}{twice}")
            return run_model(call, root, settings)

        monkeypatch.setattr(check, "run_model", noted)
        try:
            new_check(values(4).abs(), explains=False, **options).run(model, GraphCall(graph, graph), None)
        except MismatchError as error:
            runs.append(error.mismatches[0].kind)
        finally:
            monkeypatch.setattr(check, "run_model", run_model)
        return runs

    return listed


AGAIN = ["eager whole", "graph whole"]


@pytest.mark.parametrize(
    ("of_model", "of_graph", "runs"),
    [
        ({}, {}, ["eager quick", "graph whole"]),
        ({}, {"factor": 3.0}, ["eager quick", "graph whole", *AGAIN, "value"]),
        ({}, {"limit": 0.0}, ["eager quick", "graph whole", *AGAIN, "error"]),
        (
            {"uncounted": 1.0},
            {"uncounted": 1.0},
            ["eager quick", "graph whole", "eager whole", "graph whole twice others"],
        ),
        ({"uncounted": 1.0}, {}, ["eager quick", "graph whole", "eager whole", "graph whole twice others", "state"]),
        ({"counted": 1.0}, {"counted": 1.0}, ["eager quick", "graph whole twice others"]),
    ],
)
def test_all_parameters_are_read_after_the_second_run_unless_the_runs_differ(runs_of, of_model, of_graph, runs):
    assert runs_of(Counted(**of_model), Counted(**of_graph)) == runs


calls_of_keeps: list[int] = []


def keeps(x):
    calls_of_keeps.append(1)
    return x * 2.0


def test_both_are_called_twice_on_request_and_where_the_graph_may_keep_state(runs_of):
    assert runs_of(Counted(), Counted(), second_call=True) == ["eager quick twice inner", "graph whole twice inner"]
    assert runs_of(Counted(), keeps) == ["eager quick twice others", "graph whole twice others"]


def test_all_parameters_are_read_after_both_runs_with_gradients(runs_of):
    model, graph = nn.Linear(4, 4), nn.Linear(4, 4)
    graph.load_state_dict(model.state_dict())

    assert runs_of(model, graph, grads=True) == AGAIN


def test_runs_that_agree_the_second_time_alone_do_not_agree():
    factors = iter([3.0, 2.0, 2.0, 2.0])

    with pytest.raises(MismatchError, match="output has other values"):
        assert_equivalent(lambda x: x * 2.0, lambda x: x * next(factors), values(4))


def test_no_more_than_two_calls_in_a_row_are_compared():
    class Steps(nn.Module):
        def __init__(self, most):
            super().__init__()
            self.register_buffer("steps", torch.zeros(()))
            self.most = most

        def forward(self, x):
            self.steps.add_(1)
            return x * self.steps.clamp(max=self.most)

    assert_equivalent(Steps(2), Steps(3), values(4))
    with pytest.raises(MismatchError, match="output of a second call"):
        assert_equivalent(Steps(2), Steps(1), values(4))


@pytest.mark.parametrize("name", ["rtol", "atol"])
def test_a_tolerance_for_a_path_that_is_not_compared_names_twelve_paths(name):
    def many(x):
        return [x * (number + 1) for number in range(12)]

    with pytest.raises(ChoiceError) as caught:
        assert_equivalent(many, many, values(4), **{name: {"loss": 0.1}})

    paths = ", ".join(f"output[{number}]" for number in range(12))
    assert str(caught.value) == (
        "there is a tolerance for 'loss', and nothing is compared at a path that matches it; "
        f"there are {paths} and 1 more"
    )


def shifts(x, y):
    return x + torch.relu(y)


def ignores(x, y):
    return x * 1


def test_an_input_that_the_graph_lost_is_a_mismatch_in_the_first_sample_of_a_strict_check(monkeypatch):
    asked = []
    unread = check.unread_inputs
    monkeypatch.setattr(check, "unread_inputs", lambda *args: asked.append(1) or unread(*args))
    inputs = values(4), -torch.ones(4)

    new_check(*inputs).run(shifts, GraphCall(ignores, ignores), None)
    assert not asked
    new_check(*inputs, samples=3, strict_inputs=True).run(shifts, GraphCall(shifts, shifts), None)
    assert len(asked) == 1
    with pytest.raises(MismatchError, match="input 1"):
        new_check(*inputs, strict_inputs=True).run(shifts, GraphCall(ignores, ignores), None)


@pytest.mark.parametrize(
    ("options", "count"),
    [({}, (1, 1)), ({"strict_inputs": True}, (1, 1)), ({"explains": False}, (0, 0))],
)
def test_a_lost_input_and_the_place_are_told_once(options, count):
    with pytest.raises(MismatchError) as caught:
        new_check(values(4), torch.ones(4), **options).run(shifts, GraphCall(ignores, ignores), None)

    lines = caught.value.section.splitlines()
    told = [sum("input 1" in line for line in lines), sum("first parted" in line for line in lines)]
    assert tuple(told) == count


def test_the_place_comes_before_hooks_and_inputs_of_the_operator_after_them():
    model, graph = nn.Softmax(0), nn.Softmax(1)
    model.register_forward_hook(lambda module, args, output: None)

    with pytest.raises(MismatchError) as caught:
        new_check(values(2, 4)).run(model, GraphCall(graph, graph), None)

    place, hooks, inputs = caught.value.section.splitlines()[-3:]
    assert place.startswith("first parted")
    assert hooks.startswith("the model itself has forward hooks")
    assert "its inputs in eager: float32[2, 4]" in inputs


@pytest.mark.parametrize("register", ["register_forward_hook", "register_forward_pre_hook", None])
def test_forward_hooks_of_the_model_are_a_possible_cause(register):
    model, graph = nn.Tanh(), nn.Sigmoid()
    if register:
        getattr(model, register)(lambda *args: None)

    for eager in (model, torch.tanh):
        with pytest.raises(MismatchError) as caught:
            new_check(values(4)).run(eager, GraphCall(graph, graph), None)
        assert ("the model itself has forward hooks" in caught.value.section) == (eager is model and bool(register))


@pytest.mark.parametrize(
    ("checks", "fp64_reference", "options"),
    [
        (CHECKS, False, {"checks": None, "fp64_reference": None}),
        (CHECKS, True, {"checks": None, "fp64_reference": True}),
        (("dtype", "values"), False, {"checks": ("values", "dtype"), "fp64_reference": None}),
    ],
)
def test_the_script_of_a_mismatch_gets_its_first_line_and_the_options_that_differ(checks, fp64_reference, options):
    written = []
    folder = SimpleNamespace(write=lambda *args: written.append(args))
    comparison = OutputComparison(ToleranceRule(rtol=0.5), checks=frozenset(checks))
    tested = EquivalenceCheck(
        Arguments((values(4),), {}), comparison, 1, 0, False, fp64_reference=fp64_reference, reproduction=folder
    )

    with pytest.raises(MismatchError):
        tested.run(torch.tanh, GraphCall(torch.cosh, torch.cosh), None)

    ((headline, *_, given, _expected, _mismatches),) = written
    assert headline.startswith("eager and graph differ: output has other values in the graph than in eager")
    assert "\n" not in headline
    assert given == {"rtol": 0.5, "atol": None, "sqnr": None, "cosine": None, **options}


class Undifferentiable(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        raise ValueError("no derivative")


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (Undifferentiable.apply, r"the backward of the model itself raised .* cannot be differentiated .* drop grads="),
        (lambda x, y: x, r"the forward of the model itself raised .*; check that the inputs fit the model"),
    ],
)
def test_a_model_that_fails_is_told_with_the_remedy_of_the_step(function, words):
    with pytest.raises(EagerError, match=words):
        new_check(values(4), grads=True).run(function, GraphCall(function, function), None)
