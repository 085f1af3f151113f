from __future__ import annotations

from dataclasses import replace

import pytest

from fixtures.documents import document
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.document.model import ModuleRecord, StateRecord

CONV = ModuleRecord("conv", "torch.nn.Conv2d", (("stride", "(1, 1)"), ("bias", "True")), training=True)
WEIGHT = StateRecord("w", "parameter", "float32[2]", requires_grad=True)


def graph(modules=(CONV,), state=(WEIGHT,)):
    return document("%x = input x\n%w = get w\n%a = self.conv(%x, %w)\nreturn %a", modules=modules, state=state)


def changes(obtained):
    return [
        (change.kind, change.action, change.where, change.field, change.expected, change.obtained)
        for change in compare_documents(graph(), obtained).changes
    ]


@pytest.mark.parametrize(
    ("obtained", "found"),
    [
        (replace(CONV, kind="torch.nn.Conv3d"), ("operators", "kind", "torch.nn.Conv2d", "torch.nn.Conv3d")),
        (
            replace(CONV, config=(("stride", "(2, 2)"), ("bias", "True"))),
            ("arguments", "config.stride", "(1, 1)", "(2, 2)"),
        ),
        (replace(CONV, config=(("bias", "True"),)), ("arguments", "config.stride", "(1, 1)", "")),
        (replace(CONV, training=False), ("arguments", "training", "True", "False")),
        (replace(CONV, training=None), ("arguments", "training", "True", "")),
    ],
)
def test_each_field_of_a_module_is_compared(obtained, found):
    kind, *texts = found

    assert changes(graph(modules=(obtained,))) == [(kind, "changed", "conv", *texts)]


def test_order_of_configuration_is_free():
    assert changes(graph(modules=(replace(CONV, config=CONV.config[::-1]),))) == []


@pytest.mark.parametrize(
    ("obtained", "found"),
    [
        (replace(WEIGHT, kind="buffer"), ("kind", "parameter", "buffer")),
        (replace(WEIGHT, value="float64[2]"), ("value", "float32[2]", "float64[2]")),
        (replace(WEIGHT, requires_grad=False), ("requires_grad", "True", "False")),
        (replace(WEIGHT, persistent=False), ("persistent", "True", "False")),
        (replace(WEIGHT, content="[1.0, 2.0]"), ("content", "", "[1.0, 2.0]")),
        (replace(WEIGHT, same_as="v"), ("same_as", "", "v")),
    ],
)
def test_each_field_of_the_state_is_compared(obtained, found):
    assert changes(graph(state=(obtained,))) == [("state", "changed", "w", *found)]


def test_state_that_came_or_went_is_listed():
    bias = StateRecord("b", "parameter", "float32[2]")

    assert changes(graph(state=(WEIGHT, bias))) == [("state", "added", "b", "", "", "parameter float32[2]")]
    assert changes(graph(state=())) == [("state", "removed", "w", "", "parameter float32[2]", "")]


def test_a_change_names_the_node_that_uses_what_changed():
    obtained = graph(modules=(replace(CONV, training=False),), state=(replace(WEIGHT, value="float64[2]"),))

    nodes = {change.where: change.node for change in compare_documents(graph(), obtained).changes}

    assert nodes == {"conv": "a", "w": "w"}


def test_a_module_that_became_a_graph_is_a_difference():
    inner = document("%x = input x\nreturn %x")

    assert changes(graph(modules=(replace(CONV, graph=inner),))) == [
        ("operators", "changed", "conv", "graph", "no graph", "a graph")
    ]


def test_texts_are_compared_not_numbers():
    assert changes(graph(state=(replace(WEIGHT, content="[0.0]"),))) != []
    expected = graph(state=(replace(WEIGHT, content="[0.0, nan]"),))
    negative = graph(state=(replace(WEIGHT, content="[-0.0, nan]"),))

    assert compare_documents(expected, expected).is_empty
    assert not compare_documents(expected, negative).is_empty


CONSTANT = StateRecord("w", "constant", "float32[2]", content="[1.0, 2.0]")
BUFFER = StateRecord("w", "buffer", "float32[2]")


@pytest.mark.parametrize("other", [BUFFER, replace(CONSTANT, content=None)])
def test_a_constant_whose_content_one_side_does_not_know_is_not_reported(other):
    constant, unknown = graph(state=(CONSTANT,)), graph(state=(other,))

    assert compare_documents(constant, unknown).is_empty
    assert compare_documents(unknown, constant).is_empty
    assert not compare_documents(constant, unknown, level="exact").is_empty


@pytest.mark.parametrize(
    "other",
    [
        replace(CONSTANT, content="[1.0, 3.0]"),
        replace(BUFFER, value="float32[3]"),
        replace(BUFFER, persistent=False),
        replace(BUFFER, kind="parameter"),
        replace(CONSTANT, content=None, requires_grad=True),
    ],
)
def test_what_both_sides_know_of_a_constant_is_compared(other):
    assert not compare_documents(graph(state=(CONSTANT,)), graph(state=(other,))).is_empty
    assert not compare_documents(graph(state=(other,)), graph(state=(CONSTANT,))).is_empty


def test_the_content_of_a_shared_constant_is_compared_whichever_of_its_names_comes_first():
    first = (replace(CONSTANT, path="v"), replace(CONSTANT, same_as="v", content=None))
    turned = (CONSTANT, replace(CONSTANT, path="v", same_as="w", content=None))
    other = (replace(CONSTANT, content="[1.0, 3.0]"), replace(CONSTANT, path="v", same_as="w", content=None))

    assert compare_documents(graph(state=first), graph(state=turned)).is_empty
    assert not compare_documents(graph(state=first), graph(state=other)).is_empty
