"""Which file serves a row, and what a run leaves alone: variants, received rows, tests that did not pass."""

from __future__ import annotations

import io
import re

import pytest
import torch

from pytest_fxgraph.command.main import main
from pytest_fxgraph.goldens.files import variant_suffix
from pytest_fxgraph.goldens.table_rows import decode_table

TESTS = """
import json, pytest
NUMBERS = json.load(open("numbers.json", encoding="utf-8"))

@pytest.mark.parametrize("name", sorted(NUMBERS))
def test_model(name, fx_table):
    from torch import nn
    assert nn.ReLU() == fx_table(extra={"score": NUMBERS[name]})
"""
TABLE = "golden/test_models/table.yaml"
HERE = f"golden/test_models/table{variant_suffix(torch.__version__)}.yaml"
_WITHOUT = [part for name in ("randomly", "logging", "hypothesispytest") for part in ("-p", f"no:{name}")]


class Project:
    """A test file with a row for each number of a file."""

    def __init__(self, pytester):
        self.pytester, self.path = pytester, pytester.path
        self.tests(TESTS)
        self.measure(a=1, b=2, c=3)
        self.run("--fx-update-golden").assert_outcomes(passed=3)

    def tests(self, text):
        self.pytester.makepyfile(test_models=text)

    def measure(self, **numbers):
        words = ", ".join(f'"{name}": {number}' for name, number in numbers.items())
        self.path.joinpath("numbers.json").write_text(f"{{{words}}}", encoding="utf-8")

    def run(self, *options):
        return self.pytester.runpytest_inprocess(*_WITHOUT, *options)

    def text(self, table=TABLE):
        return self.path.joinpath(table).read_text(encoding="utf-8")

    def scores(self, table=TABLE):
        return {name[11:-1]: row.values["score"] for name, row in decode_table(self.text(table), table).items()}

    def copy(self, table, *names):
        """Write a table of some rows of the first one."""
        lines = self.text().splitlines(keepends=True)
        kept = [line for line in lines if not line.startswith("- ") or any(f"[{name}]" in line for name in names)]
        self.path.joinpath(table).write_text("".join(kept), encoding="utf-8")


@pytest.fixture
def project(pytester):
    return Project(pytester)


def test_an_update_for_one_torch_writes_the_rows_that_differ_beside_the_table(project):
    before = project.text()
    project.measure(a=1, b=5, c=3)

    project.run("--fx-update-golden", "--fx-update-variant").stdout.fnmatch_lines([f"fx table: wrote 1 row of {HERE}"])

    assert project.text() == before
    assert project.scores(HERE) == {"b": 5}
    project.run().assert_outcomes(passed=3)
    project.measure(a=1, b=6, c=3)
    project.run().stdout.fnmatch_lines([f"*row 'test_model?b?' of {HERE} does not match: score 5 -> 6"])
    project.run("--fx-update-golden").assert_outcomes(passed=3)
    assert (project.scores(HERE), project.text()) == ({"b": 6}, before)


@pytest.mark.parametrize("variant", ["@linux", "@torch-{minor}@linux"])
def test_a_row_for_a_platform_serves_there(project, variant, monkeypatch):
    monkeypatch.setattr("sys.platform", "linux")
    table = f"golden/test_models/table{variant.format(minor='.'.join(torch.__version__.split('.')[:2]))}.yaml"
    project.copy(table, "b")
    project.measure(a=1, b=7, c=3)

    project.run().stdout.fnmatch_lines([f"*row 'test_model?b?' of {table} does not match: score 2 -> 7"])


def test_a_row_of_another_torch_is_in_use_while_a_test_asks_for_it(project):
    other = "golden/test_models/table@torch-1.13@cuda.yaml"
    project.copy(other, "a", "c")
    project.run("--fx-unused", "fail").assert_outcomes(passed=3)

    project.measure(a=1, b=2)
    project.run("--fx-prune-golden").assert_outcomes(passed=2)

    assert (project.scores(), project.scores(other)) == ({"a": 1, "b": 2}, {"a": 1})


