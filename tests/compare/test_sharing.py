from __future__ import annotations

from pytest_fxgraph.compare.sharing import shared_paths
from pytest_fxgraph.document.graph_document import ModuleRecord, StateRecord


def test_shared_paths_are_known_by_the_first_in_alphabetical_order():
    records = [ModuleRecord("c", "Net"), ModuleRecord("a", "Net", same_as="c"), ModuleRecord("b", "Net", same_as="c")]

    assert shared_paths(records) == {"a": "a", "b": "a", "c": "a"}


def test_what_is_not_shared_is_not_there():
    records = [StateRecord("w", "parameter", "float32[2]"), StateRecord("v", "parameter", "float32[2]")]

    assert shared_paths(records) == {}
