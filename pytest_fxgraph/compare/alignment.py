"""Alignment of two graphs: each node of one graph gets its counterpart in the other."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Sequence, Set
from dataclasses import replace

from pytest_fxgraph.compare.graph_index import GraphIndex, NodeHashes, input_hashes, user_hashes
from pytest_fxgraph.compare.isomorphism import Alignment, find_isomorphism
from pytest_fxgraph.compare.sequence_alignment import anchors, common_subsequence, subsequence_between
from pytest_fxgraph.grouping import grouped

_MOST_INPUTS = 8  # inputs per guess
# Nodes of these kinds pair only with their own kind: an input never becomes an operator.
_FIXED = ("placeholder", "output", "get_attr")


def align(expected: GraphIndex, obtained: GraphIndex) -> Alignment:
    """Pair all nodes of isomorphic graphs; pair the nodes of other graphs by labels and surroundings.

    The surest evidence comes first. Time is linear, except for a part of bounded size.
    """
    isomorphism = find_isomorphism(expected, obtained)
    if isomorphism is not None:
        return isomorphism
    alignment = Alignment(*_with_exchanged_modules_apart(expected, obtained))
    _pair_inputs_and_outputs(alignment)
    both_hashes, input_hashes_alone, user_hashes_alone = _hashes(alignment)
    _pair_groups(alignment, *both_hashes)
    _pair_groups(alignment, *input_hashes_alone)
    # Where a block was removed, operators of two neighbouring blocks have equal readers.
    _spread(alignment, _same_operator_and_scope, _operator_and_scope)
    _pair_groups(alignment, *user_hashes_alone)
    _spread(alignment, _same_operator_and_scope, _operator_and_scope)
    _spread(alignment, _same_operator)
    guessed = _pair_in_order(alignment, lambda index, position: index.labels[position])
    _spread(alignment, _same_operator)
    if alignment.expected is not expected:
        _spread(alignment, _same_class)
        alignment.expected, alignment.obtained = expected, obtained
        guessed += _pair_in_order(alignment, lambda index, position: index.labels[position])
        _spread(alignment, _same_operator)
    guessed += _pair_in_order(alignment, lambda index, position: index.labels[position][:2])
    _separate_coincidences(alignment, guessed)
    _spread(alignment, _same_sort)
    return alignment


def _with_exchanged_modules_apart(expected: GraphIndex, obtained: GraphIndex) -> tuple[GraphIndex, GraphIndex]:
    """Give calls of modules with one path and two classes different labels.

    A layer put into an `nn.Sequential` moves the layers behind it to the next path.
    """
    modules, others = expected.modules, obtained.modules
    exchanged = {path for path in modules.keys() & others.keys() if modules[path].kind != others[path].kind}
    if not exchanged:
        return expected, obtained
    return _with_classes(expected, exchanged), _with_classes(obtained, exchanged)


def _with_classes(index: GraphIndex, paths: Set[str]) -> GraphIndex:
    labels = list(index.labels)
    for position, (op, target, args, kwargs) in enumerate(labels):
        if op == "call_module" and target in paths:
            labels[position] = op, f"{target} {index.modules[target].kind}", args, kwargs
    return replace(index, labels=tuple(labels))


def _same_class(alignment: Alignment, expected: int, obtained: int) -> bool:
    """Return whether both nodes call modules of one class and one configuration."""
    records = [
        index.modules.get(index.nodes[position].target) if index.nodes[position].op == "call_module" else None
        for index, position in ((alignment.expected, expected), (alignment.obtained, obtained))
    ]
    return all(records) and len({(record.kind, record.config) for record in records if record is not None}) == 1


def _pair_inputs_and_outputs(alignment: Alignment) -> None:
    """Pair inputs by name, the remaining inputs by place if both sides have equally many, and outputs by place."""
    chains, obtained_chains = alignment.expected.effects.chains, alignment.obtained.effects.chains
    nodes, obtained_nodes = alignment.expected.nodes, alignment.obtained.nodes
    by_name = {obtained_nodes[n].target: n for n in obtained_chains.get("placeholder", ())}
    for position in chains.get("placeholder", ()):
        partner = by_name.pop(nodes[position].target, None)
        if partner is not None:
            alignment.pair(position, partner)
    left = [n for n in chains.get("placeholder", ()) if alignment.obtained_of[n] < 0]
    obtained_left = [n for n in obtained_chains.get("placeholder", ()) if alignment.expected_of[n] < 0]
    if len(left) == len(obtained_left):
        for expected, obtained in zip(left, obtained_left, strict=True):
            alignment.pair(expected, obtained)
    for expected, obtained in zip(chains.get("output", ()), obtained_chains.get("output", ()), strict=False):
        alignment.pair(expected, obtained)


def _hashes(alignment: Alignment) -> list[tuple[Sequence[Hashable], Sequence[Hashable]]]:
    """Return hashes of the nodes of both graphs: of inputs and readers together, of inputs alone, of readers alone."""
    table = NodeHashes()
    numbers = [expected if obtained >= 0 else -1 for expected, obtained in enumerate(alignment.obtained_of)]
    hashes = []
    for index, known in ((alignment.expected, numbers), (alignment.obtained, alignment.expected_of)):
        marks = _marks(index, known, table)
        below, above = input_hashes(index, marks, table), user_hashes(index.users, marks, table)
        hashes.append((list(zip(below, above, strict=True)), below, above))
    return list(zip(*hashes, strict=True))


def _marks(index: GraphIndex, numbers: Sequence[int], table: NodeHashes) -> list[int]:
    """Number nodes by their labels, but inputs by their pair, because a renamed input is still the same input."""
    return [
        table.number(("input", number) if label[0] == "placeholder" and number >= 0 else label)
        for label, number in zip(index.labels, numbers, strict=True)
    ]


def _pair_groups(alignment: Alignment, keys: Sequence[Hashable], obtained_keys: Sequence[Hashable]) -> None:
    """Pair unpaired nodes with one key in order, if both sides have equally many."""
    groups = grouped(alignment.removed(), keys.__getitem__)
    obtained_groups = grouped(alignment.added(), obtained_keys.__getitem__)
    for key, group in groups.items():
        obtained_group = obtained_groups.get(key, ())
        if len(group) == len(obtained_group):
            for expected, obtained in zip(group, obtained_group, strict=True):
                alignment.pair(expected, obtained)


def _same_operator(alignment: Alignment, expected: int, obtained: int) -> bool:
    return alignment.expected.labels[expected][:2] == alignment.obtained.labels[obtained][:2]


def _operator_and_scope(index: GraphIndex, position: int) -> Hashable:
    return index.labels[position][:2], index.nodes[position].scope


def _same_operator_and_scope(alignment: Alignment, expected: int, obtained: int) -> bool:
    return _operator_and_scope(alignment.expected, expected) == _operator_and_scope(alignment.obtained, obtained)


def _same_sort(alignment: Alignment, expected: int, obtained: int) -> bool:
    node, other = alignment.expected.nodes[expected], alignment.obtained.nodes[obtained]
    if node.op == other.op:
        if node.op != "call_module" or node.target == other.target:
            return True
        # Calls of two modules of both graphs moved; neither took the place of the other.
        return node.target not in alignment.obtained.modules or other.target not in alignment.expected.modules
    return node.op not in _FIXED and other.op not in _FIXED


def _spread(
    alignment: Alignment,
    fits: Callable[[Alignment, int, int], bool],
    sort_of: Callable[[GraphIndex, int], Hashable] = lambda index, position: None,
) -> None:
    """Pair the neighbours of pairs: inputs at the same place, and readers of the same sort at the same place."""
    pending = _pairs_beside_gaps(alignment)
    while pending:
        expected, obtained = pending.pop()
        candidates = [
            *zip(alignment.expected.inputs[expected], alignment.obtained.inputs[obtained], strict=False),
            *_readers_beside(alignment, expected, obtained, sort_of),
        ]
        for expected, obtained in candidates:
            is_free = alignment.obtained_of[expected] < 0 and alignment.expected_of[obtained] < 0
            if is_free and fits(alignment, expected, obtained):
                alignment.pair(expected, obtained)
                pending.append((expected, obtained))


def _pairs_beside_gaps(alignment: Alignment) -> list[tuple[int, int]]:
    """List the pairs next to an expected node without partner."""
    graph = alignment.expected
    beside = {read for lone in alignment.removed() for read in graph.inputs[lone]}
    beside.update(reader for lone in alignment.removed() for reader, _ in graph.users[lone])
    return [
        (position, alignment.obtained_of[position])
        for position in sorted(beside)
        if alignment.obtained_of[position] >= 0
    ]


def _readers_beside(
    alignment: Alignment, expected: int, obtained: int, sort_of: Callable[[GraphIndex, int], Hashable]
) -> Iterable[tuple[int, int]]:
    """Return the only unpaired reader of each place and sort. Several alike would be a guess."""
    readers = _unpaired_readers(alignment.expected, expected, alignment.obtained_of, sort_of)
    if not readers:
        return []
    obtained_readers = _unpaired_readers(alignment.obtained, obtained, alignment.expected_of, sort_of)
    return [
        (found[0], obtained_readers[key][0])
        for key, found in readers.items()
        if len(found) == 1 and len(obtained_readers.get(key, ())) == 1
    ]


def _unpaired_readers(
    index: GraphIndex, position: int, paired: Sequence[int], sort_of: Callable[[GraphIndex, int], Hashable]
) -> dict[tuple[int, Hashable], list[int]]:
    found: dict[tuple[int, Hashable], list[int]] = defaultdict(list)
    for reader, place in index.users[position]:
        if paired[reader] < 0:
            found[place, sort_of(index, reader)].append(reader)
    return found


def _pair_in_order(alignment: Alignment, describe: Callable[[GraphIndex, int], Hashable]) -> list[int]:
    """Pair the rest by the longest common order of equal descriptions; return the newly paired expected nodes."""
    table = NodeHashes()
    left, obtained_left = alignment.removed(), alignment.added()
    numbers = [table.number(describe(alignment.expected, n)) for n in left]
    obtained_numbers = [table.number(describe(alignment.obtained, n)) for n in obtained_left]
    found = common_subsequence(numbers, obtained_numbers)
    if found is None:
        # Nodes that occur once in a module on both sides show the counterpart of each layer.
        marks = zip(numbers, (alignment.expected.nodes[n].scope for n in left), strict=True)
        others = zip(obtained_numbers, (alignment.obtained.nodes[n].scope for n in obtained_left), strict=True)
        cuts = anchors([*marks], [*others])
        found = subsequence_between(cuts, numbers, obtained_numbers) if cuts else None
    if found is None:
        # Too much differs for an order, so neighbours pair first: all operators of a kind may have been replaced.
        _spread(alignment, _same_sort)
        return _pair_by_count(alignment, describe)
    for expected, obtained in found:
        alignment.pair(left[expected], obtained_left[obtained])
    return [left[expected] for expected, _ in found]


def _pair_by_count(alignment: Alignment, describe: Callable[[GraphIndex, int], Hashable]) -> list[int]:
    """Pair the first of each description with the first, the second with the second."""
    waiting: dict[Hashable, deque[int]] = defaultdict(deque)
    for position in alignment.added():
        waiting[describe(alignment.obtained, position)].append(position)
    paired = []
    for position in alignment.removed():
        alike = waiting[describe(alignment.expected, position)]
        if alike:
            alignment.pair(position, alike.popleft())
            paired.append(position)
    return paired


def _separate_coincidences(alignment: Alignment, guessed: Sequence[int]) -> None:
    """Undo guessed pairs without support from their neighbours: the operator was removed here and added there."""
    for expected in guessed:
        obtained = alignment.obtained_of[expected]
        if not _is_supported(alignment, expected, obtained):
            alignment.separate(expected)


def _is_supported(alignment: Alignment, expected: int, obtained: int) -> bool:
    graph, obtained_graph = alignment.expected, alignment.obtained
    readers = {alignment.obtained_of[reader] for reader, _ in graph.users[expected]}
    if not graph.inputs[expected] and not obtained_graph.inputs[obtained] and not readers:
        return True
    inputs = _inputs_behind_lone_ones(alignment.expected, expected, alignment.obtained_of)
    obtained_inputs = _inputs_behind_lone_ones(alignment.obtained, obtained, alignment.expected_of)
    shares_input = any(alignment.obtained_of[read] in obtained_inputs for read in inputs)
    return shares_input or any(reader in readers for reader, _ in obtained_graph.users[obtained])


def _inputs_behind_lone_ones(index: GraphIndex, position: int, paired: Sequence[int]) -> set[int]:
    """Return the paired inputs of a node; an input without partner is replaced by its own inputs."""
    found: set[int] = set()
    pending = list(index.inputs[position][:_MOST_INPUTS])
    for _ in range(_MOST_INPUTS):
        if not pending:
            break
        read = pending.pop()
        if paired[read] >= 0:
            found.add(read)
        else:
            pending.extend(index.inputs[read][:_MOST_INPUTS])
    return found
