"""The trials, printed: `python -m tests.clients.run [WORD ...]` runs the cases with one of the words in their name."""

from __future__ import annotations

import sys
import time
import warnings

from tests.clients.table import CASES
from tests.clients.verdict import judge

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for case in CASES:
        if len(sys.argv) > 1 and not any(word in case.identity for word in sys.argv[1:]):
            continue
        begin = time.process_time()
        verdict = judge(case)
        print(f"{case.identity}: {verdict.kind} ({time.process_time() - begin:.1f} s)\n    {verdict.message}")
