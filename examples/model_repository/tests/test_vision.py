"""The classifier: its graph, that the graph computes what the model does, and what it costs."""

from __future__ import annotations

import pytest
import torch
from models.vision import Classifier


@pytest.fixture
def model() -> Classifier:
    torch.manual_seed(0)
    return Classifier().eval()


@pytest.fixture
def images() -> torch.Tensor:
    return torch.rand(2, 3, 16, 16)


def test_the_graph_is_the_one_that_was_reviewed(model, images, fx_golden):
    assert model == fx_golden(example_inputs=(images,))


def test_the_graph_computes_what_the_model_does(model, images, fx_equivalence):
    fx_equivalence(model, images, modes=("eval", "train"), grads=True)


@pytest.mark.fx(level="cost", budget={"flops": "+1%", "params": 0, "peak_activation": "+5%"})
def test_it_costs_what_it_did(model, images, fx_golden):
    assert model == fx_golden(example_inputs=(images,))


def test_every_convolution_of_a_block_has_its_norm(model, fx_ops):
    convolutions = fx_ops(model).count(torch.nn.Conv2d)

    assert fx_ops(model).count(torch.nn.BatchNorm2d) == convolutions - 1  # the stem has a bias instead
