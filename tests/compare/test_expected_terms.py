from __future__ import annotations

import math
from dataclasses import replace

import pytest

from fixtures.documents import document
from fixtures.mutant_trials import GRAPH_LEVELS as LEVELS
from pytest_fxgraph.compare.commutativity import with_operands_in_order
from pytest_fxgraph.compare.expected_terms import in_expected_terms, numbers_of_unknown
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.document.literals import float_text
from pytest_fxgraph.document.model import ModuleRecord, StateRecord
from pytest_fxgraph.report.text import headline

NEXT = float_text(math.nextafter(0.1, 1))


def marked(graph, **names):
    """Say of inputs, by target, what made their names."""
    nodes = [node._replace(name_from=names.get(node.target)) for node in graph.nodes]
    return replace(graph, nodes=tuple(nodes))


def graph_of(text, symbols=(), state=(), modules=(), name_from="position"):
    made = document(text, state=tuple(state), modules=tuple(modules))
    made = marked(made, **{node.target: name_from for node in made.nodes if node.op == "placeholder"})
    return replace(made, symbols=tuple(symbols))


def constant(path, content="[1.0]", name_from="lifting", value="float32[1]"):
    return StateRecord(path, "constant", value, content=content, name_from=name_from)


def matches(expected, obtained, **options):
    """Tell whether a document matches at structure; and hold what passes there against the looser levels."""
    results = {
        level: compare_documents(expected, obtained, level=level, **options).is_empty
        for level in ("structure", "ops", "signature")
    }
    assert not results["structure"] or all(results.values())
    return results["structure"]


SUBTRACTION = "%{0} = input {0}\n%{1} = input {1}\n%sub = aten.sub(%{0}, %{1})\nreturn %sub"


def test_inputs_that_stand_by_place_may_have_any_name():
    expected, obtained = graph_of(SUBTRACTION.format("x_1", "y_1")), graph_of(SUBTRACTION.format("arg0_1", "arg1_1"))

    assert matches(expected, obtained)
    assert matches(expected, graph_of(SUBTRACTION.format("y_1", "x_1")))
    assert not compare_documents(expected, obtained, level="exact").is_empty


def test_inputs_exchanged_in_their_use_are_reported_under_the_goldens_names():
    expected = graph_of(SUBTRACTION.format("x_1", "y_1"))
    obtained = graph_of("%a_1 = input a_1\n%b_1 = input b_1\n%sub = aten.sub(%b_1, %a_1)\nreturn %sub")

    assert headline(compare_documents(expected, obtained)) == "aten.sub operands exchanged: x_1, y_1 -> y_1, x_1"


def test_names_of_a_user_count_and_so_do_names_of_which_one_side_knows_nothing():
    ours = graph_of(SUBTRACTION.format("x_1", "y_1"))
    users, others = (document(SUBTRACTION.format(*names)) for names in (("x_1", "y_1"), ("a", "b")))

    assert not matches(users, others)
    assert matches(users, ours)
    assert not matches(users, graph_of(SUBTRACTION.format("a", "b")))
    assert not matches(graph_of(SUBTRACTION.format("a", "b")), users)


@pytest.mark.parametrize(("before", "after"), [("x_1", "*x_1"), ("*x_1", "**x_1")])
def test_the_kind_of_an_input_is_no_part_of_its_name(before, after):
    line = "%x = input x_1\nreturn %x"

    def of(target):
        graph = graph_of(line)
        return replace(graph, nodes=(graph.nodes[0]._replace(target=target), *graph.nodes[1:]))

    assert not matches(of(before), of(after))


def test_an_input_more_is_told_under_a_name_that_no_other_has():
    expected = graph_of("%a0 = input a0 : f[2]\n%r = relu(%a0)\nreturn %r")
    obtained = graph_of("%a0 = input a0 : f[3]\n%a1 = input a1 : f[2]\n%r = relu(%a1)\nreturn %r")

    difference = compare_documents(expected, obtained)

    assert [(change.action, change.where) for change in difference.changes if change.subject == "input"] == [
        ("added", "a0_1")
    ]


