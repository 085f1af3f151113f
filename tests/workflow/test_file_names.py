"""Names of files are not trusted: neither by a terminal, nor by a build's log, nor by what deletes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from pytest_fxgraph.command.main import main

COMMAND = "x\n::error file=a.py::injected\x1b[2J"
TEST = "from model import Net\n\n\ndef test_net(fx_golden):\n    assert Net() == fx_golden\n"

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such names")


def printed_commands(lines: list[str]) -> list[str]:
    return [line for line in lines if line.strip().startswith("::") or "\x1b[2J" in line]


@pytest.fixture
def hostile(project):
    """A project with goldens whose names are commands to GitHub Actions, in use and not."""
    project.write(f"golden/{COMMAND}/test_a.yaml", "format: 1\nnodes: []\n")
    project.write(f"golden/test_net/test_{COMMAND.replace('/', '')}.yaml", "format: 1\nnodes: []\n")
    project.write(f"golden/test_net/test_{COMMAND}.received.yaml", "format: 1\nnodes: []\n")
    project.update().assert_outcomes(passed=1)
    return project


@pytest.mark.parametrize("options", [[], ["--fx-prune-golden"], ["--fx-unused=fail"], ["--fx-received"]])
def test_no_name_is_printed_as_it_is(hostile, options):
    result = hostile.run(*options)

    assert not printed_commands(result.outlines)
    assert any("\\n::error file=a.py::injected\\x1b" in line for line in result.outlines)


def test_the_command_prints_no_name_as_it_is(hostile, monkeypatch, capsys):
    monkeypatch.chdir(hostile.path)
    capsys.readouterr()
    golden = "golden/test_net/test_net.yaml"

    for arguments in (
        ["report", "--unused"],
        ["accept"],
        ["accept", "golden"],
        ["show", "golden"],
        ["show", COMMAND],
        ["diff", "golden", "golden/test_net"],
        ["diff", f"golden/{COMMAND}/test_a.yaml", golden],
        ["accept", COMMAND],
        ["report", "--unused", COMMAND],
    ):
        main(arguments)
        out, err = capsys.readouterr()
        assert out or err
        assert not printed_commands([*out.split("\n"), *err.split("\n")]), arguments


def test_code_that_is_a_command_is_shown_escaped(hostile, monkeypatch, capsys):
    monkeypatch.chdir(hostile.path)
    golden = hostile.write(
        "evil.yaml", "format: 3\ngraph: |\n  return 1\ncode: |\n  x = 1\n    ::error::a\n  y ##[error]b\nend: true\n"
    )
    capsys.readouterr()

    main(["show", "--code", str(golden)])

    out = capsys.readouterr().out
    assert "  \\x3a:error::a" in out
    assert "##[" not in out


def test_prune_leaves_what_is_no_golden_in_form(project):
    project.update()
    names = ["a.yaml", "b.yaml", "c.yaml"]
    for name, text in zip(names, ["rows: 1\n", "format: 1\nrows: []\n", "format: yes\nnodes: []\n"], strict=True):
        project.write(f"golden/test_net/{name}", text)
    os.mkfifo(project.path / "golden/test_net/d.yaml")
    project.write("golden/test_net/e.yaml", "format: 1\nnodes: []\n")

    project.run("--fx-prune-golden").stdout.fnmatch_lines(["fx: removed golden/test_net/e.yaml"])

    left = sorted(path.name for path in (project.path / "golden/test_net").iterdir())
    assert left == [*names, "d.yaml", "test_net.yaml"]


@pytest.mark.parametrize("link", [False, True])
@pytest.mark.parametrize("arguments", [["show"], ["diff", "golden.yaml"], ["report", "--unused"], ["accept"]])
@pytest.mark.parametrize("kind", ["fifo", "device"])
def test_the_command_refuses_fifos_and_devices_at_once(tmp_path, monkeypatch, capsys, kind, arguments, link):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "golden.yaml").write_text("format: 1\nnodes: []\n")
    special = tmp_path / "special.yaml"
    if kind == "fifo":
        os.mkfifo(special)
    else:
        special.symlink_to("/dev/zero")
    if link:
        (tmp_path / "link.yaml").symlink_to(special)
        special = tmp_path / "link.yaml"

    assert main([*arguments, special.name]) == 2

    assert capsys.readouterr().err.startswith("fxgraph: cannot ")


@pytest.mark.parametrize("command", [["accept"], ["report", "--unused"], ["show", "golden"], ["accept", "golden"]])
def test_fifos_in_the_golden_folder_keep_nobody_waiting(tmp_path, command):
    (tmp_path / "golden/test_net").mkdir(parents=True)
    for name in ("a.yaml", "a.received.yaml"):
        os.mkfifo(tmp_path / "golden/test_net" / name)

    subprocess.run(
        [sys.executable, "-m", "pytest_fxgraph.command.main", *command], cwd=tmp_path, timeout=120, check=False
    )
