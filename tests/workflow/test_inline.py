"""Goldens that stand in the test: `assert subject == fx_golden.inline(...)`."""

from __future__ import annotations

import json
import os
import zipfile

import pytest

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
            "E*AssertionError: test_net.py:6 does not match: torch.neg -> torch.abs",
            "E*compared at level structure; if the new graph is right, accept it with",
            "E*pytest --fx-update-golden test_net.py::test_net",
            "*- fx golden test_net.py:6 -*",
            "fx: 1 golden differs",
        ]
    )

    project.update().assert_outcomes(passed=1)
    assert path.read_text() == written.replace("torch.neg", "torch.abs").replace("%neg", "%abs_1")
    project.run().assert_outcomes(passed=1)


MANY = """
import functools
import torch
import pytest
import helpers


def neg(x):
    return torch.neg(x)


def absolute(x):
    return torch.abs(x)


def decorated(function):
    return functools.wraps(function)(lambda *args, **kwargs: function(*args, **kwargs))


class TestClass:
    @decorated
    def test_method(self, fx_golden):
        assert neg == (fx_golden.inline)(level="ops")


def test_line(fx_golden):
    assert neg == fx_golden.inline() and fx_golden.inline() == absolute


def test_alias(fx_golden):
    inline = functools.partial(fx_golden.inline, level="ops")
    assert neg == inline("")


def test_loop(fx_golden):
    for model in (neg, lambda other: torch.neg(other) if False else torch.neg(input=other), neg)[::2]:
        assert model == fx_golden.inline()


@pytest.mark.parametrize("model", [neg, lambda x: torch.neg(x)])
def test_parameters(fx_golden, model):
    assert model == fx_golden.inline()


@pytest.fixture
def expected(fx_golden):
    return fx_golden.inline()


def test_fixture(expected):
    assert neg == expected


def test_checks(fx_golden):
    assert fx_golden.inline().check(neg)


def test_helper_with_a_text(fx_golden):
    helpers.check_neg(neg, fx_golden)
"""

HELPERS = """
def check(subject, fx_golden, text=None):
    assert subject == fx_golden.inline(text)


def check_neg(subject, fx_golden):
    assert subject == fx_golden.inline()
"""


def test_calls_are_found_wherever_they_stand(project):
    project.test(MANY)
    project.write("helpers.py", HELPERS)

    result = project.update()

    result.assert_outcomes(passed=9)
    result.stdout.fnmatch_lines(
        [
            "fx: wrote 1 inline golden of helpers.py",
            "fx: wrote 8 inline goldens of test_net.py",
            "fx: 10 goldens written",
        ]
    )
    source = (project.path / "test_net.py").read_text()
    neg = '"""\n        input x\n        %neg = torch.neg(%x)\n        return %neg\n    """'
    absolute = neg.replace("%neg", "%abs_1").replace("torch.neg", "torch.abs")
    assert f"\n    assert neg == fx_golden.inline({neg}) and fx_golden.inline({absolute}) == absolute\n" in source
    assert f"\n    return fx_golden.inline({neg})\n" in source
    assert f"\n    assert neg == inline({neg})\n" in source
    assert source.count("%x") == 8

    result = project.run()

    result.assert_outcomes(passed=9)
    result.stdout.fnmatch_lines(["fx: 10 goldens matched"])


