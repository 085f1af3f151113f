"""The Python code of a graph, and of the graphs inside it, as a golden holds it: also under other names of nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pytest_fxgraph.document.model import GraphDocument, ModuleRecord
from pytest_fxgraph.document.node_names import rename_nodes

# Where a graph is: the paths of the modules that lead to it, each inside the one before. () is the outermost.
Place = tuple[str, ...]
Graphs = dict[Place, tuple[Any, Any]]  # each graph of a document, and the module whose forward it may be
Names = Mapping[Place, Mapping[str, str]]  # for each graph, new names by those that nodes have


def with_code(document: GraphDocument, graphs: Graphs, place: Place = ()) -> GraphDocument:
    """Give a document the code of its graphs; one whose graph is not known keeps the code that it has."""
    code = _tidy(_code_of(*graphs[place])) if place in graphs else document.code
    modules = [_with_code_inside(module, graphs, place) for module in document.modules]
    return replace(document, code=code, modules=tuple(modules))


def _with_code_inside(module: ModuleRecord, graphs: Graphs, place: Place) -> ModuleRecord:
    return (
        module if module.graph is None else replace(module, graph=with_code(module.graph, graphs, _in(place, module)))
    )


def without_code(document: GraphDocument) -> GraphDocument:
    """Take the code away from a document and those inside it."""
    modules = [
        module if module.graph is None else replace(module, graph=without_code(module.graph))
        for module in document.modules
    ]
    return replace(document, code="", modules=tuple(modules))


def with_names(document: GraphDocument, names: Names, graphs: Graphs, place: Place = ()) -> GraphDocument:
    """Rename nodes of a document, in its code as well.

    The code is that of a copy of the graph with these names. A graph whose code was not generated from it, because it
    was changed since, or a hook wrote it, keeps its names.
    """
    modules = [
        module
        if module.graph is None
        else replace(module, graph=with_names(module.graph, names, graphs, _in(place, module)))
        for module in document.modules
    ]
    renamed = replace(document, modules=tuple(modules))
    own = names.get(place, {})
    if not own:
        return renamed
    if not document.code:
        return rename_nodes(renamed, own)
    code = _renamed_code(graphs[place][0], document.code, own) if place in graphs else None
    return renamed if code is None else replace(rename_nodes(renamed, own), code=code)


def _in(place: Place, module: ModuleRecord) -> Place:
    return (*place, module.path)


def _code_of(graph: Any, module: Any) -> str:
    is_of_module = getattr(module, "graph", None) is graph
    return str(module.code if is_of_module else graph.python_code("self").src)


def _renamed_code(graph: Any, code: str, names: Mapping[str, str]) -> str | None:
    """Write the code of a graph with other names; None if the graph under its own names does not give `code`."""
    copied = _copy(graph)
    if _tidy(copied.python_code("self").src) != code:
        return None
    for node in copied.nodes:
        node.name = names.get(node.name, node.name)
    if len({node.name for node in copied.nodes}) != len(copied.nodes):  # a hook took nodes out of the document
        return None
    return _tidy(copied.python_code("self").src)


def _copy(graph: Any) -> Any:
    """Copy a graph of fxcore or torch.fx, with the very names of its nodes."""
    copied = type(graph)()
    copies: dict[Any, Any] = {}
    for node in graph.nodes:
        copies[node] = copied.node_copy(node, copies.__getitem__)
        copies[node].name = node.name
    copied._codegen = graph._codegen
    return copied


def _tidy(code: str) -> str:
    """Drop blank lines around generated code and blanks at the ends of its lines."""
    return "\n".join([line.rstrip() for line in code.split("\n")]).strip("\n")
