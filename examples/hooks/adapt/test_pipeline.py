from __future__ import annotations

import pytest
import torch
from pipeline import Pipeline, Scorer


@pytest.fixture
def pipeline():
    torch.manual_seed(0)
    return Pipeline("scores", Scorer().eval())


def test_the_graph_is_the_one_we_reviewed(pipeline, fx_golden):
    assert pipeline == fx_golden


def test_the_graph_computes_what_the_model_does(pipeline, fx_equivalence):
    fx_equivalence(pipeline, torch.ones(2, 4))


def test_there_is_one_activation(pipeline, fx_ops):
    assert fx_ops(pipeline).count(torch.relu) == 1
