from __future__ import annotations

from dataclasses import asdict

from pytest_fxgraph.report.plain_data import record_of
from pytest_fxgraph.report.stage_strip import StageStrip, StripNode, StripStage

STRIP = StageStrip(
    "test_net.py::test_net",
    (
        StripStage("export", (StripNode("linear", "aten.linear", "traced", module="fc", source="model.py:3"),)),
        StripStage("decompose", (StripNode("addmm", "aten.addmm", "rewritten", (0,)),), (0,)),
    ),
    "in words",
)


def test_a_strip_is_the_same_after_it_was_sent():
    assert record_of(StageStrip, asdict(STRIP)) == STRIP


def test_a_strip_is_named_by_its_stages():
    assert STRIP.title == "export \N{RIGHTWARDS ARROW} decompose"
