"""A document says which processes a collective runs over in words that are the same on every rank."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from torch.distributed import _functional_collectives as collectives

import fxcore
from fixtures.process_groups import fake_group, needs_fake_group, rows_and_columns
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.document.builder import build_document
from pytest_fxgraph.document.encoding import encode
from pytest_fxgraph.document.process_groups import ProcessGroupTexts

pytestmark = needs_fake_group


def documented(function):
    return build_document(fxcore.symbolic_trace(function, example_inputs=torch.rand(4, 3)), sources=False)


def document_of_rank(rank, function):
    with fake_group(rank):
        row, column = rows_and_columns(rank)
        return documented(lambda x: function(x, row, column))


def rows_first(x, row, column):
    y = collectives.all_reduce(x * 2, "sum", row)
    dist.all_reduce(y, op=dist.ReduceOp.MAX, group=column)
    dist.barrier()
    return y + 1


def columns_first(x, row, column):
    return rows_first(x, column, row)


def test_documents_of_all_ranks_are_the_same_text():
    first, *others = [encode(document_of_rank(rank, rows_first)) for rank in range(4)]

    assert '"process_group(size=2)"' in first
    assert "; = process_group(size=2, step=2)" in first
    assert "torch.distributed.ReduceOp.MAX" in first
    assert "'sum', 'process_group(size=2)')" in first  # in the code
    assert all(other == first for other in others)


def test_another_group_is_a_difference():
    expected, obtained = document_of_rank(1, rows_first), document_of_rank(1, columns_first)

    difference = compare_documents(expected, obtained, level="structure")

    assert not difference.is_empty


def test_different_groups_of_the_same_size_and_step_are_numbered():
    with fake_group():
        other = dist.new_group([0, 1, 2, 3])

        document = documented(
            lambda x: collectives.all_reduce(collectives.all_reduce(x, "sum", dist.group.WORLD), "sum", other)
        )

    groups = [node.args[2] for node in document.nodes if node.target.endswith("all_reduce")]
    assert groups == ['"process_group(size=4)"', '"process_group(size=4)#2"']


def test_irregular_groups_are_told_by_the_offsets_of_their_ranks():
    with fake_group(size=6):
        irregular = dist.new_group([0, 1, 4])

        document = documented(lambda x: collectives.all_reduce(x, "sum", irregular))

    assert document.nodes[1].args[2] == '"process_group(offsets=[0, 1, 4])"'


def test_independent_collectives_keep_their_order():
    def two(x, first, second):
        return sorted_by_name({name: torch.ops._c10d_functional.all_reduce(x, name, "0") for name in (first, second)})

    def sorted_by_name(found):
        return tuple(found[name] for name in sorted(found))

    with fake_group():
        expected, obtained = documented(lambda x: two(x, "max", "sum")), documented(lambda x: two(x, "sum", "max"))

    assert not compare_documents(expected, obtained, level="structure").is_empty


def test_what_waits_for_a_collective_is_before_what_reads_it():
    with fake_group():
        document = documented(
            lambda x: collectives.wait_tensor(torch.ops._c10d_functional.all_reduce(x, "sum", "0")) + 1
        )

    effects = {node.name: node.effects for node in document.nodes}
    assert effects["all_reduce"] == ("collective",)
    assert effects["wait_tensor"] == ("write %all_reduce",)
    assert effects["add"] == ("read %all_reduce",)


def test_a_group_that_is_named_by_keyword_has_the_same_words():
    with fake_group():
        gm = fxcore.symbolic_trace(
            lambda x: torch.ops._c10d_functional.all_reduce(x, reduce_op="sum", group_name="0"),
            example_inputs=torch.rand(4, 3),
        )
        kwargs = [dict(build_document(gm).nodes[1].kwargs)]
        (call,) = [node for node in gm.graph.nodes if node.op == "call_function"]
        call.kwargs = {**call.kwargs, "group_name": "gone"}
        kwargs.append(dict(build_document(gm).nodes[1].kwargs))

    names = ('"process_group(size=4)"', '"gone"')
    assert kwargs == [{"reduce_op": '"sum"', "group_name": name} for name in names]


@pytest.mark.parametrize(
    ("positional", "named"),
    [
        ({}, {"input": "x", "reduce_op": "sum"}),
        (("x",), {"reduce_op": "sum"}),
        (("x", "sum"), {}),
        (("x", "sum", "0"), None),
    ],
)
def test_a_group_has_its_words_however_the_arguments_before_it_are_given(positional, named):
    graph = fxcore.Graph()
    x = graph.placeholder("x")
    args = tuple(x if each == "x" else each for each in positional)
    kwargs = {} if named is None else {**named, "group_name": "0"}
    if "input" in kwargs:
        kwargs["input"] = x
    graph.output(graph.call_function(torch.ops._c10d_functional.all_reduce.default, args, kwargs))
    with fake_group():
        node = build_document(fxcore.GraphModule({}, graph)).nodes[1]

    assert '"process_group(size=4)"' in (*node.args, *dict(node.kwargs).values())


@pytest.mark.parametrize(
    ("ranks", "text"),
    [
        ([3], "size=1"),
        ([2, 3], "size=2"),
        ([1, 3, 5], "size=3, step=2"),
        ([2, 3, 5], "offsets=[0, 1, 3]"),
    ],
)
def test_a_group_is_written_by_its_ranks_relative_to_the_first(ranks, text):
    texts = ProcessGroupTexts()

    assert texts.numbered("a", ranks) == texts.numbered("a", ranks) == f"process_group({text})"
    assert texts.numbered("b", ranks) == f"process_group({text})#2"
    assert texts.numbered("b", ranks, "rows") == f"process_group(rows, {text})"
