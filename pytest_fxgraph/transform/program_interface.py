"""The promises of an exported program to its callers: sizes of inputs, and kinds of inputs, outputs and state."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from pytest_fxgraph.equivalence.exported_call import user_inputs

_STATE = ("PARAMETER", "BUFFER", "CONSTANT_TENSOR", "CUSTOM_OBJ")


@dataclass(frozen=True)
class ProgramInterface:
    """The interface of one program, in words that do not depend on names of symbols and nodes."""

    sizes: Mapping[str, str]  # of inputs: "dimension 1 of input 0" -> "4", "from 3 to 64", "dimension 0 of input 0"
    ranges: Mapping[str, str]  # of all symbols: "u0" -> "from 0 to 9"
    inner: Collection[str]  # the symbols of values that only a run knows
    signature: Mapping[str, str]  # "lin.weight" -> "parameter", "input 1" -> "the constant 3"

    @staticmethod
    def of(program: Any) -> ProgramInterface:
        """Read the interface of a program."""
        values = {node.name: node.meta.get("val") for node in program.graph.nodes}
        inputs = [values.get(name) for name in user_inputs(program)]
        sizes = _input_sizes(inputs, program.range_constraints)
        ranges = {str(symbol): _range_words(each) for symbol, each in program.range_constraints.items()}
        return ProgramInterface(sizes, ranges, _inner_sizes(values.values()), _kinds(program.graph_signature))

    def changed(self, after: ProgramInterface) -> bool:
        """Return whether the program itself says something else.

        Sizes do not count: other programs share the symbols, and fix the value of a symbol for all of them.
        """
        return (self.ranges, self.signature) != (after.ranges, after.signature)

    def changed_sizes(self, after: ProgramInterface) -> Iterator[str]:
        """Yield a sentence for each size that is restricted otherwise."""
        for place, size in self.sizes.items():
            now = after.sizes.get(place, size)
            if now != size:
                yield f"{place} was {size} and is {now}"
        for symbol in sorted({*self.inner} & {*after.inner}):
            size, now = (each.ranges.get(symbol, _range_words(None)) for each in (self, after))
            if now != size:
                yield f"the inner size {symbol} was {size} and is {now}"

    def changed_signature(self, after: ProgramInterface) -> Iterator[str]:
        """Yield a sentence for each input, output or tensor of both programs that is of another kind."""
        for name, kind in self.signature.items():
            now = after.signature.get(name, kind)
            if now != kind:
                yield f"{name} was {kind} and is {now}"


def _input_sizes(inputs: Sequence[Any], ranges: Mapping[Any, Any]) -> dict[str, str]:
    """Return the words for each size of the inputs: a number, a range, or an earlier size that it equals."""
    found: dict[str, str] = {}
    first: dict[Any, str] = {}  # the place of each symbol
    for place, size in (each for index, value in enumerate(inputs) for each in _sizes_of(f"input {index}", value)):
        expression = getattr(size.node, "expr", None) if isinstance(size, torch.SymInt) else None
        if expression is None:
            found[place] = str(size)
        elif not expression.is_Symbol:
            found[place] = "computed from others"
        elif expression in first:
            found[place] = first[expression]
        else:
            first[expression] = place
            found[place] = _range_words(ranges.get(expression))
    return found


def _range_words(values: Any) -> str:
    """Return the words for a range of sizes, None for no range."""
    return "of any value" if values is None else f"from {values.lower} to {values.upper}"


def _sizes_of(place: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, torch.Tensor):
        yield from ((f"dimension {dim} of {place}", size) for dim, size in enumerate(value.shape))
    elif isinstance(value, (int, torch.SymInt)):
        yield place, value


def _inner_sizes(values: Collection[Any]) -> set[str]:
    """Return the symbols of values that no input has: torch names these with "u"."""
    used: set[str] = set()
    for leaf in pytree.tree_leaves(list(values)):
        sizes = leaf.shape if isinstance(leaf, torch.Tensor) else [leaf]
        for size in sizes:
            if isinstance(size, torch.SymInt) and hasattr(size.node, "expr"):
                used.update(str(symbol) for symbol in size.node.expr.free_symbols)
    return {name for name in used if name.startswith("u")}


def _kinds(signature: Any) -> dict[str, str]:
    found: dict[str, str] = {}
    number = 0
    for spec in signature.input_specs:
        kind = spec.kind.name
        if kind in _STATE:
            is_lost = kind == "BUFFER" and spec.persistent is False
            found[spec.target] = ("a " + kind.lower().replace("_", " ")) + " that is not saved" * is_lost
        elif kind == "USER_INPUT":
            found[f"input {number}"] = _words_of_argument(spec.arg)
            number += 1
    outputs = [spec for spec in signature.output_specs if "MUTATION" not in spec.kind.name]
    for number, spec in enumerate(outputs):
        target = f" of {spec.target}" if spec.target else ""
        found[f"output {number}"] = spec.kind.name.lower().replace("_", " ") + target
    return found


def _words_of_argument(argument: Any) -> str:
    kind = type(argument).__name__.removesuffix("Argument")
    return f"the constant {argument.value!r}" if kind == "Constant" else f"a value of kind {kind}"
