from __future__ import annotations

import pytest

from fixtures.documents import document
from pytest_fxgraph.draw.builder import picture_of
from pytest_fxgraph.draw.dot import dot_text

TEXT = "%x = input x : float32[2]\n%a = torch.neg(%x) : float32[2] @ m\n%b = torch.exp(%a) @ m\nreturn %b"


def test_boxes_are_clusters_and_shapes_stand_at_edges():
    picture = picture_of(document(TEXT), title='a "golden"\\')

    text = dot_text(picture, picture.all_opened())

    assert text.startswith('digraph "a \\"golden\\"\\\\" {')
    assert "subgraph cluster_5 {" in text
    assert 'n0 -> n1 [label="2"];' in text
    assert text.count("->") == 3


def test_a_closed_box_is_one_node():
    picture = picture_of(document(TEXT), title="")

    text = dot_text(picture, {picture.root.number})

    assert 'n5 [label="m\\n2 nodes", shape=folder' in text
    assert "n0 -> n5" in text
    assert "n1" not in text


def test_differences_are_coloured():
    picture = picture_of(document(TEXT), document(TEXT.replace("torch.exp", "torch.sin")), title="")

    assert 'label="exp → sin", fillcolor="#fff1c2", color="#9a6700"' in dot_text(picture, picture.all_opened())


def test_what_is_written_is_read_by_pydot():
    pydot = pytest.importorskip("pydot")
    picture = picture_of(document(TEXT.replace("torch.exp(%a)", 'torch.exp(%a, "\\"}]; x")')), title="a -> b; }")

    (graph,) = pydot.graph_from_dot_data(dot_text(picture, picture.all_opened()))

    assert len(graph.get_edges()) == 3
    assert [cluster.get_name() for cluster in graph.get_subgraphs()] == ["cluster_5"]


def test_boxes_are_indented_below_their_module_and_a_changed_module_has_a_border():
    picture = picture_of(document(TEXT), document(TEXT.replace("torch.exp", "torch.sin")), title="")

    closed = dot_text(picture, {picture.root.number}).split("\n")
    opened = dot_text(picture, picture.all_opened()).split("\n")

    assert '  n5 [label="m\\n2 nodes ~1", shape=folder, style="filled", color="#9a6700", penwidth=2];' in closed
    assert next(line for line in opened if line.startswith("    n")).startswith('    n1 [label="neg"')
    assert "penwidth" not in dot_text(picture_of(document(TEXT), title=""), {picture.root.number})
