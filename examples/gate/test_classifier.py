"""The gate: one golden of the model's graph, one check that the graph computes what the model does."""

from __future__ import annotations

import pytest
import torch
from classifier import Classifier


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Classifier().eval()


@pytest.fixture
def images():
    return torch.rand(1, 3, 64, 64)


def test_the_graph_is_the_one_we_reviewed(model, images, fx_golden):
    assert model == fx_golden(example_inputs=(images,))


def test_the_graph_computes_what_the_model_does(model, images, fx_equivalence):
    fx_equivalence(model, images)
