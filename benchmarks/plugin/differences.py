"""Explaining one insertion that renumbers all later names, against a bare DeepDiff of the same documents."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from benchmarks.plugin.large_graphs import chain, documents_of
from benchmarks.result import Table, verdict
from pytest_fxgraph.compare.difference import Difference
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.document.builder import build_document
from pytest_fxgraph.document.decoding import decode
from pytest_fxgraph.document.encoding import encode
from pytest_fxgraph.report.text import full_section

TARGET = 10.0


def differences(nodes: int) -> Table:
    """Measure both from documents that are read already, and from golden file and graph to words."""
    title = f"One insertion at the front of {nodes:,} nodes"
    table = Table(
        title, ("from ... to ...", "pytest-fxgraph, s", "DeepDiff, s", "ratio", f"target {TARGET:.0f}", "answers")
    )
    expected, obtained = documents_of(nodes)
    records = asdict(expected), asdict(obtained)
    seconds, difference = _timed(lambda: compare_documents(expected, obtained))
    their_seconds, found = _timed(lambda: _deepdiff(*records))
    answers = f"{_answer(difference)} / {_their_answer(found)}"
    table.rows.append(_row("documents to difference", seconds, their_seconds, answers))

    text, module = encode(expected), chain(nodes, inserted=True)
    ours, _ = _timed(lambda: _words(text, module))
    theirs, _ = _timed(lambda: _their_words(text, module))
    table.rows.append(_row("golden file and graph to words", ours, theirs, ""))
    return table


def _row(name: str, ours: float, theirs: float, answers: str) -> list[Any]:
    return [name, ours, theirs, theirs / ours, verdict(theirs / ours, TARGET), answers]


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def _deepdiff(expected: dict[str, Any], obtained: dict[str, Any]) -> Any:
    from deepdiff import DeepDiff

    return DeepDiff(expected, obtained)


def _words(golden: str, module: Any) -> str:
    expected, obtained = decode(golden, "golden"), build_document(module)
    return full_section(compare_documents(expected, obtained), expected, obtained, golden="golden", command="")


def _their_words(golden: str, module: Any) -> str:
    """Read with the fast loader of PyYAML, as kind to the other side as can be."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    expected, obtained = yaml.load(golden, Loader=loader), yaml.load(encode(build_document(module)), Loader=loader)
    return str(_deepdiff(expected, obtained).pretty())


def _answer(difference: Difference) -> str:
    actions = Counter([change.action for change in difference.changes])
    words = ", ".join([f"{actions.get(action, 0)} {action}" for action in ("added", "removed", "changed")])
    return f"{words}, {difference.renamed:,} renamed"


def _their_answer(found: Any) -> str:
    return ", ".join([f"{len(items):,} {kind}" for kind, items in found.items()])