def test_inputs_in_the_order_of_their_use_are_known_by_a_name_that_both_have():
    expected = graph_of(SUBTRACTION.format("L_x_", "L_y_"), name_from="source")

    assert matches(expected, graph_of(SUBTRACTION.format("L_a_", "L_b_"), name_from="source"))
    assert not matches(expected, graph_of(SUBTRACTION.format("L_y_", "L_x_"), name_from="source"))
    assert not matches(expected, graph_of(SUBTRACTION.format("L_y_", "L_a_"), name_from="source"))


CONSTANTS = "%x = input x\n%c = get {0}\n%d = get {1}\n%a = mul(%x, %c)\n%b = add(%a, %d)\nreturn %b"


def constants(first, second, contents=("[1.0]", "[2.0]"), **options):
    paths = zip((first, second), contents, strict=True)
    return graph_of(CONSTANTS.format(first, second), state=[constant(*each, **options) for each in paths])


def test_a_lifted_constant_is_what_it_holds():
    expected = constants("_tensor_constant0", "_tensor_constant1")

    assert matches(expected, constants("_frozen_param3", "lifted_tensor_0"))
    assert matches(expected, constants("_tensor_constant1", "_tensor_constant0"))


def test_constants_exchanged_are_caught():
    expected = constants("c0", "c1")

    assert not matches(expected, constants("c0", "c1", ("[2.0]", "[1.0]")))
    assert not matches(expected, constants("d0", "d1", ("[2.0]", "[1.0]")))
    assert not matches(expected, constants("c0", "c0_new", ("[1.0]", "[3.0]")))


def test_one_constant_in_place_of_two_that_hold_the_same_is_caught():
    two = constants("c0", "c1", ("[1.0]", "[1.0]"))
    one = graph_of(CONSTANTS.format("c0", "c0"), state=[constant("c0")])

    assert not matches(two, one)
    assert not matches(one, two)


def test_a_changed_constant_is_told_under_the_goldens_name():
    expected, obtained = constants("c0", "c1"), constants("d0", "d1", ("[1.0]", "[5.0]"))

    assert headline(compare_documents(expected, obtained)) == "constant c1: values [2.0] -> [5.0]"


def test_the_name_of_a_tensor_of_unknown_content_counts_where_both_sides_have_it():
    unknown = constants("p0", "p1", (None, None))

    assert matches(unknown, constants("q0", "q1", (None, None)))
    assert not matches(unknown, constants("p1", "p0", (None, None)))


def test_a_constant_of_the_users_goes_by_its_name():
    assert not matches(constants("c0", "c1", name_from=None), constants("d0", "d1", name_from=None))
    assert not matches(constants("c0", "c1"), constants("d0", "d1", name_from=None))


def branch(operator, inputs="arg0_1"):
    return graph_of(f"%{inputs} = input {inputs}\n%y = {operator}(%{inputs})\nreturn (%y,)")


def branches(first, second, graphs=None, name_from="capture"):
    graphs = graphs or (branch("sin"), branch("cos", "arg9_1"))
    text = "%x = input x\n%p = gt(%x, 0)\n%t = get {}\n%f = get {}\n%c = cond(%p, %t, %f, (%x,))\nreturn %c"
    records = [
        ModuleRecord(path, "GraphModule", graph=graph, name_from=name_from)
        for path, graph in zip((first, second), graphs, strict=True)
    ]
    return graph_of(text.format(first, second), modules=records)


def test_graphs_in_the_graph_are_known_by_who_runs_them():
    expected = branches("true_graph_0", "false_graph_0")

    assert matches(expected, branches("cond_true_0", "cond_false_0"))
    assert matches(expected, branches("false_graph_0", "true_graph_0"))
    assert not matches(expected, branches("submod_1", "submod_2", name_from=None))


def test_branches_exchanged_are_caught():
    exchanged = (branch("cos", "arg9_1"), branch("sin"))

    assert not matches(branches("true_graph_0", "false_graph_0"), branches("true_graph_0", "false_graph_0", exchanged))
    assert not matches(branches("true_graph_0", "false_graph_0"), branches("cond_true_0", "cond_false_0", exchanged))


def test_a_change_in_a_renamed_branch_is_told_under_the_goldens_name():
    obtained = branches("cond_true_0", "cond_false_0", (branch("tanh"), branch("cos")))

    difference = compare_documents(branches("true_graph_0", "false_graph_0"), obtained)

    assert headline(difference) == "sin -> tanh at true_graph_0"


