"""The judgement on every case, printed: `python -m tests.guided_cases.run [NAME ...]`."""

from __future__ import annotations

import contextlib
import io
import sys
import time
import warnings
from collections import Counter

from tests.guided_cases.judgement import LENIENT, UNTRACED, Verdict, faults, judge
from tests.guided_cases.table import CASES

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    counts: Counter[str] = Counter()
    for each in CASES:
        if len(sys.argv) > 1 and each.name not in sys.argv[1:] and each.theme not in sys.argv[1:]:
            continue
        begin = time.process_time()
        with contextlib.redirect_stderr(io.StringIO()):  # torch prints the generated line of an error
            verdicts: list[Verdict] = judge(each)
        seconds = time.process_time() - begin
        counts.update(verdict.kind for verdict in verdicts)
        counts["cases"] += 1
        counts["cases with a fault"] += bool(faults(verdicts))
        shown = verdicts if len(sys.argv) > 1 else faults(verdicts)
        shown += [] if len(sys.argv) > 1 else [v for v in verdicts if v.kind in (UNTRACED, LENIENT)]
        if shown or seconds > 1:
            print(f"{each.theme}.{each.name} ({seconds:.2f} s)")
        for verdict in shown:
            print(f"    {verdict}")
    print(dict(counts))
