"""Workers on other machines have a disk of their own: what they say travels, and the controller alone writes."""

from __future__ import annotations

import pytest

xdist = pytest.importorskip("xdist")
pytestmark = pytest.mark.skipif(
    int(xdist.__version__.split(".")[0]) >= 4, reason="this pytest-xdist sends no folder to another machine"
)

TESTS = """
import pathlib
import torch


def test_net(fx_golden):
    assert "elsewhere" in pathlib.Path(__file__).parts, "this is no remote worker"
    assert (lambda x: torch.{function}(x)) == fx_golden


def test_same(fx_golden):
    assert (lambda x: torch.neg(x)) == fx_golden
"""


# Another revision of the project, on the other machine: what a worker does to its copy before it begins.
OTHER_REVISION = """
import pathlib


def pytest_configure(config):
    golden = pathlib.Path(config.rootpath, "golden/tests/test_net/test_net.yaml")
    if hasattr(config, "workerinput"):
        {change}
"""


@pytest.fixture
def remote(project, tmp_path_factory):
    """Run a project's tests in a worker whose copy of the project lies in another folder."""
    elsewhere = tmp_path_factory.mktemp("machine") / "elsewhere"
    elsewhere.mkdir()

    def run(*options: str):
        return project.pytester.runpytest_inprocess(
            *("-p", "no:randomly", "-p", "no:cacheprovider", "-W", "ignore::DeprecationWarning", "--dist=load"),
            *(f"--tx=popen//chdir={elsewhere}", f"--rsyncdir={project.path}", str(project.path / "tests")),
            *options,
        )

    (project.path / "test_net.py").unlink()
    project.test(TESTS.format(function="neg"), "tests/test_net.py")
    run.goldens = lambda: sorted(path.name for path in elsewhere.rglob("golden/**/*.yaml"))
    return run


@pytest.mark.slow
def test_goldens_beside_their_tests_are_found_by_the_worker_and_written_by_the_controller(project, remote):
    project.pytester.makeini("[pytest]\npythonpath = .\nfx_golden_dir = beside\n")

    project.write("tests/golden/test_net/test_gone.yaml", "format: 1\nnodes: []\n")

    remote("--fx-update-golden", "--fx-prune-golden").assert_outcomes(passed=2)

    assert list(project.goldens("tests/golden")) == ["test_net/test_net.yaml", "test_net/test_same.yaml"]
    assert remote.goldens() == ["test_gone.yaml"]  # the copy that it was sent


@pytest.mark.slow
def test_the_walk(project, remote):
    result = remote("--fx-update-golden")
    result.assert_outcomes(passed=2)
    assert list(project.goldens()) == ["tests/test_net/test_net.yaml", "tests/test_net/test_same.yaml"]
    assert remote.goldens() == []

    project.test(TESTS.format(function="exp"), "tests/test_net.py")
    result = remote("--fx-received", "--fx-report=fx.json")
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(
        [
            "E*golden/tests/test_net/test_net.yaml does not match: *torch.neg -> torch.exp",
            "E*    pytest --fx-update-golden tests/test_net.py::test_net",
        ]
    )
    assert sorted(project.goldens()) == [
        f"tests/test_net/{name}.yaml" for name in ("test_net.received", "test_net", "test_same")
    ]
    assert (project.path / "fx.json").exists()

    project.write("golden/tests/test_net/test_gone.yaml", "format: 1\nnodes: []\n")
    remote("--fx-update-golden", "--fx-prune-golden").assert_outcomes(passed=2)
    assert "tests/test_net/test_gone.yaml" not in project.goldens()
    assert b"torch.exp" in project.goldens()["tests/test_net/test_net.yaml"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "words"),
    [
        pytest.param(
            "golden.write_text(golden.read_text().replace('torch.abs', 'torch.neg'))",
            "its copy is not the one here",
            marks=pytest.mark.long,
        ),
        ("golden.unlink()", "it has no copy of it, and one lies here"),
    ],
)
def test_a_worker_that_compared_with_another_golden_is_not_believed(project, remote, change, words):
    # As the revision here has it: another graph than the test's.
    project.test(TESTS.format(function="abs").replace('    assert "elsewhere"', "    #"), "tests/test_net.py")
    project.update("tests").assert_outcomes(passed=2)
    golden = project.path / "golden/tests/test_net/test_net.yaml"
    project.test(TESTS.format(function="neg"), "tests/test_net.py")
    project.write("conftest.py", OTHER_REVISION.format(change=change))
    before = golden.read_bytes()

    result = remote("--fx-update-golden")

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    told = f"fx: cannot trust what gw0 says of golden/tests/test_net/test_net.yaml: {words}"
    result.stdout.fnmatch_lines([f"{told}; bring both machines to one revision"])
    assert golden.read_bytes() == before


@pytest.mark.long
def test_an_inline_golden_is_written_by_the_controller_into_its_own_copy(project, remote):
    text = TESTS.format(function="neg").replace("== fx_golden", "== fx_golden.inline()")
    project.test(text, "tests/test_net.py")

    result = remote("--fx-update-golden")

    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["fx: wrote 2 inline goldens of tests/test_net.py"])
    assert "%neg = torch.neg(%x)" in (project.path / "tests/test_net.py").read_text()
