from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path

import pytest

from fixtures.documents import document
from pytest_fxgraph.command.main import main
from pytest_fxgraph.document.encoding import encode
from pytest_fxgraph.goldens.files import Received, golden_digest, received_path, write_received
from tests.command.test_accept import NEW, OLD, receive, received_files

OTHER = OLD.replace("torch.relu", "torch.tanh")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def review(capsys, monkeypatch):
    def run(keys: str | list[str], *arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{key}\n" for key in keys)))
        return main(["review", *arguments]), *capsys.readouterr()

    return run


def test_a_cause_is_shown_with_its_goldens_and_its_picture(review):
    receive("test_a", NEW)
    receive("test_b", NEW)

    _, out, _ = review("q")

    assert "2 goldens: torch.relu -> torch.gelu\n  golden/tests/test_net/test_a.yaml\n" in out
    assert "  ~ %a  relu → gelu  <- %x\n  ~     target: torch.relu -> torch.gelu\n" in out
    assert out.endswith("[a/r/s/g/d/q/?] q\n2 not looked at\n")


@pytest.mark.parametrize(("keys", "summary"), [("q", "1 not looked at"), ("s", "1 skipped"), ("r", "1 rejected")])
def test_the_summary_counts_the_one_golden(review, keys, summary):
    receive("test_a", NEW)

    assert review(keys)[1].splitlines()[-1].endswith(summary)


def test_accepting_takes_all_goldens_of_the_cause(review):
    goldens = [receive("test_a", NEW), receive("test_b", NEW)]
    other = receive("test_c", OTHER)

    status, out, _ = review("as")

    assert status == 1
    assert ["torch.gelu" in golden.read_text() for golden in (*goldens, other)] == [True, True, False]
    assert received_files() == ["test_c.received.yaml"]
    assert out.endswith("2 accepted, 1 skipped\n")


def test_rejecting_removes_what_was_received_and_leaves_the_golden(review):
    golden = receive("test_a", NEW)
    before = golden.read_bytes()

    status, out, _ = review(["Reject it"])  # without a terminal, the first letter of a line is the key

    assert status == 0
    assert golden.read_bytes() == before
    assert received_files() == []
    assert out.endswith("rejected golden/tests/test_net/test_a.yaml\n1 rejected\n")


def test_the_goldens_of_a_cause_can_be_decided_one_by_one(review):
    for name in ("test_a", "test_b", "test_c"):
        receive(name, NEW)

    status, out, _ = review("gars")

    assert status == 1
    assert received_files() == ["test_c.received.yaml"]
    assert out.endswith("1 accepted, 1 rejected, 1 skipped\n")


def test_the_difference_in_words_and_the_keys_are_shown_on_demand(review):
    receive("test_a", NEW)

    _, out, _ = review(["d", "?", "x", "", "g", "s"])

    assert "golden/tests/test_net/test_a.yaml does not match at level structure" in out
    assert out.count("  a  accept: it replaces its golden") == 4
    assert "go through the goldens" not in out  # there is only one
    assert out.splitlines()[-1].endswith("1 skipped")


def test_a_graph_that_differs_in_names_alone_is_said_in_words(review):
    receive("test_a", OLD.replace("%a", "%other"))

    _, out, _ = review("dq")

    assert out.count("no difference at level structure: names, order or code\n") == 2


def test_a_received_file_that_cannot_be_read_is_shown_by_its_reason(review):
    golden = receive("test_a", NEW)
    cause = {"headline": "as the test said", "cluster": "abc"}
    text = write_received(Received("graph: nonsense", golden_digest(golden.read_bytes()), cause))
    received_path(golden).write_text(text, encoding="utf-8")

    status, out, err = review("dq")

    assert (status, err) == (1, "")
    assert "1 golden: as the test said\n" in out
    assert out.count("cannot read the golden file") == 2
    assert "test_a.received.yaml" in out


def test_a_large_picture_ends_with_the_number_of_its_other_lines(review):
    lines = [f"%a{number} = torch.relu(%{'x' if number == 0 else f'a{number - 1}'})" for number in range(80)]
    golden = receive("test_a", NEW, None)
    text = write_received(Received(encode(document("\n".join(["%x = input x", *lines, "return %a79"]))), None))
    received_path(golden).write_text(text, encoding="utf-8")

    shown = review("q")[1].split("\n\n")[1].splitlines()

    assert len(shown) == 61
    assert shown[-1].endswith(" more lines")


def test_what_ends_early_keeps_what_was_decided_and_leaves_the_rest(review):
    for number in range(3):
        receive(f"test_{number}", OLD.replace("torch.relu", f"torch.other_{number}"))

    status, out, _ = review("a")

    assert status == 1
    assert len(received_files()) == 2
    assert out.endswith("interrupted: what was decided is done, the rest stays as it is\n1 accepted, 2 not looked at\n")


def test_a_golden_that_has_changed_since_is_not_replaced_and_the_others_are(review):
    changed, other = receive("test_a", NEW), receive("test_b", NEW)
    changed.write_text(changed.read_text().replace("torch.relu", "torch.sin"))

    status, out, err = review("aa")

    assert status == 2
    assert "is no longer the golden that it was compared with" in err
    assert "torch.sin" in changed.read_text()
    assert "torch.gelu" in other.read_text()
    assert received_files() == ["test_a.received.yaml"]
    assert sorted(out.splitlines()[-1].split(", ")) == ["1 accepted", "1 refused"]


def test_a_graph_without_a_golden_is_shown_and_accepted(review):
    golden = receive("test_a", NEW, None)

    status, out, _ = review("da")

    assert status == 0
    assert "there is no golden yet" in out
    assert "%a  gelu  <- %x" in out
    assert golden.exists()


def test_goldens_can_be_named(review):
    receive("test_a", NEW)
    receive("test_b", NEW)

    review("a", "*test_b*")

    assert received_files() == ["test_a.received.yaml"]


def test_nothing_received_is_said(review):
    Path("golden").mkdir()

    status, out, _ = review("")

    assert (status, out) == (0, "nothing was received below golden; run the tests with pytest --fx-received\n")


def test_json_lists_the_clusters_and_decides_nothing(review):
    receive("test_a", OLD, NEW)
    receive("test_b", OLD, NEW)

    status, out, _ = review("a", "--json")
    (cluster,) = json.loads(out)

    assert status == 1
    assert {"key", "headline", "goldens", "commands"} == cluster.keys()
    assert [Path(golden).name for golden in cluster["goldens"]] == ["test_a.yaml", "test_b.yaml"]
    assert cluster["commands"] == [[f"fxgraph accept --cluster {cluster['key']}", "all 2 goldens"]]
    assert json.loads(review("", "*test_a*", "--json")[1])[0]["commands"] == []
    assert len(received_files()) == 2


def test_json_of_nothing_received_is_an_empty_list(review):
    Path("golden").mkdir()

    assert review("", "--json")[:2] == (0, "[]\n")


@pytest.fixture
def terminal(monkeypatch):
    """Be at a terminal; yield the end of the keyboard and the end that the command reads."""
    if sys.platform == "win32":
        pytest.skip("Windows has no pseudo-terminals")
    import pty

    try:
        ours, theirs = pty.openpty()
    except OSError:
        pytest.skip("this system has no pseudo-terminal to give")
    with open(theirs, encoding="utf-8") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield ours, theirs
    os.close(ours)


def test_on_a_terminal_a_key_is_enough_and_the_terminal_is_left_as_it_was(terminal, capsys):
    import termios

    receive("test_a", NEW)
    keyboard, stdin = terminal
    before = termios.tcgetattr(stdin)
    os.write(keyboard, b"?A")

    status = main(["review", "--color=always"])

    out, err = capsys.readouterr()
    assert (status, err) == (0, "")
    assert "accept: it replaces its golden" in out
    assert out.endswith("] a\naccepted golden/tests/test_net/test_a.yaml\n1 accepted\n")
    assert termios.tcgetattr(stdin) == before


def test_the_end_of_input_at_a_terminal_interrupts(terminal, capsys):
    import tty

    receive("test_a", NEW)
    receive("test_b", OTHER)
    keyboard, stdin = terminal
    tty.setcbreak(stdin)  # else the terminal itself would take the end of input, which is typed ahead here
    os.write(keyboard, b"s\x04")

    assert main(["review"]) == 1
    assert capsys.readouterr().out.endswith("the rest stays as it is\n1 skipped, 1 not looked at\n")
