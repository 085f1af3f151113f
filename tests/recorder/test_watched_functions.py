from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
import torch.fx
from torch import nn

from pytest_fxgraph.captures.places_of_graphs import AOT_GRAPHS
from pytest_fxgraph.document.decoding import decode
from pytest_fxgraph.recorder import compilations, watched_functions
from pytest_fxgraph.recorder.watched_functions import WatchedFunctions

SUBCLASS = """
class Own(torch.fx.Tracer):
    def trace(self, root, concrete_args=None):
        return super().trace(root, concrete_args)
Own().trace(Small())
"""
IMPORTED_EARLIER = "from torch.fx import symbolic_trace\nsymbolic_trace(Small())"


@pytest.mark.parametrize(
    "body",
    [
        "torch.fx.symbolic_trace(Small())",
        "torch.fx.Tracer().trace(Small())",
        "import fxcore\nfxcore.symbolic_trace(Small())",
        "import fxcore\nfxcore.symbolic_trace(Small(), example_inputs=(torch.ones(2, 4),))",
        SUBCLASS,
        IMPORTED_EARLIER,
    ],
    ids=["symbolic_trace", "Tracer", "fxcore", "example", "subclass", "imported"],
)
def test_one_trace_is_one_record(graphs_of, body):
    assert graphs_of(body) == [("symbolic", "Small")]


def test_a_traced_function_is_recorded_under_its_name(graphs_of):
    assert graphs_of("def f(x):\n    return x + 1\ntorch.fx.symbolic_trace(f)") == [("symbolic", "test_it.<locals>.f")]


def test_the_graph_is_the_one_before_the_test_changed_it(record):
    recording = record("""
        def test_it():
            made = torch.fx.symbolic_trace(Small())
            for node in made.graph.nodes:
                if node.target is torch.relu:
                    node.target = torch.sigmoid
            made.recompile()
    """)
    [graph] = recording.tests["test_suite.py::test_it"].graphs
    text = recording.store.text(graph.graph)
    assert "torch.relu" in text
    assert [node.op for node in decode(text, "the graph").nodes] == [
        *("placeholder", "call_module", "call_function", "output"),
    ]


@pytest.mark.parametrize("strict", [True, False])
def test_an_export_is_one_record_whatever_torch_traces_inside(graphs_of, strict):
    body = f"torch.export.export(Small(), (torch.ones(2, 4),), strict={strict})"
    assert graphs_of(body) == [("export", "Small")]


def test_make_fx_is_recorded_for_the_user_and_not_for_torch(graphs_of):
    body = """
        from torch.fx.experimental.proxy_tensor import make_fx
        make_fx(lambda x: x + 1)(torch.ones(2, 4))
        make_fx(torch.func.vmap(torch.sin))(torch.ones(2, 4))
    """
    assert [kind for kind, _ in graphs_of(body)] == ["make_fx", "make_fx"]


def test_dynamo_and_aot_are_recorded_in_their_order(graphs_of):
    body = 'torch.compile(Small(), backend="aot_eager")(torch.ones(2, 4)).sum().backward()'
    assert graphs_of(body) == [("dynamo", "Small"), ("aot", "Small"), ("aot", "Small")]


def test_fixtures_have_one_record_for_each_graph_that_they_get(record):
    source = """
        def test_it(fx_trace, fx_capture, fx_equivalence, fx_transform):
            x = torch.ones(2, 4)
            fx_trace(Small())
            fx_capture(Broken(), x)
            fx_capture(Small(), x, frontend="export")
            fx_equivalence(Small(), x, allow_vacuous=True)
            fx_transform(torch.fx.Transformer, Small(), x, trace="torch", allow_vacuous=True)

        def test_golden(fx_golden):
            assert Small() == fx_golden

        def test_table(fx_table):
            assert Small() == fx_table
    """
    recording = record(source, "--fx-update-golden")
    record.result.assert_outcomes(passed=3)
    graphs = recording.tests["test_suite.py::test_it"].graphs
    assert [(each.kind, each.model.removeprefix("test_suite.")) for each in graphs] == [
        *(
            ("fixture", "Small"),
            ("fixture", "Broken"),
            ("fixture", "Small"),
            ("fixture", "Small"),
            ("fixture", "Small"),
        ),
    ]
    for test in ("test_golden", "test_table"):
        [graph] = recording.tests[f"test_suite.py::{test}"].graphs
        assert (graph.kind, graph.model, graph.graph) == ("fixture", "test_suite.Small", graphs[0].graph)


