"""The fixture `fx_stages`: follows the nodes of a model through the stages of its lowering."""

from __future__ import annotations

import copy
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import fxcore
from fxcore.transforms.rule_set import Rewrite, RuleSet
from pytest_fxgraph.captures.capture import Capture
from pytest_fxgraph.captures.collective_nodes import bytes_of, group_argument, is_wait, kind_of, tensors_of
from pytest_fxgraph.captures.pattern_uses import PatternUse, check_fired
from pytest_fxgraph.captures.request import CaptureRequest
from pytest_fxgraph.captures.subjects import to_graph_module
from pytest_fxgraph.captures.torch_internals import core_decompositions
from pytest_fxgraph.captures.ways import captured
from pytest_fxgraph.choices import FRONTENDS
from pytest_fxgraph.document.builder import build_document
from pytest_fxgraph.document.origins import Origins
from pytest_fxgraph.errors import CaptureError, ChoiceError, GateError
from pytest_fxgraph.report.printable import first_lines, printable_line
from pytest_fxgraph.report.stage_strip import StageStrip, StripNode, StripStage

DECOMPOSE = "decompose"
_COMPUTING = ("call_function", "call_method", "call_module")
_MOST_SHOWN = 40
_MOST_REWRITES = 40

StageStep = str | Callable[[Any], Any]


@dataclass(frozen=True)
class StageNode:
    """A node of one stage, with its sources in the stage before."""

    name: str
    operator: str
    made_from: tuple[StageNode, ...]
    scope: str | None
    source: str | None
    rule: str | None = None  # the rule of a rule set that made the node
    moved: str = ""  # of a kept collective, or of the wait for one: "earlier, before relu", "later, behind relu"

    @property
    def change(self) -> str:
        """Return "added", "kept", or "rewritten" if a rule made the node or its source was another operator."""
        if not self.made_from:
            return "added"
        if self.rule is not None:
            return "rewritten"
        return "kept" if [node.operator for node in self.made_from] == [self.operator] else "rewritten"

    def __str__(self) -> str:
        return f"{self.name} ({self.operator})"


@dataclass(frozen=True)
class Stage:
    """A graph on its way, and the changes of the step that made it."""

    name: str
    graph: fxcore.GraphModule
    nodes: tuple[StageNode, ...]
    removed: tuple[StageNode, ...]

    def nodes_that_were(self, change: str) -> tuple[StageNode, ...]:
        """Return the nodes with a change: "added", "kept" or "rewritten"."""
        return tuple(node for node in self.nodes if node.change == change)

    def lines(self, *, is_first: bool = False) -> Iterator[str]:
        """Describe the stage."""
        if is_first:
            yield f"{self.name}: {len(self.nodes)} nodes"
            return
        counts = Counter(node.change for node in self.nodes)
        yield (
            f"{self.name}: {counts['added']} added, {len(self.removed)} removed, {counts['rewritten']} rewritten, "
            f"{counts['kept']} kept"
        )
        lines = [f"  + {node}{_place(node)}" for node in self.nodes_that_were("added")]
        lines += [f"  - {node}{_place(node)}" for node in self.removed]
        lines += [
            f"  ~ {', '.join(map(str, node.made_from))} -> {node}{_place(node)}"
            for node in self.nodes_that_were("rewritten")
        ]
        lines += [f"  > {node} {node.moved}{_place(node)}" for node in self.nodes if node.moved]
        yield from first_lines(lines, _MOST_SHOWN, "  and {} more")


