"""Each guard is checked as early as the graph knows its value, and where the trace asked if a write lies between."""

from __future__ import annotations

import math
import operator

import pytest
import torch
from torch import nn

import fxcore
from fxcore.errors import GuardError
from fxcore.guard_checks.plan import ENTRY, Plan, _is_plain


def places_of(function, *example, edit=None, at_entry=False, **options):
    """Return for each place with checks, the name of a node or "entry", the guards that are checked there."""
    graph_module = fxcore.symbolic_trace(function, example_inputs=example, **options)
    graph = graph_module.graph
    if edit is not None:
        edit(graph)
    nodes = list(graph.nodes)
    plan = Plan(graph, graph.guards, graph_module, at_entry=at_entry)
    return {
        "entry" if position == ENTRY else nodes[position].name: [
            str(graph.guards[each]) for each in work if isinstance(each, int)
        ]
        for position, work in plan.checks.items()
        if any(isinstance(each, int) for each in work)
    }


def test_questions_about_inputs_come_before_everything():
    def function(x, flag=True):
        y = x.relu()
        return y * 2 if x.shape[0] > 2 and x.dtype == torch.float32 and flag else y

    assert places_of(function, torch.rand(3)) == {
        "entry": ["flag", "x.shape[0] > 2", "x.dtype == torch.float32"],
    }


def test_a_size_that_the_graph_computes_too_is_computed_twice_to_be_first():
    def function(x):
        size = x.shape[0]
        y = x.relu().view(size, 1)
        return y if size > 2 else y + 1

    assert places_of(function, torch.rand(3)) == {"entry": ["x.shape[0] > 2"]}


def test_a_question_about_an_inner_value_comes_right_after_its_node():
    def function(x):
        y = x.relu()
        z = y.sum(0)
        return z if y.shape[0] > 2 else z + 1

    assert places_of(function, torch.rand(3)) == {"relu": ["relu(...).shape[0] > 2"]}


def test_a_write_of_numbers_does_not_move_a_question_about_the_form():
    def function(x):
        y = x.relu()
        y.add_(1)
        return y if y.shape[0] > 2 else y + 1

    assert places_of(function, torch.rand(3)) == {"relu": ["relu(...).shape[0] > 2"]}


def test_a_write_between_keeps_a_question_about_contents_in_its_place():
    def function(x):
        y = x.relu()
        y.add_(1)
        return y if fxcore.assume(y.sum() > 2) else y + 1

    (place,) = places_of(function, torch.ones(3))
    assert place not in ("entry", "relu")


def test_a_change_of_form_between_keeps_a_question_in_its_place():
    def function(x, items):
        x.unsqueeze_(0)
        items.append(x)
        return x * 2 if x.dim() == 2 and len(items) == 1 else x

    assert places_of(function, torch.rand(3), []) == {"append": ["x.dim() == 2", "len(items) == 1"]}


def test_a_mode_between_keeps_a_computed_value_in_its_place():
    def function(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return x @ x if fxcore.assume((x @ x).sum() > 0) else x

    assert "entry" not in places_of(function, torch.rand(2, 2))


def test_a_number_that_shares_memory_is_asked_about_after_a_write_to_it():
    def function(x):
        y = x.relu()
        first = y[0]
        y.add_(1)
        return y if fxcore.assume(first > 1.5) else y + 1

    graph_module = fxcore.symbolic_trace(function, example_inputs=torch.ones(3))

    assert places_of(function, torch.ones(3)) == {"add_": ["bool(relu(...)[0] > 1.5)"]}
    assert torch.equal(graph_module(torch.ones(3)), torch.full((3,), 2.0))
    with pytest.raises(GuardError):
        graph_module(torch.zeros(3))


class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(3))

    def forward(self, x):
        self.calls.add_(1)
        return x if fxcore.assume(self.calls.sum() > 2) else x + 1


def test_written_state_is_asked_about_after_the_write_also_where_a_transform_reads_it_anew():
    expected = {"add_": ["bool(self.calls.sum() > 2)"]}
    assert places_of(Counts(), torch.ones(3)) == expected
    assert places_of(Counts(), torch.ones(3), edit=read_anew) == expected


