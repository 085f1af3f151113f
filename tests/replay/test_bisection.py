from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_fxgraph.errors import RecordingError
from pytest_fxgraph.replay.bisection import first_changed_commit, first_changed_of, smallest_set
from pytest_fxgraph.replay.revisions import Repository


class Graphs:
    """The graph of each candidate as a letter; "?" for a candidate without a recording."""

    def __init__(self, good, graphs):
        self.good, self.graphs, self.asked = good, graphs, []

    def compare(self, candidate):
        self.asked.append(candidate)
        if self.graphs[candidate] == "?":
            raise RecordingError("cannot record it")
        return SimpleNamespace(found=[self.graphs[candidate]] * (self.graphs[candidate] != self.graphs[self.good]))


@pytest.mark.parametrize(
    ("graphs", "first", "between"),
    [
        ("ab", 1, 0),
        ("aaab", 3, 0),
        ("abbb", 1, 0),
        ("aaaaabbbb", 5, 0),
        ("aaabbaab", 3, 0),  # changed, back, and changed again: a search of halves finds one of both
        ("aabccc", 2, 0),  # changed twice: the first change counts
        ("aa?bb", 3, 1),
        ("a??b", 3, 2),
        ("a?ab", 3, 0),
        ("aaaa", None, 0),
    ],
)
def test_the_first_commit_with_other_graphs_is_found(git_folder, graphs, first, between):
    commits = [git_folder.commit({"a.py": f"{number}"}) for number in range(len(graphs))]
    found = Graphs(commits[0], dict(zip(commits, graphs, strict=True)))

    result = first_changed_commit(Repository.around(git_folder.path), commits[0], commits[-1], found.compare)

    assert (commits.index(result.first) if result.first else None) in (first, 7 if graphs == "aaabbaab" else first)
    assert len(result.between) == between
    assert len(found.asked) == len({*found.asked})


def test_few_of_many_commits_are_recorded(git_folder):
    commits = [git_folder.commit({"a.py": f"{number}"}) for number in range(32)]
    found = Graphs(commits[0], {commit: "ab"[number >= 20] for number, commit in enumerate(commits)})

    assert (
        first_changed_commit(Repository.around(git_folder.path), commits[0], commits[-1], found.compare).first
        == (commits[20])
    )
    assert len(found.asked) <= 6


def test_a_change_on_a_merged_branch_is_found_there(git_folder):
    good = git_folder.commit({"a.py": "1"})
    git_folder.git("checkout", "-q", "-b", "side")
    cause = git_folder.commit({"b.py": "1"})
    last = git_folder.commit({"b.py": "2"})
    git_folder.git("checkout", "-q", "main")
    other = git_folder.commit({"a.py": "2"})
    git_folder.git("merge", "-q", "--no-ff", "-m", "merge", "side")
    merge = git_folder.git("rev-parse", "HEAD")
    found = Graphs(good, {good: "a", cause: "b", last: "b", other: "a", merge: "b"})

    assert first_changed_commit(Repository.around(git_folder.path), good, merge, found.compare).first == cause


def test_a_good_commit_that_is_no_ancestor_is_an_error(git_folder):
    start = git_folder.commit({"a.py": "1"})
    git_folder.git("checkout", "-q", "-b", "side")
    good = git_folder.commit({"b.py": "1"}, "aside")
    git_folder.git("checkout", "-q", "main")
    bad = git_folder.commit({"a.py": "2"}, "changed")
    found = Graphs(good, {start: "a", good: "a", bad: "b"})

    with pytest.raises(RecordingError, match=r"\w+ changed does not descend from \w+ aside; give an older commit"):
        first_changed_commit(Repository.around(git_folder.path), good, bad, found.compare)


@pytest.mark.parametrize(
    ("graphs", "first", "between"),
    [("ab", 1, ""), ("aaabb", 3, ""), ("a?b", 2, "1"), ("a?ab?", None, ""), ("aaa", "", "")],
)
def test_the_first_interpreter_with_other_graphs_is_found(graphs, first, between):
    names = [str(number) for number in range(len(graphs))]
    found = Graphs("0", dict(zip(names, graphs, strict=True)))

    if graphs[-1] == "?":
        with pytest.raises(RecordingError, match="cannot record it"):
            first_changed_of(names, found.compare)
        return
    result = first_changed_of(names, found.compare)
    assert (result.first, "".join(result.between)) == (str(first), between)


FLAGS = [f"flag_{number}" for number in range(20)]


class Runs:
    """Runs with sets of flags. `changes` tells whether a set changes the graphs; None stands for a broken run."""

    def __init__(self, changes):
        self.changes, self.asked = changes, []

    def compare(self, chosen):
        assert chosen
        self.asked.append(tuple(chosen))
        changes = self.changes(set(chosen))
        if changes is None:
            raise RecordingError("cannot record it")
        return SimpleNamespace(found=[chosen] * changes)


@given(st.sets(st.sampled_from(FLAGS), min_size=1, max_size=3))
def test_flags_that_change_the_graphs_together_are_found_in_few_runs(planted):
    runs = Runs(planted.issubset)

    result = smallest_set(FLAGS, runs.compare)

    assert result.first == ", ".join(sorted(planted, key=FLAGS.index))
    assert result.findings.found
    assert not result.between
    assert len(runs.asked) == len({*runs.asked}) <= 1 + len(planted) * 6 + (len(planted) > 1) * len(planted)


@given(st.sets(st.sampled_from(FLAGS), min_size=1))
def test_of_flags_that_change_the_graphs_each_alone_one_is_found(planted):
    result = smallest_set(FLAGS, Runs(lambda chosen: bool(chosen & planted)).compare)

    assert result.first in planted


@given(st.dictionaries(st.frozensets(st.sampled_from(FLAGS[:5])), st.sampled_from([True, False, None])))
def test_without_any_one_of_the_found_flags_the_graphs_stay_however_flags_work_together(answers):
    answers[frozenset(FLAGS[:5])] = True
    runs = Runs(lambda chosen: answers.get(frozenset(chosen), False))

    result = smallest_set(FLAGS[:5], runs.compare)

    found = frozenset(result.first.split(", "))
    fewer = [found - {each} for each in found if len(found) > 1]
    assert answers[found] is True
    assert not any(answers.get(each) for each in fewer)
    assert len(result.between) == sum(each in answers and answers[each] is None for each in fewer)


def test_a_flag_is_left_out_once_more_where_another_flag_had_undone_a_change():
    changing = [{"w"}, {"w", "z"}, {"w", "x", "y", "z"}]

    result = smallest_set("wxyz", Runs(lambda chosen: chosen in changing).compare)

    assert (result.first, result.between) == ("w", [])


def test_flags_that_change_nothing_take_one_run():
    runs = Runs(lambda chosen: False)

    assert smallest_set(FLAGS, runs.compare).first == ""
    assert len(runs.asked) == 1


def test_all_flags_without_a_recording_are_an_error():
    with pytest.raises(RecordingError, match="cannot record it"):
        smallest_set(FLAGS, Runs(lambda chosen: None).compare)


@pytest.mark.parametrize(("names", "asked"), [("abcdefg", "gdef"), ("abcdef", "fcde"), ("abc", "cb"), ("ab", "b")])
def test_the_middle_is_recorded_first_and_the_earlier_of_two(names, asked):
    found = Graphs("a", {name: "ab"[name == names[-1]] for name in names})

    assert first_changed_of(names, found.compare).first == names[-1]
    assert "".join(found.asked) == asked
