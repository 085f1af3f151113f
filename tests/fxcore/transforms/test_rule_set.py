"""Rules are applied together, in one walk, until none applies, and each rewrite is told."""

from __future__ import annotations

import operator
import time

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fxcore
from fxcore.errors import PassError
from fxcore.transforms import Action, Calls, Rule, RuleSet
from fxcore.transforms.rule_set import RewrittenCall, RuleReport
from pytest_fxgraph import check_transform

ONCE = Rule(lambda x: torch.relu(torch.relu(x)), lambda x: torch.relu(x), name="once")
ZERO = Rule(lambda x: x + 0, lambda x: x, name="zero")


def silu(x, inplace=False):
    return x * torch.sigmoid(x)


def refuse_in_place(match):
    return "it works in place" if match.node.kwargs.get("inplace") else True


SILU = Rule(Calls(F.silu), silu, when=refuse_in_place)


def chain(x):
    y = torch.relu(torch.relu(torch.relu(x))) + 0
    return F.silu(y) + F.silu(y * 2, inplace=True)


def targets(gm):
    return [getattr(node.target, "__name__", node.target) for node in gm.graph.nodes if node.op.startswith("call_")]


def test_rules_are_applied_together_until_none_applies():
    result = check_transform(RuleSet([ONCE, ZERO]) + RuleSet([SILU]), chain, (torch.randn(3, 4),))

    assert targets(result.after) == ["relu", "sigmoid", "mul", "mul", "silu", "add"]


def test_the_report_has_every_rewrite_and_the_account_of_each_rule():
    gm = fxcore.symbolic_trace(chain)

    report = RuleSet([ONCE, ZERO, SILU])(gm).report

    assert isinstance(report, RuleReport)
    assert [str(each) for each in report.rewrites] == [
        "once: relu (torch.relu), relu_1 (torch.relu) -> relu_3 (torch.relu)",
        "once: relu_3 (torch.relu), relu_2 (torch.relu) -> relu_4 (torch.relu)",
        "zero: add (operator.add) -> a value that was there",
        "silu: silu (torch.nn.functional.silu) -> sigmoid (torch.sigmoid), mul_1 (operator.mul)",
    ]
    once, _, last = report.statistics
    assert (once.tried, once.matched, once.rewritten) == (2, 2, 2)
    assert once.seconds > 0
    assert last.rejected == {"silu_1": "it works in place"}
    assert "  silu: 3 tried, 3 matched, 1 rewritten, 1 rejected, " in str(report)
    assert targets(gm).count("relu") == 3, "the module that is given stays"


def test_a_graph_without_a_match_comes_back_itself():
    gm = fxcore.symbolic_trace(lambda x: torch.exp(x))

    result = RuleSet([ONCE, SILU])(gm)

    assert result.graph_module is gm
    assert not result.modified


def test_the_first_rule_of_a_set_is_applied_where_several_match():
    halves = Rule(lambda x: x * 2, lambda x: x + x, name="sum")
    shifts = Rule(lambda x: x * 2, lambda x: x / 0.5, name="quotient")
    gm = fxcore.symbolic_trace(lambda x: x * 2)

    assert targets(RuleSet([halves, shifts])(gm).graph_module) == ["add"]
    assert targets(RuleSet([shifts, halves])(gm).graph_module) == ["truediv"]


def test_rules_that_never_end_are_named():
    there = Rule(lambda x: torch.exp(x), lambda x: torch.pow(torch.e, x), name="there")
    back = Rule(lambda x: torch.pow(torch.e, x), lambda x: torch.exp(x), name="back")
    gm = fxcore.symbolic_trace(lambda x: torch.exp(x))

    with pytest.raises(PassError, match=r"after 5 rounds rules still apply, for back, there: .* undo each other"):
        RuleSet([there, back], most_rounds=5)(gm)


def test_when_asks_about_values_by_the_names_of_the_pattern():
    asked = []

    def is_small(match):
        asked.append((match.values["number"], match.values["x"].name, match.node.name))
        return match.values["number"] < 3

    rule = Rule(
        lambda x, number: x * number, lambda x, number: torch.mul(x, number), when=is_small, capture_literals=True
    )
    report = RuleSet([rule])(fxcore.symbolic_trace(lambda x: (x * 2.5) * 9)).report

    assert asked == [(2.5, "x", "mul"), (9, "mul_2", "mul_1"), (9, "mul_2", "mul_1")]
    assert [each.place for each in report.rewrites] == ["mul"]
    assert dict(report.left) == {"mul_1": "`when` returned False"}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin, self.act = nn.Linear(4, 4), nn.ReLU6()

    def forward(self, x):
        return self.act(self.lin(x)).split(2, -1)[0]


