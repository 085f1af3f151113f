"""All places that stand in the way of a trace, in one run."""

from __future__ import annotations

import inspect
import pickle
import sys
import threading

import pytest
import torch
from torch import nn

import fxcore
from fxcore.guided import diagnosis
from fxcore.guided.diagnosis import Diagnosis, Obstacle
from tests.fxcore.guided import test_every_failure, test_numpy_calls

PROGRAMS = [*test_every_failure.PROGRAMS, *test_numpy_calls.PROGRAMS]


class Gate(nn.Module):
    def forward(self, x):
        return x * 2 if x.sum() > 0 else x


class Mean(nn.Module):
    def forward(self, x):
        return x + float(x.mean().item())


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.gates = nn.Sequential(Gate(), Gate())
        self.mean = Mean()

    def forward(self, x):
        if x.shape[0] == 2:
            x = x + 1
        return self.mean(self.gates(x))


def test_every_place_is_found_the_most_frequent_first():
    found = fxcore.diagnose(Net(), torch.rand(2, 3))

    assert [(each.source, each.count) for each in found.obstacles] == [
        ("return x * 2 if x.sum() > 0 else x", 2),
        ("return x + float(x.mean().item())", 1),
    ]
    assert not found.is_traceable
    first = found.obstacles[0]
    assert first.file == __file__
    assert first.module_path == "gates.0"
    assert "assume={'test_diagnosis.py:" in first.cure
    assert "leaf_modules=('gates.0',)" in first.cure
    assert [str(guard) for guard in found.guards] == ["x.shape[0] == 2"]


def test_the_text_says_what_an_example_gets_past():
    text = str(fxcore.diagnose(Net(), torch.rand(2, 3)))

    assert len(text.splitlines()) <= 20
    assert text.splitlines()[-1].startswith("without example_inputs, 1 place more would stop it, such as ")


def test_a_model_that_can_be_traced_has_no_obstacles():
    found = fxcore.diagnose(nn.Linear(3, 3), torch.rand(2, 3))

    assert found.is_traceable
    assert str(found) == "nothing stands in the way of a trace with these example inputs"


def test_a_module_that_fails_is_told_with_its_line():
    class Broken(nn.Module):
        def forward(self, x):
            return x + len(str(x.tolist()))

    found = fxcore.diagnose(nn.Sequential(nn.ReLU(), Broken()), torch.rand(3))

    assert [each.source for each in found.obstacles] == ["return x + len(str(x.tolist()))"]
    assert found.obstacles[0].module_path == "1"


class Obstructed(nn.Module):
    """Stops a trace at many places, of several kinds."""

    def __init__(self):
        super().__init__()
        self.means = nn.Sequential(Mean(), Mean())

    def forward(self, x):
        sizes = torch.LongTensor(
            [x.shape[0]],
        )
        for _ in range(2):
            sizes = sizes + torch.LongTensor([x.shape[1]])
        try:
            x = x.view(7, -1)
        except RuntimeError:
            x = x + 1
        copied = pickle.loads(pickle.dumps(x))
        if copied.sum() > 0:
            x = x + copied
        return self.means(x) + sizes


def test_the_diagnosis_goes_on_behind_each_statement_that_cannot_be_traced():
    found = fxcore.diagnose(Obstructed(), torch.rand(2, 3))

    assert [(each.source, each.count, each.module_path) for each in found.obstacles] == [
        ("return x + float(x.mean().item())", 2, "means.0"),
        ("sizes = sizes + torch.LongTensor([x.shape[1]])", 2, ""),
        ("if copied.sum() > 0:", 1, ""),
        ("sizes = torch.LongTensor(", 1, ""),
        ("x = x.view(7, -1)", 1, ""),
        ("copied = pickle.loads(pickle.dumps(x))", 1, ""),
    ]
    assert found.obstacles[3].reason == "tracing raised TypeError: object of type 'int' has no len()"
    assert found.obstacles[4].reason == (
        "the traced code catches RuntimeError: shape '[7, -1]' is invalid for input of size 6"
    )
    assert sys.gettrace() is None or "value_statements" not in repr(sys.gettrace())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_a_diagnosis_raises_for_no_program_that_runs(program):
    found = fxcore.diagnose(program.call, program.example)

    assert found.is_traceable == (program.outcome != "refused")
    assert all(each.file == inspect.getsourcefile(program.call) for each in found.obstacles)


def test_a_model_that_fails_on_its_example_raises_its_own_error():
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        fxcore.diagnose(nn.Sequential(nn.Linear(3, 3), Gate()), torch.rand(2, 4))