def test_a_graph_that_no_document_holds_is_left_out_with_its_reason(record):
    recording = record("""
        def test_it():
            tracer = torch.fx.Tracer()
            tracer.create_arg = lambda value: value
            tracer.trace(lambda x: tracer.create_proxy("call_function", torch.neg, (object(),), {}))
    """)
    record.result.assert_outcomes(passed=1)
    [left_out] = recording.tests["test_suite.py::test_it"].left_out
    assert left_out.kind == "symbolic"
    assert "object" in left_out.reason
    assert "\n" not in left_out.reason


def test_a_pickle_of_a_graph_module_is_no_trace(graphs_of):
    body = "import pickle\npickle.loads(pickle.dumps(torch.fx.symbolic_trace(Small())))"
    assert graphs_of(body) == [("symbolic", "Small")]


def test_the_functions_are_torchs_own_after_the_run(record):
    trace, call = torch.fx.Tracer.trace, torch.nn.Module.__call__
    record("def test_it():\n    torch.fx.symbolic_trace(Small())\n    assert torch.fx.Tracer.trace is not None")
    assert torch.fx.Tracer.trace is trace
    assert torch.nn.Module.__call__ is call


NEUTRAL = """
import random
import numpy
from torch._dynamo.utils import counters

def test_it():
    torch.manual_seed(0), random.seed(0), numpy.random.seed(0)
    torch._dynamo.reset()
    counters.clear()
    compiled = torch.compile(Broken(), backend="aot_eager")
    results = [compiled(torch.rand(2)), compiled(torch.rand(2)), compiled(torch.rand(3), k=3)]
    torch.export.export(Small(), (torch.ones(2, 4),))
    torch.fx.symbolic_trace(Small())
    Small()(torch.ones(2, 4))
    with open("found.txt", "w") as file:
        print([each.tolist() for each in results], file=file)
        print({kind: dict(count) for kind, count in counters.items()}, file=file)
        print(torch.rand(1), random.random(), numpy.random.rand(), torch.is_grad_enabled(), file=file)
        print(len(torch._dynamo.utils.get_compilation_metrics()), file=file)
"""


@pytest.mark.slow
def test_results_counters_and_random_state_are_those_of_a_plain_run(pytester, head, plain):
    pytester.makepyfile(test_suite=head + NEUTRAL)
    found = []
    for arguments in ((), ("--fx-record", "kept")):
        torch._dynamo.utils.clear_compilation_metrics()
        pytester.runpytest_inprocess(*plain, *arguments).assert_outcomes(passed=1)
        found.append((pytester.path / "found.txt").read_text(encoding="utf-8"))
    assert found[0] == found[1]
    assert "frames" in found[0]


# The watched functions in this process, with a stand-in for the store.


class Kept:
    """Stands for KeptGraphs: what it was asked for."""

    def __init__(self) -> None:
        self.kept, self.left_out, self.withdrawn = [], [], []

    def keep(self, kind, model, line, describe, facts=None):
        self.kept.append((kind, model, describe(), facts))
        return len(self.kept)

    def leave_out(self, kind, model, line, reason):
        self.left_out.append((kind, model, reason))

    def withdraw(self, record):
        self.withdrawn.append(record)


@pytest.fixture
def kept():
    return Kept()


@pytest.fixture
def watched(kept, tmp_path):
    return WatchedFunctions(kept, tmp_path)


def read(made, *args):
    for each in made:
        yield lambda each=each: each


