"""Writes a graph down as a document. With its neighbours the one file that reads torch's and fxcore's objects."""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from fxcore.graph import gc_paused
from fxcore.tracer import Tracer
from pytest_fxgraph.choices import CONSTANT_FORMS
from pytest_fxgraph.document.argument_texts import (
    ArgumentTexts,
    fields_of,
    has_groups,
    named_by_fields,
    structure_notes,
)
from pytest_fxgraph.document.capture_notes import canonical_symbols, capture_notes, places_of_notes
from pytest_fxgraph.document.effects import EffectTexts
from pytest_fxgraph.document.exported_ranges import range_notes
from pytest_fxgraph.document.folding import numbered_prefixes
from pytest_fxgraph.document.generated_code import Graphs, Place, with_code
from pytest_fxgraph.document.generated_names import with_origins_of_names
from pytest_fxgraph.document.model import GraphDocument, ModuleRecord, NodeRecord, StateRecord, graphs_of
from pytest_fxgraph.document.modules import (
    Attributes,
    CalledModule,
    ModuleTraits,
    hook_config,
    module_config,
    parts_of,
    training_flag,
    traits_of,
)
from pytest_fxgraph.document.nested_graphs import (
    delegate_config,
    delegated_graph,
    graphs_in_attributes,
    is_delegate,
    is_graph_module,
)
from pytest_fxgraph.document.origins import Origins, unread_frame
from pytest_fxgraph.document.process_groups import with_named_group
from pytest_fxgraph.document.state_records import StateRecords
from pytest_fxgraph.document.tensor_texts import value_of
from pytest_fxgraph.errors import DocumentError

GRAPH_MODULE = "GraphModule"  # whoever's: torch.fx makes a class for each graph
MOST_NESTED_GRAPHS = 50
_OF_DYNAMO = "_torchdynamo_"
_NAME = re.compile(r"\w+\Z")
_WRITTEN_BY_TRACE = re.compile(r"forward writes self\.(\S+) while it is traced")  # a note of our tracer
_NAMELESS_REMEDY = "define a function with `def` that makes this call, and let the graph call that"

OwnName = Callable[[Any], "str | None"]


@dataclass(frozen=True)
class _Options:
    """What is asked of a document and of those of the graphs in it."""

    constants: str
    sources: bool
    own_name: OwnName | None
    meta: Sequence[str]

    def __post_init__(self) -> None:
        if self.constants not in CONSTANT_FORMS:
            known = ", ".join(CONSTANT_FORMS)
            raise DocumentError(f"constants={self.constants!r} is not known; choose one of {known}")
        if isinstance(self.meta, str) or not all(isinstance(key, str) for key in self.meta):
            raise DocumentError(f'meta={self.meta!r} is no tuple of names; write meta=("partition_tag",)')


def build_document(
    graph_module: Any,
    *,
    graph: Any = None,
    constants: str = "exact",
    sources: bool = True,
    own_name: OwnName | None = None,
    meta: Sequence[str] = (),
    graphs: Graphs | None = None,
) -> GraphDocument:
    """Describe a graph module of fxcore or torch.fx as plain data, the same in every run, process and torch version.

    `constants` says how much of constant tensors is kept: "exact", "close" or "shape". Without `sources` the lines
    of the model's source are left out, which is faster. `own_name` is asked first for the names of functions that
    the graph calls; None leaves the name to us. `meta` names metadata of nodes that is to be part of the document.
    What has no stable text, and metadata that no node has, is a DocumentError.

    A `graph` that has no module of its own is given beside the module that its paths start at. If a dict for `graphs`
    is given, the document is without code, and `with_code` can add it later from that dict.
    """
    options = _Options(constants, sources, own_name, meta)
    found: Graphs = {} if graphs is None else graphs
    with gc_paused():  # none of tens of thousands of fresh records is garbage
        document = _DocumentBuilder(graph_module, options, found, graph=graph).only_document()
        return document if graphs is not None else with_code(document, found)


