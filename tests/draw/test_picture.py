from __future__ import annotations

import pytest

from pytest_fxgraph.draw.picture import Cluster, DrawnNode, Edge, Picture, lay_in_layers


def picture(
    children: list[list[int]], edges: list[tuple[int, int]], nodes: int = 4, *, is_overlay: bool = False, **changed: str
) -> Picture:
    """Return a picture of clusters by their children; `changed` maps the cluster c1, c2, ... to a sort."""
    drawn = tuple(DrawnNode(f"n{n}", "op", "", "call", f"[{n}]") for n in range(nodes))
    clusters = tuple(
        Cluster(nodes + n, f"c{n}", changed.get(f"c{n}", "module"), children=list(each), changes={})
        for n, each in enumerate(children)
    )
    return Picture("", drawn, tuple(Edge(*each) for each in edges), clusters, is_overlay)


# Nodes 0 to 3; cluster 5 holds 1 and 2 in cluster 6.
NESTED = picture([[0, 5, 3], [1, 6], [2]], [(0, 1), (1, 2), (2, 3), (0, 2)])


def test_a_cluster_is_found_by_its_number_and_a_node_is_none():
    assert NESTED.cluster(5) is NESTED.clusters[1]
    assert NESTED.cluster(4) is NESTED.root
    assert NESTED.cluster(3) is None


def test_each_box_but_the_outermost_has_a_parent():
    assert {child: parent.number for child, parent in NESTED.parents().items()} == {0: 4, 5: 4, 3: 4, 1: 5, 6: 5, 2: 6}


@pytest.mark.parametrize(
    ("opened", "seen"),
    [
        ({4}, [(0, 0, ""), (5, 0, ""), (3, 0, "")]),
        ({4, 5}, [(0, 0, ""), (5, 0, "open"), (1, 1, ""), (6, 1, ""), (5, 0, "end"), (3, 0, "")]),
        (
            {4, 5, 6},
            [
                (0, 0, ""),
                (5, 0, "open"),
                (1, 1, ""),
                (6, 1, "open"),
                (2, 2, ""),
                (6, 1, "end"),
                (5, 0, "end"),
                (3, 0, ""),
            ],
        ),
    ],
)
def test_visible_boxes_come_from_the_outside_to_the_inside(opened, seen):
    assert [(each.child, each.depth, each.state) for each in NESTED.walk(opened)] == seen


@pytest.mark.parametrize(
    ("opened", "edges"),
    [
        ({4}, [(0, 5, "", ""), (5, 3, "", "[2]")]),  # of the two values from 0, one alone is 0's
        ({4, 5}, [(0, 1, "", "[0]"), (0, 6, "", "[0]"), (1, 6, "", "[1]"), (6, 3, "", "[2]")]),
        ({4, 5, 6}, [(0, 1, "", "[0]"), (0, 2, "", "[0]"), (1, 2, "", "[1]"), (2, 3, "", "[2]")]),
    ],
)
def test_edges_end_at_the_outermost_closed_boxes(opened, edges):
    expected = [(*edge[:3], edge[3] or "[0]") for edge in edges]

    assert [*NESTED.labelled_edges(opened)] == expected


def test_an_edge_of_several_values_has_no_shape():
    two = picture([[5, 6], [0, 1], [2, 3]], [(0, 2), (1, 3)])

    assert [*two.labelled_edges({4})] == [(5, 6, "", "")]
    assert two.visible_edges({4}) == {(5, 6, ""): {0, 1}}


def large(*, is_overlay: bool = False, sort: str = "module", changes: bool = False) -> Picture:
    """Return 40 nodes: one of the outermost, and clusters 41 and 42 with 20 and 19 nodes."""
    made = picture(
        [[0, 41, 42], [*range(1, 21)], [*range(21, 40)]], [], 40, is_overlay=is_overlay, c1=sort, c2="module"
    )
    if changes:
        made.clusters[2].changes["added"] = 1
    return made


@pytest.mark.parametrize(
    ("made", "most", "opened"),
    [
        (NESTED, 100, {4, 5, 6}),  # a small graph is opened whole
        (large(), 21, {40}),
        (large(), 22, {40, 42}),
        (large(), 23, {40, 41}),
        (large(), 100, {40, 41, 42}),
        (large(sort="repeated"), 100, {40, 42}),
        (large(is_overlay=True), 100, {40}),
        (large(is_overlay=True, changes=True), 100, {40, 42}),
        (large(changes=True), 23, {40, 42}),  # a changed cluster is opened first
    ],
)
def test_clusters_are_opened_up_to_a_number_of_boxes(made, most, opened):
    # 3 boxes are visible from the start; 20 come with cluster 41, 19 with cluster 42.
    assert made.opened(most) == opened


def test_values_enter_and_leave_clusters_through_ports():
    laid = lay_in_layers(picture([[0, 5, 3], [1, 6], [2]], [(0, 1), (1, 2), (2, 3), (0, 2)]))

    assert [(each.ports_in, each.ports_out) for each in laid.clusters] == [([], []), ([0], [2]), ([0, 1], [2])]
    assert laid.root.layers != type(laid.root.layers)((), ())
