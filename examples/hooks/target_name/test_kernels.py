from __future__ import annotations

from kernels_of_today import model


def test_the_graph_calls_the_kernel_whatever_its_file(fx_golden):
    assert model == fx_golden
