"""Every model of the zoo computes the same eagerly and as a graph."""

from __future__ import annotations

import pytest

from fixtures.catalog import CATALOG, marks_of, real_models, small_models
from fixtures.model_entry import ModelEntry

REAL = [pytest.param(each, id=each.name, marks=marks_of(each)) for each in real_models(long=True)]


# Its own autograd function for swish is traced as x * sigmoid(x): the same values, and gradients that round otherwise,
# through eighty layers.
ROUNDED = {"efficientnet_pytorch_b0": {"rtol": 1e-4, "atol": 1e-4}}


def has_gradients(model: ModelEntry) -> bool:
    return "no_grads" not in model.traits


@pytest.mark.parametrize("model", small_models(), ids=str)
def test_a_small_model_and_its_graph_agree_in_eval_mode(model, fx_equivalence):
    graph_module = fx_equivalence(model.build(), model.example_inputs(), kwargs=dict(model.example_kwargs()))

    graph_module.graph.lint()


@pytest.mark.parametrize("model", small_models(), ids=str)
def test_a_small_model_and_its_graph_agree_on_gradients_in_train_mode(model, fx_equivalence):
    graph_module = fx_equivalence(
        model.build(),
        model.example_inputs(),
        kwargs=dict(model.example_kwargs()),
        grads=has_gradients(model),
        modes=("eval", "train"),
    )

    graph_module.graph.lint()


@pytest.mark.parametrize("model", REAL)
def test_a_real_model_and_its_graph_agree_on_gradients_in_both_modes(model, fx_equivalence):
    if model.requires:
        pytest.importorskip(model.requires)

    graph_module = fx_equivalence(
        model.build(),
        model.example_inputs(),
        grads=has_gradients(model),
        modes=("eval", "train"),
        **ROUNDED.get(model.name, {}),
    )

    graph_module.graph.lint()


def test_a_write_that_tracing_loses_is_caught(fx_equivalence):
    model = CATALOG["buffer_counts_calls"]

    with pytest.raises(AssertionError, match="buffer calls was changed by eager, not by the graph"):
        fx_equivalence(model.build(), model.example_inputs())
