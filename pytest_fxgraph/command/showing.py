"""`fxgraph show`: a golden as people read it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from pytest_fxgraph.command.golden_files import golden_place
from pytest_fxgraph.command.status import SAME
from pytest_fxgraph.document.graph_document import GraphDocument, ModuleRecord, StateRecord
from pytest_fxgraph.report.surroundings import node_line


def add_show(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("show", help="print goldens as people read them")
    parser.add_argument("--code", action="store_true", help="print the generated code instead of the nodes")
    parser.add_argument("goldens", metavar="G", nargs="+", help="a golden file, a folder, or either at a git revision")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    for line in show(options.goldens, code=options.code):
        print(line)
    return SAME


def show(names: list[str], *, code: bool) -> Iterator[str]:
    """Give the lines that show goldens, one after the other, those of a folder by their paths in it."""
    places = [golden_place(name) for name in names]
    is_one = sum(len(place.files) for place in places) == 1
    for place in places:
        for name, file in place.files.items():
            document = file.document()
            if not is_one:
                yield f"== {name if len(places) == 1 else file.name}"
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
