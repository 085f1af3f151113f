from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pytest

from fixtures.documents import document
from pytest_fxgraph.document.costs import CostBlock, CostRecord
from pytest_fxgraph.document.folding import Block, Body, Run
from pytest_fxgraph.document.model import ModuleRecord, StateRecord
from pytest_fxgraph.draw.builder import _repetition, picture_of, picture_of_nodes, short_value
from pytest_fxgraph.draw.overlay import merged_nodes
from pytest_fxgraph.draw.picture import Fact, Picture

TIMES = "\N{MULTIPLICATION SIGN}"
BLOCK = (
    "%a{0} = torch.neg(%{1}) @ layers.{0}\n%b{0} = torch.exp(%a{0}) @ layers.{0}\n%c{0} = torch.sin(%b{0}) @ layers.{0}"
)


@pytest.fixture
def folds_small_graphs(monkeypatch):
    """Fold the small graphs of these tests, as if they were large."""
    for module in ("builder", "picture"):
        monkeypatch.setattr(f"pytest_fxgraph.draw.{module}.FEWEST_FOLDED", 0)


def blocks(count: int, *, changed: Collection[int] = ()) -> str:
    texts = [BLOCK.format(number, f"c{number - 1}" if number else "x") for number in range(count)]
    for number in changed:
        texts[number] = texts[number].replace("torch.exp", "torch.log")
    return "\n".join(["%x = input x : float32[2, 3]", *texts, f"return %c{count - 1}"])


def tree(picture: Picture, number: int | None = None) -> list[object]:
    cluster = picture.root if number is None else picture.cluster(number)
    assert cluster is not None
    return [
        [inner.label, *tree(picture, child)]
        if (inner := picture.cluster(child)) is not None
        else picture.nodes[child].name
        for child in cluster.children
    ]


def test_nodes_of_one_module_lie_in_one_box():
    text = "%x = input x\n%a = torch.neg(%x) @ enc.fc\n%b = torch.exp(%a) @ enc.fc\n%c = torch.sin(%b) @ enc\nreturn %c"

    assert tree(picture_of(document(text), title="")) == ["x", ["enc", ["fc", "a", "b"], "c"], "output"]


def test_a_module_of_one_node_has_no_box_and_is_named_in_the_node():
    picture = picture_of(document("%x = input x\n%a = torch.neg(%x) @ enc.act\nreturn %a"), title="")

    assert tree(picture) == ["x", "a", "output"]
    assert picture.nodes[1].place == "enc.act"


def test_a_box_around_a_single_box_is_left_out():
    picture = picture_of(
        document("%x = input x\n%a = torch.neg(%x) @ m.n\n%b = torch.exp(%a) @ m.n\nreturn %b"), title=""
    )

    assert tree(picture) == ["x", ["m.n", "a", "b"], "output"]


def test_a_module_that_is_called_twice_has_a_box_for_each_call():
    text = "%x = input x\n%a = torch.neg(%x) @ m\n%b = torch.exp(%a) @ m\n%c = torch.sin(%b)\n"
    text += "%d = torch.neg(%c) @ m\n%e = torch.exp(%d) @ m\nreturn %e"

    assert tree(picture_of(document(text), title="")) == ["x", ["m", "a", "b"], "c", ["m", "d", "e"], "output"]


@pytest.mark.usefixtures("folds_small_graphs")
def test_of_blocks_that_repeat_the_first_is_drawn_and_the_others_are_one_box():
    picture = picture_of(document(blocks(6)), title="")

    _, layers, _ = tree(picture)
    assert layers[:2] == ["layers", ["layers.0", "a0", "b0", "c0"]]
    (rest,) = layers[2:]
    assert rest[0] == "5 more: layers.1 .. layers.5"
    assert len(rest) == 6
    assert picture.opened(150).isdisjoint(each.number for each in picture.clusters if each.sort == "repeated")


@pytest.mark.usefixtures("folds_small_graphs")
def test_blocks_repeat_although_their_tensors_are_listed_first():
    tensors = [f"%w{number} = get layers.{number}.weight : float32[2]" for number in range(6)]
    calls = [
        f"%a{number} = torch.mul(%{f'b{number - 1}' if number else 'x'}, %w{number}) @ layers.{number}\n"
        f"%b{number} = torch.exp(%a{number}) @ layers.{number}"
        for number in range(6)
    ]
    picture = picture_of(document("\n".join([*tensors, "%x = input x", *calls, "return %b5"])), title="")

    _, layers, _ = tree(picture)
    assert layers[2][0] == "5 more: layers.1 .. layers.5"


