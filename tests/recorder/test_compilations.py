from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from pytest_fxgraph.captures.torch_internals import InternalsError
from pytest_fxgraph.document.encoding import encode
from pytest_fxgraph.recorder import compilations


def test_a_graph_of_aot_names_its_part(record):
    recording = record("""
        def test_it():
            torch.compile(Small(), backend="aot_eager")(torch.ones(2, 4)).sum().backward()
    """)
    facts = [each.facts for each in recording.tests["test_suite.py::test_it"].graphs]
    assert facts[1:] == [{"part": "forward"}, {"part": "backward"}]


def test_the_facts_of_dynamo_are_breaks_recompiles_and_guards(record):
    recording = record("""
        def test_it():
            compiled = torch.compile(Broken(), backend="eager")
            compiled(torch.ones(2))
            compiled(torch.ones(2), k=3)
    """)
    first, second, third = recording.tests["test_suite.py::test_it"].graphs
    assert first.facts["breaks"] == ['builtin (print) in forward: print("a break")']
    assert second.facts == {"breaks": [], "recompiles": [], "guards": ["k == 2"]}
    [recompile] = third.facts["recompiles"]
    assert recompile == 'forward behind the break at `print("a break")`: k: expected 2'
    assert second.graph != third.graph


@pytest.mark.sampled(every=3, start=2)
@pytest.mark.parametrize("part", ["compiled_function", "facts_of", "read_failure"])
def test_a_part_that_torch_lacks_makes_a_fact_the_reason_and_fails_no_test(record, monkeypatch, part):
    def missing(*_):
        raise InternalsError("torch 9.9 has no part")

    monkeypatch.setattr(compilations, part, missing)
    recording = record("""
        def test_it():
            compiled = torch.compile(Broken(), backend="eager")
            compiled(torch.ones(2))
            compiled(torch.ones(2), k=3)
    """)
    record.result.assert_outcomes(passed=1)
    graphs = recording.tests["test_suite.py::test_it"].graphs
    assert len(graphs) == 3
    told = {"compiled_function": "breaks", "facts_of": "guards"}.get(part)
    if told is None:
        assert graphs[-1].facts["recompiles"] == ["torch 9.9 has no part"]
    else:
        assert {each.facts[told] for each in graphs} == {"torch 9.9 has no part"}


def test_a_graph_that_hands_on_its_inputs_and_state_has_no_calls():
    graph = torch.fx.Graph()
    graph.output((graph.placeholder("x"), graph.get_attr("weight")))
    module = torch.fx.GraphModule(nn.Linear(2, 2), graph)

    assert not compilations.has_calls(module)
    assert compilations.has_calls(torch.fx.symbolic_trace(nn.ReLU()))
    assert compilations.has_calls(torch.fx.symbolic_trace(lambda x: x.sin()))


def test_a_graph_is_described_without_lines_of_the_source():
    text = encode(compilations.describe_graph(torch.fx.symbolic_trace(lambda x: x.sin())))

    assert "%sin = " in text
    assert ".py" not in text


def free():
    return None


@pytest.mark.parametrize(
    ("code", "arguments", "name"),
    [
        (nn.ReLU.forward.__code__, {"self": nn.ReLU()}, "torch.nn.modules.activation.ReLU"),
        (nn.ReLU.forward.__code__, {"self": 3, "input": nn.ReLU()}, "models.forward"),
        (nn.ReLU.forward.__code__, {"input": nn.ReLU()}, "models.forward"),
        (free.__code__, {"": 3, "self": nn.ReLU()}, "models.free"),
    ],
)
def test_a_compiled_function_is_named_by_the_module_that_it_belongs_to(monkeypatch, code, arguments, name):
    function = SimpleNamespace(code=code, arguments=arguments, module="models", break_reason=None)
    monkeypatch.setattr(compilations, "compiled_function", lambda output_graph: function)

    for failed, known in ((["k: expected 2"], code), ([], nn.Linear.forward.__code__)):
        found = compilations.facts_of_function(None, (known, ["k: expected 2"]))
        assert found == (function, name, {"breaks": [], "recompiles": failed})


def test_the_guards_of_values_are_told_in_order(monkeypatch):
    asked = []

    def guards_of(facts, model, own_name):
        asked.append(([each.text for each in facts], model, own_name))
        return [SimpleNamespace(kind="size", text="x.shape"), *reversed(facts)]

    monkeypatch.setattr(compilations, "facts_of", lambda guard, values: guard)
    monkeypatch.setattr(compilations, "guards_of", guards_of)
    facts = [SimpleNamespace(kind=kind, text=text) for kind, text in (("value", "a"), ("type", "b"), ("value", "c"))]
    module = nn.ReLU()
    function = SimpleNamespace(code=nn.ReLU.forward.__code__, arguments={"self": module})

    for known in (None, function):
        assert compilations.guards_of_compilation(known, SimpleNamespace(guards=[facts[:2], facts[2:]])) == ["a", "c"]
    assert asked == [(["a", "c"], None, ""), (["a", "c"], module, "self")]
