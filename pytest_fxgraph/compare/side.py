"""One of the two graphs of a comparison, read once for everything that is asked of it."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_fxgraph.compare.effects import Effects, effects_of
from pytest_fxgraph.compare.sharing import shared_paths
from pytest_fxgraph.compare.term_graph import TermGraph, term_graph
from pytest_fxgraph.document.graph_document import GraphDocument, ModuleRecord, NodeRecord


@dataclass(frozen=True)
class Side:
    """A document with its nodes as a graph and their effects."""

    document: GraphDocument
    graph: TermGraph
    effects: Effects
    modules: dict[str, ModuleRecord]

    def operator(self, position: int) -> str:
        """Name what a node computes: its target, or the class of the module that it calls."""
        node = self.graph.nodes[position]
        module = self.modules.get(node.target) if node.op == "call_module" else None
        return module.kind if module is not None else node.target

    def call_text(self, node: NodeRecord) -> str:
        """Write a node as a reader would: what is called with which arguments."""
        arguments = [*node.args, *(f"{keyword}={text}" for keyword, text in node.kwargs)]
        called = f"{node.target}({', '.join(arguments)})"
        module = self.modules.get(node.target) if node.op == "call_module" else None
        return f"{called}  # {module.kind}" if module is not None else called


def side_of(document: GraphDocument) -> Side:
    """Read a document for comparing."""
    effects = effects_of(document.nodes, shared_paths(document.modules))
    return Side(document, term_graph(document), effects, {module.path: module for module in document.modules})
