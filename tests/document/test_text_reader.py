"""A text is read into the document that it stands for, or refused with the line and the reason."""

from __future__ import annotations

from textwrap import dedent, indent

import pytest

from pytest_fxgraph.document import text_reader
from pytest_fxgraph.document.costs import CostBlock, CostRecord
from pytest_fxgraph.document.model import GraphDocument, NodeRecord, YamlDataError
from pytest_fxgraph.document.text_reader import check_references, read_document, read_sections
from pytest_fxgraph.document.text_writer import document_lines

COSTS = "flops=1, read=2, written=3, params=4, nodes=5"
PEAK = 'peak_activation=7, peak_at="up"'


def read(text: str) -> GraphDocument:
    return read_document(list(enumerate(dedent(text).strip("\n").split("\n"), start=1)))


def refusal(text: str) -> tuple[str, int | None]:
    with pytest.raises(YamlDataError) as caught:
        read(text)
    return caught.value.reason, caught.value.line


def calls(document: GraphDocument) -> list[tuple[str, str, tuple[str, ...], str | None]]:
    return [(node.name, node.target, node.args, node.scope) for node in document.nodes]


# Lines and margins.


def test_blank_lines_comments_and_a_common_margin_say_nothing():
    plain = read("input x\nreturn %x")

    assert plain.nodes[1].args == ("%x",)
    assert read("\n  # the input\n  input x   \n\n  return %x\n  # the end\n\n") == plain
    assert read_document([(1, "    input x"), (2, "# no margin"), (3, "    return %x")]) == plain


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        (
            "    input x\ninput y\nreturn %x",
            ("it is indented, and nothing that could hold it stands before it", 1),
        ),
        ("input x\n\n    input y\nreturn %x", ("it is indented, and the line before it is no block", 3)),
        ("input x\nreturn %x\nstate:\n  w: buffer int64[]\n    w: lost", ("it is indented below a tensor", 5)),
        (
            "input x\nreturn %x\nnotes:\n  one\n    two",
            ("it is indented more than the line before it", 5),
        ),
    ],
)
def test_a_line_with_a_wrong_margin_is_refused(text, refused):
    assert refusal(text) == refused


def test_a_line_in_quotes_is_read_as_it_was():
    document = read('input x\n~"%y = torch.tag(%x, \\"a\\")"\nreturn %y\nnotes:\n  ~"# no comment"')

    assert calls(document)[1] == ("y", "torch.tag", ("%x", '"a"'), None)
    assert document.notes == ("# no comment",)
    assert refusal('input x\n~"%y\nreturn %x') == ('"%y is no quoted text of Python', 2)


# Sections.


def test_each_section_is_read_in_any_order():
    document = read(
        """
        input x
        return %x
        state:
          w: parameter float32[2]
        notes:
          one
          two
        symbols:
          s0: 2 to 8
        code:
          def forward(self, x):

              return x

        modules:
          act: torch.nn.ReLU()
        """
    )

    assert [node.op for node in document.nodes] == ["placeholder", "output"]
    assert [record.path for record in (*document.modules, *document.state)] == ["act", "w"]
    assert (document.notes, document.symbols) == (("one", "two"), ("s0: 2 to 8",))
    assert document.code == "def forward(self, x):\n\n    return x"
    assert document.cost is None


def test_titles_below_a_common_margin_are_known():
    lines = ["", "  input x", "  return %x", "  notes:", "    one", ""]

    assert read_document(list(enumerate(lines))).notes == ("one",)


def test_a_text_without_titles_has_empty_sections():
    document = read("input x\nreturn %x")

    assert (document.modules, document.state, document.code, document.notes, document.symbols) == ((), (), "", (), ())


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("no nodes\nnotes:\n  a\nnotes:\n  b", ("the section notes: stands there twice", 4)),
        ("", ("a graph without a node is written as 'no nodes'", 1)),
        ("modules:\n  act: torch.nn.ReLU()", ("a graph without a node is written as 'no nodes'", 1)),
        ("no nodes\ncode:\n\ncost:", ("no code stands below `code:`", 2)),
        ("no nodes\ncode:", ("no code stands below `code:`", None)),
        ("no nodes\ncost:", ("the section `cost:` is empty", None)),
        ("no nodes\ncost:\n  # none", ("the section `cost:` is empty", 3)),
    ],
)
def test_a_section_that_is_doubled_or_empty_is_refused(text, refused):
    assert refusal(text) == refused


