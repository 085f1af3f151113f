"""Claims about what a transform did are checked against both graphs."""

from __future__ import annotations

import operator

import pytest
import torch
from torch import nn

import fxcore
from fixtures.lowered import EdgeProgramManager
from fixtures.transform_models import Arithmetic, ConvBnRelu, image, matrix
from fixtures.transforms import double_by_adding, fuse_conv_bn
from pytest_fxgraph.errors import SubjectError, TargetError, VacuousCheckError
from pytest_fxgraph.transform.fixture import FxTransform
from pytest_fxgraph.transform.pass_subject import with_own_graph
from pytest_fxgraph.transform.result import TransformResult


@pytest.fixture
def fused() -> TransformResult:
    torch.manual_seed(0)
    return FxTransform(rtol=1e-4, atol=1e-4)(fuse_conv_bn, ConvBnRelu(), image())


@pytest.fixture
def doubled() -> TransformResult:
    return FxTransform()(double_by_adding, Arithmetic(), (matrix(), matrix() + 1))


def test_true_claims_about_operators_pass(fused, doubled):
    fused.assert_ops(removed=nn.BatchNorm2d, unchanged=[nn.Conv2d, torch.relu])
    fused.assert_ops(removed={"torch.nn.BatchNorm2d": 1}, unchanged=True)
    doubled.assert_ops(added={operator.add: 1}, removed=[operator.mul], unchanged=True)


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        ({"added": nn.Conv2d}, "torch.nn.Conv2d should be added, and there were 1, now 1"),
        ({"removed": torch.relu}, "torch.relu should be removed, and there were 1, now 1"),
        ({"removed": {nn.BatchNorm2d: 2}}, "torch.nn.BatchNorm2d should be removed 2 times, and there were 1, now 0"),
        ({"unchanged": nn.BatchNorm2d}, "torch.nn.BatchNorm2d should be unchanged, and there were 1, now 0"),
        ({"unchanged": True}, "torch.nn.BatchNorm2d should be unchanged, and there were 1, now 0"),
    ],
)
def test_false_claims_about_operators_fail_with_both_counts(fused, claims, words):
    with pytest.raises(AssertionError) as caught:
        fused.assert_ops(**claims)
    assert words in str(caught.value)


def test_claims_about_the_state_are_checked(fused):
    fused.assert_state_dict(dropped=["bn.*", "conv.*"])

    with pytest.raises(AssertionError, match=r"'conv.weight' should be kept and is gone"):
        fused.assert_state_dict(kept="conv.weight")
    with pytest.raises(AssertionError, match=r"'encoder.\*' names nothing in the state_dict before the transform"):
        fused.assert_state_dict(dropped="encoder.*")


def test_kept_state_may_be_all_there_was(doubled, fused):
    doubled.assert_state_dict(kept=True)

    with pytest.raises(AssertionError, match=r"claimed: 'conv.weight' should be kept and is gone; 'conv.bias'"):
        fused.assert_state_dict(kept=True, dropped="bn.*")


def test_the_difference_says_what_a_golden_would_see(fused):
    assert not fused.difference.is_empty
    assert any("bn" in change.where for change in fused.difference.changes)


@pytest.mark.parametrize("ask", ["assert_ops", "assert_state_dict"])
def test_without_a_claim_there_is_nothing_that_could_fail(fused, ask):
    with pytest.raises(VacuousCheckError, match=f"{ask} was asked nothing, so that it could never fail"):
        getattr(fused, ask)()


def test_an_operator_of_a_dialect_that_neither_graph_speaks_cannot_be_unchanged(fused):
    fused.assert_ops(unchanged=torch.sigmoid)

    with pytest.raises(TargetError, match=r"aten.sigmoid\* could never match: the graph speaks torch and not aten"):
        fused.assert_ops(unchanged="aten.sigmoid*")


class Turned(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight


def test_state_of_another_shape_is_not_kept():
    def turned(gm):
        gm.weight = nn.Parameter(gm.weight.detach().t().contiguous())
        (product,) = [node for node in gm.graph.nodes if node.op == "call_function"]
        with gm.graph.inserting_before(product):
            product.args = (product.args[0], gm.graph.call_method("t", (product.args[1],)))
        gm.recompile()

    result = FxTransform()(turned, Turned(), torch.ones(4, 2))

    with pytest.raises(AssertionError, match=r"'weight' was float32\[2, 3\] and is float32\[3, 2\] now"):
        result.assert_state_dict(kept="weight")


def test_a_transform_that_changes_metadata_alone_is_a_change():
    def noted(gm):
        gm.graph.output_node().meta["note"] = 1

    assert FxTransform()(noted, fxcore.symbolic_trace(Arithmetic()), (matrix(), matrix() + 1)).is_changed


class Unequal:
    """A value that == cannot compare."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no truth value")

    __hash__ = object.__hash__


@pytest.mark.parametrize(
    ("entry", "is_changed"),
    [((1, 1), False), (([1], [1]), False), (([1], [2]), True), (([Unequal()], [Unequal()]), True)],
)
def test_metadata_that_is_equal_or_the_same_object_is_no_change(entry, is_changed):
    before = fxcore.symbolic_trace(Arithmetic())
    after = with_own_graph(before)
    for graph_module, value in zip((before, after), entry, strict=True):
        for node in graph_module.graph.nodes:
            node.meta = {"note": value}

    assert TransformResult(before, after, ("mine",), _is_rebuilt=False).is_changed is is_changed


def test_a_result_is_known_by_its_graphs_and_passes():
    before = fxcore.symbolic_trace(Arithmetic())
    result, other = (
        TransformResult(before, before, ("mine",)),
        TransformResult(before, before, ("mine",), str, ("a search",), False),
    )

    assert result == other
    assert repr(result) == repr(other)
    assert "own_name" not in repr(result)
    assert result.is_changed  # a rebuilt graph is a change, also an equal one
    assert not other.is_changed


def test_there_is_no_one_difference_between_several_programs():
    program = torch.export.export(nn.Sequential(nn.ReLU()), (torch.ones(2),), strict=False)
    one, two = EdgeProgramManager({"a": program}), EdgeProgramManager({"a": program, "b": program})

    assert TransformResult(one, one, ()).difference.is_empty
    for before, after in ((two, two), (one, two), (one, EdgeProgramManager({"b": program}))):
        with pytest.raises(SubjectError, match=r"there is no one difference between [12] programs and [12]"):
            _ = TransformResult(before, after, ()).difference
