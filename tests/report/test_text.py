from __future__ import annotations

from dataclasses import replace

import pytest

from fixtures.documents import document
from fixtures.edits import difference_of, edit
from pytest_fxgraph.compare.difference import Change, Difference, Edit, Site
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.report.graph_diff import places_of
from pytest_fxgraph.report.text import (
    LONGEST_HEADLINE,
    MOST_LINES,
    full_section,
    headline,
    leading_changes,
    lines_of_edit,
    other_torch_remark,
    short_lines,
)

GOLDEN, COMMAND = "golden/test_net/test_net.yaml", "pytest --fx-update-golden test_net.py"


def stack(eps: str, layers: int = 12, operator: str = "torch.layer_norm"):
    lines = ["%n = input n"]
    for layer in range(layers):
        before = f"relu_{layer - 1}" if layer else "n"
        lines.append(f"%norm_{layer} = {operator}(%{before}, eps={eps}) @ layers.{layer}")
        lines.append(f"%relu_{layer} = torch.relu(%norm_{layer}) @ layers.{layer}")
    return document("\n".join([*lines, f"return %relu_{layers - 1}"]))


def short(expected, obtained, level="structure"):
    return short_lines(compare_documents(expected, obtained, level=level), golden=GOLDEN, command=COMMAND)


def full(expected, obtained, level="structure", *, has_edits=False):
    difference = compare_documents(expected, obtained, level=level)
    difference = difference if has_edits else replace(difference, edits=())
    return full_section(difference, expected, obtained, golden=GOLDEN, command=COMMAND)


def test_short_lines_say_what_where_and_how_to_accept():
    expected = document("%x = input x\n%a = torch.relu(%x) @ head\nreturn %a")
    obtained = document("%x = input x\n%a = torch.gelu(%x) @ head\nreturn %a")
    nodes = (obtained.nodes[0], obtained.nodes[1]._replace(source="model.py:12: x = gelu(x)"), obtained.nodes[2])

    assert short(expected, replace(obtained, nodes=nodes)) == [
        f"{GOLDEN} does not match: torch.relu -> torch.gelu at head",
        "  %a: in head; model.py:12: x = gelu(x)",
        "  compared at level structure; if the new graph is right, accept it with",
        f"    {COMMAND}",
    ]


def test_short_lines_name_the_first_node_where_the_headline_only_counts():
    expected = document("%x = input x\n%a = torch.relu(%x)\nreturn %a")
    obtained = document("%x = input x\n%n = torch.neg(%x)\n%a = torch.relu(%n)\nreturn %a")
    difference = replace(compare_documents(expected, obtained), edits=())

    assert short_lines(difference, golden=GOLDEN)[:2] == [
        f"{GOLDEN} does not match: +1 torch.neg",
        "  first: n added: torch.neg(%x)",
    ]


@pytest.mark.parametrize("level", ["exact", "structure", "ops", "signature"])
def test_there_are_at_most_six_short_lines_and_none_is_long(level):
    lines = short(stack("1e-05", 300), stack("1e-06", 250, "f" * 5000), level)

    assert 3 <= len(lines) <= 6
    assert max(map(len, lines)) < 1000


def test_two_graphs_without_a_golden_are_said_to_differ():
    difference = compare_documents(stack("1e-05"), stack("1e-06"))

    lines = short_lines(difference)

    assert lines[0].startswith("the graphs differ: torch.layer_norm eps 1e-05 -> 1e-06 at 12 places: layers.0-11")
    assert lines[-1] == "  compared at level structure"


def test_the_section_lists_classes_with_the_most_harmful_first():
    expected = document("%x = input x\n%a = f(%x, 1)\n%b = g(%a)\nreturn %b")
    obtained = document("%x = input x\n%y = input y\n%a = f(%x, 2)\n%b = h(%a)\nreturn (%b, 1)")

    section = full(expected, obtained)

    places = [section.index(f"\n{title}\n") for title in ("signature (2)", "operators (1)", "arguments (1)")]
    assert places == sorted(places)
    assert section.endswith(f"accept the new graph with: {COMMAND}")


