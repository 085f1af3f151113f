"""The tables in docs/equivalence.md are those that a run of today gives."""

from __future__ import annotations

import pytest

from fixtures.equivalence_page import PAGE, parts, with_parts


@pytest.mark.slow
def test_the_tables_of_the_page_are_measured():
    page, measured = PAGE.read_text(encoding="utf-8"), parts()

    assert with_parts(page, measured) == page, "run `python -m fixtures.equivalence_page`, and look at what changed"
    assert not any("NOT CAUGHT" in row or "REFUSED" in row for rows in measured.values() for row in rows)
    assert len(measured["right"]) - 2 >= 15
    assert len(measured["broken"]) - 2 >= 25
