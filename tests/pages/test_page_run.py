"""The runner of pages notices what is wrong in one."""

from __future__ import annotations

import sys

import pytest

from fixtures.page_blocks import blocks_of
from fixtures.page_run import PageRun, commands_in, same_words


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    folder = tmp_path / "folder"
    folder.mkdir()
    monkeypatch.chdir(folder)

    def run(text, **options):
        page = tmp_path / "page.md"
        page.write_text(text, encoding="utf-8")
        PageRun(page, folder, {"fx_level"}, **options).run()
        return folder

    return run


def block(language, text, before=""):
    return f"{before}\n```{language}\n{text}\n```\n"


def test_python_is_run_in_order_and_what_it_prints_is_compared(run):
    page = block("python", "x = 1") + block("python", "print(x + 1)")

    run(page + block("text", "2"))
    with pytest.raises(AssertionError, match=r"page\.md:11: .*the page shows\n *3\n *\n *and this was printed\n *2\n"):
        run(page + block("text", "3"))


def test_a_text_needs_something_that_prints_it(run):
    with pytest.raises(AssertionError, match="this one has none"):
        run(block("text", "2"))


def test_an_error_names_the_line_of_the_page(run):
    with pytest.raises(AssertionError, match=r"page.md:3: ZeroDivisionError"):
        run(block("python", "1 / 0"))


def test_a_file_is_written_and_can_be_imported_also_after_it_was_changed(run):
    page = block("python", "# first.py\nx = 1") + block("python", "import first\nprint(first.x)") + block("text", "1")
    changed = page.replace("x = 1", "x = 2").replace("\n1\n", "\n2\n")

    folder = run(page + changed)

    assert (folder / "first.py").read_text(encoding="utf-8") == "# first.py\nx = 2\n"
    assert "first" not in sys.modules


def test_tests_that_no_command_runs_are_run_and_must_pass(run):
    run(block("python", "def test_sum():\n    assert 1 + 1 == 2"))
    with pytest.raises(AssertionError, match=r"the tests of page\.md fail"):
        run(block("python", "def test_sum():\n    assert 1 + 1 == 3"))


def test_a_command_is_run_and_what_it_prints_is_compared(run):
    run(block("console", "$ ls -a\n.\n..\n$ ls"))
    with pytest.raises(AssertionError, match="and this was printed"):
        run(block("console", "$ ls -a\n.\n..\nsurprise"))
    with pytest.raises(AssertionError, match="ended with status"):
        run(block("console", "$ ls surprise"))


@pytest.mark.parametrize("command", ["pytest --fx-levle exact", "fxgraph shwo golden", "fxgraph accept --cluser 1"])
def test_an_option_or_command_that_does_not_exist_is_noticed(run, command):
    run(block("bash", "pytest --fx-level exact\nfxgraph show golden   # a comment"))
    with pytest.raises(AssertionError, match=r"no option --fx-levle|invalid choice|unrecognized arguments"):
        run(block("bash", command))


def test_a_block_is_excepted_by_a_comment_right_in_front_of_it(run):
    comment = "<!-- not run: it would fail -->"

    run(block("python", "1 / 0", comment))
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        run(block("python", "1 / 0", f"{comment}\n\nBut this is text."))


def test_a_long_block_is_run_where_long_ones_are(run):
    page = block("python", "1 / 0", "<!-- long: it waits -->")

    run(page)
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        run(page, is_long=True)


def test_a_comment_can_prepare_what_follows(run):
    run("<!-- setup\nx = 2\n-->\n" + block("python", "print(x)") + block("text", "2"))


def test_data_has_to_be_well_formed(run):
    run(block("yaml", "a: [1, 2]") + block("json", "[1]"))
    with pytest.raises(AssertionError, match=r"page\.md:3"):
        run(block("yaml", "a: [1, 2"))
    with pytest.raises(AssertionError, match="blocks of cobol are run by nothing"):
        run(block("cobol", "STOP RUN."))


@pytest.mark.parametrize(
    ("expected", "obtained", "same"),
    [
        ("a\n...\nd", "a\nb\nc\nd", True),
        ("a\n...\nd", "a\nd", True),
        ("a\n...\nd", "a\nb", False),
        ("1 passed in 0.10s", "1 passed, 2 warnings in 12.34s", True),
        ("1 passed in 0.10s", "2 passed in 0.10s", False),
        (".   [100%]", ".          [100%]", True),
        ("x = ... y", "x = 1 y", True),
        ("", "", True),
    ],
)
def test_dots_stand_for_anything_and_durations_do_not_count(expected, obtained, same):
    assert same_words(expected, obtained) is same


def test_commands_are_found_in_scripts():
    script = (
        "cd x && pytest -q | tail\ngit config diff.fxgraph.textconv 'fxgraph show --full'\nfxgraph diff a \\\n  b\n"
    )

    assert list(commands_in(script)) == [
        ("pytest", ["-q"]),
        ("fxgraph", ["show", "--full"]),
        ("fxgraph", ["diff", "a", "b"]),
    ]


def test_blocks_know_their_lines_and_files(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("text\n\n```python\n# a/b.py\n```\n\n  ```toml\n  x = 1\n  ```\n", encoding="utf-8")

    first, second = blocks_of(page)

    assert (first.file, first.line) == ("a/b.py", 4)
    assert (second.text, second.file, second.line) == ("x = 1\n", None, 8)
