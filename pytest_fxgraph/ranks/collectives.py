"""Collectives of a graph as records: what is exchanged, in which group, in which order.

Bytes are those of the whole message, as nccl-tests count them: the larger one of all inputs and all outputs of a rank.
Source: https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree as pytree

import fxcore
from fxcore.node_data.distributed_types import is_reduction
from fxcore.operators.effects import effects_of
from fxcore.operators.table import GROUP_ARGUMENTS
from pytest_fxgraph.captures.collective_trace import REDUCTION
from pytest_fxgraph.document.tensor_texts import dtype_name
from pytest_fxgraph.ranks.communicators import Communicator
from pytest_fxgraph.report.printable import counted

# Spellings of torch's operators and functions, by the collective that they are.
_KINDS = {
    "all_reduce": ("all_reduce", "allreduce"),
    "all_gather": ("all_gather", "allgather"),
    "reduce_scatter": ("reduce_scatter",),
    "all_to_all": ("all_to_all", "alltoall"),
    "broadcast": ("broadcast",),
    "gather": ("gather",),
    "scatter": ("scatter",),
    "reduce": ("reduce",),
    "barrier": ("barrier", "monitored_barrier"),
    "send": ("send", "isend"),
    "recv": ("recv", "irecv"),
}


@dataclass(frozen=True)
class Collective:
    """One collective of one rank."""

    rank: int
    order: int  # among the collectives of the rank, from 0
    kind: str  # "all_reduce", "all_gather", "send", ...
    communicator: Communicator
    dtype: str  # "float32"; "" for a barrier
    shapes: tuple[tuple[int, ...], ...]  # of the tensors that the rank hands in
    bytes: int  # of the whole message
    reduction: str | None = None  # "sum", "avg", ...; None if nothing is reduced, or torch does not say it
    peer: int | None = None  # the other rank of a send or recv, or the root
    node: str = field(default="", compare=False)  # the name of its node
    module: str = field(default="", compare=False)  # the path of the module that called it

    @property
    def text(self) -> str:
        """Describe the collective: `all_reduce(sum) of float32[2, 8] on tp`."""
        reduced = f"({self.reduction})" if self.reduction else ""
        tensors = ", ".join([f"{self.dtype}{list(shape)}" for shape in self.shapes])
        peer = "" if self.peer is None else f" {'from' if self.kind == 'recv' else 'to'} rank {self.peer}"
        return f"{self.kind}{reduced}{f' of {tensors}' if tensors else ''}{peer} on {self.communicator.text}"

    @property
    def row(self) -> tuple[str, ...]:
        """Return the cells of the table."""
        shapes = ", ".join([str(list(shape)) for shape in self.shapes])
        kind = f"{self.kind}({self.reduction})" if self.reduction else self.kind
        number = f"{self.bytes:,}"
        return str(self.rank), str(self.order), kind, self.communicator.text, self.dtype, shapes, number, self.module


class Collectives(list[Collective]):
    """The collectives of all captured ranks, rank by rank in the order of their calls."""

    def of_rank(self, rank: int) -> list[Collective]:
        """Return the collectives of one rank in order."""
        return [each for each in self if each.rank == rank]

    def __str__(self) -> str:
        rows: list[tuple[str, ...]] = [("rank", "order", "collective", "group", "dtype", "shapes", "bytes", "module")]
        rows += [each.row for each in self]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join(
            ["  ".join([cell.ljust(width) for cell, width in zip(row, widths, strict=True)]).rstrip() for row in rows]
        )

    def __repr__(self) -> str:
        return f"<{counted(len(self), 'collective')}>"


def collectives_of(
    graph_modules: Iterable[fxcore.GraphModule], rank: int, communicators: Mapping[str, Communicator]
) -> list[Collective]:
    """Return the collectives of a rank's graphs in their order. Inner graphs are looked into where they are called."""
    found: list[Collective] = []
    for graph_module in graph_modules:
        for owner, node in _calls(graph_module):
            kind = kind_of(node)
            if kind is not None:
                found.append(_collective(owner, node, kind, rank, len(found), communicators))
    return found


def kind_of(node: fxcore.Node) -> str | None:
    """Return which collective a node calls; None for any other node, and for the wait for a collective."""
    if node.op != "call_function" or "collective" not in effects_of(node.op, node.target).kinds:
        return None
    name = _name_of(node.target)
    for kind, spellings in _KINDS.items():
        if name.startswith(spellings):
            return kind
    return name


