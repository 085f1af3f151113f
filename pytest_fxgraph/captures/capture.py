"""The result of a capture: graphs, and Dynamo's breaks, recompiles and guards."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from torch import nn

import fxcore
from pytest_fxgraph.captures.kernels import Kernel
from pytest_fxgraph.captures.places import Place
from pytest_fxgraph.captures.torch_internals import InternalsError, Unavailable, shape_facts
from pytest_fxgraph.document.builder import build_document
from pytest_fxgraph.document.capture_notes import FRONTEND, NOTES, PLACES_OF_NOTES
from pytest_fxgraph.document.exported_ranges import bounds_as_numbers
from pytest_fxgraph.errors import BreakError, CaptureError
from pytest_fxgraph.report.printable import counted

_MOST_SHOWN = 20
_NO_BACKWARD = "frontend={!r} records no backward graph; use frontend='aot' with mode='train'"
# Lower and upper bounds of symbolic sizes by symbol; None for a missing bound.
Ranges = Mapping[str, tuple[int | None, int | None]]


def named_bounds(ranges: Mapping[Any, Any]) -> Ranges:
    """Return torch's ranges of symbols as numbers by the symbol's name."""
    return {str(symbol): bounds_as_numbers(bounds) for symbol, bounds in ranges.items()}


def ranges_of(graph: Any) -> Ranges | Unavailable:
    """Return the bounds of the symbols in a graph's values; the reason if this torch keeps none."""
    try:
        return named_bounds(shape_facts(graph)[0])
    except InternalsError as error:
        return Unavailable(str(error))


@dataclass(frozen=True)
class Break:
    """A place where Dynamo ends a graph and lets Python go on."""

    kind: str  # "branch on a tensor", "number out of a tensor", "builtin", ...
    operator: str  # the operator or builtin; "" if torch does not name it
    place: Place
    is_avoidable: bool | None  # None if torch does not say
    cure: str | None
    reason: str = field(compare=False)  # torch's own sentence
    frames: tuple[Place, ...] = field(default=(), compare=False)  # the calls that lead to the place, the innermost last

    @property
    def text(self) -> str:
        """Return the golden's text: kind, operator and place, without line numbers and torch's words."""
        return f"{self.kind}{f' ({self.operator})' if self.operator else ''} in {self.place.text}"

    def __repr__(self) -> str:
        return f"<break: {self.text}>"

    def lines(self) -> list[str]:
        """Describe the break: its kind, the user's frames, torch's reason and the cure."""
        lines = [f"graph break: {self.kind}{f' ({self.operator})' if self.operator else ''}"]
        lines += [f"  {frame}" for frame in self.frames or (self.place,)]
        lines.append(f"  torch says: {self.reason}")
        if self.cure is not None:
            lines.append(f"  to avoid it: {self.cure}")
        elif self.is_avoidable is False:
            lines.append("  torch cannot trace this; keep it out of the model's forward")
        return lines


@dataclass(frozen=True)
class Recompile:
    """A second compilation of a function, because a guard did not hold."""

    call: int  # 1 for the first one, `inputs`
    kind: str  # "size", "dtype", "value", "length", "type", ...
    guard: str  # "x size[0]", "k", "len(xs)"
    expected: str
    obtained: str
    place: Place  # of the function
    is_resumed: bool = False  # whether this is the part of the function after a break

    @property
    def text(self) -> str:
        """Return the golden's text."""
        function = self.place.qualified_function
        function += f" behind the break at `{self.place.source}`" if self.is_resumed else ""
        found = f": expected {self.expected}" if self.expected else ""
        found += f", obtained {self.obtained}" if self.obtained else ""
        return f"call {self.call} of {function}: {self.guard}{found}"

    def __repr__(self) -> str:
        return f"<recompile: {self.text}>"

    def lines(self) -> list[str]:
        """Describe the recompile."""
        return [f"recompiled in {self.text}", f"  {self.place}"]


