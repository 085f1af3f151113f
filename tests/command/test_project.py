from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.documents import document
from pytest_fxgraph import settings
from pytest_fxgraph.command import project
from pytest_fxgraph.command.main import main
from pytest_fxgraph.command.project import from_rootdir, golden_layout_here
from pytest_fxgraph.document.encoding import encode
from pytest_fxgraph.errors import GateError

INI = "[pytest]\nfx_golden_dir = {}\n"


@pytest.fixture(autouse=True)
def deep(tmp_path, monkeypatch) -> Path:
    """A folder two levels below a project; the working directory."""
    (tmp_path / "a/b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a/b")
    return tmp_path


CONFIGURED = {
    "pytest.toml": '[pytest]\nfx_golden_dir = "here"\n',
    "pytest.ini": INI.format("here"),
    ".pytest.ini": INI.format("here"),
    "pyproject.toml": '[tool.pytest.ini_options]\nfx_golden_dir = "here"\n',
    "tox.ini": "[tox]\nx = %(y)s\n" + INI.format("here"),
    "setup.cfg": "[tool:pytest]\nfx_golden_dir = here\n",
}


@pytest.mark.parametrize("name", CONFIGURED)
def test_rootdir_is_where_the_nearest_configuration_is(deep, name):
    (deep / name).write_text(CONFIGURED[name])

    layout = golden_layout_here()

    assert (str(layout.rootpath), layout.setting) == ("../..", "here")


def test_the_table_that_newer_releases_of_pytest_read_counts_too(deep):
    (deep / "pyproject.toml").write_text('[tool.pytest]\nfx_golden_dir = "here"\n')

    assert golden_layout_here().setting == "here"


@pytest.mark.parametrize("name", ["tox.ini", "setup.cfg", "pyproject.toml"])
def test_a_file_that_says_nothing_of_pytest_is_passed_over(deep, name):
    (deep / "a" / name).write_text("[tool]\nother = 1\n")
    (deep / "pytest.ini").write_text(INI.format("here"))

    assert str(golden_layout_here().rootpath) == "../.."


@pytest.mark.parametrize("name", ["pytest.ini", ".pytest.ini"])
def test_an_empty_file_of_pytest_counts(deep, name):
    (deep / "a" / name).touch()
    (deep / "pytest.ini").write_text(INI.format("here"))

    layout = golden_layout_here()

    assert (str(layout.rootpath), layout.setting) == ("..", "golden")


@pytest.mark.parametrize("name", ["pyproject.toml", "setup.py"])
def test_without_configuration_a_project_has_other_marks(deep, name):
    (deep / name).touch()

    assert str(golden_layout_here().rootpath) == "../.."


def test_without_any_mark_this_folder_is_the_project():
    layout = golden_layout_here()

    assert (str(layout.rootpath), str(layout.root)) == (".", "golden")


def test_without_any_mark_the_project_is_where_goldens_lie(deep):
    (deep / "golden").mkdir()

    assert str(golden_layout_here().rootpath) == "../.."


def test_goldens_outside_of_the_repository_are_those_of_another_project(deep):
    (deep / "golden").mkdir()
    (deep / "a/.git").mkdir()

    assert str(golden_layout_here().rootpath) == "."


@pytest.mark.parametrize("options", ["--fx-golden-dir=x --fx-golden-dir=beside", "-q --fx-golden-dir beside"])
def test_options_of_each_command_line_go_before_the_key(deep, options):
    (deep / "pytest.ini").write_text(f"{INI.format('here')}addopts = {options}\n")

    assert golden_layout_here().is_beside


def test_an_option_without_its_value_leaves_the_key(deep):
    (deep / "pytest.ini").write_text(f"{INI.format('here')}addopts = -q --fx-golden-dir\n")

    assert golden_layout_here().setting == "here"


