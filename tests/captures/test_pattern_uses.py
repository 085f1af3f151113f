"""Inductor's patterns: how often each fired, and why the nearest place is no match."""

import operator

import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

from pytest_fxgraph import capture
from pytest_fxgraph.captures.pattern_uses import PatternMiss, PatternUse, check_fired, patterns_watched
from pytest_fxgraph.captures.stages import FxStages
from pytest_fxgraph.errors import ChoiceError, GateError

aten, prims = torch.ops.aten, torch.ops.prims


@pytest.fixture(autouse=True)
def _patterns_registered_anew(monkeypatch):
    """Torch 2.6 refuses a pattern that was registered before, in whichever pass."""
    monkeypatch.setattr(matcher(), "_seen_patterns", set())


def matcher():
    return pytest.importorskip("torch._inductor.pattern_matcher")


def pass_of(search, inputs, **options):
    made = matcher().PatternMatcherPass(pass_name="fusion_pass")
    matcher().register_replacement(search, lambda *args: args[0].sin(), inputs, matcher().fwd_only, made, **options)
    return made


def uses_in(model, inputs, made):
    """Return the uses of a pass's patterns in the graph of a function."""
    graph = make_fx(model, tracing_mode="fake")(*inputs)
    with patterns_watched() as uses:
        made.apply(graph)
    return uses


def quantized(x):
    return prims.convert_element_type.default(x.relu(), torch.float32).cos()


class Cast(nn.Module):
    def __init__(self, dtype):
        super().__init__()
        self.dtype = dtype

    def forward(self, x):
        return x.relu().to(self.dtype).cos()


@pytest.fixture(scope="module")
def inductor_with_pass():
    """Return a function that makes the settings under which a user's pass runs after Inductor's."""
    config = pytest.importorskip("torch._inductor.config")
    custom = pytest.importorskip("torch._inductor.custom_graph_pass")
    made = pass_of(quantized, [torch.randn(4, dtype=torch.bfloat16)])

    class OwnPass(custom.CustomGraphPass):
        def __call__(self, graph):
            made.apply(graph)

        def uuid(self):
            return None

    return lambda: config.patch(post_grad_custom_post_pass=OwnPass())


X = torch.randn(4, dtype=torch.bfloat16)


def test_a_pattern_of_a_users_pass_fired_as_often_as_asserted(inductor_with_pass):
    with inductor_with_pass():
        stages = FxStages()(Cast(torch.float32), X, ["inductor"])
    assert stages.fired("quantized", times=1) == stages.fired("fusion_pass") == 1
    with pytest.raises(
        AssertionError, match=r"pattern 'quantized' fired 1 time, expected 0 times(.|\n)*replaced at cos"
    ):
        stages.fired("quantized", times=0)
    with pytest.raises(GateError, match=r"no pass of Inductor tried a pattern 'qantized'; it tried .*quantized, "):
        stages.fired("qantized")


def test_another_dtype_of_one_cast_is_named_down_to_node_and_line(inductor_with_pass):
    with inductor_with_pass():
        captured = capture(Cast(torch.float64), X, frontend="inductor")
    with pytest.raises(AssertionError) as error:
        captured.fired("quantized", times=1)
    told = str(error.value)
    assert "quantized of pass 'fusion_pass': 1 candidate, 0 replaced, 1 rejected by extra_check" in told
    assert "convert_element_type (tests/captures/test_pattern_uses.py:" in told
    assert "return x.relu().to(self.dtype).cos()): argument dtype of prims.convert_element_type.default is " in told
    assert "is torch.float32 in the pattern, and torch.float64 here" in told


def test_stages_without_inductor_refuse_the_question():
    stages = FxStages()(lambda x: x.relu(), X, ["make_fx"])
    with pytest.raises(ChoiceError, match=r"no stage of <stages: make_fx> .* add the stage 'inductor'"):
        stages.fired("quantized")


def scaled(x, y):
    return aten.sub.Tensor(aten.mul.Tensor(x.relu(), 2.0), y.cos())


PAIR = (torch.randn(4), torch.randn(4))


def readers(x, y):
    relu = x.relu()
    return relu * 2.0 - y.cos(), relu.exp()


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (
            lambda x, y: x.relu() * 3.0 - y.cos(),
            "argument other of aten.mul.Tensor is 2.0 in the pattern, and 3.0 here",
        ),
        (lambda x, y: y.cos() - x.relu() * 2.0, "the operands of aten.sub.Tensor are swapped"),
        (lambda x, y: x.exp() * 2.0 - y.cos(), "the pattern has aten.relu.default, and here is aten.exp.default"),
        (lambda x, y: x.relu() * 2.0 - y, "the pattern has aten.cos.default, and here is the value %y_1"),
        (lambda x, y: aten.sub.Tensor(x.relu() * 2.0, y.cos(), alpha=2) * 1, None),
        (readers, "aten.relu.default is read by 2 nodes here (mul, exp), and by 1 in the pattern"),
        (
            lambda x, y: aten.sub.Scalar(x.relu() * 2.0, 1.0) + y.cos(),
            "the graph has nowhere aten.sub.Tensor, and here is aten.sub.Scalar",
        ),
    ],
    ids=["scalar", "swapped", "operator", "missing", "further-keyword", "reader", "overload"],
)
def test_the_nearest_miss_names_its_reason(model, reason):
    uses = uses_in(model, PAIR, pass_of(scaled, PAIR))
    if reason is None:  # torch's patterns ignore keywords that they do not name
        assert check_fired(uses, "scaled") == 1
        return
    with pytest.raises(AssertionError) as error:
        check_fired(uses, "scaled", times=1)
    assert reason in str(error.value)
    assert len(uses[0].nearest.reasons) == 1


