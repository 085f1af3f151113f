from __future__ import annotations

import os

import pytest
import torch
from torch import nn

import fxcore
from fixtures import exported_archives as archives
from fixtures.lowered import EdgeProgramManager
from fxcore import interop
from pytest_fxgraph import assert_equivalent, assert_ops, check_transform, diff_graphs, structural_hash
from pytest_fxgraph.captures import subjects
from pytest_fxgraph.captures.capture import JoinedGraphs
from pytest_fxgraph.captures.subjects import (
    UnknownModule,
    loaded_program,
    programs_of,
    to_graph_module,
    to_graph_with_operators,
)
from pytest_fxgraph.errors import ArchiveError, SubjectError


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
        self.scale = nn.Parameter(torch.ones(3))

    def forward(self, x):
        return self.block(x) * self.scale


def test_a_graph_module_is_handed_on():
    graph_module = fxcore.symbolic_trace(Net())

    assert to_graph_module(graph_module) is graph_module


def test_a_graph_that_has_an_owner_comes_as_its_owner():
    graph_module = fxcore.symbolic_trace(Net())

    assert to_graph_module(graph_module.graph) is graph_module


def test_a_bare_graph_gets_modules_that_know_nothing():
    graph = fxcore.Tracer().trace(Net())

    graph_module = to_graph_module(graph)

    assert graph_module.graph is graph
    assert type(graph_module.get_submodule("block.0")) is UnknownModule


def test_modules_and_functions_are_traced():
    assert [node.op for node in to_graph_module(Net()).graph.nodes][:2] == ["placeholder", "call_module"]
    assert len(to_graph_module(lambda x: torch.relu(x)).graph.nodes) == 3


@pytest.mark.parametrize("part", ["module", "graph"])
def test_graphs_of_torch_keep_their_modules(part):
    of_torch = interop.to_torch(fxcore.symbolic_trace(Net()))

    graph_module = to_graph_module(of_torch if part == "module" else of_torch.graph)

    assert isinstance(graph_module, fxcore.GraphModule)
    assert graph_module.scale is of_torch.scale


def test_an_exported_program_comes_with_its_state():
    model = Net()
    program = torch.export.export(model, (torch.zeros(2, 4),))

    graph_module = to_graph_module(program)

    inputs = torch.randn(2, 4)
    assert torch.equal(graph_module(inputs), model(inputs))
    assert sorted(dict(graph_module.named_parameters())) == sorted(dict(model.named_parameters()))


def test_the_adapter_is_asked_before_a_module_is_traced_but_not_about_graphs():
    asked = []

    def adapt(obj):
        asked.append(obj)
        return fxcore.symbolic_trace(nn.Sequential(nn.ReLU()))

    graph_module = fxcore.symbolic_trace(Net())
    to_graph_module(graph_module, adapt)
    adapted = to_graph_module(Net(), adapt)

    assert len(asked) == 1
    assert [node.op for node in adapted.graph.nodes] == ["placeholder", "call_module", "output"]


def test_an_adapter_that_returns_its_argument_is_not_asked_for_ever():
    assert to_graph_module(Net(), lambda obj: obj).graph is not None


@pytest.mark.parametrize("subject", [3, "text", None, torch.zeros(2), {"a": 1}, object()])
def test_what_is_no_subject_is_refused_by_its_class(subject):
    with pytest.raises(SubjectError, match=r"is no subject; expected a torch\.nn\.Module, a function, a Graph"):
        to_graph_module(subject)


def test_a_class_is_refused_for_an_instance():
    with pytest.raises(SubjectError, match="the class Net is no subject; hand over an instance of it"):
        to_graph_module(Net)


def test_an_unflattened_program_is_the_graph_that_it_runs():
    program = torch.export.export(Net(), (torch.ones(2, 4),))

    graph_module = to_graph_module(torch.export.unflatten(program))

    assert [node.target for node in graph_module.graph.nodes if node.op == "call_module"] == ["block"]
    assert not isinstance(graph_module.block, fxcore.GraphModule)
    assert graph_module.scale.shape == (3,)


def test_an_exported_program_is_asked_for_operators_as_it_is():
    program = torch.export.export(Net(), (torch.ones(2, 4),))

    graph = to_graph_with_operators(program).graph

    assert [node.name for node in graph.nodes] == [node.name for node in program.graph.nodes]
    assert not any(node.op == "get_attr" for node in graph.nodes)


def test_managers_and_dicts_hold_programs_in_the_order_of_their_names():
    programs = {"prefill": 1, "decode": 2}

    assert list(programs_of(EdgeProgramManager(programs)).items()) == [("decode", 2), ("prefill", 1)]
    assert programs_of(programs) == programs


