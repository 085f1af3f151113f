"""Goldens that no test asks for; where that is not certain, a golden is unknown, which is never unused."""

from __future__ import annotations

import pytest

TWO = """
import torch
import pytest


def test_one(fx_golden):
    assert (lambda x: torch.neg(x)) == fx_golden


def test_two(fx_golden):
    assert (lambda x: torch.abs(x)) == fx_golden
"""
ONE = TWO.partition("def test_two")[0]
STALE = "golden/test_net/test_two.yaml"
TELLS = [f"fx: unused {STALE}"]


@pytest.fixture
def stale(project):
    """A project with a golden whose test is gone, and a file whose tests are still there."""
    project.test(TWO)
    project.test(TWO, "test_other.py")
    project.update().assert_outcomes(passed=4)
    project.test(ONE)
    return project


def pruned(project, *options: str) -> set[str]:
    """Prune, and name the goldens that went."""
    before = set(project.goldens())
    project.run("--fx-prune-golden", *options)
    return before - set(project.goldens())


def test_an_unused_golden_is_told_and_nothing_else_happens(stale):
    before = stale.goldens()

    result = stale.run()

    assert result.ret == 0
    result.stdout.fnmatch_lines(["fx: no test asked for 1 golden; *--fx-prune-golden*", *TELLS])
    assert stale.goldens() == before


def test_it_can_fail_the_run_or_be_ignored(stale):
    assert stale.run("--fx-unused=fail").ret == pytest.ExitCode.TESTS_FAILED
    stale.run("--fx-unused=ignore").stdout.no_fnmatch_line("fx: unused*")
    stale.pytester.makeini("[pytest]\npythonpath = .\nfx_unused = fail\n")
    assert stale.run().ret == pytest.ExitCode.TESTS_FAILED
    assert stale.run("--fx-unused=warn").ret == 0


def test_a_wrong_value_is_refused(stale):
    result = stale.run("--fx-unused=maybe")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--fx-unused: expected one of warn, fail, ignore, got 'maybe'*"])


@pytest.mark.parametrize("options", [[], pytest.param(["-n1"], marks=pytest.mark.slow), ["-p", "no:cacheprovider"]])
def test_prune_prints_and_removes_it_with_its_variants_and_received_files(stale, options):
    folder = stale.path / "golden/test_net"
    golden = (folder / "test_two.yaml").read_bytes()
    for name in ("test_two@torch-2.99.yaml", "test_two.received.yaml", "test_two@torch-2.99.received.yaml"):
        (folder / name).write_bytes(golden)
    (folder / "test_one@torch-1.1.yaml").write_bytes(golden)
    before = stale.goldens()

    result = stale.run("--fx-prune-golden", *options)

    gone = sorted(before.keys() - stale.goldens().keys())
    assert gone == [
        "test_net/test_two.received.yaml",
        "test_net/test_two.yaml",
        "test_net/test_two@torch-2.99.received.yaml",
        "test_net/test_two@torch-2.99.yaml",
    ]
    result.stdout.fnmatch_lines([f"fx: removed golden/{name}" for name in gone])
    assert result.ret == 0


@pytest.mark.parametrize("options", [["-n0"], pytest.param(["-n1"], marks=pytest.mark.long)])
def test_a_file_that_is_gone_leaves_unused_goldens_and_no_empty_folder(stale, options):
    (stale.path / "test_other.py").unlink()

    gone = pruned(stale, *options)

    assert gone == {"test_net/test_two.yaml", "test_other/test_one.yaml", "test_other/test_two.yaml"}
    assert not (stale.path / "golden/test_other").exists()


def test_a_file_that_is_gone_is_unknown_to_a_run_with_path_arguments(stale):
    (stale.path / "test_other.py").unlink()

    assert pruned(stale, "test_net.py") == {"test_net/test_two.yaml"}


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize(
    "options",
    [
        ["-k", "one"],
        ["--deselect", "test_other.py::test_two"],
        ["test_net.py::test_one", "test_other.py::test_one"],
        ["--ignore", "test_other.py"],
        ["test_net.py"],
        pytest.param(["-n1", "-k", "one"], marks=pytest.mark.long),
    ],
)
def test_what_was_left_out_is_never_unused(stale, options):
    assert not {name for name in pruned(stale, *options) if name.startswith("test_other/")}


@pytest.mark.sampled(every=3, start=1)
@pytest.mark.parametrize("options", [["--collect-only"], ["--setup-only"], ["--setup-plan"]])
def test_a_run_that_runs_nothing_judges_nothing(stale, options):
    (stale.path / "test_other.py").unlink()

    assert pruned(stale, *options) == set()


SPOILED = {
    "a test fails": ONE + "\n\ndef test_bad():\n    assert False\n",
    "a test is skipped": ONE + "\n\n@pytest.mark.skip\ndef test_bad():\n    pass\n",
    "a test is expected to fail, and fails": ONE + "\n\n@pytest.mark.xfail\ndef test_bad():\n    assert False\n",
    "a setup fails": ONE + "\n\n@pytest.fixture\ndef bad():\n    assert False\n\n\ndef test_bad(bad):\n    pass\n",
    "a teardown fails": ONE
    + "\n\n@pytest.fixture\ndef bad():\n    yield\n    assert False\n\n\ndef test_bad(bad):\n    pass\n",
    "the file cannot be imported": "import nowhere\n",
    "the file is skipped": "import pytest\npytest.skip('not here', allow_module_level=True)\n",
    "a class cannot be collected": ONE
    + "\n\nclass TestBad:\n    @pytest.mark.parametrize('x', [1])\n    def test_bad(self):\n        pass\n",
    "the process dies": ONE + "\n\ndef test_bad():\n    import os\n    os._exit(1)\n",
}


