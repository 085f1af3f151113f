"""Each pass: what it changes, what it must leave alone, and that models compute what they did."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from models import Negations, Residual, SumReadTwice
from passes import add_relu, fold_scale_into_linear, fuse_add_relu, remove_double_negation
from passes.fused_add_relu import pattern, replacement

import fxcore
from pytest_fxgraph import assert_equivalent, strategies

X = torch.linspace(-1, 1, 8).reshape(2, 4)
PASSES = {
    "fold_scale_into_linear": (fold_scale_into_linear, Residual),
    "fuse_add_relu": (fuse_add_relu, Residual),
    "remove_double_negation": (remove_double_negation, Negations),
}


@pytest.mark.parametrize("name", PASSES)
def test_what_a_pass_makes_of_a_graph(name, fx_transform, fx_golden):
    """Two goldens: the graph that went in, and the graph that came out, which computes the same."""
    transform, model = PASSES[name]

    result = fx_transform(transform, model(), X, idempotent=True)

    fx_golden.check(result.before, name="before")
    fx_golden.check(result.after, name="after")


def test_a_sum_and_its_relu_become_one_call(fx_transform):
    result = fx_transform(fuse_add_relu, Residual(), X)

    result.assert_ops(added={add_relu: 2}, removed={torch.relu: 2}, unchanged=torch.nn.Linear)
    result.assert_state_dict(kept=True)


def test_folding_a_scale_is_for_inference_alone(fx_transform):
    """The folded weight is half the model's, and has another gradient."""
    with pytest.raises(AssertionError, match=r"gradient of first\.weight has other values in the graph than in eager"):
        fx_transform(fold_scale_into_linear, Residual(), X, grads=True)


def test_a_sum_that_others_read_is_left_alone_and_the_rewriter_says_why(fx_transform, fx_rewrite):
    result = fx_transform(fuse_add_relu, SumReadTwice(), (X, X), allow_vacuous=True)

    assert result.difference.is_empty
    assert "sub" in fx_rewrite(fxcore.symbolic_trace(SumReadTwice()), pattern, replacement).explain()


def test_passes_work_one_after_the_other(fx_transform, fx_ops):
    result = fx_transform([fold_scale_into_linear, fuse_add_relu], Residual(), X)

    fx_ops(result.after).absent("operator.*")
    fx_ops(result.after).in_order(torch.nn.Linear, add_relu, torch.nn.Linear, add_relu)


@pytest.mark.parametrize("name", PASSES)
# The first example imports much of torch, which a busy machine in CI takes its time for.
@settings(max_examples=10, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(drawn=strategies.modules_with_inputs(random=False, mutation=True, training_state=False))
def test_a_pass_keeps_what_random_modules_compute(name, drawn):
    model, inputs = drawn

    assert_equivalent(model, PASSES[name][0](fxcore.symbolic_trace(model)), inputs)
