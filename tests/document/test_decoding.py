from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_fxgraph.document.decoding import decode
from pytest_fxgraph.document.encoding import encode
from pytest_fxgraph.document.model import GraphDocument, NodeRecord
from pytest_fxgraph.errors import GoldenFormatError, GoldenVersionError

HEAD = "format: 2\nnodes:\n- {name: x, op: placeholder, target: x}\n"
TEXT = HEAD + "- {name: output, op: output, target: output, args: ['%x']}\ncode: |-\n  pass\nend: true\n"


def test_text_and_bytes_with_any_line_ends_and_a_bom_are_one_document():
    document = decode(TEXT, "g.yaml")

    assert document.code == "pass"
    for variant in (TEXT.encode(), TEXT.encode("utf-8-sig"), TEXT.replace("\n", "\r\n").encode(), "\ufeff" + TEXT):
        assert decode(variant, "g.yaml") == document


def test_what_a_formatter_spreads_over_lines_is_read():
    text = "# a comment\nformat: 1\nnodes:\n  - name: x\n    op: placeholder\n    target: x\ncode: ''\n"

    assert decode(text, "g.yaml") == GraphDocument(nodes=(NodeRecord("x", "placeholder", "x"),))


@pytest.mark.parametrize("text", ["format: 7\n", "# note\nformat: 7\nanything: [!else\n", "{format: 7}"])
def test_a_newer_format_is_refused_with_both_versions(text):
    with pytest.raises(
        GoldenVersionError, match=r"g.yaml: it has format 7, and this release reads formats up to 2; upgr"
    ):
        decode(text, "g.yaml")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("format: 0\n", "it has format 0, which never existed"),
        ("format: '1'\nnodes: []\n", "its format is '1', not a whole number"),
        ("", "it is empty"),
        ("just words\n", "it does not begin with `format:`"),
        ("name: CI\non: [push]\n", "it is no golden file of pytest-fxgraph"),
        ("- format: 1\n", "it is no golden file of pytest-fxgraph"),
        ("format: 1\nnodes: []\n", "line 1: a graph lacks 'code'"),
        ("format: 1\nnodes: []\ncode: ''\nextra: 1\n", "a graph has 'extra', which format 1 does not know"),
        ("format: 1\nnodes: x\ncode: ''\n", "'nodes' is not a sequence"),
        ("format: 1\nnodes: [x]\ncode: ''\n", "an item of 'nodes' is not a mapping"),
        ("format: 1\nnodes: []\ncode: 3\n", "'code' is 3, which is not a text"),
        ("format: 1\nnodes: []\ncode: {}\n", "'code' is a mapping, which is not a text"),
        ("format: 2\ncode: ''\nend: true\n", "line 1: a graph lacks 'nodes'"),
        ("format: 2\nnodes: []\nextra: 1\nend: true\n", "a graph has 'extra', which format 2 does not know"),
        ("format: 1\nnodes: []\ncode: ''\nend: true\n", "a graph has 'end', which format 1 does not know"),
        ("format: 2\nnodes: []\n", "it was cut off: its last line is not `end: true`"),
        ("format: 2\nnodes: []\nend: tru", "it was cut off"),
        ("format: 2\nnodes: []\nend: 'true'\n", "it was cut off"),
        ("format: 2\nend: true\nnodes: []\n", "line 1: 'nodes' stands behind `end: true`, which ends a golden"),
        ("format: 2\nnames: kept\nnodes: []\nend: true\n", "'names' is 'kept', not 'traced'"),
        (HEAD + "- {name: y, op: output}\nend: true\n", "line 4: a node lacks 'target'"),
        (HEAD + "- {name: y, op: jump, target: y}\nend: true\n", "line 4: 'op' is 'jump', not one of placeholder"),
        (HEAD + "- {name: y, op: output, target: y, args: [1]}\nend: true\n", "'args' holds 1, which is not a text"),
        (HEAD + "- {name: y, op: output, target: y, kwargs: []}\nend: true\n", "'kwargs' is not a mapping"),
        (
            HEAD + "- {name: y, op: output, target: y, args: ['%z']}\nend: true\n",
            "node 'y' reads %z, which no node before",
        ),
        (HEAD + "- {name: x, op: output, target: y}\nend: true\n", "line 4: two nodes are named 'x'"),
        (HEAD + "- {name: x, name: y, op: output, target: y}\nend: true\n", "the key 'name' stands there twice"),
        (
            HEAD + "modules:\n- {path: a, kind: b, training: 'true'}\nend: true\n",
            "'training' is 'true', neither true nor",
        ),
        (HEAD + "modules:\n- {path: a, kind: b, graph: x}\nend: true\n", "the graph of module 'a' is not a mapping"),
        (HEAD + "state:\n- {path: a, kind: gas, value: b}\nend: true\n", "'kind' is 'gas', not one of parameter"),
        ("<<<<<<< HEAD\n" + TEXT, "line 1: it holds a merge conflict"),
        (TEXT[:60], "it was cut off: its last line is not `end: true`"),
        (TEXT.replace("{name: x,", "{name: x:,"), "line 3: it is not YAML"),
        ("format: 1\nnodes: " + "[" * 100_000, "line 2: it is nested deeper than 256 levels"),
        (b"format: 1\n\xff\xfe", "line 2: it is not UTF-8 text .byte 10"),
        (b"\x89PNG\r\n\x1a\n", "it is not UTF-8 text"),
        (b"\x80\x04}q\x00.", "it is not UTF-8 text"),
    ],
)
def test_a_file_that_is_no_golden_is_refused_with_the_reason_and_the_remedy(text, words):
    with pytest.raises(GoldenFormatError, match=f"cannot read the golden file golden/g.yaml.*{words}") as refusal:
        decode(text, "golden/g.yaml")

    assert "restore it from version control, or rewrite it with pytest --fx-update-golden" in str(refusal.value)


def test_a_file_that_is_too_large_is_refused_unread(monkeypatch):
    monkeypatch.setattr("pytest_fxgraph.document.decoding.MOST_BYTES", 2**20)

    with pytest.raises(GoldenFormatError, match="it is larger than 1 MiB"):
        decode("[" * (2**20 + 1), "g.yaml")


@given(st.binary(max_size=40) | st.text(max_size=40) | st.text("-?:[]{}!&*'\"|>% \nab1", max_size=40))
@settings(max_examples=50)
def test_any_other_content_is_refused_as_a_format_error(content):
    with pytest.raises(GoldenFormatError):
        decode(content, "g.yaml")


@given(st.data())
@settings(max_examples=50)
def test_a_damaged_golden_is_read_or_refused_and_nothing_else(data):
    content = bytearray(TEXT.encode())
    position = data.draw(st.integers(0, len(content) - 1))
    content[position : position + data.draw(st.integers(0, 5))] = data.draw(st.binary(max_size=3))

    try:
        read = decode(bytes(content), "g.yaml")
    except GoldenFormatError:
        return

    assert isinstance(read, GraphDocument)


def test_what_a_golden_tells_is_read_and_names_that_are_not_known_are_refused():
    document = GraphDocument(nodes=(), facts=("layouts", "views"))

    assert decode(encode(document), "g.yaml").facts == ("layouts", "views")
    with pytest.raises(GoldenFormatError, match=r"'facts' names 'colours', which format . does not know"):
        decode(encode(document).replace("views", "colours"), "g.yaml")


def test_format_1_has_no_closing_key_and_is_read():
    older = TEXT.replace("format: 2", "format: 1").replace("end: true\n", "")

    assert decode(older, "g.yaml") == decode(TEXT, "g.yaml")
