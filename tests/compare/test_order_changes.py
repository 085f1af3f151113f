from __future__ import annotations

from fixtures.documents import document
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.document.model import ModuleRecord


def moves(expected: str, obtained: str):
    changes = compare_documents(document(expected), document(obtained)).changes
    return [(change.kind, change.action, change.where, change.expected, change.obtained) for change in changes]


def test_only_the_random_operator_that_moved_is_named():
    one, two, three = (f"%{name} = {name}(%x) ! random" for name in ("f", "g", "h"))

    found = moves(
        "\n".join(["%x = input x", one, two, three, "return (%f, %g, %h)"]),
        "\n".join(["%x = input x", two, three, one, "return (%f, %g, %h)"]),
    )

    assert found == [("order", "moved", "f", "first of its kind", "after h")]


def test_an_added_random_operator_moves_none_of_the_others():
    found = moves(
        "%x = input x\n%a = f(%x) ! random\n%b = g(%a) ! random\nreturn %b",
        "%x = input x\n%n = h(%x) ! random\n%a = f(%n) ! random\n%b = g(%a) ! random\nreturn %b",
    )

    assert [change[1:3] for change in found] == [("added", "n")]


def test_a_read_that_moved_past_a_write_is_named():
    found = moves(
        "%x = input x\n%r = f(%x) ! read %x\n%w = .add_(%x, 1) ! write %x\nreturn (%r, %w)",
        "%x = input x\n%w = .add_(%x, 1) ! write %x\n%r = f(%x) ! read %x\nreturn (%r, %w)",
    )

    assert found == [("order", "moved", "r", "before the first write to its storage", "after 1 write to its storage")]


def test_an_added_write_does_not_move_the_reads_after_it():
    found = moves(
        "%x = input x\n%r = f(%x) ! read %x\n%w = .add_(%x, 1) ! write %x\nreturn (%r, %w)",
        "%x = input x\n%n = .zero_(%x) ! write %x\n%r = f(%x) ! read %x\n%w = .add_(%x, 1) ! write %x\nreturn (%r, %w)",
    )

    assert [change[1:3] for change in found] == [("added", "n")]


def test_exchanged_inputs_are_a_change_of_the_signature():
    found = moves("%x = input x\n%y = input y\nreturn (%x, %y)", "%y = input y\n%x = input x\nreturn (%x, %y)")

    assert found == [("signature", "moved", "x", "first of its kind", "after y")]


def test_effects_are_named_where_nothing_else_differs():
    (change,) = compare_documents(
        document("%x = input x\n%a = f(%x) ! random\nreturn %a"), document("%x = input x\n%a = f(%x)\nreturn %a")
    ).changes

    assert (change.kind, change.where, change.field, change.expected, change.obtained) == (
        "order",
        "a",
        "effects",
        "random",
        "none",
    )


def test_effects_that_follow_from_a_module_are_not_listed_beside_it():
    expected, obtained = (
        document(
            f"%x = input x\n%a = self.bn(%x){effect}\nreturn %a",
            modules=(ModuleRecord("bn", "torch.nn.BatchNorm1d", training=training),),
        )
        for training, effect in ((True, " ! state"), (False, ""))
    )

    (change,) = compare_documents(expected, obtained).changes

    assert (change.where, change.field) == ("bn", "training")


def test_writes_that_follow_from_a_module_are_no_other_storage():
    expected, obtained = (
        document(
            f"%x = input x\n%a = self.act(%x){effect}\nreturn %a",
            modules=(ModuleRecord("act", "torch.nn.ReLU", (("inplace", inplace),)),),
        )
        for inplace, effect in (("False", ""), ("True", " ! write %x"))
    )

    (change,) = compare_documents(expected, obtained).changes

    assert (change.where, change.field) == ("act", "config.inplace")
