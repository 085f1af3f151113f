"""A check that no wrong graph could fail is told from one that compares something."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from fxcore.state.held_state import StateTensor
from pytest_fxgraph.equivalence.inputs import Arguments
from pytest_fxgraph.equivalence.mismatch import CheckContext
from pytest_fxgraph.equivalence.outputs import OutputComparison
from pytest_fxgraph.equivalence.run import RunResult
from pytest_fxgraph.equivalence.state_changes import StateAfter
from pytest_fxgraph.equivalence.tolerance import ToleranceRule
from pytest_fxgraph.equivalence.vacuous_values import could_fail, vacuous_values_error

ONES, ZEROS = torch.ones(2), torch.zeros(2)
GIVEN = Arguments((ONES,), {})
RUN = RunResult(None, GIVEN, {}, StateAfter(frozenset(), {}, {}), {}, {}, None, False, {})
COMPARISON = OutputComparison(ToleranceRule())


def changed(tensor):
    return StateAfter(frozenset({"total"}), {"total": StateTensor("total", "buffer", tensor)}, {})


@pytest.mark.parametrize(
    ("fields", "left_out", "expected"),
    [
        ({}, [], False),
        ({"output": ZEROS}, [], False),
        ({"output": [ZEROS, None, ONES]}, [], True),
        ({"output": 0}, [], True),
        ({"gradients": {"input 0": ZEROS, "weight": None}}, [], False),
        ({"gradients": {"input 0": ZEROS, "weight": ONES}}, [], True),
        ({"state": changed(ZEROS)}, [], False),
        ({"state": changed(ONES)}, [], True),
        ({"state": changed(ONES)}, ["state"], False),
        ({"arguments": Arguments((ONES + 1,), {})}, [], True),
        ({"arguments": Arguments((ONES + 1,), {})}, ["mutation"], False),
        ({"arguments": Arguments((ZEROS,), {})}, [], False),
        ({"arguments": Arguments((ONES, ONES), {})}, [], True),
        ({"arguments": Arguments((ONES, ZEROS), {})}, [], False),
        ({"output": ZEROS}, ["values"], True),
        ({}, ["values"], True),
        ({}, ["values", "structure", "state", "mutation", "rng", "gradients", "global state", "second call"], False),
    ],
)
def test_a_value_other_than_zero_could_differ(fields, left_out, expected):
    comparison = replace(COMPARISON, checks=COMPARISON.checks.difference(left_out))

    assert could_fail(replace(RUN, **fields), GIVEN, comparison) is expected


def test_the_function_of_the_user_compares_outputs_alone():
    equal = replace(COMPARISON, custom_comparison=lambda expected, obtained, path: "")

    assert not could_fail(replace(RUN, state=changed(ZEROS)), GIVEN, equal)
    assert could_fail(replace(RUN, output=ZEROS), GIVEN, equal)


NESTED = torch.nested.nested_tensor([torch.zeros(1), torch.zeros(2)])


@pytest.mark.parametrize(
    ("output", "rule", "words"),
    [
        (None, {}, "the model returns no value and changes no state. Return the values to compare"),
        ((ZEROS, ZEROS[:0]), {}, "output[1] is empty. Give inputs for which the model returns finite values"),
        ((NESTED, ZEROS[:0]), {}, "output[1] is empty. Give"),
        ((ZEROS / 0, ZEROS[:0]), {}, "output[0] holds only NaN and infinities. Give"),
        ((ZEROS, ONES.to("meta")), {}, "output[1] has no values on the meta device. Give"),
        (ZEROS, {}, "scale its weights or inputs, or give a smaller atol"),
        ((ONES, ZEROS[:0]), {"atol": 5.0},
         "No magnitude in the output exceeds 1, and output[0] is compared with rtol=1.3e-06, atol=5."),
        (ZEROS, {"sqnr": 20.0}, "scale its weights or inputs;"),
    ],
)  # fmt: skip
def test_the_error_names_the_reason_and_the_remedy(output, rule, words):
    comparison = replace(COMPARISON, rule=ToleranceRule(**rule))

    error = vacuous_values_error(replace(RUN, output=output), comparison, CheckContext(mode="eval"))

    assert words in str(error)
    assert str(error).startswith("comparing eager and graph (mode eval) says nothing: ")