def test_calls_of_modules_and_methods_are_rewritten_by_functions_of_their_arguments():
    rules = RuleSet(
        [
            Rule(Calls(nn.Linear), lambda layer, x: F.linear(x, layer.weight, layer.bias)),
            Rule(Calls(nn.ReLU6), lambda layer, x: x.clamp(0, 6)),
            Rule(Calls("split"), lambda x, size, dim: (x[..., :size], x[..., size:]), changes_effects=True),
        ]
    )

    torch.manual_seed(0)
    result = check_transform(rules, Net(), (torch.randn(2, 4),))

    assert targets(result.after) == ["linear", "clamp", "getitem"]
    assert sorted(result.after.state_dict()) == ["lin.bias", "lin.weight"]


def test_an_action_rewrites_where_no_function_of_values_can():
    def turned(match):
        x, first, second = match.node.args
        return x if first == second else match.record(torch.swapaxes, x, first, second)

    rule = Rule(Calls(torch.transpose), Action(turned), name="turned")
    gm = fxcore.symbolic_trace(lambda x: torch.transpose(torch.transpose(x, 1, 1), 0, 1))

    made = RuleSet([rule])(gm).graph_module

    assert targets(made) == ["swapaxes"]


@pytest.mark.parametrize("answer", [NotImplemented, "it is needed"])
def test_an_action_can_leave_a_match_and_its_nodes_go(answer):
    rule = Rule(Calls(torch.exp), Action(lambda match: (match.record(torch.neg, match.node.args[0]), answer)[1]))
    gm = fxcore.symbolic_trace(lambda x: torch.exp(x))

    result = RuleSet([rule])(gm)

    assert result.graph_module is gm
    reason = "its rule calls the same, or returned NotImplemented" if answer is NotImplemented else answer
    assert dict(result.report.left) == {"exp": reason}


def test_a_new_node_keeps_the_shape_and_the_line_of_the_node_in_whose_place_it_is():
    gm = fxcore.symbolic_trace(lambda x: torch.relu(torch.relu(x)))
    last = list(gm.graph.nodes)[-2]
    last.meta.update(val="shape", stack_trace="net.py:1")

    made = RuleSet([ONCE])(gm).graph_module

    node = list(made.graph.nodes)[1]
    assert (node.meta["val"], node.meta["stack_trace"]) == ("shape", "net.py:1")
    assert [(each.name, each.pass_name) for each in node.meta["from_node"]] == [("relu_1", "once")]


def test_every_watched_graph_is_whole():
    gm, seen = fxcore.symbolic_trace(chain), []

    def watch(rewrite):
        gm.graph.lint()
        seen.append((rewrite.rule, gm(torch.ones(2)).tolist()))

    RuleSet([ONCE, ZERO, SILU]).apply(gm, watch)

    assert [rule for rule, _ in seen] == ["once", "once", "zero", "silu"]
    assert all(values == chain(torch.ones(2)).tolist() for _, values in seen)


OPERATIONS = (torch.exp, torch.sin, torch.cos, torch.tanh, torch.neg, torch.sigmoid, torch.sqrt, torch.log)