def boxes_of_repetitions(text: str, *state: StateRecord) -> list[str]:
    """List the labels of the boxes that hold further repetitions of a block."""
    picture = picture_of(document(text, state=state), title="")
    return [cluster.label for cluster in picture.clusters if cluster.sort == "repeated"]


def chain_of(*operators: str) -> str:
    """Write a block for each group of letters; each letter is an operator that reads the one before it."""
    lines, before = ["%x = input x"], "x"
    for number, block in enumerate(operators):
        for letter in block:
            lines.append(f"%{letter}{number} = f.{letter}(%{before}) @ layers.{number}")
            before = f"{letter}{number}"
    return "\n".join([*lines, f"return %{before}"])


@pytest.mark.usefixtures("folds_small_graphs")
@pytest.mark.parametrize(
    ("blocks", "labels"),
    [
        (["abc", "abc", "abc"], ["2 more: layers.1, layers.2"]),
        (["ab", "cd"] * 4, ["3 more: layers.2, layers.4, layers.6"]),
        ([*["ab"] * 5, "c", *["ab"] * 5, "c"], ["4 more: layers.1 .. layers.4", "4 more: layers.7 .. layers.10"]),
        ([*["ab"] * 6, "-", *["cde"] * 3], ["5 more: layers.1 .. layers.5", "2 more: layers.8, layers.9"]),
        (["abcd", "abcd", "abcd", "abcde"], ["2 more: layers.1, layers.2"]),
        (["abcdefgh", "abcdefgh"], ["1 more: layers.1"]),
        (["ab"], []),
        (["abcd", "efgh", "ijkl"], []),
    ],
)
def test_blocks_that_follow_each_other_are_repetitions(blocks, labels):
    assert boxes_of_repetitions(chain_of(*blocks).replace("f.-", "f.g").replace("%-", "%g")) == labels


@pytest.mark.usefixtures("folds_small_graphs")
def test_blocks_repeat_behind_a_node_between_them_and_an_earlier_block():
    text = chain_of("cdef", *["abcd"] * 3).replace("%a1 = f.a(%f0)", "%free = torch.neg(%f0)\n%a1 = f.a(%free)")

    assert boxes_of_repetitions(text) == ["2 more: layers.2, layers.3"]


@pytest.mark.usefixtures("folds_small_graphs")
def test_blocks_within_blocks_repeat_where_the_outer_blocks_differ():
    lines, before = ["%x = input x"], "x"
    for stage in (0, 1):
        for block in range(3 + stage):
            for letter in "abcd":
                name = f"{letter}_{stage}_{block}"
                lines.append(f"%{name} = f.{letter}(%{before}) @ stages.{stage}.blocks.{block}")
                before = name

    assert boxes_of_repetitions("\n".join([*lines, f"return %{before}"])) == [
        "2 more: stages.0.blocks.1, stages.0.blocks.2",
        "3 more: stages.1.blocks.1, stages.1.blocks.2, stages.1.blocks.3",
    ]


@pytest.mark.usefixtures("folds_small_graphs")
def test_modules_of_a_list_repeat_without_a_box_of_their_own_if_their_settings_are_equal():
    calls = [f"%m{n} = self.{n}(%{f'm{n - 1}' if n else 'x'})" for n in range(9)]
    graph = document("\n".join(["%x = input x", *calls, "return %m8"]))

    def labels(*sizes: int) -> list[str]:
        modules = tuple(ModuleRecord(str(n), "Linear", (("size", str(size)),)) for n, size in enumerate(sizes))
        picture = picture_of(replace(graph, modules=modules), title="")
        return [cluster.label for cluster in picture.clusters if cluster.sort == "repeated"]

    assert labels(8, 8, 8, 8, 8, 8, 8, 8, 8) == ["8 more: 1 .. 8"]
    assert labels(8, 8, 8, 8, 8, 8, 8, 8, 9) == ["7 more: 1 .. 7"]


