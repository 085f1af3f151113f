"""What `--fx-update-golden` writes, and what it leaves alone."""

from __future__ import annotations

TWO = """
import torch


def test_one(fx_golden):
    assert (lambda x: {one}(x)) == fx_golden


def test_two(fx_golden):
    assert (lambda x: {two}(x)) == fx_golden
"""


def test_only_new_leaves_a_changed_golden_and_its_test_fails(project):
    project.test(TWO.format(one="torch.neg", two="torch.neg"))
    project.update("-k", "one")
    written = project.goldens()
    project.test(TWO.format(one="torch.abs", two="torch.neg"))

    result = project.update("--fx-update-only=new")

    result.assert_outcomes(passed=1, failed=1)
    assert project.goldens()["test_net/test_one.yaml"] == written["test_net/test_one.yaml"]
    assert "test_net/test_two.yaml" in project.goldens()


def test_only_changed_leaves_a_missing_golden_missing(project):
    project.test(TWO.format(one="torch.neg", two="torch.neg"))
    project.update("-k", "one")
    project.test(TWO.format(one="torch.abs", two="torch.neg"))

    result = project.update("--fx-update-only=changed")

    result.assert_outcomes(passed=1, failed=1)
    assert list(project.goldens()) == ["test_net/test_one.yaml"]
    assert b"torch.abs" in project.goldens()["test_net/test_one.yaml"]


def test_a_golden_that_matches_stays_byte_for_byte_as_it_is(project):
    project.update()
    path = project.path / "golden/test_net/test_net.yaml"
    as_windows_writes_it = b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n")
    path.write_bytes(as_windows_writes_it)

    result = project.update()

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["fx: 1 golden matched"])
    assert path.read_bytes() == as_windows_writes_it


def test_the_flag_takes_no_value(project):
    project.update("test_net.py").assert_outcomes(passed=1)

    assert list(project.goldens()) == ["test_net/test_net.yaml"]


def test_two_tests_that_want_one_golden_are_both_named(project):
    project.test(
        """
import torch


def pytest_generate_tests(metafunc):
    metafunc.parametrize("function", [torch.neg, torch.abs], ids=["a", "b"])


def test_net(fx_golden, function, request):
    del request.node.callspec
    assert (lambda x: function(x)) == fx_golden
"""
    )

    result = project.update()

    assert result.ret == 1
    result.stdout.fnmatch_lines(
        ["fx: cannot write golden/test_net/test_net.yaml: test_net.py::test_net?a? and test_net.py::test_net?b? want*"]
    )
