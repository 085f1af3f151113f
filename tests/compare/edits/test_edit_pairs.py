"""Headlines name the edit of most pairs with a known edit; `python -m benchmarks.edit_words` shows the others."""

from __future__ import annotations

import pytest

from benchmarks.edit_words import scored, table_of
from fixtures.edit_pairs.sources import SOURCES

SAMPLE = 6  # every so many-th pair; the whole is long


@pytest.mark.slow
def test_the_headlines_of_a_sample_name_the_edit():
    pairs = [pair for found in SOURCES.values() for pair in found][::SAMPLE]

    scores = [scored(pair) for pair in pairs]

    named = sum(score.is_named for score in scores)
    assert named >= 0.8 * len(scores), [(score.pair.name, score.headline) for score in scores if not score.is_named]
    assert sum(score.explained for score in scores) >= 0.9 * sum(score.changes for score in scores)


@pytest.mark.long
def test_nine_headlines_of_ten_name_the_edit_and_nearly_all_changes_are_in_one():
    scores = [scored(pair) for found in SOURCES.values() for pair in found]

    assert len(scores) >= 50
    named = [score.is_named for score in scores]
    assert sum(named) >= 0.9 * len(named), [(score.pair.name, score.headline) for score in scores if not score.is_named]
    assert sum(score.explained for score in scores) >= 0.95 * sum(score.changes for score in scores)


def test_the_table_counts_what_was_scored():
    pair = next(iter(SOURCES.values()))[0]
    score = scored(pair)

    table = table_of({"one": [score, score._replace(is_named=False, explained=0)]})

    assert f"| one | 2 | 1 (50%) | {score.changes} of {2 * score.changes} (50.0%) | {score.lines} |" in table


def test_every_pair_has_a_name_of_its_own():
    for pairs in SOURCES.values():
        names = [(pair.name, getattr(pair, "model", "")) for pair in pairs]
        assert len(set(names)) == len(names)