@pytest.mark.usefixtures("folds_small_graphs")
def test_parameters_that_torch_export_made_inputs_belong_to_their_layers():
    inputs = [f"%p_layers_{n}_weight = input p_layers_{n}_weight : float32[4]" for n in range(8)]
    layers = [f"%m_{n} = aten.mul(%{f'm_{n - 1}' if n else 'x'}, %p_layers_{n}_weight) @ layers.{n}" for n in range(8)]

    text = "\n".join([*inputs, "%x = input x : float32[4]", *layers, "return %m_7"])

    assert boxes_of_repetitions(text) == ["7 more: layers.1 .. layers.7"]


@pytest.mark.usefixtures("folds_small_graphs")
def test_constants_that_tracing_numbered_do_not_keep_layers_apart():
    lines = ["%x = input x"]
    for layer in range(6):
        before = f"add_{layer - 1}" if layer else "x"
        lines.append(f"%n_{layer} = torch.neg(%{before}) @ layers.{layer}")
        lines.append(f"%c_{layer} = get _tensor_constant{3 * layer}")
        lines.append(f"%add_{layer} = f(%n_{layer}, %c_{layer}) @ layers.{layer}")
    same = tuple(StateRecord(f"_tensor_constant{3 * n}", "constant", "float32[]", content="1.5") for n in range(6))
    text = "\n".join([*lines, "return %add_5"])

    assert boxes_of_repetitions(text, *same) == ["5 more: layers.1 .. layers.5"]
    assert boxes_of_repetitions(text, *same[:-1], same[-1]._replace(content="2.5")) == ["4 more: layers.1 .. layers.4"]


def test_a_tensor_of_a_single_reader_is_told_with_it_and_one_of_several_is_drawn():
    text = "%x = input x\n%w = get fc.weight\n%s = get scale\n%a = torch.mul(%x, %w)\n%b = torch.add(%a, %s)\n"
    text += "%c = torch.sub(%b, %s)\nreturn %c"
    state = (StateRecord("fc.weight", "parameter", "float32[2]", requires_grad=True),)

    picture = picture_of(document(text, state=state), title="")

    assert tree(picture) == ["x", "a", "s", "b", "c", "output"]
    facts = {fact.what: fact.obtained for fact in picture.nodes[1].facts}
    assert facts["reads fc.weight"] == "parameter float32[2], requires grad"


def test_a_module_is_labelled_by_its_class_and_its_path():
    modules = (ModuleRecord("enc.fc", "torch.nn.Linear", (("in_features", "2"),)),)
    picture = picture_of(document("%x = input x\n%a = self.enc.fc(%x)\nreturn %a", modules=modules), title="")

    assert (picture.nodes[1].label, picture.nodes[1].place) == ("Linear", "enc.fc")


@pytest.mark.parametrize(
    ("call", "label"),
    [
        ("torch.softmax(%x, dim=-1)", "softmax(dim=-1)"),
        (".transpose(%x, 1, 2)", ".transpose(1, 2)"),
        ("aten.add.Tensor(%x, %x)", "add"),
        ("aten.add_.Tensor(%x, %x)", "add_"),
        ("torch.reshape(%x, (1000, 2000, 3000, 4000))", "reshape"),
        ("custom.module.op(%x)", "custom.module.op"),
    ],
)
def test_a_call_is_labelled_by_its_operator_and_short_literals(call, label):
    picture = picture_of(document(f"%x = input x\n%a = {call}\nreturn %a"), title="")

    assert picture.nodes[1].label == label


@pytest.mark.parametrize(
    ("value", "short"),
    [
        (None, ""),
        ("float32[2, 8, 32]", f"2{TIMES}8{TIMES}32"),
        ("int64[]", "scalar"),
        ("(float32[2], bool[3])", "2, 3"),
        ("(float32[1], float32[2], float32[3])", "1, 2, … 3"),
        ("float32[s0, 8] strides=(1, 8)", f"s0{TIMES}8"),
    ],
)
def test_a_value_is_told_by_its_shapes(value, short):
    assert short_value(value) == short


