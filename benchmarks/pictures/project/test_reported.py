"""Tests that pass with the models as they were, and fail once CHANGED is set; their report is on the pictures."""

from __future__ import annotations

import os

import pytest
import torch
from models import Encoder, decoder

import fxcore

CHANGED = bool(os.environ.get("CHANGED"))
TOKENS = torch.arange(16).reshape(2, 8) % 8


@pytest.mark.parametrize("layers", [28, 12])
def test_decoder(fx_golden, layers):
    assert decoder(is_changed=CHANGED, layers=layers) == fx_golden(example_inputs=(TOKENS,))


def test_cost(fx_golden):
    model = Encoder(768 if CHANGED else 512).eval()
    assert model == fx_golden(level="cost", example_inputs=(torch.ones(1, 16, 64),))


def rounds_a_layer(gm: fxcore.GraphModule) -> fxcore.GraphModule:
    """Compute one of the layers in half precision."""
    if CHANGED:
        chosen = [node for node in gm.graph.nodes if "gelu" in str(node.target)][1]
        with gm.graph.inserting_after(chosen):
            half = gm.graph.call_method("bfloat16", (chosen,))
        with gm.graph.inserting_after(half):
            back = gm.graph.call_method("float", (half,))
        chosen.replace_all_uses_with(back)
        half.args = (chosen,)
        gm.recompile()
    return gm


def test_half_precision(fx_transform):
    torch.manual_seed(0)
    fx_transform(rounds_a_layer, Encoder(512).eval(), (torch.rand(64, 16, 64),))


def copies_activations(gm: fxcore.GraphModule) -> None:
    """Copy what each activation returns, as a careless pass does."""
    for node in [node for node in gm.graph.nodes if "gelu" in str(node.target)][:1]:
        with gm.graph.inserting_after(node):
            made = gm.graph.call_function(torch.ops.aten.clone.default, ())
        node.replace_all_uses_with(made)
        made.args = (node,)
    gm.recompile()


def test_lowering(fx_stages):
    model = Encoder(512).eval()
    model.layers = model.layers[:1]
    stages = fx_stages(model, (torch.ones(1, 16, 64),), ["symbolic", "export", "decompose", copies_activations])
    assert not CHANGED or stages.made_by("aten.clone*")
