from __future__ import annotations

from pytest_fxgraph.document.storage import SharedStorage


def test_a_set_is_named_by_its_first_member_however_it_was_joined():
    storage = SharedStorage(6)
    storage.join(5, 3)
    storage.join(4, 5)
    storage.join(4, 1)

    assert [storage.first(position) for position in range(6)] == [0, 1, 2, 1, 1, 1]


def test_a_long_chain_is_followed_without_recursion():
    count = 50_000
    storage = SharedStorage(count)
    for position in reversed(range(1, count)):
        storage.join(position, position - 1)

    assert storage.first(count - 1) == 0