@pytest.mark.parametrize("subject", [nn.ReLU(), nn.ModuleDict({"a": nn.ReLU()}), len, 3, [1]])
def test_what_is_one_graph_is_no_set(subject):
    assert programs_of(subject) is None


def test_a_set_without_programs_or_names_is_refused():
    with pytest.raises(SubjectError, match="a dict without a program is no subject"):
        programs_of({})
    with pytest.raises(SubjectError, match="its keys are names of programs, got 3"):
        programs_of({3: nn.ReLU()})


LINEAR = nn.Linear(4, 4).eval()
EXPORTED = torch.export.export(LINEAR, (torch.ones(2, 4),))
QUESTIONS = [
    to_graph_module,
    to_graph_with_operators,
    structural_hash,
    lambda subject: diff_graphs(EXPORTED, subject),
    lambda subject: assert_ops(subject, count={"aten.linear*": 1}),
    lambda subject: assert_equivalent(LINEAR, subject, torch.ones(2, 4)),
    lambda subject: assert_equivalent(subject, LINEAR, torch.ones(2, 4)),
]


@pytest.mark.parametrize("ask", QUESTIONS)
@pytest.mark.parametrize("make", [dict, EdgeProgramManager])
def test_a_set_of_one_program_stands_for_it_and_of_several_one_is_asked_for(ask, make):
    ask(make({"forward": EXPORTED}))

    with pytest.raises(SubjectError, match=r"\(decode, encode\) is no single graph; hand over one of them: .*'decode'"):
        ask(make({"encode": EXPORTED, "decode": EXPORTED}))


def test_a_hook_is_asked_about_a_set_before_its_programs_are():
    both = EdgeProgramManager({"encode": EXPORTED, "decode": EXPORTED})

    found = to_graph_with_operators(both, lambda subject: subject.exported_program("encode"))

    assert [node.op for node in found.graph.nodes].count("call_function") == 1


@pytest.mark.parametrize("save", [archives.saved, archives.saved_as_by_torch_2_6])
def test_the_path_of_an_archive_is_its_program(tmp_path, save):
    path = save(tmp_path / "model.pt2")
    program = archives.program()

    for subject in (path, str(path)):
        assert diff_graphs(program, subject).is_empty
        assert structural_hash(subject) == structural_hash(torch.export.load(path))
    assert not diff_graphs(archives.program(archives.Scaled(3.0)), path).is_empty


def test_a_program_without_constants_of_its_own_keeps_its_hash_in_a_file(tmp_path):
    torch.export.save(EXPORTED, tmp_path / "model.pt2")

    assert structural_hash(tmp_path / "model.pt2") == structural_hash(EXPORTED)


def test_the_program_of_a_path_runs_and_is_transformed(tmp_path):
    path = archives.saved(tmp_path / "model.pt2")

    assert_ops(path, count={"aten.linear*": 1})
    assert_equivalent(path, torch.export.load(path), torch.ones(2, 4))
    assert_equivalent(torch.export.load(path).module(), path, torch.ones(2, 4))
    decomposed = check_transform(lambda program: program.run_decompositions(), path, torch.ones(2, 4))
    assert not decomposed.difference.is_empty


def test_an_archive_that_executes_is_no_subject_unless_its_user_loads_it(tmp_path):
    path = archives.with_pickled_inputs(archives.saved(tmp_path / "model.pt2"), tmp_path / "created")

    with pytest.raises(ArchiveError, match=r"author, load it by torch\.export\.load, and hand over the program$"):
        diff_graphs(path, path)
    assert not (tmp_path / "created").exists()


