"""A mismatch is written as a script that calls assert_equivalent as the test did."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import fxcore
from pytest_fxgraph.equivalence.fixture import FxEquivalence
from pytest_fxgraph.equivalence.mismatch import Mismatch
from pytest_fxgraph.equivalence.repro import ReproductionFolder
from pytest_fxgraph.errors import MismatchError


def relu(x):
    return torch.relu(x)


def wrong_graph() -> fxcore.GraphModule:
    return fxcore.symbolic_trace(lambda x: torch.neg(x))


def script_of(tmp_path, **options) -> str:
    equivalence = FxEquivalence(reproduction=ReproductionFolder(tmp_path, "test_x.py::test_x"))
    with pytest.raises(MismatchError):
        equivalence(relu, torch.ones(2), graph=wrong_graph(), **options)
    (script,) = tmp_path.glob("*/repro.py")
    text = script.read_text()
    compile(text, "repro.py", "exec")
    return text


def test_a_script_without_options_is_the_call_alone(tmp_path):
    text = script_of(tmp_path)

    assert 'assert_equivalent(state["model"], graph, state["args"], kwargs=state["kwargs"])' in text
    assert "with " not in text.partition("try:")[2]


def test_the_script_has_the_tolerance_and_the_seed_of_the_sample(tmp_path):
    assert "rtol=0.5, atol=0.25, seed=7)" in script_of(tmp_path, rtol=0.5, atol=0.25, seed=7)


def test_the_script_compares_as_the_test_did(tmp_path):
    options = {"rtol": {"output": 0.5, "*": 0.25}, "sqnr": 80.0, "checks": ("values",), "fp64_reference": True}

    text = script_of(tmp_path, **options)

    assert "rtol={'output': 0.5, '*': 0.25}, sqnr=80.0, checks=('values',), fp64_reference=True)" in text


def test_the_script_runs_both_in_the_modes_of_the_test(tmp_path):
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        text = script_of(tmp_path)

    assert 'with torch.autocast("cpu", torch.bfloat16), torch.no_grad():\n        assert_equivalent(' in text


def test_a_second_mismatch_of_a_test_has_a_folder_of_its_own(tmp_path):
    equivalence = FxEquivalence(reproduction=ReproductionFolder(tmp_path, "test_x.py::test_x"))

    for _ in range(2):
        with pytest.raises(MismatchError, match="to reproduce it without the tests: python "):
            equivalence(relu, torch.ones(2), graph=wrong_graph())

    first, second = sorted(path.name for path in tmp_path.iterdir())
    assert second == f"{first}-2"


def test_the_script_runs_in_inference_mode_as_the_test_did(tmp_path):
    with torch.inference_mode():
        text = script_of(tmp_path)

    assert "with torch.inference_mode():\n        assert_equivalent(" in text


CALLS = []


def times_the_calls(x):
    CALLS.append(x.shape)
    return x * len(CALLS)


def test_the_script_calls_twice_where_a_function_may_keep_state(tmp_path):
    equivalence = FxEquivalence(reproduction=ReproductionFolder(tmp_path, "test_x.py::test_x"))
    graph = fxcore.Graph()
    graph.output(graph.call_function(times_the_calls, (graph.placeholder("x"),)))

    with pytest.raises(MismatchError):
        equivalence(relu, torch.ones(2), graph=fxcore.GraphModule({}, graph))

    (script,) = tmp_path.glob("*/repro.py")
    assert "for _ in range(2):\n        assert_equivalent(" in script.read_text()


def test_a_script_imports_pytree_for_nested_inputs_alone(tmp_path):
    assert "fx_pytree" not in script_of(tmp_path)


def test_a_script_begins_with_the_mismatch_in_words(tmp_path):
    assert "eager and graph differ" in script_of(tmp_path).split("\n")[0]


def called_lambda() -> fxcore.GraphModule:
    graph = fxcore.Graph()
    graph.output(graph.call_function(lambda x: -x, (graph.placeholder("x"),)))
    return fxcore.GraphModule({}, graph)


def test_a_function_that_cannot_be_imported_has_a_line_to_fill_in(tmp_path):
    equivalence = FxEquivalence(reproduction=ReproductionFolder(tmp_path, "test_x.py::test_x"))
    with pytest.raises(MismatchError):
        equivalence(relu, torch.ones(2), graph=called_lambda())
    (script,) = tmp_path.glob("*/repro.py")

    assert "cannot be imported: put it here" in script.read_text()


def test_a_model_of_another_file_is_imported_from_its_folder(tmp_path):
    folder = Path(__file__).parents[relu.__module__.count(".")]

    assert f"sys.path.insert(0, {str(folder)!r})" in script_of(tmp_path)


def test_a_mismatch_that_no_script_shows_has_none(tmp_path):
    folder = ReproductionFolder(tmp_path, "test_x.py::test_x")
    written = folder.write(
        "words", relu, torch.nn.ReLU(), None, None, {}, None, [Mismatch("value", "output", "is off")]
    )
    code = folder.write("words", relu, wrong_graph(), None, None, {}, None, [Mismatch("code", "forward", "is off")])

    assert (written, code) == (None, None)
    assert [*tmp_path.iterdir()] == []
