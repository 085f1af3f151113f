"""The example repositories hold as their users run them, in processes of their own, and catch what READMEs say."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
PASSED = {"model_repository": 8, "compiler_passes": 10, "compile_gate": 15, "tensor_parallel": 4}
# What a README proposes to try: a file, an edit of it, a choice of tests, and what pytest then says.
EDITS = {
    "model_repository": (
        *("models/vision.py", "stride=2, padding=1", "stride=1, padding=1", "vision"),
        "test_the_graph_is_the_one_that_was_reviewed.yaml does not match: nn.Conv2d stride (2, 2) -> (1, 1) at stem",
    ),
    "compiler_passes": (
        *("passes/scale_folding.py", "scaled.bias.mul_(scale)", "pass", "fold and not random"),
        "after fold_scale_into_linear differ",
    ),
    "compile_gate": (
        *("gate/models.py", "return x + self.body(x)\n", "print(x.shape)\n        return x + self.body(x)\n"),
        "residual",
        "breaks 0 -> 1",
    ),
    "tensor_parallel": (
        *("decoder/plan.py", "in model.blocks:", "in model.blocks[:1]:", "one_program"),
        "-2 all_reduce of 1.54 kB on tp",
    ),
}


@pytest.fixture
def repository(request, tmp_path):
    """A copy of an example, and a way to run a Python program in it."""
    name = request.param
    folder = shutil.copytree(EXAMPLES / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    own = {"PYTHONPATH": os.pathsep.join([str(EXAMPLES.parent), str(folder)]), "PYTHONDONTWRITEBYTECODE": "1"}
    environment = {**{key: value for key, value in os.environ.items() if key != "PYTEST_ADDOPTS"}, **own}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *arguments]
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)

    run.folder, run.name = folder, name
    return run


def run_tests(repository, *arguments):
    return repository("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", *arguments)


# The wheel's step of CI runs all of them.
@pytest.mark.parametrize(
    "repository",
    [
        pytest.param(name, marks=[pytest.mark.slow if name == "model_repository" else pytest.mark.long])
        for name in PASSED
    ],
    indirect=True,
)
def test_an_example_passes_with_the_goldens_it_comes_with(repository):
    before = {path: path.read_bytes() for path in repository.folder.rglob("*.yaml")}

    result = run_tests(repository)

    assert result.returncode == 0, result.stdout
    assert f"{PASSED[repository.name]} passed" in result.stdout
    assert {path: path.read_bytes() for path in repository.folder.rglob("*.yaml")} == before


@pytest.mark.parametrize("repository", PASSED, indirect=True)
def test_what_a_readme_names_is_there(repository):
    readme = (repository.folder / "README.md").read_text("utf-8")
    sources = "\n".join(
        path.read_text("utf-8") for path in repository.folder.rglob("*") if path.suffix in (".py", ".toml")
    )

    for name in ("pytest --fx-update-golden", EDITS[repository.name][0]):
        assert name in readme
    assert all(f"def {word}(" in sources for word in readme.replace("`", " ").split() if word.startswith("test_"))


@pytest.mark.long
@pytest.mark.parametrize("repository", EDITS, indirect=True)
def test_an_example_fails_after_the_edit_that_its_readme_proposes(repository):
    file, before, after, chosen, words = EDITS[repository.name]
    path = repository.folder / file
    source = path.read_text("utf-8")
    assert before in source
    path.write_text(source.replace(before, after), "utf-8")

    result = run_tests(repository, "-k", chosen)

    assert result.returncode == 1, result.stdout
    assert words in result.stdout


@pytest.mark.long
@pytest.mark.parametrize("repository", ["compile_gate"], indirect=True)
def test_the_script_passes_where_the_table_fails(repository):
    assert repository("count_breaks.py").returncode == 0
    expected = repository.folder / "expected.csv"
    expected.write_text(
        expected.read_text("utf-8").replace("\nmlp,0,", "\nmlp,nan,").replace("\ngated,", "\n,"), "utf-8"
    )
    table = repository.folder / "golden" / "tests" / "test_breaks" / "table.yaml"
    lines = table.read_text("utf-8").splitlines(keepends=True)
    spoiled = "".join(line for line in lines if "[gated]" not in line)
    table.write_text(spoiled.replace("[mlp]', breaks: 0", "[mlp]', breaks: .nan"), "utf-8")

    assert repository("count_breaks.py").returncode == 0
    result = run_tests(repository, "-k", "breaks and (mlp or gated)")

    assert result.returncode == 1
    assert "mlp" in result.stdout
    table.write_text(spoiled, "utf-8")
    result = run_tests(repository, "-k", "breaks and gated")
    assert result.returncode == 1
    assert "gated" in result.stdout
