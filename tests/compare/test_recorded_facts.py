"""What only one of two documents tells is not compared. Each fact has its test in tests/trust/test_facts.py."""

from __future__ import annotations

from dataclasses import replace

from pytest_fxgraph.compare.recorded_facts import with_facts_of_both
from pytest_fxgraph.document.model import FACTS, GraphDocument, ModuleRecord, NodeRecord, StateRecord

X = NodeRecord("x", "placeholder", "x", value="float32[2, s0] strides=(1, Max(1, 2*(s0 + 1)))")
TELLING = GraphDocument(
    nodes=(X,),
    state=(StateRecord("a", "buffer", "float32[2, 2, 2, 2] channels_last", storage="a from byte 0"),),
    modules=(ModuleRecord("m", "user.Leaf", (("scale", "1"), ("sizes", "[1]"), ("forward hooks", "[user.hook]"))),),
    notes=("inputs: x", "range: s0 <= 4"),
    facts=FACTS,
)
SILENT = GraphDocument(
    nodes=(replace(X, value="float32[2, s0]"),),
    state=(StateRecord("a", "buffer", "float32[2, 2, 2, 2]"),),
    modules=(ModuleRecord("m", "user.Leaf", (("scale", "1"),)),),
    notes=("inputs: x",),
)


def test_documents_that_tell_the_same_stay_as_they_are():
    expected, obtained = with_facts_of_both(TELLING, replace(TELLING, nodes=()))

    assert expected is TELLING
    assert obtained.state == TELLING.state


def test_what_one_document_does_not_tell_is_dropped_from_the_other():
    for documents in ((TELLING, SILENT), (SILENT, TELLING)):
        expected, obtained = with_facts_of_both(*documents)

        assert expected == obtained == SILENT
        assert expected.facts == obtained.facts == ()


def test_facts_in_nested_graphs_are_dropped_too():
    outer, silent = (
        GraphDocument(
            nodes=(), modules=(ModuleRecord("m", "GraphModule", graph=replace(graph, facts=())),), facts=facts
        )
        for graph, facts in ((TELLING, FACTS), (SILENT, ()))
    )

    expected, obtained = with_facts_of_both(outer, silent)

    assert expected == obtained == silent


def test_each_document_is_asked_for_what_the_other_lacks():
    golden = replace(TELLING, facts=("layouts",), notes=SILENT.notes, modules=SILENT.modules)
    obtained = replace(SILENT, facts=tuple(fact for fact in FACTS if fact != "layouts"))

    expected, found = with_facts_of_both(golden, obtained)

    assert expected.nodes == found.nodes
    assert expected.facts == found.facts == ()


def test_numbers_of_a_users_module_are_compared_whatever_is_told():
    added = replace(TELLING.modules[0], config=(("bias", "True"), ("mode", "user.Mode.FAST"), ("sizes", "{1, 2}")))
    expected, obtained = with_facts_of_both(SILENT, replace(TELLING, modules=(added,)))

    assert dict(obtained.modules[0].config) == {"bias": "True", "mode": "user.Mode.FAST"}
    assert expected.modules == SILENT.modules
