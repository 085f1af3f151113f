"""Collectives of a graph as records: what is exchanged, in which group, in which order.

Bytes are those of the whole message, as nccl-tests count them: the larger one of all inputs and all outputs of a rank.
Bytes sent follow the ring algorithms, from the same page's factors between algorithm and bus bandwidth.
Source: https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils import _pytree as pytree

import fxcore
from fxcore.node_data.distributed_types import is_distributed
from fxcore.transforms.analysis.costs import module_path
from pytest_fxgraph.captures.collective_nodes import (
    arguments_of,
    bytes_of,
    group_argument,
    is_wait,
    kind_of,
    name_of_call,
    name_of_group,
    reduction_of,
    schema_of_call,
    tensors_of,
)
from pytest_fxgraph.captures.distributed_internals import process_groups
from pytest_fxgraph.document.tensor_texts import dtype_name
from pytest_fxgraph.grouping import grouped
from pytest_fxgraph.ranks.world import ranks_text
from pytest_fxgraph.report.printable import counted

# Arguments that a collective writes, and arguments that it neither sends nor writes.
_OUTPUTS = frozenset({"out", "output", "outputs", "output_tensor", "output_tensors", "output_lists", "tensor_list",
                      "gather_list", "output_tensor_list", "output_tensor_lists"})  # fmt: skip
_PEERS = {"dst": False, "src": False, "group_dst": True, "group_src": True, "root_rank": True}  # a rank of the group?
_METHODS_WITH_COLLECTIVES = frozenset({"redistribute", "full_tensor"})
_LONGEST_BLOCK = 64  # rows; a longer repetition stays unfolded
_NUMBER_OF_BLOCK = re.compile(r"(?<=[.\[_])\d+|^\d+")
_TITLES = ("ranks", "times", "collective", "group", "dtype", "shapes", "bytes", "sent", "module")
_MESH_DESCRIPTION = "mesh_"  # begins the description of a group that a DeviceMesh made


class Communicator(NamedTuple):
    """A group of processes: its ranks in the world, ascending as torch has them, and its dimension of a mesh."""

    ranks: tuple[int, ...]
    dimension: str = ""
    number: int = 0  # among the groups of the same ranks, in the order in which every rank makes them

    @property
    def text(self) -> str:
        """Name the group for people: `tp`, or its ranks."""
        text = self.dimension or f"ranks {ranks_text(self.ranks)}"
        return text + (f" (group {self.number + 1} of these ranks)" if self.number else "")

    @property
    def identity(self) -> tuple[tuple[int, ...], int]:
        """Return a value that is equal for one group on all its ranks, and for no other group."""
        return self.ranks, self.number


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
    # Numbers of elements that the rank hands to each rank of the group and gets from it, or one number for all of them;
    # empty where nothing is cut into parts, or a number is not known.
    gives: tuple[int, ...] = ()
    takes: tuple[int, ...] = ()
    tag: int = 0  # of a send or recv
    # Of a receive: the number of collectives that the rank calls before it waits for the data; None if it never waits.
    awaited: int | None = None
    source: str = field(default="", compare=False)  # the line of the user's code, if torch recorded it

    @property
    def text(self) -> str:
        """Describe the collective: `all_reduce(sum) of float32[2, 8] on tp`."""
        reduced = f"({self.reduction})" if self.reduction else ""
        tensors = ", ".join([f"{self.dtype}{list(shape)}" for shape in self.shapes])
        peer = "" if self.peer is None else f" {'to' if self.kind in ('send', 'gather', 'reduce') else 'from'} rank "
        peer += "" if self.peer is None else str(self.peer)
        return f"{self.kind}{reduced}{f' of {tensors}' if tensors else ''}{peer} on {self.communicator.text}"

    @property
    def sent(self) -> int:
        """Return the bytes that the rank sends by the ring algorithm of its collective."""
        size = len(self.communicator.ranks)
        others = self.bytes * (size - 1) // size
        if self.kind in ("all_gather", "reduce_scatter", "all_to_all"):
            return others
        if self.kind in ("gather", "scatter"):
            sends_parts = (self.peer == self.rank) == (self.kind == "scatter")
            return 0 if not sends_parts else others if self.kind == "scatter" else self.bytes // size
        if self.kind == "all_reduce":
            return 2 * others
        return self.bytes if self.kind in ("send", "broadcast", "reduce") and size > 1 else 0


class Collectives(list[Collective]):
    """The collectives of all captured ranks, rank by rank in the order of their calls."""

    def of_rank(self, rank: int) -> list[Collective]:
        """Return the collectives of one rank in order."""
        return [each for each in self if each.rank == rank]

    def __str__(self) -> str:
        rows: dict[int, list[_Row]] = {}
        for each in self:
            reduced = f"({each.reduction})" if each.reduction else ""
            peer = "" if each.peer is None else f" rank {each.peer}"
            row = _Row(f"{each.kind}{reduced}{peer}", each.communicator.text, each.dtype, each.shapes, each.bytes,
                      each.sent, each.module)  # fmt: skip
            rows.setdefault(each.rank, []).append(row)
        return _printed(rows)

    def __repr__(self) -> str:
        return f"<{counted(len(self), 'collective')}>"


def collectives_of(
    graph_modules: Iterable[fxcore.GraphModule], rank: int, communicators: Mapping[str, Communicator]
) -> list[Collective]:
    """Return the collectives of a rank's graphs in their order. Inner graphs are looked into where they are called."""
    found: list[Collective] = []
    world = Communicator(tuple(range(torch.distributed.get_world_size())))
    receives: dict[fxcore.Node, list[int]] = {}  # the places of receives that nothing has waited for so far
    for graph_module in graph_modules:
        for owner, node in _calls(graph_module):
            kind = kind_of(node)
            if kind is not None:
                name = name_of_group(owner, group_argument(node))
                call = _Call(owner, node, kind, world if name is None else communicators.get(name, world))
                found += call.records(rank, len(found))
                if kind in ("recv", "batch_p2p") and not call.blocks:
                    receives[node] = [each.order for each in found if each.node == node.name and each.kind == "recv"]
            elif is_wait(node):
                for place in [place for each in _sources(node) for place in receives.pop(each, ())]:
                    found[place] = replace(found[place], awaited=len(found))
    return found