class _DocumentBuilder:
    """Writes the document of one graph; nested graphs have a builder of their own."""

    def __init__(
        self, graph_module: Any, options: _Options, graphs: Graphs, place: Place = (), graph: Any = None
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
        self._options = options
        self._graphs, self._place = graphs, place
        graphs[place] = self._graph, graph_module
        self._nodes = list(self._graph.nodes)
        self._ops, self._names = [node.op for node in self._nodes], [node.name for node in self._nodes]
        self._node_type = node_type = type(self._nodes[0]) if self._nodes else None
        self._texts = ArgumentTexts(node_type, options.constants, options.own_name)
        self._attributes = Attributes(graph_module)
        self._called = self._called_modules()
        self._positions = {node: position for position, node in enumerate(self._nodes)} if options.meta else {}
        self._effects = EffectTexts(node_type, self._attribute, self._called)

    def only_document(self) -> GraphDocument:
        """Write the document, and keep nothing of the graph here, so that no cycle is left to the garbage collector."""
        try:
            document = self.document()
            _check_metadata(self._options.meta, document, self._nodes)
            if not self._has_chosen_names(document):
                document = with_origins_of_names(document, self._graphs, self._nodes)
            return canonical_symbols(document) if document.symbols else document
        finally:
            del self._effects
            self._texts.references.clear()
            self._nodes, self._called, self._positions = [], {}, {}

    def _has_chosen_names(self, document: GraphDocument) -> bool:
        """Return whether each name is the user's. Our tracer makes up names for tensors that the graph reads, only."""
        tracer = getattr(self._graph, "_tracer_cls", None)
        is_ours = tracer is not None and issubclass(tracer, Tracer) and not getattr(self._module, "meta", None)
        return (
            is_ours
            and "get_attr" not in self._ops
            and not any(node.value for node in document.nodes)
            and not any(module.graph for module in document.modules)
        )

    def document(self) -> GraphDocument:
        """Write the document without code."""
        called = self._called.values()
        state = StateRecords(self._attributes, self._options.constants, self._texts.text)
        for node, op in zip(self._nodes, self._ops, strict=True):
            if op == "get_attr":
                self._attribute(node.target)
                state.add_attribute(node.target, bool(node.meta.get("is_constant")), node.users)
        for each in called:
            if each.graph is None and (each.traits.is_layer or not is_delegate(each.module)):
                state.add_module(each.path, each.module)
        nodes = tuple(self._records())
        # The golden of a plain trace enters three files fewer for this, for the layers below and for the symbols above.
        is_captured = bool(getattr(self._module, "meta", None))  # captures and exported programs leave notes there
        return GraphDocument(
            nodes=nodes,
            modules=tuple(self._module_records()),
            state=_by_block(state.records(lambda: _changed_paths(self._graph, nodes))),
            torch_version=str(torch.__version__),
            notes=tuple(self._notes(nodes, is_captured)),
            places=places_of_notes(self._module) if is_captured else {},
        )

    def _notes(self, nodes: Sequence[NodeRecord], is_captured: bool) -> Iterator[str]:
        yield from structure_notes(self._graph, self._texts.text)
        yield from range_notes(self._module, nodes) if is_captured else ()
        yield from _specialisation_notes(self._graph, self._nodes)
        yield from capture_notes(self._module) if is_captured else ()

    def _records(self) -> Iterator[NodeRecord]:
        targets, args, kwargs = self._calls()
        effects = self._effects.of(self._nodes, self._ops, targets)
        sources, asked = self._options.sources, self._options.meta
        origins = Origins(sources)
        scope_of, scope_of_frame, source_of = origins.scope, origins.scope_of_frame, origins.source
        for node, name, op, target, arg, kwarg, effect in zip(
            self._nodes, self._names, self._ops, targets, args, kwargs, effects, strict=True
        ):
            frame = unread_frame(node)
            if frame is not None:
                value, scope = None, scope_of_frame(frame, op, target)
            elif meta := node.meta:
                value, scope = value_of(meta), scope_of(node)
            else:
                value = scope = None
            source = source_of(node) if sources else None
            meta = self._metadata(node) if asked else ()
            # NodeRecord(...) runs Python and takes three times as long.
            facts = (name, op, target, arg, kwarg, value, effect, scope, source, meta, None)
            yield tuple.__new__(NodeRecord, facts)

    def _metadata(self, node: Any) -> tuple[tuple[str, str], ...]:
        """Write the metadata that was asked for and that a node has; it may name nodes up to this one."""
        texts, references, positions = self._texts, self._texts.references, self._positions
        own = positions[node]
        found = []
        for key in self._options.meta:
            value = _of_the_user(node.meta.get(key))
            if key not in node.meta or (value is not node.meta[key] and not value):
                continue
            try:
                # A reference to itself would be a circle, one to a later node could not be read back.
                text = texts.text_with(value, lambda other: _earlier(other, own, positions, references))
            except (DocumentError, RecursionError) as error:
                reason = error if isinstance(error, DocumentError) else "it is nested too deep, or holds itself"
                raise DocumentError(
                    f"cannot write down metadata {key!r} of node {node.name!r}: {reason}; "
                    "keep plain values there, or leave it out of meta="
                ) from None
            found.append((key, text))
        return tuple(found)

    def _calls(self) -> tuple[list[str], list[tuple[str, ...]], list[tuple[tuple[str, str], ...]]]:
        """Write targets and arguments node by node, so that only earlier nodes can be referred to."""
        targets: list[str] = []
        args: list[tuple[str, ...]] = []
        kwargs: list[tuple[tuple[str, str], ...]] = []
        text, references, node_type = self._texts.text, self._texts.references, self._node_type
        functions: dict[int, str] = {}  # by id of a target; nodes keep their targets
        records: dict[int, Sequence[str]] = {}  # the fields of named tuples and data classes
        groups = self._texts.groups if has_groups() else None
        for node, name in zip(self._nodes, self._names, strict=True):
            target, values, by_keyword = node.target, node.args, node.kwargs
            if groups is not None:
                values, by_keyword = with_named_group(node, groups)
            try:
                known = target if type(target) is str else functions.get(id(target))
                if known is None:
                    known = functions[id(target)] = self._function_name(target)
                    if isinstance(target, type) and (fields := fields_of(target)):
                        records[id(target)] = fields
                if records and id(target) in records:
                    values, by_keyword = named_by_fields(records[id(target)], values, by_keyword)
                targets.append(known)
                args.append(
                    tuple(
                        [
                            # Most arguments are nodes; this takes half as long as `text`.
                            references[value] if type(value) is node_type and value in references else text(value)
                            for value in values
                        ]
                    )
                )
                kwargs.append(tuple([(key, text(value)) for key, value in by_keyword.items()]) if by_keyword else ())
            except (DocumentError, RecursionError) as error:
                raise self._explained(node, error) from None
            references[node] = f"%{name}"
        self._check_names()
        return targets, args, kwargs

    def _function_name(self, target: Any) -> str:
        if type(target) is functools.partial:
            raise DocumentError("a functools.partial has no name by which code could call it")
        return self._texts.names.name(target)

    def _check_names(self) -> None:
        """Raise DocumentError for the first name that two nodes have, or that no reference can hold."""
        if len(set(self._names)) == len(self._names) and all(map(_NAME.match, self._names)):
            return
        seen: set[str] = set()
        for name in self._names:
            if name in seen or not _NAME.match(name):
                raise DocumentError(
                    f"cannot write down node {name!r}: {'another node has' if name in seen else 'nodes cannot have'} "
                    "this name; let the graph choose names, or set unique identifiers"
                )
            seen.add(name)

    def _explained(self, node: Any, error: Exception) -> DocumentError:
        """Find the part of a node that has no stable text, and say so."""
        parts: list[tuple[str, Any]] = [(f"argument {index}", value) for index, value in enumerate(node.args)]
        parts += [(f"argument {key!r}", value) for key, value in node.kwargs.items()]
        blamed = next((name for name, value in parts if self._fails(value)), "the target")
        reason = "it is nested too deep, or holds itself" if isinstance(error, RecursionError) else str(error)
        remedy = "use plain values, an enum or a dataclass, or make the value an attribute of the module"
        if blamed == "the target":
            remedy = _NAMELESS_REMEDY
        return DocumentError(f"cannot write down {blamed} of node {node.name!r} ({node.op}): {reason}; {remedy}")

    def _fails(self, value: Any) -> bool:
        try:
            self._texts.text(value)
        except (DocumentError, RecursionError):
            return True
        return False

    def _called_modules(self) -> dict[str, CalledModule]:
        """Find the modules that run as part of this graph: called, or handed to an operator that calls them."""
        called: dict[str, CalledModule] = {}
        for node, op in zip(self._nodes, self._ops, strict=True):
            if op != "call_module" and op != "get_attr":
                continue
            path = node.target
            if path not in called:
                module = self._attribute(path)
                if op == "call_module" or isinstance(module, torch.nn.Module):
                    traits = traits_of(type(module))
                    is_layer = traits.is_layer and "graph" not in module.__dict__  # the ordinary case
                    graph = None if is_layer else self._document_of(path, module)
                    called[path] = CalledModule(path, module, traits, graph)
        return called

    def _document_of(self, path: str, module: Any) -> GraphDocument | None:
        """Document a module that is itself a graph, or that holds the graph which a backend was given."""
        if is_delegate(module):
            module = delegated_graph(module)
        if not is_graph_module(module):
            return None
        return _DocumentBuilder(module, self._options, self._graphs, (*self._place, path)).document()

    def _attribute(self, path: str) -> Any:
        try:
            return self._attributes.at(path)
        except AttributeError:
            reader = next((node.name for node in self._nodes if node.target == path), path)
            self._raise_error_of_property(path, reader)
            raise DocumentError(
                f"cannot write down node {reader!r}: the graph's module has no attribute {path!r}; "
                "add it to the module, or erase the node"
            ) from None

    def _raise_error_of_property(self, path: str, reader: str) -> None:
        """Raise DocumentError if a path ends at a property that is there and raises AttributeError itself."""
        parent, _, name = path.rpartition(".")
        owner = self._attribute(parent)
        own = getattr(type(owner), name, None)
        if isinstance(own, property) and own.fget is not None:
            try:
                own.fget(owner)
            except AttributeError as error:
                raise DocumentError(
                    f"cannot write down node {reader!r}: the property {name!r} of {type(owner).__name__} raised "
                    f"AttributeError: {error}"
                ) from error

    def _module_records(self) -> list[ModuleRecord]:
        """Describe called modules and the modules inside them, in the order of the calls."""
        records: dict[str, ModuleRecord] = {}
        first_paths: dict[int, str] = {}
        for path, module, traits, graph in self._called.values():
            first = first_paths.setdefault(id(module), path)
            if graph is not None or (not traits.is_layer and is_delegate(module)):
                records[path] = self._graph_record(path, module, first, graph)
                continue
            if path not in records:
                records[path] = self._record(path, module, traits, first)
            if module._modules or not traits.is_layer:
                self._add_parts(path, module, records, first_paths)
        return list(records.values())

    def _add_parts(
        self, leaf_path: str, leaf: torch.nn.Module, records: dict[str, ModuleRecord], first_paths: dict[int, str]
    ) -> None:
        """Describe what is inside a module that runs as one node, graphs in full."""
        told_by_graphs: tuple[str, ...] = ()
        for path, module in parts_of(leaf_path, leaf):
            if path.startswith(told_by_graphs) or (path in records and path != leaf_path):
                continue
            first = first_paths.setdefault(id(module), path)
            if path != leaf_path and (is_delegate(module) or is_graph_module(module)):
                told_by_graphs += (f"{path}.",)
                records[path] = self._graph_record(
                    path, module, first, self._document_of(path, module) if first == path else None
                )
                continue
            if path != leaf_path:
                records[path] = self._record(path, module, traits_of(type(module)), first)
            for place, inner in graphs_in_attributes(path, module):
                if any(inner is outer for outer in self._outer_modules()):
                    continue  # a way back up, which has no end
                first = first_paths.setdefault(id(inner), place)
                records[place] = self._graph_record(
                    place, inner, first, self._document_of(place, inner) if first == place else None
                )

    def _outer_modules(self) -> list[Any]:
        """List the modules whose graphs this one is in, and its own."""
        return [module for place, (_, module) in self._graphs.items() if self._place[: len(place)] == place]

    def _record(self, path: str, module: torch.nn.Module, traits: ModuleTraits, first: str) -> ModuleRecord:
        training = None if traits.is_inert else training_flag(module)
        config = module_config(module, self._texts.text, traits)
        if module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module):
            config += self._hooks(module)
        same_as = None if first == path else first
        return tuple.__new__(ModuleRecord, (path, traits.kind, config, training, same_as, None, None))  # as NodeRecord

    def _graph_record(
        self, path: str, module: torch.nn.Module, first: str, graph: GraphDocument | None
    ) -> ModuleRecord:
        kind, config = GRAPH_MODULE, self._hooks(module)
        if is_delegate(module):
            kind, config = traits_of(type(module)).kind, delegate_config(module, self._texts) + config
        if first != path:
            return ModuleRecord(path, kind, config, same_as=first)
        return ModuleRecord(path, kind, config, graph=graph)

    def _hooks(self, module: torch.nn.Module) -> tuple[tuple[str, str], ...]:
        return hook_config(module, self._texts.names.name)


