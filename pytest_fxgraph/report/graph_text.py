"""Blocks that a document repeats: layer after layer of the same nodes, the same modules, the same state."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from pytest_fxgraph.document.literals import references, rename_references
from pytest_fxgraph.document.model import GraphDocument, ModuleRecord, NodeRecord, StateRecord
from pytest_fxgraph.report.context import node_line
from pytest_fxgraph.report.folding import blocks_of, numbered_prefixes, pattern_of, place_ranges, steps_between
from pytest_fxgraph.report.repetition import MayStart, Repetition, repetitions

_IS_PATH = ("call_module", "get_attr")
_KEPT = ("placeholder", "output")
_Step = tuple[tuple[int, ...], tuple[int, ...], tuple[str, ...]]  # of target, of scope, of what is read


def repeated_nodes(document: GraphDocument) -> list[Repetition]:
    """Find blocks of nodes that are alike but for where they are; inputs and output are in none.

    Nodes of two blocks are alike if they do the same with the same literals, read what stands as far before them or
    the very same value, and call modules of one configuration whose paths count up.
    """
    nodes = _Nodes(document)
    may_start = _begins_in_another_place([node_path(node) for node in document.nodes])
    return repetitions([nodes.token(place) for place in range(len(document.nodes))], nodes.steps, may_start)


def node_path(node: NodeRecord) -> str:
    """Say where in the model a node is: what it was made in, else what it leads to; nothing, if neither is known."""
    return node.scope or (node.target if node.op in _IS_PATH else "")


def repeated_modules(modules: Sequence[ModuleRecord]) -> list[Repetition]:
    """Find blocks of modules of one configuration whose paths count up."""
    tokens = [(pattern_of(each.path), _module_token(each)) for each in modules]
    may_start = _begins_in_another_place([each.path for each in modules])
    return repetitions(tokens, _RecordSteps(modules), may_start)


def repeated_state(state: Sequence[StateRecord]) -> list[Repetition]:
    """Find blocks of parameters, buffers and constants that are alike and whose paths count up."""
    tokens = [(pattern_of(each.path), _state_token(each)) for each in state]
    may_start = _begins_in_another_place([each.path for each in state])
    return repetitions(tokens, _RecordSteps(state), may_start)


def _begins_in_another_place(paths: Sequence[str]) -> MayStart:
    """Let blocks begin where a layer begins, not in the middle of one."""
    prefixes = [tuple(numbered_prefixes(path)) for path in paths]

    def may_start(start: int, length: int) -> bool:
        pairs = enumerate(zip(prefixes[start], prefixes[start + length], strict=False))
        depth = next((depth for depth, (one, other) in pairs if one != other), None)
        return depth is None or (begins(start, depth) and begins(start + length, depth))

    def begins(place: int, depth: int) -> bool:
        before = prefixes[place - 1] if place else ()
        return len(before) <= depth or before[depth] != prefixes[place][depth]

    return may_start


def _module_token(module: ModuleRecord) -> Hashable:
    return module.kind, module.config, module.training, module.graph, module.same_as is None


def _state_token(record: StateRecord) -> Hashable:
    is_shared = record.same_as is not None
    return record.kind, record.value, record.requires_grad, record.persistent, record.content, is_shared


@dataclass(frozen=True)
class _RecordSteps:
    """Asks by how much the paths of modules or state count up from one block to the next."""

    records: Sequence[ModuleRecord] | Sequence[StateRecord]

    def __call__(self, start: int, block: int, length: int) -> Hashable | None:
        found = []
        for place in range(block, block + length):
            one, other = self.records[place], self.records[place + length]
            path = steps_between(one.path, other.path)
            shared = steps_between(one.same_as or "", other.same_as or "")
            if path is None or shared is None:
                return None
            found.append((path, shared))
        # Layer 2 comes after layer 1 for all that is in it.
        return tuple(found) if _count_alike(path for path, _ in found) else None


def _count_alike(steps: Iterable[tuple[int, ...]]) -> bool:
    """Tell whether numbered paths of one block all go up by as much, in one number each."""
    return len({tuple(step for step in path if step) for path in steps if any(path)}) <= 1


class _Nodes:
    """The nodes of a document, with what is asked of them again and again."""

    def __init__(self, document: GraphDocument) -> None:
        self._nodes = document.nodes
        self._modules: Mapping[str, ModuleRecord] = {module.path: module for module in document.modules}
        self._state: Mapping[str, StateRecord] = {record.path: record for record in document.state}
        self._places = {node.name: place for place, node in enumerate(document.nodes)}
        self._references = [references(" ".join(_texts(node))) for node in document.nodes]

    def token(self, place: int) -> Hashable:
        """Give what nodes that are alike have in common."""
        node = self._nodes[place]
        if node.op in _KEPT:
            return place
        texts = [rename_references(text, dict.fromkeys(references(text), "")) for text in _texts(node)]
        target = pattern_of(node.target) if node.op in _IS_PATH else node.target
        keywords = tuple(keyword for keyword, _ in node.kwargs)
        about = self._about(node)
        return node.op, target, len(node.args), keywords, *texts, node.value, pattern_of(node.scope or ""), about

    def steps(self, start: int, block: int, length: int) -> Hashable | None:
        """Tell how the nodes of the next block differ from those of a block; None if not only by where they are."""
        found = []
        for place in range(block, block + length):
            step = self._step(start, place, place + length)
            if step is None:
                return None
            found.append(step)
        paths = [path for target, scope, _ in found for path in (target, scope)]
        return tuple(found) if _count_alike(paths) else None

    def _step(self, start: int, place: int, other: int) -> _Step | None:
        node, following = self._nodes[place], self._nodes[other]
        target = steps_between(node.target, following.target) if node.op in _IS_PATH else ()
        scope = steps_between(node.scope or "", following.scope or "")
        if target is None or scope is None:
            return None
        wires = []
        for read, other_read in zip(self._references[place], self._references[other], strict=True):
            wire = self._wire(start, other - place, read, other_read)
            if wire is None:
                return None
            wires.append(wire)
        is_counted = node.op == "get_attr" and not node.scope  # what tracing named may count as it likes
        return ((), scope, (*wires, str(target))) if is_counted else (target, scope, tuple(wires))

    def _wire(self, start: int, length: int, read: str, other: str) -> str | None:
        """Tell how what a node reads follows from what its like in the block before reads."""
        place, other_place = self._places[read], self._places[other]
        if other_place - place == length:
            return "as far before"
        if other_place >= start:
            return None  # within the blocks, only that would be the same
        return "the same" if read == other else self._numbers_of_inputs(read, other)

    def _about(self, node: NodeRecord) -> Hashable:
        """Describe what a path leads to: a module, which get_attr reads where it is an operator's graph, or state."""
        if node.op not in _IS_PATH:
            return None
        module = self._modules.get(node.target)
        record = self._state.get(node.target)
        return module and _module_token(module), record and _state_token(record)

    def _numbers_of_inputs(self, one: str, other: str) -> str | None:
        """Tell how inputs count up: torch.export gives each layer's parameters to the graph as inputs of their own."""
        for name in (one, other):
            if self._nodes[self._places[name]].op != "placeholder":
                return None
        first, second = self._nodes[self._places[one]], self._nodes[self._places[other]]
        steps = steps_between(one, other) if first.value == second.value else None
        return None if steps is None else str(steps)