def of_one_input(x):
    return aten.sub.Tensor(x.cos(), x.sin())


@pytest.mark.parametrize(
    ("model", "agreed", "reasons"),
    [
        (
            lambda x, y: x.cos() - y.sin(),
            3,
            ["sin: the pattern reads KeywordArg('x') twice, and here these are two values"],
        ),
        (lambda x, y: x.cos() - x.exp(), 2, ["exp: the pattern has aten.sin.default, and here is aten.exp.default"]),
        (lambda x, y: aten.sub.Scalar(x.cos(), 1.0), 0, ["the graph has nowhere aten.sub.Tensor"]),
    ],
)
def test_a_miss_counts_what_agreed_and_names_an_input_that_is_two(model, agreed, reasons):
    (use,) = uses_in(model, PAIR, pass_of(of_one_input, [torch.randn(4)]))

    assert use.nearest.agreed == agreed
    assert [reason.startswith(words) for reason, words in zip(use.nearest.reasons, reasons, strict=True)] == [True]


@pytest.mark.parametrize(("given", "here"), [(lambda x: x, "%x"), (lambda x: [], "[]")])
def test_an_argument_that_is_no_list_is_told(given, here):
    expressions = matcher()
    parts = expressions.ListOf(expressions.CallFunction(aten.relu.default, expressions.Arg()))
    made = expressions.PatternMatcherPass()
    expressions.register_graph_pattern(expressions.CallFunction(aten.cat.default, parts), pass_dict=made)(print)
    graph = torch.fx.Graph()
    graph.output(graph.call_function(aten.cat.default, (given(graph.placeholder("x")),)))
    with patterns_watched() as uses:
        made.apply(torch.fx.GraphModule(nn.Module(), graph))

    (reason,) = uses[0].nearest.reasons
    assert reason.startswith("cat_default: ")
    assert reason.endswith(f"is a list in the pattern, and {here} here")


@pytest.mark.parametrize("name", ["own", None])
def test_a_use_has_the_name_of_its_pass_and_the_line_of_its_place(name):
    made = pass_of(scaled, PAIR)
    made.pass_name = name
    graph = make_fx(lambda x, y: x.exp() * 2.0 - y.cos(), tracing_mode="fake")(*PAIR)
    for node in graph.graph.nodes:
        node.stack_trace = 'File "model.py", line 3, in forward\n    return x\n'
    with patterns_watched() as uses:
        made.apply(graph)

    assert uses[0].pass_name == (name or "")
    assert uses[0].nearest.place == "sub (model.py:3: return x)"


def test_the_nearest_place_is_told_where_several_are_none():
    def model(x, y):
        return x.exp() - y, x.relu() * 3.0 - y.cos(), y - x

    use = uses_in(model, PAIR, pass_of(scaled, PAIR))[0]
    assert (use.candidates, use.nearest.agreed) == (3, 4)
    assert use.nearest.place == "sub_1"


def test_the_users_extra_check_is_named():
    def is_small(match):
        return False

    uses = uses_in(scaled, PAIR, pass_of(scaled, PAIR, extra_check=is_small))
    assert (uses[0].candidates, uses[0].rejected, uses[0].fired) == (1, 1, [])
    with pytest.raises(AssertionError, match=r"extra_check is_small \(test_pattern_uses.py:\d+\) refused the match"):
        check_fired(uses, "scaled")


def test_expressions_of_several_outputs_lists_and_any_arguments_are_explained():
    expressions = matcher()
    relu = expressions.CallFunction(aten.relu.default, expressions.KeywordArg("x"), _users=2)
    outputs = [expressions.CallFunction(aten.cos.default, relu), expressions.CallFunction(aten.sin.default, relu)]
    parts = expressions.ListOf(expressions.CallFunction(aten.relu.default, expressions.Arg()))
    made = expressions.PatternMatcherPass()
    for pattern in (
        expressions.MultiOutputPattern(outputs),
        expressions.CallFunction(aten.cat.default, parts),
        expressions.CallFunctionVarArgs(aten.exp.default),
        expressions.CallFunction(
            aten.mul.Tensor,
            expressions.CallFunction(aten.add.Tensor, expressions.Arg(), expressions.Arg()),
            expressions.CallFunction(aten.relu.default, expressions.Arg()),
        ),
    ):

        @expressions.register_graph_pattern(pattern, pass_dict=made)
        def handler(match, *args, **kwargs):
            pass

    def model(x, y):
        relu = x.relu()
        return relu.cos(), relu.tan(), aten.cat.default([x.relu(), y.neg()], 0), y.exp(), (x + y) * y.neg()

    several, joined, any_arguments, product = uses_in(model, PAIR, made)
    assert "nothing that reads the same values is aten.sin.default" in several.nearest.reasons[0]
    assert "the pattern has aten.relu.default, and here is aten.neg.default" in joined.nearest.reasons[0]
    assert len(any_arguments.fired) == 1
    (reason,) = product.nearest.reasons  # nothing about the operands of add, which may stand in any order
    assert "the pattern has aten.relu.default, and here is aten.neg.default" in reason
    assert any_arguments.name.endswith("any_arguments_are_explained.handler")