class Stages(Sequence[Stage]):
    """The stages of one model, the first one first."""

    def __init__(self, stages: Sequence[Stage], patterns: Sequence[PatternUse] | None = None) -> None:
        self._stages = tuple(stages)
        self._patterns = patterns

    def __getitem__(self, place: Any) -> Any:
        """Return a stage by its place or its name. Raises KeyError with the known names."""
        if not isinstance(place, str):
            return self._stages[place]
        for stage in self._stages:
            if stage.name == place:
                return stage
        raise KeyError(f"there is no stage {place!r}; there are {', '.join(stage.name for stage in self._stages)}")

    def __len__(self) -> int:
        return len(self._stages)

    def made_by(self, operator: str) -> dict[str, str]:
        """Map the nodes of the last graph that call an operator ("aten.clone*") to the stages that introduced it.

        Raises GateError if no node of the last graph calls it.
        """
        found = {
            node.name: self._maker(node) for node in self._stages[-1].nodes if fnmatchcase(node.operator, operator)
        }
        if not found:
            operators = ", ".join(sorted({node.operator for node in self._stages[-1].nodes}))
            raise GateError(f"no node of the last stage calls {operator!r}; it calls {operators}")
        return found

    def fired(self, name: str, times: int | None = None) -> int:
        """Return how many matches of a pattern of Inductor were replaced, as `check_fired` does.

        Raises ChoiceError without the stage "inductor".
        """
        __tracebackhide__ = True
        if self._patterns is None:
            raise ChoiceError(f"no stage of {self!r} runs Inductor's patterns; add the stage 'inductor'")
        return check_fired(self._patterns, name, times)

    def history(self, name: str) -> list[str]:
        """Describe a node of the last graph, stage by stage, the last one first.

        Raises GateError if there is no such node.
        """
        nodes = tuple(node for node in self._stages[-1].nodes if node.name == name)
        if not nodes:
            known = ", ".join(node.name for node in self._stages[-1].nodes)
            raise GateError(f"the last stage has no node {name!r} that computes; it has {known}")
        lines = []
        for stage in reversed(self._stages):
            told = ", ".join(map(str, nodes))
            change = nodes[0].change if stage is not self._stages[0] else "traced"
            by = f" by rule {nodes[0].rule}" if nodes[0].rule not in (None, stage.name) else ""
            moved = f", {nodes[0].moved}" if nodes[0].moved else ""
            lines.append(f"{stage.name}: {told}, {change}{by}{moved}{_place(nodes[0])}")
            nodes = nodes[0].made_from
            if not nodes:
                break
        return lines

    def text(self) -> str:
        """Describe all stages."""
        return "\n".join(line for place, stage in enumerate(self._stages) for line in stage.lines(is_first=not place))

    def __repr__(self) -> str:
        return f"<stages: {' -> '.join(stage.name for stage in self._stages)}>"

    def _maker(self, node: StageNode) -> str:
        place = -1
        while node.change == "kept":
            (node,) = node.made_from
            place -= 1
        return node.rule or self._stages[place].name


def _place(node: StageNode) -> str:
    parts = [part for part in (f"in {node.scope}" if node.scope else "", node.source) if part]
    return f"; {'; '.join(parts)}" if parts else ""


class FxStages:
    """Follows a model through the stages of its lowering: the fixture `fx_stages`."""

    def __init__(self, tell: Callable[[StageStrip], None] | None = None) -> None:
        """Take the function that receives every lowering for reports."""
        self._tell = tell

    def __call__(
        self,
        model: Any,
        inputs: object = None,
        stages: Sequence[StageStep] = ("export", DECOMPOSE),
        *,
        kwargs: Mapping[str, Any] | None = None,
        dynamic_shapes: Any = None,
    ) -> Stages:
        """Return the graphs of all stages, each with its changes against the stage before.

        A stage is a frontend ("symbolic", "dynamo", "export", "aot", "make_fx"): it captures the model anew. Or it is
        "decompose": torch's decompositions to core operators run on the program of "export". Or it is a pass: it
        gets a copy of the graph and changes it or returns another. A `RuleSet` gives a stage for each of its first 40
        rewrites, named after the rule. Raises ChoiceError for another word, CaptureError if
        a frontend fails or makes several graphs, and every error of a pass.
        """
        __tracebackhide__ = True
        if not stages:
            raise ChoiceError(
                f"stages=() follows nothing; name {', '.join(map(repr, (*FRONTENDS, DECOMPOSE)))} or passes"
            )
        lowering = _Lowering()
        program: Any = None
        patterns: list[PatternUse] | None = None
        for step in stages:
            if isinstance(step, str) and step in FRONTENDS:
                shapes = dynamic_shapes if step in ("export", "dynamo", "aot", "inductor") else None
                capture: Any = captured(CaptureRequest.of(model, inputs, kwargs, step, dynamic_shapes=shapes))
                graph, program = _only_graph(capture), capture.program
                if step == "inductor":
                    patterns = [*(patterns or ()), *capture.patterns]
                    for each in capture.steps:
                        lowering.add(each.title, each.graph)
                else:
                    lowering.add(step, graph)
            elif step == DECOMPOSE:
                program = _decomposed(program)
                lowering.add(step, to_graph_module(program))
            elif isinstance(step, RuleSet):
                lowering.rewrite(step)
                program = None
            elif callable(step):
                lowering.add(_name_of(step), _passed(step, lowering.given()))
                program = None
            else:
                known = ", ".join(map(repr, (*FRONTENDS, DECOMPOSE)))
                raise ChoiceError(f"there is no stage {step!r}; a stage is one of {known}, or a pass that is called")
        stages_made = Stages(lowering.made, patterns)
        if self._tell is not None:
            self._tell(strip_of(stages_made, stages_made.text()))
        return stages_made


