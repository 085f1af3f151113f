"""The facts that a golden of one level holds."""

from __future__ import annotations

from dataclasses import replace

from pytest_fxgraph.document.model import GraphDocument

# Beginnings of the notes that a level compares, and of the note that names one of several programs.
_NOTES = {
    "cost": ("program: ",),
    "breaks": ("program: ", "frontend: ", "break: ", "recompile: ", "skipped: ", "fallback: "),
}


def recorded_at(document: GraphDocument, level: str) -> GraphDocument:
    """Return the facts that a golden of this level holds: costs alone, breaks alone, or the whole document."""
    beginnings = _NOTES.get(level)
    if beginnings is None:
        return document
    notes = tuple([note for note in document.notes if note.startswith(beginnings)])
    return replace(document, nodes=(), modules=(), state=(), code="", symbols=(), notes=notes)


def without_code(document: GraphDocument) -> GraphDocument:
    """Return a document without its code and the code of graphs inside it."""
    modules = [
        module if module.graph is None else module._replace(graph=without_code(module.graph))
        for module in document.modules
    ]
    return replace(document, code="", modules=tuple(modules))
