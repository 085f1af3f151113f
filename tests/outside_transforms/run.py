"""The verdict on every transform, printed: `python -m tests.outside_transforms.run [NAME | THEME ...]`."""

from __future__ import annotations

import sys
import time
import warnings
from collections import Counter

from tests.outside_transforms.table import CASES
from tests.outside_transforms.verdict import judge

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    counts: Counter[str] = Counter()
    for case in CASES:
        if len(sys.argv) > 1 and case.name not in sys.argv[1:] and case.theme not in sys.argv[1:]:
            continue
        begin = time.process_time()
        verdict = judge(case)
        counts[f"{'right' if case.is_right else 'wrong'}: {verdict.kind}"] += 1
        seconds = time.process_time() - begin
        print(f"{case.theme}.{case.name}: {verdict.kind} ({seconds:.2f} s)\n    {verdict.message}")
    for kind, number in sorted(counts.items()):
        print(f"{number:4d} {kind}")
