"""Which names of a graph nobody chose: those that a tracer or a capture made up.

Where a name comes from decides: who recorded the graph, what they noted on it, and how its values are handed over. A
spelling never makes a name a generated one; it only excludes names that the recorder does not make up. Where nothing
tells, a name is taken for the user's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch._ops import HigherOrderOperator

from pytest_fxgraph.document.capture_notes import meta_of
from pytest_fxgraph.document.generated_code import Graphs, Place
from pytest_fxgraph.document.model import GraphDocument, ModuleRecord
from pytest_fxgraph.document.tensor_texts import META_KEYS

# What a name was made by.
POSITION = "position"  # an input that its caller hands over by place, as those of make_fx and AOT
SOURCE = "source"  # an input of Dynamo's, which stands where it is first read: its name alone says what it is
LIFTING = "lifting"  # a tensor that a tracer met in the code
CAPTURE = "capture"  # a graph in the graph

# The only names that make_fx, and that torch.export, make up for tensors.
_NAMED_BY_MAKE_FX = re.compile(r"(?:_tensor_constant|_param_constant)\d+")
_NAMED_BY_EXPORT = re.compile(r"(?:lifted_tensor_|_lifted_tensor_constant|_tensor_constant)\d+")
_NAMED_BY_FREEZING = re.compile(r"_frozen_param(\d+)")

# A letter in brackets: only then has a value a size that is no number.
_MAY_HOLD_SYMBOLS = re.compile(r"\[[^]]*[A-Za-z]")
_WORD = re.compile(r"[A-Za-z_]\w*")
_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


def with_origins_of_names(document: GraphDocument, graphs: Graphs, nodes: Sequence[Any]) -> GraphDocument:
    """Return a document whose records say of each name that nobody chose what it was made by, and list the symbols.

    `graphs` are those that the document describes, and `nodes` are the outermost one's.
    """
    symbols: set[str] = set()
    graph, module = graphs[()]
    names = _GraphNames(document, module, graph, nodes, is_inner=False)
    document = _marked(document, names, symbols, graphs, ())
    return replace(document, symbols=_in_order_of_use(document, symbols)) if symbols else document


def _marked(
    document: GraphDocument, names: _GraphNames, symbols: set[str], graphs: Graphs, place: Place
) -> GraphDocument:
    if _MAY_HOLD_SYMBOLS.search("\n".join([node.value for node in document.nodes if node.value is not None])):
        for node in names.nodes:
            _add_symbols([node.meta.get(key) for key in META_KEYS], symbols)
    has_graphs = bool([record for record in document.modules if record.graph is not None])
    inputs = names.inputs() if names.is_of_torch else {}
    paths = names.paths({record.path for record in document.modules})
    if inputs:
        nodes = [
            node._replace(name_from=inputs.get(node.target)) if node.op == "placeholder" else node
            for node in document.nodes
        ]
        document = replace(document, nodes=tuple(nodes))
    if paths:
        state = [record._replace(name_from=paths.get(record.path)) for record in document.state]
        document = replace(document, state=tuple(state))
    if has_graphs:
        modules = [
            _marked_module(record, paths.get(record.path), symbols, graphs, (*place, record.path))
            for record in document.modules
        ]
        document = replace(document, modules=tuple(modules))
    return document


def _marked_module(
    record: ModuleRecord, name_from: str | None, symbols: set[str], graphs: Graphs, place: Place
) -> ModuleRecord:
    inner = record.graph
    if inner is not None:
        graph, module = graphs[place]
        names = _GraphNames(inner, module, graph, list(graph.nodes), is_inner=name_from is not None)
        inner = _marked(inner, names, symbols, graphs, place)
    return record._replace(graph=inner, name_from=name_from)


class _GraphNames:
    """What is known of who recorded a graph; `is_inner` where a captured graph hands it its values by place."""

    def __init__(
        self, document: GraphDocument, module: Any, graph: Any, nodes: Sequence[Any], *, is_inner: bool
    ) -> None:
        tracer = getattr(graph, "_tracer_cls", None)
        meta = meta_of(module)
        self.module, self.nodes, self._is_inner = module, nodes, is_inner
        self._ops = [record.op for record in document.nodes]  # asking a node costs a call
        self._traces_operators = _captures_operators(tracer)
        # torch.export gives inputs the names that the user's forward has, after tracing them under others.
        self._is_exported = self._traces_operators and (
            "inline_constraints" in meta or hasattr(module, "range_constraints")
        )
        # Tracers made from it may keep the names that inputs had before.
        self._names_inputs = getattr(tracer, "__name__", "") == "PythonKeyTracer"
        self._partitions: Iterable[str] = meta.get("partition_names") or ()
        # A graph without tracer may be AOT's or Dynamo's, which leave marks on its nodes.
        self.is_of_torch = tracer is None or self._traces_operators or is_inner
        self._is_captured = self._traces_operators or is_inner or "dynamo_flat_name_to_original_fqn" in meta

    def inputs(self) -> dict[str, str]:
        """Map inputs whose name nobody chose to what made it."""
        found = {}
        for node, op in zip(self.nodes, self._ops, strict=True):
            if op == "placeholder" and (name_from := self._of_input(node)) is not None:
                found[str(node.target)] = name_from
                self._is_captured = True
        return found

    def _of_input(self, node: Any) -> str | None:
        if self._is_inner:
            return POSITION
        source = getattr(node, "_dynamo_source", None) or getattr(node.meta.get("grapharg"), "source", None)
        if source is not None and not self._traces_operators:
            return _made_from(source, node)
        if self._is_exported:
            return None
        is_of_make_fx = self._traces_operators and self._names_inputs and "val" in node.meta
        return POSITION if is_of_make_fx or _is_marked_by_aot(node) else None

    def paths(self, modules: Iterable[str]) -> dict[str, str]:
        """Map paths of tensors and of graphs that nobody chose to what made them."""
        found = {}
        for node, op in zip(self.nodes, self._ops, strict=True):
            if op == "get_attr":
                path = node.target
                is_made = self._is_made_graph(node) if path in modules else self._is_lifted(node, path)
                if is_made:
                    found[path] = CAPTURE if path in modules else LIFTING
            elif op == "call_module" and node.target in self._partitions:
                found[node.target] = CAPTURE
        return found

    def _is_made_graph(self, node: Any) -> bool:
        """Tell whether a module was put there for the operator that runs it."""
        operators = [isinstance(user.target, HigherOrderOperator) for user in node.users]
        return self._is_captured and "." not in node.target and bool(operators) and all(operators)

    def _is_lifted(self, node: Any, path: str) -> bool:
        if node.meta.get("is_lifted"):
            return True
        frozen = _NAMED_BY_FREEZING.fullmatch(path)
        if frozen is not None:
            # A quantized program that is exported once more keeps these names, and no count.
            return self._is_exported or int(frozen[1]) < getattr(self.module, "_frozen_param_count", 0)
        if self._is_exported:
            # What is in the state dict, the user registered.
            is_registered = path in self.module._buffers or path in self.module._parameters
            return not is_registered and _NAMED_BY_EXPORT.fullmatch(path) is not None
        is_of_torch = self._traces_operators or (self.is_of_torch and _is_marked_by_aot(node))
        return is_of_torch and _NAMED_BY_MAKE_FX.fullmatch(path) is not None


def _captures_operators(tracer: Any) -> bool:
    # By name: importing what captures operators takes a second.
    bases = {(base.__module__, base.__name__) for base in getattr(tracer, "__mro__", ())}
    return ("torch.fx.experimental.proxy_tensor", "PythonKeyTracer") in bases


def _is_marked_by_aot(node: Any) -> bool:
    meta = node.meta
    return "partitioner_tag" in meta or type(meta.get("desc")).__module__.startswith("torch._functorch.")


def _made_from(source: Any, node: Any) -> str | None:
    """Say how Dynamo's name of an input was made; the names of a model's own state are the user's."""
    if node.type is torch.SymInt or isinstance(node.meta.get("example_value"), _SYMBOLIC):
        return POSITION
    while source is not None:
        kind = type(source).__name__
        if "NNModule" in kind or "ParamBuffer" in kind:
            return None
        source = getattr(source, "base", None)
    return SOURCE


def _add_symbols(value: Any, found: set[str]) -> None:
    if isinstance(value, _SYMBOLIC):
        found.update(map(str, getattr(getattr(value.node, "expr", None), "free_symbols", ())))
    elif isinstance(value, Mapping):
        _add_symbols(list(value.values()), found)
    elif isinstance(value, list | tuple):
        for item in value:
            _add_symbols(item, found)
    elif hasattr(value, "dtype") and hasattr(value, "shape"):
        _add_symbols(tuple(value.shape), found)


def _in_order_of_use(document: GraphDocument, symbols: set[str]) -> tuple[str, ...]:
    texts = [text for node in document.nodes for text in (node.value, *node.args) if text is not None]
    used = [word for text in texts for word in _WORD.findall(text) if word in symbols]
    return tuple(dict.fromkeys([*used, *sorted(symbols)]))