def test_only_new_or_only_changed_rows_are_written(project):
    project.measure(a=9, d=4)
    project.run("--fx-update-golden", "--fx-update-only", "new").assert_outcomes(passed=1, failed=1)
    assert project.scores() == {"a": 1, "b": 2, "c": 3, "d": 4}

    project.measure(a=9, e=5)
    project.run("--fx-update-golden", "--fx-update-only", "changed").assert_outcomes(passed=1, failed=1)
    assert project.scores() == {"a": 9, "b": 2, "c": 3, "d": 4}


def test_tests_that_do_not_pass_leave_their_rows(project):
    project.tests(
        TESTS.replace(
            "sorted(NUMBERS)",
            "['a', pytest.param('b', marks=pytest.mark.xfail(strict=True)), "
            "pytest.param('c', marks=pytest.mark.skip), 'd']",
        )
    )
    project.measure(a=11, b=12, c=13, d=14)
    before = project.text()

    project.run("--fx-update-golden", "--fx-update-only", "changed", "-x").assert_outcomes(
        passed=1, failed=1, skipped=1, xfailed=1
    )
    assert project.scores() == {"a": 11, "b": 2, "c": 3}
    project.run("--fx-prune-golden").assert_outcomes(passed=1, failed=1, skipped=1, xfailed=1)
    assert project.scores() == {"a": 11, "b": 2, "c": 3}
    assert before.count("\n") == project.text().count("\n")


def test_received_rows_are_kept_beside_the_table_until_they_are_accepted(project, monkeypatch, capsys):
    received = TABLE.replace(".yaml", ".received.yaml")
    monkeypatch.chdir(project.path)
    project.measure(a=9, b=9, c=3)
    project.run("--fx-received").stdout.fnmatch_lines(
        [f"fx table: wrote {received}; accept its rows with `fxgraph accept {TABLE}`"]
    )
    project.measure(a=1, b=9, c=8)
    project.run("--fx-received", "-k", "a or c")  # what is right again goes, what others received stays

    assert project.scores(received) == {"a": 1, "b": 9, "c": 8}
    assert main(["accept"]) == 1
    out = capsys.readouterr().out
    assert "score 2 -> 9" in out
    assert "score 3 -> 8" in out
    assert main(["accept", TABLE]) == 0
    assert project.scores() == {"a": 1, "b": 9, "c": 8}
    project.run("--fx-received").assert_outcomes(passed=3)
    assert not project.path.joinpath(received).exists()


def test_the_key_that_a_run_prints_accepts_the_rows_of_the_cause_and_no_others(project, monkeypatch, capsys):
    received = TABLE.replace(".yaml", ".received.yaml")
    monkeypatch.chdir(project.path)
    project.measure(a=1, b=1, c=3)
    project.run("--fx-update-golden")
    project.measure(a=5, b=5, c=8)
    out = project.run("--fx-received").stdout.str()
    key = re.search(r"fxgraph accept --cluster (\w+)", out)[1]
    assert f"2 goldens differ in the same way (cluster {key}): score 1 -> 5" in out

    assert main(["accept", "--cluster", key]) == 0
    assert f"accepted {TABLE}[test_model[a]]\naccepted {TABLE}[test_model[b]]\n" in capsys.readouterr().out
    assert project.scores() == {"a": 5, "b": 5, "c": 3}
    assert main(["accept", "--cluster", "1"]) == 0  # the last row, and nothing is left
    assert project.scores() == {"a": 5, "b": 5, "c": 8}
    assert not project.path.joinpath(received).exists()


def test_rows_are_reviewed_one_cause_at_a_time(project, monkeypatch, capsys):
    monkeypatch.chdir(project.path)
    project.measure(a=9, b=9, c=3, d=4)
    project.run("--fx-received")
    monkeypatch.setattr("sys.stdin", io.StringIO("r\na\ns\n"))

    assert main(["review"]) == 1

    assert f"rejected {TABLE}[test_model[a]]" in capsys.readouterr().out
    assert project.scores() == {"a": 1, "b": 9, "c": 3}
    assert project.scores(TABLE.replace(".yaml", ".received.yaml")) == {"a": 1, "b": 9, "c": 3, "d": 4}