REFUSED = '''
import torch
import pytest
import helpers

TEXT = "input x"


def neg(x):
    return torch.neg(x)


def absolute(x):
    return torch.abs(x)


def test_name(fx_golden):
    assert neg == fx_golden.inline(TEXT)


def test_helper(fx_golden):
    helpers.check(neg, fx_golden)


def test_f_string(fx_golden):
    assert neg == fx_golden.inline(f"{TEXT}")


def test_two_literals(fx_golden):
    assert neg == fx_golden.inline("input x\\n" "return %x")


def test_code_that_was_made(fx_golden):
    exec("assert neg == fx_golden.inline()", {"neg": neg, "fx_golden": fx_golden, "__file__": __file__})


def test_loop(fx_golden):
    for model in (neg, absolute):
        assert model == fx_golden.inline()


@pytest.mark.parametrize("model", [neg, absolute])
def test_parameters(fx_golden, model):
    assert model == fx_golden.inline()


@pytest.mark.parametrize("model", [neg, absolute])
def test_one_matches(fx_golden, model):
    assert model == fx_golden.inline("""
        input x
        %neg = torch.neg(%x)
        return %neg
    """)


@pytest.mark.xfail
def test_expected_to_fail(fx_golden):
    assert neg == fx_golden.inline()


def test_fails_otherwise(fx_golden):
    assert neg == fx_golden.inline()
    raise ValueError


def test_skips(fx_golden):
    assert neg == fx_golden.inline()
    pytest.skip()


def test_not_compared(fx_golden):
    fx_golden.inline("input x")


def test_not_equal(fx_golden):
    assert neg != fx_golden.inline("input x")


def test_alone(fx_golden):
    assert fx_golden.inline("input x")


def test_bytes(fx_golden):
    assert neg == fx_golden.inline(b"input x")


def test_programs(fx_golden):
    assert {"a": neg, "b": neg} == fx_golden.inline()
'''


def test_what_cannot_be_written_is_refused_in_words_and_nothing_is_written(project):
    project.test(REFUSED)
    project.write("helpers.py", HELPERS)

    result = project.update()

    assert (project.path / "test_net.py").read_text() == REFUSED
    assert (project.path / "helpers.py").read_text() == HELPERS
    result.assert_outcomes(passed=4, failed=12, skipped=1, xfailed=1)
    result.stdout.fnmatch_lines(
        [
            "E*GoldenWriteError: cannot write the inline golden test_net.py:18: its text is not a literal*",
            "E*GoldenWriteError: cannot write the inline golden helpers.py:3: its text is not a literal*",
            "E*GoldenWriteError: cannot write the inline golden test_net.py:26: its text is an f-string*",
            "E*GoldenWriteError: cannot write the inline golden test_net.py:30: its text is made of several *",
            "E*GoldenWriteError: cannot write the inline golden <string>:1: its code is in no file*",
            "E*cannot write the inline golden test_net.py:39: this test compares it with two different "
            "graphs; give each comparison a call of its own, or use fx_golden, which has a file for each",
            "E*ValueError",
            '>*fx_golden.inline("input x")',
            "E*AssertionError: the inline golden test_net.py:72 was made and compared with nothing; *",
            "E*GateError: `!=` with fx_golden is refused*",
            "E*GateError: fx_golden is neither true nor false*",
            "E*GateError: fx_golden.inline takes the text of a golden in quotes, got bytes; *",
            "E*SubjectError: an inline golden holds one graph, and a dict has several programs; *",
            "fx: cannot write the inline golden test_net.py:44: it is reached with different graphs, by "
            "test_net.py::test_parameters[[]absolute[]] and test_net.py::test_parameters[[]neg[]]; a text holds one: *",
            "fx: cannot write the inline golden test_net.py:49: it is reached with different graphs, by *",
        ]
    )


def test_without_the_flag_the_reason_stands_in_the_place_of_the_command(project):
    project.test(REFUSED)
    project.write("helpers.py", HELPERS)

    result = project.run("-k", "name or helper or made")

    result.assert_outcomes(failed=3, deselected=15)
    result.stdout.fnmatch_lines(
        [
            "E*test_net.py:18 does not match*",
            "E*compared at level structure",
            "E*cannot write the inline golden test_net.py:18: its text is not a literal*",
            "E*the inline golden helpers.py:3 has no text yet",
            "E*cannot write the inline golden helpers.py:3: its text is not a literal*",
            "E*cannot write the inline golden <string>:1: its code is in no file*",
        ]
    )


def test_a_damaged_text_that_no_command_can_write_names_the_reason_in_place_of_a_command(project):
    project.test("def test_net(fx_golden):\n    assert (lambda x: x) == fx_golden.inline(f'{1}')\n")

    result = project.run()

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*cannot read the inline golden test_net.py:2, line 1 *; mend the line"])
    result.stdout.fnmatch_lines(["E*cannot write the inline golden test_net.py:2: its text is an f-string*"])
    assert "--fx-update-golden" not in result.stdout.str()