def test_the_same_change_in_every_layer_is_told_once():
    section = full(stack("1e-05"), stack("1e-06"))

    assert section.count("eps 1e-05 -> 1e-06") == 2  # the headline, and the list
    assert "  block x12: layers.0 .. layers.11\n    norm_0: eps 1e-05 -> 1e-06\n        in layers.0\n" in section
    assert "norm_1:" not in section
    assert "same change" not in section


def test_the_same_change_outside_of_blocks_is_told_with_its_other_places():
    graph = document("%x = input x\nreturn %x")
    changes = tuple(Change("arguments", "changed", "node", name, "args[1]", "1", "2") for name in ("a", "a_1"))

    lines = full_section(Difference("structure", changes), graph, graph, golden="").split("\n")

    assert lines[3:] == ["arguments (2)", "  a: args[1] 1 -> 2", "      same change at 1 more place: a_1"]


@pytest.mark.parametrize(
    ("alone", "blocks", "last"),
    [
        (39, 0, ["  gc added"]),
        (40, 0, ["  gd added"]),
        (41, 0, ["  gd added", "  and 1 more"]),
        (39, 2, ["  block x2: layers.0, layers.1", "    layers.0.a added"]),
        (40, 2, ["  block x2: layers.0, layers.1", "  and 1 more"]),
        (41, 2, ["  gd added", "  and 2 more"]),
    ],
)
def test_forty_changes_of_a_class_are_told(alone, blocks, last):
    graph = document("%x = input x\nreturn %x")
    names = [f"{one}{other}" for one in "abcdefg" for other in "abcdef"]
    changes = [Change("state", "added", "state", name) for name in names[:alone]]
    changes += [Change("state", "added", "state", f"layers.{number}.a") for number in range(blocks)]

    lines = full_section(Difference("structure", tuple(changes)), graph, graph, golden="").split("\n")

    assert lines[3] == f"state ({alone + blocks})"
    assert lines[-len(last) :] == last


def test_all_that_differs_in_a_block_is_told_together():
    section = full(stack("1e-05"), stack("1e-05", operator="f"))
    lines = section.split("\n")
    place = lines.index("  block x12: layers.0 .. layers.11")

    assert lines[place - 1] == "operators (12)"
    assert lines[place + 1] == "    norm_0: torch.layer_norm -> f"


def test_blocks_that_do_not_differ_are_not_among_those_that_do():
    changed = stack("1e-06")
    pairs = zip(stack("1e-05").nodes, changed.nodes, strict=True)
    nodes = tuple(before if "5" in before.name else after for before, after in pairs)

    section = full(stack("1e-05"), replace(changed, nodes=nodes))

    assert "  block x11: layers.0 .. layers.4, layers.6 .. layers.11\n" in section


def test_a_thousand_blocks_are_told_in_as_many_lines_as_ten():
    def with_copies(layers: int):
        lines = ["%x = input x"]
        for layer in range(layers):
            lines.append(f"%n_{layer} = torch.relu(%{f'c_{layer - 1}' if layer else 'x'}) @ layers.{layer}")
            lines.append(f"%c_{layer} = torch.clone(%n_{layer}) @ layers.{layer}")
        return document("\n".join([*lines, f"return %c_{layers - 1}"]))

    def without_copies(layers: int):
        lines = ["%x = input x"]
        for layer in range(layers):
            lines.append(f"%n_{layer} = torch.relu(%{f'n_{layer - 1}' if layer else 'x'}) @ layers.{layer}")
        return document("\n".join([*lines, f"return %n_{layers - 1}"]))

    few = full(without_copies(10), with_copies(10)).split("\n")
    many = full(without_copies(1000), with_copies(1000)).split("\n")

    assert "  block x10: layers.0 .. layers.9" in few
    assert "  block x1000: layers.0 .. layers.999" in many
    assert len(many) == len(few)


