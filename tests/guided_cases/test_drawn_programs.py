"""Graphs of drawn models answer as eager does, or refuse: 300 models in the long run, a few in each run."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

import fxcore
from fixtures.guided_programs import FEATURES, GuidedProgram, Step, example_of, programs
from pytest_fxgraph.strategies import fuzz_guards


def counts_of(drawn, tries: int) -> Counter[str]:
    """Fuzz the graph of a drawn model; a model that cannot be traced is refused as a whole."""
    model, args, kwargs = drawn
    try:
        return fuzz_guards(model, args, kwargs=kwargs, tries=tries)
    except fxcore.FxError:
        return Counter(untraced=1)


def hold(models: int, tries: int) -> None:
    few = settings(
        max_examples=models,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )

    @few
    @seed(0)
    @given(programs())
    def run(drawn) -> None:
        counts_of(drawn, tries)

    run()


@pytest.mark.filterwarnings("ignore")
def test_the_graphs_of_drawn_models_are_right_or_refuse():
    hold(15, 10)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_the_graphs_of_300_drawn_models_are_right_or_refuse():
    hold(300, 30)


@pytest.mark.sampled(every=2)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [pytest.param(0, marks=pytest.mark.slow), 3])
@pytest.mark.parametrize("name", FEATURES)
def test_the_graph_of_each_feature_is_right_or_refuses(name, kind):
    model = GuidedProgram((Step(name, 0, 0),), "last").eval()

    counts = counts_of((model, *example_of(kind)), 10)

    assert counts["right"] or counts["untraced"]
