from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar

import pytest
import torch
from torch import nn

import fxcore
from fxcore.state.held_state import HeldState
from fxcore.state.snapshot import Snapshot
from pytest_fxgraph.equivalence.error_statistics import measure
from pytest_fxgraph.equivalence.fixture import FxEquivalence
from pytest_fxgraph.equivalence.fp64_reference import DoubleJudge, widened_arguments
from pytest_fxgraph.equivalence.inputs import arguments_of
from pytest_fxgraph.equivalence.mismatch import Mismatch
from pytest_fxgraph.equivalence.outputs import dense
from pytest_fxgraph.equivalence.run import RunSettings
from pytest_fxgraph.equivalence.state_changes import StateNames
from pytest_fxgraph.equivalence.tolerance import Tolerance, ToleranceRule
from pytest_fxgraph.errors import EagerError
from pytest_fxgraph.functions import assert_equivalent


def summed(x: torch.Tensor) -> torch.Tensor:
    return x.sum(0)


def scaled(x: torch.Tensor) -> torch.Tensor:
    return x / 3 * 7


def scaled_in_another_order(x: torch.Tensor) -> torch.Tensor:
    return x * 7 / 3


def half_lost(x: torch.Tensor) -> torch.Tensor:
    return x.bfloat16().float().sum(0)


def values() -> torch.Tensor:
    return torch.linspace(-1, 1, 4096).cos().reshape(1024, 4) * 1e3


def test_values_that_differ_count_unless_the_graph_is_as_near_to_double_precision_as_eager():
    graph, exact = fxcore.symbolic_trace(scaled_in_another_order), {"rtol": 0.0, "atol": 0.0}

    with pytest.raises(AssertionError, match="output has other values"):
        FxEquivalence()(scaled, values(), graph=graph, **exact)
    FxEquivalence()(scaled, values(), graph=graph, fp64_reference=True, **exact)


def test_a_graph_that_is_farther_from_double_precision_is_refused_with_both_distances():
    graph = fxcore.symbolic_trace(half_lost)

    with pytest.raises(AssertionError, match=r"off from float64 by .* in the graph, .* in eager"):
        FxEquivalence()(summed, values(), graph=graph, fp64_reference=True)


def test_the_model_stays_in_its_own_precision():
    model = nn.Linear(4, 4)
    graph = fxcore.symbolic_trace(lambda x: x * 2)

    with pytest.raises(AssertionError, match="off from float64"):
        FxEquivalence()(model, torch.ones(2, 4), graph=graph, fp64_reference=True)

    assert model.weight.dtype is torch.float32


class Steep(nn.Module):
    """Has gradients of thousands, which rounding of another order of sums moves by more than 1e-5."""

    def __init__(self, part: float = 0.0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.weight = nn.Parameter(torch.randn(256, 256, generator=generator) * 10)
        self.part = part

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x @ self.weight * 1e-3) * 1e3 + self.part * (x - x.detach()) * 1e-3