def test_the_nodes_around_the_change_are_shown():
    expected = document("%x = input x\n%a = torch.relu(%x)\n%b = f(%a)\nreturn %b")
    obtained = document("%x = input x\n%c = torch.gelu(%x)\n%b = f(%c)\nreturn %b")

    section = full(expected, obtained)

    assert (
        "around c\n    input x\n  - %a = torch.relu(%x)\n  + %c = torch.gelu(%x)\n"
        "  - %b = f(%a)\n  + %b = f(%c)\n    return %b\n"
    ) in section


def test_values_that_follow_and_names_that_are_free_are_counted():
    lines = "%x = input x : {0}[2]\n%a = f(%x) : {0}[2]\n%{1} = g(%a) : {0}[2]\nreturn 1"

    section = full(document(lines.format("float32", "b")), document(lines.format("float64", "c")))

    assert "values of 2 nodes differ because of these" in section
    assert "1 node renamed, which is no difference at this level" in section


def test_the_section_is_bounded():
    expected = document(
        "\n".join(["%n0 = input x", *(f"%n{i + 1} = f{i}(%n{i})" for i in range(2000)), "return %n2000"])
    )
    obtained = document(
        "\n".join(["%n0 = input x", *(f"%n{i + 1} = g{i}(%n{i})" for i in range(2000)), "return %n2000"])
    )

    lines = full(expected, obtained).split("\n")

    assert len(lines) <= MOST_LINES
    assert any("more differences are not listed" in line for line in lines)
    assert lines[-1] == f"accept the new graph with: {COMMAND}"


def test_the_title_of_a_section_names_the_golden():
    graph = document("%x = input x\nreturn %x")
    titles = [
        full_section(Difference("ops", (STRIDE,)), graph, graph, golden=golden).partition("\n")[0]
        for golden in ("", GOLDEN)
    ]

    assert titles == ["the graphs differ at level ops", f"{GOLDEN} does not match at level ops"]


def test_the_section_of_two_graphs_tells_no_command():
    difference = compare_documents(stack("1e-05"), stack("1e-06"))

    assert "accept" not in full_section(difference, stack("1e-05"), stack("1e-06"), golden=GOLDEN)


def test_neighbours_are_shown_once_with_all_of_them_marked():
    expected = document("%x = input x\n%a = f(%x)\n%b = g(%a)\n%c = h(%b)\nreturn %c")
    obtained = document("%x = input x\n%c = h(%x)\nreturn %c")

    section = full(expected, obtained)

    assert section.count("\naround ") == 1
    assert "  - %a = f(%x)\n  - %b = g(%a)\n" in section


def test_what_was_marked_before_is_not_shown_again_with_more_around_it():
    chain = "%x = input x\n%a = f(%x)\n%b = g(%a)\n%c = h(%b)\n%d = k(%c)\n%e = l(%d)\nreturn %e"
    obtained = chain.replace("%a = f(%x)\n", "").replace("g(%a)", "g(%x)").replace("%c = h(%b)\n", "")

    section = full(document(chain), document(obtained.replace("k(%c)", "k(%b)")))

    assert section.count("\naround ") == 1
    assert (
        "around a\n    input x\n  - %a = f(%x)\n  - %b = g(%a)\n  + %b = g(%x)\n  - %c = h(%b)\n"
        "  - %d = k(%c)\n  + %d = k(%b)\n"
    ) in section


def line_of(*changes: Change, **more: int) -> str:
    return headline(Difference("structure", changes, **more))


