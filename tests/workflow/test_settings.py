"""Argument, marker, command line, ini key, default: the nearest wins, and wrong values are refused."""

from __future__ import annotations

import pytest

# At level `structure` the second run passes, at level `exact` it does not.
MARKED = """
import pytest
from model import Net

{file_marker}


{marker}
def test_net(fx_golden):
    assert Net() == fx_golden{call}
"""


EXACT_FILE = 'pytestmark = pytest.mark.fx(level="exact")'


def marked(marker: str = "", call: str = "", file_marker: str = "") -> str:
    return MARKED.format(marker=marker, call=call, file_marker=file_marker)


def rename_a_variable(project) -> None:
    project.model("(lambda z: torch.relu(z))(torch.neg(y))")
    project.update()
    path = project.path / "golden/test_net/test_net.yaml"
    path.write_text(path.read_text().replace("neg", "torch_neg").replace("torch.torch_neg", "torch.neg"))


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize(
    ("options", "ini", "test", "level"),
    [
        ([], "", marked(), "structure"),
        ([], "exact", marked(), "exact"),
        (["--fx-level=structure"], "exact", marked(), "structure"),
        (["--fx-level=structure"], "", marked('@pytest.mark.fx(level="exact")'), "exact"),
        ([], "", marked('@pytest.mark.fx(level="structure")', "", EXACT_FILE), "structure"),
        ([], "", marked('@pytest.mark.fx(level="structure")', '(level="exact")'), "exact"),
        (["--fx-level=exact"], "exact", marked('@pytest.mark.fx(level="exact")', '(level="structure")'), "structure"),
    ],
    ids=["default", "ini", "command line", "marker", "closest marker", "argument", "argument over all"],
)  # fmt: skip
def test_the_nearest_level_wins(project, options, ini, test, level):
    rename_a_variable(project)
    project.test(test)
    project.pytester.makeini(f"[pytest]\npythonpath = .\nfx_level = {ini}\n")

    result = project.run(*options)

    result.assert_outcomes(**({"passed": 1} if level == "structure" else {"failed": 1}))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ["--fx-level=vague"],
            "--fx-level: expected one of exact, structure, ops, signature, cost, breaks, kernels, got 'vague'",
        ),
        (["--fx-seed=1.5"], "--fx-seed: expected a whole number that is not negative, got '1.5'"),
        (["--fx-constants=some"], "--fx-constants: expected one of exact, close, shape, got 'some'"),
        (["--fx-golden-dir="], "--fx-golden-dir: expected the path of a folder, got ''"),
        (["--fx-update-only=new"], "--fx-update-only: expected together with --fx-update-golden*"),
        (["--fx-update-golden", "--fx-update-only=some"], "*--fx-update-only: invalid choice: 'some'*"),
    ],
)
def test_wrong_options_are_usage_errors(project, options, words):
    result = project.run(*options)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*{words}"])


@pytest.mark.parametrize(
    ("marker", "words"),
    [
        ('level="vague"', "level: expected one of exact, structure, *, kernels, got 'vague'"),
        ("rtol=True", "rtol: expected a number that is not negative*got True"),
        ("seed=-1", "seed: expected a whole number that is not negative, got -1"),
        ("commutative=1", "commutative: expected True or False, got 1"),
        ('constants="some"', "constants: expected one of exact, close, shape, got 'some'"),
        ("levle=3", "there is no 'levle'; it takes level, rtol, atol, seed, commutative, normalize, constants, code*"),
        ('"exact"', "expected keywords such as fx(level=\"exact\"), got 'exact'"),
    ],
)
def test_wrong_markers_are_usage_errors_that_name_the_test(project, marker, words):
    project.test(marked(f"@pytest.mark.fx({marker})"))

    result = project.run()

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*marker fx of test_net.py::test_net*{words}".replace("[", "[[]")])


@pytest.mark.parametrize(
    ("ini", "words"),
    [
        ("fx_level = vague", "fx_level: expected one of exact, structure, *, kernels, got 'vague'"),
        ("fx_rtol = -1", "fx_rtol: expected a number that is not negative*got '-1'"),
        ("fx_atol = many", "fx_atol: expected a number that is not negative*got 'many'"),
    ],
)
def test_a_wrong_ini_key_is_a_usage_error(project, ini, words):
    project.pytester.makeini(f"[pytest]\n{ini}\n")

    result = project.run()

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*ini key {words}"])


def test_a_wrong_argument_names_the_levels(project):
    project.test(marked(call='(level="vague")'))

    result = project.run()

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*LevelError: there is no level 'vague'; goldens are compared at exact, structure*"])


@pytest.mark.slow
def test_help_and_markers_tell_of_the_plugin(project):
    project.run("--help").stdout.fnmatch_lines(["*--fx-update-golden*", "*--fx-golden-dir*", "*--fx-level*"])
    project.run("--markers").stdout.fnmatch_lines(["@pytest.mark.fx(level=..., *"])


def test_the_fixtures_are_described(project):
    result = project.run("--fixtures")

    result.stdout.fnmatch_lines(["fx_trace?*", "fx_golden*", "fx_equivalence*", "fx_transform*"])


def test_commutative_and_normalize_loosen_the_comparison(project):
    project.model("y + x.relu()[0, 0]")
    project.update()
    project.model("x.relu()[0, 0] + y")
    project.run().assert_outcomes(failed=1)

    project.test(marked("@pytest.mark.fx(commutative=True)"))
    project.run().assert_outcomes(passed=1)

    project.test(marked(call="(normalize=True, commutative=True)"))
    project.model("torch.relu(x)[0, 0] + y")
    project.run().assert_outcomes(passed=1)
