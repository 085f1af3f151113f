"""Find the parts of the inputs that a search may change: eager accepts the change, and the graph was made for it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Any, NamedTuple

import torch

from fxcore.state.storage import is_plain
from pytest_fxgraph.document.capture_notes import meta_of
from pytest_fxgraph.document.exported_ranges import RANGES, bounds_as_numbers
from pytest_fxgraph.equivalence.inputs import Arguments
from pytest_fxgraph.equivalence.search.recipe import (
    CONTEXTS,
    ScalarPlace,
    SearchSpace,
    SizeVariable,
    TensorPlace,
    other_dtypes,
)
from pytest_fxgraph.equivalence.search.values import ValueRange
from pytest_fxgraph.grouping import grouped

Dim = tuple[int, int]  # the index of a tensor, and of one of its dimensions

_ELEMENTS = 2**16  # the most elements of a try, unless the example has more
_VARIED = 2**12  # the values that a large try should compare
_SMALL = (1, 2, 3, 4, 5, 7, 8)
_LARGEST_INDEX = 2**20


class _Limit(NamedTuple):
    """The sizes that an exported graph allows for one dimension; dimensions with one symbol agree."""

    symbol: str | None  # None for a fixed size
    least: int = 1
    largest: float = math.inf


class SpaceFinder:
    """Asks eager for other inputs that it accepts, for a number of seconds at most."""

    def __init__(
        self,
        arguments: Arguments,
        graph: Any,
        accepts: Callable[[Arguments], bool],
        seconds: float,
        *,
        is_finite: bool = False,
    ) -> None:
        """Take the user's arguments, the graph, and a function that asks eager; `is_finite` leaves out NaN and inf."""
        self._accepts = accepts
        self._end = time.monotonic() + seconds
        nodes = list(getattr(getattr(graph, "graph", None), "nodes", ()))
        # A graph of aten's operators was made for the autocast mode of its trace.
        calls_operators = any(isinstance(node.target, torch._ops.OpOverload) for node in nodes)
        self._space = SearchSpace(
            arguments,
            tuple(
                TensorPlace(each, _range_of(each)._replace(is_finite=is_finite), (None,) * each.dim())
                for each in _drawable(arguments)
            ),
            scalars=tuple(_scalars(arguments, nodes)),
            contexts=CONTEXTS[:2] if calls_operators else CONTEXTS,
        )
        self._calls_operators = calls_operators
        self._limits = _limits_of(graph, nodes, self._space) if calls_operators else None

    def find(self) -> SearchSpace:
        """Return the space; parts that eager had no time to answer for stay unchanged."""
        for index in range(len(self._space.tensors)):
            self._widen_integers(index)
        for dims in self._groups():
            self._add_variable(dims)
        if not self._calls_operators:
            self._ask_for_other_dtypes()
        return self._space

    def _asks(self, space: SearchSpace) -> bool:
        return time.monotonic() < self._end and self._accepts(space.make(space.example()))

    def _ask_for_other_dtypes(self) -> None:
        """Ask for another dtype of each tensor. The space keeps dtypes, but the answer may show a lost check."""
        for index, each in enumerate(self._space.tensors):
            others = other_dtypes(each.example.dtype)
            if others and time.monotonic() < self._end:
                made = self._space.make(self._space.example())
                drawn = _drawable(made)[index]
                self._accepts(made.copied({id(drawn): drawn.detach().to(others[0])}))

    def _groups(self) -> Iterator[list[Dim]]:
        """Yield the dimensions that may change; dimensions that must agree come together."""
        classes: dict[Any, list[Dim]] = {}
        for index, each in enumerate(self._space.tensors):
            for dim, size in enumerate(each.example.shape):
                group = size if self._limits is None else self._limits[index, dim].symbol
                if group is not None:
                    classes.setdefault(group, []).append((index, dim))
        for dims in classes.values():
            if self._limits is not None:
                yield dims
                continue
            alone = [dim for dim in dims if len(dims) == 1 or self._can_change([dim])]
            yield from ([dim] for dim in alone)
            yield from self._together([dim for dim in dims if dim not in alone])

    def _together(self, dims: list[Dim]) -> Iterator[list[Dim]]:
        """Yield all dimensions if they can change together, else the dimensions at the same place of their tensors."""
        if dims and self._can_change(dims):
            yield dims
            return
        places = grouped(dims, itemgetter(1))
        if len(places) > 1:
            yield from (group for group in places.values() if len(group) > 1)

    def _can_change(self, dims: list[Dim]) -> bool:
        size = self._size_of(dims)
        # A size of 1 is broadcast, so eager accepts it for any dimension.
        return any(self._takes(dims, other) for other in (size + 1, 2 * size, size - 1) if other > 1)

    def _size_of(self, dims: list[Dim]) -> int:
        index, dim = dims[0]
        return int(self._space.tensors[index].example.shape[dim])

    def _takes(self, dims: list[Dim], size: int) -> bool:
        return self._asks(self._with_variable(dims, SizeVariable(size, (size,))))

    def _with_variable(self, dims: list[Dim], variable: SizeVariable) -> SearchSpace:
        places = list(self._space.tensors)
        for index, dim in dims:
            sizes = list(places[index].sizes)
            sizes[dim] = len(self._space.sizes)
            places[index] = places[index]._replace(sizes=tuple(sizes))
        return self._space._replace(tensors=tuple(places), sizes=(*self._space.sizes, variable))

    def _add_variable(self, dims: list[Dim]) -> None:
        """Add a variable for some dimensions, with the sizes that eager accepts for them."""
        size = self._size_of(dims)
        limit = _Limit(None) if self._limits is None else self._limits[dims[0]]
        elements = sum(each.example.numel() for each in self._space.tensors)
        most = max(_ELEMENTS, elements + elements // size + 1)
        options = [
            other
            for other in sorted({*_SMALL, size - 1, size + 1, 2 * size, 2 * size + 1} - {size})
            if max(1, limit.least) <= other <= limit.largest and elements * other <= most * size
            if self._takes(dims, other)
        ]
        if options:
            large = min(512, size * math.ceil(_VARIED / elements), limit.largest)
            is_taken = large > max(options) and self._takes(dims, int(large))
            variable = SizeVariable(size, tuple(sorted({size, *options})), int(large) if is_taken else None)
            self._space = self._with_variable(dims, variable)

    def _widen_integers(self, index: int) -> None:
        """Find the integers that eager accepts beyond the example's, without a number that could fill the memory.

        A model that refuses -1 or the next larger number reads its integers as indices or sizes. The ends of the dtype
        are tried only if the model accepts both. On an accelerator nothing is tried, because an index out of range
        would end the process.
        """
        values, example = self._space.tensors[index].values, self._space.tensors[index].example
        if example.dtype is torch.bool or values.is_float or example.dtype.is_complex or example.device.type != "cpu":
            return
        low, high, kind = int(values.low), int(values.high), torch.iinfo(example.dtype)
        first, last = kind.min, min(kind.max, 2**63 - 1)

        def takes(number: int) -> bool:
            is_one = first <= number <= last
            return is_one and self._asks(self._with_values(index, values._replace(low=number, high=number)))

        least = min(low, 0) if takes(0) else low
        least = min(least, -1) if takes(-1) else least
        if least < 0 and takes(high + 1) and takes(first) and takes(last):
            self._space = self._with_values(index, values._replace(least=first, largest=last))
            return
        taken, refused = high, max(high, 1) + 1
        while refused < _LARGEST_INDEX and takes(refused):
            refused *= 2
        while refused - taken > 1:
            middle = (taken + refused) // 2
            taken, refused = (middle, refused) if takes(middle) else (taken, middle)
        self._space = self._with_values(index, values._replace(least=least, largest=taken))

    def _with_values(self, index: int, values: ValueRange) -> SearchSpace:
        tensors = [*self._space.tensors]
        tensors[index] = tensors[index]._replace(values=values)
        return self._space._replace(tensors=tuple(tensors))


def _drawable(arguments: Arguments) -> list[torch.Tensor]:
    """List the tensors that can be drawn anew, each tensor once; the others stay as they are."""
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
        # Equal or infinite values give no range.
        is_range = math.isfinite(high - low) and low < high
        return ValueRange(tensor.dtype, low, high) if is_range else ValueRange(tensor.dtype, -1.0, 1.0)
    least, largest = int(tensor.min()), int(tensor.max())
    return ValueRange(tensor.dtype, least, largest, least, largest)


def _scalars(arguments: Arguments, nodes: list[Any]) -> Iterator[ScalarPlace]:
    """Yield the bools and numbers that the graph reads, the defaults of inputs that the test leaves out among them.

    A value that tracing took for a constant must stay.
    """
    placeholders = {str(node.target): node for node in nodes if node.op == "placeholder"}
    names = list(placeholders)
    named: list[tuple[int | str, Any]] = [*enumerate(arguments.args), *arguments.kwargs.items()]
    defaults = {name: placeholders[name].args[0] for name in names[len(arguments.args) :] if placeholders[name].args}
    named += [(name, value) for name, value in defaults.items() if name not in arguments.kwargs]
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
    """Return whether assertions alone read a value, as for an argument that was written into the graph."""
    return all("assert" in str(user.target) or (user.users and _is_only_asserted(user)) for user in node.users)


def _limits_of(graph: Any, nodes: list[Any], space: SearchSpace) -> dict[Dim, _Limit] | None:
    """Return the limits of the dimensions of an exported graph's inputs; None for a graph without recorded shapes.

    A graph of operators with recorded input shapes was made for these shapes alone.
    """
    recorded = [node.meta.get("val") for node in nodes if node.op == "placeholder"]
    shapes = [tuple(value.shape) for value in recorded if isinstance(value, torch.Tensor)]
    if not shapes:
        return None
    ranges = {str(symbol): bounds for symbol, bounds in (meta_of(graph).get(RANGES) or {}).items()}
    given = [tuple(each.example.shape) for each in space.tensors]
    is_matched = len(shapes) == len(given) and all(map(_fits, shapes, given))
    return {
        (index, dim): _limit_of(shapes[index][dim] if is_matched else None, ranges)
        for index, shape in enumerate(given)
        for dim in range(len(shape))
    }


def _fits(recorded: tuple[Any, ...], given: tuple[int, ...]) -> bool:
    return len(recorded) == len(given) and all(
        not isinstance(size, int) or size == own for size, own in zip(recorded, given, strict=True)
    )


def _limit_of(size: Any, ranges: dict[str, Any]) -> _Limit:
    if size is None or isinstance(size, int):
        return _Limit(None)
    bounds = ranges.get(str(size))
    least, largest = (None, None) if bounds is None else bounds_as_numbers(bounds)
    # Export writes a lower end of 2 for every size, and does not hold calls to it.
    return _Limit(str(size), 1 if least is None or least <= 2 else least, math.inf if largest is None else largest)
