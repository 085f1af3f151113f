"""The layers of one cluster: the layer of each child and the order in each layer, independent of sizes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

_SWEEPS = 8
# Above this number of bends, long lines go straight to their ends.
_MOST_BENDS, _LONGEST_WITH_BENDS = 3_000, 6


Ends = tuple[int, int, str]  # source, target, status


@dataclass(frozen=True)
class Link:
    """A line between two items of a cluster, with one bend in each layer between them."""

    source: int
    target: int
    bends: tuple[int, ...]
    values: tuple[int, ...]  # the nodes whose values the line carries
    status: str = ""  # of its edges


@dataclass(frozen=True)
class Layers:
    """The items of a cluster by layer, the first at the top.

    Items are numbered: first the children, then the ports for incoming values, then the ports for outgoing values,
    then the bends of lines.
    """

    rows: tuple[tuple[int, ...], ...]
    links: tuple[Link, ...]


def layers_of(children: int, ports_in: int, ports_out: int, lines: Mapping[Ends, Sequence[int]]) -> Layers:
    """Put the items of a cluster into layers. Lines lead down, and a few tries keep crossings rare.

    `lines` maps source, target and status to the nodes whose values flow. Children are numbered in execution
    order.
    """
    ranks = _ranks(children, ports_in, ports_out, lines)
    links = _with_bends(ranks, lines)
    rows: list[list[int]] = [[] for _ in range(max(ranks, default=0) + 1)]
    for item, rank in enumerate(ranks):
        rows[rank].append(item)
    above, below = ([dict.fromkeys(items) for items in each] for each in neighbours_of(rows, links))
    return Layers(_ordered(rows, above, below), tuple(links))


def neighbours_of(rows: Sequence[Sequence[int]], links: Iterable[Link]) -> tuple[list[list[int]], list[list[int]]]:
    """Return by item the items that its lines lead to in the row above, and in the row below."""
    ranks = {item: rank for rank, row in enumerate(rows) for item in row}
    above: list[list[int]] = [[] for _ in ranks]
    below: list[list[int]] = [[] for _ in ranks]
    for link in links:
        first, last = sorted((link.source, link.target), key=ranks.__getitem__)
        for upper, lower in pairwise((first, *link.bends, last)):
            below[upper].append(lower)
            above[lower].append(upper)
    return above, below


def _ranks(children: int, ports_in: int, ports_out: int, lines: Mapping[Ends, Sequence[int]]) -> list[int]:
    """Number the layers by the longest path from the top. Sources stand right above their first reader."""
    readers: list[list[int]] = [[] for _ in range(children)]
    ranks = [1 if ports_in else 0] * children
    sources = set(range(children))
    # Earlier nodes stand above later ones, even where an edge of the other graph leads back.
    for upper, lower in sorted({(min(ends), max(ends)) for *ends, _ in lines if max(ends) < children}):
        readers[upper].append(lower)
    for upper in range(children):
        for lower in readers[upper]:
            ranks[lower] = max(ranks[lower], ranks[upper] + 1)
            sources.discard(lower)
    sources -= {target for source, target, _ in lines if source >= children}  # from ports
    for source in sources:
        if readers[source]:
            ranks[source] = max(ranks[source], min(ranks[reader] for reader in readers[source]) - 1)
    last = max(ranks, default=0)
    return [*ranks, *[0] * ports_in, *[last + 1] * ports_out]


def _with_bends(ranks: list[int], lines: Mapping[Ends, Sequence[int]]) -> list[Link]:
    """Give lines a bend in each layer between their ends, and append the layer of each bend to `ranks`.

    Lines with the same values and source share their bends.
    """
    shared: dict[tuple[int, tuple[int, ...], str, int], int] = {}
    gaps = sum(abs(ranks[source] - ranks[target]) - 1 for source, target, _ in lines)
    longest = len(ranks) if gaps <= _MOST_BENDS else _LONGEST_WITH_BENDS
    links = []
    for (source, target, status), values in lines.items():
        (upper, start), (lower, _) = sorted(((ranks[source], source), (ranks[target], target)))
        bends = []
        for rank in range(upper + 1, lower) if lower - upper <= longest else ():
            key = (start, tuple(values), status, rank)
            if key not in shared:
                shared[key] = len(ranks)
                ranks.append(rank)
            bends.append(shared[key])
        links.append(Link(source, target, tuple(bends), tuple(values), status))
    return links


def _ordered(
    rows: list[list[int]], above: Sequence[Collection[int]], below: Sequence[Collection[int]]
) -> tuple[tuple[int, ...], ...]:
    """Order each row by the positions of its neighbours, to and fro, and keep the order with the fewest crossings."""
    best, fewest = tuple(map(tuple, rows)), _crossings(rows, below)
    for sweep in range(_SWEEPS):
        if not fewest:
            break
        down = sweep % 2 == 0
        indices = range(1, len(rows)) if down else range(len(rows) - 2, -1, -1)
        for index in indices:
            beside = rows[index - 1 if down else index + 1]
            places = {item: place for place, item in enumerate(beside)}
            neighbours = above if down else below
            keys = {}
            for place, item in enumerate(rows[index]):
                found = [places[other] for other in neighbours[item] if other in places]
                keys[item] = sum(found) / len(found) if found else float(place)
            rows[index].sort(key=keys.__getitem__)
        crossings = _crossings(rows, below)
        if crossings < fewest:
            best, fewest = tuple(map(tuple, rows)), crossings
    return best


def _crossings(rows: Sequence[Sequence[int]], below: Sequence[Collection[int]]) -> int:
    """Count the pairs of lines that cross between neighbouring rows."""
    count = 0
    for row, following in pairwise(rows):
        places = {item: place for place, item in enumerate(following)}
        ends: list[int] = []
        for item in row:
            ends.extend(sorted(places[other] for other in below[item] if other in places))
        count += _inversions(ends)
    return count


def _inversions(numbers: Sequence[int]) -> int:
    """Count the pairs whose first number is greater."""
    count = 0
    earlier: list[int] = []
    for number in numbers:
        place = bisect_right(earlier, number)
        count += len(earlier) - place
        earlier.insert(place, number)
    return count
