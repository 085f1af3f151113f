"""Compiling a graph again and again leaves nothing behind; counted in blocks of memory, not in bytes or time."""

from __future__ import annotations

import gc
import operator
import sys

import pytest
from torch import nn

import fxcore


@pytest.mark.slow
def test_memory_is_flat_over_many_recompiles():
    graph = fxcore.Graph()
    value = graph.placeholder("x")
    changed = graph.call_function(operator.add, (value, 0))
    graph.output(changed)
    module = fxcore.GraphModule(nn.Module(), graph)

    def recompile(first, times):
        for number in range(first, first + times):
            changed.args = (value, number)
            module.recompile()
            assert module.forward(1) == number + 1
        gc.collect()
        return sys.getallocatedblocks()

    before = recompile(1_000, 600)  # until caches of fixed size are full
    after = recompile(2_000, 600)

    assert after - before < 300  # one of them kept would be a dozen blocks each