def _texts(node: NodeRecord) -> list[str]:
    return [*node.args, *(text for _, text in node.kwargs), *node.effects]


def document_lines(document: GraphDocument, *, folds: bool = True) -> Iterator[str]:
    """Give the lines of a document; with `folds`, of blocks that repeat the first, below a line that counts them."""
    yield from _node_lines(document.nodes, repeated_nodes(document) if folds else [])
    modules, state = document.modules, document.state
    module_lines = partial(_module_lines, folds=folds)
    yield from _titled("modules", _record_lines(modules, repeated_modules(modules) if folds else [], module_lines))
    yield from _titled("state", _record_lines(state, repeated_state(state) if folds else [], _state_lines))
    yield from _titled("notes", document.notes)


def _node_lines(nodes: Sequence[NodeRecord], repeated: Sequence[Repetition]) -> Iterator[str]:
    place = 0
    for block in repeated:
        yield from _scoped_lines(nodes[place : block.start])
        scopes = [[node_path(node) for node in nodes[start : start + block.length]] for start in block.starts()]
        yield _heading(block, [_common_path(paths) for paths in scopes])
        yield from _indented(_scoped_lines(nodes[block.start : block.start + block.length]))
        place = block.end
    yield from _scoped_lines(nodes[place:])


def _scoped_lines(nodes: Sequence[NodeRecord]) -> Iterator[str]:
    scope: str | None = None
    for node in nodes:
        if node.scope and node.scope != scope:
            yield f"in {node.scope}"
        scope = node.scope
        yield f"  {node_line(node)}"


def _record_lines(
    records: Sequence[ModuleRecord] | Sequence[StateRecord],
    repeated: Sequence[Repetition],
    lines_of: Callable[..., Iterator[str]],
) -> Iterator[str]:
    place = 0
    for block in repeated:
        for record in records[place : block.start]:
            yield from lines_of(record)
        starts = [records[start : start + block.length] for start in block.starts()]
        yield _heading(block, [_common_path([record.path for record in start]) for start in starts])
        for record in records[block.start : block.start + block.length]:
            yield from _indented(lines_of(record))
        place = block.end
    for record in records[place:]:
        yield from lines_of(record)


def _heading(block: Repetition, paths: Sequence[str]) -> str:
    blocks = blocks_of(paths) or (paths if len(set(paths)) == len(paths) else ())
    return f"block x{block.count}{': ' if blocks else ''}{place_ranges(blocks)}"


def _common_path(paths: Sequence[str]) -> str:
    """Give the part of module paths that they all begin with; paths that are not known do not count."""
    parts = [path.split(".") for path in paths if path]
    common = [same[0] for same in _while_equal(zip(*parts, strict=False))]
    return ".".join(common)


def _while_equal(levels: Iterator[tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    for level in levels:
        if len(set(level)) > 1:
            return
        yield level


def _indented(lines: Iterator[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)


def _titled(title: str, lines: Sequence[str] | Iterator[str]) -> Iterator[str]:
    for number, line in enumerate(lines):
        if not number:
            yield title
        yield f"  {line}"


def _module_lines(module: ModuleRecord, *, folds: bool) -> Iterator[str]:
    config = ", ".join(f"{name}={text}" for name, text in module.config)
    training = "" if module.training is None else f", {'training' if module.training else 'evaluating'}"
    shared = f", the same object as {module.same_as}" if module.same_as else ""
    yield f"{module.path}: {module.kind}({config}){training}{shared}"
    if module.graph is not None:
        yield from _indented(document_lines(module.graph, folds=folds))


def _state_lines(record: StateRecord) -> Iterator[str]:
    grad = ", requires grad" if record.requires_grad else ""
    shared = f", the same object as {record.same_as}" if record.same_as else ""
    content = f" = {record.content}" if record.content is not None else ""
    persistent = "" if record.persistent else ", not in the state dict"
    yield f"{record.path}: {record.kind} {record.value}{content}{grad}{persistent}{shared}"
