"""The workflows in examples/ci ask for what there is, and the one for a shell runs as it stands."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from pytest_fxgraph.command.main import main

EXAMPLES = Path(__file__, "../../../examples/ci").resolve()
FILES = sorted(path.name for path in EXAMPLES.iterdir())


def test_there_are_workflows_for_both_services_and_for_a_shell():
    assert FILES == ["check.sh", "github.yml", "gitlab.yml"]


@pytest.mark.parametrize("name", FILES)
def test_every_option_and_command_exists(name, request, capsys):
    text = (EXAMPLES / name).read_text(encoding="utf-8")
    known = {option for group in request.config._parser._groups for each in group.options for option in each.names()}

    asked = set(re.findall(r"(--fx-[a-z-]+)", text))
    commands = set(re.findall(r"(?:fxgraph|command\.main) (\w+ --unused|report|\w+(?= reports))", text))

    assert asked >= {"--fx-report", "--fx-received", "--fx-unused"}
    assert asked <= known
    assert commands == {"report", "report --unused"}
    for command in commands:
        with pytest.raises(SystemExit) as ended:
            main([*command.split(), "--help"])
        assert ended.value.code == 0


def test_the_jobs_of_github_hand_their_reports_to_the_last():
    jobs = yaml.safe_load((EXAMPLES / "github.yml").read_text(encoding="utf-8"))["jobs"]

    assert jobs["report"]["needs"] == "tests"
    shards = jobs["tests"]["strategy"]["matrix"]["shard"]
    (run,) = [step["run"] for step in jobs["tests"]["steps"] if step.get("run", "").startswith("pytest ")]
    assert f"--splits {len(shards)} " in run
    assert "--fx-report=reports/fx.json" in run
    (upload,) = [step["with"]["path"] for step in jobs["tests"]["steps"] if "upload-artifact" in step.get("uses", "")]
    assert upload.split() == ["reports/", "golden/**/*.received.yaml"]
    # What a pull request can name itself, such as its branch, is no part of a script.
    for job in jobs.values():
        for step in job["steps"]:
            assert not re.search(r"\$\{\{(?! matrix\.)", step.get("run", ""))


def test_the_jobs_of_gitlab_give_it_what_it_shows():
    jobs = yaml.safe_load((EXAMPLES / "gitlab.yml").read_text(encoding="utf-8"))

    assert jobs["graphs-report"]["needs"] == ["graphs"]
    assert jobs["graphs"]["artifacts"]["reports"].keys() == {"junit", "codequality"}
    assert "fx.codequality.json" in jobs["graphs"]["script"][1]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("sh") is None, reason="there is no shell")
def test_the_script_runs_the_shards_and_tells_github_of_both(project):
    project.update()
    project.model("torch.sigmoid(y)")
    project.write("test_other.py", "def test_other():\n    pass\n")

    ended = run_script(project, "test_net.py", "test_other.py")

    assert ended.returncode == 1, ended.stdout + ended.stderr
    report = (project.path / "reports/fx.md").read_text(encoding="utf-8")
    assert "| `golden/test_net/test_net.yaml` | `structure` | `torch.relu -> torch.sigmoid` |" in report
    assert report in ended.stdout
    assert re.search("^::error file=model.py,line=13,title=golden golden/test_net/test_net.yaml::", ended.stdout, re.M)
    assert "1 passed" in ended.stdout
    assert (project.path / "summary.md").read_text(encoding="utf-8") == report
    assert (project.path / "golden/test_net/test_net.received.yaml").exists()
    assert {path.name for path in (project.path / "reports/2").iterdir()} == {
        *("fx.html", "fx.json", "junit.xml", "log.txt")
    }


def run_script(project, *shards: str) -> subprocess.CompletedProcess[str]:
    """Run the script as GitHub would; `python` is the one that runs the tests."""
    program = project.path / "bin/python"
    program.parent.mkdir()
    program.symlink_to(sys.executable)
    environment = {
        **os.environ,
        "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "GITHUB_ACTIONS": "true",
        "GITHUB_WORKSPACE": str(project.path),
        "GITHUB_STEP_SUMMARY": str(project.path / "summary.md"),
        "PYTEST_ADDOPTS": "-q -p no:randomly -p no:hypothesispytest -p no:xdist -p no:cacheprovider",
    }
    command = ["sh", str(EXAMPLES / "check.sh"), *shards]
    return subprocess.run(
        command, cwd=project.path, env=environment, capture_output=True, encoding="utf-8", check=False, timeout=300
    )
