from __future__ import annotations

from pytest_fxgraph.compare.difference import Change
from pytest_fxgraph.report.folding import folded


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


def test_a_lone_change_has_no_other_places():
    (group,) = folded([eps("norm")])

    assert group.other_places() == ""
