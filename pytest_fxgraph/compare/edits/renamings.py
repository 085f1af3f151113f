"""Modules and tensors under another name, and the keys of the state dict that change with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pytest_fxgraph.compare.difference import Change
from pytest_fxgraph.compare.edits.compared_graph import ComparedGraph, Occurrence
from pytest_fxgraph.compare.edits.operator_words import outermost_block, relative_path
from pytest_fxgraph.compare.graph_index import GraphIndex

_MOST_KEYS = 2


def renamed_paths(graph: ComparedGraph) -> Iterator[Occurrence]:
    """Find called modules and read tensors with equal records under two paths."""
    found: dict[tuple[str, ...], dict[tuple[str, str, str], list[tuple[int, int]]]] = {}
    kept = _kept_paths(graph)
    for partner, position in graph.replaced.items():
        node, other = graph.expected.nodes[position], graph.obtained.nodes[partner]
        is_path = node.op == other.op and node.op in ("call_module", "get_attr")
        if is_path and kept.isdisjoint((node.target, other.target)) and _is_alike(graph, node.target, other.target):
            renaming = _renaming(node.target, other.target)
            if not renaming[1].isdecimal() and _is_known(graph.obtained, node.target, graph.expected, other.target):
                continue
            found.setdefault(_group(renaming), {}).setdefault(renaming, []).append((position, partner))
    for renamings in found.values():
        yield _occurrence(graph, renamings)


def _kept_paths(graph: ComparedGraph) -> set[str]:
    """Return the paths that a pair of nodes calls or reads on both sides."""
    if not graph.replaced:
        return set()
    nodes, others = graph.expected.nodes, graph.obtained.nodes
    pairs = [(nodes[position], others[partner]) for position, partner in graph.alignment.pairs()]
    return {
        node.target for node, other in pairs if node.op in ("call_module", "get_attr") and node.target == other.target
    }


def _is_known(index: GraphIndex, path: str, other: GraphIndex, other_path: str) -> bool:
    """Return whether each graph has the path of the other one, so that two modules changed places in the graph."""
    return (path in index.modules or path in index.state) and (other_path in other.modules or other_path in other.state)


def _group(renaming: tuple[str, str, str]) -> tuple[str, ...]:
    """Put renamings together: inside of one block, or of the items of one list by equally many places."""
    around, name, other = renaming
    if name.isdecimal() and other.isdecimal():
        return around, str(int(other) - int(name))
    block = outermost_block(around)
    return (block,) if block else renaming


def _is_alike(graph: ComparedGraph, path: str, other: str) -> bool:
    """Return whether two paths hold equal modules or tensors."""
    module, obtained_module = graph.expected.modules.get(path), graph.obtained.modules.get(other)
    if module is not None and obtained_module is not None:
        return module[1:4] == obtained_module[1:4]  # kind, config and training
    tensor, obtained_tensor = graph.expected.state.get(path), graph.obtained.state.get(other)
    if tensor is None or obtained_tensor is None:
        return False
    return (tensor.kind, tensor.value) == (obtained_tensor.kind, obtained_tensor.value)


def _renaming(path: str, other: str) -> tuple[str, str, str]:
    """Split two paths into their common beginning and the parts that differ; a common end is left out.

    A part is empty if one path is the end of the other.
    """
    parts, others = path.split("."), other.split(".")
    if path.endswith(f".{other}"):
        return "", ".".join(parts[: -len(others)]), ""
    if other.endswith(f".{path}"):
        return "", "", ".".join(others[: -len(parts)])
    while parts[-1] == others[-1]:  # ends, because neither path is the end of the other
        parts.pop()
        others.pop()
    around: list[str] = []
    while len(parts) > 1 and len(others) > 1 and parts[0] == others[0]:
        around.append(parts.pop(0))
        others.pop(0)
    return ".".join(around), ".".join(parts), ".".join(others)


def _occurrence(
    graph: ComparedGraph, renamings: Mapping[tuple[str, str, str], Sequence[tuple[int, int]]]
) -> Occurrence:
    around, name, other_name = next(iter(renamings))
    if len(renamings) > 1 and not name.isdecimal():
        inside, around = around, outermost_block(around)
        name, other_name = (relative_path(_joined(inside, each), around) for each in (name, other_name))
    pairs = [pair for each in renamings.values() for pair in each]
    changes = [change for _, partner in pairs for change in graph.changed.get(partner, ()) if change.field == "target"]
    changes += _exchanged_modules(graph, pairs)
    keys = []
    for before, after in _renamed_prefixes(graph, renamings):
        own, lost = _renamed_state(graph, before, after)
        changes += own
        keys += [relative_path(path, around) for path in lost]
    is_tensor = graph.expected.nodes[pairs[0][0]].op == "get_attr" and _joined(around, name) in graph.expected.state
    noun = graph.expected.state[_joined(around, name)].kind if is_tensor else "module"
    kind = "renamed"
    if name.isdecimal() and other_name.isdecimal():
        kind = "renumbered"
        moves = ", ".join(f"{before} -> {after}" for _, before, after in [*renamings][:_MOST_KEYS])
        dots = ", ..." if len(renamings) > _MOST_KEYS else ""
        text = f"{noun}{'s' if len(renamings) > 1 else ''} renumbered {moves}{dots}"
        key: tuple[str, ...] = (kind, *_group((around, name, other_name))[1:])
    elif not name or not other_name:
        text = f"modules moved {f'out of {name}' if name else f'into {other_name}'}"
        key = (kind, name, other_name)
    else:
        text = f"{noun} renamed {name} -> {other_name}"
        key = (kind, noun, name, other_name)
        if len(renamings) > 1:
            text = f"modules renamed {name} -> {other_name} and {len(renamings) - 1} more"
    if len(keys) > _MOST_KEYS and len(renamings) > 1:
        text += ": checkpoints no longer load"
    elif len(keys) > _MOST_KEYS:
        text += f": checkpoints no longer load ({', '.join(keys[:_MOST_KEYS])} and {len(keys) - _MOST_KEYS} more)"
    elif keys:
        text += f": checkpoints with {', '.join(keys)} no longer load"
    site = graph.site(around, [position for position, _ in pairs], [partner for _, partner in pairs])
    return Occurrence(kind, text, key, site, changes)


def _renamed_prefixes(
    graph: ComparedGraph, renamings: Mapping[tuple[str, str, str], Sequence[tuple[int, int]]]
) -> Iterator[tuple[str, str]]:
    for (around, before, after), pairs in renamings.items():
        if before and after:
            yield _joined(around, before), _joined(around, after)
        else:
            nodes, others = graph.expected.nodes, graph.obtained.nodes
            yield from dict.fromkeys((nodes[position].target, others[partner].target) for position, partner in pairs)


def _exchanged_modules(graph: ComparedGraph, pairs: Sequence[tuple[int, int]]) -> list[Change]:
    """List the changes of modules whose path now has a module of another class, because the modules moved."""
    targets = {graph.expected.nodes[position].target for position, _ in pairs}
    targets |= {graph.obtained.nodes[partner].target for _, partner in pairs}
    modules, others = graph.expected.modules, graph.obtained.modules
    both = [path for path in targets if path in modules and path in others]
    return [
        change for path in both if modules[path].kind != others[path].kind for change in graph.modules.get(path, ())
    ]


def _renamed_state(graph: ComparedGraph, before: str, after: str) -> tuple[list[Change], list[str]]:
    """Return the changes of equal tensors and modules below two paths, and the lost keys of the state dict."""
    come = {
        relative_path(change.where[len(graph.prefix) :], after): change
        for change in graph.of_paths([after])
        if change.action == "added"
    }
    changes, keys = [], []
    for change in graph.of_paths([before]):
        path = change.where[len(graph.prefix) :]
        partner = come.get(relative_path(path, before))
        if change.action == "removed" and partner is not None and partner.obtained == change.expected:
            changes += [change, partner]
            record = graph.expected.state.get(path)
            if record is not None and record.kind != "constant" and record.persistent:
                keys.append(path)
    return changes, keys


def _joined(around: str, name: str) -> str:
    return f"{around}.{name}" if around and name else around or name