@pytest.mark.long
def test_the_controller_alone_writes_what_workers_found(project):
    pytest.importorskip("xdist")
    project.test(MANY)
    project.write("helpers.py", HELPERS)
    project.update("-n0").assert_outcomes(passed=9)
    alone = (project.path / "test_net.py").read_bytes()
    project.test(MANY)

    result = project.update("-n2")

    result.assert_outcomes(passed=9)
    result.stdout.fnmatch_lines(["fx: wrote 8 inline goldens of test_net.py"])
    assert (project.path / "test_net.py").read_bytes() == alone


BOTH = """
import torch


def test_old(fx_golden):
    assert (lambda x: torch.neg(x)) == fx_golden.inline("no nodes")


def test_new(fx_golden):
    assert (lambda x: torch.neg(x)) == fx_golden.inline()
"""


def test_only_the_texts_that_are_wanted_are_written(project):
    project.test(BOTH)
    path = project.path / "test_net.py"

    project.update("--fx-update-variant").assert_outcomes(failed=2)
    assert path.read_text() == BOTH

    project.update("--fx-update-only=new").assert_outcomes(failed=1, passed=1)
    assert path.read_text().count("return %neg") == 1

    project.update("--fx-update-only=changed").assert_outcomes(passed=2)
    assert path.read_text().count("return %neg") == 2


def test_reports_and_received_files_know_of_inline_goldens(project):
    project.test(TEST.format(function="neg"))

    result = project.run("--fx-received", "--fx-report=fx.json", "--fx-report=fx.html", "--fx-unused=fail")

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "fx: nothing is received for inline goldens; accept all goldens of the test with: "
            "pytest --fx-update-golden test_net.py::test_net"
        ]
    )
    report = json.loads((project.path / "fx.json").read_text())
    assert [(each["golden"], each["status"]) for each in report["outcomes"]] == [("test_net.py:6", "missing")]
    assert report["outcomes"][0]["inline"] == {}
    assert report["run"]["asked"] == report["unused"] == []
    assert "operator.add" in (project.path / "fx.html").read_text(encoding="utf-8")
    assert project.goldens() == {}


CHANGING = """
import pathlib
import torch


def test_net(fx_golden):
    assert (lambda x: torch.neg(x)) == fx_golden.inline()
    file = pathlib.Path(__file__)
    file.write_text("new = 1" + file.read_text())


def test_other(fx_golden):
    assert (lambda x: torch.neg(x)) == fx_golden.inline()


def test_made(fx_golden):
    pathlib.Path("made.py").write_text("def check(subject, golden): assert subject == golden.inline()")
    import made

    made.check(lambda x: torch.neg(x), fx_golden)
"""


def test_files_that_change_during_the_run_are_left_alone(project):
    project.test(CHANGING)

    result = project.update()

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=1, failed=2)
    assert (project.path / "test_net.py").read_text() == f"new = 1{CHANGING}"
    result.stdout.fnmatch_lines(
        [
            "E*cannot write the inline golden test_net.py:13: the file was changed since its tests were *",
            "E*cannot write the inline golden made.py:1: the file was changed since its tests were collected; run *",
            "fx: cannot write the inline goldens of test_net.py: it is not as it was when its tests were collected, *",
            "fx: 3 goldens not written",
        ]
    )


@pytest.mark.parametrize("reason", ["the file is read-only", "no space left on device"])
def test_a_file_that_cannot_be_written_stays_whole_and_fails_the_run(project, monkeypatch, reason):
    project.test(TEST.format(function="neg"))
    path = project.path / "test_net.py"
    before = path.read_bytes()
    if reason == "the file is read-only":
        access = os.access
        monkeypatch.setattr(os, "access", lambda place, mode: mode != os.W_OK and access(place, mode))
    else:
        monkeypatch.setattr(os, "fsync", _full)

    result = project.update()

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            f"fx: cannot write the inline goldens of test_net.py: {reason}; nothing was changed; *",
            "fx: 1 golden not written",
        ]
    )
    assert path.read_bytes() == before
    assert not list(project.path.glob(".*fxgraph-tmp"))


