"""Changes that are the same at many places are reported once."""

from __future__ import annotations

import pytest

from pytest_fxgraph.compare.difference import Change
from pytest_fxgraph.report.folding import blocks_of, folded, folded_blocks


def eps(where: str, obtained: str = "1e-06") -> Change:
    return Change("arguments", "changed", "module", where, "config.eps", "1e-05", obtained)


def test_one_change_at_numbered_places_is_folded():
    (group,) = folded([eps(f"layers.{layer}.norm") for layer in range(12)])

    assert group.change.where == "layers.0.norm"
    assert group.describe_other_places() == "same change at 11 more places: layers.1.norm .. layers.11.norm"


def test_few_places_are_all_named():
    (group,) = folded([eps("norm"), eps("norm_1"), eps("norm_2")])

    assert group.describe_other_places() == "same change at 2 more places: norm_1, norm_2"


def test_other_values_other_fields_and_other_names_stay_apart():
    other_field = Change("arguments", "changed", "module", "layers.1.norm", "config.bias", "1e-05", "1e-06")

    groups = folded([eps("layers.0.norm"), eps("layers.1.norm", "1e-07"), other_field, eps("layers.1.last")])

    assert [group.others for group in groups] == [[], [], [], []]


def test_references_do_not_keep_changes_apart():
    changes = [Change("wiring", "changed", "node", f"add_{i}", "args[1]", f"%a_{i}", f"%b_{i}") for i in range(3)]

    (group,) = folded(changes)

    assert group.others == ["add_1", "add_2"]


def rewired(number: int, expected: str, obtained: str) -> Change:
    return Change("wiring", "changed", "node", f"add_{number}", "args[0]", expected, obtained)


def test_a_wire_that_goes_elsewhere_in_one_block_stays_apart():
    changes = [rewired(n, f"%norm_{n}", f"%skip_{n}") for n in range(1, 9)]
    changes[4] = rewired(5, "%norm_5", "%skip_2")

    assert [len(group.others) for group in folded(changes)] == [6, 0]


def test_a_wire_to_another_name_stays_apart():
    changes = [rewired(1, "%a_1", "%b_1"), rewired(2, "%a_2", "%c_2"), rewired(3, "%a_3", "%b_3")]

    assert [len(group.others) for group in folded(changes)] == [1, 0]


def test_a_wire_to_one_node_in_all_blocks_is_one_change():
    changes = [rewired(n, f"%norm_{n}", "%mask") for n in range(1, 9)]

    (group,) = folded(changes)

    assert len(group.others) == 7


def test_a_wire_from_one_node_in_all_blocks_is_one_change_where_the_others_count_along():
    changes = [rewired(n, "%mask", f"%skip_{n}") for n in range(1, 9)]
    changes[4] = rewired(5, "%mask", "%skip_2")

    assert [len(group.others) for group in folded(changes)] == [6, 0]


def test_the_first_of_a_name_counts_as_its_zeroth():
    first = Change("operators", "added", "node", "mul", obtained="f(%x)", operator="f")
    others = [Change("operators", "added", "node", f"mul_{n}", obtained=f"f(%x_{n})", operator="f") for n in (1, 2)]

    (group,) = folded([first, *others])

    assert group.others == ["mul_1", "mul_2"]


def test_a_wire_behind_the_first_of_a_name_has_to_count_along():
    pairs = (("relu", "add"), ("relu_1", "add_1"), ("relu_2", "add_5"))
    changes = [Change("wiring", "changed", "node", name, "args[0]", "%x", f"%{wire}") for name, wire in pairs]

    assert [[group.change.where, *group.others] for group in folded(changes)] == [["relu", "relu_1"], ["relu_2"]]


def test_modules_of_the_further_places_are_named():
    changes = [
        Change("operators", "added", "node", f"mul_{n}", obtained="f(1)", operator="f", scope=f"layers.{n}.attn.out")
        for n in (1, 1, 2, 2, 3, 3)
    ]

    (group,) = folded(changes)

    assert group.describe_other_places().endswith(", in layers.1.attn.out, layers.2.attn.out, layers.3.attn.out")


