from __future__ import annotations

import pytest

from pytest_fxgraph.compare.difference import Change
from pytest_fxgraph.report.change_text import clipped, describe_change, describe_place, operator_balance


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (Change("operators", "added", "node", "a", obtained="f(%x)"), "a added: f(%x)"),
        (Change("operators", "removed", "node", "a", expected="f(%x)"), "a removed: f(%x)"),
        (
            Change("state", "added", "state", "fc.bias", obtained="parameter float32[2]"),
            "fc.bias added: parameter float32[2]",
        ),
        (Change("arguments", "changed", "node", "a", "args[1]", "1", ""), "a: args[1] 1 -> nothing"),
        (Change("signature", "changed", "input", "x", "default", "", "None"), "input x: default nothing -> None"),
        (Change("signature", "changed", "node", "a", "value", "int64[]", "int32[]"), "a: value int64[] -> int32[]"),
        (Change("wiring", "changed", "output", "output", "args[0]", "%a", "%b"), "the output: returns %a -> %b"),
        (
            Change("wiring", "changed", "output", "sub/output", "args[0]", "%a", "%b"),
            "the output of sub: returns %a -> %b",
        ),
        (Change("state", "changed", "state", "b", "same_as", "a", ""), "b: shared with a -> nothing"),
        (Change("wiring", "changed", "node", "a", "args[0]", "%a", "%b"), "a: args[0] %a -> %b"),
        (Change("order", "moved", "node", "a", "order", "after b", "after c"), "a moved: after b -> after c"),
        (Change("signature", "changed", "input", "y", "target", "x", "y"), "input x is now y"),
        (Change("operators", "changed", "node", "y", "target", "f", "g"), "y: f -> g"),
        (Change("state", "changed", "state", "w", "value", "int64[]", "int32[]"), "w: int64[] -> int32[]"),
        (Change("operators", "changed", "count", "f", "count", "1", "2"), "f: 1 -> 2"),
        (Change("state", "changed", "state", "w", "content", "1", "2", remark="1 ulp"), "w: values 1 ulp"),
        (Change("state", "changed", "state", "w", "content", "1", "2"), "w: values 1 -> 2"),
        (Change("arguments", "changed", "node", "a", "args[1]", "1", "2", remark="1 ulp"), "a: args[1] 1 -> 2 (1 ulp)"),
        (Change("breaks", "added", "break", "print"), "one graph break more: print"),
        (Change("breaks", "removed", "break", "print"), "one graph break fewer, which is better: accept it: print"),
        (Change("breaks", "changed", "break", "print", "", "1", "2"), "print: 1 -> 2"),
    ],
)
def test_a_change_is_worded(change, words):
    assert describe_change(change) == words


def test_a_place_is_module_node_and_line():
    change = Change("arguments", "changed", "module", "conv", scope="features", node="c", source="model.py:3: y")

    assert describe_place(change) == "in features; node c; model.py:3: y"


def test_an_unknown_place_is_empty():
    assert describe_place(Change("operators", "added", "node", "a")) == ""


def test_a_long_text_is_cut_in_the_middle_and_kept_on_one_line():
    text = clipped("begin " + "x\n" * 500 + " end", longest=60)

    assert len(text) <= 60
    assert text.startswith("begin x ")
    assert text.endswith(" end")
    assert "\n" not in text
    assert " ... " in text


def test_a_short_text_is_left_alone():
    assert clipped("(1, 1)") == "(1, 1)"


@pytest.mark.parametrize(
    ("length", "longest", "cut"),
    [(10, 10, "x" * 10), (11, 10, "xx ... xxx"), (12, 11, "xxx ... xxx"), (13, 12, "xxx ... xxxx")],
)
def test_a_text_above_the_limit_keeps_its_last_third(length, longest, cut):
    assert clipped("x" * length, longest) == cut


def test_operators_that_came_and_went_are_counted_by_name():
    changes = [
        Change("operators", "added", "node", "a", obtained="f(%x)", operator="f"),
        Change("operators", "added", "node", "b", obtained="f"),
        Change("operators", "removed", "node", "c", expected="g"),
        Change("operators", "removed", "node", "d", expected="g(%x)", operator="g"),
        *[Change("operators", "changed", "node", "e", "target", "g", "f")] * 2,
    ]

    assert operator_balance(changes) == {"+ f": 4, "- g": 4}
