"""`fxgraph show`: a golden as people read it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pytest_fxgraph.command.golden_files import golden_paths, read_golden
from pytest_fxgraph.document.graph_document import GraphDocument, ModuleRecord, StateRecord
from pytest_fxgraph.report.surroundings import node_line


def show(path: Path, *, code: bool) -> Iterator[str]:
    """Give the lines that show a golden, or all goldens of a folder one after the other."""
    paths = golden_paths(path)
    for name, file in paths.items():
        document = read_golden(file)
        if len(paths) > 1:
            yield f"== {name}"
        yield from document.code.rstrip("\n").split("\n") if code else document_lines(document)


def document_lines(document: GraphDocument) -> Iterator[str]:
    """Give the nodes of a document a line each, then its modules, state and notes."""
    scope: str | None = None
    for node in document.nodes:
        if node.scope and node.scope != scope:
            yield f"in {node.scope}"
        scope = node.scope
        yield f"  {node_line(node)}"
    yield from _titled("modules", [_module_line(module) for module in document.modules])
    yield from _titled("state", [_state_line(record) for record in document.state])
    yield from _titled("notes", list(document.notes))


def _titled(title: str, lines: list[str]) -> Iterator[str]:
    if lines:
        yield title
        yield from (f"  {line}" for line in lines)


def _module_line(module: ModuleRecord) -> str:
    config = ", ".join(f"{name}={text}" for name, text in module.config)
    training = "" if module.training is None else f", {'training' if module.training else 'evaluating'}"
    shared = f", the same object as {module.same_as}" if module.same_as else ""
    return f"{module.path}: {module.kind}({config}){training}{shared}"


def _state_line(record: StateRecord) -> str:
    grad = ", requires grad" if record.requires_grad else ""
    shared = f", the same object as {record.same_as}" if record.same_as else ""
    return f"{record.path}: {record.kind} {record.value}{grad}{shared}"
