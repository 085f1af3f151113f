from __future__ import annotations

import operator

import pytest
import torch
import torch.fx
from torch import nn
from torch.nn import functional as F

import fxcore
from fxcore.matching.argument_pairing import pair_as_written
from fxcore.matching.matcher import SubgraphMatcher


def found(program, pattern, **options):
    return len(SubgraphMatcher(pattern.graph, **options).match(program.graph))


def calling(target, *args, **kwargs):
    """Return a graph that calls a function, or the method of that name, on its input with further arguments."""
    graph = fxcore.Graph()
    op = "call_method" if isinstance(target, str) else "call_function"
    graph.output(graph.create_node(op, target, (graph.placeholder("x"), *args), kwargs))
    return fxcore.GraphModule(nn.Module(), graph)


WAYS = {
    "a keyword": (calling(F.leaky_relu, 0.1), calling(F.leaky_relu, negative_slope=0.1)),
    "a default": (calling(F.leaky_relu), calling(F.leaky_relu, 0.01)),
    "a default of a builtin": (calling(torch.flatten), calling(torch.flatten, start_dim=0)),
    "a keyword of a builtin": (calling(torch.sum, dim=1), calling(torch.sum, 1)),
    "the order of keywords": (
        calling(F.dropout, p=0.1, training=False),
        calling(F.dropout, training=False, p=0.1),
    ),
    "a method": (calling("flatten", start_dim=1), calling("flatten", 1)),
    "a default of a method": (calling("softmax", 1), calling("softmax", 1, None)),
    "a choice between two functions": (calling(F.max_pool2d, 2), calling(F.max_pool2d, kernel_size=2, stride=None)),
}


@pytest.mark.parametrize("way", WAYS)
def test_calls_that_mean_the_same_match_on_request(way):
    program, pattern = WAYS[way]

    assert found(program, pattern) == 0
    assert found(program, pattern, bind_arguments=True) == 1


@pytest.mark.parametrize(
    ("program", "pattern"),
    [
        (calling(F.leaky_relu), calling(F.leaky_relu, 0.2)),
        (calling(torch.sum, dim=1), calling(torch.sum)),
        (calling(operator.sub, 1), calling(operator.sub, 2)),
        (calling(max, 1), calling(max, key=None)),
        (calling("no_such_method", 1), calling("no_such_method", key=1)),
    ],
)
def test_calls_that_mean_something_else_do_not_match(program, pattern):
    assert found(program, pattern, bind_arguments=True) == 0


def test_arguments_of_modules_are_bound_to_their_forward():
    class Scaled(nn.Module):
        def forward(self, x, scale=1.0):
            return x * scale

    class Leafy(fxcore.Tracer):
        def is_leaf_module(self, m, module_qualified_name):
            return True

    class Model(nn.Module):
        def __init__(self, by_keyword):
            super().__init__()
            self.scaled = Scaled()
            self.by_keyword = by_keyword

        def forward(self, x):
            return self.scaled(x, scale=1.0) if self.by_keyword else self.scaled(x)

    def traced(by_keyword):
        model = Model(by_keyword)
        return fxcore.GraphModule(model, Leafy().trace(model))

    def count(**options):
        return len(fxcore.replace_pattern(traced(True), traced(False), lambda x: x + 1, **options))

    assert (count(), count(bind_arguments=True)) == (0, 1)


def test_overloads_are_compared_by_their_schema_as_in_torch():
    def build(fx, *args, **kwargs):
        graph = fx.Graph()
        x = graph.placeholder("x")
        graph.output(graph.call_function(torch.ops.aten.add.Tensor, (x, *args), kwargs))
        return fx.GraphModule(nn.Module(), graph)

    def count(fx):
        return len(fx.replace_pattern(build(fx, 2), build(fx, 2, alpha=1), lambda x: x + 1))

    assert count(fxcore) == count(torch.fx) == 1


@pytest.mark.parametrize(
    ("expected", "obtained", "values"),
    [
        (((1,), {}), ((1,), {}), [(1, 1)]),
        (((1,), {"alpha": 3}), ((2,), {"alpha": 4}), [(1, 2), (3, 4)]),
        (((), {"other": 1}), ((2,), {}), [(1, 2), (1, 1)]),
        (((1,), {}), ((), {"alpha": 3, "other": 2}), [(1, 2), (1, 3)]),
        (((1,), {}), ((), {}), [(1, None), (1, 1)]),
        (((), {"other": 1, "alpha": 2}), ((), {"alpha": 3, "other": 4}), [(1, 4), (2, 3)]),
    ],
)
def test_arguments_of_an_overload_are_paired_as_written_or_by_its_schema(expected, obtained, values):
    pairs = pair_as_written(
        *[
            next(node for node in calling(torch.ops.aten.add.Tensor, *args, **kwargs).graph.nodes if node.args)
            for args, kwargs in (expected, obtained)
        ]
    )

    assert pairs[1:] == values


def test_calls_of_functions_that_are_written_differently_do_not_pair():
    def call(*args, **kwargs):
        return next(node for node in calling(torch.sub, *args, **kwargs).graph.nodes if node.args)

    assert pair_as_written(call(1), call(1, 2)) is None
    assert pair_as_written(call(1, alpha=2), call(1)) is None
    assert pair_as_written(call(a=1, b=2), call(b=1, a=2)) is None
    assert pair_as_written(call(a=1, b=2), call(a=3, b=4))[1:] == [(1, 3), (2, 4)]