def test_an_empty_graph_is_written_in_words_unless_the_text_has_facts_alone():
    assert read("no nodes").nodes == ()
    assert read("notes:\n  one").nodes == read("# facts\ncost:\n" + indent(f"total: {COSTS}, {PEAK}", "  ")).nodes == ()
    assert len(read("input x\nreturn %x\nnotes:\n  one").nodes) == 2
    assert refusal("no nodes\ninput x")[1] == 1


def test_sections_are_read_from_a_mapping_too():
    lines = [(7, "input x"), (8, "return %x")]

    assert read_sections(lines, {}) == read("input x\nreturn %x")
    assert read_sections(lines, {"notes": [(9, "one")]}).notes == ("one",)
    with pytest.raises(YamlDataError, match="a graph without a node") as caught:
        read_sections([], {})
    assert caught.value.line == 1


def test_code_of_quoted_lines_alone_is_read_out_of_the_quotes():
    assert read('no nodes\ncode:\n  "def f():\\t"\n  "  pass"').code == "def f():\t\n  pass"
    assert read('no nodes\ncode:\n  def f():\n  "a docstring"').code == 'def f():\n"a docstring"'
    assert read("no nodes\ncode:\n      one\n    two").code == "  one\ntwo"


def test_costs_have_a_total_with_a_peak_and_a_line_per_module():
    text = f'no nodes\ncost:\n  total: {COSTS}, {PEAK}\n  up: {COSTS}\n  "": {COSTS}'
    record = CostRecord(1, 2, 3, 4, 5)

    assert read(text).cost == CostBlock(record, 7, "up", (("up", record), ("", record)))
    uncounted = read(f'no nodes\ncost:\n  total: {COSTS}, {PEAK}, uncounted=["a.b", "c"]').cost
    assert uncounted.uncounted == ("a.b", "c")


@pytest.mark.parametrize(
    ("line", "refused"),
    [
        (f'up: {COSTS}, peak_activation=7, peak_at="up"', "the costs begin with `total: flops=0"),
        (f"total: {COSTS}", "the costs begin with `total: flops=0"),
        (f'total: {COSTS}, peak_activation=-7, peak_at="up"', "the costs begin with `total: flops=0"),
        (f"total: {COSTS}, peak_activation=7, peak_at=up", "the costs begin with `total: flops=0"),
        ('total: flops=1, peak_activation=7, peak_at="up"', "costs are whole numbers of flops, read"),
    ],
)
def test_costs_without_a_whole_total_are_refused(line, refused):
    reason, number = refusal(f"no nodes\ncost:\n  {line}")

    assert reason.startswith(refused)
    assert number == 3


def test_a_refused_cost_of_a_module_names_its_own_line():
    assert refusal(f"no nodes\ncost:\n  total: {COSTS}, {PEAK}\n  up: {COSTS}\n  down: flops=1")[1] == 5


def test_a_module_holds_the_graph_below_it():
    document = read(
        """
        input x
        %inner = self.inner(%x)
        return %inner
        modules:
          act: torch.nn.ReLU()
          inner: torch.fx.GraphModule()
            input y
            return %y
            state:
              w: buffer int64[]
        """
    )
    act, inner = document.modules

    assert act.graph is None
    assert inner.graph == read("input y\nreturn %y\nstate:\n  w: buffer int64[]")


def nested(depth: int) -> str:
    text = "no nodes"
    for _ in range(depth):
        text = f"no nodes\nmodules:\n  m: torch.fx.GraphModule()\n{indent(text, '    ')}"
    return text


def test_graphs_lie_in_graphs_at_most_64_levels_deep():
    document = read(nested(64))

    assert document_lines(document) == nested(64).split("\n")
    modules = list(enumerate(nested(64).split("\n")[2:]))
    assert read_sections([(1, "no nodes")], {"modules": modules}) == document
    assert refusal(nested(65)) == ("graphs lie in graphs deeper than 64 levels", 3 * 65 + 1)


@pytest.mark.parametrize(
    "text",
    [
        "input x\n%a = torch.relu(%x)\nreturn %a",
        "input x\nreturn %x\nmodules:\n  a: torch.nn.ReLU()",
        "input x\nreturn %x\nstate:\n  a: buffer int64[]",
        "input x\n%a = a.0(%x):\n  return %0\nreturn %a",
    ],
)
def test_a_text_of_too_many_records_is_refused(text, monkeypatch):
    monkeypatch.setattr(text_reader, "MOST_RECORDS", 3)
    read(text)
    monkeypatch.setattr(text_reader, "MOST_RECORDS", 2)

    assert refusal(text)[0] == "it has more than 2 nodes, modules and tensors"