ADDED = Change("operators", "added", "node", "relu", obtained="torch.relu(%x)", operator="torch.relu")
REMOVED = Change("operators", "removed", "node", "add", expected="operator.add(%x, 1)", operator="operator.add")
RETARGETED = Change("operators", "changed", "node", "y", "target", "torch.relu", "torch.gelu")
STRIDE = Change("arguments", "changed", "module", "conv1", "config.stride", "(1, 1)", "(2, 2)")
WEIGHT = Change("state", "changed", "state", "conv1.weight", "value", "float32[8]", "float32[4]")
VALUE = Change("signature", "changed", "output", "output", "value", "float32[8]", "float32[4]")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ((), "no difference"),
        ((ADDED, REMOVED), "+1 torch.relu, -1 operator.add"),
        ((ADDED, ADDED, REMOVED), "+2 torch.relu, -1 operator.add"),
        ((ADDED, REMOVED, REMOVED), "+1 torch.relu, -2 operator.add"),
        ((RETARGETED,), "y: torch.relu -> torch.gelu"),
        ((RETARGETED, VALUE), "y: torch.relu -> torch.gelu, and 1 more"),
        ((RETARGETED, REMOVED), "+1 torch.gelu, -1 operator.add, -1 torch.relu"),
        ((STRIDE,), "conv1: stride (1, 1) -> (2, 2)"),
        ((VALUE, WEIGHT, STRIDE), "conv1: stride (1, 1) -> (2, 2), and 2 more"),
        ((WEIGHT,), "conv1.weight: float32[8] -> float32[4]"),
        ((VALUE,), "the output: float32[8] -> float32[4]"),
        ((Change("signature", "added", "input", "mask", operator="mask"),), "input mask added"),
        ((Change("signature", "changed", "input", "y", "target", "x", "y"),), "input x is now y"),
        (
            (Change("wiring", "changed", "node", "add_1", "args[0]", "%a", "%b"),),
            "add_1: args[0] %a -> %b",
        ),
        (
            (Change("arguments", "changed", "node", "s", "kwargs['dim']", "1", "2"),),
            "s: dim 1 -> 2",
        ),
        (
            (Change("order", "moved", "node", "d", "order", "after c", "after e"),),
            "d moved: after c -> after e",
        ),
        (
            (
                Change("cosmetic", "changed", "node", "p", "name", "a", "p"),
                Change("cosmetic", "changed", "node", "q", "name", "b", "q"),
            ),
            "2 nodes renamed",
        ),
        (
            (Change("cosmetic", "changed", "code", "line 3", "", "return x", "return y"),),
            "generated code, line 3: return x -> return y",
        ),
        (
            (Change("operators", "changed", "count", "torch.relu", "count", "2", "3", operator="torch.relu"),),
            "torch.relu: 2 -> 3",
        ),
    ],
)
def test_the_headline_names_the_cause(changes, words):
    assert line_of(*changes) == words


def test_the_same_change_at_many_places_is_named_once():
    changes = [Change("arguments", "changed", "node", f"norm_{i}", "args[1]", "1e-05", "1e-06") for i in range(12)]

    assert line_of(*changes) == "norm_0: args[1] 1e-05 -> 1e-06 (and at 11 more places)"


def test_what_is_not_listed_counts_too():
    assert line_of(STRIDE, omitted=40) == "conv1: stride (1, 1) -> (2, 2), and 40 more"


def test_many_operators_are_cut():
    changes = [Change("operators", "added", "node", name, operator=name) for name in "abcdefg"]

    assert line_of(*changes) == "+1 a, +1 b, +1 c, 4 other operators"


def test_the_headline_of_compared_graphs():
    expected = document("%x = input x\n%a = torch.relu(%x)\nreturn %a")
    obtained = document("%x = input x\n%b = torch.neg(%x)\n%a = torch.relu(%b)\nreturn %a")

    assert headline(compare_documents(expected, obtained)) == "torch.neg inserted after input x"


@pytest.mark.parametrize("size", [10, 200, 5000])
def test_a_headline_is_short_however_long_what_differs(size):
    old, new = "a" * size, "b" * size
    changes = [
        Change("arguments", "changed", "node", old, "args[1]", old, new),
        Change("state", "changed", "state", old, "value", f"float32[{old}]", f"float32[{new}]"),
        Change("operators", "added", "node", "x", obtained=f"{new}(%x)", operator=new),
        Change("signature", "changed", "input", new, "target", old, new),
    ]

    assert all(len(line_of(change)) <= LONGEST_HEADLINE < 120 for change in changes)
    assert all(len(line_of(change, omitted=10**9)) <= LONGEST_HEADLINE for change in changes)


