"""Nodes after replacing: their order (pytorch#137280, #159613, #162019), and the same with hooks and without."""

from __future__ import annotations

import random

import pytest
import torch
import torch.fx
import torch.fx.subgraph_rewriter
from torch.nn import functional as F

import fxcore
from fixtures.random_calls import part_of, random_module
from fxcore.matching import deferred_edits
from fxcore.matching.deferred_edits import DeferredEdits, expect_edits


def names(graph):
    return [node.name for node in graph.nodes]


def reader_of_the_first_output_before_an_input(x, y):
    first = torch.relu(x)
    early = torch.neg(first)
    late = torch.sigmoid(y)
    return early * (first + late)


def both(x, late):
    first = torch.relu(x)
    return first, first + late


def both_at_once(x, late):
    total = torch.mul(x, late)
    return total, total


def rewrite_early_reader(fx):
    traced = fx.symbolic_trace(reader_of_the_first_output_before_an_input)
    fx.subgraph_rewriter.replace_pattern(traced, both, both_at_once)
    return traced


def test_an_input_that_stands_behind_a_reader_is_moved_before_the_replacement():
    theirs, ours = rewrite_early_reader(torch.fx), rewrite_early_reader(fxcore)

    with pytest.raises(RuntimeError, match="'sigmoid' of Node 'mul_1' was used before it has been defined"):
        theirs.graph.lint()
    ours.graph.lint()
    assert names(ours.graph) == ["x", "y", "sigmoid", "mul_1", "neg", "mul", "output"]
    x, y = torch.randn(3), torch.randn(3)
    total = x * torch.sigmoid(y)
    assert torch.equal(ours(x, y), torch.neg(total) * total)


def test_everything_that_a_late_input_needs_is_moved_with_it():
    def program(x, y):
        first = torch.relu(x)
        early = torch.neg(first)
        step = torch.abs(y)
        late = torch.sigmoid(step)
        return early * (first + late)

    traced = fxcore.symbolic_trace(program)
    x, y = torch.randn(3), torch.randn(3)

    fxcore.replace_pattern(traced, both, lambda x, late: (F.relu(x), F.relu(x) + late))

    traced.graph.lint()
    assert torch.equal(traced(x, y), program(x, y))


def test_nothing_moves_where_nothing_must():
    traced = fxcore.symbolic_trace(lambda x, y: torch.neg(torch.relu(x)) * torch.sigmoid(y))

    fxcore.replace_pattern(traced, lambda x: torch.relu(x), lambda x: torch.tanh(x))

    assert names(traced.graph) == ["x", "y", "tanh", "neg", "sigmoid", "mul", "output"]


def rewrite_returning_an_input(fx):
    traced = fx.symbolic_trace(lambda x: torch.relu(x) * x)
    fx.subgraph_rewriter.replace_pattern(
        traced, lambda x: (x, torch.relu(x)), lambda x: (torch.neg(x), torch.sigmoid(x))
    )
    return traced


def test_a_replacement_does_not_read_what_it_puts_in_the_place_of_its_own_input():
    theirs, ours = rewrite_returning_an_input(torch.fx), rewrite_returning_an_input(fxcore)

    with pytest.raises(RuntimeError, match="'neg' of Node 'neg' was used before it has been defined"):
        theirs.graph.lint()
    ours.graph.lint()
    x = torch.randn(3)
    assert torch.equal(ours(x), torch.sigmoid(x) * torch.neg(x))


def test_matches_that_earlier_replacements_made_impossible_are_left():
    """Two matches that feed each other crosswise: merged into one node each, they would be a cycle."""

    def program(x, y):
        a = torch.relu(x)
        b = torch.neg(y)
        return torch.relu(b), torch.neg(a)

    traced = fxcore.symbolic_trace(program)

    def pair(x, y):
        return torch.relu(x), torch.neg(y)

    def mixed(x, y):
        total = x + y
        return total, total

    matches = fxcore.replace_pattern(traced, pair, mixed)

    traced.graph.lint()
    assert len(matches) >= 1


