from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_fxgraph.document.decoding import decode
from pytest_fxgraph.document.encoding import encode
from pytest_fxgraph.document.model import GraphDocument, ModuleRecord, NodeRecord
from pytest_fxgraph.errors import GoldenFormatError, GoldenVersionError

HEAD = "format: 3\ngraph: |\n  input x\n"
TEXT = HEAD + "  return %x\ncode: |\n  pass\nend: true\n"


def test_text_and_bytes_with_any_line_ends_and_a_bom_are_one_document():
    document = decode(TEXT, "g.yaml")

    assert document.code == "pass"
    for variant in (TEXT.encode(), TEXT.encode("utf-8-sig"), TEXT.replace("\n", "\r\n").encode(), "\ufeff" + TEXT):
        assert decode(variant, "g.yaml") == document


def test_another_form_of_the_same_yaml_is_read():
    text = '# a comment\nformat: 3\n"graph": |-\n\n    # a note\n    input x\ncode: "a\\n b"\nend: true\n'

    assert decode(text, "g.yaml") == GraphDocument(nodes=(NodeRecord("x", "placeholder", "x"),), code="a\n b")


@pytest.mark.parametrize("text", ["format: 7\n", "# note\nformat: 7\nanything: [!else\n", "{format: 7}"])
def test_a_newer_format_is_refused_with_both_versions(text):
    with pytest.raises(GoldenVersionError, match=r"g.yaml: it has format 7, and this release reads format 3; upgr"):
        decode(text, "g.yaml")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("format: 0\n", "it has format 0, and this release reads format 3 alone"),
        ("format: 1\nnodes: []\ncode: ''\n", "it has format 1, and this release reads format 3 alone"),
        ("format: 2\nnodes: []\nend: true\n", "it has format 2, and this release reads format 3 alone"),
        ("format: '1'\nnodes: []\n", "its format is '1', not a whole number"),
        ("", "it is empty"),
        ("just words\n", "it does not begin with `format:`"),
        ("name: CI\non: [push]\n", "it is no golden file of pytest-fxgraph"),
        ("- format: 1\n", "it is no golden file of pytest-fxgraph"),
        ("format: 3\nend: true\n", "line 1: a graph without a node is written as 'no nodes'"),
        ("format: 3\ngraph: [x]\nend: true\n", "line 2: 'graph' is not a text below `graph: |`"),
        (HEAD + "code: 3\nend: true\n", "line 4: 'code' is not a text"),
        (HEAD + "code: {}\nend: true\n", "line 4: 'code' is not a text"),
        (HEAD + "extra: 1\nend: true\n", "line 4: it has 'extra', which format 3 does not know"),
        (HEAD, "it was cut off: its last line is not `end: true`"),
        (HEAD + "end: tru", "it was cut off"),
        (HEAD + "end: 'true'\n", "it was cut off"),
        (
            "format: 3\nend: true\ngraph: |\n  no nodes\n",
            "line 3: 'graph' stands behind `end: true`, which ends a golden",
        ),
        (HEAD + "names: kept\nend: true\n", "line 4: 'names' is not 'traced'"),
        (HEAD + "graph: |\n  no nodes\nend: true\n", "line 4: the key 'graph' stands there twice"),
        (HEAD + "  %y = jump\nend: true\n", "line 4: expected (...) behind 'jump', got ''"),
        (HEAD + "  jump\nend: true\n", "line 4: it is none of: input NAME"),
        (HEAD + "  %y = f(%z)\nend: true\n", "line 4: node 'y' reads %z, which no node before"),
        (HEAD + "  %x = f()\nend: true\n", "line 4: two values are named 'x'"),
        (HEAD + "modules: |\n  a: b(); frozen\nend: true\n", "line 5: 'frozen' is none of: training, not training"),
        (HEAD + "modules: |\n  a: b()\n    x\nend: true\n", "line 6: it is none of"),
        (HEAD + "state: |\n  a: gas b\nend: true\n", "line 5: a tensor is written as"),
        ("format: 3\ngraph: &a |\n  input x\nend: true\n", "line 2: it has an anchor"),
        ("format: 3\ngraph: !!str |\n  input x\nend: true\n", "line 2: it has a tag"),
        ("format: 3\ngraph: *a\nend: true\n", "line 2: it has an alias"),
        ("<<<<<<< HEAD\n" + TEXT, "line 1: it holds a merge conflict"),
        (TEXT[:40], "it was cut off: its last line is not `end: true`"),
        (TEXT.replace("code: |", "code: |x"), "line 5: it is not YAML"),
        ("format: 3\ngraph: " + "[" * 100_000 + "\nend: true", "line 2: it is nested deeper than 256 levels"),
        (b"format: 1\n\xff\xfe", "line 2: it is not UTF-8 text (byte 10"),
        (b"\x89PNG\r\n\x1a\n", "it is not UTF-8 text"),
        (b"\x80\x04}q\x00.", "it is not UTF-8 text"),
    ],
)
def test_a_file_that_is_no_golden_is_refused_with_the_reason_and_the_remedy(text, words):
    with pytest.raises(
        GoldenFormatError, match=f"cannot read the golden file golden/g.yaml.*{re.escape(words)}"
    ) as refusal:
        decode(text, "golden/g.yaml")

    assert "restore it from version control, or rewrite it with pytest --fx-update-golden" in str(refusal.value)


