"""The first operator at which eager and graph part is named, with its module, line and inputs."""

from __future__ import annotations

import dataclasses
import itertools
import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import fxcore
from fixtures.quantized_tensors import WrappingTensor
from fxcore.experimental.optimization import fuse
from fxcore.state.snapshot import Snapshot
from pytest_fxgraph.equivalence import bisection
from pytest_fxgraph.equivalence.fixture import FxEquivalence
from pytest_fxgraph.equivalence.inputs import Arguments
from pytest_fxgraph.equivalence.mismatch import Mismatch
from pytest_fxgraph.equivalence.operator_trace import Event, OperatorTrace
from pytest_fxgraph.equivalence.outputs import OutputComparison
from pytest_fxgraph.equivalence.run import RunSettings
from pytest_fxgraph.equivalence.state_changes import StateNames
from pytest_fxgraph.equivalence.tolerance import ToleranceRule
from pytest_fxgraph.errors import MismatchError
from pytest_fxgraph.functions import assert_equivalent, check_transform
from pytest_fxgraph.report.numeric_failure import NumericFailure, PathStep
from pytest_fxgraph.report.plain_data import record_of


class Inner(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x) * 2


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.block = Inner()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.block(self.first(x))
        return y.softmax(dim=1) + 1


def message_after(change: Any, model: nn.Module | None = None) -> str:
    model = model or Outer().eval()
    graph = fxcore.symbolic_trace(model)
    change(graph)
    graph.recompile()
    with pytest.raises(AssertionError) as caught:
        assert_equivalent(model, graph, torch.linspace(-1, 1, 12).reshape(3, 4))
    return str(caught.value)


def node_calling(graph: fxcore.GraphModule, target: Any) -> fxcore.Node:
    return next(node for node in graph.graph.nodes if node.target == target)


def test_a_changed_argument_is_found_at_its_node():
    def change(graph: fxcore.GraphModule) -> None:
        node_calling(graph, "softmax").kwargs = {"dim": 0}

    message = message_after(change)

    assert "first parted at node softmax (softmax), test_bisection.py:" in message
    assert "return y.softmax(dim=1) + 1" in message
    assert "its inputs agree exactly, so the error began there; its inputs in eager: float32[3, 4] in" in message


def test_the_module_and_line_that_made_the_node_are_named():
    def change(graph: fxcore.GraphModule) -> None:
        import operator

        node_calling(graph, operator.mul).args = (node_calling(graph, operator.mul).args[0], 3)

    message = message_after(change)

    assert "first parted at node mul (mul) in module block, test_bisection.py:" in message
    assert "return torch.tanh(x) * 2" in message


def test_an_operator_put_in_the_place_of_others_is_named_with_them():
    def change(graph: fxcore.GraphModule) -> None:
        node_calling(graph, torch.tanh).target = torch.sigmoid

    message = message_after(change)

    assert "first parted where eager ran tanh and the graph ran tanh (sigmoid) in module block" in message
    assert "seen first in node mul (mul)" in message


