"""Structural hash: one text for all documents that are equal at level `structure`."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any

from pytest_fxgraph.compare.compared_parts import as_compared
from pytest_fxgraph.compare.expected_terms import made_paths, numbers_of_unknown, with_paths, with_targets
from pytest_fxgraph.compare.graph_index import GraphIndex, NodeHashes, content_of, graph_index_of, storage_histories
from pytest_fxgraph.compare.isomorphism import surrounding_hashes, unpaired_readers
from pytest_fxgraph.compare.record_changes import code_of_note, module_records, state_records
from pytest_fxgraph.compare.symbols import in_order_of_use, sorted_sizes
from pytest_fxgraph.document.capture_notes import is_capture_note
from pytest_fxgraph.document.model import GraphDocument, NodeRecord, texts_of, with_texts
from pytest_fxgraph.document.symbol_names import rename_symbols, rename_symbols_of_note


def structural_hash(document: GraphDocument) -> str:
    """Return 64 hex digits that are equal for documents without a difference at level `structure`.

    Level `structure` does not compare a fact that only one document records. The hash contains every recorded fact, so
    compare hashes of documents that were recorded alike: both with example inputs, or both without.
    """
    document = as_compared(document)
    return hashlib.sha256(repr(_description(document, document.symbols, {})).encode()).hexdigest()


class _Digests(NodeHashes):
    """Numbers that depend on the description alone, not on earlier descriptions."""

    def number(self, description: Hashable) -> int:
        return int(hashlib.sha256(repr(description).encode()).hexdigest()[:16], 16)


def _description(document: GraphDocument, symbols: tuple[str, ...], names: dict[str, str]) -> Any:
    """Describe a graph without generated names; `names` of symbols grow from graph to graph."""
    document = with_targets(document, _input_names(document), ("placeholder",))
    made = made_paths(document)
    contents = {record.path: record for record in document.state}
    held = {path: f"<{contents[path].value} {content_of(contents[path], contents)}>" for path in made & contents.keys()}
    unknown = {path: f"<{value} number {place}>" for path, (value, place) in numbers_of_unknown(document, made).items()}
    held |= unknown
    unnamed = with_targets(document, dict.fromkeys(made, "<graph>") | held, ("get_attr", "call_module"))
    no_names = dict.fromkeys(symbols, "?")
    plain = tuple(with_texts(node, lambda text: rename_symbols(text, no_names)) for node in unnamed.nodes)
    index = graph_index_of(replace(unnamed, nodes=plain))
    order = _canonical_order(index)
    numbers = {position: number for number, position in enumerate(order)}

    for symbol in in_order_of_use([text for position in order for text in texts_of(document.nodes[position])], symbols):
        names.setdefault(symbol, f"<size {symbol.rstrip('0123456789')}{len(names)}>")
    used = [path for path in dict.fromkeys(document.nodes[position].target for position in order) if path in made]
    paths = {path: unknown.get(path, f"<made {place}>") for place, path in enumerate(used)}
    document = with_paths(with_targets(document, paths, ("get_attr", "call_module")), paths)
    named = graph_index_of(replace(document, nodes=tuple(_renamed(node, names) for node in document.nodes)))
    return (
        [
            (named.labels[position], [numbers[read] for read in index.inputs[position]], _value(named.nodes[position]))
            for position in order
        ],
        sorted((key, [numbers[position] for position in chain]) for key, chain in index.effects.chains.items()),
        sorted((sorted(seen), count) for seen, count in storage_histories(index.effects, numbers.__getitem__).items()),
        _sorted(module_records(named)),
        _sorted(state_records(document.state)),
        [rename_symbols_of_note(note, names) for note in document.notes if not is_capture_note(note)],
        sorted(code_of_note(rename_symbols_of_note(note, names)) for note in document.notes if is_capture_note(note)),
        sorted((m.path, _description(m.graph, symbols, names)) for m in document.modules if m.graph is not None),
    )


def _canonical_order(index: GraphIndex) -> list[int]:
    """Order the nodes from inputs, effects and outputs to everything that they read; then the unread nodes."""
    numbers = [-1] * len(index.nodes)
    order: list[int] = []

    def visit(position: int) -> None:
        pending = [position]
        while pending:
            position = pending.pop()
            if numbers[position] < 0:
                numbers[position] = len(order)
                order.append(position)
                pending.extend(index.inputs[position])

    for _, chain in sorted(index.effects.chains.items()):
        for position in chain:
            visit(position)
    if len(order) < len(numbers):
        hashes = surrounding_hashes(index, numbers, _Digests())
        unread = [position for position, users in enumerate(index.users) if not users and numbers[position] < 0]
        for position in sorted(unread, key=lambda each: hashes[each]):
            reached = len(order)
            visit(position)
            while reached < len(order):  # a value that two unread nodes share stays shared
                for _, _, reader in unpaired_readers(index, order[reached], numbers, hashes):
                    visit(reader)
                reached += 1
    return order


def _input_names(document: GraphDocument) -> dict[str, str]:
    """Name each input with a generated name after its place; `*` and `**` stay."""
    inputs = [node for node in document.nodes if node.op == "placeholder"]
    stars = {node.target: node.target[: len(node.target) - len(node.target.lstrip("*"))] for node in inputs}
    return {node.target: f"{stars[node.target]}<input {place}>" for place, node in enumerate(inputs) if node.name_from}


def _value(node: NodeRecord) -> str | None:
    # torch.export.load notes the value of the output, torch.export.export does not. The values that it reads tell it.
    return None if node.op == "output" else node.value


def _sorted(record: Any) -> Any:
    """Return nested dicts as sorted lists of their items."""
    return [(key, _sorted(record[key])) for key in sorted(record)] if isinstance(record, dict) else record


def _renamed(node: NodeRecord, names: Mapping[str, str]) -> NodeRecord:
    value = None if node.value is None else sorted_sizes(rename_symbols(node.value, names))
    return with_texts(node, lambda text: rename_symbols(text, names))._replace(value=value)
