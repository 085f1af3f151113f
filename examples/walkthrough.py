"""Records a golden of a real model, passes against it, changes the model, and shows what the gate says.

Works on a copy of `examples/gate` in a temporary folder, with the plugin as installed. Exits with status 1 if a step
does not end as it should. Needs the package efficientnet-pytorch.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

GATE = Path(__file__).parent / "gate"


@dataclass(frozen=True)
class Step:
    """One edit of the model, one run of pytest, and what must come of it."""

    title: str
    replace: tuple[str, str] | None = None  # in classifier.py
    options: tuple[str, ...] = ()
    passes: bool = True
    says: tuple[str, ...] = ()


STRIDE = ("stride=1", "stride=2")
OPERATOR = ("torch.relu(", "torch.sigmoid(")
CONSTANT = ("features.mean(dim=(2, 3))", "features.mean(dim=(2, 3)) * 1.5")
WIRING = ("average + peak", "average + average")
SHAPE = ("classes: int = 10", "classes: int = 11")
RENAMING = ("average", "mean_of_features")
AVERAGE = "        average = features.mean(dim=(2, 3))\n"
PEAK = "        peak = features.amax(dim=(2, 3))\n"
SWAP = (AVERAGE + PEAK, PEAK + AVERAGE)

STEPS = (
    Step("There is no golden yet, and nothing is written unasked", passes=False, says=("--fx-update-golden",)),
    Step("Record it", options=("--fx-update-golden",)),
    Step("Pass against it"),
    Step("Change a stride: the gate fails", STRIDE, passes=False, says=("neck", "stride", "(1, 1)", "(2, 2)")),
    Step("Change an operator", OPERATOR, passes=False, says=("torch.relu", "torch.sigmoid")),
    Step("Add an operation with a constant", CONSTANT, passes=False, says=("operator.mul",)),
    Step("Change the wiring", WIRING, passes=False, says=("add reads mean in place of amax",)),
    Step("Change a parameter's shape", SHAPE, passes=False, says=("head", "10", "11")),
    Step("Rename a variable: that changes nothing", RENAMING),
    Step("Exchange two independent statements: that changes nothing, either", SWAP),
    Step("Accept a change on purpose", STRIDE, options=("--fx-update-golden",)),
    Step("Pass against the new golden", STRIDE),
)


def main() -> int:
    """Run every step; return the exit status."""
    with tempfile.TemporaryDirectory() as folder:
        repository = Path(folder) / "repository"
        shutil.copytree(GATE, repository, ignore=shutil.ignore_patterns("__pycache__", "golden"))
        original = (repository / "classifier.py").read_text(encoding="utf-8")
        failed = [step.title for step in STEPS if not run(step, repository, original)]
    print()
    if failed:
        print("Not as it should be: " + "; ".join(failed))
        return 1
    print(f"All {len(STEPS)} steps went as they should.")
    return 0


def run(step: Step, repository: Path, original: str) -> bool:
    """Edit the model, run pytest on it, and tell whether that ended as it should."""
    source = original
    if step.replace is not None:
        assert step.replace[0] in source, step.title
        source = source.replace(*step.replace)
    (repository / "classifier.py").write_text(source, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "--tb=short", "--no-header", *step.options]
    print(f"\n=== {step.title}")
    if step.replace is not None:
        print(f"    classifier.py: {' '.join(step.replace[0].split())}  ->  {' '.join(step.replace[1].split())}")
    print(f"    $ pytest {' '.join(step.options)}".rstrip())
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=repository, env=environment, capture_output=True, text=True, check=False)
    print(done.stdout + done.stderr)
    as_expected = (done.returncode == 0) == step.passes and done.returncode in (0, 1)
    return as_expected and all(word in done.stdout for word in step.says)


if __name__ == "__main__":
    sys.exit(main())
