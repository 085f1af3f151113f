"""What the site adds to its pages: tables from parsers and docstrings, and links that lead out of the docs."""

from __future__ import annotations

import importlib.util
import re

import pytest

from fixtures.page_blocks import DOCS
from pytest_fxgraph import errors, hookspecs
from pytest_fxgraph.choices import CHECKS, LEVELS

MARK = re.compile(r"<!-- generated: (.+) -->")


@pytest.fixture(scope="module")
def site():
    spec = importlib.util.spec_from_file_location("docs_pages", DOCS / "pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_part_that_a_page_asks_for_is_made_and_every_part_is_asked_for(site):
    pages = [page.read_text(encoding="utf-8") for page in DOCS.rglob("*.md")]

    assert {name for page in pages for name in MARK.findall(page)} == set(site.GENERATED)


def test_the_table_of_options_has_every_option_of_pytest(site, pytestconfig):
    table = site.options_table().replace("&#95;", "_")

    options = {name for name in vars(pytestconfig.option) if name.startswith("fx_")}
    assert len(options) > 10
    assert set(re.findall(r"<code>--(fx[\w-]+)", table)) == {name.replace("_", "-") for name in options}


def test_the_command_is_described_with_its_commands_and_their_arguments(site):
    text = site.command_sections()

    assert "## `fxgraph accept`" in text
    assert "<code>--cluster" in text
    assert text.count("| argument | meaning |") == text.count("\n## `fxgraph ")


def test_the_report_is_described_key_by_key(site):
    text = site.report_sections()

    assert "## The report" in text
    assert "| <code>nodeid</code> | string |" in text
    assert "list of <code>outcome</code>" in text


def test_every_hook_has_its_manual_and_an_example_that_is_python(site):
    text = site.hook_sections()

    names = [name for name in vars(hookspecs) if name.startswith("pytest_fxgraph_")]
    assert re.findall(r"(?m)^## `(\w+)`$", text) == names
    examples = re.findall(r"(?ms)^Example.*?:\n\n```python\n(.*?)^```$", text)
    assert len(examples) == len(names)
    for example in examples:
        compile(example, "example", "exec")


def test_the_table_of_errors_has_each_with_the_builtin_class_that_it_is(site):
    table = site.error_table("pytest_fxgraph/errors.py")

    assert "| <code>LevelError</code> | <code>GateError</code>, <code>ValueError</code> |" in table
    assert table.count("\n") == 2 + sum(
        isinstance(each, type) and issubclass(each, Exception) for each in vars(errors).values()
    )
    assert "| <code>TraceError</code> | <code>FxError</code>, <code>ValueError</code> |" in site.error_table(
        "fxcore/errors.py"
    )


def test_fields_of_goldens_have_a_meaning(site):
    rows = [row.split(" | ") for row in site.format_sections().splitlines() if row.startswith("| <code>")]

    assert len(rows) > 30
    assert [row[0] for row in rows if not row[2].strip(" |")] == []


def test_words_to_choose_from_are_listed(site):
    table = site.choices_table().replace("&#95;", "_")

    assert all(f"<code>{word}</code>" in table for word in (*LEVELS, *CHECKS))


def test_the_pages_are_written_as_markdown_beside_their_files(site, tmp_path):
    folder = tmp_path / "pages"

    pages = site.write_pages(folder)

    written = {file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()}
    there = {file.relative_to(DOCS).as_posix() for file in DOCS.rglob("*") if file.is_file()}
    assert written == {name for name in there if not name.endswith((".py", ".pyc"))}
    assert pages == sum(name.endswith(".md") for name in written)
    options = (folder / "reference/options.md").read_text(encoding="utf-8")
    assert "--fx-update-golden" in options.replace("&#95;", "_")
    assert "<!--" not in options


def test_pages_are_not_written_over_older_ones(site, tmp_path):
    (tmp_path / "gone.md").write_text("old")

    with pytest.raises(FileExistsError, match="something is in it; delete the folder first"):
        site.write_pages(tmp_path)


def test_a_link_out_of_the_docs_leads_to_the_repository_and_one_within_stays(site):
    text = "[a](../../examples/hooks) [b](../goldens.md#levels) `[c](../../x)`\n\n```text\n[d](../../x)\n```\n"

    rewritten = site.rewritten(text, "reference/hooks.md")

    assert f"[a]({site.REPOSITORY}examples/hooks)" in rewritten
    assert "[b](../goldens.md#levels)" in rewritten
    assert "`[c](../../x)`" in rewritten
    assert "\n[d](../../x)\n" in rewritten


def test_comments_are_left_out_but_not_in_code(site):
    text = "a\n<!-- not run: why -->\n```html\n<!-- kept -->\n```\n<!-- setup\nx = 1\n-->\nb\n"

    assert site.rewritten(text, "index.md") == "a\n```html\n<!-- kept -->\n```\nb\n"


def test_a_diagram_is_a_picture_where_there_is_one_of_this_text(site):
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    block = re.search(r"(?ms)^```mermaid\n.*?^```$", page)
    assert block is not None

    changed = block[0].replace("flowchart TB", "flowchart LR")

    assert re.fullmatch(r"!\[diagram\]\(images/mermaid-\w{12}\.svg\)", site.rewritten(block[0], "architecture.md"))
    assert site.rewritten(changed, "architecture.md") == changed


def test_the_list_for_language_models_names_pages_of_the_site():
    links = re.findall(r"\]\(([^)]+)\)", (DOCS / "llms.txt").read_text(encoding="utf-8"))

    assert len(links) > 10
    assert [link for link in links if not (DOCS / link).with_suffix(".md").is_file()] == []
    assert [link for link in links if not link.endswith(".html")] == []
