"""A document as people read it: a node a line, then modules, state and notes; repeated blocks once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from pytest_fxgraph.document.graph_document import GraphDocument, ModuleRecord, NodeRecord, StateRecord
from pytest_fxgraph.report.document_blocks import node_path, repeated_modules, repeated_nodes, repeated_state
from pytest_fxgraph.report.folding import blocks_of
from pytest_fxgraph.report.place_ranges import place_ranges
from pytest_fxgraph.report.repetition import Repetition
from pytest_fxgraph.report.surroundings import node_line


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