def sized(first, second, symbols=("s0", "s1"), result=None):
    inputs = "%x = input x : float32[{0}, 3]\n%y = input y : float32[{1}, 3]"
    text = f"{inputs}\n%c = cat([%x, %y]) : float32[{{2}}, 3]\nreturn %c"
    return graph_of(text.format(first, second, result or f"{first} + {second}"), symbols)


def test_symbols_are_known_by_the_values_they_stand_in():
    expected = sized("s0", "s1")

    assert matches(expected, sized("s77", "s12", ("s77", "s12"), "s12 + s77"))
    assert matches(expected, sized("s1", "s0", ("s1", "s0"), "s0 + s1"))


def test_two_symbols_made_one_and_one_made_two_are_caught():
    one = sized("s0", "s0", ("s0",), "2*s0")

    assert not matches(sized("s0", "s1"), one)
    assert not matches(one, sized("s0", "s1"))
    assert not matches(sized("s0", "s1", result="s0"), sized("s77", "s12", ("s77", "s12"), "s12"))


def test_a_name_of_a_size_that_is_no_symbol_counts():
    assert not matches(sized("batch", "s1", ("s1",)), sized("rows", "s1", ("s1",)))


def test_a_symbol_is_the_same_in_the_graph_and_in_those_in_it():
    def nested(outer, inner, symbols):
        graph = graph_of(f"%a = input a : f[{inner}]\n%y = sin(%a)\nreturn (%y,)")
        inputs = f"%x = input x : f[{outer[0]}]\n%y = input y : f[{outer[1]}]"
        text = f"{inputs}\n%g = get g\n%c = wrap(%g, %x)\nreturn (%c, %y)"
        return graph_of(text, symbols, modules=[ModuleRecord("g", "GraphModule", graph=graph, name_from="capture")])

    expected = nested(("s0", "s1"), "s0", ("s0", "s1"))

    assert matches(expected, nested(("s7", "s8"), "s7", ("s7", "s8")))
    assert not matches(expected, nested(("s7", "s8"), "s8", ("s7", "s8")))


def test_sizes_found_late_may_be_found_in_another_order():
    text = "%x = input x\n%y = input y\n{}\nreturn (%a, %b)"
    lines = ["%a = nonzero(%x) : int64[{}, 1]", "%b = nonzero(%y) : int64[{}, 1]"]
    expected = graph_of(text.format("\n".join(lines).format("u0", "u1")), ("u0", "u1"))
    obtained = graph_of(text.format("\n".join(lines[::-1]).format("u0", "u1")), ("u0", "u1"))

    assert matches(expected, obtained)


def test_a_size_that_stands_as_argument_is_a_symbol_and_a_text_is_not():
    def of(symbol, text):
        line = f'%x = input x : f[{symbol}]\n%y = full([torch.SymInt("{symbol} + 1")], "{text}")\nreturn %y'
        return graph_of(line, (symbol,))

    assert matches(of("s0", "s0"), of("s7", "s0"))
    assert not matches(of("s0", "s0"), of("s7", "s7"))


def scaled(number, *, eps="1e-05", commuted=False):
    operands = f"{number}, %x" if commuted else f"%x, {number}"
    lines = f"%x = input x\n%m = operator.mul({operands})\n%n = self.norm(%m)"
    text = f"{lines}\n%k = f(%n, alpha=[{number}, (2,)])\nreturn %k"
    return document(text, modules=(ModuleRecord("norm", "torch.nn.LayerNorm", (("eps", eps),)),))


def test_a_float_one_ulp_off_passes_at_close_in_arguments_keywords_and_configuration():
    other = scaled(NEXT, eps="1.0000000000000002e-05")

    assert matches(scaled("0.1"), other, constants="close")
    assert matches(scaled("0.1"), other, constants="shape")
    assert not matches(scaled("0.1"), other)
    assert not matches(scaled("0.1"), scaled("0.2"), constants="close")
    assert not matches(scaled("0.1"), scaled("0.1", eps="1e-06"), constants="shape")


def test_at_close_operands_may_change_places_too():
    other = scaled(NEXT, commuted=True)

    assert matches(scaled("0.1"), other, constants="close", commutative=True)
    assert not matches(scaled("0.1"), other, constants="close")


def test_one_ulp_is_told_with_what_accepts_it():
    difference = compare_documents(scaled("0.1"), scaled("0.1", eps="1.0000000000000002e-05"))

    assert headline(difference) == (
        'nn.LayerNorm eps 1e-05 -> 1.0000000000000002e-05 (1 ulp apart; constants="close" accepts that) at norm'
    )