def _full(file):
    raise OSError(28, "No space left on device")


REPEATED = """
import torch

ATTEMPTS = []


def test_net(fx_golden):
    ATTEMPTS.append(1)
    model = [torch.neg, torch.abs][len(ATTEMPTS) - 1]
    assert (lambda x: model(x)) == fx_golden.inline()
    assert len(ATTEMPTS) == 2
"""


def test_the_last_attempt_alone_is_written(project):
    pytest.importorskip("pytest_rerunfailures")
    project.test(REPEATED)

    project.update("--reruns=2").assert_outcomes(passed=1)

    assert "torch.abs(%x)" in (project.path / "test_net.py").read_text()


def test_a_file_in_another_encoding_and_with_other_line_ends_keeps_both(project):
    source = (
        '# coding: latin-1\nimport torch\n\n\ndef test_net(fx_golden):\n    name = "\xe9"\n'
        "    assert (lambda \xe9: torch.neg(\xe9)) == fx_golden.inline(\n    )\n"
    )
    path = project.path / "test_net.py"
    path.write_bytes(source.replace("\n", "\r\n").encode("latin-1"))

    project.update("--import-mode=importlib").assert_outcomes(passed=1)

    text = '"""\n        input \xe9 as %_\n        %neg = torch.neg(%_)\n        return %neg\n    """'
    assert path.read_bytes() == source.replace("inline(", f"inline({text}").replace("\n", "\r\n").encode("latin-1")
    project.run().assert_outcomes(passed=1)


def test_a_text_that_cannot_be_read_is_told_with_the_line_of_the_file(project):
    literal = '"""\n\n        input x\n        nonsense\n    """'
    project.test(TEST.format(function="neg").replace("inline()", f"inline({literal})"))

    result = project.run()

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["E*cannot read the inline golden test_net.py:9, line 2 of the text, 'nonsense': it is none of: *"]
    )
    project.update().assert_outcomes(passed=1)
    project.run().assert_outcomes(passed=1)


PACKED = """
import sys
import torch

sys.path.insert(0, "packed.zip")
import packed


def test_net(fx_golden):
    packed.check_neg(lambda x: torch.neg(x), fx_golden)
"""


def test_a_module_in_an_archive_is_not_written(project):
    with zipfile.ZipFile(project.path / "packed.zip", "w") as archive:
        archive.writestr("packed.py", HELPERS)
    project.test(PACKED)

    result = project.update()

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*cannot write the inline golden packed.zip/packed.py:7: it lies in an archive; *"])


LEVELS = '''
import torch
from model import Net


def test_exact(fx_golden):
    assert (lambda x: torch.neg(x)) == fx_golden.inline(level="exact")


def test_shapes(fx_golden):
    assert Net() == fx_golden.inline(example_inputs=torch.ones(2, 4))


def test_signature(fx_golden):
    assert (lambda a: torch.neg(a)) == fx_golden.inline("input a\\n%b=torch.abs(%a)\\nreturn %b", level="signature")


def test_structure(fx_golden):
    assert (lambda x: torch.neg(x + 1)) == fx_golden.inline("""
        # adds, then turns
        input x
        %added = operator.add( %x, 1 )
        %turned = torch.neg(%added)
        return %turned
    """)
'''


def test_levels_hold_as_for_files(project):
    project.test(LEVELS)

    project.update().assert_outcomes(passed=4)

    source = (project.path / "test_net.py").read_text()
    assert "        code:\n          def forward(self, x):\n              neg = torch.neg(x);  x = None\n" in source
    assert "        %linear = self.linear(%x)  # float32[2, 3]\n" in source
    assert "          linear.weight: parameter float32[3, 4]\n" in source
    assert "# adds, then turns" in source
    assert 'inline("input a\\n%b=torch.abs(%a)' in source
    project.run().assert_outcomes(passed=4)
