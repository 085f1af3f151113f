from __future__ import annotations

import operator
import subprocess
import sys
from itertools import cycle
from random import Random

import pytest
import torch
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

import fxcore
from fixtures.shown_frames import raises_here
from pytest_fxgraph import strategies
from pytest_fxgraph.equivalence.changed_calls import ChangedCall
from pytest_fxgraph.equivalence.fixture import FxEquivalence
from pytest_fxgraph.equivalence.inputs import arguments_of
from pytest_fxgraph.errors import GateError, MismatchError
from pytest_fxgraph.strategies import OPERATIONS, OUTPUTS, SHAPE, Program, Step, module_of
from pytest_fxgraph.transform.fixture import FxTransform

FEW = settings(max_examples=15, deadline=None)


@FEW
@given(strategies.modules_with_inputs(random=True, mutation=True, training=None))
def test_drawn_modules_agree_with_their_graphs(drawn):
    model, inputs = drawn

    FxEquivalence()(model, inputs, modes=("eval", "train"))


@FEW
@given(strategies.graphs_with_inputs())
def test_drawn_graphs_are_well_formed_and_run(drawn):
    graph, inputs = drawn

    graph.graph.lint()
    output = graph(*inputs)

    leaves = torch.utils._pytree.tree_leaves(output)
    assert leaves
    assert all(leaf.shape == SHAPE for leaf in leaves)


@pytest.mark.parametrize(("name", "output"), zip(OPERATIONS, cycle(OUTPUTS)))
def test_every_operation_keeps_the_shape_and_can_be_traced(name, output):
    program = Program(2, (Step(name, 0, 1), Step("neg", 0, 0)), output, 0)
    inputs = (torch.rand(SHAPE), torch.rand(SHAPE))

    FxEquivalence()(module_of(program), inputs)


@FEW
@given(strategies.modules(training_state=False))
def test_operations_that_were_not_allowed_are_not_drawn(model):
    used = [OPERATIONS[step.operation] for step in model.program.steps]

    assert not any(operation.draws or operation.writes or operation.trains for operation in used)
    assert not model.training


def swapped_subtraction(gm: fxcore.GraphModule) -> fxcore.GraphModule:
    for node in gm.graph.nodes:
        if node.target is operator.sub:
            node.args = node.args[::-1]
    gm.recompile()
    return gm


def is_caught(drawn) -> bool:
    if " - " not in repr(drawn[0]):
        return False  # the pass leaves it as it is, and comparing it takes most of the time
    try:
        FxTransform()(swapped_subtraction, *drawn)
    except AssertionError:
        return True
    return False


@pytest.mark.slow
def test_a_wrong_pass_is_found_and_shrunk_to_a_module_that_shows_it_alone():
    few = settings(max_examples=400, deadline=None, database=None, phases=(Phase.generate, Phase.shrink))

    # Half of the operations of the default: what is found first takes less to be made small.
    model, _ = find(strategies.modules_with_inputs(max_operations=4), is_caught, settings=few, random=Random(0))

    assert len(model.program.steps) <= 2
    assert " - " in repr(model)


def test_a_module_prints_as_the_forward_that_one_would_write():
    program = Program(2, (Step("conv", 0, 0), Step("add", 0, 2)), "dict", 1)

    assert repr(module_of(program)) == (
        "def forward(self, x0, x1):  # parameters from seed 1\n"
        "    v0 = self.layer0(x1)  # Conv2d\n"
        "    v1 = v0 + x0\n"
        "    return {last: v1, middle: v0}"
    )


def test_one_program_makes_the_same_parameters_every_time_and_draws_from_nobodys_generator():
    program = Program(1, (Step("conv", 0, 0),), "last", 3)
    before = torch.get_rng_state()

    first, second = module_of(program), module_of(program)

    assert torch.equal(first.layer0.weight, second.layer0.weight)
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("count", [1, 2])
def test_a_module_takes_as_many_inputs_as_its_program(count):
    graph = fxcore.symbolic_trace(module_of(Program(count, (Step("neg", 0, 0),), "last", 0)))

    assert sum(node.op == "placeholder" for node in graph.graph.nodes) == count


def test_some_drawn_convolutions_have_no_bias():
    assert [OPERATIONS[name].layer().bias is None for name in ("conv", "conv_without_bias")] == [False, True]


