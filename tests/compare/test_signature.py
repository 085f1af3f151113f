from __future__ import annotations

import pytest

from fixtures.documents import document
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.document.model import StateRecord


def signature(expected, obtained):
    changes = compare_documents(expected, obtained, level="signature").changes
    return [
        (change.action, change.subject, change.where, change.field, change.expected, change.obtained)
        for change in changes
    ]


WEIGHT = (StateRecord("fc.weight", "parameter", "float32[2, 3]"),)


def test_what_lies_between_inputs_and_outputs_is_free():
    expected = document("%x = input x\n%a = f(%x)\nreturn (%a, %x)", state=WEIGHT)
    obtained = document("%x = input x\n%b = g(%x)\n%c = h(%b)\nreturn (%c, %b)", state=WEIGHT)

    assert signature(expected, obtained) == []


@pytest.mark.parametrize(
    ("obtained", "found"),
    [
        ("%y = input y\nreturn %y", ("removed", "input", "x", "", "x", "")),
        ("%x = input x\n%y = input y\nreturn %x", ("added", "input", "y", "", "", "y")),
        ("%x = input x = 1 : float32[2]\nreturn %x", ("changed", "input", "x", "default", "", "1")),
        ("%x = input x : int64[2]\nreturn %x", ("changed", "input", "x", "value", "float32[2]", "int64[2]")),
        ("%x = input x : int64[2]\nreturn %x", ("changed", "output", "output", "value", "float32[2]", "int64[2]")),
        ("%x = input x : float32[2]\nreturn (%x,)", ("changed", "output", "output", "args[0]", "%", "(%,)")),
    ],
)
def test_inputs_and_outputs_are_compared(obtained, found):
    expected = document("%x = input x : float32[2]\nreturn %x")

    assert found in signature(expected, document(obtained))


def test_the_value_of_an_output_without_nodes_is_compared():
    expected, obtained = document("%x = input x\nreturn () : ()"), document("%x = input x\nreturn () : (int64[],)")

    assert signature(expected, obtained) == [("changed", "output", "output", "value", "()", "(int64[],)")]


def test_order_of_inputs_is_compared():
    expected = document("%x = input x\n%y = input y\nreturn %x")
    obtained = document("%y = input y\n%x = input x\nreturn %x")

    assert signature(expected, obtained) == [("moved", "input", "y", "order", "x, y", "y, x")]


@pytest.mark.parametrize(
    ("state", "found"),
    [
        ((), ("removed", "state", "fc.weight", "", "float32[2, 3]", "")),
        (
            (StateRecord("fc.weight", "parameter", "float32[3, 2]"),),
            ("changed", "state", "fc.weight", "value", "float32[2, 3]", "float32[3, 2]"),
        ),
        (
            (*WEIGHT, StateRecord("fc.bias", "parameter", "float32[2]")),
            ("added", "state", "fc.bias", "", "", "float32[2]"),
        ),
    ],
)
def test_names_shapes_and_dtypes_of_state_are_compared(state, found):
    line = "%x = input x\nreturn %x"

    assert signature(document(line, state=WEIGHT), document(line, state=state)) == [found]
