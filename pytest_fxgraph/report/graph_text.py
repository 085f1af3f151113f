"""The text of a graph without its code, and the repeated blocks of its nodes for pictures and summaries."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from pytest_fxgraph.document.literals import references, rename_references
from pytest_fxgraph.document.model import GraphDocument, ModuleRecord, NodeRecord, StateRecord
from pytest_fxgraph.document.text_writer import document_lines
from pytest_fxgraph.report.numbered_paths import pattern_of
from pytest_fxgraph.report.repetition import Entry, Repetition, repetitions


def graph_text_lines(document: GraphDocument, *, folds: bool = True) -> list[str]:
    """Return the lines of a document without its code; with `folds`, blocks that repeat are written once."""
    return document_lines(replace(document, code=""), folds=folds)


def repeated_nodes(document: GraphDocument) -> list[Repetition]:
    """Find blocks of nodes that differ only in their place. No block has inputs or the output.

    Nodes are alike if they apply one operator to the same literals, and their modules and tensors are alike.
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
            if node.op == "get_attr" and not node.scope and "." not in name:  # tracing numbered the tensor itself
                token, path, name = (token, pattern_of(name)), "", ""
        elif node.op != "placeholder":
            token, name = (token, name), ""
        reads = tuple(positions[name] for text in texts for name in references(text))
        entries.append(Entry(path, token, name, reads, is_input=node.op == "placeholder"))
    return repetitions(entries)


def node_path(node: NodeRecord) -> str:
    """Return the path of the module that made a node, else the path that the node reads; "" if both are unknown."""
    return node.scope or (node.target if node.op in ("call_module", "get_attr") else "")


def _module_token(module: ModuleRecord) -> Hashable:
    return module.kind, module.config, module.training, module.graph


def _state_token(record: StateRecord) -> Hashable:
    return record.kind, record.value, record.requires_grad, record.persistent, record.content