def _sources(wait: fxcore.Node) -> Iterator[fxcore.Node]:
    """Yield the calls whose end a node waits for: its arguments, or the calls that returned them in a tuple."""
    for node in wait.all_input_nodes:
        yield node
        if node.target is operator.getitem:
            yield node.all_input_nodes[0]


def hidden_collective(graph_module: fxcore.GraphModule) -> fxcore.Node | None:
    """Return the first node that computes with DTensors, whose operators may hold collectives; None without one."""
    for owner, node in _calls(graph_module):
        is_hidden = node.op == "call_method" and str(node.target) in _METHODS_WITH_COLLECTIVES
        if node.op == "call_module":
            is_hidden = any(map(is_distributed, owner.get_submodule(str(node.target)).parameters()))
        elif node.op in ("call_function", "call_method") and not is_hidden:
            is_hidden = any(_holds_distributed(owner, each) for each in (node, *node.all_input_nodes))
        if is_hidden:
            return node
    return None


def _holds_distributed(owner: fxcore.GraphModule, node: fxcore.Node) -> bool:
    if node.op == "get_attr":
        value: Any = owner
        for part in str(node.target).split("."):
            value = getattr(value, part, None)
        return is_distributed(value)
    return any(map(is_distributed, tensors_of(node)))


def _calls(graph_module: fxcore.GraphModule) -> Iterator[tuple[fxcore.GraphModule, fxcore.Node]]:
    for node in graph_module.graph.nodes:
        inner = graph_module.get_submodule(node.target) if node.op == "call_module" else None
        if isinstance(inner, fxcore.GraphModule):
            yield from _calls(inner)
        else:
            yield graph_module, node


