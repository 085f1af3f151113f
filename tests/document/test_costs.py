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

    start = lines.index("cost: |")
    assert lines[start + 1 : start + 4] == [
        "  total: flops=300, read=80, written=20, params=10, nodes=2, peak_activation=64, "
        'peak_at="layers.0", uncounted=["lib.f"]',
        "  layers.0: flops=1, read=2, written=3, params=4, nodes=5",
        '  "": flops=0, read=0, written=0, params=0, nodes=0',
    ]


@pytest.mark.parametrize(
    ("text", "instead", "words"),
    [
        ("flops=1,", "flops=many,", "costs are whole numbers of flops, read, written, params, nodes"),
        ("flops=1,", "flops=True,", "costs are whole numbers"),
        ("flops=1,", "flops=-1,", "costs are whole numbers"),
        ("flops=1, ", "", "costs are whole numbers"),
        ("flops=1,", "flops=1, watts=2,", "costs are whole numbers"),
        ("flops=1,", "1,", "the number '1' has no name"),
        ("peak_activation=64, ", "", "the costs begin with `total: flops=0"),
        ('peak_at="layers.0"', "peak_at=1", "the costs begin with `total: flops=0"),
        ('["lib.f"]', '["lib.f]', "a quoted text does not end"),
    ],
)
def test_a_damaged_block_is_refused_with_the_reason(text, instead, words):
    with pytest.raises(GoldenFormatError, match=f"a.yaml, line .*: {words}"):
        decode(encode(GOLDEN).replace(text, instead, 1), "a.yaml")


def test_an_empty_block_is_refused():
    text = encode(replace(GOLDEN, cost=None)).replace("end: true", "cost: |\n\nend: true")

    with pytest.raises(GoldenFormatError, match="the section `cost:` is empty"):
        decode(text, "a.yaml")


def test_costs_are_equal_whatever_no_golden_holds():
    measured = replace(COST, by_node={"x": CostRecord()}, held=(("x", 4),))

    assert measured == COST
    assert repr(measured) == repr(COST)
    assert CostRecord() == CostRecord(0, 0, 0, 0, 0)
    assert CostRecord(read=2, written=3).bytes == 5


def test_a_metric_is_that_of_the_whole_graph():
    names = ("flops", "bytes", "params", "nodes", "peak_activation")

    assert [COST.metric(name) for name in names] == [300, 100, 10, 2, 64]
