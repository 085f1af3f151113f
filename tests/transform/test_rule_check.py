"""A wrong rule is named with the inputs that show it, before it meets a model."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fxcore.errors import PassArgumentError
from fxcore.transforms import Calls, Rule, RuleSet
from pytest_fxgraph.errors import ChoiceError, MismatchError, VacuousCheckError
from pytest_fxgraph.transform.rewriting import FxRewrite
from pytest_fxgraph.transform.rule_check import _variants, verdict_on

pytest.importorskip("hypothesis")

fx_rewrite = FxRewrite()
X = torch.tensor([[1.5, -2.0, 0.5, 3.0], [0.25, 1.0, -1.0, 2.0], [-0.5, 4.0, 1.0, -3.0]])
Y = torch.tensor([[2.0, 1.0, -1.0, 0.5], [1.0, -3.0, 0.5, 0.25], [3.0, 1.0, 2.0, -1.0]])


def is_wide(match):
    first, second = (match.values[name].meta["val"] for name in "ab")
    return first.shape == second.shape or "another shape"


def widened(a, b):
    return torch.broadcast_to(a, b.shape) + b


RIGHT = [
    Rule(lambda x: torch.relu(torch.relu(x)), lambda x: torch.relu(x), name="once", example_inputs=(X,)),
    Rule(lambda a, b: torch.mm(a, b.t()), lambda a, b: F.linear(a, b), name="linear", example_inputs=(X, Y)),
    Rule(lambda a, b: a + b, widened, name="same shapes", when=is_wide, example_inputs=(X, Y)),
    Rule(Calls(F.silu), lambda x, inplace=False: x * torch.sigmoid(x), name="silu", example_inputs=(X,)),
    Rule(Calls("permute"), lambda x, dims: torch.permute(x, dims), name="permuted", example_inputs=(X, (1, 0))),
    Rule(Calls(nn.ReLU6), lambda layer, x: x.clamp(0, 6), name="clamped", example_inputs=(nn.ReLU6(), X)),
]


def sampled(cases):
    """Return the first two cases for the default run, and the others for the slow step."""
    slow = [case if isinstance(case, tuple) else (case,) for case in cases[2:]]
    return [*cases[:2], *(pytest.param(*case, marks=pytest.mark.slow) for case in slow)]


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("rule", sampled(RIGHT), ids=lambda rule: rule.name)
def test_a_right_rule_is_right(rule):
    verdict = verdict_on(rule, search=60)

    assert verdict.state == "right", verdict
    assert " tries in " in verdict.account


@pytest.mark.parametrize(
    "replacement", [lambda x: x.clone().t().contiguous().t(), lambda x: x], ids=["strides", "shared memory"]
)
def test_strides_and_shared_memory_do_not_count_as_the_place_of_the_match_decides_about_them(replacement):
    rule = Rule(lambda x: x.clone(), replacement, name="copied", example_inputs=(X,))

    assert verdict_on(rule, dtypes=(), search=1).state == "right"


WRONG = [
    (
        Rule(lambda x: x * 1.0, lambda x: x, name="one", example_inputs=(X,)),
        "output has dtype torch.float32 in eager, torch.int64 in the graph; input: 0 = int64[3, 4] [[12, -16,",
    ),
    (
        Rule(lambda x: x / x, lambda x: torch.ones_like(x), name="zero", example_inputs=(X,)),
        "output has other values in the graph than in eager; found by search, try ",
    ),
    (
        Rule(lambda x, dims: x.permute(dims), lambda x, dims: x.t(), name="any", example_inputs=(X, [1, 0])),
        "output has shape (3, 4) in eager, (4, 3) in the graph; input: 0 = float32[3, 4] [[1.5, -2, ",
    ),
    (
        Rule(lambda x, dim: x.sum(dim), lambda x, dim: x.sum(0), name="axis", example_inputs=(X, 0)),
        "output has shape (3,) in eager, (4,) in the graph; input: 0 = float32[3, 4] ",
    ),
    (Rule(lambda a, b: a + b, widened, name="wide", example_inputs=(X, Y)), "the forward of the graph raised Runtime"),
    (
        Rule(lambda x: x.half().float(), lambda x: x, name="cast", example_inputs=(X,)),
        "output has other values in the graph than in eager; found by search, try ",
    ),
]


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize(("rule", "words"), sampled(WRONG), ids=lambda case: getattr(case, "name", ""))
def test_a_wrong_rule_has_the_inputs_that_show_it(rule, words):
    verdict = verdict_on(rule)

    assert verdict.state == "wrong", verdict
    assert verdict.account.startswith(words)
    assert "input: 0 = " in verdict.account


def test_every_wrong_rule_of_a_set_is_named():
    rules = RuleSet([RIGHT[0], WRONG[0][0], WRONG[3][0]])

    with pytest.raises(MismatchError) as caught:
        fx_rewrite.check_rules(rules, search=10)

    assert [line.partition(":")[0] for line in str(caught.value).splitlines()] == [
        "rule 'one' is wrong",
        "rule 'axis' is wrong",
    ]
    assert "once: right; " in caught.value.section


def test_one_pattern_is_checked_with_its_replacement():
    checks = fx_rewrite.check(lambda x: torch.relu(x), lambda x: x.clamp(min=0), X, search=10)

    assert [each.state for each in checks] == ["right"]
    with pytest.raises(MismatchError, match=r"rule 'pattern' is wrong: output has .*; input: 0 = float32\[3, 4\] "):
        fx_rewrite.check(lambda x: torch.relu(x), lambda x: x.abs(), X)


def test_a_replacement_with_other_effects_is_refused():
    with pytest.raises(PassArgumentError, match="would change effects: the pattern writes to no of its inputs"):
        fx_rewrite.check(lambda x: x + 1, lambda x: x.add_(1), X)


def test_a_rule_without_example_inputs_says_what_is_missing():
    with pytest.raises(ChoiceError, match="cannot check rule 'bare' without example inputs; write Rule"):
        fx_rewrite.check_rules(RuleSet([Rule(lambda x: x + 1, lambda x: 1 + x, name="bare")]))
    with pytest.raises(ChoiceError, match="there are inputs for 'other', and the set has no rule of this name"):
        fx_rewrite.check_rules(RuleSet([RIGHT[0]]), {"other": X})


def test_a_rule_that_refuses_its_examples_is_unchecked():
    rule = Rule(lambda x: x + 1, lambda x: 1 + x, name="never", when=lambda match: "it is Monday", example_inputs=(X,))

    with pytest.raises(VacuousCheckError, match="rule 'never' could not be checked: it is Monday; give other inputs"):
        fx_rewrite.check_rules(RuleSet([rule]))
    assert [each.state for each in fx_rewrite.check_rules(RuleSet([rule]), allow_vacuous=True)] == ["unchecked"]


@pytest.mark.parametrize("rule", RIGHT[2:], ids=lambda rule: rule.name)
def test_a_rule_of_any_kind_of_pattern_is_checked_with_few_tries(rule):
    verdict = verdict_on(rule, search=1, dtypes=())

    assert verdict.state == "right", verdict


@pytest.mark.parametrize(("rule", "words"), WRONG[2:5], ids=lambda case: getattr(case, "name", ""))
def test_a_wrong_rule_is_found_by_other_constants_and_shapes_with_few_tries(rule, words):
    verdict = verdict_on(rule, search=1, dtypes=())

    assert (verdict.state, verdict.account[: len(words)]) == ("wrong", words)


def test_each_switch_and_number_of_a_pattern_is_tried_with_another_value():
    def summed(x, dim, keepdim):
        return x.sum(dim, keepdim)

    def kept(x, dim, keepdim):
        return x.sum(dim, True)

    right = Rule(summed, lambda x, dim, keepdim: torch.sum(x, dim, keepdim), name="sum", example_inputs=(X, 0, True))
    wrong = Rule(summed, kept, name="kept", example_inputs=(X, 0, True))

    assert verdict_on(right, search=1, dtypes=()).account.startswith("4 forms of the inputs; ")
    verdict = verdict_on(wrong, search=1, dtypes=())
    assert (verdict.state, verdict.account.endswith("1 = 0, 2 = False")) == ("wrong", True), verdict


def test_a_rule_with_a_condition_is_compared_where_the_condition_holds():
    rule = Rule(
        lambda a, b: a + b,
        lambda a, b: b + a,
        name="equal",
        when=lambda match: match.values["a"].meta["val"].shape[0] == 3 or "another size",
        example_inputs=(X, Y),
    )

    assert verdict_on(rule, search=20, dtypes=()).state == "right"


def test_each_parameter_of_a_pattern_needs_an_example():
    rule = Rule(lambda a, b: a + b, lambda a, b: b + a, name="two", example_inputs=(X,))

    with pytest.raises(ChoiceError, match="rule 'two' has 1 example inputs, and its pattern takes 2; give"):
        verdict_on(rule)


WIDE = Y.double()
INTS, LINE, SCALAR = torch.tensor([[1, 2], [3, 4]]), torch.ones(1, 2), torch.tensor(1.5)


@pytest.mark.parametrize(
    ("examples", "dtypes", "variants"),
    [
        ((X,), (torch.float64, torch.float32), [(X.double(),)]),
        ((X, WIDE), (torch.float64, torch.float32), [(X[:1], WIDE), (X[0], WIDE), (X, WIDE[:1]), (X, WIDE[0])]),
        ((SCALAR, INTS), (torch.float64,), [(SCALAR.double(), INTS), (SCALAR, INTS[:1]), (SCALAR, INTS[0])]),
        ((torch.tensor([0.3]),), (torch.int64,), [(torch.tensor([2]),)]),
        ((INTS,), (torch.float64,), []),
        ((3, True), (torch.float64,), [(4, True), (-4, True), (3, False)]),
        ((X, 0, LINE), (), [(X[:1], 0, LINE), (X[0], 0, LINE), (X, 1, LINE), (X, -1, LINE)]),
        ((0.5,), (), [(1.0,), (-0.5,)]),
        (([1, 2], (3, 3), [4], "ab", None), (), [([2, 1], (3, 3), [4], "ab", None)]),
    ],
)
def test_the_forms_of_examples_are_other_dtypes_shapes_and_constants(examples, dtypes, variants):
    assert str([*_variants(examples, dtypes)]) == str(variants)


def test_inputs_of_a_list_are_inputs_and_a_search_of_no_tries_tries_each_form_once():
    rule = Rule(lambda x: torch.relu(torch.relu(x)), lambda x: torch.relu(x), name="once")

    for given in ([X], (X,), X):
        verdict = verdict_on(rule, given, search=0, dtypes=())
        assert verdict.state == "right"
        assert verdict.account.startswith("1 forms of the inputs; ")


def test_of_a_rule_that_never_applies_the_reason_for_its_own_examples_is_told():
    def when(match):
        return f"of {match.values['x'].meta['val'].dtype}"

    rule = Rule(lambda x: torch.relu(torch.relu(x)), lambda x: torch.relu(x), when, name="once", example_inputs=(X,))

    verdict = verdict_on(rule, search=0, dtypes=(torch.float64, torch.bfloat16))

    assert (verdict.state, verdict.account) == ("unchecked", "of torch.float32")


def test_constants_are_put_where_the_pattern_passes_them_by_name():
    rule = Rule(lambda x, d: torch.sum(x, dim=d), lambda x, d: x.sum(d), name="summed", example_inputs=(X, 1))

    assert verdict_on(rule, search=0, dtypes=()).state == "right"


@pytest.mark.parametrize(
    ("shape", "others"), [((), []), ((1,), []), ((3,), [(1,), ()]), ((1, 3), []), ((2, 3), [(1, 3), (3,)])]
)
def test_one_of_several_tensors_is_broadcast_where_it_has_several_rows(shape, others):
    found = [variant[0].shape for variant in _variants((torch.ones(shape), torch.ones(())), ())]

    assert found == [torch.Size(other) for other in others]
