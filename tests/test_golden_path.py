"""The script that follows a matching golden through our files."""

from __future__ import annotations

import runpy
import subprocess
import sys

import pytest

from benchmarks import golden_path

MOST_FILES = 47  # 45, and two more under torch 2.6
MOST_CLIMBS = 4


@pytest.mark.slow
def test_the_script_names_the_files_and_the_climbs_of_a_matching_golden():
    done = subprocess.run([sys.executable, "-m", "benchmarks.golden_path"], capture_output=True, text=True, check=True)
    first, *lines = done.stdout.splitlines()
    climbs = [line for line in lines if " -> " in line]
    files = [line.strip() for line in lines if " -> " not in line]

    assert first == f"a matching golden enters {len(files)} files and climbs {len(climbs)} times"
    assert {"pytest_fxgraph.gate.fixture", "pytest_fxgraph.goldens.store", "fxcore.tracer"} <= set(files)
    assert len(files) <= MOST_FILES
    assert len(climbs) <= MOST_CLIMBS


def test_only_a_call_to_a_higher_place_is_a_climb(tmp_path, monkeypatch):
    functions = {}
    for place in ("document", "gate"):
        file = tmp_path / "pytest_fxgraph" / place / "made.py"
        file.parent.mkdir(parents=True)
        file.write_text("def run(call): call()\n", encoding="utf-8")
        functions[place] = runpy.run_path(str(file))["run"]
    monkeypatch.setattr(golden_path, "ROOT", tmp_path)
    recorder = golden_path.Recorder()

    with recorder.following():
        functions["gate"](lambda: functions["document"](int))
    assert recorder.path().climbs == ()

    with recorder.following():
        functions["document"](lambda: functions["gate"](int))
    assert recorder.path() == golden_path.GoldenPath(
        ("pytest_fxgraph.document.made", "pytest_fxgraph.gate.made"),
        (golden_path.Climb("pytest_fxgraph.document.made.run", "pytest_fxgraph.gate.made.run"),),
    )
