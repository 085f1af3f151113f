"""`fxgraph report` merges the reports of shards."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_fxgraph.command.main import main
from pytest_fxgraph.report.json_report import RunReport, json_text
from pytest_fxgraph.report.numeric_failure import NumericFailure
from pytest_fxgraph.report.outcome import Outcome
from pytest_fxgraph.report.run_record import RunRecord

FILE = "test_a.py"


def shard(test: str, status: str, **more: object) -> RunReport:
    """Return the report of a shard that ran one test of two."""
    record = RunRecord(
        had_path_arguments=False,
        finished=True,
        found={FILE: ("", "test_x", "test_y")},
        ended={FILE: ("", test)},
        asked=(f"golden/test_a/{test}.yaml",),
        others={"golden/test_a/test_z.yaml": FILE},
    )
    outcome = Outcome(
        f"{FILE}::{test}", record.asked[0], "exact", status, "a -> b", section="words", command=f"pytest {test}"
    )
    return RunReport("not this one", record, (outcome,), sections=("nightly",), **more)


@pytest.fixture
def shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    failures = (NumericFailure("test_a.py::test_n", "eager and graph differ", "by much"),)
    Path("1.json").write_text(json_text(shard("test_x", "matched", failures=failures)))
    Path("2.json").write_text(json_text(shard("test_y", "mismatch")))
    return ["1.json", "2.json"]


def test_reports_of_shards_become_one_that_judges_unused_goldens_over_all_of_them(shards, capsys):
    assert main(["report", *shards, "-o", "out/fx.md"]) == 1

    assert capsys.readouterr().out == "wrote the report out/fx.md: 1 golden matched, 1 differs, 1 unused\n"
    text = Path("out/fx.md").read_text(encoding="utf-8")
    assert text.startswith(
        "## Graphs and goldens: 1 golden matched, 1 differs, 1 unused, 1 check of eager against graph failed\n"
    )
    assert "| `golden/test_a/test_y.yaml` | `exact` | `a -> b` | `pytest test_y` |" in text
    assert "```text\nwords\n```" in text
    assert "```text\nby much\n```" in text
    assert "- `golden/test_a/test_z.yaml`" in text
    assert text.count("nightly") == 1


def test_without_a_path_it_is_printed(shards, capsys):
    assert main(["report", shards[0]]) == 1  # the numeric failure

    assert capsys.readouterr().out.startswith("## Graphs and goldens: 1 golden matched, 1 check of")


def test_nothing_failed(tmp_path, capsys):
    path = tmp_path / "fx.json"
    path.write_text(json_text(shard("test_x", "matched")))

    assert main(["report", str(path)]) == 0


def test_another_ending_is_refused_with_the_reason(shards, capsys):
    assert main(["report", *shards, "-o", "fx.html"]) == 2

    assert capsys.readouterr().err == (
        "fxgraph: cannot write the report fx.html: what is merged is Markdown, as the graphs are not in the reports; "
        "give a path that ends in .md\n"
    )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda data: data.pop("outcomes"), "'outcomes' is missing"),
        (lambda data: data["outcomes"][0].pop("level"), "'level' is missing"),
        (lambda data: data["outcomes"][0].update(status="odd"), "an outcome cannot be 'odd'"),
        (lambda data: data.update(failures=[{}]), "'nodeid' is missing"),
        (lambda data: data.update(failures=[3]), "expected names and values, got 3"),
        (lambda data: data.update(outcomes=3), "not iterable"),
    ],
)
def test_what_is_no_report_is_refused(shards, capsys, change, reason):
    data = json.loads(Path("1.json").read_text())
    change(data)
    Path("1.json").write_text(json.dumps(data))

    assert main(["report", *shards]) == 2

    error = capsys.readouterr().err
    assert error.startswith("fxgraph: cannot read the report 1.json: ")
    assert reason in error


def test_a_report_of_an_earlier_release_has_no_commands_and_no_failures(shards, capsys):
    data = json.loads(Path("2.json").read_text())
    del data["failures"], data["outcomes"][0]["command"]
    Path("2.json").write_text(json.dumps(data))

    assert main(["report", "2.json"]) == 1
    assert "| `a -> b` |  |" in capsys.readouterr().out


def test_the_merged_report_is_given_as_json(shards, capsys):
    assert main(["report", *shards, "--json"]) == 1

    merged = json.loads(capsys.readouterr().out)
    assert merged["summary"] == "1 golden matched, 1 differs, 1 unused"
    assert [outcome["status"] for outcome in merged["outcomes"]] == ["matched", "mismatch"]


def test_a_report_of_no_reports_is_an_error(shards, capsys):
    assert main(["report"]) == 2

    assert "cannot merge reports: none is named; give those that pytest --fx-report wrote" in capsys.readouterr().err