def test_a_side_effect_that_comes_to_light_late_is_named_with_the_operator_that_lacks_it():
    def change(graph: fxcore.GraphModule) -> None:
        graph.graph.erase_node(node_calling(graph, "add_"))

    class Late(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = torch.exp(x)
            x.add_(1)
            z = torch.sin(y)
            return z * x

    message = message_after(change, Late())

    assert "first parted at node mul (mul), test_bisection.py:" in message
    assert "earlier, eager ran add (test_bisection.py:" in message
    assert "x.add_(1)) and the graph ran nothing" in message


def test_a_missing_operator_at_the_end_is_named():
    def change(graph: fxcore.GraphModule) -> None:
        output = next(node for node in graph.graph.nodes if node.op == "output")
        output.args = (output.args[0].args[0],)
        graph.graph.eliminate_dead_code()

    assert "first parted where eager ran add and the graph ran nothing" in message_after(change)


def test_a_parameter_of_other_values_is_found_in_the_module_that_reads_it():
    def change(graph: fxcore.GraphModule) -> None:
        other = nn.Linear(4, 4)
        graph.first = other

    message = message_after(change)

    assert "first parted at node first (linear) in module first" in message
    assert "its inputs differ already by up to" in message


fx_equivalence = FxEquivalence(tells_path=True)
X = torch.linspace(-1, 1, 8).reshape(2, 4)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        aside = torch.cos(x)
        for layer in self.layers:
            x = torch.tanh(layer(x)) * 1.5
        return x + 1, aside * 2


def failure_after(change: Callable[[fxcore.GraphModule], None]) -> NumericFailure:
    torch.manual_seed(0)
    model = Model().eval()
    graph = fxcore.symbolic_trace(model)
    change(graph)
    graph.recompile()
    with pytest.raises(MismatchError) as caught:
        fx_equivalence(model, X, graph=graph)
    return record_of(NumericFailure, caught.value.report_data("test_net.py::test_net"))


def replace_third_tanh(graph: fxcore.GraphModule) -> None:
    [node for node in graph.graph.nodes if node.target is torch.tanh][2].target = torch.sigmoid


def scale_more_after_the_third_tanh(graph: fxcore.GraphModule) -> None:
    node = [node for node in graph.graph.nodes if node.target is operator.mul][2]
    node.args = (node.args[0], 1.51)


def statuses(steps: tuple[PathStep, ...]) -> list[tuple[str, str]]:
    return [(step.status, step.operator) for step in steps]


def test_what_leads_to_the_first_difference_and_what_it_leads_to_is_told_with_its_errors():
    failure = failure_after(scale_more_after_the_third_tanh)

    places = [step.status for step in failure.path]
    first = failure.path[places.index("first")]
    assert (first.operator, first.node) == ("mul", "mul_2")
    assert "x = torch.tanh(layer(x)) * 1.5" in first.source
    assert "float32[2, 4] in" in first.expected
    assert first.expected != first.obtained
    assert places[: places.index("first")] == ["agrees"] * 3
    assert {*places[places.index("first") + 1 :]} == {"differs"}
    assert all(step.error == 0 for step in failure.path[:3])
    assert all(step.error and step.error > 0 for step in failure.path[3:])
    # What is beside the way is not on it.
    assert "cos" not in [step.operator for step in failure.path]
    assert failure.path[-1].operator == "add"


def test_operators_that_one_run_has_alone_are_told_where_they_ran():
    path = failure_after(replace_third_tanh).path
    told = statuses(path)

    start = told.index(("only eager", "tanh"))
    assert told[start : start + 3] == [("only eager", "tanh"), ("only graph", "sigmoid"), ("first", "mul")]
    assert [step.node for step in path[start : start + 3]] == ["", "tanh_2", "mul_2"]


def test_the_errors_of_each_output_are_counted_by_size():
    tensor = failure_after(scale_more_after_the_third_tanh).tensors[0]

    assert tensor.where == "output[0]"
    assert tensor.histogram is not None
    assert sum(tensor.histogram.within) + sum(tensor.histogram.beyond) + tensor.histogram.exact == 8
    assert sum(tensor.histogram.beyond) > 0


def test_nothing_is_measured_for_a_report_that_nobody_asked_for():
    model = Model().eval()
    graph = fxcore.symbolic_trace(model)
    replace_third_tanh(graph)
    graph.recompile()

    with pytest.raises(MismatchError) as caught:
        FxEquivalence()(model, X, graph=graph)

    assert caught.value.path == ()


class UnderAutocast(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            y = self.second(self.first(x).relu())
        return y.float()


def test_an_autocast_that_the_graph_lost_is_named_with_the_way_to_keep_it():
    torch.manual_seed(0)
    model, inputs = UnderAutocast().eval(), torch.linspace(-1, 1, 12).reshape(3, 4)

    with pytest.raises(MismatchError) as caught:
        assert_equivalent(model, fxcore.symbolic_trace(model), inputs)

    assert "at node first (linear), under autocast to bfloat16 on cpu in eager and without autocast" in str(
        caught.value
    )
    assert "a trace with example inputs and frontend='export' keep them" in caught.value.section
    assert_equivalent(model, fxcore.symbolic_trace(model, example_inputs=(inputs,)), inputs)


def test_autocast_around_both_runs_is_no_part_of_a_mismatch():
    with torch.autocast("cpu", torch.bfloat16):
        message = message_after(lambda graph: setattr(node_calling(graph, operator.mul), "target", operator.add))

    assert "autocast" not in message


def without_tanh(graph_module: Any) -> Any:
    """Drop the tanh of a graph of fxcore or torch.fx."""
    node = next(node for node in graph_module.graph.nodes if "tanh" in str(node.target))
    node.replace_all_uses_with(node.args[0])
    graph_module.graph.erase_node(node)
    graph_module.recompile()
    return graph_module


LINE = Inner.forward.__code__.co_firstlineno + 1
IN_BLOCK = f"in module block, test_bisection.py:{LINE}: return torch.tanh(x) * 2"


@pytest.mark.parametrize(
    ("subject_of", "made", "place"),
    [
        (lambda model, x: model, lambda graph_module: graph_module, IN_BLOCK),
        (lambda model, x: model, nn.Sequential, IN_BLOCK),
        (lambda model, x: torch.export.export(model, (x,)), lambda graph_module: graph_module, IN_BLOCK),
        (lambda model, x: torch.fx.symbolic_trace(model), lambda graph_module: graph_module, "in module block; seen"),
    ],
    ids=["module", "module of a pass", "exported", "torch.fx"],
)
def test_the_place_is_that_of_the_model_and_never_the_call_of_the_check(subject_of, made, place):
    x = torch.linspace(-1, 1, 12).reshape(3, 4)
    subject = subject_of(Outer().eval(), x)

    with pytest.raises(MismatchError) as caught:
        check_transform(lambda graph_module: made(without_tanh(graph_module)), subject, (x,))

    assert place in str(caught.value)
    assert "check_transform" not in str(caught.value)


class Branches(nn.Module):
    """A convolution that a pass fuses, an empty slice that it drops, and two branches."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv1d(3, 4, 3), nn.BatchNorm1d(4)
        self.norm.running_mean = torch.linspace(-1, 1, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.conv(x))
        y = torch.relu(y)
        return torch.cat([y.tanh(), y.sin(), y[..., :0]], -1) * 2


def fused(graph: fxcore.GraphModule) -> fxcore.GraphModule:
    return fuse(graph)


def in_two_dimensions(graph: fxcore.GraphModule) -> fxcore.GraphModule:
    """Write the convolution with one dimension more: right, with other operators."""
    node = node_calling(graph, "conv")
    with graph.graph.inserting_before(node):
        weight, bias = graph.graph.get_attr("conv.weight"), graph.graph.get_attr("conv.bias")
        x, weight = (graph.graph.call_function(torch.unsqueeze, (each, 2)) for each in (node.args[0], weight))
        y = graph.graph.call_function(torch.conv2d, (x, weight, bias))
        node.replace_all_uses_with(graph.graph.call_function(torch.squeeze, (y, 2)))
    graph.graph.erase_node(node)
    graph.recompile()
    return graph


@pytest.mark.parametrize("rewritten", [fused, in_two_dimensions])
def test_values_that_meet_again_do_not_hide_the_operator_that_is_lost(rewritten):
    def lose_relu(graph: fxcore.GraphModule) -> fxcore.GraphModule:
        graph = rewritten(graph)
        node = node_calling(graph, torch.relu)
        node.replace_all_uses_with(node.args[0])
        graph.graph.erase_node(node)
        graph.recompile()
        return graph

    with pytest.raises(MismatchError, match="first parted where eager ran relu and the graph ran nothing"):
        check_transform(lose_relu, Branches(), (torch.rand(2, 3, 8),))


def test_every_gap_before_the_place_is_named():
    def lose_parts(graph: fxcore.GraphModule) -> fxcore.GraphModule:
        node = node_calling(graph, torch.cat)
        first, second, _ = node.args[0]
        node.args = ([first.args[0], second], -1)
        graph.graph.eliminate_dead_code()
        graph.recompile()
        return graph

    with pytest.raises(MismatchError) as caught:
        check_transform(lose_parts, Branches(), (torch.rand(2, 3, 8),))

    assert "first parted where eager ran getitem and the graph ran nothing" in str(caught.value)
    assert "earlier, eager ran tanh and the graph ran nothing" in caught.value.section


class Repeated(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.sin(x)
        for _ in range(40):
            y = torch.tanh(y)
        return y


def scale_input(graph: fxcore.GraphModule) -> None:
    x = next(iter(graph.graph.nodes))
    with graph.graph.inserting_after(x):
        node_calling(graph, torch.sin).args = (graph.graph.call_function(operator.mul, (x, 2)),)


def end_early(graph: fxcore.GraphModule) -> None:
    (output,) = graph.graph.find_nodes(op="output")
    output.args = (node_calling(graph, torch.sin),)
    graph.graph.eliminate_dead_code()


def test_the_path_leaves_out_the_middle_of_many_operators(monkeypatch):
    monkeypatch.setitem(globals(), "Model", Repeated)

    path = failure_after(scale_input).path

    assert statuses(path)[:3] == [("only graph", "mul"), ("first", "sin"), ("differs", "tanh")]
    assert [step.operator for step in path if step.status == "left out"] == ["8 more operators"]
    assert len(path) == 2 + 24 + 1 + 8


def test_the_path_leaves_out_most_operators_of_one_run_alone(monkeypatch):
    monkeypatch.setitem(globals(), "Model", Repeated)

    path = failure_after(end_early).path

    alone = [("only eager", "tanh")] * 8
    assert statuses(path) == [("agrees", "sin"), *alone, ("left out", "32 more operators, only eager")]


def test_only_the_common_beginning_is_paired_where_runs_cannot_be_aligned(monkeypatch):
    monkeypatch.setattr(bisection, "common_subsequence", lambda one, other: None)

    assert bisection._pairs(["a", "b", "c"], ["a", "b", "d", "c"]) == [(0, 0), (1, 1)]
    assert bisection._pairs(["a", "b"], ["a", "b", "d"]) == [(0, 0), (1, 1)]


def event(*outputs: torch.Tensor | None) -> Event:
    return Event("relu", None if outputs == (None,) else outputs, "", None, None)


def test_values_that_were_not_kept_do_not_differ_and_another_number_of_values_does():
    comparison = OutputComparison(ToleranceRule(rtol=0.0, atol=0.0))
    x = torch.ones(2)

    assert not bisection.outputs_differ(event(x), event(None), comparison)
    assert not bisection.outputs_differ(event(x), event(x.clone()), comparison)
    assert bisection.outputs_differ(event(x, x), event(x), comparison)
    assert bisection.outputs_differ(event(x), event(x + 1), comparison)


def test_a_nested_tensor_and_a_wrapping_tensor_are_described_without_their_values():
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    wrapping = WrappingTensor(torch.ones(2), torch.tensor(1.0))

    assert bisection.described(nested) == "nested float32 of 2"
    assert bisection.described(wrapping) == "WrappingTensor of float32[2]"
    assert bisection.described(torch.ones(2, dtype=torch.complex64)) == "complex64[2]"
    assert bisection.largest_error([nested], [nested]) is None


@pytest.mark.parametrize(
    ("tensor", "words"),
    [
        (torch.tensor([1, 2]), "int64[2] in 1..2, mean 1.5"),
        (torch.ones(0, 2), "float32[0, 2]"),
        (torch.ones(2, device="meta"), "float32[2]"),
        (torch.eye(2).to_sparse(), "float32[2, 2]"),
    ],
)
def test_a_tensor_with_numbers_is_described_by_their_range(tensor, words):
    assert bisection.described(tensor) == words


def test_the_largest_error_is_measured_where_both_have_values():
    x, sparse, meta = torch.ones(2), torch.eye(2).to_sparse(), torch.ones(2, device="meta")
    wrapping = WrappingTensor(torch.ones(2), torch.tensor(1.0))

    assert bisection.largest_error([x, x], [x + 1, x - 2]) == 2.0
    assert bisection.largest_error([], []) == bisection.largest_error([x], [x]) == 0.0
    assert bisection.largest_error([sparse, x], [sparse, x + 1]) == 1.0
    for pair in ((wrapping, x), (x, wrapping), (meta, x), (x, meta)):
        assert bisection.largest_error(*([each] for each in pair)) == 0.0
    for pair in ((x, torch.ones(3)), (x, x.double()), (x, torch.nested.nested_tensor([x]))):
        assert bisection.largest_error(*([each] for each in pair)) is None


def trace_of(text: str) -> OperatorTrace:
    """Return a run of operators with their values: "sin:1 tanh:2"; a value of "-" was not kept."""
    calls = [call.split(":") for call in text.split()]
    return OperatorTrace(
        [Event(name, None if value == "-" else (torch.tensor(float(value)),), "", None, None) for name, value in calls]
    )


FILLING = " ".join(f"f{number}:{number}" for number in range(1, 8))
LONG = " ".join(f"{{0}}{number}:{{1}}{number}" for number in range(8))


@pytest.mark.parametrize(
    ("eager", "graph", "words"),
    [
        ("a:1 b:2", "a:1 b:2", None),
        ("a:-", "a:2", None),
        ("a:1", "a:2", "first parted at a"),
        ("a:1 b:2", "a:1 b:3", "first parted at b"),
        ("a:1 b:2", "a:1", "first parted where eager ran b and the graph ran nothing"),
        ("a:1", "a:1 b:2", "first parted where eager ran nothing and the graph ran b"),
        ("a:1 p:5 b:2", "a:1 b:3", "first parted where eager ran p and the graph ran nothing; seen first in b"),
        ("a:1 p:5 b:2 z:7", "a:1 b:2 z:8", "first parted at z; earlier, eager ran p and the graph ran nothing"),
        # A fused operator gives what a later one gives.
        ("a:1 b:2 c:3", "a:2 c:3", None),
        ("a:2 c:3", "a:1 b:2 c:3", None),
        ("a:1 b:-", "a:2", "first parted at a"),
        (f"a:0 {FILLING} z:9", "a:7 z:9", None),
        ("a:7 z:9", f"a:0 {FILLING} z:9", None),
        (f"a:0 {FILLING} g:8 z:9", "a:8 z:9", "first parted at a"),
        (
            "a:1 b:2 c:3 d:4",
            "a:3 b:3 d:5",
            "first parted where eager ran nothing and the graph ran b; seen first in d; "
            "earlier, eager ran b and the graph ran nothing",
        ),
        ("a:1 b:2 c:3 d:4", "a:2 d:5", "first parted where eager ran c and the graph ran nothing; seen first in d"),
        # Before the place, values of operators with other names meet.
        (
            "a:1 p:5 q:6 z:7",
            "a:1 r:5 z:8",
            "first parted where eager ran q and the graph ran nothing; seen first in z; "
            "earlier, eager ran p and the graph ran r",
        ),
        (
            "a:1 p:5 q:6 z:7",
            "a:1 r:5 s:6 z:8",
            "first parted at z; earlier, eager ran p, q and the graph ran r, s",
        ),
        (
            f"p:5 {LONG.format('e', 1)} z:7",
            f"r:5 {LONG.format('g', 2)} z:8",
            "first parted where eager ran p, e0, e1 and 6 more and the graph ran r, g0, g1 and 6 more; seen first in z",
        ),
        (
            f"p:5 {LONG.format('e', 1)[5:]} z:7",
            f"r:5 {LONG.format('g', 2)[5:]} z:8",
            "first parted where eager ran e1, e2, e3 and 4 more and the graph ran g1, g2, g3 and 4 more; seen first "
            "in z; earlier, eager ran p and the graph ran r",
        ),
    ],
)
def test_the_place_where_two_runs_part_is_found_by_names_and_values(eager, graph, words):
    found = bisection._first_divergence(trace_of(eager), trace_of(graph), OutputComparison(ToleranceRule()))

    assert (found and bisection._describe_place(found)) == words


def with_place(traced: OperatorTrace, name: str) -> OperatorTrace:
    """Say that all operators of a trace ran in a module of this name."""
    return OperatorTrace([dataclasses.replace(each, module=name) for each in traced.events])


@pytest.mark.parametrize(
    ("eager", "graph", "words"),
    [
        ("a:1 p:5 b:2", "a:1 q:6 b:3", "where eager ran p and the graph ran q in module ours; seen first in b"),
        ("a:1 b:2", "a:1 q:6 b:3", "where eager ran nothing and the graph ran q in module ours; seen first in b"),
        ("a:1", "a:1 q:6", "where eager ran nothing and the graph ran q"),
        ("a:1", "a:2", "at a in module ours"),
    ],
)
def test_the_place_is_the_one_of_eager(eager, graph, words):
    traces = with_place(trace_of(eager), "ours"), with_place(trace_of(graph), "theirs")
    found = bisection._first_divergence(*traces, OutputComparison(ToleranceRule()))

    assert found is not None
    assert bisection._describe_place(found) == f"first parted {words}"


def notes_on_calls(model: Any, graph: Any, *inputs: torch.Tensor, kind: str = "value") -> list[str]:
    """Return the lines on two functions whose outputs differ."""
    snapshot = Snapshot(model, graph)
    settings = RunSettings(Arguments(inputs, {}), StateNames(snapshot.state_of(model)), snapshot, 0, False)
    found = [Mismatch(kind, "output", "has other values")]
    lines, path = bisection.notes_on_mismatch(
        model, graph, settings, OutputComparison(ToleranceRule()), found, with_path=False
    )
    assert path == ()
    return lines


def fails_from(number: int, function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Return the function with an error from one call on."""
    counter = itertools.count(1)

    def called(*args: torch.Tensor) -> torch.Tensor:
        if next(counter) >= number:
            raise ValueError("no more calls")
        return function(*args)

    return called


@pytest.mark.parametrize(
    ("model_fails", "graph_fails", "count"), [(1, 9, 0), (2, 9, 0), (9, 1, 0), (3, 9, 1), (9, 2, 1), (9, 9, 2)]
)
def test_a_run_that_fails_when_it_is_repeated_adds_nothing(model_fails, graph_fails, count):
    def other(x):
        return torch.sin(x + 1)

    lines = notes_on_calls(fails_from(model_fails, torch.sin), fails_from(graph_fails, other), X)

    assert len(lines) == count


@pytest.mark.parametrize("kind", ["aliasing", "rng"])
def test_differences_that_no_operator_returns_are_not_searched(kind):
    assert notes_on_calls(torch.sin, torch.cos, X, kind=kind) == []


@pytest.mark.parametrize(("count", "described"), [(2, 2), (3, 3), (4, 3)])
def test_the_first_three_inputs_of_the_operator_are_described(count, described):
    inputs = [torch.ones(1, 1)] * count

    lines = notes_on_calls(lambda *each: torch.cat(each, 0), lambda *each: torch.cat(each, 1), *inputs)

    ones = ", ".join(["float32[1, 1] in 1..1, mean 1"] * described)
    assert lines[1:] == [f"its inputs agree exactly, so the error began there; its inputs in eager: {ones}"]


def test_an_operator_without_inputs_is_described_without_any():
    lines = notes_on_calls(lambda x: torch.full((1,), 1.0), lambda x: torch.full((1,), 2.0), X)

    assert lines[1].endswith("its inputs in eager: none")


def test_operators_that_the_graph_runs_at_the_end_have_their_way_alone():
    torch.manual_seed(0)

    def aside(x):
        return torch.cos(x), torch.sin(x) * 2

    def longer(x):
        return torch.cos(x), torch.neg(torch.sin(x) * 2)

    graph = fxcore.symbolic_trace(longer)
    with pytest.raises(MismatchError) as caught:
        fx_equivalence(aside, X, graph=graph)
    path = record_of(NumericFailure, caught.value.report_data("test_net.py::test_net")).path

    assert statuses(path) == [("agrees", "sin"), ("agrees", "mul"), ("only graph", "neg")]
    assert (path[2].node, path[2].source, path[2].expected) == ("neg", "", "")
    assert path[2].obtained.startswith("float32[2, 4] in")


def test_operators_that_eager_runs_alone_have_their_place_and_values():
    def longer(x):
        return torch.neg(torch.sin(x))

    with pytest.raises(MismatchError) as caught:
        fx_equivalence(longer, X, graph=fxcore.symbolic_trace(lambda x: torch.sin(x)))
    step = record_of(NumericFailure, caught.value.report_data("test_net.py::test_net")).path[-1]

    assert (step.status, step.operator, step.node, step.obtained) == ("only eager", "neg", "", "")
    assert "return torch.neg(torch.sin(x))" in step.source
    assert step.expected.startswith("float32[2, 4] in")