@pytest.mark.usefixtures("folds_small_graphs")
def test_what_changed_is_marked_and_what_is_far_from_it_is_folded():
    picture = picture_of(document(blocks(8)), document(blocks(8, changed=[4])), title="")

    changed = [node for node in picture.nodes if node.status]
    assert [(node.name, node.label, node.status) for node in changed] == [("b4", "exp → log", "changed")]
    _, (_, before, block, after), _ = tree(picture)
    assert (before[0], after[0]) == ("unchanged: layers.0 .. layers.3", "unchanged: layers.5, layers.6, layers.7")
    assert block == ["layers.4", "a4", "b4", "c4"]
    opened = [cluster.label for cluster in picture.clusters if cluster.number in picture.opened(150)]
    assert opened == ["", "layers", "layers.4"]


def labels_of(picture: Picture, sort: str) -> list[str]:
    return [cluster.label for cluster in picture.clusters if cluster.sort == sort]


def test_a_graph_of_fewer_than_40_nodes_is_drawn_whole():
    small, large = blocks(12), blocks(13)  # 38 and 41 nodes
    for count, text, is_folded in ((12, small, False), (13, large, True)):
        alone = picture_of(document(text), title="")
        changed = picture_of(document(text), document(blocks(count, changed=[6])), title="")
        assert (labels_of(alone, "repeated") != [], labels_of(changed, "unchanged") != []) == (is_folded, is_folded)
        assert (changed.opened(150) == changed.all_opened()) is not is_folded


def test_equal_edits_of_blocks_are_drawn_once():
    edited = picture_of(document(blocks(20)), document(blocks(20, changed=range(4, 16))), title="")

    assert labels_of(edited, "repeated") == [f"{TIMES}12, 11 more: layers.5 .. layers.15"]
    assert labels_of(edited, "unchanged") == ["unchanged: layers.0 .. layers.3", "unchanged: layers.16 .. layers.19"]
    opened = [cluster.label for cluster in edited.clusters if cluster.number in edited.opened(150)]
    assert opened == ["", "layers", "layers.4"]


@pytest.mark.usefixtures("folds_small_graphs")
def test_the_second_of_two_equal_edits_is_in_a_box_that_stays_closed():
    edited = picture_of(document(blocks(8)), document(blocks(8, changed=[3, 4])), title="")

    _, layers, _ = tree(edited)
    label = f"{TIMES}2, 1 more: layers.4"
    assert layers[2:4] == [["layers.3", "a3", "b3", "c3"], [label, ["layers.4", "a4", "b4", "c4"]]]
    (box,) = [cluster for cluster in edited.clusters if cluster.label == label]
    assert (box.sort, box.path) == ("repeated", "layers")
    assert box.number not in edited.opened(150)
    assert labels_of(picture_of(document(blocks(8)), document(blocks(8, changed=[3])), title=""), "repeated") == []


@pytest.mark.usefixtures("folds_small_graphs")
def test_equal_insertions_into_blocks_are_drawn_once():
    plain = blocks(5)
    lines = [
        f"%n{line[2]} = torch.tan(%b{line[2]}) @ layers.{line[2]}\n{line.replace('(%b', '(%n')}"
        if "sin" in line
        else line
        for line in plain.split("\n")
    ]

    for texts in ((plain, "\n".join(lines)), ("\n".join(lines), plain)):
        label = f"{TIMES}5, 4 more: layers.1 .. layers.4"
        assert labels_of(picture_of(*map(document, texts), title=""), "repeated") == [label]


@pytest.mark.usefixtures("folds_small_graphs")
def test_blocks_repeat_although_they_call_a_module_that_all_of_them_share():
    calls = [
        f"%a{n} = self.layers.{n}.fc(%{f'c{n - 1}' if n else 'x'}) @ layers.{n}\n%b{n} = self.act(%a{n}) @ layers.{n}\n"
        f"%c{n} = torch.sin(%b{n}) @ layers.{n}"
        for n in range(5)
    ]

    assert boxes_of_repetitions("\n".join(["%x = input x", *calls, "return %c4"])) == ["4 more: layers.1 .. layers.4"]


def test_another_edit_of_a_block_keeps_the_block_apart():
    other = blocks(20, changed=range(20)).replace("%b7 = torch.log", "%b7 = torch.cos")

    edited = picture_of(document(blocks(20)), document(other), title="")

    assert labels_of(edited, "repeated") == [
        f"{TIMES}7, 6 more: layers.1 .. layers.6",
        f"{TIMES}12, 11 more: layers.9 .. layers.19",
    ]