def test_a_headline_holds_no_digest():
    before, after = f"sha256={'0a' * 32}, min=0.0, max=1.0", f"sha256={'0b' * 32}, min=0.0, max=2.0"
    change = Change("state", "changed", "state", "c", "content", before, after)

    assert line_of(change) == "c: values min=0.0, max=1.0 -> min=0.0, max=2.0"
    assert line_of(replace(change, obtained=before.replace("0a", "0b"))) == "c: values min=0.0, max=1.0 -> other values"


def test_changes_at_one_line_of_one_module_are_told_with_their_count():
    def loop(operator: str):
        calls = [f"%n_{i + 1} = {operator}(%n_{i})" for i in range(40)]
        made = document("\n".join(["%n_0 = input x", *calls, "return %n_40"]))
        nodes = [
            node._replace(source="model.py:5: y = f(x)") if node.op == "call_function" else node for node in made.nodes
        ]
        return replace(made, nodes=tuple(nodes))

    section = full(loop("f"), loop("g"))

    assert "operators (40)\n  n_1: f -> g\n      model.py:5: y = f(x)  x40\n" in section
    difference = replace(compare_documents(loop("f"), loop("g")), edits=())
    assert short_lines(difference)[2] == "  model.py:5: y = f(x)  x40"


def test_the_name_of_a_golden_cannot_begin_a_line():
    name, (before, after) = "golden/\n::error::x.yaml", (document("%x = input x\nreturn %x"), document("return 1"))
    difference = compare_documents(before, after)

    lines = [*short_lines(difference, golden=name), *full_section(difference, before, after, golden=name).split("\n")]

    assert not any(line.startswith("::") for line in lines)


EXPORTED = "%x = input x\n%a = aten.to.dtype(%x, torch.int64)\n%b = aten.relu.default(%a)\nreturn %b"
SLICED = EXPORTED.replace(
    "%b = aten.relu.default(%a)", "%s = aten.slice.Tensor(%a, 0, 0, {})\n%b = aten.relu.default(%s)"
)
OF_OLD = SLICED.format(9223372036854775807)
OF_NEW = EXPORTED.replace("%a = ", "%m = aten._assert_tensor_metadata.default(%x, dtype=torch.int64)\n%a = ")
REMARK = (
    "if the model is the same, torch 2.14 exports this operator otherwise: record a variant with "
    "pytest --fx-update-golden --fx-update-variant"
)


def remark(expected: str, obtained: str, torch_version: str = "2.14.0a0") -> str | None:
    return other_torch_remark(compare_documents(document(expected), document(obtained)), torch_version)


def test_a_golden_that_only_another_release_of_torch_writes_gets_a_remark():
    assert remark(OF_OLD, EXPORTED) == remark(EXPORTED, OF_NEW) == remark(OF_OLD, OF_NEW) == REMARK
    assert remark(OF_OLD, EXPORTED, "2.13.0") == REMARK.replace("2.14", "2.13")
    assert remark(EXPORTED, OF_OLD, "2.6.0") == remark(OF_NEW, EXPORTED, "2.6.0") == REMARK.replace("2.14", "2.6")
    difference = compare_documents(document(OF_OLD), document(EXPORTED))
    lines = short_lines(difference, golden="g", command="pytest --fx-update-golden t.py", remark=REMARK)
    assert f"  {REMARK}" in lines
    assert lines[-1] == "    pytest --fx-update-golden t.py"
    assert len(lines) <= 6