def test_a_file_that_is_too_large_is_refused_unread(monkeypatch):
    monkeypatch.setattr("pytest_fxgraph.document.decoding.MOST_BYTES", 2**20)

    with pytest.raises(GoldenFormatError, match="it is larger than 1 MiB"):
        decode("[" * (2**20 + 1), "g.yaml")
    with pytest.raises(GoldenFormatError, match="it does not begin with `format:`"):
        decode("[" * 2**20, "g.yaml")


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


@pytest.mark.slow
def test_blocks_in_blocks_cannot_stand_for_more_nodes_than_memory_holds():
    inner = ["%y = torch.neg(%0)", "return %y"]
    for depth in range(20):
        calls = [
            f"%v{place} = b{depth}.{place}({'%0' if not place else f'%v{place - 1}'}) like b{depth}.*"
            for place in range(8)
        ]
        inner = [f"block b{depth}.*:", *(f"  {line}" for line in inner), *calls, "return %v7"]
    lines = [
        "format: 3",
        "graph: |",
        "  input x",
        "  %y = a.0(%x):",
        *(f"    {line}" for line in inner),
        "end: true",
        "",
    ]

    with pytest.raises(GoldenFormatError, match="it has more than 300,000 nodes, modules and tensors"):
        decode("\n".join(lines), "g.yaml")


def test_a_blank_line_in_the_code_of_an_inner_graph_comes_back_beside_letters_of_any_script():
    inner = GraphDocument((), (), (), "def forward(self, å):\n\n    return å\n")
    document = GraphDocument((), (ModuleRecord("a", "torch.nn.ReLU", graph=inner),), (), "")

    assert decode(encode(document), "g.yaml") == document


BLOCKS = "\n".join(f"  {'  ' * depth}%v = b{depth}(%{'0' if depth else 'x'}):" for depth in range(300))
RECORDS = "\n".join(f"  {'  ' * depth}b{depth}:" for depth in range(300))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (TEXT.replace("graph: |\n", "graph: |2\n    input y\n"), "line 3: it is indented, and nothing that could hold"),
        (
            HEAD + "  %a_y = f(%x)\n  %y = a(%x):\n    %y = f(%0)\n    return %y\nend: true\n",
            "line 6: two nodes are named",
        ),
        (HEAD + "notes: |\n  a\n    b\nend: true\n", "line 6: it is indented more than the line before it"),
        (HEAD + '  input "y\nend: true\n', "line 4: a quoted text does not end"),
        (HEAD + '  %y = f("\\x")\nend: true\n', r'line 4: "\x" is no quoted text of Python'),
        (HEAD + BLOCKS + "\nend: true\n", "line 261: blocks lie in blocks deeper than 64 levels"),
        (HEAD + f"modules: |\n{RECORDS}\nend: true\n", "line 262: blocks lie in blocks deeper than 64 levels"),
        (HEAD + f"state: |\n{RECORDS}\nend: true\n", "line 262: blocks lie in blocks deeper than 64 levels"),
        (HEAD + "code: \x01\nend: true\n", "line 4: it is not YAML: control characters are not allowed"),
    ],
)
def test_a_text_that_nobody_wrote_is_refused_with_its_line(text, words):
    with pytest.raises(GoldenFormatError, match=re.escape(words)):
        decode(text, "g.yaml")


@pytest.mark.parametrize(("most", "is_read"), [(3, True), (2, False)])
def test_the_nodes_modules_and_tensors_of_a_golden_are_counted_together(monkeypatch, most, is_read):
    monkeypatch.setattr("pytest_fxgraph.document.text_reader.MOST_RECORDS", most)
    text = HEAD + "modules: |\n  a: b()\nstate: |\n  a.w: buffer int64[]\nend: true\n"

    if is_read:
        assert len(decode(text, "g.yaml").state) == 1
    else:
        with pytest.raises(GoldenFormatError, match=f"line 7: it has more than {most} nodes, modules and tensors"):
            decode(text, "g.yaml")


@pytest.mark.parametrize("text", ['format: 3\nnames: "trac', "format: 3\ngraph: |\n  input x\n", "format: 3\nstate: {"])
def test_a_golden_that_was_cut_off_is_told_as_such(text):
    with pytest.raises(GoldenFormatError, match="it was cut off: its last line is not `end: true`"):
        decode(text, "g.yaml")


def test_a_golden_that_is_whole_and_no_yaml_is_told_by_its_fault():
    with pytest.raises(GoldenFormatError, match="it is not YAML"):
        decode('format: 3\nnames: "trac\nend: true\n', "g.yaml")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"\n\na\xff", "g.yaml, line 3: it is not UTF-8 text (byte 3: "),
        ("- format\n", "g.yaml: it does not begin with `format:`"),
        ("a: 1\n# format 3\n", "g.yaml: it does not begin with `format:`"),
    ],
)
def test_another_file_is_told_from_a_golden(text, words):
    with pytest.raises(GoldenFormatError, match=re.escape(words)):
        decode(text, "g.yaml")
