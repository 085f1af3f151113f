""""""

from __future__ import annotations

import pytest

from pytest_fxgraph.compare.difference import Change
from pytest_fxgraph.report.folding import blocks_of, folded, place_ranges, steps_between


def layers(*numbers: int) -> list[str]:
    return [f"layers.{number}.norm" for number in numbers]


@pytest.mark.parametrize(
    ("places", "words"),
    [
        ([], ""),
        (layers(0, 1, 5), "layers.0.norm, layers.1.norm, layers.5.norm"),
        (layers(0, 1, 2, 3), "layers.0.norm .. layers.3.norm"),
        (layers(0, 1, 2, 4, 5, 6, 9), "layers.0.norm .. layers.2.norm, layers.4.norm .. layers.6.norm, layers.9.norm"),
        (layers(0, 2, 4, 6), "layers.0.norm, layers.2.norm .. layers.6.norm"),
        (layers(3, 2, 1, 0), "layers.3.norm, layers.2.norm, layers.1.norm, layers.0.norm"),
        (["mul_1", "mul_2", "mul_3", "add"], "mul_1 .. mul_3, add"),
        (["a.0.b.0", "a.0.b.1", "a.1.b.0", "a.1.b.1"], "a.0.b.0, a.0.b.1, a.1.b.0, a.1.b.1"),
    ],
)
def test_ranges_tell_no_place_that_is_not_there(places, words):
    assert place_ranges(places) == words


def test_of_many_ranges_some_are_left_out_and_counted():
    words = place_ranges([f"x.{number}" for start in range(0, 1000, 100) for number in (start, start + 1, start + 2)])

    assert words.startswith("x.0 .. x.2, x.100 .. x.102")
    assert words.endswith("x.400 .. x.402, and 15 more")


def test_places_that_differ_in_more_than_numbers_have_no_steps_between_them():
    assert steps_between("a.1", "b.2") is None
    assert steps_between("a.1.b.2", "a.3.b.2") == (2, 0)
    assert steps_between("9" * 5000, "8" * 5000) is not None


def eps(where: str, obtained: str = "1e-06") -> Change:
    return Change("arguments", "changed", "module", where, "config.eps", "1e-05", obtained)


def test_one_change_at_numbered_places_is_folded():
    (group,) = folded([eps(f"layers.{layer}.norm") for layer in range(12)])

    assert group.change.where == "layers.0.norm"
    assert group.other_places() == "same change at 11 more places: layers.1.norm .. layers.11.norm"


def test_few_places_are_all_named():
    (group,) = folded([eps("norm"), eps("norm_1"), eps("norm_2")])

    assert group.other_places() == "same change at 2 more places: norm_1, norm_2"


def test_other_values_other_fields_and_other_names_stay_apart():
    other_field = Change("arguments", "changed", "module", "layers.1.norm", "config.bias", "1e-05", "1e-06")

    groups = folded([eps("layers.0.norm"), eps("layers.1.norm", "1e-07"), other_field, eps("layers.1.last")])

    assert [group.others for group in groups] == [(), (), (), ()]


def test_references_do_not_keep_changes_apart():
    changes = [Change("wiring", "changed", "node", f"add_{i}", "args[1]", f"%a_{i}", f"%b_{i}") for i in range(3)]

    (group,) = folded(changes)

    assert group.others == ("add_1", "add_2")


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


def test_the_first_of_a_name_counts_as_its_zeroth():
    first = Change("operators", "added", "node", "mul", obtained="f(%x)", operator="f")
    others = [Change("operators", "added", "node", f"mul_{n}", obtained=f"f(%x_{n})", operator="f") for n in (1, 2)]

    (group,) = folded([first, *others])

    assert group.others == ("mul_1", "mul_2")


def test_modules_of_the_further_places_are_named():
    changes = [
        Change("operators", "added", "node", f"mul_{n}", obtained="f(1)", operator="f", scope=f"layers.{n}.attn.out")
        for n in (1, 1, 2, 2, 3, 3)
    ]

    (group,) = folded(changes)

    assert group.other_places().endswith(", in layers.1.attn.out, layers.2.attn.out, layers.3.attn.out")


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


def test_a_lone_change_has_no_other_places():
    (group,) = folded([eps("norm")])

    assert group.other_places() == ""
