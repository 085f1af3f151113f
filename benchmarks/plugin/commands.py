"""The command `fxgraph`: CPU time of whole processes, on the golden of mobilenetv2."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.plugin.installation import Installation
from benchmarks.result import Table
from fixtures.catalog import CATALOG
from pytest_fxgraph.document.builder import build_document
from pytest_fxgraph.document.encoding import encode

_COMMAND = "import sys; from pytest_fxgraph.command.main import main; sys.exit(main())"
_TARGETS = {"show": 120.0, "diff, one argument changed": 250.0}  # ms


def commands(installation: Installation, rounds: int) -> Table:
    """Time `show` and `diff`."""
    import fxcore

    table = Table("The command", ("command", "CPU ms", "lowest and highest", "at most"))
    golden = encode(build_document(fxcore.symbolic_trace(CATALOG["mobilenetv2"].build().eval())))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        changed = golden.replace("stride=(2, 2)", "stride=(2, 3)", 1)
        for file, text in (("expected.yaml", golden), ("obtained.yaml", changed)):
            folder.joinpath(file).write_text(text, encoding="utf-8")
        for kind, arguments in (
            ("show", ["show", "expected.yaml"]),
            ("diff, equal", ["diff", "expected.yaml", "expected.yaml"]),
            ("diff, one argument changed", ["diff", "expected.yaml", "obtained.yaml"]),
        ):
            _cpu_milliseconds(folder, installation, arguments)  # writes byte code
            taken = [_cpu_milliseconds(folder, installation, arguments) for _ in range(rounds)]
            interval = f"{min(taken):.0f} to {max(taken):.0f}"
            table.rows.append([f"fxgraph {kind}", statistics.median(taken), interval, _TARGETS.get(kind, "")])
    return table


def _cpu_milliseconds(folder: Path, installation: Installation, arguments: list[str]) -> float:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(installation.path)}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-c", _COMMAND, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=environment)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"fxgraph {' '.join(arguments)} failed:\n{done.stderr[-2000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e3
