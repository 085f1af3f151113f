from __future__ import annotations

import json
import shutil
from collections import defaultdict
from pathlib import Path

import pytest

from pytest_fxgraph.command.main import main
from pytest_fxgraph.errors import RecordingError
from pytest_fxgraph.replay.repetition import UNSET, Repetition

SUITES = Path(__file__).parents[2] / "fixtures" / "repeated_suites"
CAUSES = {"no_setting": UNSET}  # the end of a test's name to the cause; others are the cause with underscores


@pytest.fixture
def suite(tmp_path, monkeypatch):
    def copy(name):
        for file in (SUITES / name).glob("*.py"):
            shutil.copy(file, tmp_path / f"test_{file.name}")
        (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p no:cacheprovider\n")
        monkeypatch.chdir(tmp_path)

    return copy


@pytest.mark.parametrize(("arguments", "number"), [([], 3), (["-n", "2"], 2), (["-n", "5"], 5)])
def test_a_suite_runs_three_times_unless_another_number_is_given(monkeypatch, capsys, arguments, number):
    def run(repetition, number):
        raise RecordingError(f"{number} runs")

    monkeypatch.setattr(Repetition, "run", run)

    assert main(["repeat", *arguments]) == 2
    assert f"{number} runs" in capsys.readouterr().err


@pytest.mark.long
def test_each_planted_fault_is_found_with_its_cause(suite, capsys):
    suite("faults")

    status = main(["repeat", "--json", "--env", "MODEL_SIZE=large", "--", "-q"])

    found = defaultdict(list)
    for each in json.loads(capsys.readouterr().out)["unstable"]:
        test = each["place"].partition("::")[2].partition(" ")[0]
        found[test] += each["causes"]
    source = (SUITES / "faults" / "faults.py").read_text()
    planted = [line.split()[1].partition("(")[0] for line in source.splitlines() if line.startswith("def test_")]
    expected = {test: test.partition("__")[2] for test in planted if "__" in test}
    assert len(expected) >= 20
    assert found == {test: [CAUSES.get(cause, cause.replace("_", " "))] for test, cause in expected.items()}
    assert status == 1


@pytest.mark.slow
def test_innocent_suites_are_the_same(suite, capsys):
    suite("innocent")

    status = main(["repeat", "--", "-q"])

    assert capsys.readouterr().out == "3 runs, 9 tests, 9 graphs: the same in all runs\n"
    assert status == 0


@pytest.mark.slow
def test_a_suite_without_tests_cannot_be_judged(suite, tmp_path, capsys):
    suite("innocent")

    assert main(["repeat", "--", "-q", "-k", "nothing"]) == 2

    assert capsys.readouterr().err.splitlines()[-1] == (
        "fxgraph: cannot tell whether the runs are the same: in run 1, pytest found no test; "
        "give the tests as arguments"
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-n", "1"], "'1' is no number of runs to compare; give 2 or more"),
        (["--env", "MODEL"], "'MODEL' is no variable; write NAME=VALUE"),
    ],
)
def test_wrong_arguments_are_refused(arguments, words, capsys):
    with pytest.raises(SystemExit):
        main(["repeat", *arguments])
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("unstable", "unknown", "status"),
    [([], [], 0), ([{"place": "test_a.py::test_a"}], ["run 2"], 1), ([], ["run 2 was ended"], 2)],
)
def test_the_exit_status_tells_unstable_graphs_from_runs_that_failed(monkeypatch, capsys, unstable, unknown, status):
    def run(repetition, number):
        repetition.unknown += unknown

    monkeypatch.setattr(Repetition, "run", run)
    monkeypatch.setattr(Repetition, "unstable", unstable)

    assert main(["repeat", "--json"]) == status
    assert json.loads(capsys.readouterr().out) == {"unstable": unstable, "unknown": unknown}
