"""A run whose tests get our fixtures by name alone, which nobody knows before."""

from __future__ import annotations

BY_NAME = """
import pytest
import torch
from model import Net


{test}


def test_the_next(request):
    assert request.getfixturevalue("fx_ops")(Net()).count(torch.relu) == 1
"""


def run(project, test):
    project.test(BY_NAME.format(test=test))
    return project.run()


def test_a_test_that_compares_nothing_fails_in_its_call(project):
    result = run(project, 'def test_net(request): request.getfixturevalue("fx_golden")')

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*the test asked for fx_golden and compared nothing with it*"])


def test_a_check_that_differs_fails_the_call(project):
    result = run(
        project, 'def test_net(request): request.getfixturevalue("fx_golden").check(Net()); assert True, "goes on"'
    )

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*golden/test_net/test_net.yaml*"])


def test_an_expected_failure_is_one(project):
    result = run(project, '@pytest.mark.xfail\ndef test_net(request): request.getfixturevalue("fx_golden")')

    result.assert_outcomes(passed=1, xfailed=1)


def test_a_failure_of_the_test_itself_stays(project):
    result = run(project, 'def test_net(request): request.getfixturevalue("fx_golden"); assert Net() is None')

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.no_fnmatch_line("*compared nothing*")


def test_a_fixture_that_gets_it_in_the_setup_is_followed_into_the_call(project):
    result = run(
        project,
        "@pytest.fixture\ndef golden(request): return request.getfixturevalue('fx_golden')\n\n\n"
        "def test_net(golden): pass",
    )

    result.assert_outcomes(passed=1, failed=1)


def test_a_fixture_of_the_session_reads_the_marker_of_the_first_test_too(project):
    result = run(
        project,
        '@pytest.mark.fx(frontend="export")\n'
        "def test_net(request):\n"
        '    ops = request.getfixturevalue("fx_ops")(Net(), example_inputs=(torch.ones(2, 4),))\n'
        '    assert ops.count("aten.relu*") == 1',
    )

    result.assert_outcomes(passed=2)


def test_what_differs_is_updated(project):
    project.test(BY_NAME.format(test='def test_net(request): assert Net() == request.getfixturevalue("fx_golden")'))

    project.update().assert_outcomes(passed=2)
    assert list(project.goldens()) == ["test_net/test_net.yaml"]
    project.run().assert_outcomes(passed=2)