class _Call:
    """One call of a collective: its arguments by name, and the tensors that go in and come out."""

    def __init__(self, owner: fxcore.GraphModule, node: fxcore.Node, kind: str, communicator: Communicator) -> None:
        self.owner, self.node, self.kind, self.communicator = owner, node, kind, communicator
        self.arguments = arguments_of(node)
        inputs: list[torch.Tensor] = []
        outputs: list[torch.Tensor] = []
        for name, value in self.arguments.items():
            if name == "sparse_indices":
                continue
            is_tensor_of_scatter = kind == "scatter" and name == "tensor"
            is_output = kind == "recv" or is_tensor_of_scatter or name in _OUTPUTS
            (outputs if is_output else inputs).extend(_leaf_tensors(value))
        self.inputs = inputs
        self.outputs = outputs or [each for each in tensors_of(node) if kind not in ("gather", "scatter", "send")]
        self.is_at_root = bool(inputs) if kind == "scatter" else bool(outputs)

    @property
    def blocks(self) -> bool:
        """Whether the call itself waits: `torch.distributed.recv`, and no operator."""
        return schema_of_call(self.node.target) is None and name_of_call(self.node.target).startswith("recv")

    def records(self, rank: int, order: int) -> list[Collective]:
        """Return the record of the call; of a batch of sends and receives one for each."""
        if self.kind != "batch_p2p":
            return [self._record(rank, order)]
        columns = [self.arguments[name] for name in ("op_list", "peer_list", "tag_list", "tensors")]
        found: list[Collective] = []
        for word, peer, tag, tensor in zip(*columns, strict=True):
            kind = "send" if "send" in word else "recv"
            part = _Call(self.owner, self.node, kind, self.communicator)
            part.inputs = part.outputs = list(_leaf_tensors(tensor))
            part.arguments = {"root_rank": peer, "tag": tag}
            found.append(part._record(rank, order + len(found)))
        return found

    def _record(self, rank: int, order: int) -> Collective:
        kind, tensors = self.kind, [] if self.kind == "barrier" else self.inputs or self.outputs
        size = len(self.communicator.ranks)
        message = max(bytes_of(self.inputs), bytes_of(self.outputs))
        if kind in ("gather", "scatter") and not self.is_at_root:
            message *= size
        gives, takes = self._parts(kind, size)
        tag = self.arguments.get("tag")
        return Collective(
            rank, order, kind, self.communicator,
            dtype_name(tensors[0].dtype) if tensors else "",
            tuple([tuple(map(int, each.shape)) for each in tensors]),
            message if tensors else 0,
            reduction_of(self.node, kind, self.arguments), self._peer(), self.node.name, module_path(self.node),
            gives, takes, tag if isinstance(tag, int) else 0,
            order + 1 if self.blocks else None, _source_of(self.node),
        )  # fmt: skip

    def _peer(self) -> int | None:
        """Return the other rank of a send or recv, or the root, as a rank of the world."""
        is_operator = schema_of_call(self.node.target) is not None
        for name, is_of_group in _PEERS.items():
            given = self.arguments.get(name)
            if isinstance(given, int):
                ranks = self.communicator.ranks
                return (ranks[given] if given < len(ranks) else given) if is_of_group or is_operator else given
        return None

    def _parts(self, kind: str, size: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the numbers of elements for each rank of the group, and from each."""
        inputs, outputs = ([int(each.numel()) for each in side] for side in (self.inputs, self.outputs))
        if "coalesced" in name_of_call(self.node.target):  # a list has the tensors of all calls, and not the parts
            inputs, outputs = ([sum(side)] if side else [] for side in (inputs, outputs))
        if kind == "all_gather":
            return _whole(inputs, 1), _whole(outputs, size)
        if kind == "reduce_scatter":
            return _whole(inputs, size), _whole(outputs, 1)
        if kind == "scatter":
            return (_whole(inputs, size) if inputs else ()), _whole(outputs, 1)
        if kind == "gather":
            return _whole(inputs, 1), (_whole(outputs, size) if outputs else ())
        if kind != "all_to_all":
            return (), ()
        return self._split("input", self.inputs, size), self._split("output", self.outputs, size)

    def _split(self, side: str, tensors: Sequence[torch.Tensor], size: int) -> tuple[int, ...]:
        """Return the numbers of elements in the parts of an all_to_all, from its list of tensors or its split sizes."""
        splits = self.arguments.get(f"{side}_split_sizes")
        if not splits:
            return _whole([int(each.numel()) for each in tensors], size)
        if not all(isinstance(each, int) for each in splits) or not tensors:
            return ()
        rows = sum(splits)
        return tuple([int(tensors[0].numel()) * each // max(rows, 1) for each in splits])


def _whole(numbers: Sequence[int], parts: int) -> tuple[int, ...]:
    """Return the sizes of `parts` parts; one number if all are equal, or if one tensor is cut evenly."""
    if len(numbers) == parts and parts > 1:
        return tuple(numbers) if len({*numbers}) > 1 else (numbers[0],)
    return (sum(numbers) // parts,) if numbers else ()


def _leaf_tensors(value: Any) -> Iterator[torch.Tensor]:
    for leaf in pytree.tree_leaves(value):
        if isinstance(leaf, fxcore.Node):
            yield from tensors_of(leaf)


def _source_of(node: fxcore.Node) -> str:
    """Return the last line of the recorded stack: `self.reduce(x)`."""
    lines = [line.strip() for line in str(node.meta.get("stack_trace") or "").splitlines() if line.strip()]
    return lines[-1] if lines else ""


# Groups of processes of one rank: the ranks in each, and the dimension of the mesh that each belongs to.


def communicators_by_name(models: Iterable[Any] = ()) -> dict[str, Communicator]:
    """Return the groups of this process by torch's name; the meshes of the models' state name their dimensions."""
    found = {}
    numbers: dict[tuple[int, ...], int] = {}
    for group in process_groups():
        described = str(getattr(group, "group_desc", "") or "")
        dimension = described.removeprefix(_MESH_DESCRIPTION) if described.startswith(_MESH_DESCRIPTION) else ""
        ranks = tuple(torch.distributed.get_process_group_ranks(group))
        numbers[ranks] = numbers.get(ranks, -1) + 1
        found[str(group.group_name)] = Communicator(ranks, dimension, numbers[ranks])
    for mesh in _meshes_of(models):
        for place, dimension in enumerate(mesh.mesh_dim_names or ()):
            name = str(mesh.get_group(place).group_name)
            if name in found and not found[name].dimension:
                found[name] = found[name]._replace(dimension=dimension)
    return found


def _meshes_of(models: Iterable[Any]) -> Iterator[Any]:
    for model in models:
        if isinstance(model, nn.Module):
            tensors: list[Any] = [*model.parameters(), *model.buffers()]
            yield from (tensor.device_mesh for tensor in tensors if is_distributed(tensor))
        elif hasattr(model, "mesh_dim_names"):
            yield model


# The table: ranks that do the same share a row, repeated blocks are folded, and groups have totals.


class _Row(NamedTuple):
    """The cells of a collective that ranks may share."""

    kind: str
    group: str
    dtype: str
    shapes: tuple[tuple[int, ...], ...]
    bytes: int
    sent: int
    module: str

    def cells(self, ranks: str, times: int) -> tuple[str, ...]:
        """Return the texts of the columns."""
        shapes = [str(list(shape)) for shape in self.shapes]
        shown = f"{len(shapes)} x {shapes[0]}" if len(shapes) > 1 and len({*shapes}) == 1 else ", ".join(shapes)
        numbers = (f"{self.bytes:,}", f"{self.sent:,}") if shapes or self.kind == "barrier" else ("?", "?")
        return ranks, f"x{times}" if times > 1 else "", self.kind, self.group, self.dtype, shown, *numbers, self.module


def _printed(by_rank: Mapping[int, Sequence[_Row]]) -> str:
    """Return the table of the rows of all ranks, and below it the totals of each group for one rank."""
    together = grouped(by_rank, lambda rank: tuple(by_rank[rank]))
    lines: list[tuple[str, ...]] = [_TITLES]
    for rows, ranks in together.items():
        lines += [row.cells(ranks_text(ranks), times) for row, times in _folded(rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    texts = [
        "  ".join([cell.ljust(width) for cell, width in zip(line, widths, strict=True)]).rstrip() for line in lines
    ]
    return "\n".join([*texts, *(total for rows, ranks in together.items() for total in _totals(rows, ranks))])


def _totals(rows: Sequence[_Row], ranks: Sequence[int]) -> Iterator[str]:
    """Yield a line for each group that ranks with these rows use."""
    who = f"each of ranks {ranks_text(ranks)}" if len(ranks) > 1 else f"rank {ranks[0]}"
    for group in dict.fromkeys(row.group for row in rows):
        own = [row for row in rows if row.group == group]
        yield (
            f"total on {group}, {who}: {counted(len(own), 'collective')}, {sum(row.bytes for row in own):,} bytes, "
            f"{sum(row.sent for row in own):,} sent"
        )


def _folded(rows: Sequence[_Row]) -> Iterator[tuple[_Row, int]]:
    """Yield each row with its number of repetitions; of repeated blocks one, with `*` for the number of the block."""
    general = [row._replace(module=_NUMBER_OF_BLOCK.sub("*", row.module)) for row in rows]
    start = 0
    while start < len(rows):
        length, times = 1, 1
        for candidate in range(1, min(_LONGEST_BLOCK, (len(rows) - start) // 2) + 1):
            found = _repetitions(general, start, candidate)
            if candidate * (found - 1) > length * (times - 1):
                length, times = candidate, found
        for place in range(start, start + length):
            yield (general if times > 1 else rows)[place], times
        start += length * times


def _repetitions(rows: Sequence[_Row], start: int, length: int) -> int:
    """Return how many times the `length` rows from `start` on stand one after the other."""
    times, block = 1, rows[start : start + length]
    while rows[start + times * length : start + (times + 1) * length] == block:
        times += 1
    return times
