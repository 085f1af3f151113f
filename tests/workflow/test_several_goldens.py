"""One test, several goldens: named, counted, checked one after the other."""

from __future__ import annotations

import pytest

THREE = """
import torch
from model import Net


def test_net(fx_golden):
    assert Net() == fx_golden
    assert (lambda x: {second}(x)) == fx_golden
    assert (lambda x: torch.exp(x)) == fx_golden(level="exact")
"""

NAMED = """
import torch
from model import Net


def test_net(fx_golden):
    assert Net() == fx_golden(name="net")
    assert (lambda x: {again}(x)) == fx_golden(name="function")
    assert (lambda x: torch.neg(x)) == fx_golden(name="function")
"""

CHECKED = """
import torch


def test_net(fx_golden):
    first = fx_golden.check(lambda x: {first}(x), name="first")
    second = fx_golden.check(lambda x: {second}(x), name="second")
    third = fx_golden.check(lambda x: torch.exp(x), name="third")
    print("matched:", first, second, third)
"""


def test_unnamed_goldens_are_counted_from_the_second_on(project):
    project.test(THREE.format(second="torch.neg"))

    project.update().assert_outcomes(passed=1)

    assert list(project.goldens()) == ["test_net/test_net.2.yaml", "test_net/test_net.3.yaml", "test_net/test_net.yaml"]


def test_the_unnamed_golden_that_differs_is_named(project):
    project.test(THREE.format(second="torch.neg"))
    project.update()
    project.test(THREE.format(second="torch.abs"))

    result = project.run()

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*golden/test_net/test_net.2.yaml*", "fx: 1 golden matched, 1 differs"])


def test_one_name_compared_twice_must_match_the_one_golden(project):
    project.test(NAMED.format(again="torch.neg"))
    project.update().assert_outcomes(passed=1)
    assert list(project.goldens()) == ["test_net/test_net.function.yaml", "test_net/test_net.net.yaml"]
    project.run().assert_outcomes(passed=1)
    project.test(NAMED.format(again="torch.abs"))

    result = project.run()

    result.assert_outcomes(failed=1)


def test_two_graphs_under_one_name_cannot_be_written(project):
    project.test(NAMED.format(again="torch.abs"))

    result = project.update()

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*test_net.function.yaml*a name of its own: fx_golden(name=...)"])
    assert project.goldens() == {}


def test_an_update_does_not_write_another_graph_where_one_has_matched(project):
    project.test(NAMED.format(again="torch.neg"))
    project.update()
    goldens = project.goldens()
    first, _, second = NAMED.format(again="torch.neg").rpartition("torch.neg")
    project.test(f"{first}torch.abs{second}")

    result = project.update()

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*test_net.function.yaml*a name of its own: fx_golden(name=...)"])
    assert project.goldens() == goldens


def test_a_name_compared_with_and_without_shapes_is_updated_with_the_shapes(project):
    twice = (
        "import torch\n\n\ndef test_net(fx_golden):\n    assert torch.neg == fx_golden(name='a')\n"
        "    assert torch.neg == fx_golden(name='a', example_inputs=torch.ones({size}))\n"
    ).replace("torch.neg ==", "(lambda x: torch.neg(x)) ==")
    project.test(twice.format(size=2).replace("name='a')\n", "name='a', example_inputs=torch.ones(2))\n", 1))
    project.update()
    project.test(twice.format(size=3))

    project.update().assert_outcomes(passed=1)

    assert "float32[3]" in project.goldens()["test_net/test_net.a.yaml"].decode()
    project.run().assert_outcomes(passed=1)


