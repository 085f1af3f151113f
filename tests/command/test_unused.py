from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from pytest_fxgraph.command.main import main
from pytest_fxgraph.report.json_report import RunReport, json_text
from pytest_fxgraph.report.run_record import RunRecord

SHARD = RunRecord(
    had_path_arguments=False,
    finished=True,
    found={"test_a.py": ("", "test_x", "test_y")},
    ended={"test_a.py": ("", "test_x")},
    asked=("golden/test_a/test_x.yaml",),
    others={"golden/test_a/test_y.yaml": "test_a.py", "golden/test_a/test_z.yaml": "test_a.py"},
)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def report(name: str, record: RunRecord) -> str:
    Path(name).write_text(json_text(RunReport("", record)))
    return name


def run(capsys, *arguments: str) -> tuple[int, list[str], str]:
    status = main(["report", "--unused", *arguments])
    out, err = capsys.readouterr()
    return status, out.splitlines(), err


def test_one_shard_knows_too_little(capsys):
    assert run(capsys, report("one.json", SHARD)) == (0, [], "")


def test_two_shards_know_together(capsys):
    other = dataclasses.replace(
        SHARD,
        ended={"test_a.py": ("", "test_y")},
        asked=("golden/test_a/test_y.yaml",),
        others={"golden/test_a/test_x.yaml": "test_a.py", "golden/test_a/test_z.yaml": "test_a.py"},
    )

    assert run(capsys, report("one.json", SHARD), report("two.json", other)) == (1, ["golden/test_a/test_z.yaml"], "")


def test_without_reports_goldens_whose_test_file_is_gone_are_named(capsys, here):
    here.joinpath("test_a.py").touch()
    for name in ("test_a/test_x", "test_gone/test_x", "test_gone/test_x.received", "single"):
        golden = here / "golden" / f"{name}.yaml"
        golden.parent.mkdir(parents=True, exist_ok=True)
        golden.write_text("format: 1\nnodes: []\n")
    here.joinpath("golden/test_gone/foreign.yaml").write_text("name: somebody else's\n")

    assert run(capsys) == (1, ["golden/test_gone/test_x.yaml"], "")


def test_without_a_golden_folder_nothing_is_known(capsys):
    status, _, err = run(capsys)

    assert status == 2
    assert err.startswith("fxgraph: cannot look for goldens in golden: there is no such folder")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "it is not JSON"),
        (b"\xff", "it is not JSON"),
        (b"[" * 100_000, "it is not JSON"),
        (b"[]", "its format is None, and this release reads 1"),
        (b'{"format": 2}', "its format is 2, and this release reads 1"),
        (b'{"format": true}', "its format is True"),
        (b'{"format": 1}', "'run' is missing"),
        (b'{"format": 1, "run": 3}', "cannot read the report bad.json"),
        (b'{"format": 1, "run": {"had_path_arguments": 0}}', "expected true or false, got 0"),
    ],
)
def test_a_file_that_is_no_report_is_refused(capsys, here, content, words):
    here.joinpath("bad.json").write_bytes(content)

    status, out, err = run(capsys, report("good.json", SHARD), "bad.json")

    assert (status, out) == (2, [])
    assert words in err


def test_a_report_that_is_not_there_is_refused(capsys):
    status, _, err = run(capsys, "nowhere.json")

    assert status == 2
    assert "cannot read the report nowhere.json: no such file or directory; give a file that pytest" in err


@pytest.mark.parametrize("key", ["found", "ended", "failed", "asked", "others", "gone"])
@pytest.mark.parametrize("value", [3, "text", [3], {"a": 3}, {"a": [None]}])
def test_a_report_of_another_form_is_refused(capsys, here, key, value):
    data = json.loads(json_text(RunReport("", SHARD)))
    data["run"][key] = value
    here.joinpath("bad.json").write_text(json.dumps(data))

    assert run(capsys, "bad.json")[0] == 2


def test_a_folder_elsewhere_is_refused_because_its_test_files_are_not_here(tmp_path, monkeypatch, capsys):
    (tmp_path / "golden/test_net").mkdir(parents=True)
    (tmp_path / "golden/test_net/test_a.yaml").write_text("format: 1\nnodes: []\n")
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")

    assert main(["report", "--unused", "--golden-dir", "../golden"]) == 2

    assert "change to the folder that is pytest's rootdir" in capsys.readouterr().err


def test_unused_goldens_are_given_as_json(capsys):
    complete = dataclasses.replace(SHARD, ended={"test_a.py": ("", "test_x", "test_y")})

    assert main(["report", "--unused", "--json", report("one.json", complete)]) == 1
    assert json.loads(capsys.readouterr().out) == ["golden/test_a/test_y.yaml", "golden/test_a/test_z.yaml"]


def test_unused_goldens_are_written_to_no_file(capsys):
    assert main(["report", "--unused", report("one.json", SHARD), "-o", "fx.md"]) == 2

    assert "--unused prints names; leave -o out" in capsys.readouterr().err
