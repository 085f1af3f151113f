"""How the plugin's own steps grow with the graph, and what a total mismatch takes."""

from __future__ import annotations

import math
import resource
import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

from benchmarks.plugin.large_graphs import another_chain, chain
from benchmarks.result import Table, verdict
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.document.builder import build_document
from pytest_fxgraph.document.decoding import decode
from pytest_fxgraph.document.encoding import encode
from pytest_fxgraph.report.text import full_section, short_lines

SIZES = (1_000, 10_000, 100_000)
_MOST = 1.1


def scaling() -> list[Table]:
    """Measure each step at every size; below, the largest mismatch."""
    seconds: dict[str, list[float]] = {}
    _steps(100)  # imports, and no more: texts that are remembered from a run before would favour small graphs
    for size in SIZES:
        for step, taken in _steps(size).items():
            seconds.setdefault(step, []).append(taken)
    columns = ("step", *[f"{size:,} nodes, ms" for size in SIZES], "exponent", f"at most {_MOST}")
    table = Table("Growth", columns)
    for step, taken in seconds.items():
        exponent = math.log(taken[-1] / taken[0]) / math.log(SIZES[-1] / SIZES[0])
        table.rows.append([step, *[each * 1e3 for each in taken], exponent, verdict(_MOST, exponent)])
    return [table, _total_mismatch(SIZES[-1])]


def _steps(size: int) -> dict[str, float]:
    module = chain(size)
    seconds: dict[str, float] = {}

    def step(name: str, work: Callable[[], Any]) -> Any:
        start = time.process_time()
        result = work()
        seconds[name] = time.process_time() - start
        return result

    document = step("build the document", lambda: build_document(module))
    text = step("encode", lambda: encode(document))
    expected = step("decode", lambda: decode(text, "golden"))
    inserted, other = build_document(chain(size, inserted=True)), build_document(another_chain(size))
    step("compare, equal", lambda: compare_documents(expected, document))
    step("compare, one insertion", lambda: compare_documents(expected, inserted))
    difference = step("compare, nothing in common", lambda: compare_documents(expected, other))
    step("words for it", lambda: full_section(difference, expected, other, golden="golden", command=""))
    return seconds


def _total_mismatch(size: int) -> Table:
    """Count what a mismatch of everything allocates at its peak, and how much it says."""
    expected, obtained = build_document(chain(size)), build_document(another_chain(size))
    tracemalloc.start()
    difference = compare_documents(expected, obtained)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    section = full_section(difference, expected, obtained, golden="golden", command="")
    lines = short_lines(difference, golden="golden", command="")
    table = Table(f"Two graphs of {size:,} nodes with nothing in common", ("", ""))
    table.rows.append(["bytes a node at the peak of the comparison", peak / size])
    table.rows.append(["resident memory of the process, MB", _resident_megabytes()])
    table.rows.append(["changes listed / only counted", f"{len(difference.changes):,} / {difference.omitted:,}"])
    table.rows.append(["lines in the assertion / in the section", f"{len(lines)} / {section.count(chr(10)) + 1}"])
    return table


def _resident_megabytes() -> float:
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / (2**20 if sys.platform == "darwin" else 2**10)