def _changed_paths(graph: Any, nodes: Sequence[NodeRecord]) -> set[str]:
    """Return the paths of tensors that a graph or its trace writes, and of modules that update their state."""
    found = {
        each[1] for each in map(_WRITTEN_BY_TRACE.match, getattr(getattr(graph, "guards", ()), "notes", ())) if each
    }
    found |= {node.target for node in nodes if node.op == "call_module" and "state" in node.effects}
    written = {text.removeprefix("write %") for node in nodes for text in node.effects if text.startswith("write %")}
    return found | {node.target for node in nodes if node.op == "get_attr" and node.name in written}


def _specialisation_notes(graph: Any, nodes: Sequence[Any]) -> tuple[str, ...]:
    """Describe guards by condition, module, function and source text, and leaves by the reason; without places."""
    notes = []
    for guard in getattr(graph, "guards", ()):
        where = [f"in module {guard.module_path}"] if guard.module_path else []
        where += [f"function {guard.function.rpartition('.')[2]}"] if guard.function else []
        where += [guard.source] if guard.source else []
        kind = "assumed" if guard.is_assumed else "guard"
        notes.append(f"{kind}: {guard.expression}" + (f" ({', '.join(where)})" if where else ""))
    notes += [f"note: {note}" for note in getattr(getattr(graph, "guards", ()), "notes", ())]
    for node in nodes:
        if unread_frame(node) is not None:  # no tracer wrote anything there
            continue
        reason = node.meta.get("leaf_reason")
        if isinstance(reason, str):
            notes.append(f"leaf: {node.target}: {reason}")
    return tuple(dict.fromkeys(notes))


