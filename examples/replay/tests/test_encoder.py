"""Tests of a project that has never heard of pytest-fxgraph."""

import pytest
import torch
from encoder import Encoder


@pytest.mark.parametrize("depth", [1, 3])
def test_an_encoder_gives_a_vector_for_each_sequence(depth):
    assert Encoder(depth)(torch.randn(2, 5, 16)).shape == (2, 16)


def test_an_encoder_exports():
    program = torch.export.export(Encoder(), (torch.randn(2, 5, 16),))

    assert program.module()(torch.randn(2, 5, 16)).shape == (2, 16)
