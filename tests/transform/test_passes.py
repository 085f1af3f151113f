"""A pass gets what it asks for, and what it returns is taken for what it is."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

import fxcore
from fixtures.lowered import EdgeProgramManager
from pytest_fxgraph.errors import SubjectError
from pytest_fxgraph.transform.passes import Applied, _form_asked_for, apply_step, name_of_step


def exported() -> torch.export.ExportedProgram:
    return torch.export.export(nn.Sequential(nn.Linear(4, 3), nn.ReLU()), (torch.ones(2, 4),), strict=False)


def traced() -> torch.fx.GraphModule:
    return torch.fx.symbolic_trace(nn.Sequential(nn.Linear(4, 3), nn.ReLU()))


GIVEN: list[Any] = []


@pytest.fixture(autouse=True)
def nothing_given():
    GIVEN.clear()


class OnModules:
    def __call__(self, graph_module: torch.fx.GraphModule) -> None:
        GIVEN.append(graph_module)


class OnPrograms:
    def __call__(self, program: torch.export.ExportedProgram) -> None:
        GIVEN.append(program)


def on_text(graph: torch.fx.Graph) -> None:
    GIVEN.append(graph)


def on_either(subject: torch.fx.GraphModule | torch.export.ExportedProgram) -> None:
    GIVEN.append(subject)


def named(program: Any, *, verbose: bool = False) -> None:
    GIVEN.append(program)


def of_anything(graph_module: Any) -> None:
    GIVEN.append(graph_module)


def of_an_object(program: object) -> None:
    GIVEN.append(program)


PROGRAM, MODULE, GRAPH = "ExportedProgram", "GraphModule", "Graph"


@pytest.mark.parametrize(
    ("step", "asked"),
    [
        (OnModules(), MODULE),
        (OnPrograms(), PROGRAM),
        (on_text, GRAPH),
        (on_either, PROGRAM),
        (named, PROGRAM),
        (partial(named, verbose=True), PROGRAM),
        (of_anything, MODULE),
        (of_an_object, PROGRAM),
        (lambda gm: GIVEN.append(gm), MODULE),
        (lambda graph_module: GIVEN.append(graph_module), MODULE),
        (lambda anything: GIVEN.append(anything), PROGRAM),
        (GIVEN.append, PROGRAM),
    ],
)
def test_of_a_program_a_pass_is_given_the_part_that_it_asks_for(step, asked):
    program = exported()
    parts = {PROGRAM: program, MODULE: program.graph_module, GRAPH: program.graph}

    applied = apply_step(step, program)

    assert len(GIVEN) == 1
    assert GIVEN[0] is parts[asked]
    assert type(applied.made).__name__ == PROGRAM


def test_of_a_graph_module_a_pass_is_given_itself_or_its_graph():
    graph_module = traced()

    apply_step(lambda program: GIVEN.append(program), graph_module)
    apply_step(on_text, graph_module)
    apply_step(lambda subject: GIVEN.append(subject), graph_module, "graph")

    assert [id(each) for each in GIVEN] == [id(graph_module), id(graph_module.graph), id(graph_module.graph)]
    with pytest.raises(SubjectError, match=r"OnPrograms asks for an exported program, .*with trace='export'"):
        apply_step(OnPrograms(), graph_module)


def test_a_pass_of_graphs_need_not_recompile():
    def to_tanh(graph: torch.fx.Graph) -> None:
        relu = next(node for node in graph.nodes if node.target == "1")
        relu.op, relu.target = "call_function", torch.tanh

    made = apply_step(to_tanh, traced()).made

    assert "tanh" in made.code


def test_a_new_graph_gets_the_modules_of_the_old_one():
    def anew(graph: torch.fx.Graph) -> torch.fx.Graph:
        made = torch.fx.Graph()
        made.output(made.graph_copy(graph, {}))
        return made

    made = apply_step(anew, exported().module()).made

    assert made(torch.ones(2, 4))[0].shape == (2, 3)  # a new graph returns what its output node says


@pytest.mark.parametrize("claim", [True, False])
def test_the_result_of_a_pass_is_read_whoever_defined_it(claim):
    graph_module = traced()
    applied = apply_step(lambda gm: SimpleNamespace(graph_module=gm, modified=claim), graph_module)

    assert applied.made is graph_module
    assert applied.modified is claim


def test_a_program_that_becomes_a_module_is_called_as_that():
    applied = apply_step(lambda program: program.module(), exported())

    assert isinstance(applied.made, torch.fx.GraphModule)
    assert applied.graph_call(applied.made).call is applied.made


class OfAnything(torch.fx.Transformer):
    def __init__(self, anything: Any) -> None:
        super().__init__(anything)


def test_interpreters_run_programs_with_what_their_model_took():
    class Doubling(torch.fx.Interpreter):
        def run(self, *args: Any, **kwargs: Any) -> Any:
            return super().run(*args, **kwargs) * 2

    program, x = exported(), torch.linspace(-1, 1, 8).reshape(2, 4)

    applied = apply_step(Doubling, program)

    assert torch.equal(applied.graph_call(applied.made).call(x), program.module()(x) * 2)
    assert type(apply_step(OfAnything, program).made).__name__ == PROGRAM
    assert apply_step(lambda given: given, program).made is program


def test_a_pass_that_changes_one_program_of_a_set_changes_the_set():
    program = exported()
    found = {}

    for claims in ((True, False), (False, False), (None, None), (None, False), (None, True)):
        left = [*claims]

        def claiming(graph_module: torch.fx.GraphModule, left: Any = left) -> Any:
            modified = left.pop(0)
            return None if modified is None else SimpleNamespace(graph_module=graph_module, modified=modified)

        applied = apply_step(claiming, EdgeProgramManager({"first": program, "second": program}))
        found[claims] = applied.modified

    assert [*found.values()] == [True, False, None, False, True]
    assert applied.has_own_graph


@pytest.mark.parametrize("kind", ["Transformer", "Interpreter"])
def test_interpreters_of_another_package_are_refused_with_the_way_out(kind):
    with pytest.raises(SubjectError, match=rf"{kind} is a {kind} of torch\.fx, .* none of torch\.fx; .*trace='torch'"):
        apply_step(getattr(torch.fx, kind), fxcore.symbolic_trace(nn.Sequential(nn.ReLU())))
    with pytest.raises(SubjectError, match=rf"{kind} is a {kind} of fxcore, .* none of fxcore; .*trace='fxcore'"):
        apply_step(getattr(fxcore, kind), traced())


def test_other_results_are_refused():
    with pytest.raises(SubjectError, match=r"<lambda> returned str; a transform returns a module, a graph, an exp"):
        apply_step(lambda program: "done", exported())


def test_a_partial_is_named_by_its_function():
    assert name_of_step(partial(named, verbose=True)) == "named"
    assert name_of_step(OnModules()) == "OnModules"


def test_the_name_of_a_pass_is_one_line_that_no_build_obeys():
    def transform(gm):
        return gm

    transform.__name__ = "a pass\n::error file=x.py::y"
    inner = partial(transform)

    assert name_of_step(transform) == name_of_step(inner) == "a pass\\n::error file=x.py::y"
    transform.__name__ = "::error::y"
    assert name_of_step(transform) == "\\x3a:error::y"


def test_no_message_about_a_pass_begins_a_line_with_its_name():
    def transform(gm):
        return 3

    transform.__name__ = "a pass\n::error::y"

    with pytest.raises(SubjectError) as caught:
        apply_step(transform, traced())

    assert not any(line.startswith("::") for line in str(caught.value).splitlines())


def test_a_name_that_cannot_be_read_is_replaced_by_the_class():
    class Step:
        @property
        def __name__(self) -> str:
            raise RuntimeError("no name yet")

        def __call__(self, graph_module: torch.fx.GraphModule) -> None:
            GIVEN.append(graph_module)

    assert name_of_step(Step()) == "Step"


def test_a_pass_that_returns_the_graph_of_its_module_changed_that_module():
    module = traced()
    applied = apply_step(lambda gm: gm.graph, module)

    assert applied.made is module
    assert applied.call is None


def test_a_graph_of_another_package_keeps_the_modules_of_its_owner():
    other = fxcore.symbolic_trace(nn.Sequential(nn.Linear(4, 3), nn.Tanh()))

    assert apply_step(lambda gm: other.graph, traced()).made is other


class Kept:
    def __new__(cls, graph_module: torch.fx.GraphModule) -> torch.fx.GraphModule:
        return graph_module


def test_a_class_that_is_no_interpreter_is_called():
    module = traced()

    assert apply_step(Kept, module).made is module


def test_a_pass_without_a_parameter_gets_the_default_form():
    asked = {form: _form_asked_for(lambda: None, form) for form in ("module", "program")}

    assert asked == {"module": "module", "program": "program"}
    assert _form_asked_for(max, "graph") == "graph"


def test_a_pass_of_the_module_of_a_program_returns_a_graph():
    def to_module(graph_module: torch.fx.GraphModule) -> nn.Module:
        return nn.Linear(4, 3)

    with pytest.raises(SubjectError, match="to_module returned Linear; a transform returns a module, a graph, an expo"):
        apply_step(to_module, exported())


def test_a_graph_that_is_run_itself_is_told_from_a_function_that_runs_for_it():
    given, module = fxcore.symbolic_trace(nn.ReLU()), nn.ReLU()
    calls = (None, given, module, torch.relu)

    applied = [Applied(given, call) for call in calls]

    assert [each.has_own_graph for each in applied] == [True, True, False, False]
    # The state is that of the module that runs; a function has none.
    assert [each.graph_call(given).graph for each in applied] == [given, given, module, given]
    assert [each.graph_call(given).call for each in applied] == [given, given, module, torch.relu]


def test_a_method_has_its_own_name():
    assert name_of_step(OnModules().__call__) == "__call__"
    assert name_of_step(partial(OnModules().__call__)) == "__call__"
