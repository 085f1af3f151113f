from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn

import fxcore
from fxcore.errors import PassError
from fxcore.passes.infra.pass_base import PassBase, PassResult
from fxcore.passes.infra.pass_manager import (
    PassManager,
    check_schedule,
    pass_result_wrapper,
    solve_schedule,
    this_before_that_pass_constraint,
)


def replace(gm, old, new):
    found = [node for node in gm.graph.nodes if node.target is old]
    for node in found:
        node.target = new
    return PassResult(gm, bool(found))


def add_to_mul(gm):
    return replace(gm, torch.add, torch.mul)


def mul_to_div(gm):
    return replace(gm, torch.mul, torch.div)


@pytest.fixture
def gm():
    return fxcore.symbolic_trace(lambda x, y: torch.add(x, torch.add(x, y)))


def test_passes_run_in_order_and_the_module_is_recompiled(gm):
    result = PassManager([add_to_mul, mul_to_div])(gm)

    assert result == PassResult(gm, True)
    assert gm.code.count("torch.div") == 2


def test_passes_run_again_until_nothing_changes(gm):
    runs = []

    def counted(module):
        runs.append(1)
        return add_to_mul(module)

    manager = PassManager([counted], steps=10)

    assert manager(gm).modified
    assert len(runs) == 2
    assert not manager(gm).modified


def test_passes_run_once_unless_more_steps_are_asked_for(gm):
    runs = []

    PassManager([lambda module: runs.append(1) or add_to_mul(module)])(gm)

    assert len(runs) == 1


def test_constraints_put_passes_in_order(gm):
    manager = PassManager([mul_to_div, add_to_mul], [this_before_that_pass_constraint(add_to_mul, mul_to_div)])

    manager(gm)

    assert manager.passes == [add_to_mul, mul_to_div]
    assert "torch.div" in gm.code


def test_an_order_that_a_constraint_forbids_is_refused():
    manager = PassManager([mul_to_div, add_to_mul])
    manager.add_constraint(this_before_that_pass_constraint(add_to_mul, mul_to_div))

    with pytest.raises(RuntimeError, match=r"pass schedule constraint violated. Expected .*mul_to_div.* before"):
        manager.validate_constraints()


def test_constraints_in_a_circle_are_refused(gm):
    constraints = [
        this_before_that_pass_constraint(add_to_mul, mul_to_div),
        this_before_that_pass_constraint(mul_to_div, add_to_mul),
    ]

    with pytest.raises(RuntimeError, match="Circular dependency detected within the following passes"):
        PassManager([add_to_mul, mul_to_div], constraints)(gm)


def test_a_pass_that_is_there_twice_runs_twice(gm):
    manager = PassManager([mul_to_div, add_to_mul, mul_to_div])
    manager.add_constraint(this_before_that_pass_constraint(add_to_mul, mul_to_div))

    manager.solve_constraints()

    assert manager.passes == [add_to_mul, mul_to_div, mul_to_div]


def test_a_pass_that_gives_no_result_is_refused_by_name(gm):
    def forgetful(module):
        return module

    with pytest.raises(
        Exception, match="occurred when running the 'forgetful' pass after the following passes: "
    ) as caught:
        PassManager([add_to_mul, forgetful])(gm)

    assert isinstance(caught.value, PassError)
    assert "['add_to_mul']" in str(caught.value)
    assert "should be type PassResult" in str(caught.value)


def test_a_function_is_made_a_pass(gm):
    def in_place(module):
        replace(module, torch.add, torch.sub)

    assert pass_result_wrapper(in_place)(gm) == PassResult(gm, True)
    assert pass_result_wrapper(lambda module: module)(gm) == PassResult(gm, True)
    assert pass_result_wrapper(add_to_mul)(gm) == PassResult(gm, False)
    assert pass_result_wrapper(None) is None
    assert pass_result_wrapper(in_place).__name__ == "in_place"
    assert pass_result_wrapper(partial(add_to_mul)).__name__ == "partial"


def test_checks_run_at_the_beginning_and_after_each_pass(gm):
    seen = []
    manager = PassManager([add_to_mul, mul_to_div], run_checks_after_each_pass=True)
    manager.add_checks(lambda module: seen.append([node.name for node in module.graph.nodes]))

    manager(gm)

    assert len(seen) == 3


def test_a_check_takes_one_module():
    with pytest.raises(TypeError, match="check function should only take in one variable, a module"):
        PassManager().add_checks(lambda module, more: None)


def test_two_managers_share_nothing():
    first, second = PassManager(), PassManager()

    first.add_pass(add_to_mul)

    assert second.passes == []


class Demanding(PassBase):
    def __init__(self):
        self.said = []

    def requires(self, graph_module):
        self.said.append("requires")

    def call(self, graph_module):
        self.said.append("call")
        return PassResult(graph_module, False)

    def ensures(self, graph_module):
        self.said.append("ensures")


def test_a_pass_checks_before_and_after():
    each = Demanding()

    result = each(nn.Identity())

    assert each.said == ["requires", "call", "ensures"]
    assert not result.modified


def test_a_pass_without_call_cannot_be_made():
    with pytest.raises(TypeError, match="abstract"):
        PassBase()


def test_a_constraint_speaks_of_its_two_passes_in_the_wrong_order_alone():
    first, second, other = (lambda gm: gm for _ in range(3))
    may_run = this_before_that_pass_constraint(first, second)

    assert [may_run(first, second), may_run(second, first)] == [True, False]
    assert all(may_run(*pair) for pair in [(first, other), (other, first), (second, other), (other, second)])


def other_pass(module):
    return PassResult(module, False)


ADD_FIRST = this_before_that_pass_constraint(add_to_mul, mul_to_div)


def test_a_pass_or_constraint_that_is_added_after_a_run_is_put_in_order(gm):
    by_pass = PassManager([mul_to_div], [ADD_FIRST])
    by_constraint = PassManager([mul_to_div, add_to_mul])
    by_pass(gm)
    by_constraint(gm)

    by_pass.add_pass(add_to_mul)
    by_constraint.add_constraint(ADD_FIRST)
    by_pass(gm)
    by_constraint(gm)

    assert by_pass.passes == by_constraint.passes == [add_to_mul, mul_to_div]


def test_an_order_that_was_found_valid_stays(gm):
    order = [add_to_mul, mul_to_div, other_pass]
    manager = PassManager(order, [ADD_FIRST])
    manager.validate_constraints()

    manager(gm)

    assert manager.passes == order


def test_a_constraint_is_not_asked_about_a_pass_and_itself():
    def refuses_all(first, second):
        return False

    check_schedule([add_to_mul], refuses_all)
    with pytest.raises(PassError, match=r"at index 0 and .* at index 0 in pass list"):
        check_schedule([add_to_mul, mul_to_div], refuses_all)
    assert solve_schedule([add_to_mul, add_to_mul], [refuses_all]) == [add_to_mul, add_to_mul]


def test_the_passes_in_a_circle_are_named_and_no_others(gm):
    constraints = [ADD_FIRST, this_before_that_pass_constraint(mul_to_div, add_to_mul)]

    with pytest.raises(PassError) as caught:
        solve_schedule([other_pass, add_to_mul, mul_to_div], constraints)

    assert "add_to_mul" in str(caught.value)
    assert "mul_to_div" in str(caught.value)
    assert "other_pass" not in str(caught.value)