def changed_line(before: str, after: str) -> str:
    graphs = [f"%x = input x\n%a = {text}\n%b = torch.neg(%a)\nreturn %b" for text in (before, after)]
    return picture_of(*map(document, graphs), title="").nodes[1].change


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ("torch.softmax(%x, dim=-1)", "torch.softmax(%x, dim=1)", "dim -1 → 1"),
        ("torch.sum(%x, 1)", "torch.sum(%x, 1, keepdim=True)", "keepdim nothing → True"),
        ("torch.roll(%x, (2, 2))", "torch.roll(%x, (1, 1))", "args[1] 2 → 1"),
        ("torch.roll(%x, 2, dims=1)", "torch.roll(%x, 3, dims=0)", "args[1] 2 → 3, +1 more"),
        ("torch.roll(%x, (2, 2))", "torch.roll(%x, (1, 2))", "args[1] (2, 2) → (1, 2)"),
        ("torch.roll(%x, (1, 2))", "torch.roll(%x, (2, 2))", "args[1] (1, 2) → (2, 2)"),
        ("torch.exp(%x)", "torch.log(%x)", ""),  # the label tells it
    ],
)
def test_the_changed_field_stands_at_the_node(before, after, line):
    assert changed_line(before, after) == line


def test_a_changed_setting_of_a_module_stands_at_its_node():
    graphs = [
        replace(
            document("%x = input x\n%a = self.conv(%x)\nreturn %a"),
            modules=(ModuleRecord("conv", "torch.nn.Conv2d", (("in_channels", "3"), ("stride", stride))),),
        )
        for stride in ("(2, 2)", "(1, 1)")
    ]

    assert [node.change for node in picture_of(*graphs, title="").nodes] == ["", "stride 2 → 1", ""]


def test_added_and_removed_nodes_and_edges_are_marked():
    before = document("%x = input x\n%a = torch.neg(%x)\n%b = torch.exp(%a)\nreturn %b")
    after = document("%x = input x\n%a = torch.neg(%x)\n%n = torch.sin(%a)\n%b = torch.exp(%n)\nreturn %b")

    for expected, obtained, status, other in ((before, after, "added", "removed"), (after, before, "removed", "added")):
        picture = picture_of(expected, obtained, title="")
        by_name = {node.name: node.status for node in picture.nodes}
        names = [node.name for node in picture.nodes]
        edges = {(names[edge.source], names[edge.target]): edge.status for edge in picture.edges}
        assert by_name["n"] == status
        assert edges["a", "n"] == edges["n", "b"] == status
        assert edges["a", "b"] == other
        assert edges["x", "a"] == ""


def test_a_node_of_which_only_the_value_differs_follows_from_another():
    before = document("%x = input x : float32[2]\n%a = torch.neg(%x) : float32[2]\nreturn %a")
    after = document("%x = input x : float32[3]\n%a = torch.neg(%x) : float32[3]\nreturn %a")

    picture = picture_of(before, after, title="")

    assert [node.status for node in picture.nodes] == ["changed", "followed", ""]


def test_of_two_nodes_that_changed_places_one_is_drawn_at_both():
    before = document("%x = input x\n%a = torch.neg(%x)\n%b = torch.exp(%a)\nreturn %b")
    after = document("%x = input x\n%b = torch.exp(%x)\n%a = torch.neg(%b)\nreturn %a")

    picture = picture_of(before, after, title="")

    assert sorted((node.name, node.status) for node in picture.nodes) == [
        *[("a", "changed"), ("b", "added"), ("b", "removed")],
        *[("output", "changed"), ("x", "")],
    ]
    assert {edge.status for edge in picture.edges} >= {"added", "removed"}


def test_very_many_nodes_without_modules_are_drawn_in_parts():
    lines = [f"%n{number} = torch.neg(%{f'n{number - 1}' if number else 'x'})" for number in range(1000)]
    picture = picture_of(document("\n".join(["%x = input x", *lines, "return %n999"])), title="")

    assert max(len(cluster.children) for cluster in picture.clusters) <= 120
    assert {cluster.sort for cluster in picture.clusters} == {"graph", "part"}
    assert sum(child < len(picture.nodes) for cluster in picture.clusters for child in cluster.children) == 1002