# Blocks.

BLOCK = """
input x
%y = a.0(%x):
  %z = torch.relu(%0)  # float32[2]; meta: tag=%0
  %w = self.fc(%z, other=%0)  # in part
  %m = torch.sum(%w)  # effects: write %z
  return %w, %0
%v = a.1(%y):
  return %0
return %v
"""


def test_the_nodes_of_a_block_get_the_names_and_paths_of_the_document():
    _, relu, fc, total, output = read(BLOCK.replace("%y = a.0", "%y, %u = a.0")).nodes

    assert (relu.name, relu.target, relu.args, relu.scope) == ("a_0_z", "torch.relu", ("%x",), "a.0")
    assert (relu.value, relu.meta) == ("float32[2]", (("tag", "%x"),))
    assert (fc.name, fc.target, fc.scope) == ("a_0_w", "a.0.fc", "a.0.part")
    assert (fc.args, fc.kwargs) == (("%a_0_z",), (("other", "%x"),))
    assert (total.effects, output.args) == (("write %a_0_z",), ("%a_0_w",))


def test_a_block_stands_in_a_block_and_may_return_its_input_or_nothing():
    document = read(
        """
        input x
        %y = a.0(%x):
          %inner = b.0(%0):
            %_1 = torch.neg(%0)
            return %_1
          c():
            %made = torch.zeros(2)
            return
          return %inner
        return %y
        """
    )

    assert calls(document)[1:3] == [
        ("a_0_b_0_1", "torch.neg", ("%x",), "a.0.b.0"),
        ("a_0_c_made", "torch.zeros", ("2",), "a.0.c"),
    ]
    assert document.nodes[-1].args == ("%a_0_b_0_1",)


def test_blocks_share_a_body_and_tell_their_own_lines():
    document = read(
        """
        input x
        block a.*:
          %up = self.up(%0)
          return %up
        %b = a.0(%x) like a.*
        %c = a.1(%b) like a.*
          - %up = self.up(%0)
          + %up = torch.relu(%0)
        return %c
        modules:
          block a.* (2):
            up: torch.nn.Linear(bias=True)
          a.0 like a.* (2)
          a.1:
            up: torch.nn.ReLU()
        state:
          a.0:
            up.weight: parameter float32[2]
        """
    )

    assert calls(document)[1:3] == [("a_0_up", "a.0.up", ("%x",), "a.0"), ("a_1_up", "torch.relu", ("%a_0_up",), "a.1")]
    assert [record.path for record in (*document.modules, *document.state)] == ["a.0.up", "a.1.up", "a.0.up.weight"]


def of_block(body: str, *, inputs: str = "%x", made: str = "%y") -> str:
    return f"input x\n{made} = a.0({inputs}):\n{indent(body, '  ')}\nreturn %x"


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("block a.*:\n  return %0\nblock a.*:\n  return %0", ("two blocks are named 'a.*'", 3)),
        ("input x\n%y = a.0(%x) like a.*\nreturn %y", ("no `block a.*:` stands before it", 2)),
        (
            "input x\nblock a.*:\n  return %0\n%y = a.0(%x) like a.*\n  - return %1\nreturn %y",
            ("its lines marked by `-`, or not marked, are not those of a.*", 4),
        ),
        ("input x\na.0 else:\nreturn %x", ("it is none of: input NAME, %NAME = TARGET(...), return ...", 2)),
        (of_block("%z = torch.relu(%0)"), ("the block 'a.0' has no `return`", 3)),
        (of_block(""), ("the block 'a.0' has no `return`", None)),
        (of_block("return %0\n%z = torch.relu(%0)"), ("it stands behind the `return` of its block", 4)),
        (of_block("return 1"), ("a block returns names alone, as in `return %add`", 3)),
        (of_block("return %0, end=%0"), ("a block returns names alone, as in `return %add`", 3)),
        (of_block("return %0  # float32[2]"), ("a block returns names alone, as in `return %add`", 3)),
        (of_block("return %z"), ("it reads %z, which no node before it makes", 3)),
        (of_block("input q\nreturn %q"), ("an input or output of the graph stands in a block", 3)),
        (of_block('%o = output "output"(%0)\nreturn %0'), ("an input or output of the graph stands in a block", 3)),
        (of_block("%0 = torch.relu(%0)\nreturn %0"), ("the name %0 is that of an input of the block", 3)),
        (of_block("%z = torch.relu(%x)\nreturn %z"), ("it reads %x, which no node before it makes", 3)),
        (of_block("%z = torch.relu(a=%x)\nreturn %z"), ("it reads %x, which no node before it makes", 3)),
        (of_block("%z = f(%0)  # meta: a=%x\nreturn %z"), ("it reads %x, which no node before it makes", 3)),
        (of_block("%z = f(%0)\n%z = g(%0)\nreturn %z"), ("two values are named 'z'", 4)),
        (of_block("return %0", inputs="%w"), ("it reads %w, which no node before it makes", 2)),
        (of_block("return %0", made="%y, %v"), ("it names 2 results, and its block returns 1", 2)),
        (of_block("return %0", made="%x"), ("two values are named 'x'", 2)),
        ("input x\n%x = torch.relu(%x)", ("two values are named 'x'", 2)),
        ("input x\n%y = torch.relu(%z)", ("node 'y' reads %z, which no node before it makes", 2)),
        ("input x\n\nrelu", ("it is none of: input NAME, %NAME = TARGET(...), return ...", 3)),
    ],
)
def test_a_graph_that_no_writer_writes_is_refused_with_the_line(text, refused):
    reason, line = refusal(text)

    assert reason.startswith(refused[0])
    assert line == refused[1]