def test_reading_an_archive_leaves_the_environment_as_it_was(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    monkeypatch.delenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", raising=False)
    before = dict(os.environ)

    loaded_program(archives.saved(tmp_path / "model.pt2"))

    assert dict(os.environ) == before


@pytest.mark.parametrize(("error", "reason"), [(ValueError("no zip\nat 3"), "no zip"), (MemoryError(), "MemoryError")])
def test_an_archive_that_torch_does_not_load_is_refused_with_the_first_line_of_the_reason(monkeypatch, error, reason):
    def load(path):
        raise error

    monkeypatch.setattr("pytest_fxgraph.captures.subjects.check_archive", lambda *given, **options: None)
    monkeypatch.setattr(torch.export, "load", load)

    with pytest.raises(ArchiveError, match=rf"cannot read a.pt2: torch .* does not load it: {reason}; load it by the"):
        loaded_program("a.pt2")


@pytest.mark.parametrize(
    ("example", "verified"),
    [
        ({}, None),
        ({"example_kwargs": {}}, None),
        ({"example_inputs": (3,)}, True),
        ({"example_kwargs": {"x": 3}}, True),
        ({"example_inputs": (3,), "example_kwargs": {"y": 3}}, True),
    ],
)
def test_a_model_is_traced_with_the_example_that_there_is(monkeypatch, example, verified):
    traced = []
    monkeypatch.setattr(subjects, "trace", lambda model: traced.append(None))
    monkeypatch.setattr(subjects, "trace_for_inputs", lambda model, inputs, kwargs, *, verify: traced.append(verify))

    subjects.to_graph_module(nn.ReLU(), **example)

    assert traced == [verified]


class Manager:
    methods = ("b", "a")

    def exported_program(self, name):
        return f"program {name}"


class WithoutPrograms:
    methods = ("a",)
    exported_program = None


class WithoutMethods:
    def exported_program(self, name):
        raise NotImplementedError


def test_programs_are_those_of_a_manager_or_a_dict_by_name():
    assert subjects.programs_of(Manager()) == {"a": "program a", "b": "program b"}
    assert [*subjects.programs_of(Manager())] == ["a", "b"]
    assert subjects.programs_of(WithoutPrograms()) is subjects.programs_of(WithoutMethods()) is None
    with pytest.raises(SubjectError, match=r"them: \.exported_program\('a'\)\."):
        subjects.only_program(Manager())
    with pytest.raises(SubjectError, match=r"them: \['a'\]\."):
        subjects.only_program({"b": 1, "a": 2})


@pytest.mark.parametrize("trusts", [None, False, True])
def test_pickles_are_loaded_for_weights_alone_unless_the_file_is_trusted(monkeypatch, trusts):
    export = pytest.importorskip("torch.export")
    name = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
    monkeypatch.delenv(name, raising=False)
    checked = []
    monkeypatch.setattr(subjects, "check_archive", lambda path, *, trusts, remedy: checked.append(trusts))
    monkeypatch.setattr(export, "load", lambda path: (path, os.environ.get(name)))

    found = subjects.loaded_program("a.pt2", **({} if trusts is None else {"trusts": trusts}))

    assert found == ("a.pt2", None if trusts else "1")
    assert checked == [bool(trusts)]


class Other:
    """An object that an adapter knows."""


class Calls:
    def __call__(self, x):
        return x


class Joined(JoinedGraphs):
    def __call__(self, x):
        raise NotImplementedError

    def as_graph_module(self):
        raise NotImplementedError


RELU, OTHER, CALLS = nn.ReLU(), Other(), Calls()


def doubled(x):
    return x * 2


@pytest.mark.parametrize(
    ("subject", "adapted", "model"),
    [
        (OTHER, RELU, RELU),
        (OTHER, None, OTHER),
        (CALLS, RELU, RELU),
        (RELU, OTHER, RELU),
        (doubled, OTHER, doubled),
        (Manager().exported_program, OTHER, None),
    ],
)
def test_the_model_of_a_subject_is_itself_or_what_an_adapter_makes(subject, adapted, model):
    assert subjects.model_of(subject, lambda obj: adapted) is (subject if model is None else model)
    assert subjects.model_of(subject) is subject


@pytest.mark.parametrize(
    ("subject", "adapted", "is_model"),
    [
        (RELU, None, True),
        (RELU, RELU, True),
        (RELU, OTHER, False),
        (doubled, None, True),
        (CALLS, None, True),
        (OTHER, None, False),
        (nn.ReLU, None, False),
        (Joined(), None, False),
        (fxcore.symbolic_trace(nn.ReLU()), None, False),
        (torch.fx.symbolic_trace(nn.ReLU()), None, False),
    ],
)
def test_a_model_has_no_graph_and_no_adapter_makes_one(subject, adapted, is_model):
    assert subjects.is_model(subject, lambda obj: adapted) is is_model
    assert adapted is not None or subjects.is_model(subject) is is_model


def test_a_model_whose_forward_interprets_a_graph_has_one():
    unflatten = pytest.importorskip("torch.export.unflatten")
    program = torch.export.export(nn.Sequential(nn.ReLU()), (torch.ones(2),), strict=False)

    assert not subjects.is_model(unflatten.unflatten(program))


def test_graphs_of_both_libraries_are_graphs():
    graphs = [made.symbolic_trace(nn.ReLU()) for made in (fxcore, torch.fx)]

    assert [subjects.is_graph(each.graph) for each in graphs] == [True, True]
    assert [subjects.is_graph(each) for each in (*graphs, OTHER)] == [False] * 3