@pytest.mark.parametrize(
    ("expected", "obtained"),
    [
        (EXPORTED, OF_OLD),  # this torch leaves such a slice out
        (OF_NEW, EXPORTED),
        (SLICED.format(3), EXPORTED),
        (OF_OLD, EXPORTED.replace("relu", "tanh")),
        (EXPORTED, EXPORTED.replace("torch.int64", "torch.int32")),
        (EXPORTED, EXPORTED),
    ],
)
def test_a_golden_that_this_torch_writes_too_gets_no_remark(expected, obtained):
    assert remark(expected, obtained) is None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("aten.view.default", "aten.reshape.default"),
        ("aten.linear.default", "aten.addmm.default"),
        ("aten.native_layer_norm.default", "aten.layer_norm.default"),
        ("aten.relu.default", "torch.relu"),
        ("aten.relu.default", "aten.tanh.default"),
    ],
)
@pytest.mark.parametrize("torch_version", ["2.6.0", "2.9.1", "2.14.0"])
def test_an_edit_that_every_release_can_record_gets_no_remark(before, after, torch_version):
    texts = [EXPORTED.replace("aten.relu.default", name) for name in (before, after)]

    assert remark(*texts, torch_version) is None


def test_releases_that_were_not_recorded_give_no_remark():
    assert remark(OF_OLD, EXPORTED, "2.9.0") is remark(EXPORTED, OF_OLD, "2.9.0") is None


def test_edits_come_first_and_the_rest_follows_as_without_edits():
    x = document("%x = input x\nreturn %x")
    gelu = edit("F.gelu -> nn.GELU", [f"blocks.{n}" for n in range(12)], ["model.py:3: x = f(x)"])
    difference = difference_of([gelu, edit("norm moved")], rest=1)
    told = "F.gelu -> nn.GELU at 12 places: blocks.0-11, and 1 more edit and 1 other change"

    assert headline(difference) == told
    assert short_lines(difference, golden=GOLDEN, command=COMMAND) == [
        f"{GOLDEN} does not match: {told}",
        "  in blocks.0; model.py:3: x = f(x)",
        "  and norm moved",
        "  total: 3 operator changes",
        "  compared at level structure; if the new graph is right, accept it with",
        f"    {COMMAND}",
    ]
    with_remark = short_lines(difference, golden=GOLDEN, command=COMMAND, remark="a remark")
    assert with_remark[2:4] == ["  and norm moved", "  a remark"]
    three = short_lines(difference_of([gelu, edit("norm moved"), edit("norm gone")]))
    assert [line for line in three if line.startswith("  and ")] == ["  and norm moved"]
    assert full_section(difference, x, x, golden=GOLDEN).split("\n")[2:12] == [
        "",
        "edits (2)",
        "  F.gelu -> nn.GELU at 12 places: blocks.0-11",
        "      in blocks.0; model.py:3: x = f(x)",
        "  norm moved",
        "      in blocks.0",
        "",
        "operators (1)",
        "  n_0 added: torch.neg(%x)",
    ]


def test_an_edit_without_a_hunk_takes_no_room_from_the_others():
    expected, obtained = stack("1e-5", layers=1), stack("1e-6", layers=1)
    difference = compare_documents(expected, obtained)
    unseen = replace(difference.edits[0], sites=(Site("elsewhere", ("gone",), ("come",)),), changes=())
    several = replace(difference, edits=(*[unseen] * 5, *difference.edits))

    section = full_section(several, expected, obtained, golden=GOLDEN)

    assert "  - %norm_0 = torch.layer_norm(%n, eps=" in section