@pytest.mark.parametrize("title", ["", "modules:", "state:"])
def test_blocks_lie_in_blocks_to_a_depth(title):
    def text(dots: int) -> str:
        path = ".".join("a" * dots)
        if not title:
            return f"input x\n%y = {path}(%x):\n  return %0\nreturn %y"
        line = "w: buffer int64[]" if title == "state:" else "w: torch.nn.ReLU()"
        return f"no nodes\n{title}\n  {path}:\n    {line}"

    read(text(256))

    assert refusal(text(257)) == ("blocks lie in blocks deeper than 64 levels", 3 if not title else 4)


@pytest.mark.parametrize(
    ("title", "one", "other"),
    [
        ("state", "w: parameter float32[2]", "w: parameter float32[3]"),
        ("state", "w: parameter float32[2]", "w: parameter float32[2]"),
        ("modules", "w: torch.nn.ReLU()", "w: torch.nn.GELU()"),
    ],
)
def test_a_path_that_a_merge_left_twice_is_refused(title, one, other):
    assert refusal(f"input x\n{title}:\n  {one}\n  {other}") == ("'w' stands there twice", 4)


def test_a_block_that_a_merge_left_twice_is_refused():
    lines = ["input x", "state:", "  block a.*:", "    w: buffer int64[]", *["  a.0 like a.*"] * 2]

    assert refusal("\n".join(lines)) == ("'a.0' stands there twice", 6)


def test_a_path_may_be_that_of_a_tensor_and_of_a_block():
    state = read("no nodes\nstate:\n  a: buffer int64[]\n  a:\n    w: buffer int64[]\n  w: buffer int64[]").state

    assert [record.path for record in state] == ["a", "a.w", "w"]


def test_blank_lines_around_the_lines_of_a_block_say_nothing():
    text = """
    no nodes
    state:
      block a.*:

        w: buffer int64[]
        b: buffer int64[]

      a.0 like a.*

        - b: buffer int64[]
        + c: buffer int64[]

      a.1 like a.*
    """

    assert [record.path for record in read(text).state] == ["a.0.w", "a.0.c", "a.1.w", "a.1.b"]


# Names that are read.


def test_a_name_is_read_only_after_the_node_that_makes_it():
    made = NodeRecord("x", "placeholder", "x")

    check_references([1, 2], [made, NodeRecord("y", "call_function", "f", ("%x",), (("k", "[%x]"),))])
    for reader in (
        NodeRecord("y", "call_function", "f", ("%z",)),
        NodeRecord("y", "call_function", "f", (), (("k", "[%z]"),)),
        NodeRecord("y", "call_function", "f", (), (), meta=(("tag", "%z"),)),
    ):
        with pytest.raises(YamlDataError, match=r"^node 'y' reads %z, which no node before it makes$") as caught:
            check_references([4, 5], [made, reader])
        assert caught.value.line == 5
    with pytest.raises(YamlDataError, match="two nodes are named 'x'") as caught:
        check_references([4, 5], [made, made])
    assert caught.value.line == 5
