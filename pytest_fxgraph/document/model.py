"""A graph as plain data: what a golden file holds and what comparing reads. Knows neither torch nor fxcore.

All values are texts that are the same in every run, process and torch version. Inside `args`, `kwargs` and
`module.config` a reference to another node is written `%name`; everything else is a literal (see `literals.py`), in
which `%` occurs only within quotes.

Records are NamedTuples: a frozen dataclass takes four times as long to make, and a golden has hundreds of records that
each test makes anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from pytest_fxgraph.document.costs import CostBlock
from pytest_fxgraph.document.literals import rename_references

Pairs = tuple[tuple[str, str], ...]

FORMAT = 3  # of golden files; any other is refused
MOST_BYTES = 256 * 1024 * 1024  # of a golden file
PATCHED_FORWARD = "patched forward"  # of `config`, as the next
HOOK_KEYS = ("forward pre-hooks", "forward hooks")  # of `config`; no parameter or attribute can have these names
RANGE_NOTE = "range: "  # begins the notes on exported dimensions
MOST_RECORDS = 300_000  # nodes, modules and tensors of a golden; 100,000 nodes of blocks with layers are 171,414
# Beginnings of the notes that a level compares, and of the note that names one of several programs.
_NOTES_AT_LEVEL = {
    "cost": ("program: ",),
    "breaks": ("program: ", "frontend: ", "break: ", "recompile: ", "skipped: ", "fallback: "),
    "kernels": ("program: ", "frontend: ", "kernel: "),
}


class YamlDataError(Exception):
    """A text is refused: why, and at which line if that is known. Stands here because a match imports no YAML."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line


class NodeRecord(NamedTuple):
    """One node of a graph, in the order of execution."""

    name: str  # as the graph has it; level `structure` compares up to renaming
    op: str  # one of FX's six opcodes
    target: str  # "torch.relu", "operator.add", "aten.add.Tensor", a module path, a method or attribute name
    args: tuple[str, ...] = ()  # one text an argument: "%x", "(1, 1)", "[%a, %b]", "1e-05", "torch.float32"
    kwargs: tuple[tuple[str, str], ...] = ()  # in the order of the call
    value: str | None = None  # "float32[2, 3]", "(float32[2], int64[])": only where example inputs were given
    # What keeps this node in its place: "random", "state", "io", "call", "collective", "write %x", "read %x",
    # where %x names the first node of everything that may share storage with it.
    effects: tuple[str, ...] = ()
    scope: str | None = None  # path of the module whose forward made it; tells the reader where, never compared
    source: str | None = None  # "model.py:12: x = x + 1"; known for a graph just traced, never written or compared
    meta: tuple[tuple[str, str], ...] = ()  # metadata that the test asked for by name
    name_from: str | None = None  # of an input whose name nobody chose: "position" or "source"


class ModuleRecord(NamedTuple):
    """A module that the graph calls as one node, or one inside such a module."""

    path: str  # in the model: "encoder.layers.0"
    kind: str  # qualified class name: "torch.nn.Conv2d"
    config: tuple[tuple[str, str], ...] = ()  # constructor parameters by name, as literals
    training: bool | None = None  # only where it changes what the module computes
    same_as: str | None = None  # path of the first module that is this very object
    graph: GraphDocument | None = None  # for a module that is itself a graph
    name_from: str | None = None  # "capture", where its path was made by what captured the graph


class StateRecord(NamedTuple):
    """A parameter, buffer or constant tensor that the graph reads, itself or through a module it calls."""

    path: str  # in the model: "encoder.weight"
    kind: str  # "parameter", "buffer", "constant"
    value: str  # "float32[5, 4]"
    requires_grad: bool = False  # of a parameter
    persistent: bool = True  # whether a buffer is part of the state dict
    same_as: str | None = None  # path of the first tensor that is this very object
    # Of constants: exact values, or digest and statistics. Of buffers outside the state dict: floats are rounded.
    content: str | None = None
    storage: str | None = None  # where it overlaps another tensor: "decoder.weight from byte 64"
    name_from: str | None = None  # "lifting", where a tracer met it in the code and named it

    @property
    def is_computed(self) -> bool:
        """Whether the model's code computes the tensor anew in each process: a buffer outside the state dict."""
        return self.kind == "buffer" and not self.persistent