@dataclass(frozen=True)
class Guard:
    """A value that the graphs rely on."""

    kind: str
    name: str
    expected: str

    @property
    def text(self) -> str:
        """Return the golden's text: `k == 2`."""
        return f"{self.name} == {self.expected}" if self.expected else self.name

    def __repr__(self) -> str:
        return f"<guard: {self.text}>"


@dataclass(frozen=True)
class SkippedFrame:
    """A function that Dynamo left to Python as a whole: no graph holds its operators."""

    place: Place
    kind: str
    reason: str = field(compare=False)

    @property
    def text(self) -> str:
        """Return the golden's text."""
        return f"{self.place.qualified_function}: {self.kind}"

    def __repr__(self) -> str:
        return f"<skipped: {self.text}>"

    def lines(self) -> list[str]:
        """Describe the frame."""
        return [f"not captured: {self.place.function}, {self.kind}", f"  {self.place}", f"  torch says: {self.reason}"]


@dataclass(frozen=True)
class Signature:
    """The inputs, outputs and state of one graph: values such as "float32[2, 3]" with names of inputs and state."""

    inputs: tuple[tuple[str, str | None], ...]
    outputs: tuple[str | None, ...]
    state: tuple[tuple[str, str], ...]


Found = TypeVar("Found", Break, Recompile, SkippedFrame)


class Findings(list[Found], Generic[Found]):
    """A list of findings that explains them if `assert capture.breaks == []` fails."""

    def explanation(self) -> list[str]:
        """Return the lines that describe the findings."""
        lines = [line for each in self[:_MOST_SHOWN] for line in each.lines()]
        return lines + ([f"and {len(self) - _MOST_SHOWN} more"] if len(self) > _MOST_SHOWN else [])


class JoinedGraphs(ABC):
    """A subject of several captured graphs: one graph module calls them all, to be read and not to be run."""

    @abstractmethod
    def as_graph_module(self) -> fxcore.GraphModule:
        """Return the graph of the subject, or a graph module that calls all its graphs."""

    @property
    def operators_of(self) -> Any:
        """The subject for questions about operators: this one."""
        return self


