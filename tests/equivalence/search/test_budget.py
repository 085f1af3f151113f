"""Searches of one call share its seconds, and say what they did."""

from __future__ import annotations

import pytest

from pytest_fxgraph.equivalence.search.budget import SearchBudget, SearchReport


def report(**facts) -> SearchReport:
    return SearchReport(**{"subject": "graph (mode eval)", "wanted": 200, "tried": 200, "seconds": 12.0, **facts})


def test_each_search_has_its_share_of_what_is_left():
    budget = SearchBudget(200, seconds=60.0, parts=3)

    assert budget.share() == 20
    budget.add(report(seconds=10.0))
    assert budget.share() == 25
    budget.add(report(seconds=70.0))
    assert budget.share() == 0


def test_a_report_says_how_many_tries_there_were_and_which_say_nothing():
    text = str(report(passed_over=(("eager refuses the input", 3),), kept_sizes=True))

    assert text == (
        "graph (mode eval): 200 of 200 tries in 12.0 s, and no difference; "
        "passed over: 3 where eager refuses the input; all sizes were kept, for nothing takes others"
    )


def test_tries_are_left_out_only_if_the_time_was_up():
    assert report(tried=150).left_out == 0  # there were no more different inputs
    assert report(tried=150, is_cut=True).left_out == 50
    assert "50 tries were left out: raise search_seconds, or lower search" in str(report(tried=150, is_cut=True))


@pytest.mark.parametrize("seconds", [0, -1.0, float("nan")])
def test_no_time_at_all_is_refused(seconds):
    with pytest.raises(ValueError, match="search_seconds must be a number above 0, got"):
        SearchBudget(200, seconds)
