"""Names that an update keeps: those of the golden, for each node that the comparison pairs with one of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from fxcore.node_data.namespace import Namespace
from pytest_fxgraph.compare.alignment import align
from pytest_fxgraph.compare.expected_terms import in_expected_terms
from pytest_fxgraph.compare.graph_index import graph_index_of
from pytest_fxgraph.compare.isomorphism import Alignment
from pytest_fxgraph.document.generated_code import Graphs, under_names_of
from pytest_fxgraph.document.model import GraphDocument, NodeRecord
from pytest_fxgraph.document.node_names import rename_nodes

# The code of a graph reaches its module by this name.
_TAKEN = frozenset({"self"})
_NUMBER = re.compile(r"_\d+\Z")


def document_after(golden: GraphDocument, obtained: GraphDocument, graphs: Graphs, level: str) -> GraphDocument:
    """Return what replaces a golden that no longer matches at a level.

    Level `exact` writes names as they were traced, and so does every other into a golden that was last written for it.
    """
    if level == "exact" or golden.keeps_traced_names:
        return replace(obtained, keeps_traced_names=True)
    named = with_kept_names(golden, in_expected_terms(golden, obtained))
    return under_names_of(obtained, named, graphs)


def with_kept_names(golden: GraphDocument, obtained: GraphDocument) -> GraphDocument:
    """Return a document, and those inside it, with the names of a golden; the code stays as it is.

    A node whose partner in the golden has the same operator takes the partner's name. Any other node keeps its own
    name, or gets the next that is free.
    """
    graphs = {module.path: module.graph for module in golden.modules if module.graph is not None}
    renamed = rename_nodes(obtained, _names(align(graph_index_of(golden), graph_index_of(obtained))))
    modules = [
        module
        if module.graph is None or module.path not in graphs
        else module._replace(graph=with_kept_names(graphs[module.path], module.graph))
        for module in obtained.modules
    ]
    return replace(renamed, modules=tuple(modules))


def _names(alignment: Alignment) -> dict[str, str]:
    nodes, partners = alignment.obtained.nodes, alignment.expected_of
    wanted = {
        node.name: alignment.expected.nodes[partner]
        for node, partner in zip(nodes, partners, strict=True)
        if partner >= 0
    }
    names = _names_of_inputs(nodes, wanted)
    # Generated code has parameters by these names, whatever the nodes are called.
    taken = {*_TAKEN, *names.values(), *map(_parameter, filter(_is_input, nodes))}
    for node in nodes:
        kept = wanted.get(node.name)
        if node.name in names or kept is None or kept.name in taken:
            continue
        if _has_same_operator(node, kept) and _is_legal(kept.name):
            names[node.name] = kept.name
            taken.add(kept.name)
    namespace = Namespace()
    for name in names.values():
        namespace.create_name(name, None)
    for node in nodes:
        if node.name not in names:
            names[node.name] = _free_name(node.name, namespace, taken)
    return names


def _names_of_inputs(nodes: tuple[NodeRecord, ...], wanted: Mapping[str, NodeRecord]) -> dict[str, str]:
    """Name the inputs: they are the signature, so only one of the same parameter lends its name."""
    inputs = [node for node in nodes if _is_input(node)]
    names = {node.name: node.name for node in inputs}
    kept = dict(names)
    for node in inputs:
        expected = wanted.get(node.name)
        if expected is not None and expected.target == node.target and _is_legal(expected.name):
            kept[node.name] = expected.name
    others = {_parameter(node) for node in inputs if kept[node.name] != _parameter(node)}
    is_possible = len(set(kept.values())) == len(kept) and others.isdisjoint(kept.values())
    return kept if is_possible else names


def _has_same_operator(node: NodeRecord, kept: NodeRecord) -> bool:
    """Return whether the golden's name still tells the operator: `relu_1` of a method serves a function `relu`, too."""
    if node.op == kept.op and (node.target == kept.target or node.op in ("placeholder", "output")):
        return True
    return _NUMBER.sub("", node.name) == _NUMBER.sub("", kept.name)


def _is_input(node: NodeRecord) -> bool:
    return node.op == "placeholder"


def _parameter(node: NodeRecord) -> str:
    return node.target.replace("*", "")


def _is_legal(name: str) -> bool:
    """Tell whether a golden's name, which anybody may have written, can stand in code: no keyword, no builtin."""
    return name not in _TAKEN and Namespace().create_name(name, None) == name


def _free_name(name: str, namespace: Namespace, taken: set[str]) -> str:
    free = name
    while free in taken:
        free = namespace.create_name(name, None)
    taken.add(free)
    return free
