"""What a search may change is found by asking eager, and kept within what the graph was made for."""

from __future__ import annotations

import math
import operator

import pytest
import torch
from torch import nn
from torch.utils._sympy.value_ranges import ValueRanges

import fxcore
from pytest_fxgraph.captures.subjects import to_graph_module
from pytest_fxgraph.equivalence.inputs import arguments_of
from pytest_fxgraph.equivalence.search.recipe import SearchSpace, SizeVariable, ValueRange
from pytest_fxgraph.equivalence.search.space import SpaceFinder, _drawable, _fits, _limit_of, _range_of, _scalars

X = torch.ones(2)


def space_of(model, *inputs, graph=None, kwargs=None) -> SearchSpace:
    def accepts(arguments) -> bool:
        try:
            model(*arguments.args, **arguments.kwargs)
        except Exception:
            return False
        return True

    return SpaceFinder(arguments_of(inputs, kwargs), graph, accepts, seconds=60).find()


def groups(space: SearchSpace) -> list[tuple]:
    """List for each variable its example, and the dimensions that it sets."""
    return [
        (variable.example, [(index, dim) for index, each in enumerate(space.tensors)
                            for dim, of in enumerate(each.sizes) if of == number])
        for number, variable in enumerate(space.sizes)
    ]  # fmt: skip


def test_dimensions_that_are_free_change_alone_and_fixed_ones_stay():
    space = space_of(nn.Conv2d(3, 2, 3), torch.rand(2, 3, 8, 8))

    assert groups(space) == [(2, [(0, 0)]), (8, [(0, 2)]), (8, [(0, 3)])]
    assert {1, 3} <= set(space.sizes[0].options)
    assert {7, 9} <= set(space.sizes[1].options)
    assert 1 not in space.sizes[1].options  # smaller than the kernel


def test_dimensions_that_must_agree_change_together():
    assert groups(space_of(torch.add, torch.rand(4, 6), torch.rand(4, 6))) == [
        (4, [(0, 0), (1, 0)]),
        (6, [(0, 1), (1, 1)]),
    ]
    assert groups(space_of(lambda x: x + x.t(), torch.rand(3, 3))) == [(3, [(0, 0), (0, 1)])]


def test_where_all_equal_dimensions_cannot_change_those_at_one_place_do():
    linear = nn.Linear(4, 2)

    assert groups(space_of(lambda x, y: linear(x) + linear(y), torch.rand(4, 4), torch.rand(4, 4))) == [
        (4, [(0, 0), (1, 0)])
    ]


def test_a_size_of_one_shows_no_freedom_because_it_is_broadcast():
    assert groups(space_of(torch.add, torch.rand(2, 6), torch.rand(2, 6)))[0] == (2, [(0, 0), (1, 0)])


def test_a_dimension_that_only_doubles_is_free():
    def transformed(x):
        assert x.shape[0] & (x.shape[0] - 1) == 0, "powers of two alone"
        return x

    space = space_of(transformed, torch.rand(4, 4))

    assert groups(space) == [(4, [(0, 0)]), (4, [(0, 1)])]
    assert space.sizes[0].options == (1, 2, 4, 8)


def test_a_try_may_have_as_many_elements_as_the_bound_allows():
    options = space_of(torch.relu, torch.rand(4, 2**13)).sizes[0].options

    assert max(options) == 8  # 2**16 elements


def test_a_small_input_can_become_large():
    assert space_of(torch.relu, torch.rand(4, 3)).sizes[0].large == 512


def test_a_model_that_takes_nothing_else_keeps_all_sizes():
    assert space_of(lambda x: x.view(2, 3), torch.rand(2, 3)).sizes == ()


def test_an_index_ends_at_the_last_row():
    values = space_of(nn.Embedding(50, 4), torch.tensor([1, 2, 3])).tensors[0].values

    assert (values.least, values.largest) == (0, 49)


def test_integers_that_are_numbers_reach_the_ends_of_the_dtype():
    values = space_of(torch.neg, torch.tensor([1, 2, 3], dtype=torch.int16)).tensors[0].values

    assert (values.least, values.largest) == (-(2**15), 2**15 - 1)


def test_who_refuses_a_negative_number_is_not_asked_for_a_huge_one():
    asked = []

    def counting(x):
        asked.append(int(x.max()))
        return torch.zeros(int(x.max()))

    space_of(counting, torch.tensor([3]))

    assert max(asked) < 2**20


