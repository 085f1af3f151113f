"""A graph as people read it: its nodes, modules and state as lines, with blocks that repeat shown once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from typing import TypeVar

from pytest_fxgraph.document.literals import references, rename_references
from pytest_fxgraph.document.model import GraphDocument, ModuleRecord, NodeRecord, StateRecord
from pytest_fxgraph.report.context import node_line
from pytest_fxgraph.report.numbered_paths import format_paths, pattern_of
from pytest_fxgraph.report.repetition import Entry, Repetition, repetitions

_Record = TypeVar("_Record", NodeRecord, ModuleRecord, StateRecord)


def document_lines(document: GraphDocument, *, folds: bool = True) -> Iterator[str]:
    """Yield the lines of a document; with `folds`, one for all blocks that repeat, below a line with their paths."""
    yield from _folded(document.nodes, repeated_nodes(document) if folds else [], _scoped_lines)
    modules, state = document.modules, document.state
    module_lines = partial(_module_lines, folds=folds)
    yield from _titled("modules", _folded(modules, repeated_modules(modules) if folds else [], module_lines))
    yield from _titled("state", _folded(state, repeated_state(state) if folds else [], _state_lines))
    yield from _titled("notes", iter(document.notes))


def _folded(
    records: Sequence[_Record],
    repeated: Sequence[Repetition],
    lines_of: Callable[[Sequence[_Record]], Iterator[str]],
) -> Iterator[str]:
    position = 0
    for block in repeated:
        yield from lines_of(records[position : block.start])
        yield f"block x{len(block.blocks)}: {format_paths(block.blocks)}"
        yield from _indented(lines_of(records[block.start : block.start + block.length]))
        position = block.end
    yield from lines_of(records[position:])


def _scoped_lines(nodes: Sequence[NodeRecord]) -> Iterator[str]:
    scope: str | None = None
    for node in nodes:
        if node.scope and node.scope != scope:
            yield f"in {node.scope}"
        elif scope and not node.scope and node.op != "output":  # which is in no module
            yield f"end of {scope}"
        scope = node.scope
        yield f"  {node_line(node)}"


def _module_lines(modules: Sequence[ModuleRecord], *, folds: bool) -> Iterator[str]:
    for module in modules:
        config = ", ".join(f"{name}={text}" for name, text in module.config)
        training = "" if module.training is None else f", {'training' if module.training else 'evaluating'}"
        shared = f", the same object as {module.same_as}" if module.same_as else ""
        yield f"{module.path}: {module.kind}({config}){training}{shared}"
        if module.graph is not None:
            yield from _indented(document_lines(module.graph, folds=folds))


def _state_lines(state: Sequence[StateRecord]) -> Iterator[str]:
    for record in state:
        grad = ", requires grad" if record.requires_grad else ""
        shared = f", the same object as {record.same_as}" if record.same_as else ""
        content = f" = {record.content}" if record.content is not None else ""
        persistent = "" if record.persistent else ", not in the state dict"
        yield f"{record.path}: {record.kind} {record.value}{content}{grad}{persistent}{shared}"


def _indented(lines: Iterator[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)


def _titled(title: str, lines: Iterator[str]) -> Iterator[str]:
    for number, line in enumerate(lines):
        if not number:
            yield title
        yield f"  {line}"


def repeated_nodes(document: GraphDocument) -> list[Repetition]:
    """Find blocks of nodes that are alike but for where they are; inputs and output are in none.

    Nodes are alike if they do the same with the same literals and call modules, or read tensors, that are alike.
    """
    modules = {module.path: _module_token(module) for module in document.modules}
    state = {record.path: _state_token(record) for record in document.state}
    positions = {node.name: position for position, node in enumerate(document.nodes)}
    entries = []
    for node in document.nodes:
        texts = [*node.args, *(text for _, text in node.kwargs), *node.effects]
        bare = tuple(rename_references(text, dict.fromkeys(references(text), "")) for text in texts)
        keywords = tuple(keyword for keyword, _ in node.kwargs)
        token: Hashable = (node.op, len(node.args), keywords, bare, node.value)
        path, name = node_path(node), node.target
        if node.op in ("call_module", "get_attr"):
            token = token, modules.get(node.target), state.get(node.target)
            if node.op == "get_attr" and not node.scope and "." not in name:  # tracing gave it a number of its own
                token, path, name = (token, pattern_of(name)), "", ""
        elif node.op != "placeholder":
            token, name = (token, name), ""
        reads = tuple(positions[name] for text in texts for name in references(text))
        entries.append(Entry(path, token, name, reads, is_input=node.op == "placeholder"))
    return repetitions(entries)


def node_path(node: NodeRecord) -> str:
    """Return the path of the module that made a node, else that it leads to; empty if neither is known."""
    return node.scope or (node.target if node.op in ("call_module", "get_attr") else "")


def repeated_modules(modules: Sequence[ModuleRecord]) -> list[Repetition]:
    """Find blocks of modules of one configuration whose paths count up."""
    return repetitions([Entry(each.path, _module_token(each), each.same_as or "") for each in modules])


def repeated_state(state: Sequence[StateRecord]) -> list[Repetition]:
    """Find blocks of parameters, buffers and constants that are alike and whose paths count up."""
    return repetitions([Entry(each.path, _state_token(each), each.same_as or "") for each in state])


def _module_token(module: ModuleRecord) -> Hashable:
    return module.kind, module.config, module.training, module.graph


def _state_token(record: StateRecord) -> Hashable:
    return record.kind, record.value, record.requires_grad, record.persistent, record.content
