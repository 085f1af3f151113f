from __future__ import annotations

import itertools

import pytest

from fixtures.documents import document
from pytest_fxgraph.document.decoding import decode
from pytest_fxgraph.draw.builder import picture_of
from pytest_fxgraph.draw.picture import Picture
from pytest_fxgraph.draw.placement import Box, Placement, placement_of
from tests.architecture.test_import_direction import ROOT

GOLDENS = sorted((ROOT / "golden/tests/zoo/test_goldens").glob("*.yaml"))[::12]


def picture(text: str) -> Picture:
    return picture_of(document(text), title="")


def overlap(one: Box, other: Box) -> bool:
    return (
        one.x < other.x + other.width - 0.01
        and other.x < one.x + one.width - 0.01
        and one.y < other.y + other.height - 0.01
        and other.y < one.y + one.height - 0.01
    )


def contains(outer: Box, inner: Box) -> bool:
    return (
        outer.x <= inner.x
        and outer.y <= inner.y
        and inner.x + inner.width <= outer.x + outer.width + 0.01
        and inner.y + inner.height <= outer.y + outer.height + 0.01
    )


def check(drawn: Picture, placed: Placement) -> None:
    boxes = {box.child: box for box in placed.boxes}
    parents = drawn.parents()
    for child, box in boxes.items():
        around = boxes.get(parents[child].number)
        assert around is None or contains(around, box)
        assert contains(Box(-1, 0, 0, placed.width, placed.height), box)
    for cluster in drawn.clusters:
        siblings = [boxes[child] for child in cluster.children if child in boxes]
        assert not any(overlap(one, other) for one, other in itertools.combinations(siblings, 2))
    for line in placed.lines:
        if line.source >= 0:
            assert line.points[0][1] == pytest.approx(boxes[line.source].y + boxes[line.source].height)
        if line.target >= 0:
            assert line.points[-1][1] == pytest.approx(boxes[line.target].y)


@pytest.mark.parametrize("golden", GOLDENS, ids=lambda path: path.stem.rpartition("golden-")[2])
def test_boxes_lie_in_their_boxes_and_do_not_touch_and_lines_begin_and_end_at_them(golden):
    drawn = picture_of(decode(golden.read_bytes(), golden.name), title="")

    for opened in (drawn.opened(150), drawn.all_opened(), frozenset({drawn.root.number})):
        check(drawn, placement_of(drawn, opened))


def test_a_chain_is_straight():
    placed = placement_of(chain := picture("%x = input x\n%a = torch.neg(%x)\n%b = torch.exp(%a)\nreturn %b"), {4})

    assert len({box.x + box.width / 2 for box in placed.boxes}) == 1
    assert [chain.nodes[box.child].name for box in sorted(placed.boxes, key=lambda box: box.y)] == [*"xab", "output"]


def test_a_value_passes_the_border_of_an_open_box_where_its_reader_is():
    text = "%x = input x\n%a = torch.neg(%x) @ m\n%b = torch.exp(%a) @ m\n%c = torch.sin(%b)\nreturn %c"
    drawn = picture(text)
    placed = placement_of(drawn, drawn.all_opened())

    ends = [line.points[-1] for line in placed.lines]
    starts = [line.points[0] for line in placed.lines]
    passing = [point for point in ends if point in starts]
    assert len(passing) == 2  # into the box, and out of it
