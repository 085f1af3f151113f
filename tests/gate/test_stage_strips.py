from __future__ import annotations

from types import SimpleNamespace

import pytest

from pytest_fxgraph.gate.stage_strips import StageStrips, attach_strips, keep_strip
from pytest_fxgraph.report.stage_strip import StageStrip


def report_of(when: str, nodeid: str = "test_net.py::test_net") -> SimpleNamespace:
    return SimpleNamespace(when=when, nodeid=nodeid)


def test_what_a_test_followed_leaves_on_its_report_alone():
    config = SimpleNamespace(stash=pytest.Stash())
    keep_strip(StageStrip("", (), "first"), config)
    followed, other = report_of("call"), report_of("call", "test_net.py::test_other")

    attach_strips(followed, config)
    attach_strips(other, config)
    strips = StageStrips()
    strips.take(followed)
    strips.take(other)

    assert strips.all() == (StageStrip("test_net.py::test_net", (), "first"),)


def test_what_an_earlier_attempt_followed_is_forgotten():
    config, strips = SimpleNamespace(stash=pytest.Stash()), StageStrips()
    for text in ("first attempt", "second attempt"):
        strips.take(report_of("setup"))
        keep_strip(StageStrip("", (), text), config)
        report = report_of("call")
        attach_strips(report, config)
        strips.take(report)

    assert [strip.text for strip in strips.all()] == ["second attempt"]
