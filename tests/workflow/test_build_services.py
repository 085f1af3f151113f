"""On GitHub and GitLab a run tells what differs where its reviewers look; JUnit XML tells it to everything else."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import pytest

import fixtures.dynamo  # noqa: F401  before any test: Dynamo cannot be imported a second time

TEST = """
from model import Net


def test_net(fx_golden):
    assert Net() == fx_golden


def test_two(fx_golden):
    fx_golden.check(Net(), name="b")
    fx_golden.check(Net(), name="c")
"""


@pytest.fixture
def differing(project):
    project.test(TEST)
    project.update()
    project.model("torch.sigmoid(y)")
    return project


@pytest.fixture
def on_github(differing, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(differing.path.parent))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(differing.path / "summary.md"))
    return differing


def commands_of(result) -> list[str]:
    return [line for line in result.outlines if line.startswith("::")]


def test_a_markdown_report_is_added_to_the_job_summary_and_causes_become_annotations(on_github):
    (on_github.path / "summary.md").write_text("before\n")

    result = on_github.run("--fx-report=out/fx.md")

    report = (on_github.path / "out/fx.md").read_text(encoding="utf-8")
    assert "| `golden/test_net/test_net.yaml` and 2 more | `structure` |" in report
    assert '["relu → sigmoid"]:::changed' in report
    assert (on_github.path / "summary.md").read_text(encoding="utf-8") == f"before\n\n\n{report}"
    result.stdout.fnmatch_lines(["fx: wrote the report out/fx.md", "fx: added the report to the job summary"])
    (command,) = commands_of(result)
    assert command.startswith(
        f"::error file={on_github.path.name}/model.py,line=13,title=3 goldens differ in the same way::"
    )


def properties_in(path) -> dict[str | None, list[tuple[str | None, str | None]]]:
    cases = ElementTree.parse(path).iter("testcase")
    return {
        case.get("name"): [(each.get("name"), each.get("value")) for each in case.iter("property")] for case in cases
    }


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize(
    ("options", "environment"),
    [
        (["-p", "no:terminal", "--fx-report=fx.md"], {}),  # nobody reads a log
        (["--fx-report=fx.md"], {"GITHUB_ACTIONS": "false"}),
        ([], {}),  # no report was asked for
    ],
    ids=str,
)
def test_otherwise_nothing_is_annotated(on_github, monkeypatch, options, environment):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    assert commands_of(on_github.run(*options)) == []


def test_gitlab_gets_code_quality_and_everybody_the_properties_in_junit_xml(differing, monkeypatch):
    monkeypatch.setenv("CI_PROJECT_DIR", str(differing.path))

    differing.run("--fx-report=gl.codequality.json", "--junit-xml=junit.xml")

    entries = json.loads((differing.path / "gl.codequality.json").read_text())
    assert [entry["location"] for entry in entries] == [{"path": "model.py", "lines": {"begin": 13}}] * 3
    assert len({entry["fingerprint"] for entry in entries}) == 3
    found = properties_in(differing.path / "junit.xml")
    assert found["test_net"] == [
        ("fx_golden", "golden/test_net/test_net.yaml"),
        ("fx_level", "structure"),
        ("fx_status", "mismatch"),
        ("fx_headline", "torch.relu -> torch.sigmoid"),
    ]
    assert [name for name, _ in found["test_two"]] == [
        *("fx_golden", "fx_level", "fx_status", "fx_headline"),
        *("fx_golden.2", "fx_level.2", "fx_status.2", "fx_headline.2"),
    ]


@pytest.mark.slow
def test_with_workers_the_controller_tells_all_of_it_once(on_github):
    pytest.importorskip("xdist")

    result = on_github.run("--fx-report=fx.md", "--junit-xml=junit.xml", "-n1")

    assert len(commands_of(result)) == 1
    assert (on_github.path / "summary.md").read_bytes() == (on_github.path / "fx.md").read_bytes()
    assert ("fx_status", "mismatch") in properties_in(on_github.path / "junit.xml")["test_net"]


def test_a_numeric_failure_is_in_every_report(project, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    project.test(
        "import torch\n\n\ndef test_same(fx_equivalence):\n"
        "    fx_equivalence(torch.abs, torch.ones(2), graph=torch.nn.Threshold(2.0, 5.0))\n"
    )

    result = project.run("--fx-report=fx.md", "--junit-xml=junit.xml")

    result.stdout.fnmatch_lines(["*- fx equivalence -*"])
    report = (project.path / "fx.md").read_text(encoding="utf-8")
    assert "## Graphs and goldens: 1 check of eager against graph failed" in report
    assert re.search("\\| `test_net.py::test_same` \\| eager and graph \\| `.*other values", report)
    assert '<property name="fx_equivalence" value="eager and graph differ' in (project.path / "junit.xml").read_text()
    (command,) = commands_of(result)
    # Neither function has a line of a model, so the annotation stands at the test; its call of the check is no place.
    assert command.startswith(
        "::error file=test_net.py,line=4,title=test_net.py%3A%3Atest_same::eager and graph differ"
    )


BREAKING = """
from torch import nn

class Net(nn.Module):
    def forward(self, x):
        x = x + 1
        print("between")
        return x * 2
"""


def test_a_model_that_is_not_captured_whole_is_in_every_report_at_its_line(project, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    (project.path / "net.py").write_text(BREAKING)
    project.test(
        "import torch\nimport net\n\n\ndef test_whole(fx_capture):\n"
        "    fx_capture(net.Net(), torch.ones(2)).assert_whole()\n"
    )
    kinds = ("fx.md", "fx.json", "fx.html", "gl.codequality.json")

    result = project.run(*(f"--fx-report={name}" for name in kinds), "--junit-xml=junit.xml")

    headline = "Net is not captured whole: 1 graph break, 2 graphs"
    markdown, data, page, quality = ((project.path / name).read_text(encoding="utf-8") for name in kinds)
    assert markdown.startswith("## Graphs and goldens: 1 model not captured whole")
    assert f"| `test_net.py::test_whole` | graph breaks | `{headline}` |" in markdown
    assert 'net.py:7, in forward: print("between")' in markdown
    (failure,) = json.loads(data)["failures"]
    assert (failure["check"], failure["headline"]) == ("capture", headline)
    assert failure["source"] == 'net.py:7: print("between")'
    assert "1 model not captured whole" in page
    assert headline in page
    (entry,) = json.loads(quality)
    assert (entry["check_name"], entry["location"]) == ("fxgraph-capture", {"path": "net.py", "lines": {"begin": 7}})
    assert f'<property name="fx_capture" value="{headline}"' in (project.path / "junit.xml").read_text()
    (command,) = commands_of(result)
    assert command.startswith(f"::error file=net.py,line=7,title=test_net.py%3A%3Atest_whole::{headline}%0A")
    result.stdout.fnmatch_lines([f"FAILED test_net.py::test_whole - {headline[:40]}*"])
    assert result.stdout.str().count("torch says") == 2  # the failure, and the annotation
