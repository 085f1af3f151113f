"""Writes a graph down as a document. With its neighbours the one file that reads torch's and fxcore's objects."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from pytest_fxgraph.errors import DocumentError

from .argument_texts import ArgumentTexts
from .attributes import Attributes
from .constants import LEVELS as CONSTANT_LEVELS
from .effect_texts import EffectTexts
from .graph_document import GraphDocument, NodeRecord
from .module_records import module_records
from .origins import Origins
from .state_records import StateRecords, tensor_attributes
from .tree_structure import structure_notes
from .values import value_of

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
    if constants not in CONSTANT_LEVELS:
        raise DocumentError(f"constants={constants!r} is not known; choose one of {', '.join(CONSTANT_LEVELS)}")
    return _Building(graph_module, constants, sources, own_name, depth=1).document()


def is_graph_module(value: Any) -> bool:
    """Tell whether a module is run by a graph of its own, whoever made it."""
    return isinstance(value, torch.nn.Module) and hasattr(getattr(value, "graph", None), "nodes")


class _Building:
    """One document in the making."""

    def __init__(self, graph_module: Any, constants: str, sources: bool, own_name: OwnName | None, depth: int) -> None:
        if not is_graph_module(graph_module):
            raise DocumentError(
                f"cannot write down an object of type {type(graph_module).__name__}: it has no graph; "
                "trace it first, or hand over the GraphModule that owns the graph"
            )
        if depth > MOST_NESTED_GRAPHS:
            raise DocumentError(
                f"cannot write down graphs nested deeper than {MOST_NESTED_GRAPHS}; inline the inner ones first"
            )
        self._module = graph_module
        self._constants = constants
        self._sources = sources
        self._own_name = own_name
        self._depth = depth
        self._nodes = list(graph_module.graph.nodes)
        node_type = type(self._nodes[0]) if self._nodes else None
        self._texts = ArgumentTexts(node_type, constants, own_name)
        self._effects = EffectTexts(node_type, self._attribute, self._nested_document)
        self._attributes = Attributes(graph_module)
        self._nested: dict[str, GraphDocument | None] = {}

    def document(self) -> GraphDocument:
        """Put the parts together."""
        called = [(path, self._attribute(path)) for path in self._paths_of_modules()]
        state = StateRecords(self._attributes, self._constants, self._texts.text)
        for path, is_constant in tensor_attributes(self._nodes):
            self._attribute(path)
            state.add_attribute(path, is_constant)
        for path, module in called:
            if self._nested_document(path) is None:
                state.add_module(path, module)
        nodes = tuple(self._records())
        return GraphDocument(
            nodes=nodes,
            modules=tuple(module_records(called, self._nested_document, self._texts.text)),
            state=state.records(),
            code=_tidy(self._module.code),
            torch_version=str(torch.__version__),
            notes=structure_notes(self._module.graph, self._texts.text),
        )

    def _records(self) -> Iterator[NodeRecord]:
        targets, args, kwargs = self._calls()
        effects = self._effects.of(self._nodes, targets)
        origins = Origins(self._sources)
        for node, target, arg, kwarg, effect in zip(self._nodes, targets, args, kwargs, effects, strict=True):
            meta = node.meta
            yield NodeRecord(
                node.name,
                node.op,
                target,
                arg,
                kwarg,
                value_of(meta) if meta else None,
                effect,
                origins.scope(node) if meta else None,
                origins.source(node) if self._sources else None,
            )

    def _calls(self) -> tuple[list[str], list[tuple[str, ...]], list[tuple[tuple[str, str], ...]]]:
        """Write targets and arguments node by node, so that only earlier nodes can be referred to."""
        targets, args, kwargs = [], [], []
        texts, references = self._texts, self._texts.references
        text, name_of, names = texts.text, texts.names.name, set()
        for node in self._nodes:
            try:
                targets.append(name_of(node.target))
                args.append(tuple([text(value) for value in node.args]))
                kwargs.append(tuple([(key, text(value)) for key, value in node.kwargs.items()]) if node.kwargs else ())
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

    def _paths_of_modules(self) -> list[str]:
        """List the modules that run as part of this graph: called, or handed to an operator that calls them."""
        paths: dict[str, None] = {}
        for node in self._nodes:
            if node.op == "call_module" or (
                node.op == "get_attr" and isinstance(self._attribute(node.target), torch.nn.Module)
            ):
                paths[node.target] = None
        return list(paths)

    def _nested_document(self, path: str) -> GraphDocument | None:
        """Document a module that is itself a graph."""
        if path not in self._nested:
            module = self._attribute(path)
            is_graph = is_graph_module(module)
            self._nested[path] = self._inner(module).document() if is_graph else None
        return self._nested[path]

    def _inner(self, module: Any) -> _Building:
        return _Building(module, self._constants, self._sources, self._own_name, self._depth + 1)

    def _attribute(self, path: str) -> Any:
        try:
            return self._attributes.at(path)
        except AttributeError:
            reader = next((node.name for node in self._nodes if node.target == path), path)
            raise DocumentError(
                f"cannot write down node {reader!r}: the graph's module has no attribute {path!r}; "
                "add it to the module, or erase the node"
            ) from None


def _tidy(code: str) -> str:
    """Drop blank lines around generated code and blanks at the ends of its lines."""
    lines: Sequence[str] = [line.rstrip() for line in code.split("\n")]
    return "\n".join(lines).strip("\n")