def two(*args, **kwargs):
    return ["graph", *kwargs.values()]


def test_the_outermost_function_counts_and_names_the_model_among_its_arguments(kept, watched):
    def outer(first, second):
        assert watched.is_inside
        return [*watched._make("inner", read, 0, two, first), "another"]

    assert not watched.is_inside
    assert watched._make("outer", read, 1, outer, 3, two) == ["graph", "another"]
    assert not watched.is_inside
    assert kept.kept == [("outer", f"{__name__}.two", each, None) for each in ("graph", "another")]


def test_a_graph_that_cannot_be_read_fails_no_test(kept, watched):
    def broken(made, *args):
        raise ValueError("an odd graph")

    assert watched._make("export", broken, 0, two, two, a="more") == ["graph", "more"]
    assert watched._make("export", read, 5, two, two) == ["graph"]
    assert kept.left_out == [("export", f"{__name__}.two", "an odd graph"), ("export", "", "tuple index out of range")]


def test_an_error_of_the_function_is_the_users(kept, watched):
    def fails(model):
        raise KeyError("no")

    with pytest.raises(KeyError):
        watched._make("export", read, 0, fails, two)
    assert not watched.is_inside
    assert (kept.kept, kept.left_out) == ([], [])


def test_a_muted_block_inside_another_one_ends_with_the_outer_one(watched):
    with watched.muted():
        with watched.muted():
            pass
        assert watched.is_inside
    assert not watched.is_inside


class RestartAnalysis(Exception):
    """Is named as the ones of Dynamo."""


@pytest.fixture
def dynamo(monkeypatch):
    """Let compilations be of a model `M`; graphs are texts, without calls if they are empty."""
    monkeypatch.setattr(compilations, "facts_of_function", lambda output_graph, last: ("function", "M", {"last": last}))
    monkeypatch.setattr(compilations, "has_calls", bool)
    monkeypatch.setattr(compilations, "describe_graph", lambda graph: f"described {graph}")
    monkeypatch.setattr(compilations, "guards_of_compilation", lambda function, output: (function, output))
    monkeypatch.setattr(compilations, "recompiles_in", lambda frame, reasons: (frame, list(reasons)))


def lowered(output_graph, graph, *args, **kwargs):
    return graph, args, kwargs


@pytest.mark.usefixtures("dynamo")
def test_a_graph_of_dynamo_has_the_facts_of_its_compilation(kept, watched):
    local = watched._local

    assert watched._recompiles(lambda entries, frame, more: ("k",), [], "frame", more=1) == ("k",)
    assert watched._dynamo(lowered, "output", "graph", 1, a=2) == ("graph", (1,), {"a": 2})
    _, facts = local.waiting
    assert kept.kept == [("dynamo", "M", "described graph", {"last": ("frame", ["k"])})]
    assert kept.kept[0][3] is facts
    assert (local.model, local.line, local.waiting) == ("", "", ("function", facts))
    with_guards = SimpleNamespace(guards=[])
    watched._guards(lambda *args, **kwargs: None, SimpleNamespace(guards=[]), 3, output_graph=with_guards)
    assert facts["guards"] == ("function", with_guards)
    assert local.waiting is None
    watched._guards(lambda *args: None, 1, with_guards)
    assert kept.withdrawn == kept.left_out == []


@pytest.mark.usefixtures("dynamo")
def test_the_guards_are_those_of_the_first_argument_that_has_some(watched):
    watched._dynamo(lowered, "output", "graph")
    _, facts = watched._local.waiting
    first, second = SimpleNamespace(guards=[1]), SimpleNamespace(guards=[2])
    watched._guards(lambda *args, **kwargs: None, 1, 2, first, output_graph=second)
    assert facts["guards"] == ("function", first)

    watched._dynamo(lowered, "output", "graph")
    _, facts = watched._local.waiting
    watched._guards(lambda *args: None, 1)
    assert facts["guards"] == ("function", None)