def _only_graph(capture: Capture) -> fxcore.GraphModule:
    if len(capture.graphs) != 1:
        capture.assert_whole()
        raise CaptureError(f"{capture!r} has several graphs, and stages follow one")
    return capture.graphs[0]


def _decomposed(program: Any) -> Any:
    if program is None:
        raise ChoiceError("stage 'decompose' runs torch's decompositions of an exported program: put it after 'export'")
    return program.run_decompositions(dict(core_decompositions()))


class _Lowering:
    """The stages that were made so far."""

    def __init__(self) -> None:
        self.made: list[Stage] = []
        self._last: dict[fxcore.Node, StageNode] = {}  # the nodes of the last stage

    def add(self, name: str, graph: fxcore.GraphModule, rewrites: Iterable[Rewrite] = ()) -> None:
        """Add a stage. Its nodes come from those of the last stage, some by rewrites."""
        makers = {call.name: each for each in rewrites for call in each.after}
        records = {record.name: record for record in build_document(graph, constants="shape").nodes}
        modules = dict(graph.named_modules())
        nodes, last = _computing_nodes(graph), self._last
        sources = _sources_of([*last], nodes, makers) if self.made else {}
        moves = _moves_of_collectives([*last], nodes, sources)
        made = {}
        for node in nodes:
            record = records[node.name]
            operator = type(modules[record.target]).__name__ if node.op == "call_module" else record.target
            made_from = tuple(last[source] for source in sources.get(node, ()))
            rule = makers[node.name].rule if node.name in makers else None
            moved = moves.get(node, "")
            made[node] = StageNode(node.name, operator, made_from, record.scope, record.source, rule, moved)
        used = {source for found in sources.values() for source in found}
        removed = tuple(stage_node for node, stage_node in last.items() if node not in used)
        self.made.append(Stage(printable_line(name), graph, tuple(made.values()), removed))
        self._last = made

    def given(self) -> fxcore.GraphModule:
        """Return a copy of the last graph for a pass."""
        if not self.made:
            raise ChoiceError("the first stage is a pass, which has no graph to work on; begin with a frontend")
        return copy.deepcopy(self.made[-1].graph)

    def rewrite(self, rules: RuleSet) -> None:
        """Add a stage for each of the first rewrites of a rule set, named after its rule, and one for the rest."""
        given, first = self.given(), len(self.made)
        held: list[Rewrite] = []  # rewrites without a stage

        def add(name: str) -> None:
            self.add(name, fxcore.GraphModule(given, copy.deepcopy(given.graph)), held)
            held.clear()

        def watch(rewrite: Rewrite) -> None:
            held.append(rewrite)
            if len(self.made) - first < _MOST_REWRITES:
                add(rewrite.rule)

        rules.apply(given, watch)
        if held or len(self.made) == first:
            add(f"{len(held)} more rewrites" if held else _name_of(rules))


def _passed(step: Callable[[Any], Any], given: fxcore.GraphModule) -> fxcore.GraphModule:
    returned = step(given)
    result = given if returned is None else getattr(returned, "graph_module", returned)
    return to_graph_module(result)


def _name_of(step: Callable[[Any], Any]) -> str:
    return str(getattr(step, "__name__", type(step).__name__))


# From one stage to the next.


def _computing_nodes(graph_module: fxcore.GraphModule) -> list[fxcore.Node]:
    """Return the nodes that compute, in order, without picking an item of a tuple."""
    return [
        node
        for node in graph_module.graph.nodes
        if node.op in _COMPUTING and getattr(node.target, "__name__", "") != "getitem"
    ]


def _sources_of(
    before: Sequence[fxcore.Node], after: Sequence[fxcore.Node], makers: Mapping[str, Rewrite]
) -> dict[fxcore.Node, list[fxcore.Node]]:
    """Map each node to its sources in the stage before; an empty list for a node without evidence.

    The evidence, in this order: the rewrite in `makers` that made the node; a node of the same name and target;
    `from_node`, written by torch's passes and decompositions; `debug_handle`; the user's module and line; the module
    alone.
    """
    origins = Origins(sources=True)
    by_name = {node.name: node for node in before}
    by_origin: dict[Any, list[fxcore.Node]] = defaultdict(list)
    for node in before:
        for key in _marks(node, origins):
            by_origin[key].append(node)
    found: dict[fxcore.Node, list[fxcore.Node]] = {}
    for node in after:
        same = by_name.get(node.name)
        if same is not None and same.target == node.target:
            found[node] = [same]
            continue
        if node.name in makers:
            found[node] = [by_name[call.name] for call in makers[node.name].before if call.name in by_name]
            continue
        named = [by_name[name] for name in _made_from(node) if name in by_name]
        marked = (by_origin[key] for key in _marks(node, origins) if key in by_origin)
        found[node] = named[:1] or next(marked, [])
    _follow_buckets(before, found)
    return found


