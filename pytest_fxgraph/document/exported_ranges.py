"""The ranges of an exported program's symbolic dimensions, as notes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pytest_fxgraph.document.capture_notes import meta_of
from pytest_fxgraph.document.model import RANGE_NOTE, NodeRecord

RANGES = "range_constraints"  # key in the meta of a graph module that was made of an exported program
_MARK_OF_EXPORT = "inline_constraints"  # key in the meta of every graph module that torch.export makes

# Export takes 0 and 1 for sizes of their own; whether it writes this bound depends on the version of torch.
_LOWER_OF_EVERY_SIZE = 2
_INFINITY = 2**62  # versions of torch that have no infinite integers write the largest of 64 bits


def range_notes(module: Any, nodes: Sequence[NodeRecord]) -> tuple[str, ...]:
    """Describe the bounds of a graph's symbols, in the order in which values mention them."""
    meta = meta_of(module)
    ranges = meta.get(RANGES) or (_ranges_of_inputs(module.graph) if _MARK_OF_EXPORT in meta else None)
    if not ranges:
        return ()
    values = " ".join([node.value for node in nodes if node.value is not None])
    texts = [(_place(str(symbol), values), _text(str(symbol), bounds)) for symbol, bounds in ranges.items()]
    return tuple([RANGE_NOTE + text for _, text in sorted(texts, key=lambda pair: pair[0]) if text])


def _ranges_of_inputs(graph: Any) -> dict[Any, Any]:
    """Return the bounds that the sizes of a graph's inputs keep: its program, which has them too, may be gone."""
    ranges: dict[Any, Any] = {}
    for node in graph.nodes:
        shape = getattr(node.meta.get("val"), "shape", ()) if node.op == "placeholder" else ()
        for size in shape:
            symbolic: Any = getattr(size, "node", None)
            bounds = getattr(getattr(symbolic, "shape_env", None), "var_to_range", {})
            ranges |= {each: bounds[each] for each in (symbolic.expr.free_symbols if bounds else ()) if each in bounds}
    return ranges


def _place(symbol: str, values: str) -> int:
    found = re.search(rf"\b{re.escape(symbol)}\b", values)
    return len(values) if found is None else found.start()


def _text(symbol: str, bounds: Any) -> str:
    """Write `2 <= s0 <= 64`, less what holds for every size; nothing where nothing is left."""
    lower, upper = _whole(bounds.lower), _whole(bounds.upper)
    if lower is not None and lower <= _LOWER_OF_EVERY_SIZE and not symbol.startswith("u"):
        lower = None
    if lower is None and upper is None:
        return ""
    return ("" if lower is None else f"{lower} <= ") + symbol + ("" if upper is None else f" <= {upper}")


def bounds_as_numbers(bounds: Any) -> tuple[int | None, int | None]:
    """Return the lower and the upper bound of a size, None where there is none."""
    return _whole(bounds.lower), _whole(bounds.upper)


def _whole(bound: Any) -> int | None:
    """Return a bound as a number; None where there is none: infinity, which versions of torch spell differently."""
    try:
        number = int(bound)
    except (TypeError, ValueError, OverflowError, AttributeError):
        return None
    return number if abs(number) < _INFINITY else None
