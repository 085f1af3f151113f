"""Only a test that passed, from its setup to its teardown, writes; and only under the flag."""

from __future__ import annotations

import pytest

FAILING = {
    "the test fails": """
        def test_net(fx_golden):
            assert Net() == fx_golden
            assert False
    """,
    "the test skips": """
        def test_net(fx_golden):
            assert Net() == fx_golden
            pytest.skip("not today")
    """,
    "the test is expected to fail, and fails": """
        @pytest.mark.xfail
        def test_net(fx_golden):
            assert Net() == fx_golden
            assert False
    """,
    "the test fails by pytest.xfail": """
        def test_net(fx_golden):
            assert Net() == fx_golden
            pytest.xfail("not yet")
    """,
    "a later golden cannot be traced": """
        def test_net(fx_golden):
            assert Net() == fx_golden
            assert (lambda x: int(x)) == fx_golden
    """,
    "the teardown fails": """
        @pytest.fixture
        def resource():
            yield
            raise RuntimeError("still open")

        def test_net(resource, fx_golden):
            assert Net() == fx_golden
    """,
    "a sub-test fails": """
        import unittest

        class TestNet(unittest.TestCase):
            @pytest.fixture(autouse=True)
            def _golden(self, fx_golden):
                self.golden = fx_golden

            def test_net(self):
                assert Net() == self.golden
                with self.subTest("part"):
                    assert False
    """,
}


@pytest.mark.parametrize("case", FAILING)
def test_no_golden_is_written_when(project, case):
    project.test("import pytest\nfrom model import Net\n" + _dedent(FAILING[case]))

    project.update()

    assert project.goldens() == {}


def _dedent(text: str) -> str:
    return text.replace("\n        ", "\n")


def test_an_expected_mismatch_stays_expected_under_the_flag(project):
    source = "import pytest\nfrom model import Net\n\n@pytest.mark.xfail(strict=True)\ndef test_net(fx_golden):\n"
    project.update()
    written = project.goldens()
    project.model("torch.sigmoid(y)")
    project.test(source + "    assert Net() == fx_golden\n")

    result = project.update()

    result.assert_outcomes(xfailed=1)
    assert project.goldens() == written


def test_an_xfail_whose_condition_is_false_updates(project):
    source = "import pytest\nfrom model import Net\n\n@pytest.mark.xfail(False, reason='')\ndef test_net(fx_golden):\n"
    project.test(source + "    assert Net() == fx_golden\n")

    project.update().assert_outcomes(passed=1)

    assert list(project.goldens()) == ["test_net/test_net.yaml"]


def test_nothing_is_written_without_the_flag(project):
    before = sorted(project.path.rglob("*"))

    project.run("-p", "no:cacheprovider").assert_outcomes(failed=1)

    assert sorted(project.path.rglob("*")) == before


def test_a_golden_of_a_failing_test_counts_as_not_written(project):
    project.test("from model import Net\n\ndef test_net(fx_golden):\n    assert Net() == fx_golden\n    assert False\n")

    result = project.update()

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["fx: 1 golden not written"])
