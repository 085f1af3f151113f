"""The JSON report holds what docs/report.schema.json says, in every kind of run."""

from __future__ import annotations

import functools
import json
import linecache
import sys
from pathlib import Path

import pytest

SCHEMA = json.loads(Path(__file__, "../../../docs/report.schema.json").resolve().read_text(encoding="utf-8"))
KINDS = {"string": str, "integer": int, "null": type(None), "boolean": bool, "array": list, "object": dict}

NET = """
    import torch
    from torch import nn

    class Net(nn.Module):
        def forward(self, x):
            return torch.{name}(x) + 1

    def test_net(fx_golden):
        assert Net() == fx_golden(example_inputs=torch.ones(2))

    def test_new(fx_golden):
        assert Net() == fx_golden(name={new!r})
"""


def problems(value, schema, place="$"):
    """Yield what a value has that its schema does not allow: the part of JSON Schema that ours uses."""
    if "$ref" in schema:
        schema = SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]]
    if "enum" in schema and value not in schema["enum"]:
        yield f"{place} is {value!r}"
    kinds = schema.get("type", list(KINDS))
    if not any(type(value) is KINDS[kind] for kind in ([kinds] if isinstance(kinds, str) else kinds)):
        yield f"{place} is a {type(value).__name__}"
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from problems(item, schema.get("items", {}), f"{place}[{index}]")
    if isinstance(value, dict):
        known, others = schema.get("properties", {}), schema.get("additionalProperties", {})
        yield from (f"{place} lacks {name}" for name in schema.get("required", ()) if name not in value)
        for name, item in value.items():
            if name not in known and others is False:
                yield f"{place} has {name}"
            yield from problems(item, known.get(name, others or {}), f"{place}.{name}")


@pytest.mark.parametrize("arguments", [(), pytest.param(("-n", "1"), marks=pytest.mark.slow)], ids=["alone", "workers"])
def test_a_report_is_what_the_schema_says(pytester, monkeypatch, arguments):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # the file is written twice within a second
    pytester.makepyfile(test_net=NET.format(name="relu", new="a"))
    run = functools.partial(pytester.runpytest_inprocess, "-p", "no:randomly", "-p", "no:hypothesispytest", *arguments)
    run("--fx-update-golden", "--fx-report=first.json").assert_outcomes(passed=2)
    pytester.makepyfile(test_net=NET.format(name="sigmoid", new="b"))
    linecache.clearcache()  # a process reads a source once
    run("--fx-report=second.json").assert_outcomes(failed=2)

    for name in ("first.json", "second.json"):
        report = json.loads(pytester.path.joinpath(name).read_text(encoding="utf-8"))
        assert list(problems(report, SCHEMA)) == []
    changes = next(outcome for outcome in report["outcomes"] if outcome["status"] == "mismatch")["changes"]
    assert [(change["from"], change["to"]) for change in changes] == [("torch.relu", "torch.sigmoid")]
    assert (changes[0]["class"], changes[0]["node"], changes[0]["expected_node"]) == ("operators", "sigmoid", "relu")
    assert changes[0]["file"].endswith("test_net.py")
    assert changes[0]["line"] == 6
    assert changes[0]["text"] == "return torch.sigmoid(x) + 1"
    assert changes[0]["cluster"]


def test_a_report_of_another_form_is_no_report():
    assert list(problems({"format": 2}, SCHEMA))