class Capture(JoinedGraphs):
    """The graphs that a frontend made of a model, and its findings.

    A question that the frontend or this torch cannot answer raises CaptureError. It never gets an empty answer.
    """

    def __init__(
        self,
        frontend: str,
        model_name: str,
        graphs: Sequence[fxcore.GraphModule],
        *,
        program: Any = None,
        breaks: Sequence[Break] | Unavailable = (),
        recompiles: Sequence[Recompile] | Unavailable = (),
        guards: Sequence[Guard] | Unavailable = (),
        skipped: Sequence[SkippedFrame] | Unavailable = (),
        fallbacks: Sequence[SkippedFrame] | Unavailable = (),
        backward_graphs: Sequence[fxcore.GraphModule] | None = None,
        joint_graphs: Sequence[fxcore.GraphModule] | None = None,
        ranges: Ranges | Unavailable | None = None,
    ) -> None:
        self.frontend = frontend
        self.model_name = model_name
        self.graphs = list(graphs)
        self.program = program  # the ExportedProgram of frontend "export"
        self._breaks, self._recompiles, self._guards = breaks, recompiles, guards
        self._skipped, self._fallbacks = skipped, fallbacks
        missing = Unavailable(_NO_BACKWARD.format(frontend))
        self._backward_graphs = missing if backward_graphs is None else backward_graphs
        self._joint_graphs = missing if joint_graphs is None else joint_graphs
        self._ranges = ranges if isinstance(ranges, Unavailable) else dict(ranges or {})

    @property
    def is_dynamo(self) -> bool:
        """Whether Dynamo captured the model, so that breaks and recompiles are possible."""
        return self.frontend in ("dynamo", "aot", "inductor")

    @property
    def breaks(self) -> Findings[Break]:
        """The graph breaks, each place once, in the order of the calls."""
        return Findings(_known(self._breaks))

    @property
    def recompiles(self) -> Findings[Recompile]:
        """The functions that a later call compiled again."""
        return Findings(_known(self._recompiles))

    @property
    def guards(self) -> list[Guard]:
        """All facts that the graphs rely on; Dynamo compiles anew if one changes. A golden has the kind `value`."""
        return list(_known(self._guards))

    @property
    def skipped(self) -> Findings[SkippedFrame]:
        """The user's functions that Dynamo left to Python as a whole."""
        return Findings(_known(self._skipped))

    @property
    def fallbacks(self) -> Findings[SkippedFrame]:
        """The functions that run in Python because they reached torch's limit of recompiles."""
        return Findings(_known(self._fallbacks))

    @property
    def backward_graphs(self) -> list[fxcore.GraphModule]:
        """The backward graphs of frontend "aot" in train mode."""
        return list(_known(self._backward_graphs))

    @property
    def joint_graphs(self) -> list[fxcore.GraphModule]:
        """The graphs of forward and backward together, before AOT autograd parts them: frontend "aot" in train mode."""
        return list(_known(self._joint_graphs))

    @property
    def range_constraints(self) -> dict[str, tuple[int | None, int | None]]:
        """The bounds of symbolic sizes by symbol; None for a missing bound."""
        return dict(_known(self._ranges))

    @property
    def signature(self) -> list[Signature]:
        """The inputs, outputs and state of each graph."""
        return [_signature_of(graph) for graph in self.graphs]

    def assert_whole(self) -> None:
        """Check that the model is one graph in each call, without a break or a function left to Python.

        Raises BreakError (an AssertionError) with the user's lines and the cure, also if there is no graph at all.
        """
        __tracebackhide__ = True
        found: list[Break | SkippedFrame] = [*self.breaks, *self.skipped, *self.fallbacks]
        if not self.graphs:
            lines = [f"{self.model_name} was not captured: frontend {self.frontend!r} made no graph of it"]
        elif found:
            words = counted(len(self.breaks), "graph break")
            lines = [f"{self.model_name} is not captured whole: {words}, {len(self.graphs)} graphs"]
        else:
            return
        # A skipped function is described by the break that made Dynamo skip it.
        told = [*self.breaks.explanation(), *self.fallbacks.explanation()] or self.skipped.explanation()
        message = "\n".join([*lines, *told])
        raise BreakError(message, tuple((each.place.line_of_source, each.lines()[0]) for each in found))

    @property
    def operators_of(self) -> Any:
        """The subject for questions about operators: torch's exported program, or this capture."""
        return self if self.program is None else self.program

    def as_graph_module(self) -> fxcore.GraphModule:
        """Return the graph of a frontend that makes one; for Dynamo, a graph module that calls all graphs.

        Raises CaptureError if there is no graph at all.
        """
        self.refuse_empty()
        if not self.is_dynamo:
            return self.graphs[0]
        graphs = {"graph": self.graphs}
        if not isinstance(self._backward_graphs, Unavailable):
            graphs["backward"] = self.backward_graphs
        places = {f"{kind}: {each.text}": each.place.line_of_source for kind, each in reversed(self.findings)}
        notes = [f"{kind}: {each.text}" for kind, each in self.findings]
        notes += [f"guard: {guard.text}" for guard in self.guards if guard.kind == "value"]
        notes += self.kernel_notes
        made = joined_graphs(graphs, [f"{FRONTEND}: {self.frontend}", *notes])
        made.meta[PLACES_OF_NOTES] = places | self.refusals
        return made

    @property
    def findings(self) -> list[tuple[str, Break | Recompile | SkippedFrame]]:
        """The breaks, recompiles and functions left to Python, each with its kind as goldens name it."""
        kinds = ("break", self.breaks), ("recompile", self.recompiles), ("skipped", self.skipped)
        return [(kind, each) for kind, found in (*kinds, ("fallback", self.fallbacks)) for each in found]

    @property
    def kernel_notes(self) -> list[str]:
        """The golden's lines about kernels; none for a frontend that makes no kernels."""
        return []

    @property
    def refusals(self) -> dict[str, str]:
        """The reasons why kernels were not fused; none for a frontend that makes no kernels."""
        return {}

    @property
    def kernels(self) -> Sequence[Kernel]:
        """The kernels that frontend "inductor" makes of the graphs. Raises CaptureError for any other frontend."""
        raise CaptureError(f"frontend={self.frontend!r} makes no kernels; use frontend='inductor'")

    def assert_fused(self, operator: object, *others: object) -> None:
        """Check that each kernel of frontend "inductor" that computes the operator computes the others, too.

        An operator is "aten.relu", "aten.add.Tensor", a glob or an operator of torch.ops. Raises AssertionError with
        the kernels and with Inductor's reason to keep them apart, CaptureError for any other frontend.
        """
        raise CaptureError(f"frontend={self.frontend!r} makes no kernels; use frontend='inductor'")

    def refuse_empty(self) -> None:
        """Raise CaptureError if there is no graph at all."""
        if not self.graphs:
            told = "\n".join([*self.breaks.explanation(), *self.skipped.explanation()])
            raise CaptureError(
                f"{self.model_name} was not captured: frontend {self.frontend!r} made no graph of it, "
                f"so there is nothing to compare{': ' if told else ''}\n{told}".rstrip()
            )

    def __repr__(self) -> str:
        facts = [counted(len(self.graphs), "graph")]
        if self.is_dynamo and not isinstance(self._breaks, Unavailable):
            facts.append(counted(len(self.breaks), "break"))
        if self.is_dynamo and not isinstance(self._recompiles, Unavailable) and self._recompiles:
            facts.append(counted(len(self.recompiles), "recompile"))
        return f"<capture of {self.model_name} by {self.frontend}: {', '.join(facts)}>"


