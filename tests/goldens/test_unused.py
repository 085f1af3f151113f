from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from pytest_fxgraph.goldens.unused import unused_goldens
from pytest_fxgraph.report.plain_data import record_of
from pytest_fxgraph.report.run_record import RunRecord

RUN = RunRecord(
    had_path_arguments=False,
    finished=True,
    found={"test_a.py": ("", "test_x")},
    ended={"test_a.py": ("", "test_x")},
    asked=("golden/test_a/test_x.yaml",),
    others={"golden/test_a/test_y.yaml": "test_a.py"},
)
GONE = replace(RUN, others={"golden/test_b/test_y.yaml": "test_b.py"}, gone=("test_b.py",))


def test_a_golden_of_a_file_that_ran_whole_is_unused():
    assert unused_goldens([RUN]) == ["golden/test_a/test_y.yaml"]


@pytest.mark.parametrize(
    "record",
    [
        replace(RUN, ended={"test_a.py": ("",)}),
        replace(RUN, ended={"test_a.py": ("test_x",)}),
        replace(RUN, ended={}),
        replace(RUN, found={}),
        replace(RUN, failed={"test_a.py": ("test_x",)}),
        replace(RUN, found={"test_a.py": ("", "test_x", "TestY")}),
        replace(RUN, asked=("golden/test_a/test_y.yaml",)),
        replace(RUN, asked=("golden/test_a/test_y@torch-2.6.yaml",)),
    ],
)
def test_whatever_is_missing_makes_it_unknown(record):
    assert unused_goldens([record]) == []


def test_what_failed_in_one_shard_is_unknown_to_all():
    assert unused_goldens([RUN, replace(RUN, failed={"test_a.py": ("test_x",)})]) == []


def test_a_test_that_one_shard_skipped_has_run_in_another():
    skipped = replace(RUN, ended={"test_a.py": ("",)})

    assert unused_goldens([skipped]) == []
    assert unused_goldens([skipped, RUN]) == ["golden/test_a/test_y.yaml"]


def test_what_another_shard_asked_for_is_used():
    assert unused_goldens([RUN, replace(RUN, asked=("golden/test_a/test_y.yaml",), others={})]) == []


def test_a_file_that_is_gone_leaves_unused_goldens():
    assert unused_goldens([GONE]) == ["golden/test_b/test_y.yaml"]


@pytest.mark.parametrize("doubt", [{"had_path_arguments": True}, {"finished": False}])
def test_a_run_of_less_than_everything_does_not_say_that_a_file_is_gone(doubt):
    assert unused_goldens([replace(GONE, **doubt)]) == []
    assert unused_goldens([replace(GONE, **doubt), GONE]) == ["golden/test_b/test_y.yaml"]


def test_no_runs_know_nothing():
    assert unused_goldens([]) == []


def test_a_record_survives_its_plain_form():
    assert record_of(RunRecord, asdict(GONE)) == GONE