def test_at_exact_close_contents_pass_and_close_arguments_do_not():
    def of(content):
        return graph_of("%c = get c\nreturn %c", state=[constant("c", content)])

    assert compare_documents(of("[0.1]"), of(f"[{NEXT}]"), level="exact", constants="close").is_empty
    assert not compare_documents(scaled("0.1"), scaled(NEXT), level="exact", constants="close").is_empty


def reading(content, value="float32[2]"):
    record = StateRecord("rotary.inv_freq", "buffer", value, persistent=False, content=content)
    return graph_of("%c = get rotary.inv_freq\nreturn %c", state=[record])


def around(graph):
    inner = ModuleRecord("inner", "GraphModule", graph=graph)
    return graph_of("%x = input x\n%y = call inner(%x)\nreturn %y", modules=[inner])


LARGE = "close(min=0.0, max={}, mean=49.5, norm=573.0, sketch={})"
ROUNDED = [
    ("close([1.0, 0.1])", "close([1.0, 0.1001])"),
    ("close([1.0, 0.1])", "close([1.001, 0.1])"),
    (LARGE.format("99.0", "-0.042"), LARGE.format("99.01", "-0.043")),
    ("close([1.0, 0.1])", None),
    (None, "close([1.0, 0.1])"),
]


@pytest.mark.parametrize("level", ["exact", "structure"])
@pytest.mark.parametrize(("expected", "obtained"), ROUNDED)
def test_a_computed_buffer_may_be_rounded_or_unknown_to_one_side(expected, obtained, level):
    for enclosed in (lambda graph: graph, around):
        assert compare_documents(enclosed(reading(expected)), enclosed(reading(obtained)), level=level).is_empty


CHANGED = [
    ("close([1.0, 0.1])", "close([1.0, 0.0376])", "float32[2]", "differ by up to 0.0624"),
    ("close([1.0, 0.1])", "close([1.002, 0.1])", "float32[2]", "differ by up to 0.002"),
    ("[0, 1]", "[0, 2]", "int64[2]", ""),
    (LARGE.format("99.0", "0.5"), LARGE.format("99.0", "0.1"), "float32[99]", "differ in their order"),
    (
        LARGE.format("9.0", "0.5"),
        LARGE.format("8.0", "0.5"),
        "float32[99]",
        "differ by up to 1 in min, max, mean or norm",
    ),
]


@pytest.mark.parametrize("level", ["exact", "structure"])
@pytest.mark.parametrize(("expected", "obtained", "value", "words"), CHANGED)
def test_another_content_of_a_computed_buffer_is_told_in_words(expected, obtained, value, words, level):
    difference = compare_documents(reading(expected, value), reading(obtained, value), level=level)

    (change,) = difference.changes
    assert (change.where, change.field, change.remark) == ("rotary.inv_freq", "content", words)
    assert f"inv_freq: values {words or '[0, 1] -> [0, 2]'}" in headline(difference)


@pytest.mark.parametrize("level", LEVELS)
def test_a_document_is_the_same_in_its_own_terms(level):
    for graph in (constants("c0", "c1"), branches("t", "f"), sized("s0", "s1"), scaled("0.1")):
        assert in_expected_terms(graph, graph, is_close=True, prepare=with_operands_in_order) == graph
        assert compare_documents(graph, graph, level=level).is_empty


def test_at_exact_what_only_one_side_says_of_a_name_is_no_difference():
    bare = constants("c0", "c1", name_from=None)

    assert compare_documents(bare, constants("c0", "c1"), level="exact").is_empty
    assert compare_documents(sized("s0", "s1", ()), sized("s0", "s1"), level="exact").is_empty


def test_at_exact_names_that_nobody_chose_are_told():
    inputs = graph_of(SUBTRACTION.format("x_1", "y_1")), graph_of(SUBTRACTION.format("a_1", "b_1"))
    sizes = sized("s0", "s1"), sized("s7", "s8", ("s7", "s8"))

    fields = [{change.field for change in compare_documents(*pair, level="exact").changes} for pair in (inputs, sizes)]

    assert fields == [{"name", "target"}, {"value"}]


