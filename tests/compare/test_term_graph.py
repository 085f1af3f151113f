from __future__ import annotations

from fixtures.documents import document
from pytest_fxgraph.compare.term_graph import term_graph


def test_labels_hold_everything_but_names():
    graph = term_graph(document("%x = input x\n%a = f([%x, %x], 2, out=%x, dim=1)\nreturn %a"))

    assert graph.labels[1] == ("call_function", "f", ("[%, %]", "2"), (("dim", "1"), ("out", "%")))
    assert graph.inputs == ((), (0, 0, 0), (1,))


def test_readers_are_known_with_the_position_at_which_they_read():
    graph = term_graph(document("%x = input x\n%a = f(%x, %x)\n%b = g(%a, %x)\nreturn %b"))

    assert graph.users == (((1, 0), (1, 1), (2, 1)), ((2, 0),), ((3, 0),), ())


def test_a_reference_to_nothing_stays_a_literal():
    graph = term_graph(document("%x = input x\n%a = f(%gone, [%gone, %x])\nreturn %a"))

    assert graph.labels[1][2] == ("%gone", "[%gone, %]")
    assert graph.inputs[1] == (0,)
