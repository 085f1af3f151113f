"""The example of a replay: the workflow is that of the docs, and the script shows what its README says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "replay"


def test_the_docs_hold_the_workflow_of_the_example():
    workflow = (EXAMPLE / "graphs.yml").read_text(encoding="utf-8").partition("\n")[2]

    assert f"```yaml\n{workflow}```" in (ROOT / "docs" / "replay.md").read_text(encoding="utf-8")
    assert len(workflow.splitlines()) <= 20


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="a script of sh")
def test_the_script_shows_a_refactoring_without_an_edit_and_then_the_edit():
    given = {**os.environ, "PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}

    result = subprocess.run(["sh", EXAMPLE / "try.sh"], env=given, capture_output=True, text=True, check=False)

    assert result.returncode == 0, result.stderr
    refactoring, _, edit = result.stdout.partition("== an edit")
    assert "3 tests, 3 graphs: 3 same" in refactoring
    assert 'edit: F.gelu approximate nothing -> "tanh"' in edit
    assert "3 tests, 3 graphs: 0 same" in edit
