from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from fxcore.state.held_state import StateTensor
from pytest_fxgraph.equivalence.inputs import Arguments
from pytest_fxgraph.equivalence.outputs import OutputComparison
from pytest_fxgraph.equivalence.run import RunResult, SecondOutput
from pytest_fxgraph.equivalence.run_differences import differences_of_runs
from pytest_fxgraph.equivalence.state_changes import StateAfter
from pytest_fxgraph.equivalence.tolerance import ToleranceRule

NO_STATE = StateAfter(frozenset(), {}, {})
GIVEN = Arguments((torch.ones(2),), {})
RUN = RunResult(torch.ones(2), GIVEN, {}, NO_STATE, {"torch": 1}, {}, None, False, {})
COMPARISON = OutputComparison(ToleranceRule(None, None))
NEAR = 1 + 1e-7  # within the tolerance, and not equal


def run(**fields: Any) -> RunResult:
    return replace(RUN, **fields)


def left(*values: float, requires_grad: bool = False) -> Arguments:
    return Arguments((torch.tensor([float(each) for each in values], requires_grad=requires_grad),), {})


def told(
    expected: RunResult,
    obtained: RunResult,
    comparison: OutputComparison = COMPARISON,
    *,
    loosely: bool = False,
) -> list[str]:
    return [
        f"{each.kind}: {each.sentence()}"
        for each in differences_of_runs(expected, obtained, GIVEN, comparison, loosely=loosely)
    ]


def without(*checks: str) -> OutputComparison:
    return replace(COMPARISON, checks=COMPARISON.checks.difference(checks))


def test_equal_runs_have_no_difference():
    assert told(RUN, RUN) == []


@pytest.mark.parametrize(
    ("eager", "graph", "words"),
    [
        ((2, 1), (1, 1), "was changed in place by eager, not by the graph"),
        ((1, 1), (2, 1), "was changed in place by the graph, not by eager"),
        ((2, 1), (3, 1), "was changed in place by eager and by the graph, to different values"),
        ((1, 1), (NEAR + 1e-6, 1), "was changed in place by the graph, not by eager"),  # nothing is rounded here
    ],
)
def test_the_run_that_changed_an_input_is_named(eager, graph, words):
    runs = run(arguments=left(*eager)), run(arguments=left(*graph))

    assert told(*runs) == [f"mutation: input 0 {words}"]
    assert told(*runs, without("mutation")) == []


def test_inputs_that_both_runs_changed_are_compared_with_the_tolerance():
    assert told(run(arguments=left(2, 1)), run(arguments=left(2 * NEAR, 1))) == []


def test_an_input_of_plain_data_that_one_run_changed_is_told():
    given = Arguments(([1],), {})

    (found,) = differences_of_runs(
        run(arguments=given), run(arguments=Arguments(([2],), {})), given, COMPARISON, loosely=False
    )

    assert found.sentence() == "input 0[0] differs after the calls: it is 1 in eager, 2 in the graph"


def test_a_hook_that_calls_outputs_equal_says_nothing_about_inputs():
    comparison = replace(COMPARISON, custom_comparison=lambda *_: "")

    assert told(run(arguments=left(2, 1)), RUN, comparison) == [
        "mutation: input 0 was changed in place by eager, not by the graph"
    ]


def test_an_input_that_one_run_made_require_a_gradient_is_told():
    assert told(RUN, run(arguments=left(1, 1, requires_grad=True))) == [
        "mutation: input 0 has requires_grad=False after eager's call, True after the graph's"
    ]


@pytest.mark.parametrize(
    ("eager", "graph", "words"),
    [
        ({"rng": {"torch": 1}}, {"rng": {"torch": 2}}, "torch drew"),
        ({"rng": {"torch": 1, "numpy": 1}}, {"rng": {"torch": 2, "numpy": 2}}, "torch and numpy drew"),
        ({"generators": {"model.g": 1}}, {"generators": {"model.g": 2}}, "model.g drew"),
        ({"generators": {"model.g": 1}}, {}, "model.g drew"),
        ({}, {"generators": {"model.g": 1}}, "model.g drew"),
    ],
)
def test_generators_that_drew_otherwise_are_told_together(eager, graph, words):
    assert told(run(**eager), run(**graph)) == [f"rng: {words} otherwise in the graph than in eager"]
    assert told(run(**eager), run(**graph), without("rng")) == []


def test_a_generator_that_one_run_imported_is_no_difference():
    assert told(run(rng={"torch": 1, "numpy": 1}), RUN) == []
    assert told(RUN, run(rng={"torch": 1, "numpy": 1})) == []


@pytest.mark.parametrize(
    ("eager", "graph", "words"),
    [
        ({"grad mode": "off"}, {}, "grad mode was left unchanged by the graph, off by eager; it was put back"),
        ({}, {"grad mode": "off"}, "grad mode was left off by the graph, unchanged by eager; it was put back"),
    ],
)
def test_a_setting_that_the_runs_left_otherwise_is_told(eager, graph, words):
    runs = run(global_changes=eager), run(global_changes=graph)

    assert told(*runs) == [f"global state: {words}"]
    assert told(*runs, without("global state")) == []
    assert told(runs[0], runs[0]) == []


def test_outputs_that_share_memory_with_an_input_in_one_run_alone_are_told():
    runs = run(sharing={"output": frozenset({("input 0", 0)})}), run(sharing={"output": frozenset()})

    assert [line.partition(":")[0] for line in told(*runs)] == ["aliasing"]
    assert told(*runs, without("aliasing")) == []


