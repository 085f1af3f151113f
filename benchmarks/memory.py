"""Bytes that a graph takes, and whether compiling again and again leaves some behind."""

from __future__ import annotations

import gc
import operator
import sys
import tracemalloc
from typing import Any

from torch import nn

from benchmarks.library import Library
from benchmarks.subjects import chain_graph

NODES = 10_000


def bytes_per_node(library: Library, *, in_module: bool) -> float:
    """Return the bytes that a node of a graph takes; with `in_module`, of one with code in a GraphModule."""

    def make() -> Any:
        graph = chain_graph(library, NODES)
        if not in_module:
            return graph
        module = library.fx.GraphModule(nn.Module(), graph)
        _ = module.code
        return module

    make()  # caches fill once, and are not the graph's
    return _growth(make) / NODES


def blocks_left_by_recompiles(library: Library, times: int = 10_000) -> int:
    """Return the blocks of memory that stay behind when a graph is changed and compiled again, over and over.

    Blocks of the interpreter, not tracemalloc's bytes: tracemalloc keeps the name of every file it ever saw, and each
    compiled forward is a file.
    """
    graph = library.fx.Graph()
    value = graph.placeholder("x")
    constant = graph.call_function(operator.add, (value, 0))
    graph.output(constant)
    module = library.fx.GraphModule(nn.Module(), graph)

    def compile_often(count: int) -> int:
        for index in range(count):
            constant.args = (value, index)
            module.recompile()
            _ = module.forward
        gc.collect()
        return sys.getallocatedblocks()

    before = compile_often(1_000)  # caches of fixed size are full then
    return compile_often(times) - before


def _growth(make: Any) -> int:
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        made = make()
        gc.collect()
        after = tracemalloc.get_traced_memory()[0]
        del made
        return after - before
    finally:
        tracemalloc.stop()
