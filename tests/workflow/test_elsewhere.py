"""A golden that is missing here and lies elsewhere in the repository is named."""

from __future__ import annotations

import pytest

BUT = "E*but there is {}; is the rootdir right, *"


@pytest.fixture
def repository(project):
    """A repository whose goldens lie below its root, with a test in a folder."""
    (project.path / ".git").mkdir()
    (project.path / "test_net.py").rename(project.path / "moved.py")
    (project.path / "sub/tests").mkdir(parents=True)
    (project.path / "moved.py").rename(project.path / "sub/tests/test_net.py")
    return project


def test_a_run_with_another_rootdir_names_the_golden_of_the_first(repository):
    repository.update().assert_outcomes(passed=1)

    result = repository.run("--rootdir=sub", "sub")

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([BUT.format("golden/sub/tests/test_net/test_net.yaml")])


def test_a_run_with_another_golden_folder_names_it(repository):
    repository.update("--fx-golden-dir=beside").assert_outcomes(passed=1)

    result = repository.run()

    result.stdout.fnmatch_lines([BUT.format("sub/tests/golden/test_net/test_net.yaml")])


def test_the_golden_of_another_test_file_of_that_name_is_not_named(repository):
    repository.update().assert_outcomes(passed=1)
    repository.test(name="other/test_net.py")

    repository.run("other", "--import-mode=importlib").stdout.no_fnmatch_line("*but there is*")


def test_files_that_are_no_goldens_are_not_named(repository):
    repository.write("golden/old/tests/test_net/test_net.yaml", "format: 1\n")

    repository.run().stdout.no_fnmatch_line("*but there is*")
