"""The zoo keeps what its entries say: equal builds, honest traits, nothing left behind in torch's generator."""

from __future__ import annotations

import pytest
import torch
from torch.utils import _pytree as pytree

from fixtures.catalog import CATALOG, catalog_of, marks_of, real_models, small_models, untraceable_models
from fixtures.model_entry import ModelEntry, entry

MODELS = [pytest.param(each, id=each.name, marks=marks_of(each)) for each in CATALOG.values()]


def build(model: ModelEntry, training: bool = False) -> torch.nn.Module:
    """Build a model, or skip where the package that it comes from is missing."""
    if model.requires:
        pytest.importorskip(model.requires)
    return model.build().train(training)


def run(model: ModelEntry, module: torch.nn.Module, seed: int) -> object:
    """Run a module on its model's example, with torch's generator at a seed."""
    torch.manual_seed(seed)
    return module(*model.example_inputs(), **model.example_kwargs())


def same(one: object, other: object) -> bool:
    """Tell whether two outputs hold equal tensors."""
    pairs = zip(tensors_in(one), tensors_in(other), strict=True)
    return all(torch.equal(*pair) or torch.allclose(*pair, equal_nan=True) for pair in pairs)


def tensors_in(value: object) -> list[torch.Tensor]:
    """List the tensors of an output; a dataclass is looked into, too."""
    value = vars(value) if hasattr(value, "__dataclass_fields__") else value
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


@pytest.mark.parametrize("model", MODELS)
def test_two_builds_hold_the_same_numbers(model):
    torch.manual_seed(1)
    first = build(model).state_dict()
    torch.manual_seed(2)
    second = build(model).state_dict()

    assert list(first) == list(second)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert same(model.example_inputs(), model.example_inputs())


@pytest.mark.parametrize("model", MODELS)
def test_building_leaves_the_generator_as_it_was(model):
    before = torch.random.get_rng_state()

    build(model)
    model.example_inputs()

    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize("model", MODELS)
def test_random_says_whether_eval_mode_draws_numbers(model):
    module = build(model)

    torch.manual_seed(0)
    before = torch.random.get_rng_state()
    module(*model.example_inputs(), **model.example_kwargs())

    assert ("random" in model.traits) == (not torch.equal(torch.random.get_rng_state(), before))


@pytest.mark.parametrize("model", MODELS)
def test_stateful_says_whether_eval_mode_changes_buffers(model):
    module = build(model)
    before = {name: buffer.clone() for name, buffer in module.named_buffers()}

    run(model, module, seed=0)

    changed = any(not torch.equal(before[name], buffer) for name, buffer in module.named_buffers())
    assert ("stateful" in model.traits) == changed


@pytest.mark.parametrize("model", MODELS)
def test_train_differs_says_whether_the_training_flag_matters(model):
    if "random" in model.traits:
        pytest.skip("draws numbers in both modes")

    differs = not same(run(model, build(model), 0), run(model, build(model, training=True), 0))

    assert ("train_differs" in model.traits) == differs


@pytest.mark.parametrize("model", MODELS)
def test_mutates_input_says_whether_an_input_is_written(model):
    module, inputs = build(model), model.example_inputs()

    module(*inputs, **model.example_kwargs())

    assert ("mutates_input" in model.traits) == (not same(inputs, model.example_inputs()))


def test_small_real_and_untraceable_models_are_the_whole_zoo():
    parts = [*small_models(), *real_models(long=True), *untraceable_models()]

    assert sorted(each.name for each in parts) == list(CATALOG)
    assert len(small_models()) >= 25
    assert {"resnet10", "mobilenetv2", "gpt_like", "vit_like"} <= {each.name for each in real_models()}


def test_a_name_used_twice_is_refused():
    twin = CATALOG["mlp"]

    with pytest.raises(ValueError, match="two models of the zoo are called 'mlp'"):
        catalog_of(iter([twin, twin]))


def test_a_trait_that_nobody_knows_is_refused():
    with pytest.raises(ValueError, match=r"model 'm' has unknown traits \['tiny'\]"):
        entry("m", torch.nn.ReLU, lambda: (torch.ones(1),), traits={"tiny"})


def test_an_untraceable_model_needs_a_reason():
    with pytest.raises(ValueError, match="trait 'not_symbolic' and a reason belong together"):
        entry("m", torch.nn.ReLU, lambda: (torch.ones(1),), traits={"not_symbolic"})
