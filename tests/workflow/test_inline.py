"""Goldens that stand in the test: `assert subject == fx_golden.inline(...)`."""

from __future__ import annotations

TEST = """
import torch


def test_net(fx_golden):
    assert (lambda x: torch.{function}(x) + 1) == fx_golden.inline()
"""


def test_an_inline_golden_from_its_first_writing_to_its_update(project):
    project.test(TEST.format(function="neg"))
    path = project.path / "test_net.py"

    result = project.run()

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "E*GoldenMissingError: the inline golden test_net.py:6 has no text yet",
            "E*pytest --fx-update-golden test_net.py::test_net",
            "*- fx golden test_net.py:6 -*",
            "input x",
            "%neg = torch.neg(%x)",
            "fx: 1 golden missing",
        ]
    )

    result = project.update()

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["fx: wrote 1 inline golden of test_net.py", "fx: 1 golden written"])
    written = path.read_text()
    assert written.endswith(
        '''
    assert (lambda x: torch.neg(x) + 1) == fx_golden.inline("""
        input x
        %neg = torch.neg(%x)
        %add = operator.add(%neg, 1)
        return %add
    """)
'''
    )

    result = project.run()
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["fx: 1 golden matched"])

    path.write_text(written.replace("(lambda x: torch.neg", "(lambda x: torch.abs"))
    result = project.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "E*AssertionError: test_net.py:6 does not match: *torch.neg -> torch.abs",
            "E*compared at level structure; if the new graph is right, accept it with",
            "E*pytest --fx-update-golden test_net.py::test_net",
            "*- fx golden test_net.py:6 -*",
            "fx: 1 golden differs",
        ]
    )

    project.update().assert_outcomes(passed=1)
    assert path.read_text() == written.replace("torch.neg", "torch.abs")  # the name %neg is kept
    project.run().assert_outcomes(passed=1)
