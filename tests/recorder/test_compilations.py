from __future__ import annotations

import pytest

from pytest_fxgraph.captures.torch_internals import InternalsError
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
