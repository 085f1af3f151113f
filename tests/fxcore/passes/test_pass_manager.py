from __future__ import annotations

import logging
from unittest import TestCase

import pytest
import torch.fx.passes.pass_manager as theirs

import fxcore.passes.pass_manager as ours
from fxcore.errors import FxError


def append_one(items):
    items.append(1)
    return "changed"


def double(items):
    return items * 2


@pytest.mark.parametrize("library", [theirs, ours])
def test_passes_run_one_after_the_other(library):
    manager = library.PassManager.build_from_passlist([library.inplace_wrapper(append_one)])
    manager.add_pass(library.loop_pass(double, n_iter=2))
    manager.add_pass(library.loop_pass(double, predicate=lambda items: len(items) < 20))
    manager.add_constraint(library.these_before_those_pass_constraint(append_one, double))

    assert manager([0]) == [0, 1] * 16


@pytest.mark.parametrize("library", [theirs, ours])
def test_an_order_that_a_constraint_forbids_is_refused(library):
    manager = library.PassManager(
        [library.loop_pass(double, 1), append_one],
        [library.these_before_those_pass_constraint(append_one, double)],
    )

    with pytest.raises(RuntimeError, match="pass schedule constraint violated"):
        manager([0])
    manager.remove_pass(["append_one"])

    assert manager([0]) == [0, 0]


@pytest.mark.parametrize("library", [theirs, ours])
def test_a_pass_is_replaced_by_name(library):
    manager = library.PassManager([double])

    manager.replace_pass(double, lambda items: [*items, 5])

    assert manager([0]) == [0, 5]


def test_what_a_function_returns_is_logged():
    with TestCase().assertLogs(level=logging.INFO) as logged:
        assert ours.inplace_wrapper(ours.log_hook(append_one))([0]) == [0, 1]

    assert any("Return value: changed" in line for line in logged.output)


def test_loops_that_cannot_be_are_refused():
    with pytest.raises(AssertionError, match="Exactly one of") as caught:
        ours.loop_pass(double)
    assert isinstance(caught.value, FxError)
    with pytest.raises(RuntimeError, match="must be given positive int n_iter"):
        ours.loop_pass(double, n_iter=0)([0])


@pytest.mark.parametrize("library", [theirs, ours])
def test_passes_that_are_put_in_after_a_run_must_keep_the_constraints(library):
    def last(items):
        return items

    manager = library.PassManager([double], [library.these_before_those_pass_constraint(last, append_one)])
    assert manager([0]) == [0, 0]

    manager.replace_pass(double, append_one)
    manager.add_pass(last)

    with pytest.raises(RuntimeError, match="pass schedule constraint violated"):
        manager([0])
    manager.remove_pass(None)
    with pytest.raises(RuntimeError, match="pass schedule constraint violated"):
        manager([0])


@pytest.mark.parametrize("library", [theirs, ours])
def test_a_pass_that_is_removed_or_replaced_later_counts_no_more(library):
    def last(items):
        return items

    manager = library.PassManager([append_one, double], [library.these_before_those_pass_constraint(last, append_one)])
    manager.validate()

    manager.replace_pass(double, last)

    with pytest.raises(RuntimeError, match="pass schedule constraint violated"):
        manager.validate()


def test_a_loop_runs_as_often_as_it_says():
    assert [ours.loop_pass(double, n_iter=count)([0]) for count in (1, 2, 3)] == [[0] * 2, [0] * 4, [0] * 8]
    assert ours.loop_pass(double, predicate=lambda items: len(items) < 1)([0]) == [0]
    with pytest.raises(AssertionError, match="Exactly one of"):
        ours.loop_pass(double, n_iter=1, predicate=bool)
