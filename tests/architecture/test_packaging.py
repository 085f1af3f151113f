"""What is released: one version everywhere, a readme whose links lead somewhere, hooks that run."""

from __future__ import annotations

import importlib.util
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

import pytest_fxgraph
from fixtures.documents import document
from pytest_fxgraph.command.main import main
from pytest_fxgraph.document.encoding import encode

ROOT = Path(__file__).parents[2]
HOOKS = {hook["id"]: hook for hook in yaml.safe_load(ROOT.joinpath(".pre-commit-hooks.yaml").read_text("utf-8"))}
GOLDEN = encode(document("%x = input x\n%a = torch.relu(%x)\nreturn %a"))


def text_of(name: str) -> str:
    return ROOT.joinpath(name).read_text(encoding="utf-8")


@pytest.fixture
def build():
    """The file setup.py, which is not run as a script."""
    pytest.importorskip("setuptools")
    found = importlib.util.spec_from_file_location("build_of_fxgraph", ROOT / "setup.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_the_changelog_begins_with_the_version_of_the_package():
    newest = re.search(r"^## (.*)$", text_of("CHANGELOG.md"), re.MULTILINE)[1]

    assert re.fullmatch(rf"(Unreleased|{re.escape(pytest_fxgraph.__version__)} \(\d{{4}}-\d\d-\d\d\))", newest)


def test_relative_links_of_the_readme_lead_to_the_repository(build):
    text = "[a](docs/a.md#b) ![c](docs/c.png) [d](https://x.org) [e](#f)"

    assert build.readme_of(text, "https://github.com/o/r", "v1") == (
        "[a](https://github.com/o/r/blob/v1/docs/a.md#b) ![c](https://raw.githubusercontent.com/o/r/v1/docs/c.png) "
        "[d](https://x.org) [e](#f)"
    )
    released = build.readme_of(text_of("README.md"), build.assigned("Repository", "pyproject.toml"), "v1")
    assert re.findall(r"\]\((?!https?://|#)[^)]*\)|(?:href|src)=\"(?!https?://)", released) == []


def test_a_readme_without_its_repository_is_not_built(build):
    with pytest.raises(
        SystemExit, match=r'pyproject.toml has no line `nothing = "..."`, which the links of the readme'
    ):
        build.assigned("nothing", "pyproject.toml")


def test_the_sdist_holds_every_folder_and_file_at_the_root():
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("this is no clone")
    tracked = subprocess.run([git, "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    at_root = {name.partition("/")[0] for name in tracked.split("\0") if name}
    # What setuptools takes without being asked.
    packed = {"fxcore", "pytest_fxgraph", "pyproject.toml", "setup.py", "README.md", "LICENSE", "MANIFEST.in"}

    assert at_root <= packed | set(re.findall(r"[\w./-]+", text_of("MANIFEST.in")))


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_passes_a_sound_project_and_stops_another(hook, tmp_path, monkeypatch, capsys):
    command, *arguments = shlex.split(HOOKS[hook]["entry"])
    golden = tmp_path / "golden/test_net/test_a.yaml"
    golden.parent.mkdir(parents=True)
    golden.write_text(GOLDEN, encoding="utf-8")
    (tmp_path / "test_net.py").touch()
    (tmp_path / "pytest.ini").touch()
    monkeypatch.chdir(tmp_path)
    files = [] if HOOKS[hook].get("pass_filenames") is False else ["golden/test_net/test_a.yaml"]
    assert all(re.search(HOOKS[hook]["files"], file) for file in files)
    assert not any(re.search(HOOKS[hook]["exclude"], file) for file in files)

    assert (command, main([*arguments, *files])) == ("fxgraph", 0)

    golden.write_text(GOLDEN[: len(GOLDEN) // 2], encoding="utf-8")
    golden.with_name("test_a.received.yaml").write_text(GOLDEN, encoding="utf-8")
    (tmp_path / "test_net.py").unlink()
    capsys.readouterr()
    assert main([*arguments, *files]) != 0
    assert "test_a" in "".join(capsys.readouterr())
