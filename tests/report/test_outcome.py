from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, asdict, replace

import pytest

from pytest_fxgraph.budget import allowances_of
from pytest_fxgraph.report.outcome import Outcome, Terms
from pytest_fxgraph.report.plain_data import record_of

MISMATCH = Outcome(
    nodeid="tests/test_net.py::test_net[a]",
    golden="golden/tests/test_net/test_net-a.yaml",
    level="structure",
    status="mismatch",
    headline="+1 torch.relu",
    lines=("one", "two"),
    section="all",
    new_text="format: 1\n",
    expected_digest="0" * 64,
    update="changed",
    graphs=("format: 2\n", "format: 2\n"),
    sources=("", "model.py:3: y = relu(x)"),
)


def test_an_outcome_survives_json():
    assert record_of(Outcome, json.loads(json.dumps(asdict(MISMATCH)))) == MISMATCH


def test_an_outcome_with_defaults_survives_json():
    matched = Outcome("t.py::t", "golden/t/t.yaml", "exact", "matched")

    assert record_of(Outcome, json.loads(json.dumps(asdict(matched)))) == matched


def test_fields_of_a_later_release_are_left_out():
    assert record_of(Outcome, {**asdict(MISMATCH), "colour": "red"}) == MISMATCH


def test_an_outcome_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        MISMATCH.status = "matched"


def test_an_unknown_status_is_refused():
    with pytest.raises(ValueError, match="an outcome cannot be 'fine'; it is one of matched, mismatch, missing"):
        Outcome("t.py::t", "golden/t/t.yaml", "exact", "fine")


def test_an_unknown_update_is_refused():
    with pytest.raises(ValueError, match="an outcome's update cannot be 'all'; it is one of none, new, changed"):
        Outcome("t.py::t", "golden/t/t.yaml", "exact", "updated", update="all")


@pytest.mark.parametrize("budget", [None, allowances_of({"flops": "+1%"})])
def test_terms_survive_json(budget):
    terms = Terms("cost", normalize=True, budget=budget)

    assert Terms.from_dict(json.loads(json.dumps({**terms.to_dict(), "later": 1}))) == terms


def test_an_outcome_knows_its_file_its_failure_and_its_cause():
    outcomes = {
        status: Outcome("t", "g", "exact", status, "h", cluster="K")
        for status in ("matched", "updated", "mismatch", "missing", "error", "refused")
    }

    assert [status for status, outcome in outcomes.items() if outcome.has_failed] == [
        *("mismatch", "missing", "error", "refused"),
    ]
    assert outcomes["mismatch"].cause == {"level": "exact", "headline": "h", "cluster": "K"}
    assert replace(outcomes["mismatch"], terms={"level": "ops"}).cause["level"] == "ops"
    places = ({}, {"inline": {}}, {"row": {}}, {"inline": {}, "row": {}})
    assert [replace(outcomes["mismatch"], **place).is_file for place in places] == [True, False, False, False]