def test_a_symbol_that_only_an_inner_graph_and_a_note_name_keeps_its_name_in_an_equal_document():
    inner = document('%x = input x = "y"\nreturn %x')
    given = replace(
        graph_of("return 1", symbols=("y",)), modules=(ModuleRecord("inner", "", graph=inner),), notes=("y",)
    )

    for level in LEVELS:
        assert compare_documents(given, replace(given, notes=("y",)), level=level).is_empty


def test_a_constant_more_is_told_under_a_name_that_no_other_has():
    expected = constants("c0", "c1")
    more = graph_of(
        "%x = input x\n%e = get c0\n%z = sub(%x, %e)\n%c = get c1\n%d = get c2\n%a = mul(%z, %c)\n%b = add(%a, %d)\n"
        "%f = get c0_1\n%g = add(%b, %f)\nreturn %g",
        state=[constant(f"c{n}", f"[{number}]") for n, number in (("0", 7.0), ("1", 1.0), ("2", 2.0), ("0_1", 8.0))],
    )

    difference = compare_documents(expected, more)

    added = [change.where for change in difference.changes if change.subject == "state"]
    assert sorted(added) == ["c0_1", "c0_2"]


@pytest.mark.parametrize("known", [(0, 1), (0,), (1,)])
def test_a_value_that_one_side_lacks_tells_nothing_of_a_symbol(known):
    values = [" : f[s0]" if n in known else "" for n in range(2)]
    expected = graph_of("%x = input x : f[s0]\n%a = f(%x) : f[s0]\n%b = g(%a) : f[s0]\nreturn %b", ["s0"])
    obtained = graph_of(
        f"%x = input x : f[s7]\n%a = f(%x){values[0]}\n%b = g(%a){values[1]}\nreturn %b".replace("s0", "s7"), ["s7"]
    )

    assert matches(expected, obtained)
    assert matches(obtained, expected)


def adding(arguments):
    return document(f"%x = input x\n%a = torch.add({arguments})\nreturn %a")


def test_close_numbers_of_commutative_calls_are_close_at_either_place():
    golden = adding("%x, 0.1")

    for arguments, is_same in ((f"%x, {NEXT}", True), (f"{NEXT}, %x", True), ("0.2, %x", False), ("%x, 0.2", False)):
        assert matches(golden, adding(arguments), constants="close", commutative=True) is is_same
    assert not matches(golden, adding(f"{NEXT}, %x"), constants="close")


def test_an_operand_at_another_place_keeps_its_number_in_the_words():
    (change, *_) = compare_documents(adding("0.1, %x"), adding(f"%x, {NEXT}"), constants="close").changes

    assert NEXT in (change.obtained, *(each.obtained for each in _))


def test_a_name_that_only_one_side_generated_is_another_name_beside_names_that_both_did():
    expected = constants("c0", "c1")
    chosen = replace(constants("d0", "d1"), state=(constant("d0"), constant("d1", "[2.0]", name_from=None)))

    assert matches(expected, constants("d0", "d1"))
    assert not matches(expected, chosen)
    assert not matches(chosen, expected)


def test_generated_names_of_one_tensor_under_two_paths_follow_each_other():
    graphs = [
        replace(
            constants(first, second),
            state=(constant(first), constant(second, None)._replace(same_as=first)),
        )
        for first, second in (("c0", "c1"), ("d5", "d3"))
    ]

    assert matches(*graphs)
    assert not matches(constants("c0", "c1", ("[1.0]", "[1.0]")), graphs[1])


def test_tensors_of_unknown_content_pair_by_their_readers_where_one_side_has_more():
    lines = "%x = input x\n{0}%c = get {1}\n%a = f({2}, %c)\nreturn %a"
    expected = graph_of(lines.format("", "c0", "%x"), state=[constant("c0", None)])
    obtained = graph_of(
        lines.format("%e = get c0\n%z = g(%x, %e)\n", "c1", "%z"),
        state=[constant("c0", None), constant("c1", None)],
    )

    changes = compare_documents(expected, obtained).changes

    assert {(change.action, change.subject) for change in changes} == {("added", "node"), ("added", "state")}
    assert [change.where for change in changes if change.subject == "state"] == ["c0_1"]


