"""One spelling for all ways to call an operator: `x.relu()`, `torch.relu(x)`, `F.relu(x)` and `nn.ReLU()`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_fxgraph.document.literals import without_references
from pytest_fxgraph.document.model import GraphDocument, ModuleRecord, NodeRecord, with_inner_graphs, with_texts
from pytest_fxgraph.document.operator_table import facts_of_call, operator_table

Facts = Mapping[str, Any]
_INPUT: Mapping[str, str | None] = {"input": None}


def normalized_spelling(document: GraphDocument) -> GraphDocument:
    """Return a document with one spelling for `x.relu()`, `torch.relu(x)`, `F.relu(x)` and `nn.ReLU()`."""
    modules = {module.path: module for module in document.modules}
    nodes = tuple(_normalized(node, modules) for node in document.nodes)
    replaced = {
        node.target for node, other in zip(document.nodes, nodes, strict=True) if node.op == "call_module" != other.op
    }
    kept = tuple(module for module in document.modules if module.path not in replaced)
    return with_inner_graphs(replace(document, nodes=nodes, modules=kept), normalized_spelling)


def are_one_operator(*calls: tuple[NodeRecord, Mapping[str, ModuleRecord]]) -> bool:
    """Return whether nodes, each given with the modules of its graph, are one operator if they read the same values."""
    spellings = set()
    for call, called in calls:
        bare = with_texts(call, without_references)
        spelled = _normalized(bare, called)
        spellings.add((spelled.op, spelled.target, spelled.args, spelled.kwargs))
    return len(spellings) == 1


def _normalized(node: NodeRecord, modules: Mapping[str, ModuleRecord]) -> NodeRecord:
    if node.op != "call_module":
        facts = facts_of_call(node.op, node.target)
        return _respelled(node, facts["operator"], facts["parameters"], ()) if "operator" in facts else node
    module = modules.get(node.target)
    if module is None or len(node.args) != 1 or node.kwargs:
        return node
    facts = operator_table().get(module.kind, {})
    if "operator" not in facts or not _is_understood(dict(module.config), facts["parameters"]):
        return node
    return _respelled(node, facts["operator"], {**_INPUT, **facts["parameters"]}, module.config)


def _is_understood(config: Mapping[str, str], parameters: Mapping[str, str | None]) -> bool:
    """Return whether a configuration has the operator's parameters and no other parameter.

    A document leaves out a constructor's defaults None and False, so these have to be the operator's defaults, too.
    """
    agrees = all(parameters[name] in ("None", "False") for name in parameters.keys() - config.keys())
    return agrees and config.keys() <= parameters.keys()


def _respelled(
    node: NodeRecord, operator: str, parameters: Mapping[str, str | None], config: Sequence[tuple[str, str]]
) -> NodeRecord:
    """Write a call with the operator's name, its input, and keywords for parameters that differ from the default.

    `parameters` are the spelling's own parameters in order, with the texts of their defaults; None for no default.
    """
    written = dict(zip(parameters, node.args, strict=False))
    keywords = [*node.kwargs, *config]
    if len(node.args) > len(parameters) or not written.keys().isdisjoint(keyword for keyword, _ in keywords):
        return node
    written.update(keywords)
    first = written.pop("input", None)
    if first is None or not written.keys() <= parameters.keys():
        return node
    kwargs = [(name, text) for name, text in sorted(written.items()) if text != parameters[name]]
    return _with_operands(node, f"torch.{operator}", first, kwargs)


def _with_operands(node: NodeRecord, target: str, first: str, kwargs: Sequence[tuple[str, str]]) -> NodeRecord:
    """Write the call with its second operand by position, because commutativity looks at positions."""
    args = [first, *(text for keyword, text in kwargs if keyword == "other")]
    rest = tuple((keyword, text) for keyword, text in kwargs if keyword != "other")
    return node._replace(op="call_function", target=target, args=tuple(args), kwargs=rest)
