"""`.pt2` files as arguments of the command: read in a process that has torch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from fixtures import exported_archives as archives
from pytest_fxgraph import assert_graph_matches_golden
from pytest_fxgraph.command import archive_text
from pytest_fxgraph.command.main import main


def run(capsys, *arguments):
    status = main(list(map(str, arguments)))
    return status, *capsys.readouterr()


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return archives.saved(tmp_path_factory.mktemp("saved") / "model.pt2")


@pytest.mark.slow
def test_show_prints_the_program_as_a_golden_of_it(capsys, path, tmp_path):
    assert_graph_matches_golden(archives.program(), tmp_path / "golden.yaml", update=True)
    capsys.readouterr()

    status, out, err = run(capsys, "show", path)

    assert (status, err) == (0, "")
    assert "%linear = aten.linear.default(%x, %linear_weight, %linear_bias)" in out
    assert run(capsys, "diff", tmp_path / "golden.yaml", path) == (0, "", "")


@pytest.mark.slow
def test_diff_names_the_change_between_two_files(capsys, path, tmp_path):
    other = archives.saved(tmp_path / "other.pt2", archives.Scaled(3.0))

    status, out, _ = run(capsys, "diff", path, other)

    assert status == 1
    assert "2.0 -> 3.0" in out


@pytest.mark.slow
def test_draw_writes_a_picture(capsys, path, tmp_path):
    status, _, err = run(capsys, "draw", path, "-o", tmp_path / "model.svg")

    assert (status, err) == (0, "")
    assert "linear" in (tmp_path / "model.svg").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_file_that_torch_2_6_wrote_is_read(capsys, path, tmp_path):
    old = archives.saved_as_by_torch_2_6(tmp_path / "old.pt2")

    assert run(capsys, "diff", path, old) == (0, "", "")


@pytest.mark.slow
def test_a_revision_of_a_file_is_read(capsys, path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("model.pt2").write_bytes(path.read_bytes())
    for arguments in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a"],
    ):
        subprocess.run(["git", *arguments], check=True, capture_output=True)
    archives.with_pickled_inputs(Path("model.pt2"), tmp_path / "created")

    status, _, err = run(capsys, "show", "model.pt2")

    assert run(capsys, "show", "HEAD:model.pt2")[0] == 0
    assert status == 2
    assert err.startswith("fxgraph: cannot read model.pt2: to load it executes a part of the file: ")


@pytest.mark.slow
def test_json_holds_the_graph(capsys, path):
    status, out, _ = run(capsys, "show", "--json", path)

    (found,) = json.loads(out)
    assert status == 0
    assert "aten.linear.default" in [node["target"] for node in found["graph"]["nodes"]]


@pytest.mark.slow
@pytest.mark.parametrize(
    "spoil", [archives.with_pickled_inputs, pytest.param(archives.with_bare_pickle, marks=pytest.mark.slow)]
)
def test_nothing_is_executed_without_trust(capsys, tmp_path, spoil):
    path, created = archives.saved(tmp_path / "model.pt2"), tmp_path / "created"
    spoil(path, created)

    status, out, err = run(capsys, "show", path)

    assert (status, out) == (2, "")
    assert err.startswith(f"fxgraph: cannot read {path}: to load it executes a part of the file: ")
    assert err.endswith("; if you trust its author, add --trust\n")
    assert not created.exists()


@pytest.mark.slow
def test_with_trust_it_is_loaded_whatever_it_executes(capsys, tmp_path):
    path, created = archives.saved(tmp_path / "model.pt2"), tmp_path / "created"
    archives.with_pickled_inputs(path, created)

    run(capsys, "show", "--trust", path)

    assert created.exists()


@pytest.mark.slow
def test_the_process_refuses_a_pickle_that_the_inspection_missed(tmp_path):
    path, created = archives.saved(tmp_path / "model.pt2"), tmp_path / "created"
    archives.with_pickled_inputs(path, created)
    source = (
        "import sys, pytest_fxgraph.captures.archives as archives, pytest_fxgraph.captures.subjects as subjects\n"
        "subjects.check_archive = lambda *_, **__: None\n"
        "archives.main(*sys.argv[1:], False)\n"
        "import pickle; pickle.loads(b'cos\\ngetpid\\n.')\n"
    )

    child = subprocess.run([sys.executable, "-c", source, path, tmp_path], capture_output=True, text=True, check=False)

    assert "does not load it" in (tmp_path / "error").read_text(encoding="utf-8")
    assert not created.exists()
    assert child.stderr.endswith("ArchiveError: a pickle names os.getpid\n")


@pytest.mark.slow
def test_a_program_that_torch_does_not_load_is_a_letter(capsys, tmp_path):
    path = archives.saved(tmp_path / "model.pt2")
    archives.with_changed_program(path, lambda program: program.clear())

    status, _, err = run(capsys, "show", path)

    assert status == 2
    assert err.startswith(f"fxgraph: cannot read {path}: torch ")
    assert err.endswith("; load it by the release of torch that saved it, and save it by this one\n")


@pytest.mark.slow
def test_a_module_in_the_present_folder_is_not_taken_for_one_of_the_library(capsys, path, tmp_path, monkeypatch):
    (tmp_path / "json.py").write_text("open('created', 'w')", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    assert run(capsys, "show", path)[0] == 0
    assert not (tmp_path / "created").exists()


def test_a_process_that_fails_or_takes_too_long_is_a_letter(capsys, path, monkeypatch):
    monkeypatch.setattr(archive_text, "_MODULE", "no_module_of_this_name")
    _, _, err = run(capsys, "show", path)
    assert err == (
        f"fxgraph: cannot read {path}: the process that loads it by torch failed (1): ModuleNotFoundError: No module "
        "named 'no_module_of_this_name'; try torch.export.load in Python\n"
    )

    monkeypatch.setattr(archive_text, "_MOST_SECONDS", 0.01)
    _, _, err = run(capsys, "show", path)
    assert "failed (timeout after 0.01 seconds): no output; try" in err
