"""Level `kernels`: kernels as multisets, and the words for fusions."""

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
