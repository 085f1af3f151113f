"""The text of a document: every document comes back from it, and blocks that repeat are written once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fixtures.document_strategies import documents, layered_documents
from pytest_fxgraph.document.costs import CostBlock, CostRecord
from pytest_fxgraph.document.decoding import decode
from pytest_fxgraph.document.encoding import encode
from pytest_fxgraph.document.model import GraphDocument, ModuleRecord, NodeRecord, StateRecord
from pytest_fxgraph.document.node_names import differs_in_names_at_most, rename_nodes
from pytest_fxgraph.document.text_reader import read_document
from pytest_fxgraph.document.text_writer import GraphText, Texts, code_lines, document_lines, seen_lines
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


X = NodeRecord("x", "placeholder", "x")


def written(*nodes: NodeRecord, **parts: Any) -> list[str]:
    """Return the lines of a document that comes back from them."""
    document = GraphDocument(nodes, **parts)
    lines = document_lines(document)
    assert read_document(list(enumerate(lines, start=1))) == document
    return lines


def call(*args: str, target: str = "torch.add", **facts: Any) -> NodeRecord:
    return NodeRecord("f", "call_function", target, args, **facts)


@pytest.mark.parametrize(
    ("node", "line"),
    [
        (X, "input x"),
        (X._replace(target="*args"), "input *args as %x"),
        (X._replace(args=("1e-05",)), "input x = 1e-05"),
        (X._replace(args=("1", "2")), '%x = placeholder "x"(1, 2)'),
        (X._replace(kwargs=(("a", "1"),)), '%x = placeholder "x"(a=1)'),
        (X._replace(target="a b"), '%x = placeholder "a b"()'),
        (NodeRecord("output", "output", "output"), "return"),
        (NodeRecord("output", "output", "output", ("1", "%x")), "return 1, %x"),
        (NodeRecord("out", "output", "output", ("1",)), '%out = output "output"(1)'),
        (NodeRecord("output", "output", "out", ("1",)), '%output = output "out"(1)'),
        (NodeRecord("w", "get_attr", "a.w"), "%w = self.a.w"),
        (NodeRecord("w", "get_attr", "a w"), '%w = get_attr "a w"()'),
        (NodeRecord("w", "get_attr", "a.w", ("1",)), '%w = get_attr "a.w"(1)'),
        (NodeRecord("m", "call_module", "a.0", ("%x",)), "%m = self.a.0(%x)"),
        (NodeRecord("m", "call_module", "", ("%x",)), '%m = call_module ""(%x)'),
        (NodeRecord("m", "call_method", "mul", ("%x", "1"), (("a", "%x"),)), "%m = %x.mul(1, a=%x)"),
        (NodeRecord("m", "call_method", "mul", ("%x",)), "%m = %x.mul()"),
        (NodeRecord("m", "call_method", "mul", ("1", "2")), "%m = .mul(1, 2)"),
        (NodeRecord("m", "call_method", "mul", (), (("a", "%x"),)), "%m = .mul(a=%x)"),
        (NodeRecord("m", "call_method", "a.b", ("%x",)), '%m = call_method "a.b"(%x)'),
        (call("1", "2", kwargs=(("alpha", "3"), ("a b", "%x"))), '%f = torch.add(1, 2, alpha=3, "a b"=%x)'),
        (call(kwargs=(("alpha", "3"),)), "%f = torch.add(alpha=3)"),
        (call("1", target="self.add"), '%f = call_function "self.add"(1)'),
        (call("1", target="a b"), '%f = call_function "a b"(1)'),
        (call('(%x, "%x")', "[%x]"), '%f = torch.add((%x, "%x"), [%x])'),
        (call("\u2028"), '%f = torch.add(~"\\u2028")'),
        (call("%x", value="float32[2]"), "%f = torch.add(%x)  # float32[2]"),
        (call("%x", value="in b", scope="a;b"), '%f = torch.add(%x)  # ~"in b"; in ~"a;b"'),
        (call("%x", scope="a"), "%f = torch.add(%x)  # in a"),
        (call("%x", effects=("write %x", "say")), "%f = torch.add(%x)  # effects: write %x, say"),
        (call("%x", effects=("read x, %x",)), '%f = torch.add(%x)  # effects: ~"read x, %x"'),
        (call("%x", meta=(("tag", '"%x"'), ("a b", "%x"))), '%f = torch.add(%x)  # meta: tag="%x", "a b"=%x'),
        (call("%x", name_from="source"), "%f = torch.add(%x)  # named by source"),
        (
            call("%x", value="int64[]", scope="a", effects=("io",), meta=(("tag", "1"),), name_from="source"),
            "%f = torch.add(%x)  # int64[]; in a; effects: io; meta: tag=1; named by source",
        ),
    ],
)
def test_a_node_is_a_line_that_is_read_back(node, line):
    assert written(*([] if node.name == "x" else [X]), node)[-1] == line


INNER = GraphDocument((X,), notes=("one",))


@pytest.mark.parametrize(
    ("module", "lines"),
    [
        (ModuleRecord("act", "torch.nn.ReLU"), ["act: torch.nn.ReLU()"]),
        (ModuleRecord("a b", "a b"), ['"a b": "a b"()']),
        (ModuleRecord("m", "M", (("a", "1"), ("b c", "(1, 2)"))), ['m: M(a=1, "b c"=(1, 2))']),
        (ModuleRecord("m", "M", training=True), ["m: M(); training"]),
        (ModuleRecord("m", "M", training=False, same_as="a.0"), ["m: M(); not training; is a.0"]),
        (ModuleRecord("m", "M", same_as="self.a"), ['m: M(); is ~"self.a"']),
        (ModuleRecord("m", "M", name_from="capture"), ["m: M(); named by capture"]),
        (ModuleRecord("m", "M", graph=INNER), ["m: M()", "  input x", "  notes:", "    one"]),
    ],
)
def test_a_module_is_a_line_that_is_read_back(module, lines):
    assert written(X, modules=(module,)) == ["input x", "modules:", *(f"  {line}" for line in lines)]


@pytest.mark.parametrize(
    ("tensor", "line"),
    [
        (StateRecord("w", "parameter", "float32[2]", True), "w: parameter float32[2]"),
        (StateRecord("w", "parameter", "float32[2]"), "w: parameter float32[2]; no grad"),
        (StateRecord("a b", "buffer", "int64[]"), '"a b": buffer int64[]'),
        (StateRecord("w", "buffer", "int64[]", True), "w: buffer int64[]; requires grad"),
        (
            StateRecord("w", "buffer", "int64[]", persistent=False, content="3"),
            "w: buffer int64[]; = 3; not persistent",
        ),
        (
            StateRecord("w", "constant", "int64[]", storage="a from byte 4"),
            "w: constant int64[]; storage a from byte 4",
        ),
        (StateRecord("w", "constant", "int64[]", name_from="lifting"), "w: constant int64[]; named by lifting"),
        (StateRecord("w", "constant", "int64[]", same_as="a.w"), "w: constant int64[]; is a.w"),
    ],
)
def test_a_tensor_is_a_line_that_is_read_back(tensor, line):
    assert written(X, state=(tensor,)) == ["input x", "state:", f"  {line}"]


def test_notes_symbols_costs_and_code_stand_below_the_graph():
    total, inner = CostRecord(1, 2, 3, 4, 5), CostRecord(nodes=1)
    cost = CostBlock(total, 7, "a b", (("", inner), ("a.0", inner)), ("torch.add", "b"))

    lines = written(X, notes=("~one", "# two", "three"), symbols=("s0", "#s1"), cost=cost, code="a\n\nb")

    assert lines[1:9] == ["notes:", '  ~"~one"', '  ~"# two"', "  three", "symbols:", "  s0", '  ~"#s1"', "cost:"]
    assert lines[9:] == [
        '  total: flops=1, read=2, written=3, params=4, nodes=5, peak_activation=7, peak_at="a b", '
        'uncounted=["torch.add", "b"]',
        '  "": flops=0, read=0, written=0, params=0, nodes=1',
        "  a.0: flops=0, read=0, written=0, params=0, nodes=1",
        "code:",
        "  a",
        "",
        "  b",
    ]
    assert written(X, cost=CostBlock(total, 0, ""))[-1].endswith('peak_activation=0, peak_at=""')


def test_a_document_without_nodes_says_it_unless_it_has_facts_alone():
    cost = CostBlock(CostRecord(), 0, "")

    assert written() == ["no nodes"]
    assert written(state=(StateRecord("w", "buffer", "int64[]"),))[0] == "no nodes"
    assert written(notes=("one",)) == ["notes:", "  one"]
    assert written(cost=cost)[0] == "cost:"


def test_code_is_quoted_where_an_editor_or_a_reader_could_take_it_for_other_code():
    assert code_lines('a\n"b"') == ["a", '"b"']
    assert code_lines('"a"\n"b"') == ['"\\"a\\""', '"\\"b\\""']
    assert code_lines("a \nb") == ['"a "', '"b"']


@pytest.mark.parametrize("line", ["a\tb", "a\u00a0b", "\u00e9\u200b"])
def test_a_line_that_nobody_would_see_is_quoted_below_its_margin(line):
    assert seen_lines(["plain", "", f"  {line}", "  \u00e9"]) == [
        "plain",
        "",
        f"  ~{ascii(line).replace(chr(39), chr(34))}",
        "  \u00e9",
    ]


def test_a_line_with_a_character_that_some_fonts_lack_or_no_editor_shows_is_quoted():
    assert seen_lines(["a\tb"]) == ['~"a\\tb"']
    assert seen_lines(["a\U0001f600"]) == ['~"a\\U0001f600"']


# Blocks.


def layer(number: int, value: str) -> list[NodeRecord]:
    """Return the three nodes of a numbered layer that reads `value` and `%x`."""
    path = f"layers.{number}"
    return [
        NodeRecord(f"up_{number}", "call_module", f"{path}.up", (value,), scope=path),
        NodeRecord(
            f"relu_{number}", "call_method", "relu_", (f"%up_{number}",), effects=(f"write %up_{number}",), scope=path
        ),
        NodeRecord(f"scale_{number}", "call_function", "torch.mul", (f"%relu_{number}", "%x"), scope=f"{path}.gate"),
    ]


def layers(*more: NodeRecord) -> tuple[NodeRecord, ...]:
    """Return four layers behind two inputs."""
    values = ["%y", "%scale_0", "%scale_1", "%scale_2"]
    return (
        X,
        NodeRecord("y", "placeholder", "y"),
        *(node for number, value in enumerate(values) for node in layer(number, value)),
        *more,
    )


def returned(*texts: str) -> NodeRecord:
    return NodeRecord("output", "output", "output", texts)


def test_layers_are_written_once_under_names_of_the_block():
    document = GraphDocument(layers(returned("%scale_3")))

    assert document_lines(document) == [
        "input x",
        "input y",
        "block layers.*:",
        "  %up = self.up(%0)",
        "  %relu = %up.relu_()  # effects: write %up",
        "  %scale = torch.mul(%relu, %1)  # in gate",
        "  return %scale",
        "%layers_0 = layers.0(%y, %x) like layers.*",
        "%layers_1 = layers.1(%layers_0, %x) like layers.*",
        "%layers_2 = layers.2(%layers_1, %x) like layers.*",
        "%layers_3 = layers.3(%layers_2, %x) like layers.*",
        "return %layers_3",
    ]
    assert document_lines(document, folds=False)[2:4] == [
        "%up_0 = self.layers.0.up(%y)  # in layers.0",
        "%relu_0 = %up_0.relu_()  # in layers.0; effects: write %up_0",
    ]
    names = [f"layers_{number}_{name}" for number in range(4) for name in ("up", "relu", "scale")]
    assert list(GraphText(document.nodes).flat_names.values()) == ["x", "y", *names, "output"]


def test_a_block_with_several_results_names_each_and_a_block_without_a_result_none():
    several = document_lines(GraphDocument(layers(returned("%scale_3", "[%up_0, %up_1, %up_2, %up_3]"))))
    unread = [
        NodeRecord(f"{name}_{number}", "call_function", "print", ("%x",), kwargs=(("end", text),), scope=f"0.{number}")
        for number in range(3)
        for name, text in (("a", "1"), ("b", "2"), ("c", "3"))
    ]

    assert several[6:8] == [
        "  return %up, %scale",
        "%layers_0_up, %layers_0_scale = layers.0(%y, %x) like layers.*",
    ]
    assert several[-1] == "return %layers_3_scale, [%layers_0_up, %layers_1_up, %layers_2_up, %layers_3_up]"
    assert document_lines(GraphDocument((X, *unread)))[5:] == [
        "  return",
        "0.0(%x) like 0.*",
        "0.1(%x) like 0.*",
        "0.2(%x) like 0.*",
    ]


@pytest.mark.parametrize(
    ("uses", "result"),
    [
        ({"kwargs": (("a", "{1: %a_0}"),)}, "%_0_0 = "),
        ({"meta": (("a", "%a_0"),)}, "%_0_0 = "),
        ({"effects": ("write %a_0",)}, "%_0_0 = "),
        ({"effects": ("read x and %a_0",)}, "%_0_0 = "),
        ({"args": ('"%a_0"',)}, ""),
    ],
)
def test_what_a_later_node_reads_in_any_way_is_a_result(uses, result):
    nodes = [
        NodeRecord(f"{name}_{number}", "call_function", f"torch.{name}", ("%x",), scope=f"0.{number}")
        for number in range(5)
        for name in "abc"
    ]

    lines = document_lines(GraphDocument((X, *nodes, NodeRecord("last", "call_function", "torch.d", **uses))))

    assert f"{result}0.0(%x) like 0.*" in lines


def test_names_in_a_block_are_those_before_or_counted_in_the_block():
    def lines(*names: str) -> list[str]:
        nodes = [
            NodeRecord(name.replace("N", str(number)), "call_function", f"torch.f{place}", ("%x",), scope=f"0.{number}")
            for number in range(3)
            for place, name in enumerate(names)
        ]
        return [line.strip().split(" ")[0] for line in document_lines(GraphDocument((X, *nodes)))[2:5]]

    assert lines("_0_N_up", "_0_N_7", "_0_N__n") == ["%up", "%_7", "%__n"]
    assert lines("_0_N_add", "add_N", "add_N9") == ["%add", "%add_1", "%add_2"]
    assert lines("add_N", "b_N", "add_N9") == ["%add", "%b", "%add_1"]
    assert lines("_0_N_", "_0_N_up", "_0_N_b") == ["%_0_0_up", "%_0_0_b", "%_0_1_"]


@pytest.mark.parametrize("name", ["layers_0", "layers_3_up"])
def test_a_graph_in_which_two_values_would_have_one_name_is_written_whole(name):
    nodes = layers(NodeRecord(name, "call_function", "torch.neg", ("%scale_3",)), returned(f"%{name}"))

    assert document_lines(GraphDocument(nodes)) == document_lines(GraphDocument(nodes), folds=False)


def test_a_graph_without_module_paths_is_written_whole():
    nodes = tuple(node._replace(scope=None) for node in layers(returned("%scale_3")))

    assert document_lines(GraphDocument(nodes))[-2:] == ["%scale_3 = torch.mul(%relu_3, %x)", "return %scale_3"]


def test_modules_and_tensors_of_layers_are_written_once():
    modules = [
        ModuleRecord(
            f"h.{number}.{name}",
            "torch.nn.Linear",
            (("bias", "True"),),
            same_as={"h.0.b": "h.0.a", "h.1.c": "h.0.c"}.get(f"h.{number}.{name}"),
            graph=GraphDocument((X,)) if name == "d" else None,
        )
        for number in range(4)
        for name in "abcd"
    ]
    state = [
        StateRecord(f"h.{number}.{name}", "buffer", "int64[]", same_as="h.1.a" if name == "c" else None)
        for number in range(4)
        for name in "abcd"
    ]
    document = GraphDocument((X,), tuple(modules), tuple(state))

    lines = written(*document.nodes, modules=document.modules, state=document.state)

    linear = "torch.nn.Linear(bias=True)"
    assert lines[1:14] == [
        "modules:",
        "  block h.*:",
        *(f"    {name}: {linear}" for name in "abcd"),
        "      input x",
        "  h.0 like h.*",
        f"    - b: {linear}",
        f"    + b: {linear}; is self.a",
        "  h.1 like h.*",
        f"    - c: {linear}",
        f"    + c: {linear}; is h.0.c",
    ]
    assert lines[16:22] == [
        "state:",
        "  block h.*:",
        "    a: buffer int64[]",
        "    b: buffer int64[]",
        "    c: buffer int64[]; is h.1.a",
        "    d: buffer int64[]",
    ]
    assert "    + c: buffer int64[]; is self.a" in lines
    whole = document_lines(document, folds=False)
    assert len(whole) == 3 + 16 + 4 + 16
    assert whole[2:7] == [*(f"  h.0.{name}: {linear}{'; is h.0.a' * (name == 'b')}" for name in "abcd"), "    input x"]


def test_texts_of_a_block_number_the_inputs_and_refuse_unknown_ones_if_asked():
    block, outer = Texts(is_block=True), Texts()
    block["%a"] = "%own"

    assert [block[text] for text in ("%x", "%a", "[%y, %x]", "1")] == ["%0", "%own", "[%1, %0]", "1"]
    assert block.inputs == ["%x", "%y"]
    assert outer["%x"] == "%x"
    with pytest.raises(KeyError):
        Texts(refuses_unknown=True)["%x"]


def test_a_block_may_begin_with_the_first_node_and_have_effects_of_any_words():
    nodes = [
        NodeRecord(f"{name}_{number}", "call_function", f"torch.{name}", (), effects=effects, scope=f"0.{number}")
        for number in range(3)
        for name, effects in (
            ("a", ()),
            ("b", (f'joins %a_{number} with "%a_0"', "random")),
            ("c", ()),
            ("d", ()),
        )
    ]

    assert document_lines(GraphDocument(tuple(nodes))) == [
        "block 0.*:",
        "  %a = torch.a()",
        '  %b = torch.b()  # effects: joins %a with "%a_0", random',
        "  %c = torch.c()",
        "  %d = torch.d()",
        "  return",
        "0.0() like 0.*",
        "0.1() like 0.*",
        "0.2() like 0.*",
    ]


def test_a_graph_inside_a_module_is_written_whole():
    inner = GraphDocument(layers(returned("%scale_3")))
    lines = document_lines(GraphDocument((X,), (ModuleRecord("m", "M", graph=inner),)))

    assert lines[3:] == [f"    {line}" for line in document_lines(inner, folds=False)]
