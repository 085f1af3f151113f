"""The costs of one step of a rank: operations, memory, and bytes sent to other ranks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import fxcore
from fxcore.transforms.analysis.costs import aligned
from pytest_fxgraph.captures.costs import cost_block, costs_of_captured
from pytest_fxgraph.document.costs import CostBlock
from pytest_fxgraph.ranks.collectives import Collective
from pytest_fxgraph.ranks.memory import StateMemory
from pytest_fxgraph.ranks.rank_program import RankProgram
from pytest_fxgraph.ranks.world import ranks_text

_STATE = ("parameters", "gradients", "optimizer")  # fields of StateMemory


@dataclass(frozen=True)
class RankCost:
    """The costs of one step of one rank of a group of equal ranks."""

    ranks: tuple[int, ...]
    flops: int
    bytes: int  # that the operators read and write
    state: StateMemory
    activations: int  # the most bytes of inputs and intermediate values that are live at once
    sent: Mapping[tuple[str, str], int]  # bytes, by collective and group: ("all_reduce", "tp")
    uncounted: tuple[str, ...]  # operators whose FLOPs nobody knows

    @property
    def memory(self) -> int:
        """The bytes of the state and of the activations' peak."""
        return self.state.parameters + self.state.gradients + self.state.optimizer + self.activations

    @property
    def columns(self) -> dict[str, int | float]:
        """The numbers of a table's row."""
        return {
            "flops": self.flops,
            "bytes": self.bytes,
            **{f"memory_{name}": getattr(self.state, name) for name in _STATE},
            "peak_activation": self.activations,
            **{f"sent_bytes_{kind}_{group}": count for (kind, group), count in self.sent.items()},
            "uncounted": len(self.uncounted),
        }


class RankCosts(tuple[RankCost, ...]):
    """The costs of each group of equal ranks; print them for a table."""

    __slots__ = ()

    @property
    def largest(self) -> dict[str, int | float]:
        """The largest number of any rank, by column."""
        columns: dict[str, int | float] = dict.fromkeys([column for each in self for column in each.columns], 0)
        for each in self:
            columns.update({column: max(columns[column], number) for column, number in each.columns.items()})
        return columns

    def __str__(self) -> str:
        exchanges = list(dict.fromkeys([key for each in self for key in each.sent]))
        head = ("ranks", "FLOPs", *_STATE, "activations", "memory", *(f"{kind} {group}" for kind, group in exchanges))
        rows = [head]
        for each in self:
            state = [getattr(each.state, name) for name in _STATE]
            sent = [each.sent.get(key, 0) for key in exchanges]
            numbers = [each.flops, *state, each.activations, each.memory, *sent]
            rows.append((ranks_text(each.ranks), *[f"{number:,}" for number in numbers]))
        return aligned(rows)


def rank_cost(ranks: tuple[int, ...], program: RankProgram) -> RankCost:
    """Return the costs of a rank. Raises CaptureError if its graphs cannot be counted."""
    graphs = [program.readable, *program.capture.graphs[1:]]
    blocks = [_block(graph, has_gradients=program.state.gradients > 0) for graph in graphs]
    return RankCost(
        ranks,
        sum(block.total.flops for block in blocks),
        sum(block.total.bytes for block in blocks),
        program.state,
        max(block.peak_activation for block in blocks),
        _sent(program.collectives),
        tuple(sorted({name for block in blocks for name in block.uncounted})),
    )


def _block(graph_module: fxcore.GraphModule, *, has_gradients: bool) -> CostBlock:
    costs = costs_of_captured(graph_module)
    returned = graph_module.graph.output_node().args[0]
    if has_gradients and isinstance(returned, (tuple, list)) and isinstance(returned[-1], Mapping):
        # The gradients of a training step stay, and are counted with the state.
        for node in returned[-1].values():
            costs.values.state_storages.update(spec.storage for spec in costs.values.tensors(node))
    return cost_block(costs)


def _sent(collectives: Iterable[Collective]) -> dict[tuple[str, str], int]:
    sent: dict[tuple[str, str], int] = {}
    for each in collectives:
        # The ranks of a group without a name differ between equal ranks; their number does not.
        group = each.communicator.dimension or f"{len(each.communicator.ranks)}_ranks"
        sent[each.kind, group] = sent.get((each.kind, group), 0) + each.sent
    return sent
