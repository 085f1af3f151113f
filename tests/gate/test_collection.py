from __future__ import annotations

from types import SimpleNamespace

import pytest

from pytest_fxgraph.gate.collection import COLLECTION_RECORD, CollectionRecord, ItemResults, has_case_collision

ID = "test_a.py::TestB::test_c"
PHASES = ("setup", "call", "teardown")


@pytest.fixture
def collect(pytester):
    """Collect a file `test_a.py` and return the session."""

    def collected(source, *options):
        sessions = []

        class Look:
            def pytest_sessionfinish(self, session):
                sessions.append(session)

        pytester.makepyfile(test_a=source)
        pytester.mkdir("golden")  # without one, nothing is recorded
        pytester.inline_run("--co", "-p", "no:randomly", "-p", "no:hypothesispytest", *options, plugins=[Look()])
        return sessions[0]

    return collected


def record_of(session: pytest.Session) -> CollectionRecord:
    return session.config.stash[COLLECTION_RECORD]


def reports(*phases: tuple[str, str]) -> CollectionRecord:
    record = CollectionRecord(SimpleNamespace())
    results = ItemResults(record)
    for when, outcome in phases:
        results.pytest_runtest_logreport(SimpleNamespace(nodeid=ID, when=when, outcome=outcome))
    return record


def test_a_file_and_its_classes_are_found_with_all_that_they_hold(collect):
    source = "def test_a(): ...\n\nclass TestB:\n    def test_c(self): ...\n"

    assert record_of(collect(source, "-k", "test_a")).to_dict() == {
        "found": {"test_a.py": ("", "TestB", "TestB::test_c", "test_a")},
        "ended": {"test_a.py": ("", "TestB")},
        "failed": {},
    }


def test_a_file_that_cannot_be_collected_has_failed(collect):
    record = record_of(collect("import nothing_like_that\n"))

    assert (record.found, record.ended, record.failed) == ({"test_a.py": {""}}, {}, {"test_a.py": {""}})


def test_a_file_without_tests_has_ended(collect):
    assert record_of(collect("")).ended == {"test_a.py": {""}}


def test_the_record_of_a_worker_is_added():
    record = CollectionRecord(SimpleNamespace())
    record.found["test_a.py"] = {"", "test_x"}

    record.add({"found": {"test_a.py": ("test_y",)}, "ended": {"test_z.py": ("test_q",)}, "failed": {}})

    assert record.to_dict() == {
        "found": {"test_a.py": ("", "test_x", "test_y")},
        "ended": {"test_z.py": ("test_q",)},
        "failed": {},
    }


def test_a_test_has_ended_once_its_three_phases_have_passed():
    record = reports(*((when, "passed") for when in PHASES))

    assert record.ended == {"test_a.py": {"TestB::test_c"}}
    assert record.failed == {}


@pytest.mark.parametrize("failing", PHASES)
def test_a_test_that_failed_anywhere_has_failed_and_not_ended(failing):
    record = reports(*((when, "failed" if when == failing else "passed") for when in PHASES))

    assert record.failed == {"test_a.py": {"TestB::test_c"}}
    assert record.ended == {}


def test_a_skipped_test_has_neither_ended_nor_failed():
    record = reports(("setup", "skipped"), ("teardown", "passed"))

    assert (record.ended, record.failed) == ({}, {})


def test_what_passed_in_a_repeated_attempt_does_not_count():
    record = reports(("setup", "passed"), ("call", "passed"), ("setup", "passed"), ("teardown", "passed"))

    assert record.ended == {}


def test_tests_whose_names_differ_in_case_only_are_marked_and_what_is_in_such_classes(collect):
    source = "def test_a(): ...\ndef test_A(): ...\ndef test_b(): ...\n"
    source += "class TestC:\n    def test_d(self): ...\nclass Testc:\n    def test_e(self): ...\n"

    session = collect(source)

    assert {item.name for item in session.items if has_case_collision(item)} == {"test_a", "test_A", "test_d", "test_e"}


@pytest.mark.parametrize(
    ("files", "options", "ended"),
    [
        ({"test_a.py": "import pytest\npytest.skip('not here', allow_module_level=True)\n"}, (), []),
        ({"test_a.py": ""}, ("-p", "no:cacheprovider"), ["test_a.py"]),
        ({"test_a.py": ""}, ("--lf",), []),
        ({"test_a.py": "def test_x(): ...\n"}, ("--lf",), ["test_a.py"]),
        ({"a.py": '"""\n>>> 1\n1\n"""\n'}, ("--doctest-modules",), []),
        (
            {"a.py": '"""\n>>> 1\n1\n"""\n', "a.txt": ">>> 1\n1\n"},
            ("--doctest-modules", "--doctest-glob=*.txt"),
            ["a.txt"],
        ),
    ],
)
def test_a_file_has_ended_if_a_collector_of_tests_looked_into_it(pytester, files, options, ended):
    records = []

    class Look:
        def pytest_sessionfinish(self, session):
            records.append(session.config.stash[COLLECTION_RECORD])

    for name, text in files.items():
        (pytester.path / name).write_text(text, encoding="utf-8")
    pytester.mkdir("golden")
    pytester.inline_run("--co", "-p", "no:randomly", "-p", "no:hypothesispytest", *options, plugins=[Look()])

    assert [*records[0].ended] == ended