def _follow_buckets(before: Sequence[fxcore.Node], found: dict[fxcore.Node, list[fxcore.Node]]) -> None:
    """Add the lost collectives that a bucket holds, as many as its bytes allow, and the waits for them.

    A pass that makes a bucket names one of its sources at most.
    """
    used = {source for sources in found.values() for source in sources}
    lost = [node for node in before if node not in used and (kind_of(node) is not None or is_wait(node))]
    for node, sources in found.items() if lost else ():
        if is_wait(node):
            of_bucket = found.get(node.all_input_nodes[0], [])
            held = [each for each in lost if is_wait(each) and each.all_input_nodes[0] in of_bucket]
        elif kind_of(node) is not None:
            held = _held(node, [each for each in lost if _about(each) == _about(node)], sources)
        else:
            continue
        found[node] = [*sources, *held]
        lost = [each for each in lost if each not in held]


def _held(bucket: fxcore.Node, lost: Sequence[fxcore.Node], sources: Sequence[fxcore.Node]) -> list[fxcore.Node]:
    room = _message(bucket) - sum(map(_message, sources))
    held = []
    for each in lost:
        room -= _message(each)
        if room < 0:
            break
        held.append(each)
    return held


def _about(node: fxcore.Node) -> tuple[str | None, str]:
    kind = kind_of(node)
    return kind, "" if kind is None else str(group_argument(node))


def _message(node: fxcore.Node) -> int:
    return max([bytes_of(tensors_of(each)) for each in (node, *node.all_input_nodes)])


def _moves_of_collectives(
    before: Sequence[fxcore.Node], after: Sequence[fxcore.Node], sources: Mapping[fxcore.Node, Sequence[fxcore.Node]]
) -> dict[fxcore.Node, str]:
    """Say of each collective, and of each wait for one, which other nodes it passed on its way to its place."""
    places = {node: place for place, node in enumerate(before)}
    followed = [node for node in after if len(sources.get(node, ())) == 1]
    old = [places[sources[node][0]] for node in followed]
    moves = {}
    for place, node in enumerate(followed):
        if kind_of(node) is None and not is_wait(node):
            continue
        passed = [each for each, other in zip(followed[place:], old[place:], strict=True) if other < old[place]]
        waited = [each for each, other in zip(followed[:place], old[:place], strict=True) if other > old[place]]
        told = [f"earlier, before {each.name}" for each in passed[:1]]
        told += [f"later, behind {each.name}" for each in waited[-1:]]
        if told:
            moves[node] = " and ".join(told)
    return moves


def _made_from(node: fxcore.Node) -> Iterator[str]:
    """Yield the names of the node's sources in torch's `from_node`, the nearest first."""
    sources = [*(node.meta.get("from_node") or ())]
    while sources:
        source = sources.pop(0)
        # A pair in older releases of torch; later an object with its own sources.
        name = source[0] if isinstance(source, tuple) else getattr(source, "name", "")
        if name:
            yield str(name)
        sources = [*(getattr(source, "from_node", None) or ()), *sources]


def _marks(node: fxcore.Node, origins: Origins) -> Iterator[tuple[str, Any]]:
    """Yield the marks that nodes with one source have in common, the surest first."""
    handle = node.meta.get("debug_handle")
    if handle:
        yield "debug_handle", handle
    for name in _made_from(node):
        yield "from_node", name
    # A node inside a module may come from a single call of the whole module.
    path = str(node.target) if node.op == "call_module" else origins.scope(node)
    line = origins.source(node)
    if line is not None:
        yield "line", (path, line)
    if path:
        yield "module", path


def strip_of(stages: Sequence[Stage], text: str, nodeid: str = "") -> StageStrip:
    """Return stages as plain data for a report; a node's sources are their places in the stage before."""
    places: dict[int, int] = {}
    found = []
    for number, stage in enumerate(stages):
        nodes = []
        for node in stage.nodes:
            change = node.change if number else "traced"
            made_from = tuple(places[id(each)] for each in node.made_from if id(each) in places)
            nodes.append(StripNode(node.name, node.operator, change, made_from, node.scope or "", node.source or ""))
        removed = tuple(places[id(node)] for node in stage.removed if id(node) in places)
        found.append(StripStage(stage.name, tuple(nodes), removed))
        places = {id(node): place for place, node in enumerate(stage.nodes)}
    return StageStrip(nodeid, tuple(found), text)
