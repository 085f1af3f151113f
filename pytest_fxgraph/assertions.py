"""The gate without pytest's fixtures and options: functions for unittest users and scripts."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_fxgraph.capture.subjects import to_graph_module, to_graph_with_operators
from pytest_fxgraph.compare.difference import Difference
from pytest_fxgraph.compare.levels import compare_documents, comparison_at
from pytest_fxgraph.document.builder import build_document, build_document_of_graph
from pytest_fxgraph.document.decoding import decode
from pytest_fxgraph.document.encoding import encode
from pytest_fxgraph.document.generated_code import Graphs, with_code
from pytest_fxgraph.document.model import GraphDocument
from pytest_fxgraph.equivalence.fixture import check_equivalent
from pytest_fxgraph.errors import GateError, GoldenFormatError, GoldenMissingError, GoldenVersionError
from pytest_fxgraph.golden.kept_names import document_after
from pytest_fxgraph.golden.store import GoldenStore
from pytest_fxgraph.operator_patterns import name_of_target
from pytest_fxgraph.ops import OpsQuery
from pytest_fxgraph.report.text import short_lines


def diff_graphs(expected: Any, obtained: Any) -> Difference:
    """Compare two subjects at level `structure` and return what differs, which may be nothing.

    A subject is whatever a fixture takes: a module or function, which is traced, or a graph. Raises SubjectError for
    anything else, and CaptureError if a module cannot be traced.
    """
    return compare_documents(_document_of(expected), _document_of(obtained))


def assert_graph_equal(
    expected: Any, obtained: Any, *, level: str = "structure", commutative: bool = False, normalize: bool = False
) -> None:
    """Compare two subjects at a level: "exact", "structure", "ops" or "signature".

    With `commutative`, the order of the operands of commutative operators does not count; with `normalize`, neither
    does the spelling of an operator. Raises AssertionError if they differ, naming what does, LevelError for another
    level, and SubjectError or CaptureError where `diff_graphs` raises them.
    """
    __tracebackhide__ = True
    comparison_at(level)  # a wrong level is refused before two models are traced
    difference = compare_documents(
        _document_of(expected), _document_of(obtained), level=level, commutative=commutative, normalize=normalize
    )
    if not difference.is_empty:
        raise AssertionError("\n".join(_mismatch_lines(difference)))


def assert_graph_matches_golden(
    subject: Any, path: str | os.PathLike[str], *, level: str = "structure", update: bool = False
) -> None:
    """Compare a subject with the golden file at `path`, at the level "exact", "structure", "ops" or "signature".

    With `update`, a golden that is missing or does not match is written instead, with the names of nodes that it has,
    and one that matches is left as it is.
    Raises AssertionError if they differ, naming what does, GoldenMissingError if there is no golden, GoldenFormatError
    if it cannot be read, GoldenWriteError if it cannot be written, and otherwise what `assert_graph_equal` raises.
    """
    __tracebackhide__ = True
    comparison_at(level)
    graphs: Graphs = {}
    module = to_graph_module(subject)
    document = with_code(build_document_of_graph(module.graph, module, graphs=graphs), graphs)
    place = Path(path)
    store = GoldenStore(place.parent)
    try:
        expected = decode(store.read(place.name), os.fspath(path))
    except (GoldenMissingError, GoldenFormatError) as error:
        # A golden of a newer release is left to that release.
        if not update or isinstance(error, GoldenVersionError):
            raise
        written = replace(document, keeps_traced_names=level == "exact")
    else:
        difference = compare_documents(expected, document, level=level)
        if difference.is_empty:
            return
        if not update:
            command = f"assert_graph_matches_golden(..., {os.fspath(path)!r}, update=True)"
            raise AssertionError("\n".join(short_lines(difference, golden=os.fspath(path), command=command)))
        written = document_after(expected, document, graphs, level)
    store.write(place.name, encode(written))


def assert_equivalent(
    model: Any,
    graph: Any,
    inputs: Any,
    *,
    kwargs: Mapping[str, Any] | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    grads: bool = False,
    seed: int = 0,
) -> None:
    """Run a model and a graph on the same inputs; compare outputs, changed inputs, state and, with `grads`, gradients.

    `inputs` is a tuple of positional arguments, or one tensor. Without `rtol` and `atol` the tolerance follows the
    dtype. Both run in the mode, train or eval, that they are in, and are left as they were. Raises AssertionError if
    they differ, with statistics and the first node that does, and InputsError for inputs of another form.
    """
    __tracebackhide__ = True
    check_equivalent(model, graph, inputs, kwargs=kwargs, rtol=rtol, atol=atol, grads=grads, seed=seed)


def assert_ops(
    subject: Any,
    *,
    count: Mapping[Any, int] | None = None,
    absent: Iterable[Any] = (),
    in_order: Iterable[Any] = (),
    only_from: Iterable[Any] | None = None,
) -> None:
    """Check which operators the graph of a subject calls.

    `count` says how often each of some targets is called, `absent` which never, `in_order` which one after the other,
    `only_from` the only ones that may be. Targets are functions, classes of modules, names of methods, and globs such
    as "aten.batch_norm*". Raises AssertionError if the graph calls others, naming them, and GateError if nothing is
    asked or a target names no operator.
    """
    __tracebackhide__ = True
    targets, forbidden, sequence = dict(count or {}), tuple(absent), tuple(in_order)
    if not (targets or forbidden or sequence) and only_from is None:
        raise GateError("assert_ops was asked nothing; say count=, absent=, in_order= or only_from=")
    operators = OpsQuery(to_graph_with_operators(subject))
    for target, expected in targets.items():
        obtained = operators.count(target)
        if obtained != expected:
            raise AssertionError(
                f"{name_of_target(target)} is called {obtained} times, expected {expected}; "
                f"the graph calls {operators.summary()}"
            )
    if forbidden:
        operators.absent(*forbidden)
    if sequence:
        operators.in_order(*sequence)
    if only_from is not None:
        operators.only_from(only_from)


def _document_of(subject: Any) -> GraphDocument:
    return build_document(to_graph_module(subject))


def _mismatch_lines(difference: Difference) -> list[str]:
    # There is no golden here, and nothing to accept.
    first, *rest = short_lines(difference, golden="the obtained graph", command="")
    return [first, *rest[:-2], f"  compared at level {difference.level}"]
