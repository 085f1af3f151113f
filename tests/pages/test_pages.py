"""Every code block of every page runs, and prints what the page says."""

from __future__ import annotations

import ast
import builtins
import doctest
import re
import sys

import pytest
import torch

from fixtures.page_blocks import PAGES, ROOT, blocks_of
from fixtures.page_run import PageRun
from pytest_fxgraph.settings import MARKER

NAMES = [page.relative_to(ROOT).as_posix() for page in PAGES]
BLOCKS = {name: blocks_of(ROOT / name) for name in NAMES}
# Dynamo and export take seconds for each model.
LONG = {"docs/capture.md", "docs/how-to/compiler-backend.md", "docs/inductor.md"}


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


@pytest.mark.parametrize("name", NAMES)
def test_no_block_uses_a_name_that_its_page_does_not_define(name):
    of_page = set(dir(builtins))
    for block in BLOCKS[name]:
        if block.language != "python":
            continue
        source = block.text
        if source.startswith(">>>"):
            source = "".join(example.source for example in doctest.DocTestParser().get_examples(source))
        tree = ast.parse(source)
        # A file stands alone.
        known = {*dir(builtins), "__file__"} if block.file else of_page
        unknown = names_read(tree) - names_made(tree) - known
        assert not unknown, f"{name}:{block.line} uses {', '.join(sorted(unknown))}"
        of_page |= names_made(tree)


def test_a_name_is_known_to_be_made_or_only_read():
    tree = ast.parse("import a.b\nfrom c import d as e\ndef f(g, *h):\n    k = g + m\nfor n in o: pass")

    assert names_made(tree) == {"a", "e", "f", "g", "h", "k", "n"}
    assert names_read(tree) - names_made(tree) == {"m", "o"}


def names_made(tree):
    """Return the names that Python code assigns, defines, imports or takes as parameters, anywhere in it."""
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    names |= {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    names |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    names |= {node.name for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler) and node.name}
    return names | {
        (alias.asname or alias.name).partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    }


def names_read(tree):
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}


def test_the_page_of_the_plugin_names_every_option_and_ini_key(pytestconfig):
    page = (ROOT / "docs/plugin.md").read_text(encoding="utf-8")
    options = {f"--{name.replace('_', '-')}" for name in vars(pytestconfig.option) if name.startswith("fx_")}
    keys = {key for key in pytestconfig._parser._inidict if key.startswith("fx_")}

    assert len(options) > 10
    assert len(keys) > 10
    assert sorted(each for each in options | keys if f"`{each}" not in page) == []
    marker = page.partition("`@pytest.mark.fx(")[2].partition(")`")[0]
    assert sorted(re.findall(r"(\w+)=\.\.\.", marker)) == sorted(re.findall(r"(\w+)=\.\.\.", MARKER))


def test_few_blocks_are_not_run_and_each_says_why():
    not_run = [f"{name}:{block.line}: {block.reason}" for name in NAMES for block in BLOCKS[name] if block.reason]
    not_run = [each for each in not_run if ".ci/run" not in each and "tests/" not in each]  # these run them

    assert all(len(each.partition(": ")[2].split()) >= 3 for each in not_run), "a reason is a sentence"
    assert len(not_run) <= sum(map(len, BLOCKS.values())) / 4, "\n".join(not_run)