def rule_for(number):
    first, second = OPERATIONS[number % 8], OPERATIONS[number // 8 % 8]
    return Rule(lambda x: first(second(x) * (1000 + number)), lambda x: torch.abs(x), name=f"rule {number}")


@pytest.mark.slow
def test_two_hundred_rules_take_little_longer_than_one():
    graph = fxcore.Graph()
    value = graph.placeholder("x")
    for number in range(10_000):
        value = graph.call_function(
            OPERATIONS[number * 7 % 8] if number % 2 else torch.mul, (value, 3)[: 2 - number % 2]
        )
    graph.output(value)
    gm = fxcore.GraphModule(nn.Module(), graph)

    def seconds(rules):
        times = []
        for _ in range(3):
            start = time.process_time()
            rules(gm)
            times.append(time.process_time() - start)
        return min(times)

    one, many = RuleSet([rule_for(0)]), RuleSet([rule_for(number) for number in range(200)])

    assert seconds(many) < 3 * seconds(one)


def test_a_set_has_the_length_of_its_rules_and_joins_sets_alone():
    assert len(RuleSet([ONCE, ZERO]) + RuleSet([SILU])) == 3
    with pytest.raises(TypeError, match="unsupported operand"):
        operator.add(RuleSet([ONCE]), [ZERO])


def test_a_call_that_ends_like_a_pattern_and_begins_otherwise_is_tried_and_stays():
    gm = fxcore.symbolic_trace(lambda x: torch.relu(torch.sigmoid(x)))
    always = Rule(lambda x: torch.relu(x.neg()), lambda x: x, name="always")

    result = RuleSet([Rule(lambda x, y: torch.relu(x + y), lambda x, y: x, bind_arguments=True), always])(gm)

    assert not result.modified
    assert [(each.tried, each.matched) for each in result.report.statistics] == [(1, 0), (0, 0)]


def test_a_rule_with_an_operator_before_its_last_is_tried_for_a_call_with_keywords():
    squares = Rule(lambda x: torch.add(torch.neg(x), other=1), lambda x: torch.rsub(x, 1), name="squares")
    sums = Rule(lambda x: torch.add(torch.exp(x), 2), lambda x: torch.expm1(x), name="sums")
    gm = fxcore.symbolic_trace(lambda x: torch.add(torch.neg(x), other=1))

    assert targets(RuleSet([sums, squares])(gm).graph_module) == ["rsub"]


def test_a_match_that_when_calls_no_candidate_is_not_reported():
    gm = fxcore.symbolic_trace(lambda x: torch.relu(torch.relu(x)))
    rule = Rule(lambda x: torch.relu(torch.relu(x)), lambda x: torch.relu(x), when=lambda match: None)

    report = RuleSet([rule])(gm).report

    assert (report.statistics[0].tried, report.statistics[0].matched) == (1, 0)
    assert not report.left


def test_a_number_takes_the_place_of_a_call():
    rule = Rule(Calls("size"), lambda x, dim: 4, changes_effects=True)
    gm = fxcore.symbolic_trace(lambda x: x.view(x.size(0), -1) * x.size(0))

    made = RuleSet([rule])(gm).graph_module

    assert made.code.count("size") == 0
    assert "view(4, -1)" in made.code
    assert made(torch.ones(4, 2)).sum() == 32


def test_an_action_leaves_calls_with_a_write_between_them():
    def written_between(x):
        y = torch.exp(x)
        x.add_(1)
        return torch.relu(y) + x.sum()

    moved = Rule(lambda x: torch.relu(torch.exp(x)), Action(lambda match: match.record(torch.exp, match.values["x"])))
    report = RuleSet([moved])(fxcore.symbolic_trace(written_between)).report

    assert dict(report.left) == {"relu": "add_ writes to memory of x between its calls"}


def test_modules_of_a_class_are_matched_at_any_path_if_the_rule_asks_for_the_class():
    class Pattern(nn.Module):
        def __init__(self):
            super().__init__()
            self.elsewhere = nn.ReLU6()

        def forward(self, x):
            return self.elsewhere(x)

    by_class, by_path = [
        RuleSet([Rule(fxcore.symbolic_trace(Pattern()), lambda x: x.clamp(0, 6), match_modules=way)])
        for way in ("class", "path")
    ]
    gm = fxcore.symbolic_trace(nn.Sequential(nn.ReLU6()))

    assert targets(by_class(gm).graph_module) == ["clamp"]
    assert not by_path(gm).modified


class Scale:
    """A function without a name."""

    def __call__(self, x):
        return x * 2

    def __repr__(self):
        return "Scale()"


def test_a_target_without_a_name_is_told_as_python_shows_it():
    assert str(RewrittenCall("scale", "call_function", Scale())) == "scale (Scale())"


def test_a_rule_for_a_path_is_not_tried_for_modules_at_other_paths():
    path_rule = Rule(fxcore.symbolic_trace(nn.Sequential(nn.ReLU6())), lambda x: x.clamp(0, 6), name="path")
    gm = fxcore.symbolic_trace(nn.Sequential(nn.ReLU6(), nn.ReLU6(), nn.ReLU6()))

    result = RuleSet([path_rule])(gm)

    assert targets(result.graph_module) == ["clamp", "1", "2"]
    assert result.report.statistics[0].tried == 1


def test_a_rule_for_classes_of_modules_may_end_with_a_function():
    gm = fxcore.symbolic_trace(chain)

    rules = RuleSet([Rule(lambda x: torch.relu(torch.relu(x)), lambda x: torch.relu(x), match_modules="class")])

    assert targets(rules(gm).graph_module).count("relu") == 1


@pytest.mark.parametrize(("most_rounds", "words"), [(None, "after 20 rounds"), (1, "after 1 rounds")])
def test_rules_that_apply_in_the_last_round_are_refused(most_rounds, words):
    there = Rule(lambda x: torch.exp(x), lambda x: torch.pow(torch.e, x), name="there")
    back = Rule(lambda x: torch.pow(torch.e, x), lambda x: torch.exp(x), name="back")
    rules = RuleSet([there, back]) if most_rounds is None else RuleSet([there, back], most_rounds=most_rounds)

    with pytest.raises(PassError, match=words):
        rules(fxcore.symbolic_trace(lambda x: torch.exp(x)))


def test_a_reader_that_went_with_a_tuple_is_not_tried():
    halves = Rule(Calls("split"), lambda x, size, dim: (x[..., :size], x[..., size:]), changes_effects=True)
    items = Rule(Calls(operator.getitem), operator.getitem, name="items")
    gm = fxcore.symbolic_trace(lambda x: x.split(2, -1)[0])

    report = RuleSet([halves, items])(gm).report

    assert [each.rule for each in report.rewrites] == ["rule 0"]
    assert report.statistics[1].tried == 1, "the new node in the second walk"


def test_the_code_of_a_module_is_made_anew_after_the_walk():
    gm = fxcore.symbolic_trace(lambda x: torch.relu(torch.relu(x)))

    RuleSet([ONCE]).apply(gm)

    assert gm.code.count("relu(") == 1


def test_a_set_rewrites_until_no_rule_applies_unless_one_walk_is_asked_for():
    first = Rule(lambda x: torch.exp(x), lambda x: torch.sin(x), name="first")
    second = Rule(lambda x: torch.sin(x), lambda x: torch.cos(x), name="second")
    once, more = [fxcore.symbolic_trace(lambda x: torch.exp(x)) for _ in range(2)]

    RuleSet([first, second]).apply(once, once=True)
    RuleSet([first, second]).apply(more)

    assert (targets(once), targets(more)) == (["sin"], ["cos"])


def test_a_call_of_a_module_with_hooks_stays():
    model = nn.Sequential(nn.ReLU6())
    model[0].register_forward_hook(lambda module, args, result: result + 1)

    report = RuleSet([Rule(Calls(nn.ReLU6), lambda layer, x: x.clamp(0, 6))])(fxcore.symbolic_trace(model)).report

    assert dict(report.left) == {"0": "it has hooks, which would no longer run"}


@pytest.mark.parametrize("way", ["class", "path"])
def test_a_module_of_the_pattern_stands_for_the_matched_module_in_the_replacement(way):
    class Pattern(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(2, 2)

        def forward(self, x):
            return torch.relu(self.lin(x))

    class Replacement(Pattern):
        def forward(self, x):
            return self.lin(x).clamp(min=0)

    class Model(Pattern):
        def __init__(self):
            super().__init__()
            self.other = nn.Linear(2, 2)

        def forward(self, x):
            return torch.relu(self.other(torch.relu(self.lin(x))))

    rule = Rule(fxcore.symbolic_trace(Pattern()), fxcore.symbolic_trace(Replacement()), match_modules=way)
    gm = fxcore.symbolic_trace(Model())

    made = RuleSet([rule])(gm).graph_module

    assert targets(made) == ["lin", "clamp", "other", "clamp" if way == "class" else "relu"]
    x = torch.randn(3, 2)
    assert torch.equal(made(x), gm(x))


@pytest.mark.parametrize("value", [3, (4, 5)])
def test_a_constant_takes_the_place_of_a_call_whose_result_an_action_read(value):
    def read(match):
        match.record(torch.neg, match.node.args[0])
        return value

    gm = fxcore.symbolic_trace(lambda x: (torch.exp(x), x))

    made = RuleSet([Rule(Calls(torch.exp), Action(read))])(gm).graph_module

    assert targets(made) == []
    assert made(1) == (value, 1)


def test_hooks_hear_of_nodes_that_replace_nodes_and_not_of_constants():
    gm, heard = fxcore.symbolic_trace(lambda x: torch.exp(torch.neg(x)).view(x.size(0))), []
    numbers = Rule(Calls("size"), lambda x, dim: 4, changes_effects=True)
    functions = Rule(Calls(torch.neg), lambda x: torch.sin(x))

    with gm._set_replace_hook(lambda old, new, user: heard.append((old.name, new, user.name))):
        RuleSet([numbers, functions]).apply(gm)

    assert heard == [("neg", "sin", "exp")]
    assert "view(4)" in gm.code


def test_a_pattern_is_compared_with_its_numbers_unless_they_are_to_be_ignored():
    gm = fxcore.symbolic_trace(lambda x: (x + 0, x + 5))
    ignoring = Rule(lambda x: x + 0, lambda x: torch.neg(x), name="any", ignore_literals=True)

    exact = RuleSet([Rule(lambda x: x + 0, lambda x: torch.neg(x), name="zero")])(gm).graph_module

    assert sorted(targets(exact)) == ["add", "neg"]
    assert targets(RuleSet([ignoring])(gm).graph_module) == ["neg", "neg"]
