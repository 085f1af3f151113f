from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from fixtures.documents import document
from pytest_fxgraph.command.main import main
from pytest_fxgraph.document.encoding import encode
from pytest_fxgraph.document.model import GraphDocument
from pytest_fxgraph.goldens.table_rows import Row, encode_table

GOLDEN = document("%x = input x : float32[2]\n%a = torch.relu(%x) : float32[2]\nreturn %a", code="def forward(): ...")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.yaml").write_text(encode(GOLDEN), encoding="utf-8")
    return tmp_path


def run(capsys, *arguments: str) -> tuple[int, str, str]:
    status = main(["draw", *arguments])
    return status, *capsys.readouterr()


@pytest.mark.parametrize(
    ("name", "beginning"),
    [
        ("a.svg", "<svg "),
        ("a.html", "<!doctype html>"),
        ("a.mmd", "flowchart TB"),
        ("a.dot", "digraph "),
        ("A.SVG", "<svg "),
    ],
)
def test_the_ending_says_what_is_drawn(capsys, name, beginning):
    assert run(capsys, "net.yaml", "-o", name) == (0, f"wrote {name}\n", "")

    text = Path(name).read_text(encoding="utf-8")
    assert text.startswith(beginning)
    assert "relu" in text


def test_folders_on_the_way_are_made(capsys):
    assert run(capsys, "net.yaml", "--output", "some/where/a.svg")[0] == 0
    assert Path("some/where/a.svg").exists()


def test_with_full_nothing_is_folded(capsys):
    blocks = [
        f"%a{n} = torch.neg(%{f'b{n - 1}' if n else 'x'}) @ m.{n}\n%b{n} = torch.exp(%a{n}) @ m.{n}" for n in range(21)
    ]
    deep = document("\n".join(["%x = input x", *blocks, "return %b20"]))
    Path("deep.yaml").write_text(encode(deep), encoding="utf-8")

    run(capsys, "deep.yaml", "-o", "folded.mmd")
    run(capsys, "deep.yaml", "-o", "full.mmd", "--full")

    assert Path("folded.mmd").read_text().count("neg") == 1
    assert Path("full.mmd").read_text().count("neg") == 21


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("net.yaml", "-o", "a.png"), "cannot draw to a.png: a picture's name ends in .svg, .html, .mmd, .dot; choose"),
        (("net.yaml", "-o", "svg"), "cannot draw to svg: a picture's name ends in .svg, "),
        (("nowhere.yaml", "-o", "a.svg"), "cannot read nowhere.yaml: there is no such file or folder; check the path"),
        ((".", "-o", "a.svg"), "cannot draw .: it is no golden file; give one"),
        (("net.yaml", "-o", "net.yaml/a.svg"), "cannot write the picture net.yaml/a.svg: "),
        (("net.yaml", "-o", "folder.svg"), "cannot write the picture folder.svg: it is a folder; move what lies"),
    ],
)
def test_trouble_is_told_and_nothing_is_written(capsys, arguments, words):
    Path("folder.svg").mkdir()

    status, out, err = run(capsys, *arguments)

    assert (status, out) == (2, "")
    assert err.startswith(
        f"fxgraph: {words}".replace("/", os.sep) if os.sep in err and os.sep != "/" else f"fxgraph: {words}"
    )
    assert sorted(os.listdir()) == ["folder.svg", "net.yaml"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (encode_table([Row("a", "a", {"nodes": 1})]), "cannot draw net.yaml: a table has no picture; print it with"),
        (encode(GraphDocument((), notes=("break: a call",))), "cannot draw net.yaml: it holds no graph, as goldens of"),
    ],
)
def test_a_golden_without_a_graph_has_no_picture(capsys, text, words):
    Path("net.yaml").write_text(text, encoding="utf-8")

    status, out, err = run(capsys, "net.yaml", "-o", "a.svg")

    assert (status, out) == (2, "")
    assert err.startswith(f"fxgraph: {words}")
    assert os.listdir() == ["net.yaml"]


def test_a_damaged_golden_is_told_before_anything_is_written(capsys):
    Path("net.yaml").write_bytes(b"format: 2\nnodes: \xff")

    assert run(capsys, "net.yaml", "-o", "a.svg")[0] == 2
    assert os.listdir() == ["net.yaml"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no read-only folders")
def test_a_picture_that_cannot_be_replaced_stays_whole(capsys):
    picture = Path("a.svg")
    picture.write_text("as it was")
    picture.chmod(0o444)
    if os.access(picture, os.W_OK):
        pytest.skip("this user may write to every file")

    status, _, err = run(capsys, "net.yaml", "-o", "a.svg")

    assert status == 2
    assert err.startswith("fxgraph: cannot write the picture a.svg: the file is read-only")
    assert picture.read_text() == "as it was"


def test_the_output_has_to_be_named(capsys):
    with pytest.raises(SystemExit):
        main(["draw", "net.yaml"])
    assert "-o/--output" in capsys.readouterr().err
