"""Passes that change a copy of a graph module and report: the given module stays as it is."""

from __future__ import annotations

import abc
import copy
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import nn
from typing_extensions import Self

from fxcore.errors import PassArgumentError
from fxcore.graph import Graph
from fxcore.graph_module import GraphModule
from fxcore.node_data.attribute_paths import has_attribute
from fxcore.passes.infra.pass_base import PassBase, PassResult
from fxcore.state.containers import REGISTRIES

# Attributes that torch.export's checks of inputs read.
_READ_BY_CHECKS = ("_in_spec", "_out_spec")


def check_graph_module(gm: object) -> None:
    """Raise PassArgumentError unless `gm` is a graph module of fxcore."""
    if isinstance(gm, GraphModule):
        return
    kind = type(gm)
    what = f"a {kind.__module__}.{kind.__qualname__}"
    if any(base.__module__.startswith("torch.fx.") for base in kind.__mro__):
        remedy = "give the pass to fxcore.interop.on_torch_graphs, or the graph to fxcore.interop.from_torch"
    else:
        remedy = "trace it first: fxcore.symbolic_trace(model)"
    raise PassArgumentError(f"this pass takes a graph module of fxcore, and was given {what}; {remedy}")


def working_copy(gm: GraphModule) -> GraphModule:
    """Return a module with a copy of the graph of `gm`; layers, parameters and buffers are shared, not copied.

    Modules that only hold other modules are copied, so that a pass can replace a layer. Raises PassArgumentError for
    anything but a graph module of fxcore.
    """
    check_graph_module(gm)
    return _made(gm, copy.deepcopy(gm.graph))


def rebuilt(gm: GraphModule) -> GraphModule:
    """Return a module that takes over the graph of `gm`, with only the attributes that the graph refers to."""
    # A trace with an example reads weights that nobody uses, and the pass may have replaced their layer.
    for node in gm.graph.find_nodes(op="get_attr"):
        if not node.users and not has_attribute(gm, str(node.target)):
            gm.graph.erase_node(node)
    return _made(gm, gm.graph)


def _made(gm: GraphModule, graph: Graph) -> GraphModule:
    made = GraphModule(gm, graph, type(gm).__name__)
    made.meta = dict(gm.meta)
    keep_hooks(made, gm)
    return made


def keep_hooks(made: GraphModule, source: GraphModule) -> None:
    """Let calls of `made` run the hooks of `source`, with the attributes that these may read.

    The checks of inputs of an exported program are such a hook.
    """
    for name, value in vars(source).items():
        if REGISTRIES.get(name) == "hooks":
            vars(made)[name] = value.copy()
        elif name in _READ_BY_CHECKS or not (name.startswith("_") or callable(value) or torch.is_tensor(value)):
            vars(made).setdefault(name, value)


def free_name(root: nn.Module, wish: str) -> str:
    """Return `wish` as an identifier, with a number if `root` has an attribute of that name."""
    stem = name = re.sub(r"\W+", "_", wish)
    number = 0
    while hasattr(root, name):
        number += 1
        name = f"{stem}_{number}"
    return name


class Left(NamedTuple):
    """A candidate that a pass left as it was, by the path of its module or the name of its node, and the reason."""

    name: str
    reason: str

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


@dataclass(frozen=True)
class Report:
    """The changes of a pass, and the candidates that it left as they were."""

    changed: tuple[Any, ...] = ()
    left: tuple[Left, ...] = ()
    titles: ClassVar[tuple[str, str]] = ("changed", "left alone")

    @classmethod
    def of(cls, changed: Iterable[Any], reasons: Mapping[str, str], *more: Any) -> Self:
        """Return a report of changes, and of the reasons to leave other candidates, by their names."""
        return cls(tuple(changed), tuple([Left(*item) for item in reasons.items()]), *more)

    def __str__(self) -> str:
        lines = []
        for title, items in zip(self.titles, (self.changed, self.left), strict=True):
            lines += [f"{title} {len(items)}", *(f"  {each}" for each in items)]
        return "\n".join(lines)


class ReportedResult(PassResult):
    """A PassResult with a report. The report is no item, so that the result unpacks into two items."""

    report: Report

    def __new__(cls, graph_module: nn.Module, modified: bool, report: Report) -> ReportedResult:
        """Make a result."""
        made = super().__new__(cls, graph_module, modified)
        made.report = report
        return made


# The changes of a pass, and the reason to leave each other candidate, by its name.
Changes = tuple[Sequence[Any], Mapping[str, str]]


class RewritingPass(PassBase):
    """A pass that changes a working copy, and leaves the given module as it is. Subclasses write `rewrite`."""

    report_kind: ClassVar[type[Report]] = Report

    def call(self, graph_module: GraphModule) -> ReportedResult:
        """Return a new module, or `graph_module` itself if nothing changed."""
        made = working_copy(graph_module)
        report = self.report_on(made)
        is_changed = bool(report.changed)
        return ReportedResult(rebuilt(made) if is_changed else graph_module, is_changed, report)

    def report_on(self, made: GraphModule) -> Report:
        """Change `made`, and report."""
        changes = self.rewrite(made)
        if not isinstance(changes, tuple):
            changes = [type(self).__name__] * changes, {}
        return self.report_kind.of(*changes)

    @abc.abstractmethod
    def rewrite(self, made: GraphModule) -> bool | Changes:
        """Change `made`; return the changes and the reasons to leave other candidates, or whether anything changed."""
