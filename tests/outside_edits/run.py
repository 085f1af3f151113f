"""The verdict on every edit, printed: `python -m tests.outside_edits.run [NAME | THEME ...]`."""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path

from tests.outside_edits.table import EDITS
from tests.outside_edits.verdict import judge

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    chosen = [e for e in EDITS if len(sys.argv) == 1 or e.name in sys.argv[1:] or e.theme in sys.argv[1:]]
    counts: Counter[str] = Counter()
    for edit in chosen:
        begin = time.process_time()
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            verdict = judge(edit, Path(folder))
        counts[f"{'harmful' if edit.is_harmful else 'harmless'}: {verdict.kind}"] += 1
        lines = verdict.message.splitlines()
        shown = lines if len(chosen) == 1 else lines[:2]
        print(f"{edit.theme}.{edit.name}: {verdict.kind} ({time.process_time() - begin:.2f} s)")
        print(*(f"    {line}" for line in shown), sep="\n")
    for kind, number in sorted(counts.items()):
        print(f"{number:4d} {kind}")
