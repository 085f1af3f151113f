"""Goldens of models with buffers outside the state dict, with and without the contents of these."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from pytest_fxgraph import assert_graph_matches_golden
from pytest_fxgraph.gate import obtained


class Rotary(nn.Module):
    def __init__(self, base=10000.0):
        super().__init__()
        self.register_buffer("inv_freq", base ** -(torch.arange(0, 8, 2) / 8), persistent=False)

    def forward(self, x):
        return x * self.inv_freq


@pytest.fixture
def golden(tmp_path):
    path = tmp_path / "golden.yaml"
    assert_graph_matches_golden(Rotary(), path, update=True)
    return path


CONTENT = "; = close([1.0, 0.1, 0.01, 0.001])"


def test_a_golden_holds_the_first_digits_and_another_base_is_a_mismatch(golden):
    assert f"  inv_freq: buffer float32[4]{CONTENT}; not persistent\n" in golden.read_text(encoding="utf-8")

    with pytest.raises(AssertionError, match=r"inv_freq: .*values differ by up to 0\.0624"):
        assert_graph_matches_golden(Rotary(5e5), golden)
    assert_graph_matches_golden(Rotary(5e5), golden, constants="shape")


@pytest.mark.parametrize("level", ["exact", "structure"])
def test_rounding_matches_and_an_update_leaves_the_golden(golden, level):
    if level == "exact":
        golden.unlink()
        assert_graph_matches_golden(Rotary(), golden, update=True, level=level)
    before, nudged = golden.read_bytes(), Rotary()
    nudged.inv_freq.mul_(1 + 4e-4)

    assert_graph_matches_golden(nudged, golden, update=True, level=level)

    assert golden.read_bytes() == before


def test_an_older_golden_matches_without_its_yaml_being_read_and_is_left(golden, monkeypatch):
    older = golden.read_text(encoding="utf-8").replace(CONTENT, "")
    golden.write_text(older, encoding="utf-8")
    monkeypatch.setattr(obtained.ObtainedGraph, "read", None)

    for model in (Rotary(), Rotary(5e5)):
        assert_graph_matches_golden(model, golden, update=True)

    assert golden.read_text(encoding="utf-8") == older
