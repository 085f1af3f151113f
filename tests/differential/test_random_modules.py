"""Random modules, traced, run, copied, interpreted and transformed by both libraries."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import given

from fixtures.oracle import assert_same, assert_same_success
from fixtures.random_modules import ModuleRecipe, RandomModule, module_recipes, random_inputs
from fixtures.run_results import results_of_run
from fixtures.sizes import MANY, SOME


def traced(recipe: ModuleRecipe, fx):
    """Trace the module that a recipe describes, with the same weights each time."""
    torch.manual_seed(5)
    return fx.symbolic_trace(RandomModule(recipe))


def records_the_same_graph_and_results(recipe: ModuleRecipe) -> None:
    def program(fx):
        module = traced(recipe, fx)
        return [module, results_of_run(module, random_inputs(), {})]

    assert_same_success(program)


def transforms_alike(recipe: ModuleRecipe) -> None:
    def program(fx):
        class Softer(fx.Transformer):
            def call_function(self, target, args, kwargs):
                if target is torch.relu:
                    return super().call_function(torch.sigmoid, args, kwargs)
                return super().call_function(target, args, kwargs)

            def call_method(self, target, args, kwargs):
                return super().call_method(target, args, kwargs).neg()

        return Softer(traced(recipe, fx)).transform()

    assert_same(program)


def survives_copying_and_dead_code_elimination(recipe: ModuleRecipe) -> None:
    def program(fx):
        module = copy.deepcopy(traced(recipe, fx))
        changed = module.graph.eliminate_dead_code()
        module.recompile()
        module.delete_all_unused_submodules()
        return [changed, module, fx.Interpreter(module).run(*random_inputs())]

    assert_same_success(program)


@SOME
@given(recipe=module_recipes())
def test_both_libraries_record_the_same_graph_and_results(recipe):
    records_the_same_graph_and_results(recipe)


@pytest.mark.slow
@SOME
@given(recipe=module_recipes())
def test_both_transformers_make_the_same_graph(recipe):
    transforms_alike(recipe)


# torch.fx takes an in-place operation for dead if nobody reads its result (`test_mended.py`).
@pytest.mark.slow
@SOME
@given(recipe=module_recipes(without=("in place",)))
def test_both_clean_up_a_copy_alike(recipe):
    survives_copying_and_dead_code_elimination(recipe)


@pytest.mark.long
@MANY
@given(recipe=module_recipes(max_steps=30))
def test_thousands_of_modules_are_recorded_alike(recipe):
    records_the_same_graph_and_results(recipe)


@pytest.mark.long
@MANY
@given(recipe=module_recipes(max_steps=30))
def test_thousands_of_modules_are_transformed_alike(recipe):
    transforms_alike(recipe)


@pytest.mark.long
@MANY
@given(recipe=module_recipes(max_steps=30, without=("in place",)))
def test_thousands_of_modules_are_cleaned_up_alike(recipe):
    survives_copying_and_dead_code_elimination(recipe)
