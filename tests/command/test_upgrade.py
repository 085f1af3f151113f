from __future__ import annotations

import os
from pathlib import Path

import pytest

from fixtures.documents import document
from pytest_fxgraph.command.main import main
from pytest_fxgraph.document.encoding import encode
from pytest_fxgraph.goldens.files import Received, golden_digest, read_received, received_path, write_received

TODAY = encode(document("%x = input x\n%a = torch.relu(%x)\nreturn %a"))
FORMAT_1 = TODAY.replace("format: 2", "format: 1").replace("end: true\n", "code: ''\n")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name: str, text: str) -> Path:
    path = Path("golden", name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def run(capsys, *arguments: str) -> tuple[int, list[str], str]:
    status = main(["upgrade", *arguments])
    out, err = capsys.readouterr()
    return status, out.splitlines(), err


def test_goldens_and_variants_of_format_1_are_rewritten_and_named(capsys):
    base, variant = write("test_net/test_a.yaml", FORMAT_1), write("test_net/test_a@torch-2.6.yaml", FORMAT_1)

    status, out, err = run(capsys)

    assert (status, err) == (0, "")
    assert out == ["upgraded golden/test_net/test_a.yaml", "upgraded golden/test_net/test_a@torch-2.6.yaml"]
    assert base.read_text() == variant.read_text() == TODAY


def test_a_check_names_what_has_an_older_format_and_writes_nothing(capsys):
    old, _ = write("test_net/test_a.yaml", FORMAT_1), write("test_net/test_b.yaml", TODAY)

    assert run(capsys, "--check") == (
        1,
        ["golden/test_net/test_a.yaml has an older format than 2; rewrite it with `fxgraph upgrade`"],
        "",
    )
    assert old.read_text() == FORMAT_1
    assert run(capsys, "--check", "golden/test_net/test_b.yaml") == (0, [], "")


def test_a_check_refuses_what_cannot_be_read_whatever_else_it_finds(capsys):
    write("a.yaml", TODAY.replace("end: true\n", ""))
    write("b.yaml", FORMAT_1)

    status, out, err = run(capsys, "--check")

    assert (status, len(out)) == (2, 1)
    assert err.startswith("fxgraph: cannot read the golden file golden/a.yaml: it was cut off")


def test_a_golden_may_be_named_from_rootdir(capsys, here, monkeypatch):
    Path("pytest.ini").write_text("[pytest]\n")
    write("test_net/test_a.yaml", FORMAT_1)
    Path("src").mkdir()
    monkeypatch.chdir("src")

    assert run(capsys, "golden/test_net") == (0, ["upgraded ../golden/test_net/test_a.yaml"], "")


def test_what_has_todays_format_and_what_is_no_golden_stays_byte_for_byte(capsys):
    contents = {write("a.yaml", "# note\n" + TODAY): "# note\n" + TODAY, write("ci.yaml", "on: push\n"): "on: push\n"}

    assert run(capsys) == (0, [], "")
    assert {path: path.read_text() for path in contents} == contents


def test_all_goldens_of_the_project_are_found_from_a_folder_below(capsys, here, monkeypatch):
    Path("pytest.ini").write_text("[pytest]\n")
    golden = here / write("test_net/test_a.yaml", FORMAT_1)
    Path("src").mkdir()
    monkeypatch.chdir("src")

    assert run(capsys) == (0, ["upgraded ../golden/test_net/test_a.yaml"], "")
    assert golden.read_text() == TODAY


def test_goldens_beside_their_tests_are_found(capsys, here):
    Path("pytest.ini").write_text("[pytest]\nfx_golden_dir = beside\n")
    golden = Path("pkg/golden/test_net/test_a.yaml")
    golden.parent.mkdir(parents=True)
    golden.write_text(FORMAT_1)

    assert run(capsys) == (0, [f"upgraded {golden}"], "")
    assert golden.read_text() == TODAY


def test_paths_say_what_is_upgraded(capsys):
    first, second, third = (write(f"{name}/test.yaml", FORMAT_1) for name in "abc")

    status, out, _ = run(capsys, "golden/a", "golden/c/test.yaml")

    assert (status, len(out)) == (0, 2)
    assert [path.read_text() == TODAY for path in (first, second, third)] == [True, False, True]


def test_a_damaged_golden_is_refused_and_the_others_are_upgraded(capsys):
    damaged = write("a.yaml", FORMAT_1.replace("target: x}", "target: 1}"))
    cut = write("b.yaml", TODAY.removesuffix("end: true\n"))
    newer = write("c.yaml", "format: 9\nnodes: []\n")
    good = write("d.yaml", FORMAT_1)
    before = [path.read_text() for path in (damaged, cut, newer)]

    status, out, err = run(capsys)

    assert (status, out) == (2, ["upgraded golden/d.yaml"])
    assert "golden/a.yaml, line 3: 'target' is 1, which is not a text" in err
    assert "golden/b.yaml: it was cut off" in err
    assert "golden/c.yaml: it has format 9, and this release reads formats up to 2" in err
    assert [path.read_text() for path in (damaged, cut, newer)] == before
    assert good.read_text() == TODAY


def test_what_was_received_for_a_golden_goes_with_it_and_can_still_be_accepted(capsys):
    golden = write("test_net/test_a.yaml", FORMAT_1)
    received = received_path(golden)
    received.write_text(write_received(Received(FORMAT_1.replace("relu", "gelu"), golden_digest(FORMAT_1.encode()))))

    status, out, _ = run(capsys)

    assert (status, out) == (0, [f"upgraded {received}", f"upgraded {golden}"])
    assert read_received(received.read_text(), "r").compared_with == golden_digest(TODAY.encode())
    assert main(["accept", str(golden)]) == 0
    assert golden.read_text() == TODAY.replace("relu", "gelu")


def test_an_upgrade_that_was_killed_before_the_golden_can_be_done_again(capsys):
    golden = write("test_net/test_a.yaml", FORMAT_1)
    received = received_path(golden)
    received.write_text(write_received(Received(FORMAT_1, golden_digest(FORMAT_1.encode()))))
    run(capsys)
    golden.write_text(FORMAT_1)

    assert run(capsys)[:2] == (0, [f"upgraded {golden}"])
    assert read_received(received.read_text(), "r").compared_with == golden_digest(golden.read_bytes())


def test_a_golden_whose_received_file_is_damaged_is_left_alone(capsys):
    golden = write("a.yaml", FORMAT_1)
    received_path(golden).write_text("format: 1\n")

    status, out, err = run(capsys)

    assert (status, out) == (2, [])
    assert "golden/a.received.yaml: its first line does not say which golden" in err
    assert golden.read_text() == FORMAT_1


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_what_is_no_file_is_not_waited_for(capsys):
    write("a.yaml", FORMAT_1)
    os.mkfifo("golden/b.yaml")

    assert run(capsys) == (0, ["upgraded golden/a.yaml"], "")
    status, _, err = run(capsys, "golden/b.yaml")

    assert status == 2
    assert "it is no regular file" in err


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("nowhere", "cannot upgrade nowhere: there is no such file or folder; check the path"),
        ("golden/a.received.yaml", "it is what a test received; give its golden, and it goes with it"),
        ("golden/ci.yaml", "cannot read the golden file golden/ci.yaml: it does not begin with `format:`"),
    ],
)
def test_a_path_that_names_no_golden_is_refused(path, words, capsys):
    write("a.received.yaml", FORMAT_1)
    write("ci.yaml", "on: push\n")

    status, out, err = run(capsys, path)

    assert (status, out) == (2, [])
    assert words in err