def test_lines_of_the_model_are_told_with_the_nodes_of_the_obtained_graph():
    before, after = (document(f"%x = input x\n%a = torch.{name}(%x)\nreturn %a") for name in ("neg", "exp"))

    picture = picture_of_nodes(
        merged_nodes(before, after), is_overlay=True, title="", sources={"a": "model.py:3: exp(x)"}
    )

    assert {fact.what: fact.obtained for fact in picture.nodes[1].facts}["source"] == "model.py:3: exp(x)"


def test_an_empty_graph_has_a_picture():
    picture = picture_of(document("return ()"), title="")

    assert tree(picture) == ["output"]


def test_what_differs_in_a_graph_inside_of_a_module_is_told_with_the_node_that_calls_it():
    inner = [document(f"%y = input y\n%z = torch.{name}(%y)\nreturn %z") for name in ("neg", "exp")]
    before, after = (
        document(
            "%x = input x\n%a = self.sub(%x)\nreturn %a",
            modules=(ModuleRecord("sub", "fxcore.GraphModule", graph=each),),
        )
        for each in inner
    )

    (node,) = [node for node in picture_of(before, after, title="").nodes if node.status]

    assert (node.name, node.status) == ("a", "changed")
    assert [(fact.expected, fact.obtained) for fact in node.facts if "inside" in fact.what] == [
        ("torch.neg", "torch.exp")
    ]


def test_modules_of_any_depth_are_drawn():
    scope = ".".join("m" * 5_000)
    text = f"%x = input x\n%a = torch.neg(%x) @ {scope}\n%b = torch.exp(%a) @ {scope}.n\n%c = torch.sin(%b)\nreturn %c"

    picture = picture_of(document(text), title="")

    assert len(picture.clusters) < 40
    assert len(picture.nodes) == 5


def test_a_changed_node_is_told_in_the_words_of_either_graph():
    before, after = (
        document(f"%x = input x : float32[2, 4]\n%a = {call} : {value}\nreturn %a")
        for call, value in ((".reshape(%x, 2, 4)", "float32[2, 4]"), (".reshape(%x, 4, 2)", "float32[4, 2]"))
    )

    node = picture_of(before, after, title="").nodes[1]

    assert (node.label, node.value) == (".reshape(4, 2)", f"2{TIMES}4 → 4{TIMES}2")
    assert node.sides == ((".reshape(2, 4)", f"2{TIMES}4"), (".reshape(4, 2)", f"4{TIMES}2"))


def test_a_module_of_another_class_is_told_with_both_classes():
    before, after = (
        document("%x = input x\n%a = self.norm(%x)\nreturn %a", modules=(ModuleRecord("norm", f"torch.nn.{kind}"),))
        for kind in ("LayerNorm", "RMSNorm")
    )

    node = picture_of(before, after, title="").nodes[1]

    assert node.label == "LayerNorm → RMSNorm"
    assert [label for label, _ in node.sides] == ["LayerNorm", "RMSNorm"]


def test_what_is_the_same_in_both_graphs_has_one_label():
    text = "%x = input x : float32[2]\n%a = torch.neg(%x)\nreturn %a"

    assert {node.sides for node in picture_of(document(text), document(text), title="").nodes} == {()}


def test_a_node_tells_what_it_costs_or_what_its_module_does_and_neither_is_a_change():
    text = "%x = input x\n%a = self.fc(%x)\n%b = torch.neg(%a) @ act\nreturn %b"
    documents = [
        replace(document(text), cost=CostBlock(total, 8, "fc", (("fc", total), ("act", CostRecord(7, 1, 1, 0, 1)))))
        for total in (CostRecord(2_000, 8, 8, 2, 1), CostRecord(3_000, 8, 8, 2, 1))
    ]

    _, module, call, _ = picture_of(*documents, title="").nodes

    assert (module.status, call.status) == ("", "")
    assert Fact("cost", "2,000 FLOPs, 16 bytes, 2 parameters", "3,000 FLOPs, 16 bytes, 2 parameters") in module.facts
    assert [fact.obtained for fact in call.facts if fact.what == "cost of its module"] == [
        "7 FLOPs, 2 bytes, 0 parameters"
    ]


