from __future__ import annotations

import gc

import pytest

from fixtures.documents import document
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.errors import LevelError

PLAIN = "%x = input x\n%a = torch.relu(%x)\nreturn %a"


@pytest.mark.parametrize("level", ["vague", ""])
def test_an_unknown_level_is_refused_with_those_that_exist(level):
    plain = document(PLAIN)

    with pytest.raises(LevelError, match=f"cannot compare at level '{level}': .*exact, structure, ops, signature"):
        compare_documents(plain, plain, level=level)


@pytest.mark.parametrize("level", ["exact", "structure", "ops", "signature"])
def test_a_difference_carries_the_level_it_was_made_at(level):
    plain = document(PLAIN)

    assert compare_documents(plain, plain, level=level).level == level


def test_what_differs_at_structure_may_match_at_ops_and_signature():
    expected = document("%x = input x\n%a = f(%x, 1)\n%b = g(%a)\nreturn %b")
    obtained = document("%x = input x\n%a = g(%x)\n%b = f(%a, 2)\nreturn %b")

    assert not compare_documents(expected, obtained).is_empty
    assert compare_documents(expected, obtained, level="ops").is_empty
    assert compare_documents(expected, obtained, level="signature").is_empty


def test_comparing_leaves_garbage_collection_as_it_was():
    plain = document(PLAIN)

    compare_documents(plain, plain)
    assert gc.isenabled()

    gc.disable()
    try:
        compare_documents(plain, plain)
        assert not gc.isenabled()
    finally:
        gc.enable()
