from __future__ import annotations

import pytest
import torch
from torch import nn

from fxcore.state.snapshot import Snapshot
from pytest_fxgraph.equivalence.gradients import (
    compare_gradients,
    cotangent,
    differentiable_parameters,
    gradients_of,
    rules_of_gradients,
)
from pytest_fxgraph.equivalence.inputs import Arguments, copy_arguments
from pytest_fxgraph.equivalence.outputs import OutputComparison
from pytest_fxgraph.equivalence.state_changes import StateNames
from pytest_fxgraph.equivalence.tolerance import ToleranceRule

ONES = torch.ones(2)
COMPARISON = OutputComparison(ToleranceRule(None, None))


def told(expected: dict, obtained: dict, comparison: OutputComparison = COMPARISON, inputs: tuple[str, ...] = ()):
    return [f"{each.where} {each.description}" for each in compare_gradients(expected, obtained, comparison, inputs)]


@pytest.mark.parametrize(
    ("expected", "obtained", "words"),
    [
        ({"w": ONES}, {"w": ONES}, []),
        ({"w": None}, {"w": None}, []),
        ({"w": None}, {}, []),
        ({}, {"w": ONES}, []),
        ({"w": ONES}, {}, ["gradient of w exists in eager; the graph has no such parameter"]),
        ({"w": ONES}, {"w": None}, ["gradient of w exists in eager and not in the graph"]),
        ({"w": None}, {"w": ONES}, ["gradient of w exists in the graph and not in eager"]),
        ({"v": None, "w": ONES}, {"v": None, "w": None}, ["gradient of w exists in eager and not in the graph"]),
        (
            {"v": None, "w": ONES, "z": ONES},
            {"v": ONES, "w": None, "z": ONES},
            [
                "gradient of v exists in the graph and not in eager",
                "gradient of w exists in eager and not in the graph",
            ],
        ),
        ({"v": None, "w": ONES}, {"w": None}, ["gradient of w exists in eager and not in the graph"]),
    ],
)
def test_a_gradient_of_one_run_alone_is_told(expected, obtained, words):
    assert told(expected, obtained) == words


def test_gradients_are_compared_by_value_even_if_outputs_are_not_and_their_strides_may_differ():
    wide = torch.arange(4.0).reshape(2, 2)
    no_values = OutputComparison(ToleranceRule(None, None), checks=frozenset({"strides", "gradients"}))

    assert told({"w": wide}, {"w": wide.t().contiguous().t()}, no_values) == []
    assert len(told({"w": wide}, {"w": wide + 1}, no_values)) == 1


def test_a_gradient_of_rounding_beside_a_large_one_of_its_kind_may_differ():
    expected, obtained = {"w": 100 * ONES, "b": 1e-6 * ONES}, {"w": 100 * ONES, "b": -1e-6 * ONES}

    assert told(expected, obtained) == []
    assert len(told(expected, obtained, inputs=("w",))) == 1


def test_the_rule_of_each_kind_follows_its_largest_gradient():
    rules = rules_of_gradients({"w": 100 * ONES, "x": 1e-3 * ONES, "n": None}, ToleranceRule(None, None), ["x"])

    atols = {path: rule.for_tensor(1e-9 * ONES).atol for path, rule in rules.items()}
    assert [*atols] == ["gradient of w", "gradient of x", "gradient of n"]
    assert atols["gradient of w"] == atols["gradient of n"] > atols["gradient of x"]


def test_gradients_are_taken_for_parameters_and_inputs():
    w = torch.full((2,), 3.0, requires_grad=True)
    copied = copy_arguments(Arguments((2 * ONES, ONES.int()), {}), with_gradients=True)
    x = copied.arguments.args[0]

    found = gradients_of({"y": w * x}, {"w": w, "unused": torch.ones(1, requires_grad=True)}, copied, 0)

    assert found is not None
    weights = cotangent("output['y']", ONES, 0, torch.float32)
    assert torch.equal(found["w"], 2 * weights)
    assert torch.equal(found["input 0"], 3 * weights)
    assert found["unused"] is None
    assert set(found) == {"w", "input 0", "unused"}


def test_an_input_that_nothing_reads_has_no_gradient():
    w = torch.ones(2, requires_grad=True)

    assert gradients_of(w * 2, {}, copy_arguments(Arguments((ONES,), {}), with_gradients=True), 0) == {"input 0": None}


def test_outputs_without_gradient_give_none():
    assert gradients_of(ONES, {}, copy_arguments(Arguments((), {})), 0) is None


def test_the_weights_of_a_reference_are_rounded_as_those_of_its_run():
    w = torch.ones(64, requires_grad=True, dtype=torch.float64)

    found = gradients_of(w * 1, {"w": w}, copy_arguments(Arguments((), {})), 0, {"output": torch.bfloat16})

    assert found is not None
    assert torch.equal(found["w"], found["w"].bfloat16().double())


def test_each_output_has_weights_of_its_own_that_follow_path_seed_and_dtype():
    drawn = cotangent("output[0]", ONES, 0, torch.float32)

    assert torch.equal(drawn, cotangent("output[0]", 5 * ONES, 0, torch.float32))
    assert not torch.equal(drawn, cotangent("output[1]", ONES, 0, torch.float32))
    assert not torch.equal(drawn, cotangent("output[0]", ONES, 1, torch.float32))
    assert cotangent("output", ONES.to(torch.complex64), 0, torch.complex64).imag.abs().min() > 0


def test_parameters_that_require_grad_are_differentiated():
    model = nn.Linear(2, 2)
    model.bias.requires_grad_(False)
    model.register_buffer("trained", torch.ones(2, requires_grad=True))
    held = Snapshot(model).state_now(model, Snapshot(model).compare())

    assert differentiable_parameters(held, StateNames(held)) == {"weight": model.weight}
