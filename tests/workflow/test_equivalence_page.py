"""The walk through a failing pass in docs/equivalence.md is what happens when its code is run."""

from __future__ import annotations

import re

import pytest

from fixtures.equivalence_page import PAGE

# Figures differ in their last digits from machine to machine; the words around them do not.
FIGURE = re.compile(r"-?\d+\.\d+(e-\d+)?|(?<=at )\[[\d, ]+\]")


def blocks() -> list[str]:
    return re.findall(r"(?ms)^```\w*\n(.*?)^```$", PAGE.read_text(encoding="utf-8"))


def files_of_the_page() -> dict[str, str]:
    named = [re.match(r"# (\w+\.py)\n", block) for block in blocks()]
    return {found[1]: block for found, block in zip(named, blocks(), strict=True) if found is not None}


def message_of_the_page(start: str) -> list[str]:
    (block,) = [block for block in blocks() if block.startswith(start)]
    return without_figures(block)


def without_figures(text: str) -> list[str]:
    return [FIGURE.sub("0.0", line).rstrip() for line in text.splitlines()]


@pytest.fixture
def page(project):
    for name, text in files_of_the_page().items():
        project.write(name, text)
    return project


@pytest.mark.parametrize(
    ("test", "start"),
    [("test_passes.py", "E  MismatchError: eager and graph after pass 2"), ("test_rewrite.py", "E  AssertionError:")],
)
def test_a_failing_test_of_the_page_says_what_the_page_says(page, test, start):
    result = page.run("--fx-repro", "repro", test)

    result.assert_outcomes(failed=1)
    said = [re.sub(r"^E +", "E  ", line.replace("pytest_fxgraph.errors.", ""))
            for line in result.outlines if line.startswith("E  ")]  # fmt: skip
    expected = [re.sub(r"^E +", "E  ", line) for line in message_of_the_page(start)]
    obtained = without_figures("\n".join(said).replace(f"{page.path}/", ""))
    assert obtained[: len(expected)] == expected


def test_the_script_of_the_page_fails_until_the_graph_is_right(page, run_again):
    page.run("--fx-repro", "repro", "test_passes.py")
    (script,) = page.path.glob("repro/*/repro.py")

    wrong = run_again(script)
    script.write_text(script.read_text().replace("+ 0.5", "- 0.5"))
    right = run_again(script)

    assert (wrong.returncode, right.returncode) == (1, 0), wrong.stderr + right.stderr
    assert "output has other values in the graph than in eager" in wrong.stdout
    assert right.stdout.strip() == "model and graph agree"
