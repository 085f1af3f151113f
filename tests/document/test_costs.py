"""The block `cost:` of a golden: written and read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fixtures.documents import document
from pytest_fxgraph.document.costs import CostBlock, CostRecord
from pytest_fxgraph.document.decoding import decode
from pytest_fxgraph.document.encoding import encode
from pytest_fxgraph.errors import GoldenFormatError

COST = CostBlock(
    CostRecord(300, 80, 20, 10, 2),
    64,
    "layers.0",
    (("layers.0", CostRecord(1, 2, 3, 4, 5)), ("", CostRecord())),
    ("lib.f",),
)
GOLDEN = replace(document("%x = input x\nreturn %x"), cost=COST)


def test_what_is_written_is_read_back():
    assert decode(encode(GOLDEN), "a.yaml") == GOLDEN
    assert decode(encode(replace(GOLDEN, cost=None)), "a.yaml").cost is None


def test_it_is_a_line_for_the_whole_and_one_for_each_module():
    lines = encode(GOLDEN).split("\n")

    start = lines.index("cost:")
    assert lines[start + 1 : start + 4] == [
        "- {whole: true, flops: 300, read: 80, written: 20, params: 10, nodes: 2, peak_activation: 64, "
        "peak_at: layers.0, uncounted: [lib.f]}",
        "- {module: layers.0, flops: 1, read: 2, written: 3, params: 4, nodes: 5}",
        "- {module: '', flops: 0, read: 0, written: 0, params: 0, nodes: 0}",
    ]


@pytest.mark.parametrize(
    ("text", "instead", "words"),
    [
        ("flops: 1,", "flops: many,", "'flops' is 'many', not a whole number"),
        ("flops: 1,", "flops: true,", "'flops' is True, not a whole number"),
        ("flops: 1, ", "", "the costs of a module lacks 'flops'"),
        ("flops: 1,", "flops: 1, watts: 2,", "the costs of a module has 'watts', which format 2 does not know"),
        ("peak_activation: 64, ", "", "the costs of the whole graph lacks 'peak_activation'"),
        ("module: layers.0", "module: true", "'module' is True, which is not a text"),
        ("uncounted: [lib.f]", "uncounted: [true]", "'uncounted' holds True, which is not a text"),
    ],
)
def test_a_damaged_block_is_refused_with_the_reason(text, instead, words):
    with pytest.raises(GoldenFormatError, match=f"a.yaml, line .*: {words}"):
        decode(encode(GOLDEN).replace(text, instead, 1), "a.yaml")


def test_an_empty_block_is_refused():
    text = encode(replace(GOLDEN, cost=None)).replace("end: true", "cost: []\nend: true")

    with pytest.raises(
        GoldenFormatError, match="'cost' is not a sequence of mappings, the first of which tells of the"
    ):
        decode(text, "a.yaml")
