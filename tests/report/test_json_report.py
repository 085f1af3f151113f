from __future__ import annotations

import json
from dataclasses import replace

import pytest

from pytest_fxgraph.errors import ReportError
from pytest_fxgraph.report.json_report import RunReport, json_text, read_record
from pytest_fxgraph.report.outcome import Outcome
from pytest_fxgraph.report.run_record import RunRecord

RECORD = RunRecord(had_path_arguments=True, finished=True, asked=("golden/t/t.yaml",))
OUTCOME = Outcome("t.py::t", "golden/t/t.yaml", "exact", "mismatch", "words", new_text="long", received="long")


def test_a_report_leaves_out_the_texts_of_goldens():
    data = json.loads(json_text(RunReport("1 golden differs", RECORD, [OUTCOME], ["golden/u/u.yaml"], ["hello"])))

    assert data["summary"] == "1 golden differs"
    assert data["format"] == 1
    assert data["outcomes"][0]["headline"] == "words"
    assert not {"new_text", "received"} & data["outcomes"][0].keys()
    assert (data["unused"], data["sections"]) == (["golden/u/u.yaml"], ["hello"])


def test_a_report_has_its_record_read_back(tmp_path):
    path = tmp_path / "fx.json"
    path.write_text(json_text(RunReport("", RECORD)))

    assert read_record(path) == RECORD


def test_half_a_surrogate_pair_in_an_id_is_no_obstacle(tmp_path):
    record = RunRecord(had_path_arguments=False, finished=True, asked=("golden/t/\ud800.yaml",))
    path = tmp_path / "fx.json"
    path.write_text(json_text(RunReport("", record)), encoding="utf-8")

    assert read_record(path) == record


def test_a_report_has_a_line_for_each_field_in_the_order_of_the_names():
    lines = json_text(RunReport("", RECORD)).split("\n")

    names = [line.split('"')[1] for line in lines if line.startswith(' "')]
    assert names == sorted(names)
    assert len(names) == 9
    assert (lines[0], lines[-2:]) == ("{", ["}", ""])


def test_one_command_accepts_all_goldens_of_a_cause_in_files():
    one, two = (
        replace(OUTCOME, golden=f"golden/t/{name}.yaml", cluster="K", command=f"update {name}", is_alone=name == "a")
        for name in "ab"
    )
    inline = replace(one, golden="t.py:3", command="update t.py:3", is_alone=False, inline={"path": "t.py"})
    report = RunReport("", RECORD, accept="fxgraph accept --cluster")

    assert report.commands_for([one]) == {"update a": ""}
    assert report.commands_for([two]) == {"update b": "all goldens of its test"}
    assert report.commands_for([one, two]) == {"fxgraph accept --cluster K": "all 2 goldens of this cause"}
    assert report.commands_for([one, two, inline]) == {
        "fxgraph accept --cluster K": "all 2 goldens of this cause in files",
        "update t.py:3": "all goldens of its test",
    }
    assert report.commands_for([one, inline]) == {"update a": "", "update t.py:3": "all goldens of its test"}


def test_failed_goldens_are_put_together_by_cause_the_largest_cause_first():
    def outcome(golden: str, cluster: str = "", status: str = "mismatch", nodeid: str = "t") -> Outcome:
        return Outcome(nodeid, golden, "exact", status, cluster=cluster)

    outcomes = [outcome("a"), outcome("b"), outcome("c", "K"), outcome("d", status="matched"), outcome("e", "K")]
    report = RunReport("", RECORD, [*outcomes, outcome("a", nodeid="u"), outcome("f", status="updated")])

    assert [[each.golden for each in cause] for cause in report.failed_by_cause()] == [["c", "e"], ["a"], ["b"]]
    assert report.failed_by_cause()[1][0].nodeid == "t"


@pytest.mark.parametrize("found", ["true", "2", "null", '"1"'])
def test_a_report_of_another_format_is_refused(tmp_path, found):
    path = tmp_path / "fx.json"
    path.write_text(json_text(RunReport("", RECORD)).replace('"format": 1', f'"format": {found}'))

    with pytest.raises(ReportError, match=r"its format is .*, and this release reads 1"):
        read_record(path)


def test_the_place_of_an_inline_golden_is_left_out():
    outcomes = [OUTCOME, replace(OUTCOME, inline={"path": "t.py"})]

    assert [each["inline"] for each in json.loads(json_text(RunReport("", RECORD, outcomes)))["outcomes"]] == [None, {}]