@pytest.mark.parametrize("hooks", [(), (lambda **_: None,)], ids=["at the end", "at once"])
def test_a_match_stays_if_an_earlier_replacement_made_its_own_value_its_input(hooks):
    def program(x):
        inner = torch.relu(x)
        first = torch.neg(x)
        return torch.neg(first), torch.relu(inner)

    traced = fxcore.symbolic_trace(program)
    traced._replace_hooks = list(hooks)

    # The first match puts `inner` in the place of `first`. The second match would read and remove `inner`.
    matches = fxcore.replace_pattern(
        traced, lambda x, y: (torch.neg(x), torch.relu(y)), lambda x, y: (y, torch.sigmoid(x + y))
    )

    traced.graph.lint()
    assert [match.anchor.name for match in matches] == ["neg"]
    x = torch.randn(3)
    assert torch.equal(traced(x)[0], torch.neg(torch.relu(x)))
    assert torch.equal(traced(x)[1], torch.sigmoid(x + torch.relu(x)))


@pytest.mark.parametrize("hooks", [(), (lambda **_: None,)], ids=["at the end", "at once"])
def test_a_replaced_value_is_also_replaced_for_readers_that_read_it_since_an_earlier_replacement(hooks):
    def program(x, y):
        inner = torch.relu(x)
        first = torch.exp(torch.neg(x))
        return first, torch.neg(y), torch.relu(inner)

    traced = fxcore.symbolic_trace(program)
    traced._replace_hooks = list(hooks)

    # The first match lets exp read `inner`. The second match replaces `inner`, and must stand before exp.
    matches = fxcore.replace_pattern(
        traced, lambda x, y: (torch.neg(x), torch.relu(y)), lambda x, y: (y, torch.sigmoid(x))
    )

    traced.graph.lint()
    assert len(matches) == 2
    x, y = torch.randn(3), torch.randn(3)
    assert all(map(torch.equal, traced(x, y), (torch.exp(torch.sigmoid(y)), x, torch.sigmoid(x))))


def test_arguments_by_keyword_are_rewritten_and_copied():
    traced = fxcore.symbolic_trace(lambda x: torch.sub(x, other=torch.relu(x)))

    fxcore.replace_pattern(traced, lambda x: torch.relu(x), lambda x: torch.add(x, other=torch.neg(x), alpha=2))

    assert torch.equal(traced(torch.ones(2)), torch.full((2,), 2.0))


def test_a_call_without_a_value_takes_the_place_of_another():
    traced = fxcore.symbolic_trace(lambda x: (torch._assert(x, "first"), torch.relu(x))[1])

    (match,) = fxcore.replace_pattern(traced, lambda x: torch._assert(x, "first"), lambda x: torch._assert(x, "second"))

    assert match.anchor.target is torch._assert
    assert [(node.name, node.args[1:]) for node in traced.graph.nodes][1:3] == [
        ("_assert_1", ("second",)),
        ("relu", ()),
    ]


def test_a_constant_is_given_to_the_replacement_of_each_call_in_a_chain():
    traced = fxcore.symbolic_trace(lambda x: torch.add(torch.add(torch.add(x, 1), 2), 1))

    matches = fxcore.replace_pattern(
        traced, lambda x, n: torch.add(x, n), lambda x, n: torch.mul(x, 10 * n), capture_literals=True
    )

    assert len(matches) == 3
    assert traced(torch.ones(1)).tolist() == [2000.0]


def test_the_place_is_behind_all_inputs_and_values_and_before_all_readers():
    graph = fxcore.Graph()
    x = graph.placeholder("x")
    relu, neg, exp = (graph.call_function(function, (x,)) for function in (torch.relu, torch.neg, torch.exp))
    late = graph.call_function(torch.add, (exp, 1))
    output = graph.output((relu, neg, late))
    edits = DeferredEdits(graph, has_listeners=True)

    assert edits.make_place([x], [relu], []) is neg
    assert edits.make_place([x], [neg, relu], []) is exp
    assert edits.make_place([x, relu], [relu], [output, exp]) is exp
    assert edits.make_place([neg], [relu], []) is exp, "the next node is an input itself"
    assert edits.make_place([late], [relu], [exp]) is None, "the input depends on a reader"
    assert names(graph) == ["x", "relu", "neg", "exp", "add", "output"]
    assert edits.make_place([[late]], [relu], [neg]) is neg
    assert names(graph) == ["x", "relu", "exp", "add", "neg", "output"]


def test_a_chain_of_replacements_is_followed_to_its_end():
    graph = fxcore.Graph()
    x = graph.placeholder("x")
    first = graph.call_function(torch.relu, (x,))
    second = graph.call_function(torch.neg, ([first],))
    graph.output(second)
    edits = DeferredEdits(graph, has_listeners=True)

    edits.replace(first, x, edits.readers(first))
    edits.replace(second, 3.0, edits.readers(second))
    edits.discard([first, second])

    assert edits.resolve([first, {"a": second}]) == [x, {"a": 3.0}]
    edits.finish()
    assert str(graph).split("\n")[-1].strip() == "return 3.0"
    assert names(graph) == ["x", "output"]


