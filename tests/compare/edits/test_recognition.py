from __future__ import annotations

from dataclasses import replace

import pytest

from fixtures.edited_models import Options, Transformer, Words, stages
from pytest_fxgraph.functions import diff_graphs

BASE = Options()
EDITS = {
    "depth 12 -> 10": (
        lambda: Transformer(BASE),
        lambda: Transformer(replace(BASE, depth=10)),
        "2 blocks are gone (12 equal blocks -> 10)",
        ["blocks.10", "blocks.11"],
    ),
    "LayerScale in 12 blocks": (
        lambda: Transformer(BASE),
        lambda: Transformer(replace(BASE, scales_layers=True)),
        "attn's output is multiplied by a new parameter gamma[64]",
        [f"blocks.{n}" for n in range(12)],
    ),
    "attention fused in 12 blocks": (
        lambda: Transformer(BASE),
        lambda: Transformer(replace(BASE, fuses_attention=True)),
        "5 operators (mul, matmul, softmax, ...) -> scaled_dot_product_attention",
        [f"blocks.{n}.attn" for n in range(12)],
    ),
    "F.gelu -> nn.GELU": (
        lambda: Transformer(BASE),
        lambda: Transformer(replace(BASE, activation="module")),
        "F.gelu -> nn.GELU (normalize=True makes them equal)",
        [f"blocks.{n}.mlp" for n in range(12)],
    ),
    "norm and relu exchanged": (
        stages,
        lambda: stages(activates_first=True),
        "relu moved from after to before norm",
        [f"{n}" for n in range(6)],
    ),
    "fc -> classifier": (
        lambda: Transformer(BASE),
        lambda: Transformer(replace(BASE, head="classifier")),
        "module renamed fc -> classifier: checkpoints with fc.weight, fc.bias no longer load",
        [""],
    ),
}


@pytest.mark.parametrize("name", EDITS)
def test_one_edit_at_all_its_places_is_told_as_a_colleague_would(name):
    build, build_other, text, places = EDITS[name]

    difference = diff_graphs(build().eval(), build_other().eval())

    assert [edit.text for edit in difference.edits] == [text]
    assert [site.where for site in difference.edits[0].sites] == places
    assert difference.rest == ()


@pytest.mark.parametrize("edit", ["scales_layers", "fuses_attention"])
def test_the_same_edit_in_a_model_of_another_depth_and_width_has_the_same_key(edit):
    keys = set()
    for depth, width in ((12, 64), (4, 64), (4, 128)):
        options = Options(depth=depth, width=width)
        other = replace(options, **{edit: True})
        difference = diff_graphs(Transformer(options).eval(), Transformer(other).eval())
        keys.add(tuple(each.key for each in difference.edits))

    assert len(keys) == 1


def test_equal_graphs_have_no_edit():
    assert diff_graphs(Words(ties=True), Words(ties=True)).edits == ()