def test_state_is_asked_before_it_is_written():
    class Cache(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("position", torch.zeros((), dtype=torch.long))

        def forward(self, x):
            is_first = bool(self.position == 0)
            self.position.add_(4)
            return x if is_first else x + 1

    (place,) = places_of(Cache(), torch.rand(3))
    assert place in ("entry", "eq")


def asks_relu(x):
    y = x.relu()
    return y if y.shape[0] > 2 else y + 1


def with_another(graph):
    """Return the node relu of a graph, and a new node that does the same."""
    relu = next(node for node in graph.nodes if node.name == "relu")
    with graph.inserting_after(relu):
        return relu, graph.call_function(torch.clamp, (relu.args[0],), {"min": 0})


def test_a_random_number_that_is_drawn_first_is_drawn_at_the_entry():
    def function(x):
        return x + 1 if fxcore.assume(torch.rand(()) < 2) else x

    assert list(places_of(function, torch.rand(3))) == ["entry"]


def test_a_removed_twin_makes_a_guard_stand_alone_at_the_entry():
    def rewrite(graph):
        relu, other = with_another(graph)
        graph.output_node().args = (other,)
        graph.erase_node(relu)

    assert places_of(asks_relu, torch.rand(3), edit=rewrite) == {"entry": ["relu(...).shape[0] > 2"]}


def test_a_guard_follows_the_value_that_takes_the_place_of_its_own():
    def replace(graph):
        relu, other = with_another(graph)
        relu.replace_all_uses_with(other)
        graph.erase_node(relu)

    assert places_of(asks_relu, torch.rand(3), edit=replace) == {"clamp": ["relu(...).shape[0] > 2"]}


def test_a_guard_follows_a_new_name():
    def rename(graph):
        with_another(graph)[0].name = "other"

    assert places_of(asks_relu, torch.rand(3), edit=rename) == {"other": ["relu(...).shape[0] > 2"]}


def test_a_guard_of_a_removed_call_is_about_the_input_that_readers_read_now():
    def remove(graph):
        relu, other = with_another(graph)
        graph.erase_node(other)
        relu.replace_all_uses_with(relu.args[0])
        graph.erase_node(relu)

    assert places_of(asks_relu, torch.rand(3), edit=remove) == {"entry": ["relu(...).shape[0] > 2"]}


def test_cheap_calls_of_the_graph_are_computed_twice_to_be_first():
    def by_dimensions(x):
        count = x.dim()
        y = x.relu().sum(count - 1)
        return y if count > 0 else y + 1

    def by_item(x):
        row = x[0]
        y = x.relu() + row
        return y if row.shape[0] > 1 else y + 1

    assert places_of(by_dimensions, torch.rand(3)) == {"entry": ["x.dim() > 0"]}
    assert places_of(by_item, torch.rand(3, 3)) == {"entry": ["x[0].shape[0] > 1"]}


def test_a_number_that_the_graph_has_is_asked_about_at_its_node():
    def rows(x):
        y = x.relu()
        count = y.shape[0]
        return [y.view(count, 1) for _ in range(count)]

    graph_module = fxcore.symbolic_trace(rows, example_inputs=torch.ones(3))

    assert places_of(rows, torch.ones(3)) == {"getitem": ["relu(...).shape[0] == 3"]}
    assert len(graph_module(torch.zeros(3))) == 3
    with pytest.raises(GuardError):
        graph_module(torch.zeros(4))


def test_a_value_that_a_call_wrote_is_asked_about_right_after_the_call():
    def written(x, other):
        y = x.relu_()
        z = other.neg()
        return z if fxcore.assume(y.sum() > 0) else y

    def given(x):
        y = x.relu()
        torch.neg(x, out=y)
        return y if fxcore.assume(y.sum() < 0) else x

    assert places_of(written, torch.ones(3), torch.ones(3)) == {"relu_": ["bool(relu_(...).sum() > 0)"]}
    assert places_of(given, torch.ones(3)) == {"neg": ["bool(relu(...).sum() < 0)"]}


def test_a_switch_of_a_mode_keeps_a_question_behind_it():
    def function(x):
        y = x.relu()
        with torch.no_grad():
            z = x * 2
            return z if fxcore.assume(y.sum() > 0) else x

    assert places_of(function, torch.ones(3)) == {"mul": ["bool(relu(...).sum() > 0)"]}


def read_anew(graph):
    for read in graph.find_nodes(op="get_attr"):
        with graph.inserting_after(read):
            other = graph.get_attr(read.target)
        for reader in list(read.users):
            reader.replace_input_with(read, other)
        graph.erase_node(read)


@pytest.mark.parametrize("edit", [None, read_anew])
def test_a_write_to_other_state_moves_no_question(edit):
    class CountsApart(Counts):
        def __init__(self):
            super().__init__()
            self.register_buffer("other", torch.zeros(3))

        def forward(self, x):
            calls = self.calls
            self.other.add_(1)
            return x if fxcore.assume(calls.sum() > 2) else x + 1

    assert places_of(CountsApart(), torch.ones(3), edit=edit) == {"entry": ["not bool(self.calls.sum() > 2)"]}


def test_state_of_a_called_module_is_asked_about_after_the_call():
    class Holds(nn.Module):
        def __init__(self):
            super().__init__()
            self.counts = Counts()
            self.register_buffer("own", torch.zeros(3))

        def forward(self, x):
            y = self.counts(x)
            is_counted = fxcore.assume(self.counts.calls.sum() > 0)
            return y if fxcore.assume(self.own.sum() > 0) and is_counted else y + 1

    assert places_of(Holds(), torch.ones(3), leaf_modules=("counts",)) == {
        "entry": ["not bool(self.own.sum() > 0)"],
        "counts_calls": ["bool(self.counts.calls.sum() > 0)"],
    }


@pytest.mark.parametrize("edit", [None, lambda graph: graph.eliminate_dead_code()])
def test_state_that_a_call_writes_is_asked_about_after_the_call_also_where_no_node_reads_it(edit):
    class ReadsFirst(nn.Module):
        def __init__(self):
            super().__init__()
            self.counts = Counts()

        def forward(self, x):
            calls = self.counts.calls
            y = self.counts(x)
            return y if fxcore.assume(calls.sum() > 0) else y + 1

    places = places_of(ReadsFirst(), torch.ones(3), edit=edit, leaf_modules=("counts",))

    assert places == {"counts": ["bool(self.counts.calls.sum() > 0)"]}


def in_place(graph):
    next(node for node in graph.nodes if node.name == "relu").target = "sigmoid"


def as_function(graph):
    relu = next(node for node in graph.nodes if node.name == "relu")
    relu.op, relu.target = "call_function", torch.relu


def of_another_value(graph):
    relu = next(node for node in graph.nodes if node.name == "relu")
    with graph.inserting_before(relu):
        relu.args = (graph.call_function(torch.neg, relu.args),)


@pytest.mark.parametrize("edit", [in_place, as_function, of_another_value])
def test_a_node_that_became_another_call_is_no_twin(edit):
    graph_module = fxcore.symbolic_trace(asks_relu, example_inputs=torch.rand(3))
    edit(graph_module.graph)

    plan = Plan(graph_module.graph, graph_module.graph.guards, graph_module)

    assert plan.alone == {0}
    assert plan.checks == {ENTRY: [0]}


def test_all_checks_may_stand_at_the_entry():
    def function(x):
        y = x.relu()
        return y if x.shape[0] > 1 and y.shape[0] > 2 else y + 1

    guards = ["x.shape[0] > 1", "relu(...).shape[0] > 2"]
    assert places_of(function, torch.rand(3), at_entry=True) == {"entry": guards}
    assert places_of(function, torch.rand(3)) == {"entry": guards[:1], "relu": guards[1:]}
    graph_module = fxcore.symbolic_trace(function, example_inputs=torch.rand(3))
    assert Plan(graph_module.graph, graph_module.graph.guards, graph_module, at_entry=True).alone == {1}


def test_numbers_and_types_have_no_memory_that_a_graph_can_write():
    graph = fxcore.Graph()
    x = graph.placeholder("x")
    size = graph.call_method("size", (x, 0))
    plain = [
        size,
        graph.call_method("dim", (x,)),
        graph.call_function(getattr, (x, "shape")),
        graph.call_function(operator.add, (size, 1)),
        graph.call_function(math.sqrt, (size,)),
        graph.call_function(isinstance, (x, int)),
    ]
    others = [
        x,
        graph.get_attr("weight"),
        graph.call_function(getattr, (x, "T")),
        graph.call_function(operator.add, (x, 1)),
        graph.call_function(torch.relu, (x,)),
        graph.call_function(torch.add, (size, 1)),
        graph.call_method("keys", (x,)),
    ]

    assert [_is_plain(node) for node in plain] == [True] * len(plain)
    assert [_is_plain(node) for node in others] == [False] * len(others)
