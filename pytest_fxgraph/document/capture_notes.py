"""The notes in which a document holds what a frontend told beside the graphs: breaks, recompiles, guards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_fxgraph.document.model import GraphDocument, ModuleRecord, graphs_of, texts_of, with_inner_graphs
from pytest_fxgraph.document.symbol_names import WORD, rename_symbols, rename_symbols_of_note
from pytest_fxgraph.errors import CaptureError, LevelError

NOTES = "fxgraph_capture_notes"  # key in the meta of a graph module that was made of a capture
PLACES_OF_NOTES = "fxgraph_places_of_notes"  # key in the same meta: the line of the user's code by note
FRONTEND = "frontend"
# Kinds of the notes that a golden of ranks has.
WORLD, RANKS, PLACEMENT, CONSTANT = "world", "ranks", "placement", "constant of the rank"
KERNEL = "kernel"
_MISSING = f"{KERNEL}: missing, because "
PLAN_KINDS = (WORLD, RANKS, PLACEMENT, CONSTANT)
# What begins a note, in the order in which they stand, with what messages call it.
NOUNS: Mapping[str, str] = {
    FRONTEND: "frontend",
    WORLD: "size of the world",
    RANKS: "group of equal ranks",
    PLACEMENT: "placement",
    CONSTANT: "constant of the rank",
    "break": "graph break",
    "recompile": "recompile",
    "skipped": "function left to Python",
    "fallback": "function compiled too often",
    "guard": "guard",
    KERNEL: "kernel",
}
_STARTS = tuple(f"{kind}: " for kind in NOUNS)


def finding_in_words(kind: str, remark: str, *, is_added: bool) -> str:
    """Tell a break, recompile or guard that came or went. Fewer breaks are called better, unless a remark explains."""
    if is_added:
        return f"one {NOUNS[kind]} more"
    better = "" if kind in ("guard", KERNEL, FRONTEND, *PLAN_KINDS) else ", which is better: accept it"
    return f"one {NOUNS[kind]} fewer{f' ({remark})' if better and remark else better}"


def capture_notes(module: Any) -> tuple[str, ...]:
    """Return the notes that a capture left on a graph module."""
    return tuple(meta_of(module).get(NOTES, ()))


def places_of_notes(module: Any) -> Mapping[str, str]:
    """Return the lines of the user's code that a capture's notes are about, by note."""
    return dict(meta_of(module).get(PLACES_OF_NOTES, {}))


def meta_of(module: Any) -> dict[str, Any]:
    """Return what torch and captures noted on a graph module; a user's model may have other things in `meta`."""
    meta = getattr(module, "meta", None)
    return meta if isinstance(meta, dict) else {}


def graphs_of_capture(module: Any) -> dict[str, Any]:
    """Return the graphs of a graph module that was made of a capture of several, by name; none for any other."""
    if not any(note.startswith(f"{FRONTEND}: ") for note in capture_notes(module)):
        return {}
    return dict(module.named_children())


def is_capture_note(note: str) -> bool:
    """Tell whether a note is one that a capture left."""
    return note.startswith(_STARTS)


def is_of_capture(document: GraphDocument) -> bool:
    """Tell whether a document holds a capture of several graphs."""
    return any(note.startswith(f"{FRONTEND}: ") for note in document.notes)


def refuse_without_breaks(document: GraphDocument) -> None:
    """Raise LevelError for a graph that Dynamo did not capture: level `breaks` says nothing about it."""
    if not is_of_capture(document):
        raise LevelError(
            "level 'breaks' compares what Dynamo told of a capture, and this is a graph: "
            'hand over fx_capture(model, inputs), or fx_golden(frontend="dynamo", example_inputs=...)'
        )


def refuse_without_kernels(document: GraphDocument) -> None:
    """Raise LevelError for a graph that Inductor did not compile, and CaptureError if it generated no kernels."""
    if f"{FRONTEND}: inductor" not in document.notes:
        raise LevelError(
            "level 'kernels' compares the kernels that Inductor makes, and this subject has none: hand over "
            'fx_capture(model, inputs, frontend="inductor"), or fx_golden(frontend="inductor", example_inputs=...)'
        )
    for note in document.notes:
        if note.startswith(_MISSING):
            raise CaptureError(f"level 'kernels' has no kernels to compare: {note.removeprefix(_MISSING)}")


def kernel_notes(texts: Sequence[str], missing: Sequence[str]) -> list[str]:
    """Return the notes of kernels, equal ones once with their number, and the reasons of missing ones."""
    notes = [f"{KERNEL}: {text}{f'; x{times}' if times > 1 else ''}" for text, times in Counter(texts).items()]
    return [*notes, *(f"{_MISSING}{reason}" for reason in missing)]


def kernels_and_counts(notes: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Yield the text of each kernel in a document's notes with the number of equal kernels."""
    for note in notes:
        if note.startswith(f"{KERNEL}: "):
            text, _, times = note.removeprefix(f"{KERNEL}: ").rpartition("; x")
            yield (text, int(times)) if text and times.isdecimal() else (note.removeprefix(f"{KERNEL}: "), 1)


def key_of_refusal(first: str, second: str) -> str:
    """Return the key in `GraphDocument.places` of Inductor's reason to keep two kernels apart."""
    return f"refused: {first} | {second}"


def without_kernels(document: GraphDocument) -> GraphDocument:
    """Return a document without its kernels, which level `kernels` alone records and compares."""
    notes = tuple([note for note in document.notes if not note.startswith(f"{KERNEL}: ")])
    return document if notes == document.notes else replace(document, notes=notes)


def canonical_symbols(document: GraphDocument) -> GraphDocument:
    """Number the symbols of a capture's graphs by their first use, each graph's after those of the one before it.

    torch gives one symbol to sizes of several graphs that have nothing in common.
    """
    if not is_of_capture(document):
        return document
    counts: Counter[str] = Counter()
    modules: list[ModuleRecord] = []
    symbols: list[str] = []
    for record in document.modules:
        if record.graph is not None:
            names = _numbered(record.graph, set(document.symbols), counts)
            symbols += names.values()
            record = record._replace(graph=_renamed(record.graph, names))
        modules.append(record)
    return replace(document, modules=tuple(modules), symbols=tuple(symbols))


def _numbered(graph: GraphDocument, symbols: set[str], counts: Counter[str]) -> dict[str, str]:
    texts = [text for inner in graphs_of(graph) for text in _texts_in(inner)]
    used = dict.fromkeys(word for text in texts for word in WORD.findall(text) if word in symbols)
    names = {}
    for symbol in used:
        kind = symbol.rstrip("0123456789")
        names[symbol] = f"{kind}{counts[kind]}"
        counts[kind] += 1
    return names


def _texts_in(graph: GraphDocument) -> list[str]:
    return [*(text for node in graph.nodes for text in texts_of(node)), *graph.notes]


def _renamed(graph: GraphDocument, names: Mapping[str, str]) -> GraphDocument:
    if not names:
        return graph
    nodes = [
        node._replace(
            args=tuple([rename_symbols(text, names) for text in node.args]),
            kwargs=tuple([(key, rename_symbols(text, names)) for key, text in node.kwargs]),
            value=None if node.value is None else rename_symbols(node.value, names),
        )
        for node in graph.nodes
    ]
    notes = tuple([rename_symbols_of_note(note, names) for note in graph.notes])
    return replace(with_inner_graphs(graph, lambda inner: _renamed(inner, names)), nodes=tuple(nodes), notes=notes)