@pytest.mark.parametrize(
    ("options", "longest", "modes", "left_out"),
    [
        ({}, 8, {False}, {"dropout", "dropout_function", "noise", "add_in_place", "relu_in_place"}),
        (
            {"random": True, "mutation": True, "training_state": False, "training": None, "max_operations": 2},
            2,
            {False, True},
            {"batch_norm"},
        ),
    ],
)
def test_modules_are_drawn_within_the_options_and_everywhere_in_them(monkeypatch, options, longest, modes, left_out):
    monkeypatch.setattr(strategies, "_module_in_mode", lambda program, training: (program, training))
    drawn = []
    many = settings(max_examples=120, derandomize=True, database=None, deadline=None, phases=(Phase.generate,))
    many(given(strategies.modules(**options))(lambda each: drawn.append(each)))()
    programs = [program for program, _ in drawn]
    steps = [step for program in programs for step in program.steps]

    assert {training for _, training in drawn} == modes
    lengths = {len(program.steps) for program in programs}
    assert (min(lengths), max(lengths)) == (1, longest)
    assert {program.inputs for program in programs} == {1, 2}
    assert {program.seed for program in programs} == {step.x for step in steps} == {step.y for step in steps}
    assert {program.seed for program in programs} == {0, 1, 2, 3}
    assert {program.output for program in programs} == {*OUTPUTS}
    used = {step.operation for step in steps}
    assert used.isdisjoint(left_out)
    assert "batch_norm" in used | left_out


@FEW
@given(st.sampled_from([(3,), (2, 5), ()]).flatmap(lambda shape: st.tuples(st.just(shape), strategies.tensors(shape))))
def test_tensors_have_the_shape_asked_for(drawn):
    shape, tensor = drawn

    assert tensor.shape == shape


class MaskOrNone(torch.nn.Module):
    def forward(self, x, mask=None):
        return x.relu() if mask is None else x * mask


class TwiceLarge(torch.nn.Module):
    def forward(self, x):
        return x * 2 if x.shape[0] > 2 else x


X = torch.arange(6.0).view(3, 2)


def test_a_missing_guard_is_found_and_shrunk_to_the_change_that_matters():
    graph = fxcore.symbolic_trace(MaskOrNone(), example_inputs=(X,), enforce_guards=False)

    with raises_here(MismatchError, match=r"\n  at this call: the call gives mask a tensor$"):
        strategies.fuzz_guards(MaskOrNone(), X, graph=graph)


def test_calls_that_a_guard_refuses_are_counted():
    graph = fxcore.symbolic_trace(TwiceLarge(), example_inputs=(X,), enforce_guards=True)

    counts = strategies.fuzz_guards(TwiceLarge(), X, graph=graph, tries=40)

    assert counts["right"]
    assert counts["refused"]
    assert counts == strategies.fuzz_guards(TwiceLarge(), X, graph=graph, tries=40)


def test_a_graph_that_refuses_its_own_example_is_a_mismatch():
    graph = fxcore.symbolic_trace(TwiceLarge(), example_inputs=(X,), enforce_guards=True)

    with raises_here(MismatchError, match="the graph refuses the example that it was traced with"):
        strategies.fuzz_guards(TwiceLarge(), X[:2], graph=graph)


def test_calls_are_drawn_for_a_test_of_ones_own():
    model = MaskOrNone()
    graph = fxcore.symbolic_trace(model, example_inputs=(X,))

    call = find(strategies.changed_calls(model, X, graph=graph), lambda call: call.seed == 2, settings=FEW)

    assert len(call.changes) == 1
    assert "values of seed 2" in str(call)


def test_a_model_is_traced_for_its_calls_only_without_a_graph(monkeypatch):
    graph, traced = fxcore.symbolic_trace(torch.nn.ReLU()), []
    monkeypatch.setattr(strategies, "_traced", lambda model, args, kwargs: traced.append(model) or graph)

    strategies.changed_calls(torch.nn.ReLU(), X, graph=graph)
    assert traced == []
    strategies.changed_calls(torch.nn.ReLU(), X)
    assert len(traced) == 1


def test_inputs_of_a_foreign_module_are_refused():
    with pytest.raises(GateError, match=r"a Linear was not drawn here.*build its inputs of tensors\(shape, dtype\)"):
        strategies.inputs_of(torch.nn.Linear(1, 1))


@pytest.mark.slow
def test_without_hypothesis_the_extra_is_named():
    code = "import sys; sys.modules['hypothesis'] = None; import pytest_fxgraph.strategies"

    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)

    assert "needs hypothesis, which is not installed: pip install 'pytest-fxgraph[hypothesis]'" in run.stderr