def test_a_node_with_a_renamed_target_has_the_name_of_its_partner():
    expected = graph_of("%p = input p\n%a = f(%p, [%p])\nreturn %a")
    obtained = graph_of("%q = input q\n%b = f(%q, [%q])\nreturn %b")

    nodes = in_expected_terms(expected, obtained).nodes

    assert [(node.name, node.target, node.args) for node in nodes[:2]] == [("p", "p", ()), ("b", "f", ("%p", "[%p]"))]


def test_a_node_keeps_its_name_where_another_node_has_the_name_of_its_partner():
    expected = graph_of("%p = input p\n%a = f(%p)\nreturn %a")
    obtained = graph_of("%q = input q\n%p = f(%q)\nreturn %p")

    nodes = in_expected_terms(expected, obtained).nodes

    assert [(node.name, node.target) for node in nodes[:2]] == [("q", "p"), ("p", "f")]


def values(expected, obtained, **options):
    return [node.value for node in in_expected_terms(expected, obtained, **options).nodes]


def test_a_new_symbol_never_gets_the_name_of_another_symbol():
    expected = graph_of("%x = input x : f[s0]\nreturn %x", ["s0"])
    obtained = graph_of("%y = input y : f[4, s0]\n%x = input x : f[s1]\nreturn %x", ["s0", "s1"])

    assert values(expected, obtained) == ["f[4, s0_1]", "f[s0]", None]


def unread(target, symbol, *names):
    """Return a graph with a constant that no node reads, and another constant with a generated name."""
    state = [constant(target, name_from=name) for name in names] + [constant("_lifted", "[7.0]")]
    return graph_of(f"%x = input x\n%c = get {target} : f[{symbol}]\nreturn %x", [symbol], state)


@pytest.mark.parametrize(
    ("expected", "obtained", "value"),
    [
        (unread("c", "s0", None), unread("c", "s1", None), "f[s0]"),
        (unread("c", "s0", None), unread("d", "s1", None), "f[s1]"),
        (unread("c", "s0", "lifting"), unread("d", "s1", "lifting"), "f[s0]"),
        (unread("c", "s0", "lifting"), unread("d", "s1", None), "f[s1]"),
    ],
)
def test_constants_pair_by_name_or_if_both_names_are_generated_by_content(expected, obtained, value):
    assert values(expected, obtained)[1] == value


def test_names_count_if_only_one_document_has_generated_names():
    expected = graph_of("%x = input x\n%c = get c : f[s0]\nreturn %x", ["s0"], [constant("c")])
    obtained = graph_of("%x = input x\n%c = get c : f[s1]\nreturn %x", ["s1"], [constant("c", name_from=None)])

    assert values(expected, obtained) == [None, "f[s0]", None]


def test_whole_numbers_tell_constants_apart_where_floats_may_be_rounded():
    text = "%c = get {0}\n%d = get {1}\nreturn ()"
    state = [constant("c0", "[1]", value="int64[1]"), constant("c1", "[2]", value="int64[1]")]
    others = [constant("d0", "[2]", value="int64[1]"), constant("d1", "[1]", value="int64[1]")]

    renamed = in_expected_terms(
        graph_of(text.format("c0", "c1"), state=state), graph_of(text.format("d0", "d1"), state=others), is_close=True
    )

    assert [node.target for node in renamed.nodes[:2]] == ["c1", "c0"]


def test_constants_of_unknown_content_may_be_more_on_one_side_where_floats_may_be_rounded():
    expected = graph_of("%c = get c0\nreturn %c", state=[constant("c0", None)])
    obtained = graph_of("%c = get d0\nreturn (%c, )", state=[constant("d0", None), constant("d1", None)])

    assert in_expected_terms(expected, obtained, is_close=True).nodes[0].target == "c0"


def test_a_computed_buffer_without_counterpart_keeps_its_content():
    obtained = reading("close([1.0, 0.1])")

    for state in [(), (obtained.state[0]._replace(value="float32[3]", content=None),)]:
        assert in_expected_terms(replace(obtained, state=state), obtained) == obtained


def test_unknown_tensors_are_numbered_in_the_order_of_the_numbers_in_their_names():
    paths = ["c10", "c1", "c9", "c", "d"]
    state = [constant(path, None) for path in paths]

    numbers = numbers_of_unknown(graph_of("return ()", state=state), set(paths[:4]))

    assert numbers == {path: ("float32[1]", number) for number, path in enumerate(["c", "c1", "c9", "c10"])}