@dataclass(frozen=True)
class GraphDocument:
    """Everything that a golden file holds about one graph."""

    nodes: tuple[NodeRecord, ...]  # in the order of execution
    modules: tuple[ModuleRecord, ...] = ()  # those that nodes call
    state: tuple[StateRecord, ...] = ()  # what nodes and modules read
    code: str = ""  # as generated; "" where the golden does not hold it
    torch_version: str | None = field(default=None, compare=False)  # known for a fresh graph, never written
    notes: tuple[str, ...] = ()  # specialisations and other facts that hold for the whole graph
    symbols: tuple[str, ...] = ()  # names of unknown sizes, "s0", in values, arguments and notes; of the outermost only
    cost: CostBlock | None = None  # only where the level is `cost`; of the outermost only
    # Lines of the user's code by note, "model.py:12: x.item()", and Inductor's reasons to keep kernels apart.
    # Known for a fresh capture, never written or compared.
    places: Mapping[str, str] = field(default_factory=dict, compare=False)
    # Written last for a comparison at level `exact`: an update leaves names as they were traced. Never compared.
    keeps_traced_names: bool = field(default=False, compare=False)


def recorded_at(document: GraphDocument, level: str) -> GraphDocument:
    """Return the facts that a golden of this level holds: costs, breaks or kernels alone, or the whole document."""
    beginnings = _NOTES_AT_LEVEL.get(level)
    if beginnings is None:
        return document
    notes = tuple([note for note in document.notes if note.startswith(beginnings)])
    return replace(document, nodes=(), modules=(), state=(), code="", symbols=(), notes=notes)


def with_texts(node: NodeRecord, change: Callable[[str], str]) -> NodeRecord:
    """Return a node whose arguments, keyword arguments and metadata went through a function."""
    return node._replace(
        args=tuple(map(change, node.args)), kwargs=_changed(node.kwargs, change), meta=_changed(node.meta, change)
    )


def texts_of(node: NodeRecord) -> list[str]:
    """List a node's value, if it is known, its arguments and its keyword arguments."""
    return [text for text in (node.value, *node.args, *dict(node.kwargs).values()) if text is not None]


def _changed(pairs: Sequence[tuple[str, str]], change: Callable[[str], str]) -> Pairs:
    return tuple([(key, change(text)) for key, text in pairs])


def with_inner_graphs(document: GraphDocument, change: Callable[[GraphDocument], GraphDocument]) -> GraphDocument:
    """Return a document whose inner graphs, one level down, went through a function."""
    if all(module.graph is None for module in document.modules):
        return document
    modules = [
        module if module.graph is None else module._replace(graph=change(module.graph)) for module in document.modules
    ]
    return replace(document, modules=tuple(modules))


def without_computed_contents(document: GraphDocument) -> GraphDocument:
    """Return a document without the contents of buffers outside the state dict, as older goldens hold none."""
    state = tuple([record._replace(content=None) if record.is_computed else record for record in document.state])
    return with_inner_graphs(replace(document, state=state), without_computed_contents)


def without_code(document: GraphDocument) -> GraphDocument:
    """Return a document without its code and the code of graphs inside it."""
    return with_inner_graphs(replace(document, code=""), without_code)


def graphs_of(document: GraphDocument) -> Iterator[GraphDocument]:
    """Yield a document and all graphs inside its modules, at any depth."""
    yield document
    for module in document.modules:
        if module.graph is not None:
            yield from graphs_of(module.graph)


def with_references(node: NodeRecord, names: Mapping[str, str], **changed: Any) -> NodeRecord:
    """Return a node that names other nodes by other names, and with other changed fields; its own name stays."""
    return node._replace(
        args=tuple([rename_references(text, names) for text in node.args]),
        kwargs=tuple([(key, rename_references(text, names)) for key, text in node.kwargs]) if node.kwargs else (),
        effects=tuple([rename_references(text, names) for text in node.effects]) if node.effects else (),
        meta=tuple([(key, rename_references(text, names)) for key, text in node.meta]) if node.meta else (),
        **changed,
    )