@pytest.mark.parametrize(
    ("sites", "names"),
    [
        ([Site("layers.0", ("norm_0",), ("norm_0",))], ["layers.0"]),
        ([Site("", ("norm_0",), ("relu_0",))], ["relu_0"]),
        ([Site("", ("norm_0",))], ["norm_0"]),
        ([None], ["an edit"]),
        ([Site("layers.1", ("norm_1",)), None], ["layers.1: an edit", "an edit"]),
        (
            [Site(f"layers.{n}", (f"norm_{n}",)) for n in (0, 6, 12, 18)],
            ["layers.0: an edit", "layers.6: an edit", "layers.12: an edit"],
        ),
    ],
)
def test_the_first_three_edits_are_shown_in_the_graph_under_their_places(sites, names):
    expected, obtained = stack("1e-5", 20), stack("1e-6", 20)
    difference = compare_documents(expected, obtained)
    change = Change("arguments", "changed", "node", "norm_10")
    edits = tuple(
        Edit("argument", "an edit", (site,), ()) if site else Edit("argument", "an edit", (), (change,))
        for site in sites
    )

    section = full_section(replace(difference, edits=edits, changes=()), expected, obtained, golden="")

    assert [line for line in section.split("\n") if line.startswith("around")] == [f"around {name}" for name in names]


@pytest.mark.parametrize(("level", "is_told"), [("structure", False), ("exact", True)])
def test_a_renamed_node_near_a_change_is_marked_at_level_exact(level, is_told):
    text = "%x = input x\n%{0} = f(%x)\n%b = {1}(%{0})\nreturn %b"

    section = full(document(text.format("a", "g")), document(text.format("c", "h")), level)

    assert ("  + %c = f(%x)" in section) is is_told
    assert ("    %a = f(%x)" in section) is not is_told


def test_the_likeliest_cause_leads_whatever_stands_before_it():
    kinds = ("signature", "operators", "arguments", "wiring", "state", "order", "other", "cosmetic")
    changes = tuple(Change(kind, "changed", "node", "y", expected="1", obtained="2") for kind in kinds)

    for number, likeliest in enumerate(changes[:-1]):
        assert leading_changes(Difference("structure", (*changes[:number:-1], likeliest))) == [likeliest]


# By rank as a cause, the likeliest first.
CAUSES = [
    [Change("signature", "changed", "input", "x", "target", "x", "y"), Change("signature", "added", "output", "o")],
    [ADDED],
    [STRIDE],
    [Change("wiring", "changed", "node", "a", "args[0]", "%a", "%b")],
    [WEIGHT, Change("state", "changed", "state", "w", "value")],
    [Change("order", "moved", "node", "d", "order", "after c", "after e")],
    [
        Change("signature", "changed", "input", "x", "value", "float32[8]", "float32[4]"),
        Change("cost", "changed", "cost", "flops", "", "1", "2"),
        Change("signature", "changed", "note", "n", "", "a", "b"),
        Change("breaks", "added", "break", "print"),
    ],
    [VALUE, Change("wiring", "changed", "node", "a", "value", "float32[8]", "float32[4]")],
    [
        Change("cost", "changed", "module", "fc", "", "1", "2"),
        Change("cosmetic", "changed", "node", "p", "name", "a", "p"),
    ],
]


def test_the_likeliest_causes_lead():
    for place, causes in enumerate(CAUSES):
        later = [change for others in CAUSES[place + 1 :] for change in others]

        assert leading_changes(Difference("structure", (*later, *causes))) == causes


def test_a_headline_of_119_characters_is_not_cut():
    change = Change("arguments", "changed", "node", "a", "args[1]", "1", "2" * 95)
    (length,) = {len(line_of(replace(change, obtained="2" * count))) - count for count in (1, 50)}

    fits, cut = (replace(change, obtained="2" * (count - length)) for count in (LONGEST_HEADLINE, LONGEST_HEADLINE + 1))
    assert line_of(fits) == f"a: args[1] 1 -> {fits.obtained}"
    assert len(line_of(cut)) < LONGEST_HEADLINE
    assert line_of(fits, omitted=1).endswith(", and 1 more")


def test_the_place_in_a_long_headline_keeps_30_characters():
    change = Change("arguments", "changed", "node", "n" * 100, "args[1]", "1" * 500, "2" * 500)

    for omitted in (0, 10**9):
        assert line_of(change, omitted=omitted).partition(":")[0] == f"{'n' * 15} ... {'n' * 10}"