def test_literals_of_at_most_22_characters_stand_in_a_label():
    labels = [
        picture_of(document(f"%x = input x\n%a = torch.roll(%x, {number})\nreturn %a"), title="").nodes[1].label
        for number in ("1" * 22, "1" * 23)
    ]

    assert labels == [f"roll({'1' * 22})", "roll"]


@pytest.mark.parametrize(("nodes", "sizes"), [(118, []), (119, [40, 40, 40, 1]), (160, [40, 40, 40, 40, 2])])
def test_more_than_120_nodes_side_by_side_are_drawn_in_parts_of_40(nodes, sizes):
    lines = [f"%n{number} = torch.neg(%{f'n{number - 1}' if number else 'x'})" for number in range(nodes)]
    picture = picture_of(document("\n".join(["%x = input x", *lines, f"return %n{nodes - 1}"])), title="")

    parts = [cluster for cluster in picture.clusters if cluster.sort == "part"]
    assert [len(part.children) for part in parts] == sizes
    assert [part.nodes for part in parts] == sizes
    assert [part.label for part in parts[:1]] == ["x … n38"][: len(sizes)]


def test_at_most_24_boxes_are_nested():
    scopes = [".".join("m" * depth) for depth in (23, 24, 25, 26)]
    calls = [f"%{name}{depth} = torch.neg(%x) @ {scope}" for depth, scope in enumerate(scopes) for name in "ab"]

    picture = picture_of(document("\n".join(["%x = input x", *calls, "return %a0"])), title="")

    assert [len(cluster.path.split(".")) for cluster in picture.clusters if cluster.sort == "module"] == [23, 24]
    assert len(picture.clusters[-1].children) == 6


@pytest.mark.usefixtures("folds_small_graphs")
def test_up_to_8_layers_repeat_together():
    layers = ["abc", "def", "ghi", "jkl", "mno", "pqr", "stu", "vwx", "yza"]

    assert boxes_of_repetitions(chain_of(*layers[:8] * 3)) == ["2 more: layers.8, layers.16"]
    assert boxes_of_repetitions(chain_of(*layers * 3)) == []


@pytest.mark.usefixtures("folds_small_graphs")
@pytest.mark.parametrize(("between", "labels"), [(4, []), (5, ["unchanged"])])
def test_at_least_3_unchanged_nodes_far_from_a_change_are_one_box(between, labels):
    # The neighbours of a changed node stay outside of the box.
    names = [f"n{number}" for number in range(between)]
    lines = [f"%{name} = torch.neg(%{before})" for before, name in zip(["a", *names], names, strict=False)]
    text = "\n".join(["%x = input x", "%a = torch.exp(%x)", *lines, f"%b = torch.exp(%{names[-1]})", "return %b"])

    picture = picture_of(document(text), document(text.replace("torch.exp", "torch.log")), title="")

    assert labels_of(picture, "unchanged") == labels


@pytest.mark.usefixtures("folds_small_graphs")
@pytest.mark.parametrize(("modules", "labels"), [("p", []), ("pq", ["unchanged: p, q"])])
def test_one_box_of_a_module_gets_no_second_box_for_being_unchanged(modules, labels):
    # The nodes beside a changed node stay outside of the box.
    names = [("near", ""), *((f"{path}{n}", path) for path in modules for n in range(4)), ("last", "")]
    before = ["a", *(name for name, _ in names)]
    lines = [
        f"%{name} = torch.neg(%{read}){f' @ {path}' if path else ''}"
        for (name, path), read in zip(names, before, strict=False)
    ]
    text = "\n".join(["%x = input x", "%a = torch.exp(%x)", *lines, "%b = torch.exp(%last)", "return %b"])

    picture = picture_of(document(text), document(text.replace("torch.exp", "torch.log")), title="")

    assert labels_of(picture, "unchanged") == labels


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ("parameter float32[2]", "parameter float32[3, 4]", f"tensor 2 → 3{TIMES}4"),
        ("parameter float32[2]", "parameter int8[2]", "tensor parameter float32[2] → parameter int8[2]"),
        ("parameter float32[2]", "parameter lazy", "tensor parameter float32[2] → parameter lazy"),
        ("parameter lazy", "parameter float32[2]", "tensor parameter lazy → parameter float32[2]"),
    ],
)
def test_a_changed_tensor_is_told_by_its_shapes_where_these_differ(before, after, line):
    text = "%x = input x\n%w = get w\n%a = torch.mul(%x, %w)\n%b = torch.mul(%a, %w)\nreturn %b"
    graphs = [document(text, state=(StateRecord("w", *each.split(" ", 1)),)) for each in (before, after)]

    assert [node.change for node in picture_of(*graphs, title="").nodes if node.status] == [line]


