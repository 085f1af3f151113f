"""What is written is read back, whatever a graph holds; any other bytes are refused or read, and nothing else."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fixtures.document_strategies import documents
from fixtures.file_damage import verdict
from fixtures.mutant_trials import GRAPH_LEVELS as LEVELS
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.document.decoding import decode
from pytest_fxgraph.document.encoding import encode
from pytest_fxgraph.errors import GateError
from pytest_fxgraph.goldens.files import Received, read_received, write_received
from pytest_fxgraph.goldens.store import GoldenStore

SHORT, LONG = 15, 10_000
ANY_BYTES = st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass"))
YAML_LIKE = st.text("-?:[]{}!&*'\"|>% \n\r\tab1#~", max_size=80).map(str.encode)
WORDS = """
format: 3|graph: ||  input x|  %y = f(%x)|code: ||- |''|[]|{}|  return %y|  |!|&a |*a |: |, |modules: ||  a: b()|
format: 2|end: true|  block a.*:|  a.0() like a.*|state: ||notes: []|\ufeff|\r|  w: parameter float32[2]
"""
PIECES = st.lists(st.sampled_from([*WORDS.replace("\n", "").split("|"), "\n", "\n- "]), max_size=20).map(
    lambda pieces: "".join(pieces).encode()
)


def for_any(*strategies, examples):
    """Run a function on examples drawn from strategies, as `given` does for a test."""

    def run(rule):
        quiet = settings(max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        quiet(given(*strategies)(rule))()

    return run


examples = pytest.mark.parametrize("examples", [SHORT, pytest.param(LONG, marks=pytest.mark.long)])


@examples
def test_any_document_comes_back_from_any_form_of_its_file(examples, tmp_path):
    store = GoldenStore(tmp_path)

    @for_any(documents(), examples=examples)
    def rule(document):
        text = encode(document)
        assert decode(text, "g.yaml") == document
        assert encode(decode(text, "g.yaml")) == text
        for form in (text.encode(), text.encode("utf-8-sig"), text.replace("\n", "\r\n").encode("utf-8-sig")):
            (tmp_path / "g.yaml").write_bytes(form)
            assert store.read("g.yaml") == text
            assert decode(form, "g.yaml") == document


@examples
def test_a_document_read_back_differs_from_itself_at_no_level(examples):
    @for_any(documents(), examples=examples // 2)
    def rule(document):
        read = decode(encode(document), "g.yaml")
        for level in LEVELS:
            assert compare_documents(document, read, level=level).is_empty


@examples
def test_two_documents_that_differ_are_written_differently(examples):
    @for_any(documents(), documents(), examples=examples // 2)
    def rule(one, other):
        assert (encode(one) == encode(other)) == (one == other)


@examples
def test_any_bytes_are_refused_or_read(examples):
    @for_any(ANY_BYTES | YAML_LIKE | PIECES, examples=examples)
    def rule(content):
        verdict(content, "")


@examples
def test_a_received_file_comes_back_and_any_other_is_refused_or_read(examples):
    @for_any(documents(), ANY_BYTES, st.none() | st.binary(min_size=32, max_size=32), examples=examples // 2)
    def rule(document, content, digest):
        received = Received(encode(document), None if digest is None else digest.hex())
        assert read_received(write_received(received), "g.received.yaml") == received
        assert decode(write_received(received), "g.received.yaml") == document
        with suppress(GateError):
            read_received(content.decode("utf-8", "replace"), "g.received.yaml")
