"""Level `kernels`: kernels as multisets, and the words for fusions."""

from __future__ import annotations

import pytest

from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.document.capture_notes import kernel_notes, key_of_refusal
from pytest_fxgraph.document.model import GraphDocument
from pytest_fxgraph.report.text import headline

FUSED = "pointwise in up: aten.add, aten.relu; 64 B read, 64 B written"
ADD, RELU = ("pointwise in up: aten.add; 64 B read, 64 B written", "pointwise: aten.relu; 64 B read, 64 B written")


def document(*kernels, places=None):
    notes = ("frontend: inductor", *kernel_notes(kernels, ()))
    return GraphDocument((), notes=notes, places=places or {})


def words(expected, obtained):
    return [edit.text for edit in compare_documents(expected, obtained, level="kernels").edits]


def test_order_and_modules_do_not_count_and_equal_kernels_are_one_line():
    assert len(document(ADD, ADD, RELU).notes) == 3
    assert document(ADD, ADD).notes[1] == f"kernel: {ADD}; x2"
    assert words(document(ADD, RELU, RELU), document(RELU, ADD.replace(" in up", " in down"), RELU)) == []


def test_a_lost_fusion_is_told_with_the_reason_that_torch_gives():
    places = {key_of_refusal(RELU, ADD): "intermediate nodes"}

    assert words(document(FUSED), document(ADD, RELU, places=places)) == [
        "+1 kernel, +128 B moved: aten.add is no longer fused with aten.relu: one pointwise kernel became 2: "
        "pointwise kernel of aten.add; pointwise kernel of aten.relu, because intermediate nodes"
    ]


def test_a_new_fusion_and_a_further_kernel_are_told():
    copy = "copy: aten.clone; 64 B read, 64 B written"

    assert words(document(ADD, RELU), document(FUSED, copy)) == [
        "2 kernels as before: aten.add is now fused with aten.relu: 2 kernels became one pointwise kernel",
        f"one kernel more: {copy}",
    ]


def test_a_template_that_is_no_longer_chosen_and_more_bytes_are_changes():
    template = "template: aten.addmm; 96 B read, 64 B written"
    extern = "extern extern_kernels.addmm: aten.addmm; 96 B read, 64 B written"

    assert words(document(template), document(extern)) == [
        "1 kernel as before: aten.addmm: template kernel became extern kernel extern_kernels.addmm"
    ]
    assert words(document(ADD), document(ADD.replace("64 B read", "2,064 B read"))) == [
        "1 kernel as before, +2 KB moved: pointwise kernel of aten.add: reads 64 B -> 2,064 B"
    ]


def test_a_fusion_that_is_lost_in_each_block_is_one_edit():
    difference = compare_documents(document(*[FUSED] * 12), document(*[ADD] * 12, *[RELU] * 12), level="kernels")

    assert len(difference.edits) == 1
    assert len(difference.edits[0].sites) == 12
    assert headline(difference).startswith("+12 kernels, +1.536 KB moved: aten.add is no longer")


def test_forward_and_backward_kernels_are_different_kernels():
    assert len(words(document(ADD), document(f"backward {ADD}"))) == 2


def test_an_edit_of_models_of_several_widths_has_one_key():
    def keys(expected, obtained):
        return [edit.key for edit in compare_documents(document(*expected), document(*obtained), level="kernels").edits]

    def wide(*texts):
        return [text.replace("64 B", "640 B").replace("128 B", "1,280 B") for text in texts]

    more = ADD.replace("64 B read", "128 B read")
    for expected, obtained in (
        ((FUSED,), (ADD, RELU)),
        ((ADD, RELU), (FUSED,)),
        ((), (ADD,)),
        ((ADD,), ()),
        ((ADD,), (more,)),
    ):
        assert len(keys(expected, obtained)) == 1
        assert keys(expected, obtained) == keys(wide(*expected), wide(*obtained))
    assert keys((ADD,), (more,)) != keys((more,), (ADD,)) != keys((ADD,), (RELU,))


