"""The text of a document: every document comes back from it, and blocks that repeat are written once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fixtures.document_strategies import documents, layered_documents
from pytest_fxgraph.document.decoding import decode
from pytest_fxgraph.document.encoding import encode
from pytest_fxgraph.document.node_names import differs_in_names_at_most, rename_nodes
from pytest_fxgraph.goldens.inline_text import read_inline, write_inline


@pytest.mark.slow
@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(documents() | layered_documents())
def test_a_document_whose_names_are_kept_comes_back_from_its_text(document):
    document = replace(document, keeps_traced_names=True)

    assert decode(encode(document), "a") == document


@settings(max_examples=120, suppress_health_check=[HealthCheck.too_slow])
@given(documents() | layered_documents())
def test_a_folded_document_comes_back_under_names_counted_per_block(document):
    text = encode(document)

    read = decode(text, "a")
    names = {node.name: other.name for node, other in zip(document.nodes, read.nodes, strict=True)}
    assert read == rename_nodes(document, names)
    assert encode(read) == text
    # A line in quotes has its names in escapes, so the text has to be read.
    assert differs_in_names_at_most(text, document) or "~" in text


@pytest.mark.slow
@settings(max_examples=80, suppress_health_check=[HealthCheck.too_slow])
@given(documents() | layered_documents())
def test_a_document_comes_back_from_an_inline_text(document):
    text = write_inline(document)

    read = read_inline(text, "a")
    names = {node.name: other.name for node, other in zip(document.nodes, read.nodes, strict=True)}
    assert read == rename_nodes(document, names)
    assert write_inline(read) == text


@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(layered_documents(), st.data())
def test_a_document_that_differs_does_not_match(document, data):
    place = data.draw(st.integers(0, len(document.nodes) - 1))
    nodes = list(document.nodes)
    nodes[place] = nodes[place]._replace(value="float32[7]")

    assert not differs_in_names_at_most(encode(document), replace(document, nodes=tuple(nodes)))
    assert not differs_in_names_at_most(encode(replace(document, nodes=tuple(nodes))), document)
