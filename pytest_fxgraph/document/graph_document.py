"""A graph as plain data: what a golden file holds and what comparing reads. Knows neither torch nor fxcore.

All values are texts that are the same in every run, process and torch version. Inside `args`, `kwargs` and
`module.config` a reference to another node is written `%name`; everything else is a literal (see `literals.py`), in
which `%` occurs only within quotes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

FORMAT = 1

LEVELS = ("exact", "structure", "ops", "signature", "cost")


@dataclass(frozen=True)
class NodeRecord:
    """One node of a graph, in the order of execution."""

    name: str  # as the graph has it; level `structure` compares up to renaming
    op: str  # one of FX's six opcodes
    target: str  # "torch.relu", "operator.add", "aten.add.Tensor", a module path, a method or attribute name
    args: tuple[str, ...] = ()  # one text an argument: "%x", "(1, 1)", "[%a, %b]", "1e-05", "torch.float32"
    kwargs: tuple[tuple[str, str], ...] = ()  # in the order of the call
    value: str | None = None  # "float32[2, 3]", "(float32[2], int64[])": only where example inputs were given
    # What keeps this node in its place: "random", "state", "io", "call", "write %x", "read %x",
    # where %x names the first node of everything that may share storage with it.
    effects: tuple[str, ...] = ()
    scope: str | None = None  # path of the module whose forward made it; tells the reader where, never compared
    source: str | None = None  # "model.py:12: x = x + 1"; known for a graph just traced, never written or compared


@dataclass(frozen=True)
class ModuleRecord:
    """A module that the graph calls as one node."""

    path: str
    kind: str  # qualified class name: "torch.nn.Conv2d"
    config: tuple[tuple[str, str], ...] = ()  # constructor parameters by name, as literals
    training: bool | None = None  # only where it changes what the module computes
    same_as: str | None = None  # path of the first module that is this very object
    graph: GraphDocument | None = None  # for a module that is itself a graph


@dataclass(frozen=True)
class StateRecord:
    """A parameter, buffer or constant tensor that the graph reads, itself or through a module it calls."""

    path: str
    kind: str  # "parameter", "buffer", "constant"
    value: str  # "float32[5, 4]"
    requires_grad: bool = False
    persistent: bool = True
    same_as: str | None = None  # path of the first tensor that is this very object
    content: str | None = None  # of constants: exact values, or digest and statistics


@dataclass(frozen=True)
class GraphDocument:
    """Everything that a golden file holds about one graph."""

    nodes: tuple[NodeRecord, ...]
    modules: tuple[ModuleRecord, ...] = ()
    state: tuple[StateRecord, ...] = ()
    code: str = ""
    torch_version: str | None = field(default=None, compare=False)  # known for a fresh graph, never written
    notes: tuple[str, ...] = ()  # specialisations and other facts that hold for the whole graph
