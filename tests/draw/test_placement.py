from __future__ import annotations

import itertools

import pytest

from fixtures.documents import document
from pytest_fxgraph.document.decoding import decode
from pytest_fxgraph.document.model import GraphDocument
from pytest_fxgraph.draw.builder import picture_of
from pytest_fxgraph.draw.picture import Picture
from pytest_fxgraph.draw.placement import Box, Placement, clipped_label, node_size, placement_of
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


OVERLAY = """
%x = input x : float32[2, 3]
%w = get scale : float32[3]
%a = torch.softmax(%x, dim=-1) : float32[2, 3] @ a_long_name_of_an_encoder.fc
%b = torch.mul(%a, %w) : float32[2, 3] @ a_long_name_of_an_encoder
%c = torch.exp(%b) : float32[2, 3] @ a_long_name_of_an_encoder
%d = torch.neg(%c) : float32[2, 3]
%e = torch.add(%d, %w) : float32[2, 3]
return (%e, %a)
"""


def overlay() -> Picture:
    """Return a picture with a state, a wide box, lines that bend and a changed, an added and a removed line."""
    after = OVERLAY.replace("dim=-1", "dim=0").replace("add(%d", "add(%c")
    return picture_of(document(OVERLAY), document(after), title="net")


def table(drawn: Picture, placed: Placement) -> list[str]:
    """List the boxes with corner and size, then the lines with their points."""
    inner = {cluster.number: cluster.label for cluster in drawn.clusters}
    boxes = [
        f"{inner.get(box.child) or drawn.nodes[box.child].name}: {box.x:g} {box.y:g} {box.width:g} {box.height:g}"
        for box in placed.boxes
    ]
    return [*boxes, *(" ".join(f"{x:g},{y:g}" for x, y in line.points) + f" {line.status}" for line in placed.lines)]


def test_an_open_picture_has_these_places():
    drawn = overlay()
    placed = placement_of(drawn, drawn.all_opened())

    assert (placed.width, placed.height) == (341.875, 521)
    assert table(drawn, placed) == [
        *("x: 110 12 25 24", "a: 12 70 221 54", "w: 251 85 54 24"),
        "a_long_name_of_an_encoder: 94.625 158 211.25 177",
        *("b: 180.25 207 40 24", "c: 180.25 265 40 24"),
        *("d: 167.036 369 40 24", "e: 198.836 427 40 24", "output: 157.086 485 62 24"),
        *("200.25,231 200.25,265 ", "200.25,289 200.25,335 ", "200.25,289 200.25,335 added"),
        *("188.25,158 200.25,207 ", "212.25,158 200.25,207 ", "122.5,36 122.5,70 "),
        "122.5,124 73.625,158 73.625,335 146.036,369 146.036,393 177.836,427 177.836,451 188.086,485 ",
        "122.5,124 188.25,158 ",
        "278,109 326.875,158 326.875,335 252.036,369 252.036,393 218.836,427 ",
        *("278,109 212.25,158 ", "187.036,393 218.836,427 removed", "218.836,451 188.086,485 "),
        *("200.25,335 187.036,369 ", "200.25,335 228.036,369 228.036,393 218.836,427 added"),
    ]


def test_a_closed_picture_has_these_places():
    drawn = overlay()
    placed = placement_of(drawn, {drawn.root.number})

    assert (placed.width, placed.height) == (341.75, 385)
    assert table(drawn, placed) == [
        *("x: 110 12 25 24", "a: 12 70 221 54", "w: 251 85 54 24"),
        "a_long_name_of_an_encoder: 94.75 158 211 41",
        *("d: 167.036 233 40 24", "e: 198.836 291 40 24", "output: 157.086 349 62 24"),
        "122.5,36 122.5,70 ",
        "122.5,124 73.75,158 73.75,199 146.036,233 146.036,257 177.836,291 177.836,315 188.086,349 ",
        *("122.5,124 200.25,158 ", "278,109 326.75,158 326.75,199 252.036,233 252.036,257 218.836,291 "),
        *("278,109 200.25,158 ", "187.036,257 218.836,291 removed", "218.836,315 188.086,349 "),
        *("200.25,199 187.036,233 ", "200.25,199 228.036,233 228.036,257 218.836,291 added"),
    ]


def test_a_box_is_as_wide_as_the_shape_below_it_and_a_label_has_at_most_38_characters():
    sizes = {}
    for digits in (9, 19, 20):
        shape = f"[{'1' * digits}, {'2' * 18}]"
        drawn = picture(f"%x = input x\n%a = torch.neg(%x) : float32{shape}\nreturn %a")
        sizes[digits] = node_size(drawn.nodes[1])

    assert sizes == {9: (161, 24), 19: (218, 24), 20: (218, 24)}
    assert [len(clipped_label("n" * length)) for length in (37, 38, 39)] == [37, 38, 38]
    assert clipped_label("n" * 38) == "n" * 38
    assert clipped_label("n" * 39) == "n" * 37 + "…"


def test_boxes_that_want_one_place_stand_18_pixels_apart_around_it():
    drawn = picture("%x = input x\n%a = torch.neg(%x)\n%b = torch.exp(%x)\n%c = torch.sin(%x)\nreturn (%a, %b, %c)")
    boxes = [box for box in placement_of(drawn, drawn.all_opened()).boxes if drawn.nodes[box.child].name in "abc"]

    boxes.sort(key=lambda box: box.x)
    assert [other.x - (box.x + box.width) for box, other in itertools.pairwise(boxes)] == pytest.approx([18, 18])


