"""Writes a graph down as a document. With its neighbours the one file that reads torch's and fxcore's objects."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from fxcore.gc_pause import gc_paused
from pytest_fxgraph.document.argument_texts import ArgumentTexts, structure_notes
from pytest_fxgraph.document.effects.annotate import EffectTexts
from pytest_fxgraph.document.generated_code import Graphs, Place, with_code
from pytest_fxgraph.document.model import GraphDocument, ModuleRecord, NodeRecord
from pytest_fxgraph.document.module_config import TextOf, module_config, training_flag
from pytest_fxgraph.document.module_traits import Attributes, CalledModule, ModuleTraits, parts_of, traits_of
from pytest_fxgraph.document.origins import Origins, unread_frame
from pytest_fxgraph.document.state_records import StateRecords
from pytest_fxgraph.document.tensor_texts import LEVELS as CONSTANT_LEVELS
from pytest_fxgraph.document.tensor_texts import value_of
from pytest_fxgraph.errors import DocumentError

GRAPH_MODULE = "GraphModule"  # whoever's: torch.fx makes a class for each graph
MOST_NESTED_GRAPHS = 50
_NAME = re.compile(r"\w+\Z")

OwnName = Callable[[Any], "str | None"]


def build_document(
    graph_module: Any, *, constants: str = "exact", sources: bool = True, own_name: OwnName | None = None
) -> GraphDocument:
    """Describe a graph module of fxcore or torch.fx as plain data, the same in every run, process and torch version.

    `constants` says how much of constant tensors is kept: "exact", "close" or "shape". Without `sources` the lines
    of the model's source are left out, which is faster. `own_name` is asked first for the names of functions that
    the graph calls; None leaves the name to us. What has no stable text is a DocumentError.
    """
    _check_level(constants)
    with gc_paused():  # none of tens of thousands of fresh records is garbage
        graphs: Graphs = {}
        document = _DocumentBuilder(graph_module, constants, sources, own_name, graphs).only_document()
        return with_code(document, graphs)


def build_document_of_graph(
    graph: Any,
    root: torch.nn.Module,
    *,
    constants: str = "exact",
    sources: bool = True,
    own_name: OwnName | None = None,
    graphs: Graphs | None = None,
) -> GraphDocument:
    """Describe a graph that has no module of its own, as `build_document` does; its paths are those of `root`.

    If a dict for `graphs` is given, the document is without code, and `with_code` can add it later from that dict.
    """
    _check_level(constants)
    found: Graphs = {} if graphs is None else graphs
    with gc_paused():
        document = _DocumentBuilder(root, constants, sources, own_name, found, graph=graph).only_document()
        return document if graphs is not None else with_code(document, found)


def _check_level(constants: str) -> None:
    if constants not in CONSTANT_LEVELS:
        raise DocumentError(f"constants={constants!r} is not known; choose one of {', '.join(CONSTANT_LEVELS)}")


def is_graph_module(value: Any) -> bool:
    """Tell whether a module is run by a graph of its own, whoever made it."""
    if not isinstance(value, torch.nn.Module):
        return False
    if "graph" not in value.__dict__ and traits_of(type(value)).is_layer:
        return False  # the ordinary case; asking on would be slow
    return hasattr(getattr(value, "graph", None), "nodes")


class _DocumentBuilder:
    """Writes the document of one graph; nested graphs have a builder of their own."""

    def __init__(
        self,
        graph_module: Any,
        constants: str,
        sources: bool,
        own_name: OwnName | None,
        graphs: Graphs,
        place: Place = (),
        graph: Any = None,
    ) -> None:
        if graph is None and not is_graph_module(graph_module):
            raise DocumentError(
                f"cannot write down an object of type {type(graph_module).__name__}: it has no graph; "
                "trace it first, or hand over the GraphModule that owns the graph"
            )
        if len(place) >= MOST_NESTED_GRAPHS:
            raise DocumentError(
                f"cannot write down graphs nested deeper than {MOST_NESTED_GRAPHS}; inline the inner ones first"
            )
        self._module = graph_module
        self._graph = graph_module.graph if graph is None else graph
        self._constants = constants
        self._sources = sources
        self._own_name = own_name
        self._graphs, self._place = graphs, place
        graphs[place] = self._graph, graph_module
        self._nodes = list(self._graph.nodes)
        node_type = type(self._nodes[0]) if self._nodes else None
        self._texts = ArgumentTexts(node_type, constants, own_name)
        self._attributes = Attributes(graph_module)
        self._called = self._called_modules()
        self._effects = EffectTexts(node_type, self._attribute, self._called)

    def only_document(self) -> GraphDocument:
        """Write the document, and keep nothing of the graph here, so that no cycle is left to the garbage collector."""
        try:
            return self.document()
        finally:
            del self._effects
            self._texts.references.clear()
            self._nodes, self._called = [], {}

    def document(self) -> GraphDocument:
        """Write the document without code."""
        called = self._called.values()
        state = StateRecords(self._attributes, self._constants, self._texts.text)
        for node in self._nodes:
            if node.op == "get_attr":
                self._attribute(node.target)
                state.add_attribute(node.target, bool(node.meta.get("is_constant", False)))
        for each in called:
            if each.graph is None:
                state.add_module(each.path, each.module)
        nodes = tuple(self._records())
        return GraphDocument(
            nodes=nodes,
            modules=tuple(_module_records(called, self._texts.text)),
            state=state.records(),
            torch_version=str(torch.__version__),
            notes=structure_notes(self._graph, self._texts.text),
        )

    def _records(self) -> Iterator[NodeRecord]:
        targets, args, kwargs = self._calls()
        effects = self._effects.of(self._nodes, targets)
        origins = Origins(self._sources)
        scope_of, source_of = origins.scope, origins.source
        for node, target, arg, kwarg, effect in zip(self._nodes, targets, args, kwargs, effects, strict=True):
            value = None if unread_frame(node) is not None else value_of(node.meta)
            scope = scope_of(node)
            source = source_of(node) if self._sources else None
            yield NodeRecord(node.name, node.op, target, arg, kwarg, value, effect, scope, source)

    def _calls(self) -> tuple[list[str], list[tuple[str, ...]], list[tuple[tuple[str, str], ...]]]:
        """Write targets and arguments node by node, so that only earlier nodes can be referred to."""
        targets, args, kwargs = [], [], []
        texts, references = self._texts, self._texts.references
        text, name_of, names = texts.text, texts.names.name, set()
        for node in self._nodes:
            target, values, by_keyword = node.target, node.args, node.kwargs
            try:
                targets.append(target if type(target) is str else name_of(target))
                args.append((text(values[0]),) if len(values) == 1 else tuple([text(value) for value in values]))
                kwargs.append(tuple([(key, text(value)) for key, value in by_keyword.items()]) if by_keyword else ())
            except (DocumentError, RecursionError) as error:
                raise self._explained(node, error) from None
            name = node.name
            if name in names or not _NAME.match(name):
                raise DocumentError(
                    f"cannot write down node {name!r}: {'another node has' if name in names else 'nodes cannot have'} "
                    "this name; let the graph choose names, or set unique identifiers"
                )
            names.add(name)
            references[node] = f"%{name}"
        return targets, args, kwargs

    def _explained(self, node: Any, error: Exception) -> DocumentError:
        """Find the part of a node that has no stable text, and say so."""
        parts: list[tuple[str, Any]] = [(f"argument {index}", value) for index, value in enumerate(node.args)]
        parts += [(f"argument {key!r}", value) for key, value in node.kwargs.items()]
        blamed = next((name for name, value in parts if self._fails(value)), "the target")
        reason = "it is nested too deep, or holds itself" if isinstance(error, RecursionError) else str(error)
        return DocumentError(
            f"cannot write down {blamed} of node {node.name!r} ({node.op}): {reason}; "
            "use plain values, an enum or a dataclass, or make the value an attribute of the module"
        )

    def _fails(self, value: Any) -> bool:
        try:
            self._texts.text(value)
        except (DocumentError, RecursionError):
            return True
        return False

    def _called_modules(self) -> dict[str, CalledModule]:
        """Find the modules that run as part of this graph: called, or handed to an operator that calls them."""
        called: dict[str, CalledModule] = {}
        for node in self._nodes:
            op = node.op
            if op != "call_module" and op != "get_attr":
                continue
            path = node.target
            if path not in called:
                module = self._attribute(path)
                if op == "call_module" or isinstance(module, torch.nn.Module):
                    called[path] = CalledModule(path, module, traits_of(type(module)), self._document_of(path, module))
        return called

    def _document_of(self, path: str, module: Any) -> GraphDocument | None:
        """Document a module that is itself a graph."""
        if not is_graph_module(module):
            return None
        place = (*self._place, path)
        builder = _DocumentBuilder(module, self._constants, self._sources, self._own_name, self._graphs, place)
        return builder.document()

    def _attribute(self, path: str) -> Any:
        try:
            return self._attributes.at(path)
        except AttributeError:
            reader = next((node.name for node in self._nodes if node.target == path), path)
            raise DocumentError(
                f"cannot write down node {reader!r}: the graph's module has no attribute {path!r}; "
                "add it to the module, or erase the node"
            ) from None


def _module_records(called: Iterable[CalledModule], text: TextOf) -> list[ModuleRecord]:
    """Describe called modules and the modules inside them, in the order of the calls."""
    records: dict[str, ModuleRecord] = {}
    first_paths: dict[int, str] = {}
    for called_path, called_module, traits, graph in called:
        first = first_paths.setdefault(id(called_module), called_path)
        if graph is not None:
            records[called_path] = _graph_record(called_path, first, graph)
            continue
        if called_path not in records:
            records[called_path] = _record(called_path, called_module, traits, first, text)
        for path, module in parts_of(called_path, called_module) if called_module._modules else ():
            if path not in records:
                first = first_paths.setdefault(id(module), path)
                records[path] = _record(path, module, traits_of(type(module)), first, text)
    return list(records.values())


def _record(path: str, module: torch.nn.Module, traits: ModuleTraits, first: str, text: TextOf) -> ModuleRecord:
    training = None if traits.is_inert else training_flag(module)
    return ModuleRecord(
        path, traits.kind, module_config(module, text, traits), training, None if first == path else first
    )


def _graph_record(path: str, first: str, graph: GraphDocument) -> ModuleRecord:
    if first != path:
        return ModuleRecord(path, GRAPH_MODULE, same_as=first)
    return ModuleRecord(path, GRAPH_MODULE, graph=graph)
