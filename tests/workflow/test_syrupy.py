"""fx_golden beside syrupy's snapshot: both in one test, each with its own flag and its own files."""

from __future__ import annotations

import pytest

pytest.importorskip("syrupy", reason="syrupy comes with the extra `bench`")

TEST = """
import torch


def double(x):
    return torch.{function}(x)


def test_both(fx_golden, snapshot):
    assert double == fx_golden
    assert double == fx_golden.inline()
    assert {text!r} == snapshot
"""


def test_each_flag_writes_its_own_and_each_fixture_compares_its_own(project):
    project.test(TEST.format(function="neg", text="a report"))
    path = project.path / "test_net.py"

    project.run("--snapshot-update").assert_outcomes(failed=1)
    assert project.goldens() == {}
    assert "inline()" in path.read_text()
    project.update("--snapshot-update").assert_outcomes(passed=1)
    result = project.run()
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["fx: 2 goldens matched"])
    snapshots = sorted(path.relative_to(project.path).as_posix() for path in project.path.rglob("*.ambr"))
    assert snapshots == ["__snapshots__/test_net.ambr"]

    path.write_text(path.read_text().replace("a report", "another"))
    result = project.update()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*another*", "fx: 2 goldens matched"])

    path.write_text(path.read_text().replace("another", "a report").replace("torch.neg(x)", "torch.abs(x)"))
    result = project.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*golden/test_net/test_both.yaml does not match: *torch.neg -> torch.abs"])