def test_readers_are_listed_as_if_each_had_been_rewritten_at_once():
    def readers(fx):
        traced = fx.symbolic_trace(
            lambda x: [a := torch.neg(x), b := torch.neg(a), a + b, torch.neg(b) + a, torch.neg(a)]
        )
        fx.subgraph_rewriter.replace_pattern(traced, lambda x: torch.neg(x), lambda x: torch.relu(x) + x)
        return [(node.name, [user.name for user in node.users]) for node in traced.graph.nodes]

    assert readers(fxcore) == readers(torch.fx)


def test_a_wide_reader_is_rewritten_once():
    def program(x):
        return torch.cat([torch.relu(x) for _ in range(50)])

    traced = fxcore.symbolic_trace(program)
    rewritten: list[str] = []
    original = fxcore.Node._set_arguments

    def counted(reader, args, kwargs):
        rewritten.append(reader.name)
        original(reader, args, kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fxcore.Node, "_set_arguments", counted)
        fxcore.replace_pattern(traced, lambda x: torch.relu(x), lambda x: torch.neg(x))

    assert rewritten == ["cat"]
    assert traced(torch.ones(1)).tolist() == [-1.0] * 50


def described(graph):
    graph.lint()
    return [
        (node.name, node.op, node.target, str(node.args), str(node.kwargs), [user.name for user in node.users])
        for node in graph.nodes
    ]


def replacement_for(pattern, returns_inputs):
    """Return a graph that takes what the pattern takes, and returns as much.

    It computes with all inputs. With `returns_inputs`, it computes with all but the last, and returns the last.
    """
    graph = fxcore.Graph()
    inputs = [graph.placeholder(node.name) for node in pattern.nodes if node.op == "placeholder"]
    read = inputs[:-1] if returns_inputs else inputs
    joined = graph.call_function(torch.stack, (read,), {"dim": 0})
    results = [graph.call_function(torch.sigmoid, (joined,)) for _ in pattern.output_node().args[0]]
    if returns_inputs and inputs:
        results[::2] = [inputs[-1 - index % len(inputs)] for index in range(len(results[::2]))]
    graph.output(tuple(results))
    return graph


def replaced(seed, listener, returns_inputs):
    chooser = random.Random(seed)
    module = random_module(chooser, 25)
    if listener is not None:
        module._register_replace_node_hook(listener)
    records = []
    for _ in range(3):
        module.graph.eliminate_dead_code()  # a pattern has none
        pattern = part_of(chooser, module.graph)
        replacement = replacement_for(pattern, returns_inputs)
        for match in fxcore.subgraph_rewriter.replace_pattern_with_filters(module, pattern, replacement):
            nodes = {ours.name: str(theirs) for ours, theirs in match.nodes_map.items()}
            records.append((nodes, [node.name for node in match.replacements]))
    return module, records


@pytest.mark.parametrize("returns_inputs", [False, True], ids=["new values", "inputs"])
@pytest.mark.parametrize("seed", range(60))
def test_a_graph_without_listeners_is_rewritten_as_one_with(seed, returns_inputs):
    heard = []

    silent, silent_records = replaced(seed, None, returns_inputs)
    listened, listened_records = replaced(seed, lambda old, new, user: heard.append(new), returns_inputs)

    assert described(silent.graph) == described(listened.graph)
    assert silent_records == listened_records
    assert silent.code == listened.code
    assert len(silent.graph.nodes) == len(list(silent.graph.nodes))


@pytest.mark.parametrize("earlier", [False, True])
def test_nodes_are_found_by_their_operators_afterwards(earlier):
    traced = fxcore.symbolic_trace(lambda x: [torch.relu(x), torch.neg(x), torch.relu(torch.neg(x))])
    if earlier:
        traced.graph.find_nodes(op="call_function", target=torch.relu)

    fxcore.replace_pattern(traced, lambda x: torch.relu(x), lambda x: torch.tanh(x))

    found = {
        target: [node.name for node in traced.graph.find_nodes(op="call_function", target=target)]
        for target in (torch.relu, torch.neg, torch.tanh)
    }
    assert found == {torch.relu: [], torch.neg: ["neg", "neg_1"], torch.tanh: ["tanh", "tanh_1"]}


