"""Where goldens lie does not depend on where pytest was started, nor on how tests are grouped."""

from __future__ import annotations

import os
import sys

import pytest

CLASSES = """
import unittest
import pytest
import torch


class TestOuter:
    class TestInner:
        def test_net(self, fx_golden):
            assert (lambda x: torch.neg(x)) == fx_golden


class NetCase(unittest.TestCase):
    @pytest.fixture(autouse=True)
    def _golden(self, fx_golden):
        self.golden = fx_golden

    def test_net(self):
        assert (lambda x: torch.neg(x)) == self.golden
"""


def test_classes_are_part_of_the_name(project):
    project.test(CLASSES, "tests/deep/test_net.py")

    project.update("tests").assert_outcomes(passed=2)

    assert list(project.goldens()) == [
        "tests/deep/test_net/NetCase.test_net.yaml",
        "tests/deep/test_net/TestOuter.TestInner.test_net.yaml",
    ]
    project.run("tests").assert_outcomes(passed=2)


def test_a_run_started_in_a_sub_folder_uses_the_same_goldens(project, monkeypatch):
    project.test(CLASSES, "tests/test_net.py")
    project.update("tests")
    written = project.goldens()
    project.test(CLASSES.replace("torch.neg", "torch.abs"), "tests/test_net.py")
    monkeypatch.chdir(project.path / "tests")

    result = project.run()

    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["E*pytest --fx-update-golden test_net.py::TestOuter::TestInner::test_net*"])
    project.update().assert_outcomes(passed=2)
    assert project.goldens().keys() == written.keys()


NASTY = [
    "a/b", "../../x", "a b", "a\\b", "*?", "é", "%41", "a.b", ".", "..", "~", "CON", "", "received", "2", "x" * 300,
    "a:b", "a|b", "<>", '"', "'", "$(rm)", "a\tb", "a\nb", "\u202e", "😀", "a::b", "[x]", "-", "--fx-level",
]  # fmt: skip


def test_ids_with_nasty_characters_have_goldens_of_their_own(project):
    project.test(
        f"import pytest\nimport torch\n\n\n@pytest.mark.parametrize('p', {NASTY!r})\n"
        "def test_net(fx_golden, p):\n    assert (lambda x: torch.neg(x)) == fx_golden\n"
    )

    project.update().assert_outcomes(passed=len(NASTY))

    written = project.goldens()
    assert len(written) == len(NASTY)
    assert all(name.startswith("test_net/test_net-") and name.count("/") == 1 for name in written)
    assert all(len(name) < 160 and name.isascii() for name in written)
    project.run().assert_outcomes(passed=len(NASTY))


def test_ids_that_differ_only_in_case_have_files_that_differ_in_more(project):
    project.test(
        "import pytest\nimport torch\n\n\n@pytest.mark.parametrize('p', ['a', 'A', 'b'])\n"
        "def test_net(fx_golden, p):\n    assert (lambda x: torch.neg(x)) == fx_golden\n"
    )

    project.update().assert_outcomes(passed=3)

    written = project.goldens()
    assert len({name.lower() for name in written}) == 3
    assert "test_net/test_net-b.yaml" in written
    # Alone, without its twin, a test finds the same file.
    project.run("test_net.py::test_net[A]").assert_outcomes(passed=1)


@pytest.mark.sampled(every=3, start=1)
@pytest.mark.parametrize("name", ["../x", "a/b", "received", "2", ""])
def test_names_with_a_meaning_of_their_own_are_refused(project, name):
    project.test(f"from model import Net\n\ndef test_net(fx_golden):\n    assert Net() == fx_golden(name={name!r})\n")
    before = sorted(path for path in project.path.parent.rglob("*.yaml"))

    project.update()

    assert all("/golden/test_net/test_net." in str(p) for p in set(project.path.parent.rglob("*.yaml")) - set(before))


def test_another_folder_by_option_and_by_ini(project):
    project.update("--fx-golden-dir=by_option").assert_outcomes(passed=1)
    assert list(project.goldens("by_option")) == ["test_net/test_net.yaml"]

    project.pytester.makeini("[pytest]\npythonpath = .\nfx_golden_dir = by_ini\n")
    result = project.run()
    result.stdout.fnmatch_lines(["E*by_ini/test_net/test_net.yaml*"])
    result = project.run("--fx-golden-dir=by_option")
    result.assert_outcomes(passed=1)


def test_the_command_repeats_the_folder_that_was_given(project):
    result = project.run("--fx-golden-dir=by option")

    result.stdout.fnmatch_lines(["E*pytest --fx-update-golden --fx-golden-dir 'by option' test_net.py::test_net*"])


def test_a_yaml_golden_is_never_collected(project):
    project.write(
        "conftest.py",
        """
import pytest


class Sheet(pytest.File):
    def collect(self):
        raise RuntimeError(f"collected {self.path}")


def pytest_collect_file(file_path, parent):
    if file_path.suffix == ".yaml":
        return Sheet.from_parent(parent, path=file_path)
""",
    )
    project.update().assert_outcomes(passed=1)
    project.write("golden/test_net/test_other.yaml", "format: 1\nnodes: []\n")

    result = project.run()

    result.assert_outcomes(passed=1)


def test_collectors_of_yaml_keep_files_outside_the_folder(project):
    project.write("test_sheet.yaml", "a: 1\n")
    project.write(
        "conftest.py",
        """
import pytest


class Row(pytest.Item):
    def runtest(self):
        pass


class Sheet(pytest.File):
    def collect(self):
        yield Row.from_parent(self, name="row")


def pytest_collect_file(file_path, parent):
    if file_path.suffix == ".yaml":
        return Sheet.from_parent(parent, path=file_path)
""",
    )

    project.update().assert_outcomes(passed=2)
    project.run().assert_outcomes(passed=2)


@pytest.mark.skipif(sys.platform == "win32" or (hasattr(os, "geteuid") and os.geteuid() == 0), reason="root may write")
def test_a_read_only_tree_reads_and_says_what_it_cannot_write(project):
    project.update()
    project.model("torch.sigmoid(y)")
    folder = project.path / "golden/test_net"
    folder.chmod(0o555)
    try:
        result = project.update()
    finally:
        folder.chmod(0o755)

    assert result.ret == 1
    result.stdout.fnmatch_lines(["fx: *golden/test_net/test_net.yaml*", "fx: 1 golden not written"])


def test_a_folder_outside_rootdir_is_used_and_shown(project, tmp_path_factory):
    folder = tmp_path_factory.mktemp("elsewhere")

    result = project.update(f"--fx-golden-dir={folder}")

    result.assert_outcomes(passed=1)
    assert (folder / "test_net" / "test_net.yaml").exists()
    result.stdout.fnmatch_lines([f"fx: wrote *{folder.name}/test_net/test_net.yaml"])
    project.run(f"--fx-golden-dir={folder}").assert_outcomes(passed=1)


def test_a_golden_that_cannot_be_written_fails_the_run_and_the_others_are_written(project):
    project.write("golden/test_net", "a file where a folder has to be")
    project.test(name="test_other.py")

    result = project.update()

    result.assert_outcomes(passed=2)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "fx: wrote golden/test_other/test_net.yaml",
            "fx: cannot write the golden file *golden/test_net/test_net.yaml: *",
            "fx: 1 golden written, 1 not written",
        ]
    )
    assert (project.path / "golden/test_net").read_text() == "a file where a folder has to be"
