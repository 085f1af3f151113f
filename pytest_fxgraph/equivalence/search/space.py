"""Find out what a search may change in the inputs: what eager takes, and what the graph was made for."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from fxcore.state.storage import is_plain
from pytest_fxgraph.document.exported_ranges import RANGES
from pytest_fxgraph.equivalence.inputs import Arguments
from pytest_fxgraph.equivalence.search.recipe import (
    CONTEXTS,
    Recipe,
    ScalarPlace,
    SearchSpace,
    SizeVariable,
    TensorPlace,
)
from pytest_fxgraph.equivalence.search.values import ValueRange

# A dimension: which tensor, and which of its dimensions.
Dim = tuple[int, int]

_ELEMENTS = 2**16  # what a try may have at most, where the example has less
_VARIED = 2**12  # how many values a large try should compare
_SMALL = (1, 2, 3, 4, 5, 7, 8)
_LARGEST_INDEX = 2**20


@dataclass(frozen=True)
class _Limit:
    """What the graph says of one dimension: its symbol and range; no symbol means that it is fixed."""

    symbol: str | None
    least: int = 1
    largest: float = math.inf


class SpaceFinder:
    """Asks eager which other inputs it takes, for some seconds at most."""

    def __init__(self, arguments: Arguments, graph: Any, accepts: Callable[[Arguments], bool], seconds: float) -> None:
        """Take the user's arguments, the graph, whose records of shapes hold, and a way to ask eager."""
        self._accepts = accepts
        self._graph = graph
        self._end = time.monotonic() + seconds
        self._space = SearchSpace(
            arguments,
            tuple(TensorPlace(each, _range_of(each), (None,) * each.dim()) for each in _drawable(arguments)),
            scalars=tuple(_scalars(arguments, graph)),
            contexts=CONTEXTS[:2] if _calls_operators(graph) else CONTEXTS,
        )

    def find(self) -> SearchSpace:
        """Return the space; what there was no time to ask for is not changed."""
        for index in range(len(self._space.tensors)):
            self._widen_integers(index)
        for group in self._groups():
            self._add_variable(group)
        return self._space

    def _asks(self, space: SearchSpace, recipe: Recipe | None = None) -> bool:
        return time.monotonic() < self._end and self._accepts(space.make(recipe or space.example()))

    # Sizes

    def _groups(self) -> Iterator[list[Dim]]:
        """Yield dimensions that may change, those that must agree together."""
        limits = _limits_of(self._graph, self._space)
        classes: dict[Any, list[Dim]] = {}
        for dim, size in self._dims():
            if limits is None:
                classes.setdefault(size, []).append(dim)
            elif limits[dim].symbol is not None:
                classes.setdefault(limits[dim].symbol, []).append(dim)
        for dims in classes.values():
            if limits is not None:
                yield dims
                continue
            alone = [dim for dim in dims if len(dims) == 1 or self._can_change([dim])]
            yield from ([dim] for dim in alone)
            yield from self._together([dim for dim in dims if dim not in alone])

    def _together(self, dims: list[Dim]) -> Iterator[list[Dim]]:
        """Yield all of some dimensions if they can change together, else those at the same place of their tensors."""
        if not dims or self._can_change(dims):
            yield dims
            return
        places: dict[int, list[Dim]] = {}
        for dim in dims:
            places.setdefault(dim[1], []).append(dim)
        if len(places) > 1:
            yield from (group for group in places.values() if len(group) > 1)

    def _dims(self) -> Iterator[tuple[Dim, int]]:
        for index, each in enumerate(self._space.tensors):
            yield from (((index, dim), size) for dim, size in enumerate(each.example.shape))

    def _can_change(self, dims: list[Dim]) -> bool:
        size = self._size_of(dims)
        # 1 is broadcast, and so says nothing.
        return any(self._takes(dims, other) for other in (size + 1, 2 * size, size - 1) if other > 1)

    def _size_of(self, dims: list[Dim]) -> int:
        index, dim = dims[0]
        return int(self._space.tensors[index].example.shape[dim])

    def _takes(self, dims: list[Dim], size: int) -> bool:
        space = self._with_variable(dims, SizeVariable(size, (size,)))
        return self._asks(space)

    def _with_variable(self, dims: Iterable[Dim], variable: SizeVariable) -> SearchSpace:
        places = list(self._space.tensors)
        for index, dim in dims:
            sizes = list(places[index].sizes)
            sizes[dim] = len(self._space.sizes)
            places[index] = replace(places[index], sizes=tuple(sizes))
        return replace(self._space, tensors=tuple(places), sizes=(*self._space.sizes, variable))

    def _add_variable(self, dims: list[Dim]) -> None:
        if not dims:
            return
        size, limits = self._size_of(dims), _limits_of(self._graph, self._space)
        limit = _Limit(None) if limits is None else limits[dims[0]]
        elements = sum(each.example.numel() for each in self._space.tensors)
        most = max(_ELEMENTS, elements + elements // max(size, 1) + 1)
        wanted = {*_SMALL, size - 1, size + 1, 2 * size, 2 * size + 1} - {size}
        fitting = [
            other
            for other in sorted(wanted)
            if max(1, limit.least) <= other <= limit.largest and elements * other <= most * size
        ]
        options = [other for other in fitting if self._takes(dims, other)]
        if not options:
            return
        large = min(512, size * math.ceil(_VARIED / max(elements, 1)), limit.largest)
        is_taken = large > max(options) and self._takes(dims, int(large))
        variable = SizeVariable(size, tuple(sorted({size, *options})), int(large) if is_taken else None)
        self._space = self._with_variable(dims, variable)

    # Values

    def _widen_integers(self, index: int) -> None:
        """Find which integers eager takes beyond those of the example, without asking for what could fill the memory.

        Who refuses -1 or the next larger number reads them as an index or a size. Only who takes both is asked for the
        ends of the dtype. On an accelerator an index out of range would end the process, so nothing is asked there.
        """
        values, example = self._space.tensors[index].values, self._space.tensors[index].example
        if example.dtype is torch.bool or values.is_float or example.dtype.is_complex or example.device.type != "cpu":
            return
        low, high, kind = int(values.low), int(values.high), torch.iinfo(example.dtype)
        first, last = kind.min, min(kind.max, 2**63 - 1)

        def takes(number: int) -> bool:
            if not first <= number <= last:
                return False
            return self._asks(self._with_values(index, replace(values, low=number, high=number)))

        least = min(low, 0) if takes(0) else low
        least = min(least, -1) if takes(-1) else least
        has_both = least < 0 and takes(high + 1)
        if has_both and takes(first) and takes(last):
            self._space = self._with_values(index, replace(values, least=first, largest=last))
            return
        refused = max(high, 1) + 1
        while refused < _LARGEST_INDEX and takes(refused):
            refused *= 2
        taken = high
        while refused - taken > 1:
            middle = (taken + refused) // 2
            taken, refused = (middle, refused) if takes(middle) else (taken, middle)
        self._space = self._with_values(index, replace(values, least=least, largest=taken))

    def _with_values(self, index: int, values: ValueRange) -> SearchSpace:
        places = list(self._space.tensors)
        places[index] = replace(places[index], values=values)
        return replace(self._space, tensors=tuple(places))


def _drawable(arguments: Arguments) -> list[torch.Tensor]:
    """List the tensors that can be drawn anew, each once; others are handed over as they are."""
    found: dict[int, torch.Tensor] = {}
    for _, tensor in arguments.tensors():
        has_values = is_plain(tensor) and not tensor.is_meta and tensor.numel() > 0
        is_wide = tensor.dtype.itemsize > 1 or not tensor.dtype.is_floating_point  # torch computes little with 8 bits
        if has_values and is_wide and tensor.is_leaf:
            found[id(tensor)] = tensor
    return list(found.values())


def _range_of(tensor: torch.Tensor) -> ValueRange:
    tensor = tensor.detach().cpu()
    if tensor.dtype.is_complex or tensor.dtype is torch.bool:
        return ValueRange(tensor.dtype, 0, 1)
    if tensor.dtype.is_floating_point:
        low, high = float(tensor.double().min()), float(tensor.double().max())
        # All alike, or not finite: nothing says what range is meant.
        is_range = math.isfinite(high - low) and low < high
        return ValueRange(tensor.dtype, low, high) if is_range else ValueRange(tensor.dtype, -1.0, 1.0)
    least, largest = int(tensor.min()), int(tensor.max())
    return ValueRange(tensor.dtype, least, largest, least, largest)


def _scalars(arguments: Arguments, graph: Any) -> Iterator[ScalarPlace]:
    """Yield the bools and numbers that the graph reads; what tracing took for a constant must stay as it is."""
    nodes = getattr(getattr(graph, "graph", None), "nodes", ())
    placeholders = {str(node.target): node for node in nodes if node.op == "placeholder"}
    names = list(placeholders)
    named: list[tuple[int | str, Any]] = [*enumerate(arguments.args), *arguments.kwargs.items()]
    for name, value in named:
        node = placeholders.get(names[name] if isinstance(name, int) and name < len(names) else str(name))
        if node is None or _is_only_asserted(node):
            continue
        if type(value) is bool:
            yield ScalarPlace(name, (value, not value))
        elif type(value) in (int, float):
            others = (0, 1, -1, value + 1, 2 * value)
            yield ScalarPlace(name, tuple(dict.fromkeys((value, *map(type(value), others)))))


def _is_only_asserted(node: Any) -> bool:
    """Tell whether a value is read by assertions alone, as that of an argument that was written into the graph."""
    return all("assert" in str(user.target) or (user.users and _is_only_asserted(user)) for user in node.users)


def _calls_operators(graph: Any) -> bool:
    """Tell whether a graph calls operators of aten: it was made for the autocast mode in which it was traced."""
    nodes = getattr(getattr(graph, "graph", None), "nodes", ())
    return any(isinstance(node.target, torch._ops.OpOverload) for node in nodes)


def _limits_of(graph: Any, space: SearchSpace) -> dict[Dim, _Limit] | None:
    """Return what an exported graph says of the dimensions of its inputs; None for other graphs.

    A graph of operators that records the shapes of its inputs was made for these shapes, and claims no others.
    """
    if not _calls_operators(graph):
        return None
    recorded = [node.meta.get("val") for node in graph.graph.nodes if node.op == "placeholder"]
    shapes = [tuple(value.shape) for value in recorded if isinstance(value, torch.Tensor)]
    if not shapes:
        return None
    ranges = {str(symbol): bounds for symbol, bounds in (getattr(graph, "meta", {}).get(RANGES) or {}).items()}
    given = [tuple(each.example.shape) for each in space.tensors]
    is_matched = len(shapes) == len(given) and all(map(_fits, shapes, given))
    limits: dict[Dim, _Limit] = {}
    for index, shape in enumerate(given):
        for dim in range(len(shape)):
            size = shapes[index][dim] if is_matched else None
            limits[index, dim] = _limit_of(size, ranges)
    return limits


def _fits(recorded: tuple[Any, ...], given: tuple[int, ...]) -> bool:
    return len(recorded) == len(given) and all(
        not isinstance(size, int) or size == own for size, own in zip(recorded, given, strict=True)
    )


def _limit_of(size: Any, ranges: dict[str, Any]) -> _Limit:
    if size is None or isinstance(size, int):
        return _Limit(None)
    bounds = ranges.get(str(size))
    # Export writes a lower end of 2 for every size, and does not hold calls to it.
    least = _whole(getattr(bounds, "lower", 1), 1)
    return _Limit(str(size), 1 if least <= 2 else int(least), _whole(getattr(bounds, "upper", math.inf), math.inf))


def _whole(bound: Any, otherwise: float) -> float:
    try:
        return int(bound)
    except (TypeError, ValueError, OverflowError, AttributeError):
        return otherwise
