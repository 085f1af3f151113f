"""How the plugin's own steps grow with the graph, and what a total mismatch takes."""

from __future__ import annotations

import contextlib
import io
import math
import resource
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.plugin.large_graphs import another_chain, blocks, chain
from benchmarks.result import Table, verdict
from pytest_fxgraph.captures.tracing import trace_to_read
from pytest_fxgraph.command.main import main as command
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.document.builder import build_document
from pytest_fxgraph.document.decoding import decode
from pytest_fxgraph.document.encoding import encode
from pytest_fxgraph.document.generated_code import Graphs
from pytest_fxgraph.document.node_names import differs_in_names_at_most
from pytest_fxgraph.report.text import full_section, short_lines

SIZES = (1_000, 10_000, 100_000)
_MOST = 1.1

Step = Callable[[str, Callable[[], Any]], Any]  # runs and times the step of this name


def scaling() -> list[Table]:
    """Measure each step at every size; below, the largest mismatch."""
    tables = [_growth("Growth, a chain", _steps_of_chain)]
    tables.append(_growth("Growth, blocks", _steps_of_blocks))
    tables[-1].title += f"; {_resident_megabytes():,.0f} MB in memory at the most"
    return [*tables, _total_mismatch(SIZES[-1])]


def _growth(title: str, steps: Callable[[int, Step], None]) -> Table:
    seconds: dict[str, list[float]] = {}

    def step(name: str, work: Callable[[], Any]) -> Any:
        start = time.process_time()
        result = work()
        seconds.setdefault(name, []).append(time.process_time() - start)
        return result

    steps(100, step)  # imports, and no more: texts that are remembered from a run before would favour small graphs
    seconds.clear()
    for size in SIZES:
        steps(size, step)
    columns = ("step", *[f"{size:,} nodes, ms" for size in SIZES], "exponent", f"at most {_MOST}")
    table = Table(title, columns)
    for name, taken in seconds.items():
        exponent = math.log(taken[-1] / taken[0]) / math.log(SIZES[-1] / SIZES[0])
        table.rows.append([name, *[each * 1e3 for each in taken], exponent, verdict(_MOST, exponent)])
    return table


def _steps_of_chain(size: int, step: Step) -> None:
    module = chain(size)
    document = step("build the document", lambda: build_document(module))
    text = step("encode", lambda: encode(document))
    expected = step("decode", lambda: decode(text, "golden"))
    inserted, other = build_document(chain(size, inserted=True)), build_document(another_chain(size))
    step("compare, equal", lambda: compare_documents(expected, document))
    step("compare, one insertion", lambda: compare_documents(expected, inserted))
    difference = step("compare, nothing in common", lambda: compare_documents(expected, other))
    step("words for it", lambda: full_section(difference, expected, other, golden="golden", command=""))


def _steps_of_blocks(size: int, step: Step) -> None:
    model, graphs = blocks(size), Graphs()
    traced = step("trace", lambda: trace_to_read(model))
    document = step("document", lambda: build_document(traced.root, graph=traced.graph, sources=False, graphs=graphs))
    text = step("encode", lambda: encode(document))
    if not step("match", lambda: differs_in_names_at_most(text, document)):
        raise RuntimeError("a golden does not match its own graph")
    expected = step("decode", lambda: decode(text, "golden"))
    again = trace_to_read(blocks(size, inserted=True))
    inserted = build_document(again.root, graph=again.graph, sources=False, graphs=Graphs())
    difference = step("compare, one insertion", lambda: compare_documents(expected, inserted))
    step("words for it", lambda: full_section(difference, expected, inserted, golden="golden", command=""))
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, f"{name}.yaml") for name in ("expected", "obtained")]
        for file, written in zip(files, (text, encode(inserted)), strict=True):
            file.write_text(written, encoding="utf-8")
        arguments = ["diff", "-o", str(Path(folder, "diff.html")), *map(str, files)]
        with contextlib.redirect_stdout(io.StringIO()):
            step("fxgraph diff -o, both read", lambda: command(arguments))


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
