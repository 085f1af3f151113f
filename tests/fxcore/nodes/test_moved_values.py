"""A value of a trace is found under the name of the node that readers read now."""

from __future__ import annotations

from fxcore.nodes.moved_values import MovedValues


def test_a_value_that_did_not_move_has_its_name():
    assert MovedValues().present("x") == "x"


def test_moves_follow_each_other():
    moved = MovedValues()
    moved.move("bn", "conv")
    moved.move("conv", "fused")

    assert [moved.present(name) for name in ("bn", "conv", "fused")] == ["fused", "fused", "fused"]


def test_a_value_that_moved_away_and_back_is_at_home():
    moved = MovedValues()
    moved.move("x", "observer")
    moved.move("observer", "x")

    assert moved.present("x") == "x"


def test_a_new_node_with_an_old_name_takes_nothing_along():
    moved = MovedValues()
    moved.move("relu", "clamp")
    moved.move("relu", "other")

    assert moved.present("relu") == "clamp"


def test_a_copy_goes_on_from_the_names():
    moved = MovedValues()
    moved.move("bn", "conv")
    again = MovedValues(moved.names)
    again.move("conv", "fused")

    assert again.present("bn") == "fused"
    assert moved.present("bn") == "conv"


def test_the_names_of_a_copy_are_found_by_the_names_of_the_trace():
    moved = MovedValues()
    moved.move("bn", "conv")

    again = moved.renamed({"x": "x", "conv": "conv_1", "relu": "relu_1"})

    assert [again.present(name) for name in ("x", "bn", "conv", "relu")] == ["x", "conv_1", "conv_1", "relu_1"]
