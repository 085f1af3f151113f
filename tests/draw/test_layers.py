from __future__ import annotations

from pytest_fxgraph.draw.layers import layers_of


def lines(*pairs: tuple[int, int], status: str = "") -> dict[tuple[int, int, str], tuple[int, ...]]:
    return {(source, target, status): (source,) for source, target in pairs}


def test_a_chain_stands_in_one_column():
    assert layers_of(3, 0, 0, lines((0, 1), (1, 2))).rows == ((0,), (1,), (2,))


def test_a_line_over_several_layers_bends_in_each_of_them():
    layers = layers_of(3, 0, 0, lines((0, 1), (1, 2), (0, 2)))

    (long,) = [link for link in layers.links if (link.source, link.target) == (0, 2)]
    assert long.bends == (3,)
    assert set(layers.rows[1]) == {1, 3}


def test_lines_of_one_value_share_their_bends():
    layers = layers_of(5, 0, 0, lines((0, 1), (1, 2), (2, 3), (3, 4), (0, 3), (0, 4)))
    short, long = (next(link for link in layers.links if (link.source, link.target) == (0, end)) for end in (3, 4))

    assert long.bends[: len(short.bends)] == short.bends


def test_a_source_stands_right_above_its_first_reader():
    layers = layers_of(4, 0, 0, lines((0, 1), (1, 3), (2, 3)))

    assert layers.rows[1] in ((1, 2), (2, 1))


def test_values_come_in_at_the_top_and_leave_at_the_bottom():
    layers = layers_of(1, 1, 1, lines((1, 0), (0, 2)))

    assert layers.rows == ((1,), (0,), (2,))


def test_an_order_is_found_in_which_lines_do_not_cross():
    # 0 and 1 above, 2 and 3 below; in the order of execution, both lines cross.
    layers = layers_of(4, 0, 0, lines((0, 3), (1, 2)))

    upper, lower = layers.rows
    assert [upper.index(0), upper.index(1)] == [lower.index(3), lower.index(2)]


def test_a_line_that_leads_back_is_laid_out_like_one_that_leads_down():
    layers = layers_of(3, 0, 0, lines((0, 1), (1, 2)) | lines((2, 0), status="removed"))

    assert layers.rows[0] == (0,)
    (back,) = [link for link in layers.links if link.status == "removed"]
    assert (back.source, back.target, len(back.bends)) == (2, 0, 1)


def test_nothing_has_no_layers():
    assert layers_of(0, 0, 0, {}).rows == ((),)


def test_very_many_long_lines_do_not_bend():
    chain = [(number, number + 1) for number in range(99)]
    everything = [(one, other) for one in range(100) for other in range(one + 2, 100)]

    layers = layers_of(100, 0, 0, lines(*chain, *everything))

    assert max(len(link.bends) for link in layers.links) <= 6
    assert len(layers.rows) == 100


def test_a_row_is_ordered_by_the_row_below_it_too():
    layers = layers_of(5, 0, 0, lines((0, 3), (1, 4), (2, 3)))

    assert layers.rows == ((0, 2, 1), (3, 4))


def test_a_large_graph_has_these_layers():
    edges = {0: (4, 10), 1: (10, 4), 2: (8, 10), 3: (5, 8), 4: (5, 8), 5: (8, 10), 6: (8, 11), 7: (11, 10), 8: (11, 10)}
    edges |= {12: (4, 9), 11: (14,), 7: (11, 10, 15), 13: (2,)}
    pairs = [(source, target) for source, targets in edges.items() for target in targets]

    layers = layers_of(12, 2, 2, lines(*pairs) | lines((10, 3), status="removed"))

    assert layers.rows == (
        *((12, 13), (9, 30, 2, 0, 1), (3, 4, 22, 16, 19), (6, 25, 26, 31, 5, 23, 17, 20)),
        *((7, 28, 8, 32, 27, 24, 18, 21), (29, 11, 10), (15, 14)),
    )
    assert {(link.source, link.target): link.bends for link in layers.links if link.bends} == {
        (0, 10): (16, 17, 18),
        (1, 10): (19, 20, 21),
        (2, 8): (22, 23),
        (2, 10): (22, 23, 24),
        (3, 8): (25,),
        (4, 8): (26,),
        (5, 10): (27,),
        (6, 11): (28,),
        (7, 15): (29,),
        (12, 4): (30,),
        (10, 3): (31, 32),
    }


def test_above_3000_bends_only_lines_over_few_layers_bend():
    def bends(last: int) -> set[int]:
        """Count the bends of the lines from each node of a chain to its last node."""
        chain = lines(*((number, number + 1) for number in range(last)))
        long = lines(*((number, last) for number in range(last - 1)))
        return {len(link.bends) for link in layers_of(last + 1, 0, 0, chain | long).links}

    assert bends(77) == {*range(77)}  # 2,926 bends
    assert bends(78) == {*range(6)}  # 3,003 bends would be needed


def test_above_3000_bends_begins_behind_3000():
    chain = lines(*((number, number + 1) for number in range(78)))
    long = lines(*((number, 78) for number in range(77) if number != 74))  # 3,003 bends without the 3 of this one

    assert max(len(link.bends) for link in layers_of(79, 0, 0, chain | long).links) == 77


def test_a_reader_of_a_value_from_outside_stays_at_the_top():
    layers = layers_of(4, 1, 0, lines((4, 0), (1, 2), (2, 3), (0, 3)))  # 4 is the port

    assert layers.rows[:2] == ((4,), (0, 1))


def test_a_cluster_without_children_passes_a_value_through_from_row_to_row():
    assert layers_of(0, 1, 1, lines((0, 1))).rows == ((0,), (1,))


def test_the_order_of_execution_stays_where_another_order_crosses_as_often():
    layers = layers_of(5, 0, 0, lines((0, 4), (2, 3), (2, 4), (0, 3)))

    assert layers.rows == ((0, 1, 2), (3, 4))