@pytest.mark.parametrize(("count", "words"), [(4, "a: 1 -> 2, b: 1 -> 2, c: 1 -> 2, d: 1 -> 2"), (5, ", and 1 more")])
def test_four_counts_of_operators_are_told(count, words):
    counts = [Change("operators", "changed", "count", name, "count", "1", "2", operator=name) for name in "abcdef"]

    assert line_of(*counts[:count]).endswith(words)


def test_four_operators_are_told_and_of_five_three():
    changes = [Change("operators", "added", "node", name, operator=name) for name in "abcde"]

    assert line_of(*changes[:4]) == "+1 a, +1 b, +1 c, +1 d"
    assert line_of(*changes) == "+1 a, +1 b, +1 c, 2 other operators"


def test_a_section_of_200_lines_is_whole():
    graph = document("%x = input x\nreturn %x")
    names = [f"{one}{other}" for one in "abcdefgh" for other in "abcde"]

    def section(count: int) -> list[str]:
        kinds = {"operators": 40, "wiring": 40, "state": 40, "order": 40, "cosmetic": count}
        changes = [Change(kind, "added", "state", name) for kind, most in kinds.items() for name in names[:most]]
        return full_section(Difference("structure", tuple(changes)), graph, graph, golden="").split("\n")

    assert len(section(28)) == MOST_LINES
    assert section(28)[-1] == f"  {names[27]} added"
    assert section(29)[-2:] == [f"  {names[26]} added", "... and 2 more lines"]


def test_edits_beyond_forty_are_counted():
    graph = document("%x = input x\nreturn %x")
    sections = [
        full_section(difference_of([edit(f"edit {n}", [""]) for n in range(count)]), graph, graph, golden="").split(
            "\n"
        )
        for count in (40, 41)
    ]

    assert [[line for line in lines if line.startswith("  and ")] for lines in sections] == [[], ["  and 1 more"]]
    assert [f"edits ({count})" in lines for count, lines in zip((40, 41), sections, strict=True)] == [True, True]


@pytest.mark.parametrize(
    ("more", "remark"),
    [
        ({"omitted": 1}, "at least 1 more difference is not listed"),
        ({"omitted": 3, "omitted_in_edits": 1}, "at least 2 more differences are not listed"),
        ({"omitted": 2, "omitted_in_edits": 2}, ""),
        ({"followed": 1}, "values of 1 node differ because of these"),
        ({"renamed": 2}, "2 nodes renamed, which is no difference at this level"),
        ({"renamed": 2, "level": "exact"}, ""),
    ],
)
def test_a_section_remarks_what_it_does_not_list(more, remark):
    graph = document("%x = input x\nreturn %x")
    difference = Difference(**{"level": "structure", "changes": (STRIDE,), **more})

    lines = full_section(difference, graph, graph, golden="").split("\n")

    remarks = [line for line in lines[5:] if line]
    assert remarks == ([remark] if remark else [])


def test_the_lines_of_an_edit_without_a_place_are_those_of_its_first_change():
    changes = (Change("state", "changed", "state", "w", "value"), Change("state", "changed", "state", "v", "value"))
    places = {
        text: lines_of_edit(Edit("retied", text, sites, changes))
        for text, sites in (("none", ()), ("there", (Site("w"),)), ("nodes", (Site("", ("a",), ("b",)),)))
    }

    assert places["none"] == [*places_of(changes[0])]
    assert places["there"] == [*places_of(changes[0])]
    assert places["nodes"] == [(0, "node", "a"), (1, "node", "b"), *places_of(changes[0]), *places_of(changes[1])]


@pytest.mark.parametrize(("count", "is_told"), [(1, False), (2, True)])
def test_short_lines_count_more_than_one_change(count, is_told):
    lines = short_lines(Difference("structure", (STRIDE, WEIGHT)[:count]))

    assert ("  total: 1 state change, 1 argument change" in lines) is is_told
    assert any(
        line.endswith(", and 1 not listed") for line in short_lines(Difference("structure", (STRIDE,), omitted=1))
    )
