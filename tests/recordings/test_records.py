from __future__ import annotations

import json

import pytest

from pytest_fxgraph.errors import RecordingError
from pytest_fxgraph.recordings.records import (
    EndRecord,
    GraphRecord,
    LeftOutRecord,
    OutcomeRecord,
    StartRecord,
    from_line,
    to_line,
)

RECORDS = (
    StartRecord("1-a", ["-q"], ["symbolic"], {"torch": "2.13.0"}),
    GraphRecord(
        "tests/test_a.py::test_b", 0, "symbolic", "M", "ab12", "tests/test_a.py:3", {"breaks": ["a call of print"]}
    ),
    LeftOutRecord("t", "export", "M", "it draws\nnumbers"),
    OutcomeRecord("t", "passed"),
    EndRecord(3, 1),
)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_a_record_comes_back_from_its_line(record):
    line = to_line(record)
    assert "\n" not in line
    assert from_line(line, "the index") == record


@pytest.mark.parametrize(
    "line", ["", "{", "[]", '{"record": "other"}', '{"record": "end", "tests": 1}', '{"tests": 1}']
)
def test_another_line_is_refused_in_words(line):
    with pytest.raises(RecordingError, match=r"cannot read index/a\.jsonl, line 3: it is no record of an index"):
        from_line(line, "index/a.jsonl, line 3")


def test_another_format_is_refused_with_both_formats():
    line = json.dumps({**json.loads(to_line(RECORDS[0])), "format": 9})
    with pytest.raises(RecordingError, match="its format is 9, this version reads 1; record the run again"):
        from_line(line, "the index")


def test_an_index_shows_letters_as_they_are():
    assert '"größer"' in to_line(LeftOutRecord("t", "export", "M", "größer"))


def test_a_line_without_later_fields_is_read():
    line = '{"record": "run", "process": "1-a", "arguments": [], "kinds": [], "environment": {}}'

    run = from_line(line, "the index")

    assert (run.worker, run.format, run.started, run.seeded) == ("", 1, 0.0, False)