def _by_block(records: Sequence[StateRecord]) -> tuple[StateRecord, ...]:
    """Put the tensors of one numbered module together, because the text of a golden folds tensors that stand together.

    Tensors that a graph reads itself come before those that it reads through modules, and would split each block.
    """
    blocks: defaultdict[str, list[StateRecord]] = defaultdict(list)
    for record in records:
        blocks[_block_of(record.path)].append(record)
    return tuple([record for block in blocks.values() for record in block])


@functools.lru_cache(maxsize=16_384)
def _block_of(path: str) -> str:
    """Return the outermost numbered path of the module that owns a tensor; "" without a number."""
    return next(iter(numbered_prefixes(path.rpartition(".")[0])), "")


def _of_the_user(metadata: Any) -> Any:
    """Return metadata without the keys that Dynamo adds, depending on earlier traces."""
    if type(metadata) is not dict or not any(str(key).startswith(_OF_DYNAMO) for key in metadata):
        return metadata
    return {key: value for key, value in metadata.items() if not str(key).startswith(_OF_DYNAMO)}


def _earlier(other: Any, own: int, positions: Mapping[Any, int], references: Mapping[Any, str]) -> str:
    """Write a reference in a node's metadata."""
    if positions.get(other, len(positions)) > own:
        raise DocumentError(f"it refers to {other.name!r}, which does not come before the node")
    return "this" if positions[other] == own else references[other]


def _check_metadata(asked: Sequence[str], document: GraphDocument, nodes: Iterable[Any]) -> None:
    """Refuse metadata that no node has, here or in a nested graph: its name is most likely misspelt."""
    if not asked:
        return
    missing = set(asked).difference(key for each in graphs_of(document) for node in each.nodes for key, _ in node.meta)
    if missing:
        known = sorted({str(key) for node in nodes for key in node.meta})
        raise DocumentError(
            f"meta: no node has the metadata {', '.join(map(repr, sorted(missing)))}; "
            f"nodes of this graph have {', '.join(known) or 'none'}"
        )