def test_numbers_that_the_graph_reads_change_and_those_written_into_it_stay():
    class Scaling(nn.Module):
        def forward(self, x, flag=True, scale=2.0):
            return x * scale if flag else -x

    graph = fxcore.symbolic_trace(Scaling(), concrete_args={"flag": True})
    space = space_of(Scaling(), torch.rand(2, 3), True, 2.0, graph=graph)

    assert [(each.name, each.options[0]) for each in space.scalars] == [(2, 2.0)]


class Summing(nn.Module):
    def forward(self, x, y):
        return x + y


def test_an_exported_graph_keeps_its_sizes():
    pair = torch.rand(4, 3), torch.rand(4, 3)
    graph = to_graph_module(torch.export.export(Summing(), pair))

    space = space_of(Summing(), *pair, graph=graph)

    assert space.sizes == ()
    assert "autocast" not in space.contexts


def test_the_range_of_an_exported_dimension_is_kept():
    pair = torch.rand(4, 3), torch.rand(4, 3)
    batch = torch.export.Dim("batch", max=6)
    graph = to_graph_module(torch.export.export(Summing(), pair, dynamic_shapes=({0: batch}, {0: batch})))

    space = space_of(Summing(), *pair, graph=graph)

    assert groups(space) == [(4, [(0, 0), (1, 0)])]
    assert max(space.sizes[0].options) == 5
    assert space.sizes[0].large in (None, 6)


def test_both_ends_of_the_range_of_an_exported_dimension_are_tried():
    batch = torch.export.Dim("batch", min=3, max=5)
    graph = to_graph_module(torch.export.export(nn.ReLU(), (torch.rand(4, 3),), dynamic_shapes=({0: batch},)))

    assert space_of(nn.ReLU(), torch.rand(4, 3), graph=graph).sizes[0].options == (3, 4, 5)


def test_tensors_that_cannot_be_drawn_stay_as_they_are():
    sparse = torch.eye(3).to_sparse()

    assert space_of(torch.sparse.mm, sparse, torch.rand(3, 2)).make is not None
    assert len(space_of(torch.sparse.mm, sparse, torch.rand(3, 2)).tensors) == 1


@pytest.mark.parametrize("seconds", [0.0])
def test_without_time_nothing_is_asked(seconds):
    def refuse(arguments):
        raise AssertionError("asked")

    space = SpaceFinder(arguments_of((torch.rand(2, 3),)), None, refuse, seconds).find()

    assert space.sizes == ()


def test_flags_that_the_graph_reads_change():
    class Flagged(nn.Module):
        def forward(self, x, flag=True):
            return x * flag

    graph = fxcore.symbolic_trace(Flagged())
    given = space_of(Flagged(), torch.rand(2, 3), False, graph=graph)
    left_out = space_of(Flagged(), torch.rand(2, 3), graph=graph)

    assert [(each.name, each.options) for each in given.scalars] == [(1, (False, True))]
    assert [(each.name, each.options) for each in left_out.scalars] == [("flag", (True, False))]


def test_a_graph_of_operators_without_recorded_shapes_keeps_its_contexts_alone():
    graph = fxcore.Graph()
    graph.output(graph.call_function(torch.ops.aten.relu.default, (graph.placeholder("x"),)))

    space = space_of(nn.ReLU(), torch.rand(4, 3), graph=fxcore.GraphModule({}, graph))

    assert [variable.example for variable in space.sizes] == [4, 3]
    assert space.contexts == ("", "no_grad")


def test_an_exported_dimension_without_an_upper_end_grows_freely():
    batch = torch.export.Dim("batch")
    graph = to_graph_module(torch.export.export(nn.ReLU(), (torch.rand(4, 3),), dynamic_shapes=({0: batch},)))

    assert space_of(nn.ReLU(), torch.rand(4, 3), graph=graph).sizes == (SizeVariable(4, (1, 2, 3, 4, 5, 7, 8, 9), 512),)


def test_eager_is_asked_for_another_dtype_of_each_tensor():
    asked = []

    def counting(x, mask):
        asked.append((x.dtype, mask.dtype))
        return x

    space_of(counting, torch.rand(1), torch.tensor([True]))

    assert {(torch.float64, torch.bool), (torch.float32, torch.int64)} <= set(asked)


def test_a_dimension_of_a_size_of_its_own_may_have_the_size_one_alone():
    def one_or_five(x):
        assert x.shape[0] in (1, 5)
        return x

    space = space_of(one_or_five, torch.rand(5))

    assert [variable.options for variable in space.sizes] == [(1, 5)]


