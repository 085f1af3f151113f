"""Modules and tensors under another name, and the keys of the state dict that change with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_fxgraph.compare.edits.compared_graph import ComparedGraph, Occurrence
from pytest_fxgraph.compare.edits.operator_words import relative_path

_MOST_KEYS = 3


def renamed_paths(graph: ComparedGraph) -> Iterator[Occurrence]:
    """Find called modules and read tensors with equal records under two paths."""
    found: dict[tuple[str, str, str], list[tuple[int, int]]] = {}
    for partner, position in graph.replaced.items():
        node, other = graph.expected.nodes[position], graph.obtained.nodes[partner]
        is_path = node.op == other.op and node.op in ("call_module", "get_attr")
        if is_path and _is_alike(graph, node.target, other.target):
            found.setdefault(_renaming(node.target, other.target), []).append((position, partner))
    for (around, name, other_name), pairs in found.items():
        yield _occurrence(graph, around, name, other_name, pairs)


def _is_alike(graph: ComparedGraph, path: str, other: str) -> bool:
    """Return whether both paths are gone and come, and hold equal modules or tensors."""
    if other in graph.expected.modules or path in graph.obtained.modules:
        return False
    module, obtained_module = graph.expected.modules.get(path), graph.obtained.modules.get(other)
    if module is not None and obtained_module is not None:
        return module[1:4] == obtained_module[1:4]  # kind, config and training
    tensor, obtained_tensor = graph.expected.state.get(path), graph.obtained.state.get(other)
    is_exchanged = path in graph.obtained.state or other in graph.expected.state
    if tensor is None or obtained_tensor is None or is_exchanged:
        return False
    return (tensor.kind, tensor.value) == (obtained_tensor.kind, obtained_tensor.value)


def _renaming(path: str, other: str) -> tuple[str, str, str]:
    """Split two paths into their common beginning and the parts that differ; a common end is left out."""
    parts, others = path.split("."), other.split(".")
    while len(parts) > 1 and len(others) > 1 and parts[-1] == others[-1]:
        parts.pop()
        others.pop()
    around: list[str] = []
    while len(parts) > 1 and len(others) > 1 and parts[0] == others[0]:
        around.append(parts.pop(0))
        others.pop(0)
    return ".".join(around), ".".join(parts), ".".join(others)


def _occurrence(
    graph: ComparedGraph, around: str, name: str, other_name: str, pairs: Sequence[tuple[int, int]]
) -> Occurrence:
    changes = [change for _, partner in pairs for change in graph.changed.get(partner, ()) if change.field == "target"]
    own = [change for change in graph.of_paths([_joined(around, name)]) if change.action == "removed"]
    come = {
        relative_path(change.where[len(graph.prefix) :], _joined(around, other_name)): change
        for change in graph.of_paths([_joined(around, other_name)])
        if change.action == "added"
    }
    keys = []
    for change in own:
        path = change.where[len(graph.prefix) :]
        partner = come.get(relative_path(path, _joined(around, name)))
        if partner is not None and partner.obtained == change.expected:
            changes += [change, partner]
            record = graph.expected.state.get(path)
            if record is not None and record.kind != "constant" and record.persistent:
                keys.append(relative_path(path, around))
    is_tensor = graph.expected.nodes[pairs[0][0]].op == "get_attr" and _joined(around, name) in graph.expected.state
    noun = graph.expected.state[_joined(around, name)].kind if is_tensor else "module"
    text = f"{noun} renamed {name} -> {other_name}"
    if keys:
        more = f" and {len(keys) - _MOST_KEYS} more" if len(keys) > _MOST_KEYS else ""
        text += f": checkpoints with {', '.join(keys[:_MOST_KEYS])}{more} no longer load"
    site = graph.site(around, [position for position, _ in pairs], [partner for _, partner in pairs])
    return Occurrence("renamed", text, ("renamed", noun, name, other_name), site, changes)


def _joined(around: str, name: str) -> str:
    return f"{around}.{name}" if around else name
