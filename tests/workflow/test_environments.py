"""The same results however pytest is started, and whatever else is loaded."""

from __future__ import annotations

import os

import pytest

TWO_TESTS = """
import torch


def test_first(fx_golden):
    assert (lambda x: {first}(x)) == fx_golden


def test_second(fx_golden):
    assert (lambda x: {second}(x)) == fx_golden
"""
FIRST, SECOND = "test_net/test_first.yaml", "test_net/test_second.yaml"


@pytest.fixture
def broken(project):
    """Two recorded goldens, of which the graph of the first has changed."""
    project.test(TWO_TESTS.format(first="torch.neg", second="torch.abs"))
    project.update().assert_outcomes(passed=2)
    project.test(TWO_TESTS.format(first="torch.exp", second="torch.abs"))
    return project


@pytest.mark.parametrize("value", [None, "true"])
def test_words_and_writes_are_the_same_on_ci(broken, monkeypatch, value):
    for name in ("CI", "BUILD_NUMBER", "GITHUB_ACTIONS"):
        monkeypatch.delenv(name, raising=False)
    if value is not None:
        monkeypatch.setenv("CI", value)

    result = broken.run()

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "E*AssertionError: golden/test_net/test_first.yaml does not match: *torch.neg -> torch.exp",
            "E*pytest --fx-update-golden test_net.py::test_first",
            "*- fx golden golden/test_net/test_first.yaml -*",
            "fx: 1 golden matched, 1 differs",
        ]
    )
    broken.update().assert_outcomes(passed=2)
    broken.run().assert_outcomes(passed=2)


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("verbosity", ["-q", "-vv", "--tb=short", "--tb=line", "--assert=plain", "--color=yes"])
def test_the_headline_is_there_at_every_verbosity(broken, verbosity):
    broken.run(verbosity).stdout.fnmatch_lines(["*golden/test_net/test_first.yaml does not match*"])


def test_exit_first_updates_what_ran(broken):
    broken.test(TWO_TESTS.format(first="torch.exp", second="torch.sin") + "\n    assert False\n")

    result = broken.update("-x")

    result.assert_outcomes(passed=1, failed=1)
    assert b"torch.exp" in broken.goldens()[FIRST]
    assert b"torch.abs" in broken.goldens()[SECOND]


def test_a_selection_updates_what_it_selects(broken):
    broken.test(TWO_TESTS.format(first="torch.exp", second="torch.sin"))

    broken.update("-k", "second").assert_outcomes(passed=1, deselected=1)

    assert b"torch.neg" in broken.goldens()[FIRST]
    assert b"torch.sin" in broken.goldens()[SECOND]


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("option", ["--lf", "--ff"])
def test_last_failed_runs_and_updates_the_failed_one(broken, option):
    broken.run()

    broken.update(option).assert_outcomes(passed=1 if option == "--lf" else 2)

    broken.run().assert_outcomes(passed=2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", ["1", "2"])
def test_a_random_order_writes_the_same_goldens(broken, seed):
    pytest.importorskip("pytest_randomly")
    before = broken.goldens()
    broken.test(TWO_TESTS.format(first="torch.neg", second="torch.abs"))

    result = broken.pytester.runpytest_inprocess(
        *(f"--randomly-seed={seed}", "-p", "no:cacheprovider", "-p", "no:hypothesispytest", "--fx-update-golden")
    )

    result.assert_outcomes(passed=2)
    assert broken.goldens() == before


def test_two_projects_in_one_run_share_the_folder_of_their_rootdir(project):
    for name in ("one", "two"):
        project.write(f"{name}/pytest.ini", "[pytest]\n")
        project.write(f"{name}/conftest.py", "")
        project.test(TWO_TESTS.format(first="torch.neg", second="torch.abs"), f"{name}/test_{name}.py")
    project.test("def test_nothing():\n    pass\n")

    project.update("one", "two").assert_outcomes(passed=4)

    goldens = sorted(project.goldens())
    assert goldens == [f"{n}/test_{n}/test_{t}.yaml" for n in ("one", "two") for t in ("first", "second")]
    # Alone, each is a project with a rootdir and a golden folder of its own.
    project.update("one").assert_outcomes(passed=2)
    assert sorted(project.goldens("one/golden")) == ["test_one/test_first.yaml", "test_one/test_second.yaml"]


def test_another_rootdir_and_confcutdir_move_the_golden_folder(project):
    project.test(TWO_TESTS.format(first="torch.neg", second="torch.abs"), "deep/tests/test_net.py")

    project.update("--rootdir=deep", "--confcutdir=deep/tests", "deep/tests").assert_outcomes(passed=2)

    assert sorted(project.goldens("deep/golden/tests")) == [FIRST, SECOND]
    project.run("--rootdir=deep", "deep/tests/test_net.py").assert_outcomes(passed=2)


def test_a_test_outside_rootdir_is_refused_with_a_remedy(project):
    project.write("inside/pytest.ini", "[pytest]\n")

    result = project.run("--rootdir=inside", "-c", "inside/pytest.ini", "-o", "pythonpath=..", "test_net.py")

    result.stdout.fnmatch_lines(["E*GoldenNameError: cannot place the golden of a test in '../test_net.py'*--rootdir*"])


@pytest.mark.slow
def test_a_process_that_forks_for_a_test_and_dies_writes_nothing_for_it(project):
    if not hasattr(os, "fork"):
        pytest.skip("there is no fork here")
    project.write(
        "conftest.py",
        '''
import os
import pytest
from _pytest.runner import runtestprotocol


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item):
    """Run each test in a process of its own, as pytest-forked does, and report a crash in its place."""
    import pickle
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        reports = runtestprotocol(item, log=False)
        hook = item.config.hook
        plain = [hook.pytest_report_to_serializable(config=item.config, report=report) for report in reports]
        os.write(writer, pickle.dumps(plain))
        os._exit(0)
    os.close(writer)
    data = os.fdopen(reader, "rb").read()
    os.waitpid(pid, 0)
    hook = item.ihook
    hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    if data:
        reports = [
            hook.pytest_report_from_serializable(config=item.config, data=each) for each in pickle.loads(data)
        ]
    else:
        reports = [pytest.TestReport(item.nodeid, item.location, {}, "failed", "died", "???", [], 0)]
    for report in reports:
        hook.pytest_runtest_logreport(report=report)
    hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True
''',
    )
    project.test(TWO_TESTS.format(first="torch.neg", second="torch.abs") + "    __import__('os')._exit(1)\n")

    result = project.pytester.runpytest_subprocess("-p", "no:randomly", "--fx-update-golden", "--fx-unused=fail")

    result.assert_outcomes(passed=1, failed=1)
    assert list(project.goldens()) == [FIRST]
