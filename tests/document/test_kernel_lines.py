"""The line about a kernel: its text and its parts."""

import pytest

from pytest_fxgraph.document.kernel_lines import KernelLine

LINES = [
    KernelLine("", "pointwise", "", "", (("aten.add", 2), ("aten.relu", 1)), 64, 1_234_567),
    KernelLine("backward ", "extern", "extern_kernels.mm", "layers.*.up, norm", (("aten.mm", 1),), 0, 8),
    KernelLine("", "fallback", "torch.ops.aten.sort.stable", "", (), 1, 2),
    KernelLine("", "copy", "", "in", (("higher_order.cond", 1),), 1_000, 0),
]


@pytest.mark.parametrize("line", LINES, ids=[line.kind for line in LINES])
def test_the_text_of_a_line_has_all_its_parts(line):
    assert KernelLine.from_text(line.text) == line


def test_the_text_of_a_line():
    assert LINES[0].text == "pointwise: aten.add x2, aten.relu; 64 B read, 1,234,567 B written"
    assert LINES[1].text == "backward extern extern_kernels.mm in layers.*.up, norm: aten.mm; 0 B read, 8 B written"
    assert LINES[1].named == "backward extern kernel extern_kernels.mm of aten.mm"


def test_a_line_of_another_release_is_kept_as_it_is():
    line = KernelLine.from_text("loop nest 7")

    assert (line.kind, line.kernel, line.told, line.bytes) == ("loop nest 7", "loop nest 7 kernel", "no operator", 0)
    assert (line.read, line.written, line.counted) == (0, 0, {})