def test_the_entries_of_a_pass_are_as_before_after_it_ran():
    made = pass_of(scaled, PAIR)
    (entry,) = next(iter(made.patterns.values()))
    parts = entry.pattern, entry.extra_check
    apply = matcher().PatternMatcherPass.apply
    uses_in(operator.add, PAIR, made)
    assert (entry.pattern, entry.extra_check) == parts
    assert "apply" not in vars(entry)
    assert matcher().PatternMatcherPass.apply is apply


def test_a_match_across_a_write_is_told_as_such():
    def written(x, y):
        relu = x.relu() * 2.0
        aten.add_.Tensor(y, 1)
        return relu - y.cos()

    uses = uses_in(written, PAIR, pass_of(scaled, PAIR))
    assert (uses[0].candidates, uses[0].rejected, uses[0].fired) == (1, 0, [])
    with pytest.raises(
        AssertionError, match=r"sub: 4 operations agreed, but\n +an operation between the nodes changes a tensor"
    ):
        check_fired(uses, "scaled", times=1)


def miss(place, agreed, *reasons):
    return PatternMiss(place, agreed, reasons)


@pytest.mark.parametrize(
    ("misses", "nearest"),
    [
        ([miss("a", 1, "r"), miss("b", 2, "r")], "b"),
        ([miss("a", 2, "r"), miss("b", 1, "r")], "a"),
        ([miss("a", 2, "r", "s"), miss("b", 2, "r")], "b"),
        ([miss("a", 2, "r"), miss("b", 2, "r", "s")], "a"),
        ([miss("a", 2, "r"), miss("b", 2, "s")], "a"),
    ],
)
def test_the_nearest_miss_agrees_most_with_the_fewest_reasons(misses, nearest):
    use = PatternUse("fuse", "")
    for each in misses:
        use.note_miss(each)

    assert use.nearest.place == nearest


@pytest.mark.parametrize(
    ("use", "text"),
    [
        (PatternUse("fuse", ""), "fuse: 0 candidates, 0 replaced, 0 rejected by extra_check"),
        (
            PatternUse("fuse", "own", 7, 1, [*"abcdef"]),
            "fuse of pass 'own': 7 candidates, 6 replaced, 1 rejected by extra_check\n"
            "  replaced at a; b; c; d; e and 1 more",
        ),
        (
            PatternUse("fuse", "", 1, nearest=miss("mul", 1, *"abcd")),
            "fuse: 1 candidate, 0 replaced, 0 rejected by extra_check\n  nearest miss at mul: 1 operation agreed, but\n"
            "    a\n    b\n    c\n    and 1 more reasons",
        ),
    ],
)
def test_a_use_tells_its_numbers_places_and_nearest_miss(use, text):
    assert use.text() == text


def test_uses_are_asked_for_by_the_name_of_the_pattern_or_its_pass():
    uses = [
        PatternUse("fuse_a", "own", fired=["x"]),
        PatternUse("fuse_b", "", fired=["y", "z"]),
        PatternUse("c", "own"),
    ]

    assert check_fired(uses, "fuse_*") == check_fired(uses, "fuse_*", 3) == 3
    assert check_fired(uses, "own", 1) == 1
    assert check_fired(uses, "c", 0) == 0
    with pytest.raises(AssertionError, match=r"^pattern 'c' fired 0 times, expected at least once\n"):
        check_fired(uses, "c")
    with pytest.raises(AssertionError, match=r"^pattern 'fuse_b' fired 2 times, expected 1 time\n"):
        check_fired(uses, "fuse_b", 1)
    with pytest.raises(GateError, match=r"tried a pattern 'd'; it tried c, fuse_a, fuse_b$"):
        check_fired(uses, "d")
    with pytest.raises(GateError, match=r"it tried no pattern at all$"):
        check_fired([], "d")


def test_of_patterns_of_one_name_the_nearest_three_are_told():
    uses = [
        PatternUse("fuse", "none"),
        PatternUse("fuse", "far", nearest=miss("a", 1, "r")),
        PatternUse("fuse", "near", nearest=miss("b", 3, "r")),
        PatternUse("fuse", "fired", fired=["x"]),
    ]

    with pytest.raises(AssertionError) as error:
        check_fired(uses, "fuse", 2)
    told = [line.partition(":")[0] for line in str(error.value).splitlines() if not line.startswith(" ")]
    assert told[1:] == [*(f"fuse of pass {name!r}" for name in ("fired", "near", "far")),
                        "and 1 more patterns of this name"]  # fmt: skip
