"""Repeated blocks that were added or removed as a whole."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from math import gcd

from pytest_fxgraph.compare.edits.compared_graph import ComparedGraph, Occurrence
from pytest_fxgraph.compare.edits.operator_words import (
    home,
    listed_operators,
    numbered_paths,
    relative_path,
    without_tensors,
)
from pytest_fxgraph.compare.graph_index import GraphIndex
from pytest_fxgraph.grouping import grouped

# Nodes of each block by its path: all nodes of modules below a number.
_Members = Mapping[str, Sequence[int]]
_MOST_NAMED = 3


def changed_blocks(graph: ComparedGraph) -> Iterator[Occurrence]:
    """Find blocks, modules under a number, whose nodes were all added or all removed."""
    if not graph.lone_expected and not graph.lone_obtained:
        return
    members, obtained_members = _members(graph.expected), _members(graph.obtained)
    yield from _lone_blocks(graph, graph.expected, graph.lone_expected, members, obtained_members)
    yield from _lone_blocks(graph, graph.obtained, graph.lone_obtained, obtained_members, members)


def _lone_blocks(
    graph: ComparedGraph, index: GraphIndex, lone: Container[int], members: _Members, others: _Members
) -> Iterator[Occurrence]:
    is_gone = index is graph.expected
    by_parent = _by_parent(_whole(lone, members, others))
    siblings, other_siblings = _by_parent(members), _by_parent(others)
    other_index = graph.obtained if is_gone else graph.expected
    for parent, paths in by_parent.items():
        contents = {path: _content(index, path, members[path]) for path in siblings[parent]}
        kept = Counter(_content(other_index, path, others[path]) for path in other_siblings.get(parent, ()))
        alike = Counter(contents.values())
        lost = Counter(contents[path] for path in paths)
        groups: dict[tuple[tuple[str, str], ...], list[str]] = defaultdict(list)
        for path in paths:
            # One layer of several in a row is no block.
            if len(members[path]) > 1 or len(alike) == 1:
                groups[contents[path]].append(path)
        for content, group in groups.items():
            counts = (alike[content], kept[content])
            count, word = lost[content], "gone" if is_gone else "new"
            named = _named(group)
            text = f"{named} {'is' if count == 1 else 'are'} {word}"
            if not counts[1] and len(alike) == len(kept) == 1:  # the kept blocks have another edit, all of them
                counts = (len(siblings[parent]), len(other_siblings.get(parent, ())))
            if max(counts) > count:
                before, after = counts if is_gone else counts[::-1]
                text += f" ({before} {'equal blocks' if before > 1 else 'block'} -> {after})"
            else:
                noun = "" if named.startswith("block") else "block "
                text = f"{noun}{text}: {listed_operators(index, without_tensors(index, members[group[0]]))}"
            key = ("block", word, " ".join(operator for operator, _ in content))
            for path in group:
                nodes = members[path]
                lone_changes = graph.removed if is_gone else graph.added
                changes = [lone_changes[n] for n in nodes if n in lone_changes]
                action = "removed" if is_gone else "added"
                of_path = graph.of_paths([path])
                changes += [change for change in of_path if change.action == action or path not in others]
                site = graph.site(path, nodes, ()) if is_gone else graph.site(path, (), nodes)
                yield Occurrence("block", text, key, site, changes)


def _named(paths: Sequence[str]) -> str:
    """Name blocks of one parent: `blocks.10 and blocks.11`, `experts.4-7`, `stages.1.2`."""
    parts = paths[0].split(".")
    named = next((n for n in range(len(parts) - 1, -1, -1) if not parts[n].isdecimal()), 0)
    numbers = [int(path.rpartition(".")[2]) for path in paths]
    names = [".".join(path.split(".")[named:]) for path in paths]
    if parts[named].isdecimal():
        names[0] = f"block{'s' if len(names) > 1 else ''} {names[0]}"
    if len(paths) > 2 and numbers == [*range(numbers[0], numbers[0] + len(paths))]:
        return f"{names[0]}-{numbers[-1]}"
    if len(paths) > _MOST_NAMED:
        return f"{', '.join(names[:_MOST_NAMED])} and {len(names) - _MOST_NAMED} more"
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]


def _members(index: GraphIndex) -> dict[str, list[int]]:
    members: dict[str, list[int]] = defaultdict(list)
    for position, node in enumerate(index.nodes):
        for path in numbered_paths(home(node)):
            members[path].append(position)
    return members


def _whole(lone: Container[int], members: _Members, others: _Members) -> list[str]:
    """List the outermost blocks whose nodes are all lone; a block of one node only if the other graph lacks it."""
    whole = {
        path
        for path, nodes in members.items()
        if (len(nodes) > 1 or path not in others) and all(n in lone for n in nodes)
    }
    return [path for path in members if path in whole and whole.isdisjoint([*numbered_paths(path)][:-1])]


def _by_parent(paths: Iterable[str]) -> dict[str, list[str]]:
    return grouped(paths, lambda path: path.rpartition(".")[0])


def _content(index: GraphIndex, path: str, nodes: Sequence[int]) -> tuple[tuple[str, str], ...]:
    """Describe the nodes of a block without its path."""
    return tuple(
        (
            "tensor" if index.nodes[n].op == "get_attr" else index.operator(n),
            relative_path(index.nodes[n].target, path) if index.nodes[n].op in ("call_module", "get_attr") else "",
        )
        for n in nodes
    )


def repeated_runs(graph: ComparedGraph, path: str, calls: Sequence[int], is_added: bool) -> Occurrence | None:
    """Return how often the operators of a module run in a row, if the calls are whole runs; None for other calls."""
    index, other = (graph.obtained, graph.expected) if is_added else (graph.expected, graph.obtained)
    own, others = index.calls_inside.get(path, ()), other.calls_inside.get(path, ())
    if not others or len(own) - len(others) != len(calls):
        return None
    operators, other_operators = [index.operator(n) for n in own], [other.operator(n) for n in others]
    for length in range(2, gcd(len(own), len(others)) + 1):
        counts = len(own) // length, len(others) // length
        run = operators[:length]
        if operators == run * counts[0] and other_operators == run * counts[1]:
            before, after = counts[::-1] if is_added else counts
            text = f"{listed_operators(index, own[:length])} run {before} -> {after} times"
            site = graph.site(path, *([], calls) if is_added else (calls, []))
            return Occurrence("block", text, ("block", "runs", "more" if is_added else "fewer", *run), site, ())
    return None
