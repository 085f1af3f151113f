"""A mismatch is written as a script that calls assert_equivalent as the test did."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import fxcore
from fxcore.state.held_state import HeldState
from fxcore.state.snapshot import Snapshot
from pytest_fxgraph.equivalence.fixture import FxEquivalence
from pytest_fxgraph.equivalence.inputs import Arguments
from pytest_fxgraph.equivalence.mismatch import Mismatch
from pytest_fxgraph.equivalence.repro import ReproductionFolder
from pytest_fxgraph.equivalence.run import InterpreterCall, RunSettings
from pytest_fxgraph.equivalence.state_changes import StateNames
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


def test_a_later_run_writes_over_the_script_of_an_earlier_one(tmp_path):
    first, second = (script_of(tmp_path, seed=seed) for seed in (7, 8))

    assert "seed=7" in first
    assert "seed=8" in second


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


def test_the_folder_is_named_by_the_end_of_the_test_and_made_with_its_parents(tmp_path):
    equivalence = FxEquivalence(reproduction=ReproductionFolder(tmp_path / "a" / "b", "-" + "x" * 60 + "y[é]" * 20))
    with pytest.raises(MismatchError):
        equivalence(relu, torch.ones(2), graph=wrong_graph())
    (folder,) = (tmp_path / "a" / "b").iterdir()

    name, _, digest = folder.name.rpartition("-")
    assert name == ("x" * 60 + "y-" * 20)[-80:].strip("-")
    assert len(digest) == 8


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (relu, "the model, what the graph reads, and the inputs"),
        (lambda x: torch.relu(x), "what the model returned: the model itself could not be pickled"),
    ],
)
def test_a_script_tells_what_its_state_holds(tmp_path, model, words):
    equivalence = FxEquivalence(reproduction=ReproductionFolder(tmp_path, "test_x.py::test_x"))
    with pytest.raises(MismatchError):
        equivalence(model, torch.ones(2), graph=wrong_graph())
    (script,) = tmp_path.glob("*/repro.py")

    assert words in " ".join(script.read_text().split())


def test_a_script_has_the_attributes_that_the_graph_reads_and_the_imports_of_its_code(tmp_path):
    graph = fxcore.Graph()
    shifted = graph.call_function(torch.add, (graph.placeholder("x"), graph.get_attr("offset")))
    graph.output(graph.call_function(torch.clamp, (shifted, -float("inf"), float("inf"))))
    module = fxcore.GraphModule({"offset": torch.ones(2)}, graph)
    module.offset, module.other = torch.ones(2), "not read"
    vars(module)["offset"] = vars(module)["_buffers"].pop("offset")
    equivalence = FxEquivalence(reproduction=ReproductionFolder(tmp_path, "test_x.py::test_x"))
    with pytest.raises(MismatchError):
        equivalence(relu, torch.ones(2), graph=module)
    (script,) = tmp_path.glob("*/repro.py")

    read = torch.load(script.with_name("state.pt"), weights_only=False)["graph"]
    assert torch.equal(read["offset"], torch.ones(2))
    assert "other" not in read
    assert "from math import inf\n" in script.read_text()


class Backwards(fxcore.Interpreter):
    """Runs a graph, and returns the negative of its output."""

    def run(self, *args, **kwargs):
        return -super().run(*args, **kwargs)


def test_a_script_runs_the_interpreter_with_inputs_by_name(tmp_path):
    graph = fxcore.symbolic_trace(lambda x, scale=2: torch.relu(x) * scale)
    settings = RunSettings(Arguments((torch.ones(2),), {}), StateNames(HeldState()), Snapshot(), 0, False)
    folder = ReproductionFolder(tmp_path, "test_x.py::test_x")
    call = InterpreterCall(Backwards, graph)

    folder.write("words", relu, graph, call, settings, {}, None, [Mismatch("value", "output", "is off")])
    (script,) = tmp_path.glob("*/repro.py")

    assert "return Backwards(self.graph_module).run(" in script.read_text()
    assert "for name in ['x', 'scale'] if name in kwargs" in script.read_text()
