from __future__ import annotations

import pytest
import torch
import torch.fx

from pytest_fxgraph.document.decoding import decode

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