def test_a_complex_number_is_drawn_from_the_unit_square():
    (tensor,) = space_of(torch.abs, torch.ones(3, dtype=torch.complex64)).tensors

    assert tensor.values == ValueRange(torch.complex64, 0, 1)


@pytest.mark.parametrize("values", [[1.0, 1.0], [0.0, float("inf")], [float("nan"), 1.0]])
def test_values_without_a_range_are_drawn_around_zero(values):
    (tensor,) = space_of(torch.abs, torch.tensor(values)).tensors

    assert tensor.values == ValueRange(torch.float32, -1.0, 1.0)


def test_each_plain_tensor_with_values_is_drawn_once():
    plain, ints, narrow = torch.ones(2), torch.ones(2, dtype=torch.int8), torch.ones(2).to(torch.float8_e5m2)
    others = (torch.ones(2, device="meta"), torch.ones(0), narrow, torch.ones(2).to_sparse())
    computed = torch.ones(2, requires_grad=True) * 2

    drawable = _drawable(arguments_of((plain, [*others, computed], {"a": plain, "b": ints})))

    assert [id(each) for each in drawable] == [id(plain), id(ints)]


@pytest.mark.parametrize(
    ("tensor", "values"),
    [
        (torch.tensor([1.0, 3.0], dtype=torch.float16), (1.0, 3.0)),
        (torch.tensor([2, 9]), (2, 9, 2, 9)),
        (torch.tensor([True, True]), (0, 1)),
        (torch.tensor([5 + 3j]), (0, 1)),
        (torch.tensor([3.0, 3.0]), (-1.0, 1.0)),
        (torch.tensor([3.0, math.inf]), (-1.0, 1.0)),
        (torch.tensor([3.0, math.nan]), (-1.0, 1.0)),
    ],
)
def test_the_range_of_a_tensor_is_that_of_its_values(tensor, values):
    assert _range_of(tensor) == ValueRange(tensor.dtype, *values)


@pytest.mark.parametrize(
    ("args", "kwargs", "scalars"),
    [
        ((X, True, 0.5), {}, [(1, (True, False)), (2, (0.5, 0.0, 1.0, -1.0, 1.5)), ("n", (2, 0, 1, -1, 3, 4))]),
        (
            (X, False),
            {"n": 5, "f": 2.0},
            [(1, (False, True)), ("n", (5, 0, 1, -1, 6, 10)), ("f", (2.0, 0.0, 1.0, -1.0, 3.0, 4.0))],
        ),
        ((X, 1, 2, 3, 4), {"unknown": 3}, [(1, (1, 0, -1, 2)), (2, (2, 0, 1, -1, 3, 4)), (3, (3, 0, 1, -1, 4, 6))]),
        ((X, "text"), {"f": None}, [("n", (2, 0, 1, -1, 3, 4))]),
        ((X, True, True, True, True, True), {}, [(1, (True, False)), (2, (True, False)), (3, (True, False))]),
    ],
)
def test_bools_and_numbers_that_the_graph_reads_have_other_values(args, kwargs, scalars):
    graph = fxcore.Graph()
    x, flag, f = (graph.placeholder(name) for name in ("x", "flag", "f"))
    n, asserted = graph.placeholder("n", default_value=2), graph.placeholder("asserted", default_value=7)
    graph.call_function(torch._assert, (graph.call_function(operator.eq, (asserted, 7)), "no"))
    graph.output((x, flag, f, n))

    assert [(each.name, each.options) for each in _scalars(arguments_of(args, kwargs), list(graph.nodes))] == scalars


@pytest.mark.parametrize(
    ("recorded", "given", "fits"),
    [((4, "s0"), (4, 7), True), ((4,), (5,), False), ((4,), (4, 4), False), ((), (), True)],
)
def test_recorded_shapes_fit_where_numbers_are_equal(recorded, given, fits):
    assert _fits(recorded, given) is fits


@pytest.mark.parametrize(
    ("size", "bounds", "limit"),
    [
        (None, None, (None, 1, math.inf)),
        (4, None, (None, 1, math.inf)),
        ("s0", None, ("s0", 1, math.inf)),
        ("s0", (2, 64), ("s0", 1, 64)),
        ("s0", (3, 64), ("s0", 3, 64)),
        ("s0", (0, 64), ("s0", 1, 64)),
    ],
)
def test_an_exported_size_is_limited_by_its_range(size, bounds, limit):
    ranges = {} if bounds is None else {"s0": ValueRanges(*bounds)}

    assert _limit_of(size, ranges) == limit
