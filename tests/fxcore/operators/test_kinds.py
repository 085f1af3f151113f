from __future__ import annotations

import operator
from types import SimpleNamespace

import pytest
import torch

from fixtures.lowered import EdgeOpOverload, EdgeOpOverloadPacket, edge_graph
from fxcore.operators.effects import function_effects
from fxcore.operators.kinds import (
    dialect_of,
    is_packet,
    operator_name,
    overload_behind,
    overloads_of,
    packet_name,
    schema_of,
    tags_of,
)
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.document.builder import build_document

ADD = torch.ops.aten.add
EDGE = EdgeOpOverloadPacket(ADD)


@torch.library.custom_op("fx_operator_kinds::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@torch.library.custom_op("fx_operator_kinds::fill", mutates_args=("x",))
def fill(x: torch.Tensor) -> None:
    x.fill_(1)


PACKET = torch.ops.fx_operator_kinds.twice


@pytest.mark.parametrize(
    ("target", "name", "packet"),
    [
        (ADD.Tensor, "aten.add.Tensor", "aten.add"),
        (ADD, "aten.add", "aten.add"),
        (EDGE.Tensor, "edge.aten.add.Tensor", "edge.aten.add"),
        (EDGE, "edge.aten.add", "edge.aten.add"),
        (EdgeOpOverload(torch.ops.aten.relu.default), "edge.aten.relu.default", "edge.aten.relu"),
        (twice, "fx_operator_kinds.twice.default", "fx_operator_kinds.twice"),
        (PACKET, "fx_operator_kinds.twice", "fx_operator_kinds.twice"),
        (torch.ops.higher_order.cond, "higher_order.cond", None),
        (torch.add, None, None),
        (operator.add, None, None),
        (torch.nn.ReLU, None, None),
        (3, None, None),
    ],
)
def test_operators_are_written_by_their_own_name(target, name, packet):
    assert operator_name(target) == name
    assert packet_name(target) == packet


@pytest.mark.parametrize(
    ("target", "dialect"),
    [(EDGE, "edge"), (EDGE.Tensor, "edge"), (ADD, None), (ADD.Tensor, None), (twice, None), (torch.add, None)],
)
def test_only_operators_that_stand_for_others_have_a_dialect(target, dialect):
    assert dialect_of(target) == dialect


def test_an_overload_of_a_dialect_stands_for_an_overload_of_torch():
    assert overload_behind(EDGE.Tensor) is ADD.Tensor
    for target in (ADD.Tensor, ADD, EDGE, twice, torch.add, operator.add, "add"):
        assert overload_behind(target) is target


def test_overloads_have_a_schema_and_packets_have_none():
    assert schema_of(EDGE.Tensor).name == "aten::add"
    assert schema_of(twice).name == "fx_operator_kinds::twice"
    assert schema_of(EDGE) is None
    assert [is_packet(each) for each in (EDGE, ADD, ADD.Tensor)] == [True, True, False]


def effects(target):
    return function_effects(target, operator_name(target))


def test_effects_come_from_the_schema():
    assert effects(EdgeOpOverload(torch.ops.aten.relu.default)).is_plain
    assert effects(EdgeOpOverload(torch.ops.aten.relu_.default)).writes == ((0, "self"),)
    assert effects(EdgeOpOverload(torch.ops.aten.bernoulli.default)).kinds == ("random",)
    assert effects(EdgeOpOverload(torch.ops.aten.view.default)).aliases == (0,)
    assert effects(twice).is_plain
    assert effects(PACKET).is_plain
    assert effects(fill).writes == effects(torch.ops.fx_operator_kinds.fill).writes == ((0, "x"),)


def test_independent_operators_of_a_dialect_may_be_reordered_and_others_may_not():
    golden = build_document(edge_graph("sin", "cos"))
    written = build_document(edge_graph("sin", "relu_"))

    assert [node.target for node in golden.nodes][1:3] == ["edge.aten.sin.default", "edge.aten.cos.default"]
    assert compare_documents(golden, build_document(edge_graph("cos", "sin"))).is_empty
    assert not compare_documents(written, build_document(edge_graph("relu_", "sin"))).is_empty


def test_an_operator_of_a_dialect_has_the_tags_of_torch_s_and_a_function_has_none():
    tag = torch.Tag.nondeterministic_seeded

    assert tag in tags_of(torch.ops.aten.rand.default)
    assert tag in tags_of(EdgeOpOverloadPacket(torch.ops.aten.rand).default)
    assert tag not in tags_of(ADD.Tensor)
    assert tags_of(torch.relu) == tags_of("relu") == ()


def test_only_an_object_with_the_whole_form_of_an_operator_is_taken_for_one():
    schema = SimpleNamespace(name="mine::op", arguments=[], returns=[])

    assert schema_of(SimpleNamespace(_schema=schema)) is schema
    for missing in ("name", "arguments", "returns"):
        part = SimpleNamespace(**{key: value for key, value in vars(schema).items() if key != missing})
        assert schema_of(SimpleNamespace(_schema=part)) is None
    assert schema_of(SimpleNamespace(_schema=SimpleNamespace(name=1, arguments=[], returns=[]))) is None
    assert schema_of(torch.relu) is None


def test_a_packet_of_another_library_says_its_name_and_its_overloads():
    packet = SimpleNamespace(_qualified_op_name="mine::op", _overload_names=["", "out"], default="d", out="o")

    assert is_packet(packet)
    assert overloads_of(packet) == ["d", "o"]
    assert not is_packet(SimpleNamespace(_qualified_op_name="mine::op"))
    assert not is_packet(SimpleNamespace(_overload_names=[]))
    assert not is_packet(SimpleNamespace(_qualified_op_name=1, _overload_names=[]))
    assert (is_packet(ADD), is_packet(ADD.Tensor)) == (True, False)
