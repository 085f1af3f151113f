from __future__ import annotations

import pytest

from fixtures.documents import document
from pytest_fxgraph.compare.difference import Change, Difference
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.report.headline import headline


def line_of(*changes: Change, **more: int) -> str:
    return headline(Difference("structure", changes, **more))


ADDED = Change("operators", "added", "node", "relu", obtained="torch.relu(%x)", operator="torch.relu")
REMOVED = Change("operators", "removed", "node", "add", expected="operator.add(%x, 1)", operator="operator.add")
RETARGETED = Change("operators", "changed", "node", "y", "target", "torch.relu", "torch.gelu")
STRIDE = Change("arguments", "changed", "module", "conv1", "config.stride", "(1, 1)", "(2, 2)")
WEIGHT = Change("state", "changed", "state", "conv1.weight", "value", "float32[8]", "float32[4]")
VALUE = Change("signature", "changed", "output", "output", "value", "float32[8]", "float32[4]")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ((), "no difference"),
        ((ADDED, REMOVED), "+1 torch.relu, -1 operator.add"),
        ((ADDED, ADDED, REMOVED), "+2 torch.relu, -1 operator.add"),
        ((RETARGETED,), "y: torch.relu -> torch.gelu"),
        ((RETARGETED, REMOVED), "+1 torch.gelu, -1 operator.add, -1 torch.relu"),
        ((STRIDE,), "conv1: stride (1, 1) -> (2, 2)"),
        ((VALUE, WEIGHT, STRIDE), "conv1: stride (1, 1) -> (2, 2), and 2 more"),
        ((WEIGHT,), "conv1.weight: float32[8] -> float32[4]"),
        ((VALUE,), "the output: float32[8] -> float32[4]"),
        ((Change("signature", "added", "input", "mask", operator="mask"),), "input mask added"),
        ((Change("signature", "changed", "input", "y", "target", "x", "y"),), "input x is now y"),
        (
            (Change("wiring", "changed", "node", "add_1", "args[0]", "%a", "%b"),),
            "add_1: args[0] %a -> %b",
        ),
        (
            (Change("arguments", "changed", "node", "s", "kwargs['dim']", "1", "2"),),
            "s: dim 1 -> 2",
        ),
        (
            (Change("order", "moved", "node", "d", "order", "after c", "after e"),),
            "d moved: after c -> after e",
        ),
        (
            (
                Change("cosmetic", "changed", "node", "p", "name", "a", "p"),
                Change("cosmetic", "changed", "node", "q", "name", "b", "q"),
            ),
            "2 nodes renamed",
        ),
        (
            (Change("cosmetic", "changed", "code", "line 3", "", "return x", "return y"),),
            "generated code, line 3: return x -> return y",
        ),
        (
            (Change("operators", "changed", "count", "torch.relu", "count", "2", "3", operator="torch.relu"),),
            "torch.relu: 2 -> 3",
        ),
    ],
)
def test_the_headline_names_the_cause(changes, words):
    assert line_of(*changes) == words


def test_the_same_change_at_many_places_is_named_once():
    changes = [Change("arguments", "changed", "node", f"norm_{i}", "args[1]", "1e-05", "1e-06") for i in range(12)]

    assert line_of(*changes) == "norm_0: args[1] 1e-05 -> 1e-06 (and at 11 more places)"


def test_what_is_not_listed_counts_too():
    assert line_of(STRIDE, omitted=40) == "conv1: stride (1, 1) -> (2, 2), and 40 more"


def test_many_operators_are_cut():
    changes = [Change("operators", "added", "node", name, operator=name) for name in "abcdefg"]

    assert line_of(*changes) == "+1 a, +1 b, +1 c, 4 other operators"


def test_the_headline_of_compared_graphs():
    expected = document("%x = input x\n%a = torch.relu(%x)\nreturn %a")
    obtained = document("%x = input x\n%b = torch.neg(%x)\n%a = torch.relu(%b)\nreturn %a")

    assert headline(compare_documents(expected, obtained)) == "+1 torch.neg"
