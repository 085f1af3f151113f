"""Every code block of every page runs, and prints what the page says."""

from __future__ import annotations

import sys

import pytest
import torch

from fixtures.page_blocks import PAGES, ROOT, blocks_of
from fixtures.page_run import PageRun

NAMES = [page.relative_to(ROOT).as_posix() for page in PAGES]
BLOCKS = {name: blocks_of(ROOT / name) for name in NAMES}
# Dynamo and export take seconds for each model.
LONG = {"docs/capture.md", "docs/how-to/compiler-backend.md"}


@pytest.fixture
def run_page(tmp_path, monkeypatch, pytestconfig):
    # A model that is edited within the second, at the same length, would be read from its old byte code.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for name in ("PYTEST_ADDOPTS", "CI", "GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "FORCE_COLOR", "FXGRAPH_UPDATE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\n", encoding="utf-8")

    def run(page, is_long, is_fresh=False):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            PageRun(page, tmp_path, vars(pytestconfig.option), is_long=is_long, is_fresh=is_fresh).run()

    return run


@pytest.mark.parametrize("name", [name for name in NAMES if name not in LONG])
def test_the_code_of_a_page_does_what_the_page_says(name, run_page):
    run_page(ROOT / name, is_long=False)


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in NAMES if name in LONG or any(b.is_long for b in BLOCKS[name])])
def test_the_code_of_a_page_that_takes_long_does_what_the_page_says(name, run_page):
    run_page(ROOT / name, is_long=True)


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in NAMES if any(b.has_commands for b in BLOCKS[name])])
def test_the_commands_of_a_page_print_the_same_in_processes_of_their_own(name, run_page):
    run_page(ROOT / name, is_long=False, is_fresh=True)


def test_few_blocks_are_not_run_and_each_says_why():
    not_run = [f"{name}:{block.line}: {block.reason}" for name in NAMES for block in BLOCKS[name] if block.reason]
    not_run = [each for each in not_run if ".ci/run" not in each and "tests/" not in each]  # these run them

    assert all(len(each.partition(": ")[2].split()) >= 3 for each in not_run), "a reason is a sentence"
    assert len(not_run) <= sum(map(len, BLOCKS.values())) / 4, "\n".join(not_run)
