"""Names of operators, of modules and of nodes in the texts of edits: short, and without the number of the block."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Sequence

from pytest_fxgraph.compare.graph_index import GraphIndex
from pytest_fxgraph.compare.sequence_alignment import common_prefix
from pytest_fxgraph.document.model import NodeRecord
from pytest_fxgraph.document.operator_table import operator_table

_FUNCTIONAL = "torch.nn.functional."
_SHAPE = re.compile(r"\w+(\[[^\]]*\])")
# Facts of the table for operators that move values, or ask for a size, and compute nothing.
_MOVING = frozenset({"view", "takes_part", "asks_shape", "asks_type"})
# The table has no fact for these: it lists no operator of aten alone, and to its readers a copy is new memory.
_MOVING_TOO = frozenset({"getattr", "shape", "slice", "alias", "clone"})
_MOST_NAMED = 3


def spelled_operator(index: GraphIndex, position: int) -> str:
    """Return the operator of a node as a user writes it: `F.gelu`, `nn.GELU`, `.relu`, `aten.relu`, `torch.fft.fft`."""
    node = index.nodes[position]
    operator = index.operator(position)
    if node.op == "call_method":
        return f".{operator}"
    if node.op == "get_attr":
        return operator.rpartition(".")[2]
    if node.op == "call_module" and node.target not in index.modules:
        return f"module {operator.rpartition('.')[2]}"
    if node.op == "call_module":
        return spelled_class(operator)
    if operator.startswith(_FUNCTIONAL):
        return f"F.{operator.removeprefix(_FUNCTIONAL)}"
    if operator.startswith("fxcore."):  # a function that stands for torch.vmap or another transform in a trace
        return operator.rpartition(".")[2]
    operator = operator.removeprefix("operator.").removeprefix("builtins.")
    # Functions of modules in a package have as many dots as overloads: `torch.fft.fft`, `package.ops.scale`.
    is_function = operator.startswith("torch.") or "call" in node.effects
    if operator.count(".") < 2 or (is_function and not operator.endswith(".apply")):
        return operator
    return operator.rpartition(".")[0]  # without the overload: aten.add


def spelled_class(kind: str) -> str:
    """Return the class of a module as a user writes it: `nn.GELU`, `Attention`."""
    name = kind.rpartition(".")[2]
    if kind.startswith("torch.ao."):
        return f"quantized {name}"
    return f"nn.{name}" if kind.startswith("torch.nn.") else name


def operator_name(index: GraphIndex, position: int) -> str:
    """Return the last word of a node's operator: `gelu`, `GELU`, `relu`."""
    return spelled_operator(index, position).rpartition(".")[2]


def listed_operators(index: GraphIndex, positions: Sequence[int], other: GraphIndex | None = None) -> str:
    """Return the operators of nodes: `GELU`, `3 Linear`, `5 operators (mul, matmul, softmax, ...)`.

    Of several operators, a module that the other graph lacks has its own name: `3 operators (gate, silu, mul)`.
    """
    names = [operator_name(index, position) for position in positions]
    if other is not None and len({*names}) > 1:
        names = [own_name(index, position, other) or name for position, name in zip(positions, names, strict=True)]
    different = [*dict.fromkeys(names)]
    if len(different) == 1:
        return names[0] if len(names) == 1 else f"{len(names)} {names[0]}"
    moving = {name for name, position in zip(names, positions, strict=True) if moves_values_only(index, [position])}
    telling = [name for name in different if name not in moving] or different
    shown = telling[:_MOST_NAMED] if len(different) > _MOST_NAMED else different
    dots = ", ..." if len(shown) < len(different) else ""
    return f"{len(names)} operators ({', '.join(shown)}{dots})"


def own_name(index: GraphIndex, position: int, other: GraphIndex) -> str:
    """Return the last part of the path of a called module that the other graph lacks; "" for any other node."""
    node = index.nodes[position]
    name = node.target.rpartition(".")[2]
    return name if node.op == "call_module" and node.target not in other.modules and not name.isdecimal() else ""


def moves_values_only(index: GraphIndex, positions: Iterable[int]) -> bool:
    """Return whether no node computes anything: all take values apart, or give them another shape."""
    for position in positions:
        name = operator_name(index, position)
        facts = operator_table().get(name) or operator_table().get(f"operator.{name}", {})
        if name not in _MOVING_TOO and _MOVING.isdisjoint(facts):
            return False
    return True


def without_tensors(index: GraphIndex, positions: Iterable[int]) -> list[int]:
    """Leave out nodes that only read a tensor of the model, and checks if other nodes are left."""
    calls = [position for position in positions if index.nodes[position].op != "get_attr"]
    return [position for position in calls if not is_check(index, position)] or calls


def is_check(index: GraphIndex, position: int) -> bool:
    """Return whether a node only checks a value, as torch.export adds before a cast."""
    return not index.users[position] and operator_name(index, position).startswith("_assert")


def home(node: NodeRecord) -> str:
    """Return the path of the module that a node belongs to; of a called module its own path."""
    if node.op == "call_module":
        return node.target
    if node.op == "get_attr" and node.scope is None:
        return node.target.rpartition(".")[0]
    return node.scope or ""


def common_path(paths: Iterable[str]) -> str:
    """Return the path of the innermost module around all paths."""
    split = [path.split(".") for path in paths]
    common = functools.reduce(lambda parts, others: parts[: common_prefix(parts, others)], split) if split else ()
    return ".".join(common)


def numbered_paths(path: str) -> Iterator[str]:
    """Yield the paths of the repeated blocks around a module, the outermost first."""
    parts = path.split(".")
    for length, part in enumerate(parts, 1):
        if part.isdecimal():
            yield ".".join(parts[:length])


def outermost_block(path: str) -> str:
    """Return the path of the outermost repeated block around a module; "" outside of blocks."""
    return next(numbered_paths(path), "")


def relative_path(path: str, around: str) -> str:
    """Return a path as seen from a module around it."""
    return path.removeprefix(around).removeprefix(".") if around else path


def described_node(index: GraphIndex, position: int, seen_from: str) -> str:
    """Name a node for a reader at a path: by the module that made it, by its operator, or as an input."""
    node = index.nodes[position]
    if node.op == "placeholder":
        return f"input {node.target}"
    if node.op == "output":
        return "the output"
    if node.op == "get_attr":
        return node.target.rpartition(".")[2]
    own = home(node)
    inside = relative_path(own, common_path((own, seen_from)))
    first = next((part for part in inside.split(".") if part and not part.isdecimal()), "")
    return first or operator_name(index, position)


def full_name(index: GraphIndex, position: int, seen_from: str) -> str:
    """Name a node of a repeated block with the number of the block: `layers.3.norm`; describe any other node."""
    node = index.nodes[position]
    block = outermost_block(home(node))
    return (node.target if node.op == "call_module" else block) if block else described_node(index, position, seen_from)


def without_numbers(text: str) -> str:
    """Return a text with `#` in place of its numbers, the same for models of another size."""
    return re.sub(r"\d+", "#", text)


def described_state(path: str, value: str) -> str:
    """Name a tensor with its shape: `gamma[64]`."""
    shape = _SHAPE.match(value)
    return path.rpartition(".")[2] + (shape[1] if shape and shape[1] != "[]" else "")