def test_a_diagnosis_leaves_no_constant_on_the_model():
    class Constant(nn.Module):
        def forward(self, x):
            return x + torch.ones(3) if (x + torch.ones(3)).sum() > 0 else x

    model = Constant()
    before = set(vars(model))

    fxcore.diagnose(model, torch.rand(2, 3))

    assert set(vars(model)) == before


def test_a_failed_trace_names_the_other_places():
    with pytest.raises(fxcore.FxError) as refusal:
        fxcore.symbolic_trace(Net(), example_inputs=torch.rand(2, 3))

    last = str(refusal.value).splitlines()[-1]
    assert last.startswith(
        "print(fxcore.diagnose(model, example_inputs)) lists all 2 places that stop this trace, each with its cure: "
    )
    assert last.count("test_diagnosis.py:") == 2


class Norm(nn.Module):
    def forward(self, x):
        return x / float(x.norm().item())


class Power(nn.Module):
    def forward(self, x):
        return x ** float(x.max().item())


@pytest.mark.parametrize(("others", "count", "ends"), [((), 3, False), ((Power(),), 4, True)])
def test_a_failed_trace_names_three_places_at_most(others, count, ends):
    with pytest.raises(fxcore.FxError) as refusal:
        fxcore.symbolic_trace(nn.Sequential(Gate(), Mean(), Norm(), *others), example_inputs=torch.rand(2, 3))

    last = str(refusal.value).splitlines()[-1]
    assert f"lists all {count} places" in last
    assert (last.count("test_diagnosis.py:"), last.endswith(", ...")) == (3, ends)


def test_a_failed_trace_does_not_count_a_place_that_is_assumed():
    gate = f"test_diagnosis.py:{Gate.forward.__code__.co_firstlineno + 1}"
    with pytest.raises(fxcore.FxError) as refusal:
        fxcore.symbolic_trace(
            nn.Sequential(Gate(), Mean(), Norm()), example_inputs=torch.rand(2, 3), assume={gate: True}
        )

    last = str(refusal.value).splitlines()[-1]
    assert "lists all 2 places that stop this trace" in last
    assert f"{gate}," not in last


def test_a_failed_trace_with_one_place_names_no_other():
    with pytest.raises(fxcore.FxError) as refusal:
        fxcore.symbolic_trace(Gate(), example_inputs=torch.rand(2, 3))

    assert "diagnose" not in str(refusal.value)


def test_a_slow_trace_that_failed_is_not_repeated(monkeypatch):
    monkeypatch.setattr(diagnosis, "_MOST_SECONDS", 0)

    with pytest.raises(fxcore.FxError) as refusal:
        fxcore.symbolic_trace(Gate(), example_inputs=torch.rand(2, 3))

    assert str(refusal.value).splitlines()[-1] == (
        "print(fxcore.diagnose(model, example_inputs)) lists every place that stops this trace"
    )


def test_an_obstacle_in_the_result_of_forward_has_the_line_of_its_return():
    def returns_an_object(x):
        return threading.Lock(), x

    found = fxcore.diagnose(returns_an_object, torch.rand(2, 3))

    assert [each.source for each in found.obstacles] == ["return threading.Lock(), x"]


def test_a_text_of_many_obstacles_ends_with_their_number():
    obstacles = tuple(Obstacle("", "model.py", line, "", "reason", "cure") for line in range(9))

    *told, last = str(Diagnosis(obstacles, ())).splitlines()

    assert last == "and 3 more places"
    assert told == [text for each in obstacles[:6] for text in (f"model.py:{each.line}", "  reason", "  cure")]


def test_an_error_of_another_library_is_told_with_its_class():
    found = diagnosis._DiagnosingTracer([], ()).obstacle_of(ValueError("a number is needed\nmore"), "layer")

    assert (found.reason, found.file, found.module_path) == ("ValueError: a number is needed", "", "layer")


@pytest.mark.parametrize(
    ("told", "source"), [(": return lock, in what the traced function returns\nmore", "return lock"), ("", "")]
)
def test_the_place_in_a_message_is_the_place_of_the_obstacle(told, source):
    error = fxcore.FxError(f"a lock cannot be returned at model.py:12{told}")

    found = diagnosis._DiagnosingTracer([], ()).obstacle_of(error, "layer")

    assert (found.reason, found.file, found.line, found.source) == ("a lock cannot be returned", "model.py", 12, source)