CHAIN = """
%x = input x : float32[2]
%a = torch.neg(%x) : float32[12345678, 2] @ dec
%b = torch.exp(%x)
%c = torch.neg(%b)
%d = torch.add(%a, %a) : float32[2] @ enc
return (%d, %a)
"""
TREE = """
%x = input x : float32[2]
%a = torch.add(%x) @ a_very_long_name_of_a_module
%b = torch.exp(%x) : float32[12345678, 2] @ enc.b
%c = torch.exp(%a, %a, %b) : float32[12345678, 2] @ enc
%d = torch.neg(%a) : float32[12345678, 2] @ enc.a
return (%d, %d)
"""


def test_boxes_in_boxes_of_two_graphs_have_these_places():
    drawn = picture_of(document(CHAIN), document(TREE), title="net")
    placed = placement_of(drawn, drawn.all_opened())

    assert (placed.width, placed.height) == (pytest.approx(380.0127), 405)
    assert table(drawn, placed) == [
        "x: 177.333 12 25 24",
        "a: 88 70 221 39",
        "b: 12 70 58 39",
        "c: 91.95 227 40 24",
        "enc: 153.554 143 214.459 192",
        "d: 165.554 192 40 24",
        "c: 298.013 192 58 24",
        "d: 205.554 250 58 39",
        "output: 229.783 369 62 24",
        "185.554,216 184.554,250 184.554,289 184.554,335 removed",
        "234.554,250 185.554,216 removed",
        "234.554,289 234.554,335 ",
        "226.554,143 226.554,192 226.554,216 234.554,250 removed",
        "288.783,143 327.013,192 added",
        "288.783,143 250.554,192 250.554,216 234.554,250 added",
        "327.013,143 327.013,192 added",
        "189.833,36 198.5,70 added",
        "189.833,36 41,70 ",
        "189.833,36 330,70 330,109 226.554,143 removed",
        "198.5,109 288.783,143 added",
        "41,109 111.95,227 removed",
        "41,109 327.013,143 added",
        "234.554,335 260.783,369 ",
        "184.554,335 260.783,369 removed",
    ]
    assert [(line.source, line.target, line.cluster) for line in placed.lines] == [
        (4, -1, 9),
        (6, 4, 9),
        (6, -1, 9),
        (-1, 6, 9),
        (-1, 5, 9),
        (-1, 6, 9),
        (-1, 5, 9),
        (0, 1, 8),
        (0, 2, 8),
        (0, 9, 8),
        (1, 9, 8),
        (2, 3, 8),
        (2, 9, 8),
        (9, 7, 8),
        (9, 7, 8),
    ]
    assert [(box.is_open, box.depth) for box in placed.boxes] == [
        (False, 0),
        (False, 0),
        (False, 0),
        (False, 0),
        (True, 0),
        (False, 1),
        (False, 1),
        (False, 1),
        (False, 0),
    ]


def test_values_of_a_module_without_inputs_leave_it_at_the_bottom():
    drawn = picture("%a = torch.rand() @ m\n%b = torch.neg(%a) @ m\n%c = torch.exp(%b)\nreturn %c")

    assert table(drawn, placement_of(drawn, drawn.all_opened())) == [
        "m: 12 12 71 160",
        "a: 24 44 47 24",
        "b: 27.5 102 40 24",
        "c: 27.5 206 40 24",
        "output: 16.5 264 62 24",
        "47.5,68 47.5,102 ",
        "47.5,126 47.5,172 ",
        "47.5,230 47.5,264 ",
        "47.5,172 47.5,206 ",
    ]


def test_three_readers_of_modules_have_these_places():
    before = "%x = input x : float32[2]\n%a = torch.exp(%x) @ enc\n%b = torch.neg(%a, %a, %a) @ dec\nreturn (%b, %b)"
    after = before.replace(
        "%b = torch.neg(%a, %a, %a) @ dec", "%b = torch.exp(%a, %x, %a) : float32[12345678, 2] @ enc"
    )
    drawn = picture_of(document(before), document(after.replace("(%b, %b)", "(%b, %x)")), title="net")

    assert table(drawn, placement_of(drawn, drawn.all_opened())) == [
        "x: 84 12 25 24",
        "enc: 12 70 116.25 177",
        "a: 24 119 40 24",
        "b: 33.25 177 83 24",
        "output: 98.4688 281 62 24",
        "44,143 74.75,177 ",
        "74.75,201 74.75,247 ",
        "64.5,70 44,119 ",
        "64.5,70 85,119 85,143 74.75,177 added",
        "96.5,36 149.25,70 149.25,247 129.469,281 added",
        "96.5,36 64.5,70 ",
        "96.5,36 64.5,70 added",
        "74.75,247 129.469,281 ",
    ]


def test_a_graph_without_nodes_is_an_empty_picture():
    placed = placement_of(drawn := picture_of(GraphDocument(()), title="net"), drawn.all_opened())

    assert (placed.width, placed.height, placed.boxes, placed.lines) == (24, 24, [], [])


def test_inputs_that_nobody_reads_stand_beside_each_other_in_order():
    drawn = picture(
        "%x = input x\n%wide = input a_wide_name_of_an_input_that_nobody_reads\n%y = input y\n%z = input z\n"
        "%a = torch.neg(%y)\n%b = torch.softmax(%a, dim=-1)\n%c = torch.exp(%a)\nreturn (%b, %c)"
    )
    placed = placement_of(drawn, drawn.all_opened())

    assert (placed.width, placed.height) == (462.25, 222)
    assert table(drawn, placed)[:8] == [
        *("x: 12 12 25 24", "wide: 55 12 294 24", "y: 367 12 25 24", "z: 410 12 25 24", "a: 359.5 70 40 24"),
        *("b: 265.25 128 127 24", "c: 410.25 128 40 24", "output: 348.5 186 62 24"),
    ]