def test_an_unchanged_tensor_is_told_with_its_reader_although_another_value_is_read():
    before = (
        "%x = input x\n%w = get fc.weight : float32[2]\n%b = torch.neg(%x)\n%a = torch.mul(%x, %w)\nreturn (%a, %b)"
    )

    picture = picture_of(document(before), document(before.replace("mul(%x", "mul(%b")), title="")

    assert tree(picture) == ["x", "b", "a", "output"]
    assert Fact("reads fc.weight", "float32[2]", "float32[2]") in picture.nodes[2].facts


@pytest.mark.parametrize(
    ("before", "after", "value"),
    [("", " : float32[2]", "2"), (" : float32[2]", "", ""), (" : float32[2]", " : float32[2]", "2")],
)
def test_a_shape_that_one_graph_knows_is_no_change(before, after, value):
    graphs = [
        document(f"%x = input x\n%a = torch.{name}(%x){shape}\nreturn %a")
        for name, shape in (("neg", before), ("exp", after))
    ]

    assert picture_of(*graphs, title="").nodes[1].value == value


def test_a_place_is_relative_to_the_module_around_and_says_nothing_twice():
    text = (
        "%x = input x\n%s = get scale\n%a = torch.mul(%x, %s) @ enc\n%b = self.enc.mlp.act(%a) @ enc\n"
        "%c = self.shared.fc(%b) @ enc\n%d = torch.mul(%c, %s)\n%e = self.net.head(%d)\nreturn %e"
    )
    without = text.replace("%e = self.net.head(%d)\nreturn %e", "return %d")
    places = [
        {node.name: node.place for node in picture_of(*map(document, graphs), title="").nodes}
        for graphs in ((text,), (text, without))
    ]

    expected = {"x": "", "s": "", "a": "", "b": "mlp.act", "c": "shared.fc", "d": "", "output": ""}
    assert {name: places[0][name] for name in expected} == expected
    assert [(node.label, node.place) for node in picture_of(document(text), title="").nodes[1:2]] == [("scale", "")]
    assert places[1]["e"] == "net.head"


@pytest.mark.usefixtures("folds_small_graphs")
def test_another_node_of_the_golden_keeps_an_edited_block_apart():
    before = blocks(20).replace("%b7 = torch.exp", "%b7 = torch.cos")

    edited = picture_of(document(before), document(blocks(20, changed=range(20))), title="")

    assert labels_of(edited, "repeated") == [
        f"{TIMES}7, 6 more: layers.1 .. layers.6",
        f"{TIMES}12, 11 more: layers.9 .. layers.19",
    ]


@pytest.mark.parametrize(("last", "is_folded"), [("", False), ("%e = torch.neg(%d)\n", True)])
def test_a_graph_of_40_nodes_is_folded(last, is_folded):
    result = "%e" if last else "%d"
    text = blocks(12).replace("return %c11", f"%d = torch.neg(%c11)\n{last}return {result}")

    picture = picture_of(document(text), title="")

    assert len(picture.nodes) == 39 + is_folded
    assert bool(labels_of(picture, "repeated")) is is_folded
    changed = picture_of(document(text), document(text.replace("%b6 = torch.exp", "%b6 = torch.log")), title="")
    assert bool(labels_of(changed, "unchanged")) is is_folded


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        ("abc", (1, 1)),
        ("aab", (1, 2)),
        ("aabaab", (3, 2)),  # saves three layers, where the first two would save one
        ("aaabaaab", (1, 3)),  # four layers are not more than twice the two that the first three save
        ("abab", (2, 2)),
    ],
)
def test_more_layers_in_one_repetition_have_to_save_twice_as_much(layers, expected):
    body = Body(*[()] * len(Body._fields))
    blocks = [Block(Run(place, place + 1, name), body) for place, name in enumerate(layers)]

    assert _repetition(blocks, layers, 0) == expected
