"""A document's nodes as a graph of terms: what each node is, and which nodes it reads, by position."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from pytest_fxgraph.document.graph_document import GraphDocument, NodeRecord
from pytest_fxgraph.document.literals import references, rename_references

# Op, target, texts of the arguments without names, keyword arguments likewise and sorted by keyword.
Label = tuple[str, str, tuple[str, ...], tuple[tuple[str, str], ...]]


@dataclass(frozen=True)
class TermGraph:
    """Nodes by index in file order; what they are and what they read, apart from their names."""

    nodes: tuple[NodeRecord, ...]
    labels: tuple[Label, ...]
    inputs: tuple[tuple[int, ...], ...]  # in order of position, then of keyword; repeated where read twice

    @cached_property
    def users(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """List for each node who reads it, as pairs of the reader and the position among its inputs."""
        users: list[list[tuple[int, int]]] = [[] for _ in self.nodes]
        for reader, inputs in enumerate(self.inputs):
            for position, read in enumerate(inputs):
                users[read].append((reader, position))
        return tuple(map(tuple, users))


def term_graph(document: GraphDocument) -> TermGraph:
    """Read the nodes of a document as a graph; a reference to a node that is not there stays a literal."""
    index = {node.name: position for position, node in enumerate(document.nodes)}
    labels: list[Label] = []
    inputs: list[tuple[int, ...]] = []
    for node in document.nodes:
        label, read = _label_and_inputs(node, index)
        labels.append(label)
        inputs.append(read)
    return TermGraph(document.nodes, tuple(labels), tuple(inputs))


def nameless(text: str, index: Mapping[str, int]) -> tuple[str, tuple[int, ...]]:
    """Split an argument's text into what is left without names, and the nodes it refers to, in order."""
    if "%" not in text:
        return text, ()
    alone = index.get(text[1:]) if text[0] == "%" else None
    if alone is not None:
        return "%", (alone,)
    known = [name for name in references(text) if name in index]
    # A name cannot be empty, so a bare "%" outside quotes is never mistaken for a reference that was written.
    return rename_references(text, dict.fromkeys(known, "")), tuple(index[name] for name in known)


def _label_and_inputs(node: NodeRecord, index: Mapping[str, int]) -> tuple[Label, tuple[int, ...]]:
    read: tuple[int, ...] = ()
    args = []
    for text in node.args:
        rest, names = nameless(text, index)
        args.append(rest)
        read += names
    kwargs = []
    for keyword, text in sorted(node.kwargs):
        rest, names = nameless(text, index)
        kwargs.append((keyword, rest))
        read += names
    return (node.op, node.target, tuple(args), tuple(kwargs)), read
