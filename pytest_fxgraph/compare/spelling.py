"""One spelling for what can be written as a function, a method, a Python operator or a module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pytest_fxgraph.compare.spelling_table import SpelledTable, Spelling, spelled_table
from pytest_fxgraph.document.graph_document import GraphDocument, ModuleRecord, NodeRecord


def with_one_spelling(document: GraphDocument) -> GraphDocument:
    """Give a document in which `x.relu()`, `torch.relu(x)`, `F.relu(x)` and `nn.ReLU()` are one and the same."""
    table = spelled_table()
    modules = {module.path: module for module in document.modules}
    nodes = tuple(_spelled(node, modules, table) for node in document.nodes)
    replaced = {
        node.target for node, other in zip(document.nodes, nodes, strict=True) if node.op == "call_module" != other.op
    }
    kept = tuple(
        replace(module, graph=module.graph and with_one_spelling(module.graph))
        for module in document.modules
        if module.path not in replaced
    )
    return replace(document, nodes=nodes, modules=kept)


def _spelled(node: NodeRecord, modules: Mapping[str, ModuleRecord], table: SpelledTable) -> NodeRecord:
    if node.op == "call_function":
        return _respelled(node, table.functions.get(node.target), (), table)
    if node.op == "call_method":
        return _respelled(node, table.methods.get(node.target), (), table)
    module = modules.get(node.target) if node.op == "call_module" else None
    if module is None or len(node.args) != 1 or node.kwargs:
        return node
    spelling = table.modules.get(module.kind)
    if spelling is None or not _is_understood(dict(module.config), spelling, table):
        return node
    return _respelled(node, Spelling(spelling.operator, ("input",)), module.config, table)


def _is_understood(config: Mapping[str, str], spelling: Spelling, table: SpelledTable) -> bool:
    """Tell whether a configuration says all that the operator asks for, and nothing else, which may mean anything.

    A document leaves unsaid what a constructor has as None or False by default; the operator must agree.
    """
    unsaid = set(spelling.parameters) - config.keys()
    agrees = all(table.default(spelling.operator, name) in ("None", "False") for name in unsaid)
    return agrees and config.keys() <= set(spelling.parameters)


def _respelled(
    node: NodeRecord, spelling: Spelling | None, more: Sequence[tuple[str, str]], table: SpelledTable
) -> NodeRecord:
    """Write a call with the operator's name, its input, and by keyword what is not the default."""
    if spelling is None or len(node.args) > len(spelling.parameters):
        return node
    written = dict(zip(spelling.parameters, node.args, strict=False))
    keywords = [*node.kwargs, *more]
    if not written.keys().isdisjoint(keyword for keyword, _ in keywords):
        return node
    written.update(keywords)
    first = written.pop("input", None)
    if first is None or (not more and not written.keys() <= set(spelling.parameters)):
        return node
    kwargs = [(name, text) for name, text in sorted(written.items()) if text != table.default(spelling.operator, name)]
    return _with_operands(node, f"torch.{spelling.operator}", first, kwargs)


def _with_operands(node: NodeRecord, target: str, first: str, kwargs: Sequence[tuple[str, str]]) -> NodeRecord:
    """Keep the second operand positional, so that what is commutative is still seen to be."""
    args = [first, *(text for keyword, text in kwargs if keyword == "other")]
    rest = tuple((keyword, text) for keyword, text in kwargs if keyword != "other")
    return replace(node, op="call_function", target=target, args=tuple(args), kwargs=rest)
