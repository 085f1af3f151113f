from __future__ import annotations

import pytest

from fixtures.documents import document
from pytest_fxgraph.draw.overlay import merged_nodes, near_changes


def chain(length: int, changed: int | None = None):
    calls = [f"%n{place} = torch.{'exp' if place == changed else 'neg'}(%n{place - 1})" for place in range(1, length)]
    return document("\n".join(["%n0 = input n0", *calls, f"return %n{length - 1}"]))


@pytest.mark.parametrize(("changed", "first"), [(50, 48), (1, 0), (99, 97)])
def test_the_part_of_a_large_overlay_is_around_what_differs(changed, first):
    merged = merged_nodes(chain(100), chain(100, changed))

    names = [node.record.name for node in near_changes(merged, 4)]

    assert names[: 1 + changed - first] == [f"n{place}" for place in range(first, changed + 1)]
    assert len(names) <= 4


def test_a_graph_without_changes_is_shown_from_its_beginning():
    part = near_changes(merged_nodes(chain(100)), 3)

    assert [node.record.name for node in part] == ["n0", "n1", "n2"]


def test_a_part_has_the_edges_between_its_own_nodes():
    part = near_changes(merged_nodes(chain(100), chain(100, 50)), 4)

    assert [[(edge.source, edge.target) for edge in node.reads] for node in part] == [[], [(0, 1)], [(1, 2)], [(2, 3)]]


def test_no_more_nodes_are_shown_than_asked_for_where_all_differ():
    calls = [f"%n{place} = torch.{'exp' if place else 'neg'}(%n{place - 1})" for place in range(1, 30)]
    other = document("\n".join(["%n0 = input n0", *calls, "return %n29"]))

    assert len(near_changes(merged_nodes(chain(30), other), 8)) <= 8