def test_received_rows_are_shown_and_compared(project, monkeypatch, capsys):
    monkeypatch.chdir(project.path)
    project.measure(a=9, b=2, c=3)
    project.run("--fx-received")
    received = TABLE.replace(".yaml", ".received.yaml")
    capsys.readouterr()

    assert main(["show", received]) == 0
    assert "test_model[a]" in capsys.readouterr().out
    assert main(["diff", TABLE, received]) == 1
    assert "~ test_model[a]: score 1 -> 9" in capsys.readouterr().out


def test_a_table_that_changed_since_is_not_replaced(project, monkeypatch, capsys):
    monkeypatch.chdir(project.path)
    project.measure(a=9, b=2, c=3)
    project.run("--fx-received")
    project.measure(a=1, b=7, c=3)
    project.run("--fx-update-golden")

    assert main(["accept", TABLE]) == 2
    assert "is no longer the golden that it was compared with" in capsys.readouterr().err
    assert project.scores() == {"a": 1, "b": 7, "c": 3}


@pytest.mark.slow
def test_the_table_of_a_file_that_is_gone_is_unused_in_a_run_of_everything(project):
    project.path.joinpath("test_models.py").rename(project.path / "test_others.py")
    project.run("--fx-update-golden", "test_others.py").stdout.no_fnmatch_line("fx table: no test asks*")

    project.run().stdout.fnmatch_lines([f"fx table: no test asks for 3 of the rows of {TABLE}: *"])
    project.run("--fx-prune-golden").assert_outcomes(passed=3)
    assert not project.path.joinpath(TABLE).exists()
    assert project.path.joinpath("golden/test_others/table.yaml").exists()


def test_a_test_that_asks_for_the_table_and_compares_nothing_fails(project):
    project.tests("def test_model(fx_table): pass\ndef test_other(fx_table): assert not fx_table")

    result = project.run()

    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["the test asked for fx_table and compared nothing with it;*"])
    result.stdout.fnmatch_lines(["*GateError: fx_table is neither true nor false*"])


@pytest.mark.long
def test_under_xdist_the_controller_alone_writes_and_a_crashed_test_leaves_its_row(project):
    project.tests(
        TESTS.replace("from torch import nn", 'name == "b" and __import__("os")._exit(1)\n    import torch.nn as nn')
    )
    project.measure(a=11, b=12, c=13)

    result = project.pytester.runpytest_subprocess(*_WITHOUT, "-n", "2", "--fx-update-golden", "--fx-unused", "fail")

    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines([f"fx table: wrote 2 rows of {TABLE}"])
    result.stdout.no_fnmatch_line("fx table: *no test asks*")
    assert project.scores() == {"a": 11, "b": 2, "c": 13}


def test_a_row_that_differs_in_many_columns_takes_six_lines_and_a_section_with_all(project):
    numbers = "{name: {offset} + number for number, name in enumerate('stuvwxyz')}"
    test = (
        "from torch import nn\n\n\ndef test_model(fx_table):\n    assert nn.ReLU() == fx_table(extra=" + numbers + ")\n"
    )
    project.tests(test.replace("{offset}", "0"))
    project.run("--fx-update-golden")
    project.tests(test.replace("{offset}", "10"))  # longer: Python tells a changed file by its second and its size

    result = project.run()

    told = [line for line in result.outlines if line.startswith("E  ")]
    assert len(told) == 6
    assert told[3].endswith("and 5 more columns, in the section below")
    result.stdout.fnmatch_lines(
        [f"*- fx golden {TABLE}[[]test_model[]] -*", "row 'test_model'", "s 0 -> 10*", "z 7 -> 17*"]
    )
