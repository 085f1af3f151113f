"""Graphs of the zoo's models answer as eager does, or refuse, in eval and in train mode."""

from __future__ import annotations

import pytest

import fxcore
from fixtures.catalog import CATALOG
from fixtures.reach.catalog import models
from pytest_fxgraph.strategies import fuzz_guards

SMALL = [entry for entry in CATALOG.values() if not entry.is_real]
SAMPLE = SMALL[::4]


def hold(model, args, kwargs, training: bool, tries: int) -> None:
    """Fuzz the graph of a model; skip a model that tracing refuses."""
    model.train(training)
    try:
        graph = fxcore.symbolic_trace(model, example_inputs=args, example_kwargs=dict(kwargs))
    except fxcore.FxError as error:
        pytest.skip(f"not traced: {str(error).splitlines()[0]}")
    fuzz_guards(model, args, kwargs=kwargs, graph=graph, tries=tries)


@pytest.mark.sampled(every=2)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("entry", SAMPLE, ids=str)
def test_the_graph_of_a_small_model_is_right_or_refuses(entry, training):
    hold(entry.build(), entry.example_inputs(), entry.example_kwargs(), training, 8)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("entry", CATALOG.values(), ids=str)
def test_the_graph_of_every_model_is_right_or_refuses(entry, training):
    if entry.requires:
        pytest.importorskip(entry.requires)
    hold(entry.build(), entry.example_inputs(), entry.example_kwargs(), training, 20 if entry.is_real else 100)


@pytest.mark.zoo
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("model", models(), ids=str)
def test_the_graph_of_a_model_of_a_package_is_right_or_refuses(model, training):
    pytest.importorskip(model.construction.target.partition(".")[0].partition(":")[0])
    if training and "no_train" in model.traits:
        pytest.skip("not meant to run in train mode on this input alone")
    args, kwargs = model.inputs()

    hold(model.build(), args, kwargs, training, 20)
