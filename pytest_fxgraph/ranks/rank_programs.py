"""The result of `fx_ranks`: one program on many ranks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import fxcore
from fxcore.transforms.analysis.costs import aligned
from pytest_fxgraph.captures.capture import JoinedGraphs, joined_graphs
from pytest_fxgraph.captures.costs import cost_block, costs_of_captured, costs_together
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.document.capture_notes import CONSTANT, FRONTEND, PLACEMENT, RANKS, WORLD
from pytest_fxgraph.document.costs import CostBlock
from pytest_fxgraph.errors import CollectiveError, RanksError
from pytest_fxgraph.ranks.collectives import Collective, Collectives, hidden_collective
from pytest_fxgraph.ranks.groups import groups_of_equal_ranks, masked
from pytest_fxgraph.ranks.matching import mismatch_of
from pytest_fxgraph.ranks.rank_program import ProgramRequest, RankProgram, StateMemory
from pytest_fxgraph.ranks.world import World, ranks_text
from pytest_fxgraph.report.printable import counted
from pytest_fxgraph.report.text import headline

_MOST_DIFFERENCES = 3
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


class RankPrograms(JoinedGraphs):
    """The programs of the captured ranks. It is a subject: one golden holds a graph for each group of equal ranks."""

    def __init__(
        self, frontend: str, world: World, programs: Sequence[RankProgram], request: ProgramRequest | None = None
    ) -> None:
        self.frontend = frontend
        self.request = request  # for a run of the same program on real processes
        self.world = world
        self.programs = {program.rank: program for program in programs}
        self.groups = groups_of_equal_ranks(programs)

    @property
    def graphs(self) -> dict[int, fxcore.GraphModule]:
        """The graph of each captured rank."""
        return {rank: program.capture.as_graph_module() for rank, program in self.programs.items()}

    @property
    def collectives(self) -> Collectives:
        """The collectives of all captured ranks in order; print them for a table.

        Raises RanksError if the frontend leaves collectives inside of operators of DTensors.
        """
        self._refuse_hidden_collectives("list")
        return Collectives([each for program in self.programs.values() for each in program.collectives])

    @cached_property
    def cost(self) -> RankCosts:
        """The FLOPs, the memory and the bytes sent of one rank of each group, in one step; print them for a table.

        Raises CaptureError if a graph cannot be counted, and RanksError as `collectives` does.
        """
        self._refuse_hidden_collectives("count")
        return RankCosts([_rank_cost(group.ranks, self.programs[group.ranks[0]]) for group in self.groups])

    def assert_spmd(self) -> None:
        """Check that all ranks run one graph, up to constants that depend on the rank.

        Raises CollectiveError (an AssertionError) with the groups of ranks and the first difference.
        """
        __tracebackhide__ = True
        if len(self.groups) == 1:
            return
        first, *others = (self.programs[group.ranks[0]] for group in self.groups)
        ranks = "; ".join([f"ranks {group.text}" for group in self.groups])
        lines = [f"the {len(self.programs)} ranks run {len(self.groups)} different graphs: {ranks}"]
        for other in others[:_MOST_DIFFERENCES]:
            difference = compare_documents(masked(first.document), masked(other.document), level="structure")
            lines.append(f"rank {other.rank} differs from rank {first.rank}: {headline(difference)}")
        lines.append("a rank-dependent branch or size makes another graph; numbers that depend on the rank do not")
        message = "\n".join(lines)
        raise CollectiveError(message, message)

    def assert_matching_collectives(self) -> None:
        """Check that every rank of a group calls the same collectives in the same order with compatible tensors.

        Raises CollectiveError (an AssertionError) with the collectives at which the ranks wait for each other, and
        RanksError as `collectives` does.
        """
        __tracebackhide__ = True
        self._refuse_hidden_collectives("match")
        mismatch = mismatch_of({rank: program.collectives for rank, program in self.programs.items()})
        if mismatch is not None:
            raise CollectiveError(mismatch, mismatch)

    def _refuse_hidden_collectives(self, action: str) -> None:
        for rank, program in self.programs.items():
            start = f"cannot {action} the collectives of rank {rank}: "
            if program.hooked:
                raise RanksError(
                    f"{start}hooks of {program.hooked} call collectives outside of the graphs of "
                    f"frontend={self.frontend!r}; take frontend='make_fx', whose graphs hold them"
                )
            for graph in program.capture.graphs:
                node = hidden_collective(graph)
                if node is not None:
                    raise RanksError(
                        f"{start}{node.name} ({getattr(node.target, '__name__', node.target)}) computes with DTensors, "
                        f"and its collectives are inside of it in graphs of frontend={self.frontend!r}; take "
                        "frontend='make_fx', or 'aot', whose graphs hold each collective"
                    )

    def as_graph_module(self) -> fxcore.GraphModule:
        """Return a graph module that calls one graph for each group of equal ranks, to be read and not to be run."""
        representatives = [self.programs[group.ranks[0]].readable for group in self.groups]
        return joined_graphs({"graph": representatives}, [f"{FRONTEND}: {self.frontend}", *self._notes()])

    def _notes(self) -> list[str]:
        notes = [f"{WORLD}: {self.world.text}"]
        if len(self.programs) != self.world.size:
            notes.append(f"{RANKS}: captured {ranks_text([*self.programs])}")
        for number, group in enumerate(self.groups):
            notes.append(f"{RANKS}: {group.text} run graph_{number}")
            notes += [f"{CONSTANT}: graph_{number}: {constant.text}" for constant in group.constants]
            placements = self.programs[group.ranks[0]].placements
            notes += [f"{PLACEMENT}: {path}: {text}" for path, text in placements.items()]
            for kind, finding in self.programs[group.ranks[0]].capture.findings:
                notes.append(f"{kind}: {finding.text}")
        return list(dict.fromkeys(notes))

    def __repr__(self) -> str:
        return f"<{counted(len(self.programs), 'rank')} in {counted(len(self.groups), 'group')} by {self.frontend}>"


def _rank_cost(ranks: tuple[int, ...], program: RankProgram) -> RankCost:
    """Return the costs of a rank. Raises CaptureError if its graphs cannot be counted."""
    graphs = [program.readable, *program.capture.graphs[1:]]
    has_gradients = program.state.gradients > 0
    cost = costs_together({str(place): _block(graph, has_gradients) for place, graph in enumerate(graphs)})
    sent = _sent(program.collectives)
    return RankCost(
        ranks, cost.total.flops, cost.total.bytes, program.state, cost.peak_activation, sent, cost.uncounted
    )


def _block(graph_module: fxcore.GraphModule, has_gradients: bool) -> CostBlock:
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
