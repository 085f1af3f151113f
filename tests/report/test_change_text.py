from __future__ import annotations

import pytest

from pytest_fxgraph.compare.difference import Change
from pytest_fxgraph.report.change_text import clipped, describe_change, describe_place


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
