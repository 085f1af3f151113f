"""--fx-report writes what became of the goldens, and enough to merge the shards of a run."""

from __future__ import annotations

import json

import pytest

from pytest_fxgraph.command.main import main

FOUR = """
import pytest
import torch


@pytest.mark.parametrize("number", range({count}))
def test_many(fx_golden, number):
    assert (lambda x: torch.neg(x) + number) == fx_golden
"""
SHARD = """
def pytest_addoption(parser):
    parser.addoption("--shard", type=int)


def pytest_collection_modifyitems(items, config):
    shard = config.getoption("--shard")
    if shard is not None:
        items[:] = items[shard::2]
"""


@pytest.mark.parametrize("workers", ["-n0", pytest.param("-n1", marks=pytest.mark.slow)])
def test_a_report_tells_what_became_of_each_golden(project, workers):
    project.update()
    project.model("torch.sigmoid(y)")

    result = project.run("--fx-report=out/fx.json", workers)

    result.stdout.fnmatch_lines(["fx: wrote the report out/fx.json"])
    report = json.loads((project.path / "out/fx.json").read_text())
    assert report["format"] == 1
    assert report["summary"] == "1 golden differs"
    (outcome,) = report["outcomes"]
    assert (outcome["nodeid"], outcome["golden"]) == ("test_net.py::test_net", "golden/test_net/test_net.yaml")
    assert outcome["status"] == "mismatch"
    assert "torch.relu -> torch.sigmoid" in outcome["headline"]
    assert "new_text" not in outcome
    assert report["run"]["failed"] == {"test_net.py": ["test_net"]}


def test_a_page_shows_the_way_of_an_error_and_the_lowerings_that_tests_followed(project):
    project.test(
        "import torch\n\n\ndef test_same(fx_equivalence, fx_stages):\n"
        "    fx_stages(lambda x: torch.relu(x) + 1, torch.ones(2), ['symbolic', lambda gm: None])\n"
        "    fx_equivalence(torch.abs, torch.ones(2), graph=torch.nn.Threshold(2.0, 5.0))\n"
    )

    project.run("--fx-report=fx.html")

    page = (project.path / "fx.html").read_text(encoding="utf-8")
    assert "no golden was compared; 1 test computed other results; 1 lowering was followed" in page
    assert "<caption>The way of the error</caption>" in page
    assert "<caption>Elements by absolute error</caption>" in page
    assert "symbolic \N{RIGHTWARDS ARROW} &lt;lambda&gt;" in page


def test_a_page_shows_both_graphs_as_one_with_the_line_of_the_model(project):
    project.update()
    project.model("torch.sigmoid(y)")

    result = project.run("--fx-report=out/fx.html", "--fx-report=fx.json")

    result.stdout.fnmatch_lines(["fx: wrote the report out/fx.html"])
    page = (project.path / "out/fx.html").read_text(encoding="utf-8")
    assert "<p>1 golden differs</p>" in page
    assert '<article id="test_net.py::test_net"' in page
    assert "<span>python <code>" in page
    assert "relu \\u2192 sigmoid" in page
    assert "model.py:13: return torch.sigmoid(y)" in page
    assert "graphs" not in (project.path / "fx.json").read_text()


def test_a_page_shows_the_graph_of_a_missing_golden(project):
    result = project.run("--fx-report=fx.html")

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    page = (project.path / "fx.html").read_text(encoding="utf-8")
    assert '"overlay":false' in page
    assert "there is no golden golden/test_net/test_net.yaml" in page


def test_a_golden_that_was_not_written_is_no_update(project):
    project.test("from model import Net\n\ndef test_net(fx_golden):\n    assert Net() == fx_golden\n    assert False\n")

    project.update("--fx-report=fx.json")

    report = json.loads((project.path / "fx.json").read_text())
    assert [outcome["status"] for outcome in report["outcomes"]] == ["refused"]


def test_reports_are_relative_to_where_pytest_was_started_and_can_be_several(project, monkeypatch):
    project.update()
    folder = project.path / "sub"
    folder.mkdir()
    monkeypatch.chdir(folder)

    project.run("--rootdir=..", "..", "--fx-report=a.json", "--fx-report", "b/b.json", "-p", "no:cacheprovider")

    assert (folder / "a.json").read_bytes() == (folder / "b/b.json").read_bytes()


@pytest.mark.parametrize("path", ["x.txt", "x", "json", "html"])
def test_a_kind_that_is_not_built_is_refused_with_those_that_are(project, path):
    result = project.run(f"--fx-report={path}")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*--fx-report: expected a path that ends in .html, .md, .json, got '{path}'*"])


def test_a_report_that_cannot_be_written_fails_the_run(project):
    project.update()
    project.write("out", "a file where a folder has to be")

    result = project.run("--fx-report=out/fx.json")

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["fx: cannot write the report out/fx.json: *; move what lies in its place"])


def test_shards_are_merged_before_a_golden_is_called_unused(project, monkeypatch, capsys):
    project.write("conftest.py", SHARD)
    project.test(FOUR.format(count=4))
    project.update().assert_outcomes(passed=4)
    project.test(FOUR.format(count=3))
    monkeypatch.chdir(project.path)
    for shard in (0, 1):
        result = project.run(f"--shard={shard}", f"--fx-report=shard{shard}.json", "--fx-unused=fail")
        assert result.ret == 0
        result.stdout.no_fnmatch_line("fx: unused*")
    capsys.readouterr()

    assert main(["report", "--unused", "shard0.json"]) == main(["report", "--unused", "shard1.json"]) == 0
    assert main(["report", "--unused", "shard0.json", "shard1.json"]) == 1

    assert capsys.readouterr().out == "golden/test_net/test_many-3.yaml\n"


def test_shards_by_path_know_their_own_files(project, monkeypatch, capsys):
    for name in ("a", "b"):
        project.test(FOUR.format(count=2), f"{name}/test_{name}.py")
    project.update("a", "b").assert_outcomes(passed=4)
    project.test(FOUR.format(count=1), "a/test_a.py")
    (project.path / "b/test_b.py").unlink()
    monkeypatch.chdir(project.path)
    project.run("a", "--fx-report=a.json")
    capsys.readouterr()

    assert main(["report", "--unused", "a.json"]) == 1
    # Whether the other shard's file is really gone is for a run to say that was not told where to look.
    assert capsys.readouterr().out == "golden/a/test_a/test_many-1.yaml\n"
    project.run("--fx-report=whole.json", "--fx-unused=ignore")
    capsys.readouterr()
    assert main(["report", "--unused", "a.json", "whole.json"]) == 1
    assert "golden/b/test_b/test_many-0.yaml" in capsys.readouterr().out