# What is known of a run takes another way where workers know it; these are the cases in which that matters.
BY_WORKERS = ("the file cannot be imported", "the process dies")
BY_WORKERS_TOO = ("a test fails", "a class cannot be collected")


@pytest.mark.sampled(every=4, start=2)
@pytest.mark.parametrize(
    ("case", "workers"),
    [
        *((case, "-n0") for case in SPOILED if case != "the process dies"),
        *(pytest.param(case, "-n1", marks=pytest.mark.slow) for case in BY_WORKERS),
        *(pytest.param(case, "-n1", marks=pytest.mark.long) for case in BY_WORKERS_TOO),
    ],
)
def test_nothing_is_unused_in_a_file_where(stale, case, workers):
    stale.test(SPOILED[case])

    assert pruned(stale, workers) == set()


def test_an_unexpected_pass_ran_to_its_end(stale):
    stale.test(ONE + "\n\n@pytest.mark.xfail\ndef test_good():\n    pass\n")

    assert pruned(stale) == {"test_net/test_two.yaml"}


def test_the_golden_of_a_failing_test_is_in_use(stale):
    stale.test(TWO.replace("torch.abs", "torch.exp"))

    result = stale.run("--fx-prune-golden")

    result.assert_outcomes(failed=1, passed=3)
    result.stdout.no_fnmatch_line("*removed*")


def test_last_failed_looks_into_too_little_to_judge(stale):
    stale.test(TWO.replace("torch.abs", "torch.exp"))
    stale.run("-p", "cacheprovider")

    assert pruned(stale, "--lf") == set()


@pytest.mark.slow
def test_exit_first_knows_only_the_files_before(stale):
    stale.test("def test_bad():\n    assert False\n", "test_a.py")

    assert pruned(stale, "-x") == set()
    stale.test("def test_bad():\n    assert False\n", "test_z.py")
    (stale.path / "test_a.py").unlink()
    assert pruned(stale, "-x") == {"test_net/test_two.yaml"}


def test_a_plugin_that_drops_tests_without_a_word_is_noticed(stale):
    stale.write("conftest.py", "def pytest_collection_modifyitems(items):\n    items[:] = items[:1]\n")

    assert "test_other/test_two.yaml" not in pruned(stale)


@pytest.mark.parametrize("option", ["--doctest-modules", "--strict-markers"])
def test_a_file_in_which_nobody_looked_for_tests_is_unknown(stale, option):
    assert pruned(stale, option, "-o", "python_files=test_other.py") == set()


def test_foreign_yaml_in_the_folder_is_left_alone(stale):
    stale.write("golden/test_gone/config.yaml", "on: push\n")
    stale.write("golden/loose.yaml", "format: 1\nnodes: []\n")

    assert pruned(stale) == {"test_net/test_two.yaml"}


def test_a_golden_folder_that_is_the_project_is_safe(stale):
    (stale.path / "golden").rename(stale.path / "elsewhere")
    for folder in (stale.path / "elsewhere").iterdir():
        folder.rename(stale.path / folder.name)
    stale.write("workflows/ci.yaml", "on: push\n")

    result = stale.run("--fx-prune-golden", "--fx-golden-dir=.")

    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["fx: removed test_net/test_two.yaml"])
    assert (stale.path / "workflows/ci.yaml").exists()
    assert (stale.path / "test_other/test_two.yaml").exists()


def test_a_rerun_that_passes_ran_to_its_end(stale):
    pytest.importorskip("pytest_rerunfailures")
    stale.test(
        ONE + "\n\ndef test_flaky(tmp_path_factory):\n    mark = tmp_path_factory.getbasetemp() / 'mark'\n"
        "    if not mark.exists():\n        mark.touch()\n        assert False\n"
    )

    assert pruned(stale, "--reruns=2") == {"test_net/test_two.yaml"}


@pytest.mark.slow
def test_a_test_left_out_by_a_group_of_xdist_is_known_by_its_name(stale):
    stale.test(ONE.replace("def test_one", "@pytest.mark.xdist_group('g')\ndef test_one"))

    assert pruned(stale, "-n2", "--dist=loadgroup") == {"test_net/test_two.yaml"}


def test_what_cannot_be_removed_fails_the_run(stale, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.unlink", refuse)

    result = stale.run("--fx-prune-golden", "-p", "no:cacheprovider")

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["fx: cannot remove *test_two.yaml: permission denied; *"])


def test_a_folder_that_several_projects_share_is_judged_by_none_of_them(project, monkeypatch):
    (project.path / "test_net.py").unlink()
    for name in ("one", "two"):
        project.write(f"{name}/pytest.ini", "[pytest]\nfx_golden_dir = ../golden\n")
        project.test(
            "import torch\n\ndef test_net(fx_golden):\n    assert (lambda x: torch.neg(x)) == fx_golden\n",
            f"{name}/test_{name}.py",
        )
        monkeypatch.chdir(project.path / name)
        project.update().assert_outcomes(passed=1)

    result = project.run("--fx-prune-golden", "--fx-unused=fail")

    assert result.ret == 0
    assert sorted(project.goldens()) == ["test_one/test_net.yaml", "test_two/test_net.yaml"]
