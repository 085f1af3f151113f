"""A new graph on one screen. The whole graph may be too long for the report of a failed test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice

from pytest_fxgraph.document.model import GraphDocument, NodeRecord
from pytest_fxgraph.document.text_writer import document_lines
from pytest_fxgraph.report.change_text import LONGEST_NAME, clipped
from pytest_fxgraph.report.graph_diff import node_line
from pytest_fxgraph.report.numbered_paths import format_paths, pattern_of
from pytest_fxgraph.report.printable import counted, first_lines, printable, printable_line

MOST_LINES = 20
_MOST_GROUPS = 12
_MOST_INPUTS = 3
_MOST_OPERATORS = 4
_DEEPEST = 3  # names in a module path


def summary_section(document: GraphDocument, *, golden: str) -> str:
    """Return the graph that a golden would hold, in at most MOST_LINES lines: whole if that is enough, else by module.

    The line of a module counts the operators of its nodes. Similar modules with ascending numbers share one line.
    """
    head = f"{printable_line(golden)} would be"
    lines = list(islice(document_lines(replace(document, code="")), MOST_LINES))
    if len(lines) < MOST_LINES:
        return printable("\n".join([head, *lines]))
    counts = [(len(document.nodes), "node"), (len(document.modules), "module"), (len(document.state), "tensor")]
    told = ", ".join(counted(count, word) for count, word in counts if count)
    lines = [f"{head} a graph of {told}", *(f"  {line}" for line in _lines_by_module(document))]
    return printable("\n".join([*lines, "a run with --fx-received writes all of it beside the golden"]))


def _lines_by_module(document: GraphDocument) -> list[str]:
    inputs = [node for node in document.nodes if node.op == "placeholder"]
    lines = first_lines([node_line(node) for node in inputs], _MOST_INPUTS, "and {} more inputs")
    kinds = {module.path: module.kind.rpartition(".")[2] for module in document.modules}
    inner = [node for node in document.nodes if node.op not in ("placeholder", "output")]
    for depth in range(_DEEPEST, -1, -1):
        groups = _grouped(inner, kinds, depth)
        if len(groups) <= _MOST_GROUPS:
            break
    lines += [group.line() for group in groups[:_MOST_GROUPS]]
    return [*lines, *(node_line(node) for node in document.nodes if node.op == "output")]


@dataclass
class _Group:
    """Nodes of one module, or of several similar modules with ascending numbers."""

    paths: list[str]
    operators: Counter[str]  # of one of them

    def line(self) -> str:
        count = self.operators.total()
        each = " each" if len(self.paths) > 1 else ""
        place = f"{clipped(format_paths(self.paths), LONGEST_NAME)}: " if self.paths[0] else ""
        common = [f"{name} x{times}" if times > 1 else name for name, times in self.operators.most_common()]
        more = len(common) - _MOST_OPERATORS
        named = ", ".join(common[:_MOST_OPERATORS]) + (f" and {more} more operators" if more > 0 else "")
        return clipped(f"{place}{counted(count, 'node')}{each}, {named}")


def _path_of(node: NodeRecord) -> str:
    """Return the path of the module that made a node, else the path that the node reads; "" if both are unknown."""
    return node.scope or (node.target if node.op in ("call_module", "get_attr") else "")


def _grouped(nodes: Sequence[NodeRecord], kinds: dict[str, str], depth: int) -> list[_Group]:
    """Group consecutive nodes by the first `depth` names of their module's path."""
    groups: list[_Group] = []
    for path, members in groupby(nodes, lambda node: ".".join(_path_of(node).split(".")[:depth])):
        operators = Counter(
            clipped(kinds.get(node.target, node.target) if node.op == "call_module" else node.target, LONGEST_NAME)
            for node in members
        )
        before = groups[-1] if groups else None
        if before and path and operators == before.operators and pattern_of(path) == pattern_of(before.paths[-1]):
            before.paths.append(path)
        else:
            groups.append(_Group([path], operators))
    return groups
