"""The Python code of a graph, and of the graphs inside it, as a golden holds it: also under other names of nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pytest_fxgraph.document.argument_texts import has_groups
from pytest_fxgraph.document.model import GraphDocument, ModuleRecord
from pytest_fxgraph.document.nested_graphs import attribute_of
from pytest_fxgraph.document.process_groups import ProcessGroupTexts, with_named_group
from pytest_fxgraph.errors import DocumentError

# Where a graph is: the paths of the modules that lead to it, each inside the one before. () is the outermost.
Place = tuple[str, ...]
Graphs = dict[Place, tuple[Any, Any]]  # each graph of a document, and the module whose forward it may be
_NAMED_TARGETS = ("placeholder", "get_attr", "call_module")  # whose target is a name, which may be another, too


def with_code(document: GraphDocument, graphs: Graphs, place: Place = ()) -> GraphDocument:
    """Give a document the code of its graphs; one whose graph is not known keeps the code that it has."""
    code = _tidy(_code_of(*graphs[place])) if place in graphs else document.code
    modules = [_with_code_inside(module, graphs, place) for module in document.modules]
    return replace(document, code=code, modules=tuple(modules))


def _with_code_inside(module: ModuleRecord, graphs: Graphs, place: Place) -> ModuleRecord:
    inner = module.graph
    return module if inner is None else module._replace(graph=with_code(inner, graphs, (*place, module.path)))


def under_names_of(document: GraphDocument, named: GraphDocument, graphs: Graphs, place: Place = ()) -> GraphDocument:
    """Return a document under the names of `named`, which is the same under other names, in its code as well.

    The code is that of a copy of the graph with these names. A graph whose code was not generated from it, because it
    was changed since, or a hook wrote it, keeps its names.
    """
    code: str | None = document.code
    if code and document.nodes != named.nodes:
        code = _renamed_code(graphs[place][0], document, named) if place in graphs else None
    chosen = document if code is None else replace(named, code=code)
    modules = [
        record
        if module.graph is None or other.graph is None
        else record._replace(graph=under_names_of(module.graph, other.graph, graphs, (*place, module.path)))
        for module, other, record in zip(document.modules, named.modules, chosen.modules, strict=True)
    ]
    return replace(chosen, modules=tuple(modules))


def _code_of(graph: Any, module: Any) -> str:
    try:
        # A group of processes has another name on each rank.
        if has_groups() and any(with_named_group(node, ProcessGroupTexts())[0] != node.args for node in graph.nodes):
            return str(_copy(graph).python_code("self").src)
        if getattr(module, "graph", None) is graph and hasattr(type(module), "code"):
            return str(attribute_of(module, "code"))
        return str(graph.python_code("self").src)
    except AttributeError as error:
        raise DocumentError(
            f"cannot write down the code of this {type(module).__name__}: {error}; "
            "mend what generates it, or the target that has no name"
        ) from error


def _renamed_code(graph: Any, document: GraphDocument, named: GraphDocument) -> str | None:
    """Write the code of a graph under other names; None if the graph under its own names does not give the code."""
    copied = _copy(graph)
    if _tidy(copied.python_code("self").src) != document.code:
        return None
    records = {node.name: other for node, other in zip(document.nodes, named.nodes, strict=True)}
    for node in copied.nodes:
        record = records.get(node.name)
        if record is not None:
            node.name = record.name
            if node.op in _NAMED_TARGETS:
                node.target = record.target
    if len({node.name for node in copied.nodes}) != len(copied.nodes):  # a hook took nodes out of the document
        return None
    return _tidy(copied.python_code("self").src)


def copied_graph(graph: Any, arguments: Callable[[Any], Any] | None, texts: Mapping[Any, str] | None = None) -> Any:
    """Copy a graph of fxcore or torch.fx, with the very names of its nodes.

    `arguments` returns args and kwargs for a node of the copy. Nodes with a text in `texts` are left out, and their
    readers have the text.
    """
    copied = type(graph)()
    copies: dict[Any, Any] = dict(texts or {})
    for node in [node for node in graph.nodes if node not in copies]:
        copy = copies[node] = copied.node_copy(node, copies.__getitem__)
        copy.name = node.name
        if arguments is not None:
            copy.args, copy.kwargs = arguments(copy)
    copied._codegen = graph._codegen
    return copied


def _copy(graph: Any) -> Any:
    """Copy a graph with texts for groups of processes."""
    texts = ProcessGroupTexts() if has_groups() else None
    return copied_graph(graph, None if texts is None else lambda node: with_named_group(node, texts))


def _tidy(code: str) -> str:
    """Drop blank lines around generated code and blanks at the ends of its lines."""
    return "\n".join([line.rstrip() for line in code.split("\n")]).strip("\n")