@pytest.mark.parametrize("name", OPERATIONS)
def test_each_operation_says_whether_it_draws_writes_or_changes_its_module(name):
    operation = OPERATIONS[name]
    layer = operation.layer() if operation.layer else None
    x, y = torch.linspace(-1, 1, 288).view(SHAPE), torch.ones(SHAPE)
    x[0, 0, 0, 0] = 0.0
    before = [each.clone() for each in (x, y)]
    state = {} if layer is None else {path: each.clone() for path, each in layer.state_dict().items()}
    torch.manual_seed(0)
    generator = torch.get_rng_state()

    result = operation.apply(layer, x, y)

    assert result.shape == SHAPE
    assert any(not torch.equal(*pair) for pair in zip((x, y), before, strict=True)) is operation.writes
    assert (not torch.equal(torch.get_rng_state(), generator)) is operation.draws
    assert any(not torch.equal(layer.state_dict()[path], each) for path, each in state.items()) is operation.trains
    if layer is None:  # its text computes the same
        torch.manual_seed(0)
        again = eval(operation.text.format(x="x", y="y"), {"torch": torch, "F": F, "x": before[0], "y": before[1]})
        assert torch.equal(result, again)
    else:
        assert operation.text == f"{type(layer).__name__}({{x}})"


def test_operations_are_chosen_by_what_they_do():
    chosen = {
        flag: {
            *strategies.usable_operations(
                **{**dict.fromkeys(("random", "mutation", "training_state"), False), flag: True}
            )
        }
        for flag in ("random", "mutation", "training_state")
    }
    plain = set.intersection(*chosen.values())

    assert {flag: names - plain for flag, names in chosen.items()} == {
        "random": {"dropout", "dropout_function", "noise"},
        "mutation": {"add_in_place", "relu_in_place"},
        "training_state": {"batch_norm"},
    }
    assert {name for names in chosen.values() for name in names} == OPERATIONS.keys()


@pytest.mark.parametrize(
    ("back", "expected"), [((0, 1), -1.0), ((1, 0), 1.0), ((3, 2), 1.0), ((2, 3), -1.0), ((0, 2), 0.0)]
)
def test_operands_count_back_from_the_newest_value(back, expected):
    module = module_of(Program(2, (Step("sub", *back),), "list", 0))
    x, y = torch.full(SHAPE, 3.0), torch.full(SHAPE, 2.0)

    last, (middle,) = module(x, y)

    assert last.eq(expected).all()
    assert middle is y


def test_a_drawn_batch_norm_has_statistics_that_change_its_input():
    layer = module_of(Program(1, (Step("batch_norm", 0, 0),), "last", 0)).layer0

    for values, middle in ((layer.running_mean, 0), (layer.bias, 0), (layer.running_var, 1), (layer.weight, 1)):
        assert 0.1 < (values - middle).abs().max() <= 0.5


@pytest.mark.parametrize(
    ("kind", "least", "largest"),
    [
        ("uniform", 1.9, 2),
        ("normal", 2.5, 6),
        ("zeros", 0, 0),
        ("ones", 1, 1),
        ("halves", 2, 2),
        ("tiny", 2.5e-6, 6e-6),
        ("strided", 2.5, 6),
    ],
)
def test_the_values_of_drawn_tensors_have_a_range(kind, least, largest):
    made = strategies._tensor((20, 30), torch.float64, kind, 0)

    assert least <= float(made.max()) <= largest
    assert float(made.min()) in (0.0, 1.0) or -largest <= float(made.min()) <= -least
    assert made.dtype is torch.float64
    assert made.stride() == ((1, 20) if kind == "strided" else (30, 1))
    assert kind != "halves" or torch.equal(made * 2, (made * 2).round())


def test_one_try_is_one_call():
    graph = fxcore.symbolic_trace(TwiceLarge(), example_inputs=(X,), enforce_guards=True)

    assert sum(strategies.fuzz_guards(TwiceLarge(), X, graph=graph, tries=1).values()) == 1


def test_a_difference_that_does_not_come_back_is_told_as_that(monkeypatch):
    monkeypatch.setattr(strategies, "minimal", lambda *_: ChangedCall(arguments_of(X)))
    graph = fxcore.symbolic_trace(TwiceLarge(), example_inputs=(X,), enforce_guards=True)

    with pytest.raises(MismatchError, match=r"^the graph differs at this call at some times only: "):
        strategies.fuzz_guards(TwiceLarge(), X, graph=graph)
