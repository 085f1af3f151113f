"""Where there is no torch: tests that ask for a fixture say so in a line, and all else works."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pytest_fxgraph import plugin

FIXTURES = sorted(name for name in vars(plugin) if name.startswith("fx_"))

# Loaded before anything else of the run, so that torch is missing for the plugin, too.
TORCH_IS_ABSENT = "import sys\n\nsys.modules['torch'] = None\n"
TORCH_IS_BROKEN = """
import sys


class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            raise {error}


sys.meta_path.insert(0, Refuse())
"""
THE_CURE = (
    "install torch 2.6 or later into the Python that runs the tests "
    '(pip install "torch>=2.6"), or skip these tests with pytest.importorskip("torch")'
)


@pytest.fixture
def without_torch(project, monkeypatch):
    """Return a function that runs the project's tests in a Python that has no torch, or a broken one."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def run(*options, cause=TORCH_IS_ABSENT):
        project.write("early.py", cause)
        command = [sys.executable, "-m", "pytest", "-p", "early", "-p", "pytest_fxgraph.plugin", *options]
        return project.pytester.run(*command, timeout=120)

    return run


def test_a_test_that_asks_for_a_golden_fails_in_one_line(project, without_torch):
    project.test("def test_net(fx_golden):\n    assert 1 == fx_golden\n")

    for options in ((), ("--fx-update-golden",), ("-p", "xdist", "-n", "1")):
        result = without_torch(*options)

        result.assert_outcomes(errors=1)
        said = [line for line in result.outlines if "torch" in line and not line.startswith("ERROR")]
        assert said == [f"fx_golden needs torch, and torch is not installed: {THE_CURE}"]
        result.stdout.no_fnmatch_line("*Traceback*")
        assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert project.goldens() == {}


def test_every_fixture_says_its_own_name_however_it_is_asked_for(project, without_torch):
    project.test(
        "\n".join(
            f"def test_{fixture}({fixture}): pass\n"
            f"def test_again_{fixture}({fixture}): pass\n"
            f"def test_by_name_{fixture}(request): request.getfixturevalue({fixture!r})\n"
            for fixture in FIXTURES
        )
    )

    result = without_torch()

    result.assert_outcomes(errors=2 * len(FIXTURES), failed=len(FIXTURES))
    said = sorted(line for line in result.outlines if line.endswith(THE_CURE))
    assert said == sorted(f"{fixture} needs torch, and torch is not installed: {THE_CURE}" for fixture in 3 * FIXTURES)


@pytest.mark.sampled(every=3, start=2)
@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("ImportError('DLL load failed\\nwhile importing _C')", "torch cannot be imported (DLL load failed while"),
        ("OSError('[WinError 126] c10.dll')", "torch cannot be imported ([WinError 126] c10.dll)"),
        ("ModuleNotFoundError('no', name='sympy')", "torch needs sympy, which is not installed"),
    ],
)
def test_a_torch_that_cannot_be_imported_is_told_from_one_that_is_missing(project, without_torch, error, words):
    project.test("def test_net(fx_golden):\n    assert 1 == fx_golden\n")

    result = without_torch(cause=TORCH_IS_BROKEN.format(error=error))

    result.assert_outcomes(errors=1)
    assert [line for line in result.outlines if line.startswith(f"fx_golden needs torch, and {words}")]


def test_a_fixture_of_the_users_own_with_the_same_name_is_left_alone(project, without_torch):
    project.write("conftest.py", "import pytest\n\n\n@pytest.fixture\ndef fx_golden():\n    return 1\n")
    project.test("def test_net(fx_golden):\n    assert fx_golden == 1\n")

    without_torch().assert_outcomes(passed=1)


def test_tests_that_ask_for_nothing_pass_with_every_option(project, without_torch):
    project.test("def test_light():\n    pass\n")

    for options in ((), ("--fx-update-golden",), ("--fx-unused=warn",)):
        without_torch(*options).assert_outcomes(passed=1)


@pytest.mark.slow
def test_the_command_reads_goldens(project):
    project.update().assert_outcomes(passed=1)
    code = f"{TORCH_IS_ABSENT}\nfrom pytest_fxgraph.command.main import main\n\nsys.exit(main(sys.argv[1:]))\n"
    golden = "golden/test_net/test_net.yaml"

    for arguments in (["show", golden], ["diff", golden, golden], ["report", "--help"], ["accept", "--help"]):
        command = [sys.executable, "-c", code, *arguments]
        run = subprocess.run(command, cwd=project.path, capture_output=True, text=True, check=False, timeout=120)

        assert run.returncode == 0, run.stderr