class SteepInChannelsLast(Steep):
    """Computes the same with another order of its sums."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        half = self.weight.shape[0] // 2
        product = x[:, half:] @ self.weight[half:] + x[:, :half] @ self.weight[:half]
        return torch.tanh(product * 1e-3) * 1e3 + self.part * (x - x.detach()) * 1e-3


def test_large_gradients_may_differ_by_rounding_alone():
    x = torch.randn(64, 256, generator=torch.Generator().manual_seed(1))

    assert_equivalent(Steep(), SteepInChannelsLast(), x, grads=True)
    with pytest.raises(AssertionError, match="gradient of input 0 has other values"):
        assert_equivalent(Steep(), SteepInChannelsLast(part=1.0), x, grads=True)


def test_a_run_in_double_precision_judges_gradients_where_that_is_asked_for():
    x = torch.randn(64, 256, generator=torch.Generator().manual_seed(1))
    exact = {"rtol": 0.0, "atol": 0.0, "grads": True, "fp64_reference": True}

    assert_equivalent(Steep(), SteepInChannelsLast(), x, **exact)
    with pytest.raises(AssertionError, match=r"gradient of input 0 .*off from float64 by .* in the graph, .* in eager"):
        assert_equivalent(Steep(), SteepInChannelsLast(part=1.0), x, **exact)


def test_a_model_that_does_not_run_in_double_precision_is_told_where_that_was_asked_for():
    def eager(x: torch.Tensor) -> torch.Tensor:
        return x @ torch.ones(2, 2)

    graph = fxcore.symbolic_trace(lambda x: x @ torch.full((2, 2), 1.1))

    with pytest.raises(
        EagerError, match=r"a run of the model in double precision, which raised RuntimeError.*drop fp64_"
    ):
        FxEquivalence()(eager, torch.ones(2, 2), graph=graph, fp64_reference=True)


def test_a_gradient_may_differ_by_much_where_eager_itself_is_that_far_from_double_precision():
    def eager(x: torch.Tensor) -> torch.Tensor:
        return torch.where(x + 1e-9 > x, x * 2 - x, x * 1 + (x - x.detach()) - (x - x.detach()) * 0.5)

    def moved_over_the_threshold(x: torch.Tensor) -> torch.Tensor:
        return x * 2 - x

    def wrong(x: torch.Tensor) -> torch.Tensor:
        return x * 2 - x + (x - x.detach()) * 2

    assert_equivalent(eager, moved_over_the_threshold, torch.ones(4), grads=True)
    with pytest.raises(AssertionError, match="gradient of input 0 has other values"):
        assert_equivalent(eager, wrong, torch.ones(4), grads=True)
    with pytest.raises(AssertionError, match="gradient of input 0 has other values"):
        assert_equivalent(moved_over_the_threshold, eager, torch.ones(4), grads=True)


class Kinked(nn.Module):
    """Adds a relu of next to nothing, which rounding turns into 0 in single precision if `is_lost`."""

    def __init__(self, is_lost: bool, slope: float = 1.0, share: float = 0.05) -> None:
        super().__init__()
        self.is_lost, self.slope, self.share = is_lost, slope, share

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = x.detach()
        first, last = (1e-9, -kept) if self.is_lost else (-kept, 1e-9)
        at_zero = torch.relu(x + first + last)
        return x * self.slope - kept * (self.slope - 1) + at_zero * self.share


def test_a_gradient_agrees_where_rounding_moves_a_relu_over_zero_in_the_graph_alone():
    eager, moved = Kinked(is_lost=False), Kinked(is_lost=True)

    assert_equivalent(eager, moved, torch.ones(4), grads=True)
    assert_equivalent(moved, eager, torch.ones(4), grads=True)


@pytest.mark.parametrize("wrong", [Kinked(is_lost=True, slope=1.01), Kinked(is_lost=True, share=0.04)])
def test_a_gradient_that_differs_in_double_precision_too_is_refused(wrong):
    with pytest.raises(AssertionError, match="gradient of input 0 has other values"):
        assert_equivalent(Kinked(is_lost=False), wrong, torch.ones(4), grads=True)


def test_a_gradient_that_differs_by_much_is_refused_though_it_is_right_in_double_precision():
    with pytest.raises(AssertionError, match="gradient of input 0 has other values"):
        assert_equivalent(Kinked(is_lost=False, share=0.5), Kinked(is_lost=True, share=0.5), torch.ones(4), grads=True)


def test_a_mismatch_that_is_no_value_is_no_question_of_precision():
    graph = fxcore.symbolic_trace(lambda x: (x, x))

    with pytest.raises(AssertionError, match="output is Tensor in eager, tuple of 2 in the graph") as caught:
        FxEquivalence()(lambda x: x * 2, values(), graph=graph, fp64_reference=True)
    assert "off from float64" not in str(caught.value)


def test_mismatches_of_other_kinds_stay_beside_values_that_are_judged():
    def two(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return scaled(x), x.double()

    graph = fxcore.symbolic_trace(lambda x: (scaled_in_another_order(x), x * 1))

    with pytest.raises(
        AssertionError, match=r"output\[1\] has dtype torch.float64 in eager, torch.float32 in"
    ) as caught:
        FxEquivalence()(two, values(), graph=graph, fp64_reference=True, rtol=0.0, atol=0.0)
    assert "output[0]" not in str(caught.value)


def test_complex_values_are_judged_in_double_precision():
    turned = torch.polar(torch.ones(64), torch.linspace(0, 6, 64))
    graph, exact = fxcore.symbolic_trace(scaled_in_another_order), {"rtol": 0.0, "atol": 0.0}

    with pytest.raises(AssertionError, match="output has other values"):
        FxEquivalence()(scaled, turned, graph=graph, **exact)
    FxEquivalence()(scaled, turned, graph=graph, fp64_reference=True, **exact)


class Known(DoubleJudge):
    """A judge that has the gradients of model and graph in double precision already."""

    gradients: ClassVar[Any] = ({}, {})

    def _references(self, *, has_gradients: bool) -> Any:
        return self.gradients


def judge_of(
    exact: Any, eager: Any, graph: Any, where: str = "output", of: type[DoubleJudge] = DoubleJudge, **options: Any
) -> DoubleJudge:
    """Return the judge of one value of eager and graph; `exact` is the value in double precision, or the model."""
    model = exact if callable(exact) else lambda *_: exact
    settings = RunSettings(arguments_of(()), StateNames(HeldState(model)), Snapshot(), 0, False)
    settings = dataclasses.replace(settings, **options)
    return of(model, None, settings, {where: eager}, {where: graph}, {})


def differing(judge: DoubleJudge, kind: str = "value") -> Mismatch:
    ((where, eager),) = judge.expected.items()
    return Mismatch(kind, where, "has other values", measure(dense(eager), dense(judge.obtained[where]), EXACT))


EXACT = Tolerance(0.0, 0.0)
OTHER = Mismatch("dtype", "output", "has another dtype")
LARGE = torch.full((8,), 1e6, dtype=torch.float64)


@pytest.mark.parametrize(
    ("exact", "eager", "graph", "words"),
    [
        ([0.0], [1.0], [2.0], ""),
        ([0.0], [1.0], [2.5], "has other values (off from float64 by 2.5 in the graph, 1 in eager)"),
        ([0.0], [1.0], [math.nan], "has other values (off from float64 by nan in the graph, 1 in eager)"),
        ([0.0, 0.0], [1.0], [1.5], "has other values (off from float64 by inf in the graph, inf in eager)"),
        ([0.0], [math.inf], [1.5], ""),
    ],
)
def test_the_distance_to_double_precision_decides(exact, eager, graph, words):
    judge = judge_of(torch.tensor(exact), torch.tensor(eager), torch.tensor(graph))
    mismatches = [OTHER, differing(judge), OTHER]

    kept = judge.filter_by_reference(mismatches)

    assert [each.description for each in kept if each is not OTHER] == ([words] if words else [])
    assert kept.count(OTHER) == 2


def test_sparse_and_complex_values_have_a_distance():
    sparse = [(torch.eye(2) * value).to_sparse() for value in (1.0, 1.5, 3.0)]
    judge = judge_of(*sparse)
    assert "by 1.41 in the graph, 0.354 in eager" in judge.filter_by_reference([differing(judge)])[0].description

    judge = judge_of(torch.ones(1), torch.ones(1) + 0.5, torch.ones(1) + 0.5j)
    assert "by inf in the graph, 0.5 in eager" in judge.filter_by_reference([differing(judge)])[0].description


def test_a_gradient_alone_is_judged_and_a_value_without_statistics_is_not():
    judge = judge_of(lambda x: x * 3, torch.ones(1), torch.ones(1) * 1e6, "gradient of input 0")
    judge = dataclasses.replace(
        judge,
        settings=dataclasses.replace(judge.settings, arguments=arguments_of((torch.ones(1, requires_grad=True),))),
    )
    assert "off from float64" in judge.filter_by_reference([differing(judge, "gradient")])[0].description

    judge = judge_of(torch.zeros(1), torch.ones(1), torch.ones(1) + 1)
    unmeasured = [dataclasses.replace(differing(judge), statistics=None)]
    assert judge.filter_by_reference(unmeasured) is unmeasured
    assert judge.without_rounding(unmeasured, lambda where: ToleranceRule()) is unmeasured


def test_the_run_in_double_precision_has_the_modes_of_the_check_and_no_autocast():
    modes = []

    def model() -> torch.Tensor:
        enabled = torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu")
        modes.append(enabled)
        return torch.zeros(1)

    judge = judge_of(model, torch.ones(1), torch.ones(1) + 2)
    judge.filter_by_reference([differing(judge)])
    with torch.inference_mode(), torch.autocast("cpu"):
        judge.filter_by_reference([differing(judge)])
    judge = judge_of(model, LARGE.float(), LARGE.float() + 5, grads=True)
    judge.without_rounding([differing(judge)], lambda where: ToleranceRule())

    assert modes == [(False, False, False), (False, True, False), (True, False, False)]


def fails() -> torch.Tensor:
    raise RuntimeError("not in double precision")


@pytest.mark.parametrize(
    ("exact", "of_eager", "of_graph", "is_kept"),
    [
        (LARGE, [1.0] * 8, [5.0] * 8, False),
        (LARGE, [1.0] * 8, [5.5] * 8, True),
        (LARGE, [1.0] * 7 + [0.0], [5.0] * 7 + [0.0], True),
        (LARGE, [2.0] + [0.0] * 7, [4.0] + [0.0] * 7, False),
        (LARGE, [2.0] + [0.0] * 7, [4.5] + [0.0] * 7, True),
        (LARGE.repeat(99), [1.0] * 792, [8.0] * 8 + [1.0] * 784, True),
        (fails, [1.0] * 8, [9.0] * 8, False),
        (fails, [1.0] * 8, [19.0] * 8, True),
        (LARGE[:4], [1.0] * 8, [9.0] * 8, False),
        (LARGE + 0j, [1.0] * 8, [9.0] * 8, False),
    ],
)
def test_rounding_in_large_values_is_as_large_in_the_graph_as_in_eager(exact, of_eager, of_graph, is_kept):
    eager, graph = (1e6 + torch.tensor(errors) for errors in (of_eager, of_graph))
    judge = judge_of(exact, eager, graph)
    mismatch = differing(judge)
    small = dataclasses.replace(mismatch, description="another comparison of the same output")

    kept = judge.without_rounding([small, mismatch], lambda where: ToleranceRule())

    assert kept == ([small, mismatch] if is_kept else [small])


@pytest.mark.parametrize(
    ("kind", "references", "graph", "rule", "is_kept"),
    [
        ("gradient", ([10.5], []), 11.0, ToleranceRule(), False),
        ("value", ([10.5], []), 11.0, ToleranceRule(), True),
        ("gradient", ([10.5], []), 11.0, ToleranceRule(atol=0.01), True),
        ("gradient", ([], [10.0]), 11.0, ToleranceRule(), True),
        # The graph is farther from double precision, by a tenth of the gradient at most, and right in double precision.
        ("gradient", ([10.0], [10.0]), 9.0, ToleranceRule(), False),
        ("gradient", ([10.0], [10.0]), 8.75, ToleranceRule(), True),
        ("gradient", ([10.0], [10.0 + 1e-6]), 9.0, ToleranceRule(), True),
        ("gradient", ([10.0], [10.0 + 1e-6]), 9.0, ToleranceRule(of_gradients=10.001), False),
        ("gradient", ([10.0], [10.0 + 1e-6]), 9.0, ToleranceRule(of_gradients=9.0), True),
        ("gradient", ([10.0], []), 9.0, ToleranceRule(of_gradients=10.001), True),
    ],
)
def test_gradients_agree_where_double_precision_explains_the_difference(kind, references, graph, rule, is_kept):
    judge = judge_of(fails, torch.tensor([10.0]), torch.tensor([graph]), "gradient of x", Known)
    Known.gradients = [
        {"gradient of x": torch.tensor(value, dtype=torch.float64)} if value else {} for value in references
    ]
    mismatch = differing(judge, kind)

    assert judge.without_rounding([mismatch], lambda where: rule) == ([mismatch] if is_kept else [])


def test_floats_of_every_layout_are_widened_and_other_inputs_are_copied():
    floats, ints = torch.ones(2, 3).t(), torch.ones(2, dtype=torch.int32)
    given = (floats, ints, floats.to_sparse(), floats.double().to_sparse(), torch.ones(1, dtype=torch.complex64))

    made = widened_arguments(arguments_of(given)).args

    wide = [torch.float64, torch.int32, torch.float64, torch.float64, torch.complex128]
    assert [each.dtype for each in made] == wide
    assert made[0].stride() == floats.stride()
    made[1].zero_()
    assert ints.eq(1).all()