def test_gradients_that_the_graph_lacks_are_told():
    assert told(run(gradients={"w": torch.ones(2)}), RUN) == [
        "gradient: gradient of w exists in eager; the graph has no such parameter"
    ]
    assert told(RUN, run(gradients={"w": torch.ones(2)})) == []  # eager computed none


def second(value: float = 1.0, error: Exception | None = None, size: float = 1.0) -> SecondOutput:
    return SecondOutput(None if error else torch.tensor([value, size]), error, None if error else NO_STATE)


@pytest.mark.parametrize(
    ("eager", "graph", "words"),
    [
        (second(), second(2.0), "value: output of a second call[0] "),
        (second(), second(error=KeyError("x")), "error: a second call of the graph raised KeyError: 'x'; eager ran"),
        (second(error=KeyError("x")), second(), "error: a second call of eager raised KeyError: 'x'; the graph ran"),
    ],
)
def test_a_second_call_that_differs_is_told(eager, graph, words):
    runs = run(second_output=eager), run(second_output=graph)

    (line,) = told(*runs)
    assert line.startswith(words.replace("[0] ", ""))
    assert told(*runs, without("second call")) == []


@pytest.mark.parametrize(
    ("eager", "graph"),
    [
        (second(), None),
        (None, second()),
        (second(error=KeyError("x")), second(error=KeyError("x"))),
        (second(), second(1 + 1e-6)),
        (second(0.0, size=100.0), second(5e-5, size=100.0)),  # the rounding of the largest value
    ],
)
def test_a_second_call_that_one_run_lacks_or_that_differs_by_rounding_is_no_difference(eager, graph):
    assert told(run(second_output=eager), run(second_output=graph)) == []


@pytest.mark.parametrize(("number", "word"), [(1, "second"), (2, "third"), (3, "4th")])
def test_the_first_call_in_a_row_that_differs_is_told(number, word):
    def calls(values: list[float]) -> SecondOutput | None:
        return replace(second(values[0]), next=calls(values[1:])) if values else None

    runs = run(second_output=calls([1.0] * 5)), run(second_output=calls([1.0] * (number - 1) + [2.0, 3.0]))

    (line,) = told(*runs)
    assert line.startswith(f"value: output of a {word} call ")


def test_state_after_a_second_call_is_compared_by_the_rounding_of_its_largest_value():
    def calls(value: float) -> SecondOutput:
        changed = {"b": StateTensor("b", "buffer", torch.tensor([value, 100.0]))}
        return replace(second(), state=StateAfter(frozenset({"b"}), changed, {}))

    runs = run(second_output=calls(1.0)), run(second_output=calls(2.0))
    (line,) = told(*runs)
    assert line.startswith("state: buffer b after a second call has other values")
    assert told(*runs, without("state")) == []
    assert told(runs[0], run(second_output=calls(1.0 + 5e-4))) == []
    assert told(runs[0], run(second_output=calls(1.0 + 2e-3))) != []
    assert told(runs[0], run(second_output=calls(4.0)), loosely=True) == []
    assert told(runs[0], run(second_output=calls(8.0)), loosely=True) != []
    assert told(runs[0], run(second_output=second())) != []
    assert told(runs[0], run(second_output=replace(second(), state=None))) == []


def test_an_input_that_grew_is_told_by_its_parts():
    given = Arguments(([torch.ones(1)],), {})
    grown = Arguments(([torch.ones(1), torch.ones(1)],), {})

    (found,) = differences_of_runs(run(arguments=given), run(arguments=grown), given, COMPARISON, loosely=False)
    assert found.sentence() == (
        "input 0 differs after the calls: it has 1 parts in eager, 2 in the graph; eager lacks [1]"
    )


@pytest.mark.parametrize(
    ("in_eager", "in_graph", "words"),
    [
        ([torch.ones(1), torch.ones(1)], [torch.ones(1), torch.zeros(1)],
         "input 0[1] differs after the calls: it has other values in the graph than in eager"),
        ([torch.ones(1)], [4], "input 0[0] differs after the calls: it is Tensor in eager, int in the graph"),
        ([4], [torch.ones(1)], "input 0[0] differs after the calls: it is int in eager, Tensor in the graph"),
    ],
)  # fmt: skip
def test_a_part_of_an_input_that_was_no_tensor_before_or_after_is_told(in_eager, in_graph, words):
    given = Arguments(([torch.ones(1)],), {})
    runs = (run(arguments=Arguments((parts,), {})) for parts in (in_eager, in_graph))

    assert [each.sentence() for each in differences_of_runs(*runs, given, COMPARISON, loosely=False)] == [words]


def test_a_second_call_may_be_compared_loosely():
    runs = run(second_output=second()), run(second_output=second(1.01))

    assert told(*runs) != []
    assert told(*runs, loosely=True) == []
    assert told(runs[0], run(second_output=second(1.2)), loosely=True) != []


def test_a_difference_of_the_first_call_hides_the_second():
    runs = run(output=torch.zeros(2), second_output=second()), run(second_output=second(2.0))

    assert len(told(*runs)) == 1
    assert told(*runs)[0].startswith("value: output ")


def test_state_is_compared_where_it_is_among_the_checks():
    changed = StateAfter(
        frozenset({"b"}), {"b": StateTensor("b", "buffer", torch.ones(2))}, {"b": ("buffer b", ["is frozen"])}
    )
    known = replace(NO_STATE, known=frozenset({"b"}))

    assert told(run(state=changed), run(state=known)) == [
        "state: buffer b was changed by eager, not by the graph",
        "state: buffer b is frozen, after eager's call, not after the graph's",
    ]
    assert told(run(state=changed), run(state=known), without("state")) == []
