"""Names of nodes: given anew throughout a document, and looked past where a golden's text is compared with one."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from pytest_fxgraph.document.encoding import CLOSING_LINE, encode_graph
from pytest_fxgraph.document.literals import rename_references
from pytest_fxgraph.document.model import GraphDocument, NodeRecord

_HEAD = re.compile(r"format: (?:1|(2))\n(?:names: traced\n)?")
_END = f"\n{CLOSING_LINE}\n"
_CODE = "\ncode: "
# Lines of the literal block as they are written; what is anything else is left to the YAML reader.
_CODE_SECTION = re.compile(r"\ncode: \|-\n(?:(?:  [ -~]*)?\n)*\Z")
_INNER_CODE = re.compile(r"^( +)code: \|-\n(?:(?:\1  [ -~]*)?\n)*", re.MULTILINE)
# Not bound to the beginning of a line, which takes seven times as long; what is found elsewhere makes the count wrong.
_NAME = re.compile(r"- \{name: '?(\w+)'?, op: ")


def rename_nodes(document: GraphDocument, names: Mapping[str, str]) -> GraphDocument:
    """Rename the nodes of a graph wherever they are named; not those of graphs inside it, and not in the code."""
    return replace(document, nodes=tuple([_renamed(node, names) for node in document.nodes]))


def _renamed(node: NodeRecord, names: Mapping[str, str]) -> NodeRecord:
    renamed = NodeRecord.__new__(NodeRecord)
    own = renamed.__dict__
    own.update(node.__dict__)
    own["name"] = names.get(node.name, node.name)
    own["args"] = tuple([rename_references(text, names) for text in node.args])
    if node.kwargs:
        own["kwargs"] = tuple([(keyword, rename_references(text, names)) for keyword, text in node.kwargs])
    if node.effects:
        own["effects"] = tuple([rename_references(text, names) for text in node.effects])
    return renamed


def differs_in_names_at_most(text: str, document: GraphDocument) -> bool:
    """Tell, without reading YAML, that a golden's text holds this graph in this order, whatever its nodes are named.

    Generated code is not compared. False means that nothing is known: the text has to be read.
    """
    has_inner_graphs = bool([module for module in document.modules if module.graph is not None])
    graph_text = _graph_text(text, has_inner_graphs)
    if graph_text is None:
        return False
    # The ordinary case: to look for the names in the text, and to give them, takes a seventh longer.
    is_plain = not (has_inner_graphs or document.code) and _may_have_its_names(graph_text, document)
    if is_plain and encode_graph(document) == graph_text:
        return True
    found = _NAME.findall(graph_text)
    names = iter(found)
    graphs = [list(itertools.islice(names, len(graph.nodes))) for graph in _graphs(document)]
    if len(found) != sum(len(graph.nodes) for graph in _graphs(document)):
        return False
    if any(len(set(own)) < len(own) for own in graphs):  # two nodes have one name
        return False
    return encode_graph(_with_names_in_order(document, iter(graphs))) == graph_text


def _may_have_its_names(graph_text: str, document: GraphDocument) -> bool:
    """Tell whether a text names the last node as a document does; where an earlier one was added, that is another."""
    names = {node.name for node in document.nodes}
    if not names or len(names) < len(document.nodes):
        return False
    last = document.nodes[-2 if len(names) > 1 else -1].name  # the very last one is `output` in nearly all graphs
    return f"- {{name: {last}, op: " in graph_text


def _graph_text(text: str, has_inner_graphs: bool) -> str | None:
    """Return what a golden's text holds of the graph except for its code; None if the text is not as we write it."""
    head = _HEAD.match(text)
    if head is None or (head[1] and not text.endswith(_END)):
        return None
    end = len(text) - len(_END) + 1 if head[1] else len(text)
    start_of_code = text.find(_CODE, head.end(), end)
    if start_of_code >= 0:
        if not _CODE_SECTION.match(text, start_of_code, end):
            return None
        end = start_of_code + 1
    graph_text = text[head.end() : end]
    return _INNER_CODE.sub("", graph_text) if has_inner_graphs else graph_text


def _graphs(document: GraphDocument) -> Iterator[GraphDocument]:
    """Yield a document and those inside it, in the order in which they are written."""
    yield document
    for module in document.modules:
        if module.graph is not None:
            yield from _graphs(module.graph)


def _with_names_in_order(document: GraphDocument, graphs: Iterator[list[str]]) -> GraphDocument:
    """Give the nodes of a document, and of those inside it, names in order, and leave out the code."""
    own = [node.name for node in document.nodes]
    names = next(graphs)
    if names != own:
        document = rename_nodes(document, dict(zip(own, names, strict=True)))
    modules = tuple(
        [
            module if module.graph is None else replace(module, graph=_with_names_in_order(module.graph, graphs))
            for module in document.modules
        ]
    )
    return replace(document, modules=modules, code="")