def test_metadata_of_the_replacement_comes_along_as_a_copy():
    traced = fxcore.symbolic_trace(lambda x: [torch.relu(x), torch.relu(torch.neg(x))])
    replacement = fxcore.symbolic_trace(lambda x: torch.tanh(x))
    for node in replacement.graph.nodes:
        node.meta["note"] = node.name

    fxcore.replace_pattern(traced, lambda x: torch.relu(x), replacement)

    first, second = traced.graph.find_nodes(op="call_function", target=torch.tanh)
    assert first.meta == second.meta == {"note": "tanh"}
    first.meta["note"] = "mine"
    assert second.meta == {"note": "tanh"}


def test_a_graph_with_hooks_or_ways_of_its_own_has_listeners():
    class Own(fxcore.Graph):
        pass

    traced = fxcore.symbolic_trace(lambda x: torch.relu(x))

    assert not deferred_edits.has_listeners(traced.graph)
    assert not deferred_edits.has_listeners(fxcore.Graph())
    assert deferred_edits.has_listeners(Own())
    traced._register_erase_node_hook(print)
    assert deferred_edits.has_listeners(traced.graph)


def test_a_hook_is_told_the_name_of_a_node_and_the_text_of_a_constant_that_comes_in_the_place_of_a_value():
    told = []
    traced = fxcore.symbolic_trace(lambda x: torch.neg(torch.relu(x)))
    traced._register_replace_node_hook(lambda old, new, user: told.append((old.name, new, user.name)))

    fxcore.replace_pattern(traced, lambda x: torch.relu(x), lambda x: torch.tanh(x))
    fxcore.replace_pattern(traced, lambda x: torch.tanh(x), lambda x: 3.0)

    assert told == [("relu", "tanh", "neg"), ("tanh", "3.0", "neg")]


@pytest.mark.parametrize("hooks", [(), (lambda **_: None,)], ids=["at the end", "at once"])
def test_a_value_that_took_the_place_of_another_is_replaced_for_the_readers_of_both(hooks):
    def program(x):
        first = torch.neg(x)
        last = torch.relu(first), torch.exp(torch.neg(first))
        return *last, torch.exp(first), torch.relu(x)

    def rewritten(fx):
        traced = fx.symbolic_trace(program)
        traced._replace_hooks = list(hooks)
        fx.subgraph_rewriter.replace_pattern(
            traced, lambda x: (torch.relu(x), torch.neg(x)), lambda x: (torch.sigmoid(x), x)
        )
        return traced

    assert rewritten(fxcore).code == rewritten(torch.fx).code


def test_a_pattern_that_returns_its_input_may_leave_it():
    traced = fxcore.symbolic_trace(lambda x: torch.relu(x) + x)

    fxcore.replace_pattern(traced, lambda x: (x, torch.relu(x)), lambda x: (x, torch.neg(x)))

    assert torch.equal(traced(torch.ones(2)), torch.zeros(2))


def test_readers_come_in_the_order_in_which_they_began_to_read():
    graph = fxcore.Graph()
    x, y, z, w = (graph.placeholder(name) for name in "xyzw")
    first, second = graph.call_function(torch.add, (x, y)), graph.call_function(torch.neg, (x,))
    edits = DeferredEdits(graph, has_listeners=False)
    assert edits.readers(x) == [first, second]

    edits.replace(y, z, [first])
    assert edits.readers(x) == [second, first]
    edits.replace(x, w, [first, second])
    edits.finish()

    assert (list(z.users), list(w.users)) == ([first], [second, first])


def test_copies_are_told_to_hooks_if_there_are_listeners():
    module = fxcore.symbolic_trace(lambda x: torch.neg(x))
    x, neg, _ = module.graph.nodes
    made = []
    module._register_create_node_hook(lambda node: made.append(node.name))
    body = fxcore.Graph()
    inner = body.placeholder("y")
    relu = body.call_function(torch.relu, (inner,))

    for has_listeners in (False, True):
        copies = DeferredEdits(module.graph, has_listeners=has_listeners).insert(neg, [relu], {inner: x})
        assert [(copied.args, copied.next) for copied in copies] == [((x,), neg)]

    assert made == ["relu_1"]


@pytest.mark.parametrize(("count", "is_kept"), [(1, True), (2, False)])
def test_the_index_of_operators_is_dropped_above_one_edit_per_8_nodes(count, is_kept):
    graph = fxcore.Graph()
    for _ in range(8):
        graph.placeholder("x")
    graph.find_nodes(op="placeholder")

    expect_edits(graph, count)

    assert (graph._index is not None) is is_kept
    assert len(graph.find_nodes(op="placeholder")) == 8
