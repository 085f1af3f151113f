"""Level `structure` against a slow search over all ways to pair two small graphs."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.document.literals import references, rename_references
from pytest_fxgraph.document.model import GraphDocument, NodeRecord


@st.composite
def small_documents(draw) -> GraphDocument:
    """Draw a graph whose nodes are easily mistaken for each other."""
    nodes = [NodeRecord("x", "placeholder", "x"), NodeRecord("y", "placeholder", "y")]
    for position in range(draw(st.integers(1, 5))):
        names = [node.name for node in nodes]
        args = tuple(f"%{name}" for name in draw(st.lists(st.sampled_from(names), min_size=1, max_size=2)))
        effects = draw(st.sampled_from([(), (), (), ("random",), ("write %x",), ("read %x",)]))
        nodes.append(NodeRecord(f"n{position}", "call_function", draw(st.sampled_from("fg")), args, (), None, effects))
    names = [node.name for node in nodes]
    result = draw(st.lists(st.sampled_from(names), max_size=2))
    nodes.append(NodeRecord("output", "output", "output", (f"({', '.join('%' + name for name in result)})",)))
    return GraphDocument(tuple(nodes))


def rewired(document: GraphDocument, seed: int) -> GraphDocument:
    """Change one argument, one target or the effect of one node, or nothing."""
    source = random.Random(seed)
    nodes = list(document.nodes)
    position = source.randrange(2, len(nodes) - 1)
    what = source.choice(["args", "target", "effects", "nothing"])
    if what == "args":
        nodes[position] = nodes[position]._replace(args=(f"%{nodes[source.randrange(position)].name}",))
    elif what == "target":
        nodes[position] = nodes[position]._replace(target=source.choice("fg"))
    elif what == "effects":
        nodes[position] = nodes[position]._replace(effects=source.choice([(), ("random",), ("write %x",)]))
    return shuffled(replace(document, nodes=tuple(nodes)), seed)


def shuffled(document: GraphDocument, seed: int) -> GraphDocument:
    """Give the nodes in another order that keeps dependencies, under other names."""
    source = random.Random(seed)
    left, order = list(document.nodes), []
    while left:
        known = {node.name for node in order}
        ready = [node for node in left[:-1] or left if set(references(" ".join(node.args))) <= known]
        order.append(source.choice(ready))
        left.remove(order[-1])
    names = [node.name for node in order if node.op == "call_function"]
    mapping = dict(zip(names, source.sample([f"m{n}" for n in range(len(names))], len(names)), strict=True))
    return replace(document, nodes=tuple(renamed(node, mapping) for node in order))


def renamed(node: NodeRecord, mapping: dict[str, str]) -> NodeRecord:
    args = tuple(rename_references(text, mapping) for text in node.args)
    return node._replace(name=mapping.get(node.name, node.name), args=args)


def are_one_graph(expected: GraphDocument, obtained: GraphDocument) -> bool:
    """Try every pairing of nodes."""
    if len(expected.nodes) != len(obtained.nodes):
        return False

    def search(position: int, mapping: dict[str, str]) -> bool:
        if position == len(expected.nodes):
            return keeps_order(expected, obtained, mapping)
        node = expected.nodes[position]
        for other in obtained.nodes:
            fits = other.name not in mapping.values() and is_same_call(node, other, mapping)
            if fits and search(position + 1, {**mapping, node.name: other.name}):
                return True
        return False

    return search(0, {})


def is_same_call(node: NodeRecord, other: NodeRecord, mapping: dict[str, str]) -> bool:
    args = tuple(rename_references(text, mapping) for text in node.args)
    return (node.op, node.target, args, node.effects) == (other.op, other.target, other.args, other.effects)


def keeps_order(expected: GraphDocument, obtained: GraphDocument, mapping: dict[str, str]) -> bool:
    ours = [node._replace(name=mapping[node.name]) for node in expected.nodes]
    return order_of(ours) == order_of(list(obtained.nodes))


def order_of(nodes: list[NodeRecord]) -> tuple[list[str], list[str], Counter[tuple[str, int]]]:
    """Describe inputs and random operators in order, and how many writes each access comes after."""
    inputs = [node.name for node in nodes if node.op == "placeholder"]
    draws = [node.name for node in nodes if "random" in node.effects]
    written, seen = 0, Counter()
    for node in nodes:
        if node.effects and node.effects[0].endswith("%x"):
            seen[(node.name, written)] += 1
            written += node.effects[0].startswith("write")
    return inputs, draws, seen


@settings(max_examples=50, deadline=None)
@given(small_documents(), st.integers(0, 2**32))
def test_structure_agrees_with_a_search_over_all_pairings(expected, seed):
    obtained = rewired(expected, seed)

    assert compare_documents(expected, obtained).is_empty is are_one_graph(expected, obtained)


@settings(max_examples=50, deadline=None)
@given(small_documents(), st.integers(0, 2**32))
def test_what_passes_a_stricter_level_passes_the_looser_ones(expected, seed):
    obtained = rewired(expected, seed)
    passes = {level: compare_documents(expected, obtained, level=level).is_empty for level in ORDER}

    assert passes["exact"] <= passes["structure"]
    assert passes["structure"] <= passes["ops"]
    assert passes["structure"] <= passes["signature"]


ORDER = ("exact", "structure", "ops", "signature")


@settings(max_examples=50, deadline=None)
@given(small_documents(), st.integers(0, 2**32))
def test_loosening_never_turns_a_match_into_a_mismatch(expected, seed):
    obtained = rewired(expected, seed)

    if compare_documents(expected, obtained).is_empty:
        assert compare_documents(expected, obtained, commutative=True).is_empty
        assert compare_documents(expected, obtained, normalize=True).is_empty


@settings(max_examples=50, deadline=None)
@given(small_documents())
def test_a_document_equals_itself_at_every_level(expected):
    for level in ORDER:
        assert compare_documents(expected, expected, level=level).is_empty
