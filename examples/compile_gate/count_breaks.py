"""What such projects have today: counts graph breaks and operators of each model, and compares with a CSV.

It misses what `tests/test_breaks.py` catches: a model that captured nothing counts as one without breaks, an empty
line of the CSV is skipped, and so are a count that is no number and a model on the list of flaky ones.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import torch
import torch._dynamo
from gate.models import MODELS, inputs

EXPECTED = Path(__file__).with_name("expected.csv")
FLAKY = {"skips"}


def counts(name: str) -> dict[str, str]:
    torch.manual_seed(0)
    explained = torch._dynamo.explain(MODELS[name]().eval())(*inputs())
    return {"model": name, "breaks": str(explained.graph_break_count), "operators": str(explained.op_count)}


def main() -> int:
    measured = {name: counts(name) for name in MODELS}
    if "--update" in sys.argv or not EXPECTED.exists():
        with EXPECTED.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, ["model", "breaks", "operators"])
            writer.writeheader()
            writer.writerows(measured.values())
        return 0
    failed = 0
    with EXPECTED.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if not row["model"] or row["model"] in FLAKY:
                continue
            for column in ("breaks", "operators"):
                if row[column].isdigit() and row[column] != measured[row["model"]][column]:
                    print(f"{row['model']}: {column} {row[column]} -> {measured[row['model']][column]}")
                    failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
