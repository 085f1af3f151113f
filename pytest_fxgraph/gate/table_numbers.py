"""The numbers of a row: counts in the graphs of a subject, their costs, and the numbers that a test measured."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

from fxcore.transforms.analysis.values import example_arguments
from pytest_fxgraph.captures.capture import Capture
from pytest_fxgraph.captures.costs import costs_on, step_memory
from pytest_fxgraph.captures.shapes import arguments_in_order
from pytest_fxgraph.compare.difference import Change
from pytest_fxgraph.compare.levels import operator_counts
from pytest_fxgraph.document.builder import build_document
from pytest_fxgraph.document.costs import CostBlock
from pytest_fxgraph.document.model import graphs_of
from pytest_fxgraph.errors import CaptureError, ChoiceError, GateError
from pytest_fxgraph.goldens.table_columns import COSTS, COUNTED, KERNEL_BYTES, KERNELS, QUANTIZED
from pytest_fxgraph.goldens.table_rows import KEYS, Values
from pytest_fxgraph.ranks.rank_programs import RankPrograms

# The column of a table that counts a finding, by the kind of the finding.
COLUMN_OF_FINDING = {"break": "breaks", "recompile": "recompiles", "skipped": "skipped", "fallback": "fallbacks"}
_GRANULARITY = re.compile(r"\] (?:as [^:(]*)?(?:per (?:tensor|channel)|in groups of)\b")


def numbers_of(subject: Any) -> dict[str, int | float]:
    """Count the graphs, breaks, operators, nodes, quantized tensors and kernels of a subject, its kernels' bytes too.

    Raises CaptureError for a capture without any graph, and where torch does not tell of breaks or makes no kernels.
    """
    numbers = dict.fromkeys(COUNTED, 0)
    if isinstance(subject, Capture):
        subject.refuse_empty()
        numbers["breaks"], numbers["recompiles"] = len(subject.breaks), len(subject.recompiles)
        numbers["skipped"], numbers["fallbacks"] = len(subject.skipped), len(subject.fallbacks)
    graphs = _graphs_of(subject)
    documents = [build_document(graph, constants="shape", sources=False) for graph in graphs]
    numbers["graphs"] = len(graphs)
    numbers["operators"] = sum(sum(operator_counts(document).values()) for document in documents)
    inside = [graph for document in documents for graph in graphs_of(document)]
    numbers["nodes"] = sum(len(graph.nodes) for graph in inside)
    # Parameters and buffers that are held as small whole numbers with scales.
    quantized = sum(_GRANULARITY.search(record.value) is not None for graph in inside for record in graph.state)
    further = {QUANTIZED: quantized} if quantized else {}
    if isinstance(subject, Capture) and subject.frontend == "inductor":
        further |= {KERNELS: len(subject.kernels), KERNEL_BYTES: sum(kernel.bytes for kernel in subject.kernels)}
    return {**numbers, **further}


def findings_of(subject: Any) -> list[Change]:
    """Return the breaks, recompiles and functions left to Python of a capture as changes, with their lines."""
    if not isinstance(subject, Capture):
        return []
    return [
        Change("signature", "added", kind, each.text, source=each.place.line_of_source or None, operator=each.text)
        for kind, each in subject.findings
    ]


def _graphs_of(subject: Any) -> list[Any]:
    if isinstance(subject, RankPrograms):
        return [subject.programs[group.ranks[0]].readable for group in subject.groups]
    return subject.graphs if isinstance(subject, Capture) else [subject]


def costs_of(
    subject: Any, example_inputs: object, example_kwargs: Mapping[str, Any] | None, *, is_asked: bool
) -> dict[str, int | float]:
    """Return the costs of all graphs of a subject together; of the peaks of memory the highest. Of ranks, the largest.

    Nothing for a graph whose shapes nobody knows, unless costs are asked for: then that raises CaptureError, as does a
    graph that cannot be counted.
    """
    if isinstance(subject, RankPrograms):
        return subject.cost.largest
    if isinstance(subject, Capture):  # its graphs know their values, and may take other inputs than the model
        example_inputs, example_kwargs = None, None
    blocks = [_costs_of(graph, example_inputs, example_kwargs) for graph in _graphs_of(subject)]
    counted = [block for block in blocks if block is not None]
    if len(counted) < len(blocks):
        if is_asked or counted:
            raise CaptureError(
                "cannot count what the graphs cost: the shapes of their inputs are not known; give example_inputs=, "
                "or leave the columns of costs out with fx_table(costs=False)"
            )
        return {}
    numbers = {column: sum(block.metric(column) for block in counted) for column in ("flops", "bytes")}
    numbers["params"] = counted[0].total.params if len(counted) == 1 else _elements(subject)
    numbers["peak_activation"] = max(block.peak_activation for block in counted)
    numbers["uncounted"] = len({name for block in counted for name in block.uncounted})
    memory = step_memory(_graphs_of(subject)[0])
    return {**{column: numbers[column] for column in COSTS}, **memory}


def _costs_of(graph_module: Any, example_inputs: object, example_kwargs: Mapping[str, Any] | None) -> CostBlock | None:
    if example_inputs is None and not example_kwargs:
        arguments = example_arguments(graph_module.graph)
    else:
        arguments = arguments_in_order(graph_module, example_inputs, example_kwargs or {})
    if arguments is None:
        return None
    try:
        return costs_on(graph_module, arguments)
    except CaptureError as error:
        raise CaptureError(f"{error}; leave the columns of costs out with fx_table(costs=False)") from error


def _elements(subject: Any) -> int:
    """Count the elements of all parameters that graphs read, each once."""
    tensors = {id(each): each for graph in _graphs_of(subject) for each in graph.parameters()}
    return sum(tensor.numel() for tensor in tensors.values())


def measured_numbers(values: Mapping[str, Any], row: str) -> dict[str, int | float]:
    """Return the numbers that a test measured, as Python's numbers.

    Raises GateError for what is no finite number, as NaN would match nothing, and ChoiceError for a name that a column
    of the table has already.
    """
    numbers: dict[str, int | float] = {}
    for column, value in values.items():
        if not isinstance(column, str) or column in (*COUNTED, *COSTS, *KEYS):
            taken = ", ".join((*KEYS, *COUNTED, *COSTS))
            raise ChoiceError(f"extra={{{column!r}: ...}}: a table has {taken} itself; give the column another name")
        if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
            shown = repr(value) if isinstance(value, Real) else f"an object of type {type(value).__name__}"
            raise GateError(
                f"column {column!r} of row {row!r} is {shown}: a table holds finite numbers; find out why it is none"
            )
        numbers[column] = int(value) if isinstance(value, Integral) else float(value)
    return numbers


def row_values(
    subject: Any,
    extra: Values,
    *,
    costs: bool | None,
    example_inputs: object = None,
    example_kwargs: Mapping[str, Any] | None = None,
) -> dict[str, int | float]:
    """Return all numbers of a row. `costs` adds the costs; None adds them where shapes are known."""
    counted = numbers_of(subject)
    cost = {} if costs is False else costs_of(subject, example_inputs, example_kwargs, is_asked=costs is True)
    return {**counted, **cost, **extra}