@pytest.mark.parametrize(
    ("paths", "blocks"),
    [
        (["layers.0.norm", "layers.1.norm"], ("layers.0", "layers.1")),
        (["a.0.b.0.c", "a.0.b.1.c", "a.1.b.0.c"], ("a.0.b.0", "a.0.b.1", "a.1.b.0")),
        (["layer1.norm", "layer2.norm"], ("layer1", "layer2")),
        (["layers.0", "layers.0"], ()),
        (["layers.0", "head"], ()),
        (["layers.0"], ()),
        ([], ()),
    ],
)
def test_blocks_are_the_outermost_numbered_modules_that_are_all_different(paths, blocks):
    assert blocks_of(paths) == blocks


def test_a_lone_change_has_no_describe_other_places():
    (group,) = folded([eps("norm")])

    assert group.describe_other_places() == ""


def at_line(where: str, source: str = "model.py:5: y = x + x", scope: str = "loop", expected: str = "%a_1") -> Change:
    return Change("wiring", "changed", "node", where, "args[0]", expected, "%b_1", scope, source)


def test_changes_at_one_line_of_one_module_are_one_however_their_numbers_count():
    (group,) = folded([at_line("add_1"), at_line("add_2", expected="%a_7"), at_line("add_9", expected="%a_2")])

    assert group.is_at_one_line
    assert group.others == ["add_2", "add_9"]


def test_in_other_modules_and_at_other_lines_numbers_have_to_count_along():
    groups = folded(
        [at_line("add_1"), at_line("add_2", scope="other", expected="%a_7"), at_line("add_3", "model.py:6: z")]
    )

    assert [group.is_at_one_line for group in groups] == [False] * len(groups)
    assert len(groups) > 1


@pytest.mark.parametrize(("between", "others"), [(7, 1), (8, 0)])
def test_a_change_joins_one_of_the_8_latest_groups_like_it(between, others):
    # Numbers that fall make a group each.
    apart = [rewired(number, f"%a_{number}", "%b_1") for number in range(99, 99 - between, -1)]

    groups = folded([rewired(100, "%a_100", "%b_1"), *apart, rewired(101, "%a_101", "%b_1")])

    assert len(groups[0].others) == others


def test_changes_of_the_same_blocks_stand_together():
    def change(name: str, block: str, subject: str = "node") -> Change:
        return Change("arguments", "changed", subject, name, "config.p", "1", "2", scope=block)

    changes = [change("a", f"layers.{n}") for n in range(3)]
    changes += [change(f"layers.{n}.fc", "", "module") for n in range(3)]
    changes += [change("head.fc", "", "module"), change("tail", "")]

    blocks = folded_blocks(changes)

    assert [each.blocks for each in blocks] == [("layers.0", "layers.1", "layers.2"), (), ()]
    assert [[group.change.where for group in each.changes] for each in blocks] == [
        *(["a", "layers.0.fc"], ["head.fc"], ["tail"]),
    ]


def test_modules_around_modules_are_not_named_twice():
    changes = [
        Change("arguments", "changed", "module", f"layers.{n}.fc", "config.p", "1", "2", scope=f"layers.{n}")
        for n in range(3)
    ]

    (group,) = folded(changes)

    assert group.describe_other_places() == "same change at 2 more places: layers.1.fc, layers.2.fc"


@pytest.mark.parametrize(
    ("field", "subject", "count"), [("args[1]", "node", 1), ("name", "node", 2), ("order", "node", 2), ("", "code", 2)]
)
def test_names_order_and_lines_of_code_are_told_each_by_itself(field, subject, count):
    changes = [Change("cosmetic", "changed", subject, f"a_{n}", field, "1", "2") for n in range(2)]

    assert len(folded(changes)) == count


def test_calls_of_modules_fold_by_the_paths_of_the_modules():
    calls = [
        Change(
            "operators", "added", "node", f"fc_{n}", obtained=f"self.layers.{n}.fc(%x_{n})", operator=f"layers.{n}.fc"
        )
        for n in range(3)
    ]

    (group,) = folded(calls)

    assert group.others == ["fc_1", "fc_2"]