def test_what_is_given_goes_before_what_is_configured(deep):
    (deep / "pytest.ini").write_text(INI.format("here"))

    assert str(golden_layout_here("own").root) == "own"
    assert str(golden_layout_here("beside").root) == "../.."


@pytest.mark.parametrize(("name", "text"), [("pyproject.toml", "[tool"), ("pytest.ini", "x"), ("tox.ini", "\xff")])
def test_a_configuration_that_cannot_be_read_is_named(deep, name, text):
    (deep / name).write_bytes(text.encode("latin-1"))

    with pytest.raises(GateError, match=f"cannot read .*{name}, which may say where goldens lie: "):
        golden_layout_here()


def test_names_are_those_of_the_plugin():
    setting = settings.GOLDEN_DIR

    assert (setting.key, setting.option, setting.default) == (project.KEY, project.OPTION, project.DEFAULT)


def test_paths_as_pytest_prints_them_are_read_from_any_folder_below(deep, capsys):
    (deep / "pytest.ini").touch()
    golden = deep / "golden/test_a/test_x.yaml"
    golden.parent.mkdir(parents=True)
    golden.write_text("format: 3\ngraph: |\n  no nodes\ncode: |\n  x\nend: true\n")

    assert main(["show", "--code", "golden/test_a/test_x.yaml"]) == 0
    assert main(["report", "--unused"]) == 1

    assert capsys.readouterr().out == "x\n../../golden/test_a/test_x.yaml\n"


GOLDEN = "golden/test_a/test_x.yaml"


@pytest.mark.parametrize(
    "arguments",
    [
        ("show", GOLDEN),
        ("show", "golden"),
        ("diff", GOLDEN, GOLDEN),
        ("diff", "golden", "golden"),
        ("draw", GOLDEN, "-o", "here.svg"),
        ("accept",),
        ("review",),
        ("report", "--unused"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("folder", [".", "a/b", "golden/test_a"])
def test_every_command_works_in_every_folder_below_rootdir(deep, folder, arguments, monkeypatch, capsys):
    (deep / "pytest.ini").touch()
    (deep / "test_a.py").touch()
    (deep / GOLDEN).parent.mkdir(parents=True)
    (deep / GOLDEN).write_text(encode(document("%x = input x\n%a = torch.relu(%x)\nreturn %a")), encoding="utf-8")
    monkeypatch.chdir(deep / folder)

    assert main([*arguments]) == 0, capsys.readouterr()
    if arguments[0] == "draw":
        assert (deep / folder / "here.svg").is_file()


@pytest.mark.parametrize(
    "text", ["tool = 1\n", "[tool]\npytest = 1\n", "[tool.pytest]\n", "[tool.pytest-other]\nx = 1\n"]
)
def test_a_project_file_without_a_table_of_pytest_is_passed_over(deep, text):
    (deep / "a/pyproject.toml").write_text(text)
    (deep / "pytest.ini").write_text(INI.format("here"))

    layout = golden_layout_here()

    assert (str(layout.rootpath), layout.setting) == ("../..", "here")


@pytest.mark.parametrize(
    "text", ["[pytest]\nx = 1\nx = 2\nfx_golden_dir = here\n", "[pytest]\nx\nfx_golden_dir = here\n"]
)
def test_keys_that_pytest_itself_would_refuse_do_not_matter(deep, text):
    (deep / "pytest.ini").write_text(text)

    assert golden_layout_here().setting == "here"


def test_a_path_is_tried_from_rootdir_if_it_is_relative_and_not_here(deep):
    (deep / "pytest.ini").touch()
    for name in ("here.yaml", "a/b/here.yaml", "there.yaml"):
        (deep / name).touch()

    assert from_rootdir(Path("here.yaml")) == Path("here.yaml")
    assert from_rootdir(Path("there.yaml")) == Path("../../there.yaml")
    assert from_rootdir(Path("gone.yaml")) == Path("gone.yaml")
    for path in (deep / "there.yaml", deep / "gone.yaml"):
        assert from_rootdir(path) == path
