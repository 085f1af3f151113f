"""Documents of different age: what only one of them tells is not compared."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace

from pytest_fxgraph.document.model import HOOK_KEYS, RANGE_NOTE, GraphDocument, ModuleRecord, NodeRecord

_PARENTHESES = r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
_LAYOUT = re.compile(rf" (?:channels_last(?:_3d)?|strides={_PARENTHESES})")
# What documents told of users' modules before they told "attributes": numbers, truths, enums and tuples of these.
_OLD_ATTRIBUTE = re.compile(r"(?!complex\(|torch\.|slice\(|device\(|set\(|frozenset\()[-\w.#(), ]+\Z")


def with_facts_of_both(expected: GraphDocument, obtained: GraphDocument) -> tuple[GraphDocument, GraphDocument]:
    """Return both documents without the facts that one of them does not tell, such as the layouts of tensors.

    A golden that an earlier release wrote matches as it did.
    """
    told, obtained_told = frozenset(expected.facts), frozenset(obtained.facts)
    if told == obtained_told:
        return expected, obtained
    obtained, expected = _without(obtained, expected, obtained_told - told)
    return _without(expected, obtained, told - obtained_told)


def _without(telling: GraphDocument, silent: GraphDocument, facts: Set[str]) -> tuple[GraphDocument, GraphDocument]:
    """Return a document without some facts, and the one that does not tell them, which a few concern, too."""
    modules, silent_modules = telling.modules, silent.modules
    if "nested" in facts:
        modules, silent_modules = _without_graphs_in_leaves(modules, silent_modules)
    pairs = {module.path: module for module in silent_modules}
    reduced, graphs = [], {}
    for module in modules:
        other = pairs.get(module.path)
        if module.graph is not None and other is not None and other.graph is not None:
            graph, graphs[module.path] = _without(module.graph, other.graph, facts)
            module = replace(module, graph=graph)
        reduced.append(replace(module, config=tuple(_kept_config(module, other, facts))))
    silent_modules = tuple(
        replace(module, graph=graphs[module.path]) if module.path in graphs else module for module in silent_modules
    )
    notes = tuple(note for note in telling.notes if "ranges" not in facts or not note.startswith(RANGE_NOTE))
    nodes = _with_silent_names(telling.nodes, silent.nodes) if "classes" in facts else telling.nodes
    state = telling.state
    if "layouts" in facts:
        nodes = tuple(replace(node, value=_without_layout(node.value)) for node in nodes)
        state = tuple(replace(record, value=_LAYOUT.sub("", record.value)) for record in state)
    if "views" in facts:
        state = tuple(replace(record, storage=None) for record in state)
    told = tuple(fact for fact in telling.facts if fact not in facts)
    telling = replace(telling, nodes=nodes, modules=tuple(reduced), state=state, notes=notes, facts=told)
    return telling, replace(silent, modules=silent_modules)


def _without_layout(value: str | None) -> str | None:
    return None if value is None else _LAYOUT.sub("", value)


def _kept_config(module: ModuleRecord, other: ModuleRecord | None, facts: Set[str]) -> Iterator[tuple[str, str]]:
    known = dict(other.config) if other is not None else {}
    for name, text in module.config:
        is_hook = name in HOOK_KEYS
        if is_hook and "hooks" in facts:
            continue
        is_new = not is_hook and name not in known and not module.kind.startswith("torch.")
        if is_new and "attributes" in facts and not _OLD_ATTRIBUTE.match(text):
            continue
        yield name, text


def _without_graphs_in_leaves(
    telling: Sequence[ModuleRecord], silent: Sequence[ModuleRecord]
) -> tuple[tuple[ModuleRecord, ...], tuple[ModuleRecord, ...]]:
    """Drop graphs inside of leaf modules, and what stands for them in the other document: modules one by one."""
    with_graph = {module.path for module in silent if module.graph is not None}
    hidden = [module.path for module in telling if module.graph is not None and module.path not in with_graph]
    if not hidden:
        return tuple(telling), tuple(silent)
    below = tuple(f"{path}." for path in hidden)
    kept = [
        tuple(module for module in side if module.path not in hidden and not module.path.startswith(below))
        for side in (telling, silent)
    ]
    return kept[0], kept[1]


def _with_silent_names(nodes: Sequence[NodeRecord], silent: Sequence[NodeRecord]) -> tuple[NodeRecord, ...]:
    """Name inherited class methods by the class that defines them, as the other document does.

    That is `Function.apply` for every autograd.Function, where the telling document names the function's class.
    """
    names, silent_names = ({node.target for node in side if node.op == "call_function"} for side in (nodes, silent))
    by_last_part: dict[str, str] = {}
    for name in sorted(silent_names - names):
        by_last_part.setdefault(name.rpartition(".")[2], name)
    renamed: Mapping[str, str] = {
        name: by_last_part[last]
        for name in names - silent_names
        if "." in name and (last := name.rpartition(".")[2]) in by_last_part and _may_be_method(name)
    }
    if not renamed:
        return tuple(nodes)
    return tuple(
        replace(node, target=renamed[node.target]) if node.op == "call_function" and node.target in renamed else node
        for node in nodes
    )


def _may_be_method(name: str) -> bool:
    """Tell whether the part before the last is the name of a class, which begins with a capital."""
    owner = name.rpartition(".")[0].rpartition(".")[2]
    return owner[:1].isupper() and not name.startswith(("aten.", "torch.", "operator."))
