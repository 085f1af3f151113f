"""The passes that keep what is computed do so on every model of the zoo."""

from __future__ import annotations

import pytest
import torch

import fxcore
from fixtures.catalog import real_models, small_models
from fxcore.passes.constant_folding import FoldConstants
from fxcore.passes.dead_code import DeadCodeElimination
from fxcore.passes.dialect.common.cse_pass import CSEPass
from fxcore.passes.fusion.activations import FuseActivations
from fxcore.passes.fusion.batch_norm import FuseBatchNorm
from fxcore.passes.identities import RemoveIdentities
from fxcore.passes.inlining import Inline
from fxcore.passes.instrumentation import Instrument, ValueGuard
from fxcore.passes.quantization.quantization_error import sqnr
from fxcore.passes.quantization.weight_only import QuantizeWeights

EVERY = 8  # of the small models, one in so many runs every day


def sample(models, every=1):
    return [
        pytest.param(each, id=each.name, marks=[pytest.mark.long] if number % every or "long" in each.traits else [])
        for number, each in enumerate(models)
    ]


# The watcher sees all values, whatever they are.
PASSES = [
    *(FuseBatchNorm(), FuseActivations(), RemoveIdentities(), FoldConstants(), CSEPass(), Inline()),
    *(DeadCodeElimination(), Instrument(lambda site: ValueGuard(site, nan=False, inf=False))),
]


@pytest.mark.parametrize("model", sample(small_models(), EVERY))
def test_a_small_model_computes_the_same_after_all_passes(model, fx_transform):
    fx_transform(
        PASSES,
        model.build().eval(),
        model.example_inputs(),
        kwargs=dict(model.example_kwargs()),
        rtol=1e-4,
        atol=1e-4,
    )


def outputs(module, model):
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return module(*model.example_inputs(), **model.example_kwargs())


@pytest.mark.long
@pytest.mark.parametrize("model", sample(real_models(long=True)))
def test_a_real_model_computes_the_same_after_all_passes_and_nearly_so_with_integer_weights(model):
    if model.requires:
        pytest.importorskip(model.requires)
    original = model.build().eval()
    gm = fxcore.symbolic_trace(original)
    expected = outputs(original, model)

    for transform in PASSES:
        gm = transform(gm).graph_module
        obtained = outputs(gm, model)
        if isinstance(expected, torch.Tensor) and expected.is_floating_point():
            assert sqnr(expected, obtained) > 50, "no more than rounding, which a hundred layers add up"
        else:
            torch.testing.assert_close(obtained, expected, rtol=1e-2, atol=1e-2)

    integers = outputs(QuantizeWeights()(gm).graph_module, model)
    if isinstance(expected, torch.Tensor) and not model.traits & {"random", "stateful"}:
        assert sqnr(expected, integers) > 15
