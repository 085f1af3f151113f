"""The text of an inline golden: everything that a golden file holds, in lines that people write, read strictly."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent, indent

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.document.costs import CostBlock, CostRecord
from pytest_fxgraph.document.decoding import decode
from pytest_fxgraph.document.model import (
    GraphDocument,
    ModuleRecord,
    NodeRecord,
    StateRecord,
    YamlDataError,
    without_code,
)
from pytest_fxgraph.document.spelling import fits_in_a_block
from pytest_fxgraph.errors import GoldenFormatError
from pytest_fxgraph.goldens.inline_text import dedented, read_inline, write_inline

GOLDENS = sorted(
    path for path in Path(__file__).parents[2].joinpath("golden").rglob("*.yaml") if not path.name.startswith("table")
)

X = NodeRecord("x", "placeholder", "x")
OUTPUT = NodeRecord("output", "output", "output", ("%x",))

MANY = GraphDocument(
    (
        X._replace(value="float32[2, 4]"),
        NodeRecord("y_1", "placeholder", "y", ("None",), name_from="position"),
        NodeRecord("rest", "placeholder", "*rest"),
        NodeRecord("linear", "call_module", "layers.0", ("%x",), value="float32[2, 5]", scope="layers"),
        NodeRecord("add", "call_function", "operator.add", ("%linear", "1"), (("alpha", '"a: b; c"'),)),
        NodeRecord("relu_", "call_method", "relu_", ("%add",), effects=("write %add",)),
        NodeRecord("w", "get_attr", "layers.0.weight"),
        NodeRecord("drop", "call_function", "torch.dropout", ("%w", "0.5", "True"), effects=("random", "read %w")),
        NodeRecord("made", "call_function", "test_net.make.<locals>.f#2", meta=(("tag", '"a"'), ("other", "(1, 2)"))),
        NodeRecord("output_1", "output", "output", ("(%drop, {'a'})",)),
    ),
    (
        ModuleRecord("layers.0", "torch.nn.Linear", (("in_features", "4"), ("bias", "True"))),
        ModuleRecord("layers.1", "torch.nn.BatchNorm1d", training=False, same_as="layers.0"),
        ModuleRecord(
            "body", "fxcore.GraphModule", graph=GraphDocument((X, OUTPUT), notes=("inner",), code="def f():\n\n  1")
        ),
    ),
    (
        StateRecord("layers.0.weight", "parameter", "float32[5, 4]", requires_grad=True),
        StateRecord("mean", "buffer", "float32[5] strides=(2,)", persistent=False, storage="table.weight from byte 64"),
        StateRecord("c", "constant", "int64[2]", content="[1, 2]", name_from="lifting"),
    ),
    notes=("range: 4 <= s0 <= 64", '"quoted"', " led by a blank"),
    symbols=("s0", "s1"),
    cost=CostBlock(CostRecord(1, 2, 3, 4, 5), 7, "", (("", CostRecord()),)),
    code="def forward(self, x):\n    return x",
)


def test_each_fact_has_a_line_that_people_can_write():
    assert write_inline(MANY) == dedent(
        """\
        input x  # float32[2, 4]
        input y as %y_1 = None  # named by position
        input *rest as %rest
        %linear = self.layers.0(%x)  # float32[2, 5]; in layers
        %add = operator.add(%linear, 1, alpha="a: b; c")
        %relu_ = %add.relu_()  # effects: write %add
        %w = self.layers.0.weight
        %drop = torch.dropout(%w, 0.5, True)  # effects: random, read %w
        %made = call_function "test_net.make.<locals>.f#2"()  # meta: tag="a", other=(1, 2)
        %output_1 = output "output"(~"(%drop, {'a'})")
        modules:
          layers.0: torch.nn.Linear(in_features=4, bias=True)
          layers.1: torch.nn.BatchNorm1d(); not training; is layers.0
          body: fxcore.GraphModule()
            input x
            return %x
            notes:
              inner
            code:
              def f():

                1
        state:
          layers.0.weight: parameter float32[5, 4]
          mean: buffer float32[5] strides=(2,); not persistent; storage table.weight from byte 64
          c: constant int64[2]; = [1, 2]; named by lifting
        notes:
          range: 4 <= s0 <= 64
          "quoted"
          ~" led by a blank"
        symbols:
          s0
          s1
        cost:
          total: flops=1, read=2, written=3, params=4, nodes=5, peak_activation=7, peak_at=""
          "": flops=0, read=0, written=0, params=0, nodes=0
        code:
          def forward(self, x):
              return x
        """
    )


def test_what_is_written_is_read_as_the_same_document():
    text = write_inline(MANY)

    assert read_inline(text, "test_net.py:1") == MANY
    assert read_inline(dedented(indent(f"\n{text}    ", "        ")), "test_net.py:1") == MANY


def test_our_own_goldens_are_the_same_as_inline_texts():
    assert len(GOLDENS) > 50
    for path in GOLDENS:
        document = without_code(decode(path.read_bytes(), str(path)))
        text = write_inline(document)

        assert read_inline(text, str(path)) == document
        assert "~" not in text  # every record has a spelling of its own


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("  input   x  #  float32[2,4]", "input x  # float32[2, 4]"),
        ("input x# float32[ 2, 4 ]", "input x  # float32[2, 4]"),
        ("input x\n# what a person notes\n\n%y=torch.relu( %x )", "input x\n%y = torch.relu(%x)"),
        ("input x\n%y = .relu(%x)", "input x\n%y = %x.relu()"),
        ("input x\n%y = f(%x,[1,2,],(3,), dim = -1)", "input x\n%y = f(%x, [1, 2], (3,), dim=-1)"),
        ("input x\n%y = f('it\"s', 1e-5, 1_000, .5)", 'input x\n%y = f("it\\"s", 1e-05, 1000, .5)'),
        ("return (1, 2,)", "return (1, 2)"),
        ("return 1\nmodules:\n    a : torch.nn.ReLU( )", "return 1\nmodules:\n  a: torch.nn.ReLU()"),
        (
            "return 1\nstate:\n  w: parameter float32[2,3];no grad",
            "return 1\nstate:\n  w: parameter float32[2, 3]; no grad",
        ),
        ('input x\n%y = call_function "f"(%x)', "input x\n%y = f(%x)"),
        ('return 1\nnotes:\n  ~"plain"', "return 1\nnotes:\n  plain"),
    ],
)
def test_another_spelling_means_the_same(written, meant):
    ended = "" if "return" in written else "\nreturn 1"

    assert read_inline(dedented(written + ended), "a") == read_inline(dedented(meant + ended), "a")


UNREADABLE = [
    ("x = 1", "it is none of: input NAME, %NAME = TARGET(...), return ..., block PATH:, or a title"),
    ("%y = torch.relu(%x", "a bracket is not closed: ')' is missing"),
    ("%y = torch.relu(%x))", "the bracket ')' closes nothing"),
    ('%y = f("a)', "a quoted text does not end"),
    ("%y = torch.relu", "expected (...) behind 'torch.relu', got ''"),
    ("%y = (1)", "'(1)' calls nothing"),
    ("%y = torch.relu(%z)", "node 'y' reads %z, which no node before it makes"),
    ("input x", "two values are named 'x'"),
    ("%y = f(1, , 2)", "an argument is missing at a comma"),
    ("%y = f(a=1, 2)", "the argument '2' stands behind one with a keyword"),
    ("%y = f(a=1, a=2)", "the keyword 'a' stands there twice"),
    ("%y = f(1)  # a; b", "'b' stands there twice, or is none of: effects:, meta:, named by, in"),
    ("%y = f(1)  # a # b", "a second `#` stands in it"),
    ("%y = f(1)  # in a; in b", "'in b' stands there twice"),
    ("%y = f(1)  # meta: tag", "the metadata 'tag' has no name"),
    ("input y 3", "expected `= DEFAULT`, `# VALUE` or nothing behind the input, got '3'"),
    ("  %y = f(1)", "it is indented, and the line before it is no block"),
    ("modules:\n  a", "it is no line of this section"),
    ("modules:\n  a: B", "a module is written as `PATH: CLASS(name=value, ...)`"),
    ("modules:\n  a: B(1)", "the value '1' of the module has no name"),
    ("modules:\n  a: B(); colour red", "'colour red' is none of: training, not training, is, named by"),
    ("state:\n  a: tensor", "a tensor is written as `PATH: parameter float32[2, 4]`"),
    ("state:\n  a: parameter ; = 1", "a value is missing"),
    ("state:\n  a: parameter b\n    c: parameter d", "it is indented below a tensor"),
    ('notes:\n  ~"a', "is no quoted text of Python"),
    ("cost:\n  total: flops=1", "the costs begin with `total: flops=0, ..., peak_activation=0"),
    ("cost:\n  conv: flops=1", "the costs begin with `total:"),
    ("code:", "no code stands below `code:`"),
    ("notes:\n  a\nnotes:", "the section notes: stands there twice"),
    ("no nodes", "it is none of"),
    ("blocks.0(%x) like blocks.*", "no `block blocks.*:` stands before it"),
    ("block a.*:\n  return\nblock a.*:", "two blocks are named 'a.*'"),
    ("a.0(%x):\n  %y = f(%0)", "the block 'a.0' has no `return`"),
    ("a.0(%x):\n  %y = f(%x)\n  return", "it reads %x, which no node before it makes"),
    ("%y = a.0(%x):\n  %y = f(%0)\n  return", "it names 1 results, and its block returns 0"),
    ("%x = a.0(%x):\n  %y = f(%0)\n  return %y", "two values are named 'x'"),
    ("a.0(%z):\n  return", "it reads %z, which no node before it makes"),
    ("a.0():\n  return 1", "a block returns names alone"),
    ("a.0():\n  return\n  %y = f()", "it stands behind the `return` of its block"),
    ("a.0():\n  input y\n  return", "an input or output of the graph stands in a block"),
    ("a.0(%x):\n  %0 = f()\n  return", "the name %0 is that of an input of the block"),
    (
        "block a.*:\n  return\na.0() like a.*\n  - return %x",
        "its lines marked by `-`, or not marked, are not those of a.*",
    ),
    ("block a.*:\n  return\na.0() like a.*\n  return", "or not marked, are not those of a.*"),
]


@pytest.mark.parametrize(("line", "reason"), UNREADABLE)
def test_a_line_that_cannot_be_read_is_named_with_its_number_and_the_reason(line, reason):
    with pytest.raises(GoldenFormatError) as caught:
        read_inline(f"input x\n\n{line}\n", "tests/test_net.py:7", lambda: 8)

    assert reason in str(caught.value)
    place = re.match(
        r"cannot read the inline golden tests/test_net.py:(\d+), line (\d+) of the text", str(caught.value)
    )
    assert place is not None
    number = int(place[2])
    assert place[1] == str(number + 7)
    assert 3 <= number <= 3 + line.count("\n")
    assert str(caught.value).endswith("mend the line, or have the text written anew by pytest --fx-update-golden")


def test_a_place_in_the_file_is_told_only_where_it_is_known():
    with pytest.raises(GoldenFormatError, match=r"the inline golden test_net.py:7, line 1 of the text, 'nonsense': it"):
        read_inline("nonsense\n", "test_net.py:7")


def test_graphs_in_graphs_end_somewhere():
    text = "".join(
        f"{'    ' * depth}return\n{'    ' * depth}modules:\n{'    ' * depth}  a: B()\n" for depth in range(100)
    )

    with pytest.raises(GoldenFormatError, match="graphs lie in graphs deeper than 64 levels"):
        read_inline(text, "test_net.py:1")


def test_a_graph_without_nodes_has_a_text():
    document = GraphDocument(())

    assert write_inline(document) == "no nodes\n"
    assert read_inline("no nodes\n", "a") == document


def test_half_a_surrogate_pair_comes_back():
    document = GraphDocument((X._replace(target="a\ud800"),))

    assert read_inline(write_inline(document), "a") == document
    write_inline(document).encode()


def test_the_first_line_may_stand_behind_the_quotes():
    assert dedented("input x\n        return %x\n    ") == "input x\nreturn %x\n"
    assert dedented("  \n\n\tinput x  \n\t\tdeeper\n\n") == "input x\n\tdeeper\n"
    assert dedented("") == dedented(" \n \t\n") == ""


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="%"), max_size=12)
WORDS = st.from_regex(r"[a-z_]\w{0,5}", fullmatch=True)
NAMES = (
    TEXTS | WORDS | st.sampled_from(["self.a", "self", "a.b", "f(", "input", "return", "x=1", "a: b", "a; b", "#", "-"])
)
PAIRS = st.dictionaries(NAMES, NAMES, max_size=2).map(lambda pairs: tuple(pairs.items()))
MAYBE = st.none() | NAMES
NODES = st.builds(
    NodeRecord,
    WORDS,
    st.sampled_from(["placeholder", "get_attr", "call_function", "call_method", "call_module", "output"]),
    NAMES,
    st.lists(NAMES, max_size=2).map(tuple),
    PAIRS,
    MAYBE,
    st.lists(NAMES, max_size=2).map(tuple),
    MAYBE,
    st.none(),
    PAIRS,
    MAYBE,
)
MODULES = st.builds(ModuleRecord, NAMES, NAMES, PAIRS, st.none() | st.booleans(), MAYBE, st.none(), MAYBE)
STATE = st.builds(
    StateRecord,
    NAMES,
    st.sampled_from(["parameter", "buffer", "constant"]),
    NAMES,
    st.booleans(),
    st.booleans(),
    MAYBE,
    MAYBE,
    MAYBE,
    MAYBE,
)


@st.composite
def documents(draw, depth=1):
    modules = draw(st.lists(MODULES, max_size=2, unique_by=lambda module: module.path))
    if depth and modules:
        modules[0] = modules[0]._replace(graph=draw(documents(depth - 1)))
    return GraphDocument(
        tuple(draw(st.lists(NODES, max_size=4, unique_by=lambda node: node.name))),
        tuple(modules),
        tuple(draw(st.lists(STATE, max_size=2, unique_by=lambda tensor: tensor.path))),
        draw(TEXTS),
        notes=tuple(draw(st.lists(TEXTS, max_size=2))),
        symbols=tuple(draw(st.lists(NAMES, max_size=2))),
    )


@given(documents(), st.sampled_from(["", "    ", "\t"]))
@settings(max_examples=20, deadline=None, derandomize=True)
def test_any_document_survives_in_the_source_of_a_test(document, margin):
    text = write_inline(document)

    assert read_inline(dedented("\n" + indent(text, margin) + margin), "a") == document
    assert all(fits_in_a_block(line.lstrip()) for line in text.split("\n") if line)


def test_a_text_written_by_hand_differs_from_a_graph_by_what_it_says():
    expected = read_inline("input x\n%y = torch.relu(%x)\nreturn %y\n", "a")
    obtained = read_inline("input x\n%z = torch.neg(%x)\nreturn %z\n", "a")

    assert [change.kind for change in compare_documents(expected, obtained).changes] == ["operators"]


def test_a_fault_of_the_whole_text_is_told_at_its_first_line(monkeypatch):
    def refuse(lines):
        raise YamlDataError("it is odd")

    monkeypatch.setattr("pytest_fxgraph.goldens.inline_text.read_document", refuse)

    with pytest.raises(GoldenFormatError, match=r"inline golden test_a.py:7, line 1 of the text, 'input x': it is odd"):
        read_inline("input x\nreturn %x\n", "test_a.py:3", lambda: 7)
