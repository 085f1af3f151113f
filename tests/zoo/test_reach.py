"""The list of real models over which tracing is measured: how long it is, and that each model still runs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import torch

from benchmarks.reach.outcome import outcome_of
from benchmarks.reach.table import verdict
from fixtures.reach.catalog import models, models_named
from fixtures.reach.model import SIZES, Call, Integers, Normal, ReachModel, Size, call, in_size

PACKAGES = Path(__file__).with_name("packages.txt")
MODELS = models()


def without_dashes(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def test_the_list_is_long_enough():
    counts = Counter(model.package for model in MODELS)

    assert len(MODELS) >= 400
    assert len(counts) >= 30
    assert counts["transformers"] >= 60


def test_every_package_of_the_list_is_installed_by_the_script():
    lines = PACKAGES.read_text(encoding="utf-8").splitlines()
    installed = {without_dashes(line.partition("==")[0]) for line in lines if line and not line.startswith("#")}

    assert {without_dashes(model.package) for model in MODELS} <= installed
    assert all("==" in line for line in lines if line and not line.startswith("#"))


def test_models_are_found_by_package_and_by_name():
    first = MODELS[0]

    assert first in models_named([first.package])
    assert models_named([str(first)]) == [first]
    with pytest.raises(ValueError, match="there is no package or model nothing on the list"):
        models_named(["nothing"])


def test_a_letter_in_a_shape_is_another_number_in_the_second_example():
    assert in_size("B 3 H H", 0) == (SIZES["B"][0], 3, SIZES["H"][0], SIZES["H"][0])
    assert in_size("B 3 H H", 1) == (SIZES["B"][1], 3, SIZES["H"][1], SIZES["H"][1])
    assert Size("N").make(1) == SIZES["N"][1]


def test_equal_seeds_make_equal_models_and_inputs():
    made = call("torch.nn:Sequential", call("torch.nn:Linear", 4, 2))
    model = ReachModel("torch", "linear", made, (Normal("B 4"),), {"ids": Integers("B", 5)})

    assert torch.equal(model.build()[0].weight, model.build()[0].weight)
    assert torch.equal(model.inputs()[0][0], model.inputs()[0][0])
    assert not torch.equal(model.inputs(seed=1)[0][0], model.inputs(seed=2)[0][0])
    assert not model.build().training


def test_an_unknown_trait_is_refused():
    with pytest.raises(ValueError, match=r"p/m has unknown traits \['odd'\]; choose from"):
        ReachModel("p", "m", Call("torch.nn:Identity"), (), {}, frozenset({"odd"}))


@pytest.mark.zoo
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_the_model_runs_on_its_example(model):
    args, kwargs = model.inputs()
    try:
        module = model.build()
    except ImportError as error:
        pytest.skip(f"{model.package} is not installed: {error}")

    with torch.no_grad():
        module(*args, **kwargs)


# These branch on the contents of a tensor: on whether all of a mask is set, on the largest index, on what is left after
# a filter. Auto leaves give a graph of each.
BRANCHES_ON_CONTENTS = {
    *("st-moe-pytorch/MoE", "st-moe-pytorch/SparseMoEBlock", "mixture-of-experts/MoE", "equiformer-pytorch/Equiformer"),
    *("adjacent-attention-pytorch/AdjacentAttentionNetwork", "torch-geometric/GAT", "torch-geometric/GATConv"),
    *("torch-geometric/GraphUNet", "torch-geometric/AttentiveFP", "torch-geometric/SGFormer"),
    *("torch-geometric/RGCNConv", "fair-esm/ESM2", "fair-esm/MSATransformer"),
}
# A graph has no backward hooks. `requires_grad` has another answer here, where no gradients are recorded.
REFUSED = {
    "routing-transformer/RoutingTransformerLM": "cannot trace through backward hooks",
    "gateloop-transformer/Transformer": "requires_grad: it is False",
}


@pytest.mark.zoo
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_the_graph_with_an_example_is_right_or_refused(model):
    pytest.importorskip(model.construction.target.partition(".")[0].partition(":")[0])

    found = outcome_of(model, "examples", 120)

    if str(model) in BRANCHES_ON_CONTENTS:
        assert verdict(found) == "failed"
        assert verdict(outcome_of(model, "auto", 120)) in ("right", "one size")
    elif str(model) in REFUSED:
        assert verdict(found) == "failed"
        assert REFUSED[str(model)] in str(found)
    else:
        assert verdict(found) in ("right", "one size")
