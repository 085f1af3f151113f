from __future__ import annotations

import torch


def double_and_cut(x):
    return torch.relu(x * 2)


def test_the_graph_is_the_one_we_reviewed(fx_golden):
    assert double_and_cut == fx_golden