@pytest.mark.usefixtures("dynamo")
def test_a_graph_of_dynamo_without_calls_or_inside_another_function_is_not_kept(kept, watched):
    assert watched._dynamo(lowered, "output", "") == ("", (), {})
    with watched.muted():
        assert watched._dynamo(lowered, "output", "graph", 1) == ("graph", (1,), {})
    assert kept.kept == []


@pytest.mark.usefixtures("dynamo")
@pytest.mark.parametrize(("error", "withdrawn"), [(RestartAnalysis, [1]), (ValueError, [])])
def test_a_graph_that_dynamo_makes_anew_is_withdrawn(kept, watched, error, withdrawn):
    def fails(*args):
        raise error("again")

    with pytest.raises(error):
        watched._dynamo(fails, "output", "graph")
    assert kept.withdrawn == withdrawn
    assert (watched._local.model, watched._local.line) == ("", "")


@pytest.mark.usefixtures("dynamo")
def test_a_graph_of_aot_is_of_the_model_that_dynamo_compiles(kept, watched):
    titles = [*AOT_GRAPHS]

    def lower(output_graph, graph):
        return [watched._aot(lambda *args, **kwargs: (args, kwargs), title, "graph", name="n") for title in titles]

    made = watched._dynamo(lower, "output", "graph")
    assert made == [((title, "graph"), {"name": "n"}) for title in titles]
    assert kept.kept[1:] == [("aot", "M", "described graph", {"part": part}) for part in AOT_GRAPHS.values()]
    count = len(kept.kept)
    watched._aot(lambda *args: None, "another title", "graph")
    with watched.muted():
        watched._aot(lambda *args: None, titles[0], "graph")
    assert len(kept.kept) == count
    watched._aot(lambda *args: None, titles[0], "graph")
    assert kept.kept[count:] == [("aot", "", "described graph", {"part": AOT_GRAPHS[titles[0]]})]


@pytest.mark.parametrize(
    ("file", "kinds"),
    [
        ("/a/user.py", ["symbolic", "make_fx"]),
        ("/a/torch/fx/graph_module.py", ["make_fx"]),
        ("/a/fxcore/tracer.py", ["make_fx"]),
        (torch.nn.__file__, ["symbolic"]),
    ],
)
def test_a_trace_for_the_use_of_torch_itself_is_no_graph_of_the_test(kept, watched, monkeypatch, file, kinds):
    monkeypatch.setattr(watched_functions, "_caller", lambda but="": file)
    monkeypatch.setattr(watched_functions, "_traced", read)
    monkeypatch.setattr(watched_functions, "_made", read)

    assert watched._trace(two, "tracer", nn.ReLU()) == ["graph"]
    assert watched._make_fx(two, "tracer", nn.ReLU()) == ["graph"]
    assert [kind for kind, *_ in kept.kept] == kinds
    assert {model for _, model, *_ in kept.kept} == {"torch.nn.modules.activation.ReLU"}


def test_the_caller_is_the_first_file_that_does_not_end_so():
    assert watched_functions._caller() == __file__
    assert watched_functions._caller("test_watched_functions.py") not in ("", __file__)
    assert watched_functions._caller("") == ""


def test_an_export_is_of_its_first_argument_and_a_fixture_of_its_model(kept, watched, monkeypatch):
    added = []
    monkeypatch.setattr(watched_functions, "_exported", read)
    watched.add_to(SimpleNamespace(add=lambda kind, places, wrap: added.append((kind, [*places], wrap))))

    (export,) = [wrap for kind, _, wrap in added if kind == "export"]
    (golden,) = [wrap for _, places, wrap in added if places[0][1] == "ObtainedGraph.__init__"]
    assert export(two)(nn.ReLU(), nn.Tanh()) == ["graph"]
    golden(lambda obtained, model: None)(SimpleNamespace(document="a document"), nn.Sigmoid())

    assert kept.kept == [
        ("export", "torch.nn.modules.activation.ReLU", "graph", None),
        ("fixture", "torch.nn.modules.activation.Sigmoid", "a document", None),
    ]