_Facts = TypeVar("_Facts")


def _known(facts: _Facts | Unavailable) -> _Facts:
    if isinstance(facts, Unavailable):
        raise CaptureError(facts.reason)
    return facts


def _signature_of(graph: fxcore.GraphModule) -> Signature:
    document = build_document(graph, constants="shape", sources=False)
    outputs = [node for node in document.nodes if node.op == "output"]
    values = {f"%{node.name}": node.value for node in document.nodes}
    read = [text.strip("()[], ") for node in outputs for argument in node.args for text in argument.split(", ")]
    return Signature(
        tuple((node.target, node.value) for node in document.nodes if node.op == "placeholder"),
        tuple(values.get(text) for text in read if text),
        tuple((record.path, record.value) for record in document.state),
    )


def explain_findings(op: str, expected: object, obtained: object) -> list[str] | None:
    """Return the lines that explain a failed `assert capture.breaks == []`; None for all other comparisons."""
    found = expected if isinstance(expected, Findings) else obtained
    if op != "==" or not isinstance(found, Findings) or not found:
        return None
    words = "finding" if len(found) == 1 else "findings"
    return [f"{len(found)} {words} where there should be {'none' if not (expected and obtained) else 'others'}",
            *found.explanation()]  # fmt: skip


class CapturedGraphs(nn.Module):
    """Holds the graphs of a capture."""


# Documents may contain the class's name, so the name must not change with this file's.
CapturedGraphs.__module__ = "pytest_fxgraph"


def joined_graphs(graphs: Mapping[str, Sequence[fxcore.GraphModule]], notes: Iterable[str]) -> fxcore.GraphModule:
    """Return a graph module, to read and not to run, that calls the graphs as its modules `graph_0` and on."""
    root = CapturedGraphs()
    outer = fxcore.Graph()
    for kind, of_kind in graphs.items():
        for number, graph in enumerate(of_kind):
            name = f"{kind}_{number}"
            root.add_module(name, graph)
            outer.call_module(name, ())
    outer.output(())
    made = fxcore.GraphModule(root, outer, "CapturedGraphs")
    made.meta[NOTES] = tuple(notes)
    return made