def kernel(operators, read=64, written=64, kind="pointwise", module=""):
    where = f" in {module}" if module else ""
    return f"{kind}{where}: {operators}; {read:,} B read, {written:,} B written"


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        # A kernel with at least half of the operators took the place of another.
        (
            [kernel("aten.add, aten.mul")],
            [kernel("aten.add, aten.exp")],
            ["1 kernel as before: pointwise kernel of aten.add, aten.mul: without aten.mul, with aten.exp"],
        ),
        (
            [kernel("aten.add, aten.mul")],
            [kernel("aten.add")],
            ["1 kernel as before: pointwise kernel of aten.add, aten.mul: without aten.mul"],
        ),
        (
            [kernel("aten.add, aten.mul")],
            [kernel("aten.add, aten.exp, aten.sin")],
            [
                f"1 kernel as before: one kernel more: {kernel('aten.add, aten.exp, aten.sin')}",
                f"one kernel fewer: {kernel('aten.add, aten.mul')}",
            ],
        ),
        (
            [kernel("aten.add")],
            [kernel("aten.add", kind="reduction")],
            ["1 kernel as before: aten.add: pointwise kernel became reduction kernel"],
        ),
        # Kernels and bytes are counted.
        ([kernel("aten.add")], [], [f"-1 kernel, -128 B moved: one kernel fewer: {kernel('aten.add')}"]),
        (
            [],
            [kernel("aten.add", 1000, 0), kernel("aten.exp", 0, 500)],
            [
                f"+2 kernels, +1.5 KB moved: one kernel more: {kernel('aten.add', 1000, 0)}",
                f"one kernel more: {kernel('aten.exp', 0, 500)}",
            ],
        ),
        (
            [kernel("aten.add", 500)],
            [kernel("aten.add", 1500)],
            ["1 kernel as before, +1 KB moved: pointwise kernel of aten.add: reads 500 B -> 1,500 B"],
        ),
        (
            [kernel("aten.add", 999, 1)],
            [kernel("aten.add", 1999, 0)],
            [
                "1 kernel as before, +999 B moved: pointwise kernel of aten.add: reads 999 B -> 1,999 B, "
                "writes 1 B -> 0 B"
            ],
        ),
        (
            [kernel("aten.add", 2 * 10**6)],
            [kernel("aten.add", 0)],
            ["1 kernel as before, -2 MB moved: pointwise kernel of aten.add: reads 2,000,000 B -> 0 B"],
        ),
        (
            [kernel("aten.add", 0)],
            [kernel("aten.add", 10**15)],
            ["1 kernel as before, +1000 TB moved: pointwise kernel of aten.add: reads 0 B -> 1,000,000,000,000,000 B"],
        ),
        # A part may have all operators.
        (
            [kernel("aten.add x2, aten.mul")],
            [kernel("aten.add"), kernel("aten.add, aten.mul")],
            [
                "+1 kernel, +128 B moved: aten.add is no longer fused with aten.add, aten.mul: one pointwise kernel "
                "became 2: pointwise kernel of aten.add; pointwise kernel of aten.add, aten.mul"
            ],
        ),
        # Kernels of one phase are fused.
        (
            [kernel("aten.add, aten.mul")],
            [kernel("aten.add"), f"backward {kernel('aten.mul')}"],
            [
                "+1 kernel, +128 B moved: pointwise kernel of aten.add, aten.mul: without aten.mul",
                f"one kernel more: backward {kernel('aten.mul')}",
            ],
        ),
    ],
)
def test_kernels_that_differ_are_told_with_the_balance_of_kernels_and_bytes(before, after, told):
    difference = compare_documents(document(*before), document(*after), level="kernels")

    assert [edit.text for edit in difference.edits] == told
    assert difference.records == ({"kernel": before}, {"kernel": after})


def test_three_kernels_that_were_or_are_one_are_at_the_first_module_that_is_known():
    one = [kernel("aten.add, aten.mul, aten.exp", module="up")]
    three = [kernel("aten.add"), kernel("aten.mul", module="down"), kernel("aten.exp")]

    (split,) = compare_documents(document(*one), document(*three), level="kernels").edits
    (merged,) = compare_documents(document(*three), document(*one), level="kernels").edits

    assert split.text == (
        "+2 kernels, +256 B moved: aten.add is no longer fused with aten.exp: one pointwise kernel became 3: "
        "pointwise kernel of aten.add; pointwise kernel of aten.mul; pointwise kernel of aten.exp"
    )
    assert merged.text == (
        "-2 kernels, -256 B moved: aten.add is now fused with aten.exp: 3 kernels became one pointwise kernel"
    )
    assert [(edit.sites[0].where, len(edit.changes)) for edit in (split, merged)] == [("down", 4), ("up", 4)]


def test_equal_kernels_have_no_records():
    difference = compare_documents(document(ADD, RELU), document(RELU, ADD), level="kernels")

    assert (difference.changes, difference.edits, difference.records) == ((), (), ({}, {}))