def group_argument(node: fxcore.Node) -> Any:
    """Return the group of a collective as its node names it: torch's name, a group, or the node of a wrapped group."""
    schema = getattr(node.target, "_schema", None)
    if schema is None and hasattr(node.target, "overloads"):
        schema = getattr(node.target, node.target.overloads()[0])._schema
    for place, argument in enumerate(() if schema is None else schema.arguments):
        if argument.name in GROUP_ARGUMENTS:
            return node.args[place] if place < len(node.args) else node.kwargs.get(argument.name)
    return node.kwargs.get("group")


def name_of_group(owner: fxcore.GraphModule, given: Any) -> str | None:
    """Return torch's name of a group that a node names; None stands for the whole world."""
    if isinstance(given, fxcore.Node):
        given = getattr(owner, str(given.target), None) if given.op == "get_attr" else None
    if isinstance(given, torch.ScriptObject):
        given = torch.distributed.ProcessGroup.unbox(given)
    name = given if isinstance(given, str) else getattr(given, "group_name", None)
    return None if name is None else str(name)


def _calls(graph_module: fxcore.GraphModule) -> Iterator[tuple[fxcore.GraphModule, fxcore.Node]]:
    for node in graph_module.graph.nodes:
        inner = graph_module.get_submodule(node.target) if node.op == "call_module" else None
        if isinstance(inner, fxcore.GraphModule):
            yield from _calls(inner)
        else:
            yield graph_module, node


def _collective(
    owner: fxcore.GraphModule,
    node: fxcore.Node,
    kind: str,
    rank: int,
    order: int,
    communicators: Mapping[str, Communicator],
) -> Collective:
    name = name_of_group(owner, group_argument(node))
    world = Communicator(tuple(range(torch.distributed.get_world_size())))
    given = [value for each in node.all_input_nodes for value in _tensors(each)]
    made = list(_tensors(node))
    sent = given or made
    communicator = world if name is None else communicators.get(name, world)
    return Collective(
        rank,
        order,
        kind,
        communicator,
        dtype_name(sent[0].dtype) if sent else "",
        tuple([tuple(map(int, value.shape)) for value in given]),
        max(_bytes(given), _bytes(made)),
        _reduction(node),
        _peer(node, communicator),
        node.name,
        _module_of(node),
    )


def _tensors(node: fxcore.Node) -> Iterator[torch.Tensor]:
    value = node.meta.get("val", node.meta.get("example_value"))
    yield from (leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor))


def _bytes(tensors: Iterable[torch.Tensor]) -> int:
    return sum(int(tensor.numel()) * tensor.dtype.itemsize for tensor in tensors)


def _reduction(node: fxcore.Node) -> str | None:
    if REDUCTION in node.meta:
        return str(node.meta[REDUCTION])
    schema = getattr(node.target, "_schema", None)
    for place, argument in enumerate(() if schema is None else schema.arguments):
        if argument.name == "reduce_op":
            given = node.args[place] if place < len(node.args) else node.kwargs.get("reduce_op")
            return given if isinstance(given, str) else None
    operation: Any = node.kwargs.get("op")
    return str(operation.name).lower() if is_reduction(operation) else None


def _peer(node: fxcore.Node, communicator: Communicator) -> int | None:
    """Return the other rank of a send or recv, or the root, as a rank of the world."""
    schema = getattr(node.target, "_schema", None)
    for place, argument in enumerate(() if schema is None else schema.arguments):
        if argument.name in ("dst", "src", "root_rank"):
            given = node.args[place] if place < len(node.args) else node.kwargs.get(argument.name)
            return communicator.ranks[given] if isinstance(given, int) and given < len(communicator.ranks) else None
    given = node.kwargs.get("dst", node.kwargs.get("src"))
    return given if isinstance(given, int) else None


def _module_of(node: fxcore.Node) -> str:
    stack = node.meta.get("nn_module_stack") or {}
    return str([*stack.values()][-1][0]) if stack else ""


def _name_of(target: Any) -> str:
    name = getattr(target, "_opname", None) or getattr(target, "__name__", "")
    return str(name).split(".")[0].lstrip("_")
