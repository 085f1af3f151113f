"""Findings of a capture that came, went or moved: their keys, their places and the notes beside them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fixtures.documents import document
from pytest_fxgraph.compare.difference import Edit
from pytest_fxgraph.compare.levels import compare_documents

GRAPH = document("%x = input x\n%a = f(%x)\nreturn %a")
ITEM, PRINT = "item in forward: y = x.item()", "builtin (print) in helper: print(x)"


def edits(before: list[str], after: list[str], places: dict[str, str] | None = None) -> list[Edit]:
    expected, obtained = (replace(GRAPH, notes=tuple(notes)) for notes in (before, after))
    return [*compare_documents(expected, replace(obtained, places=places or {})).edits]


@pytest.mark.parametrize("kind", ["break", "recompile", "skipped", "fallback"])
def test_a_finding_that_came_is_another_cause_than_one_that_went(kind):
    ((come,), (gone,)) = (edits(*notes) for notes in (([], [f"{kind}: {ITEM}"]), ([f"{kind}: {ITEM}"], [])))

    assert (come.kind, come.key) == (kind, (kind, "more", ITEM))
    assert (gone.kind, gone.key) == (kind, (kind, "fewer", ITEM))


def test_a_finding_has_the_line_of_the_users_code_as_its_place():
    note = f"break: {ITEM}"

    (edit,) = edits([], [note], {note: "model.py:12: y = x.item()"})
    (moved,) = edits(["break: item in other: y = x.item()"], [note], {note: "model.py:12: y = x.item()"})

    assert [each.sites[0].where for each in (edit, moved)] == ["model.py:12: y = x.item()"] * 2
    assert (moved.text, moved.key) == ("graph break moved from other to forward: item", ("break", "moved", "item"))
    assert len(moved.changes) == 2


def test_each_finding_that_went_pairs_with_one_of_the_same_reason_and_statement():
    texts = [edit.text for edit in edits([f"break: {ITEM}", f"break: {PRINT}"], ["break: item in b: y = x.item()"] * 2)]

    assert sorted(texts) == [
        "graph break moved from forward to b: item",
        f"one graph break fewer (others came): {PRINT}",
        "one graph break more: item in b: y = x.item()",
    ]


def test_another_statement_is_another_break():
    texts = [edit.text for edit in edits([f"break: {ITEM}"], ["break: item in forward: z = x.item()"])]

    assert sorted(texts) == [
        f"one graph break fewer (others came): {ITEM}",
        "one graph break more: item in forward: z = x.item()",
    ]


@pytest.mark.parametrize(
    ("template", "general"),
    [("layers.{}.scale == 2", "layers.*.scale == 2"), ("L['layers'][{}] == 2", None), ("L.h[{}].k", "L.h[*].k")],
)
def test_guards_of_repeated_blocks_have_one_key(template, general):
    found = edits([], [f"guard: {template.format(number)}" for number in (1, 12)])

    if general is None:
        assert len(found) == 2
    else:
        assert [(edit.text, edit.key, len(edit.changes)) for edit in found] == [
            (f"one guard more: {general}", ("guard", "more", general), 2)
        ]


def test_a_guard_of_one_block_is_told_with_its_number():
    (edit,) = edits([], ["guard: layers.12.scale == 2"])

    assert (edit.text, edit.key) == ("one guard more: layers.12.scale == 2", ("guard", "more", "layers.*.scale == 2"))


def test_other_notes_are_told_as_they_are():
    assert [edit.text for edit in edits(["one"], ["two"])] == ["one -> two"]
    assert [edit.text for edit in edits(["one"], [])] == ["one -> nothing"]
    assert [edit.text for edit in edits([], ["two"])] == ["nothing -> two"]