def test_check_goes_on_and_reports_all(project):
    project.test(CHECKED.format(first="torch.neg", second="torch.neg"))
    project.update().assert_outcomes(passed=1)
    project.test(CHECKED.format(first="torch.abs", second="torch.sin"))

    result = project.run()

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            '>*fx_golden.check(lambda x: torch.abs(x), name="first")',
            "E*AssertionError: 2 goldens of this test do not match",
            "E*test_net.first.yaml*torch.neg*torch.abs*",
            "E*test_net.second.yaml*torch.neg*torch.sin*",
            "matched: False False True",
            "*- fx golden golden/test_net/test_net.first.yaml -*",
            "*- fx golden golden/test_net/test_net.second.yaml -*",
            "fx: 1 golden matched, 2 differ",
        ],
    )


def test_check_updates_all(project):
    project.test(CHECKED.format(first="torch.neg", second="torch.neg"))
    project.update()
    project.test(CHECKED.format(first="torch.abs", second="torch.sin"))

    result = project.update()

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["fx: 1 golden matched, 2 written"])
    project.run().assert_outcomes(passed=1)


def test_a_failing_check_fails_the_test_before_its_teardown(project):
    project.test(
        """
        import pytest, torch

        @pytest.fixture
        def resource():
            yield
            print("torn down")

        def test_net(resource, fx_golden):
            assert not fx_golden.check(lambda x: torch.neg(x))
        """.replace("\n        ", "\n")
    )

    result = project.run()

    result.assert_outcomes(failed=1, errors=0)
    result.stdout.fnmatch_lines(["*torn down*"])


def test_a_test_that_never_compares_fails(project):
    project.test("def test_net(fx_golden):\n    pass\n")

    result = project.run()

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["the test asked for fx_golden and compared nothing with it; write*"])


def test_a_test_that_is_skipped_before_comparing_is_skipped(project):
    project.test("import pytest\n\ndef test_net(fx_golden):\n    pytest.skip('not today')\n")

    project.run().assert_outcomes(skipped=1)


@pytest.mark.slow
def test_not_equal_is_refused(project):
    project.update()
    project.test("from model import Net\n\ndef test_net(fx_golden):\n    assert Net() != fx_golden\n")

    result = project.run()

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*`!=` with fx_golden is refused*"])


LATE = """
import pytest
import torch


@pytest.fixture
def resource(fx_golden):
    yield
    {compare}


def test_net(resource, fx_golden):
    assert (lambda x: torch.neg(x)) == fx_golden
"""


@pytest.mark.parametrize(
    "compare",
    [
        "fx_golden.check(lambda x: torch.{function}(x), name='late')",
        "assert (lambda x: torch.{function}(x)) == fx_golden(name='late')",
    ],
)
def test_what_differs_in_a_teardown_fails_the_test_too(project, compare):
    project.test(LATE.format(compare=compare.format(function="abs")))
    project.update().assert_outcomes(passed=1)
    assert sorted(project.goldens()) == ["test_net/test_net.late.yaml", "test_net/test_net.yaml"]
    project.test(LATE.format(compare=compare.format(function="exp")))

    result = project.run()

    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(
        [
            "E*test_net.late.yaml does not match: *torch.abs -> torch.exp",
            "*- fx golden golden/test_net/test_net.late.yaml -*",
        ]
    )
    project.update().assert_outcomes(passed=1)
    project.run().assert_outcomes(passed=1)


def test_a_check_that_failed_before_another_error_is_told_once(project):
    body = "    fx_golden.check(Net())\n    raise RuntimeError('other')\n"
    project.test(f"from model import Net\n\ndef test_net(fx_golden):\n{body}")

    result = project.run()

    result.assert_outcomes(failed=1)
    assert result.stdout.str().count("fx golden golden/test_net/test_net.yaml -") == 1


@pytest.mark.parametrize("claim", ["fx_golden", "fx_golden(name='other')"])
def test_a_golden_by_itself_is_no_claim(project, claim):
    project.test(
        f"from model import Net\n\ndef test_net(fx_golden):\n    assert Net() == fx_golden\n    assert {claim}\n"
    )

    result = project.update()

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*GateError: fx_golden is neither true nor false*assert subject == fx_golden*"])
    assert project.goldens() == {}
