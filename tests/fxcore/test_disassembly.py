"""A graph that is taken apart is gone as soon as nobody has it any more."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch import nn

import fxcore
from fxcore.disassembly import take_apart


@pytest.fixture
def collector_off():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def traced():
    return fxcore.Tracer().trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))


def test_nodes_go_without_the_garbage_collector(collector_off):
    graph = traced()
    nodes = [weakref.ref(node) for node in graph.nodes]

    take_apart(graph)
    del graph

    assert [node() for node in nodes] == [None] * 4


def test_nodes_that_are_not_taken_apart_wait_for_it(collector_off):
    graph = traced()
    nodes = [weakref.ref(node) for node in graph.nodes]

    del graph

    assert None not in [node() for node in nodes]


def test_a_long_graph_goes_without_deep_recursion(collector_off):
    def chain(x):
        for _ in range(20_000):
            x = torch.relu(x)
        return x

    graph = fxcore.Tracer().trace(chain)
    first = weakref.ref(next(iter(graph.nodes)))

    take_apart(graph)
    del graph

    assert first() is None
