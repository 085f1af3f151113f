"""What holds for traced graphs holds for those that torch captured: export, make_fx, graphs within graphs."""

from __future__ import annotations

import random
import zlib

import pytest

from fixtures.captured_subjects import LEADING, WAYS, captured_subjects, leading_subjects
from fixtures.harmless import OF_GRAPHS, copied_deeply, document_of, nodes_renamed, nodes_reordered, pickled
from fixtures.lowered import in_the_edge_dialect
from fixtures.mutant_trials import survivors, trials
from fixtures.mutants import copy_of
from fixtures.mutants_table import MUTATIONS
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.document.builder import build_document
from pytest_fxgraph.document.decoding import decode
from pytest_fxgraph.document.encoding import encode

PLACES = 2
# torch gives the module of an exported program a hook that cannot be pickled.
EDITS = [edit for edit in OF_GRAPHS if edit is not pickled]


def check_mutants(name, gm, places):
    found = list(trials(name, gm, places))

    assert found
    assert survivors(found) == []
    assert [each for each in found if not each.keeps_the_order_of_levels] == []
    assert [(str(each.mutation), each.kinds) for each in found if not each.kinds & {*each.mutation.kinds}] == []


def both(entry, gm, source):
    return nodes_renamed(entry, nodes_reordered(entry, gm, source), source)


def reported(name, gm):
    """Name the harmless edits of a graph that a golden reports."""
    golden = build_document(gm)
    found = []
    for edit in (*EDITS, both, both, both):
        if edit is copied_deeply and name.startswith("functional"):
            continue  # torch cannot copy a functional tensor that a graph holds
        source = random.Random(zlib.crc32(f"{name}/{edit.__name__}/{len(found)}".encode()))
        edited = edit(name, copy_of(gm), source)
        if edited is not None and not compare_documents(golden, document_of(edited)).is_empty:
            found.append(edit.__name__)
    return found


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("name", LEADING)
def test_a_sample_of_the_mutants_of_a_captured_graph_is_caught(name):
    check_mutants(name, leading_subjects()[name], 2)


@pytest.mark.parametrize("name", LEADING)
def test_harmless_edits_of_a_captured_graph_are_not_reported(name):
    assert reported(name, leading_subjects()[name]) == []


@pytest.mark.sampled(every=4, start=2)
@pytest.mark.parametrize("name", LEADING)
def test_a_dialect_has_the_mutants_and_the_harmless_edits_of_the_operators_it_stands_for(name):
    gm = in_the_edge_dialect(leading_subjects()[name])

    assert any(node.target.startswith("edge.aten.") for node in build_document(gm).nodes)
    check_mutants(name, gm, 2)
    assert reported(name, gm) == []


@pytest.mark.parametrize("name", LEADING)
def test_a_captured_graph_comes_back_from_its_golden(name):
    document = build_document(leading_subjects()[name], sources=False)

    assert compare_documents(document, decode(encode(document), "g.yaml"), level="exact").is_empty


def test_a_branch_exchanged_for_the_other_is_caught():
    gm = leading_subjects()["export Branches"]
    branches = [node for node in gm.graph.nodes if node.op == "get_attr" and "true_graph" in str(node.target)]
    others = [node for node in gm.graph.nodes if node.op == "get_attr" and "false_graph" in str(node.target)]
    exchanged = copy_of(gm)
    nodes = {node.name: node for node in exchanged.graph.nodes}
    nodes[branches[0].name].target, nodes[others[0].name].target = others[0].target, branches[0].target

    assert not compare_documents(build_document(gm), build_document(exchanged)).is_empty


@pytest.mark.long
@pytest.mark.parametrize("way", ["make_fx effects", *WAYS])
def test_mutants_of_all_captured_graphs_are_caught_and_harmless_edits_are_not_reported(way):
    subjects = [(name, gm) for name, gm in captured_subjects() if name.startswith(way)]

    assert subjects
    for name, gm in subjects:
        check_mutants(name, gm, PLACES)
        assert reported(name, gm) == [], name


def test_every_mutation_has_its_place_in_some_captured_graph_or_is_about_modules():
    graphs = leading_subjects().values()

    placed = [each for each in MUTATIONS if any(each.count(gm) for gm in graphs)]

    assert len(placed) >= 40
