"""Texts of inline goldens are written when the run ends, a file at once, and not at all where tests disagree."""

from __future__ import annotations

import ast
import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict

import pytest

from pytest_fxgraph.gate.inline_call import source_digest
from pytest_fxgraph.gate.inline_writes import InlineWrites
from pytest_fxgraph.goldens.inline_source import InlineSource
from pytest_fxgraph.report.outcome import Outcome
from pytest_fxgraph.report.plain_data import record_of

SOURCE = b"def test_a(g):\n    assert f == g.inline()\n    assert h == g.inline('old')\n"
NEG = "input x\n%neg = torch.neg(%x)\nreturn %neg\n"
SAME = NEG.replace("%neg", "%other")
ABS = NEG.replace("torch.neg", "torch.abs")
FIRST, SECOND = (2, 26), (3, 31)


@pytest.fixture
def writes(tmp_path):
    (tmp_path / "test_a.py").write_bytes(SOURCE)
    return InlineWrites(tmp_path)


def outcome(test, end, text, *, content=SOURCE, level="structure"):
    place = {"file": "test_a.py", "digest": source_digest(content), "end": list(end)}
    status = "matched" if text is None else "updated"
    return Outcome(test, f"test_a.py:{end[0]}", level, status, new_text=text, inline=place)


def texts_in(path):
    calls = [node for node in ast.walk(ast.parse(path.read_bytes())) if isinstance(node, ast.Call)]
    return [call.args[0].value if call.args else None for call in calls]


def test_all_texts_of_a_file_are_written_at_once(writes, tmp_path):
    writes.take(outcome("a", SECOND, ABS))
    writes.take(outcome("a", FIRST, NEG))
    assert (tmp_path / "test_a.py").read_bytes() == SOURCE

    writes.write()

    assert (writes.written, writes.errors, writes.refused) == (["2 inline goldens of test_a.py"], [], [])
    assert [text.count("torch.") for text in texts_in(tmp_path / "test_a.py")] == [1, 1]


def test_an_outcome_that_came_from_a_worker_is_written(writes):
    writes.take(record_of(Outcome, json.loads(json.dumps(asdict(outcome("a", FIRST, NEG))))))

    writes.write()

    assert writes.written == ["1 inline golden of test_a.py"]


def test_of_equal_graphs_the_first_test_in_order_gives_the_names(writes, tmp_path):
    writes.take(outcome("b", FIRST, SAME))
    writes.take(outcome("a", FIRST, NEG))

    writes.write()

    assert writes.written == ["1 inline golden of test_a.py"]
    assert "%neg" in texts_in(tmp_path / "test_a.py")[0]


@pytest.mark.parametrize("other", [ABS, None])
def test_a_text_that_tests_disagree_on_is_left_and_the_others_are_written(writes, tmp_path, other):
    wanted = [outcome("a[1]", SECOND, NEG), outcome("a[2]", SECOND, other)]
    for each in wanted:
        writes.take(each)
    writes.take(outcome("a", FIRST, NEG))

    writes.write()

    assert texts_in(tmp_path / "test_a.py")[1] == "old"
    assert writes.errors == [
        "cannot write the inline golden test_a.py:3: it is reached with different graphs, by a[1] and a[2]; a text "
        "holds one: give each a call of its own, or use fx_golden, which has a file for each test"
    ]
    assert writes.refused == [each for each in wanted if each.new_text]
    assert writes.written == ["1 inline golden of test_a.py"]


def test_graphs_are_compared_at_the_level_of_their_test(writes):
    writes.take(outcome("a", FIRST, NEG, level="signature"))
    writes.take(outcome("b", FIRST, ABS, level="signature"))

    writes.write()

    assert writes.errors == []


def test_a_file_of_which_a_worker_has_another_copy_is_left(writes, tmp_path):
    writes.take(outcome("a", FIRST, NEG))
    writes.take(outcome("b", SECOND, NEG, content=b"other"))

    writes.write()

    assert (tmp_path / "test_a.py").read_bytes() == SOURCE
    assert writes.errors == [
        "cannot write the inline goldens of test_a.py: it is not as it was when its tests were collected, or another "
        "machine has another copy; nothing was written, run the tests again"
    ]
    assert len(writes.refused) == 2


def test_a_file_that_is_gone_is_told(writes, tmp_path):
    writes.take(outcome("a", FIRST, NEG))
    (tmp_path / "test_a.py").unlink()

    writes.write()

    assert writes.errors == [
        "cannot write the inline goldens of test_a.py: no such file or directory; nothing was changed; make room or "
        "give permission, and run the same command again"
    ]


def test_a_match_alone_writes_nothing(writes, tmp_path):
    writes.take(outcome("a", FIRST, None))

    writes.write()

    assert (tmp_path / "test_a.py").read_bytes() == SOURCE
    assert writes.written == []


def test_byte_code_of_the_old_file_is_not_taken_for_that_of_the_new(writes, tmp_path):
    path = tmp_path / "test_a.py"
    writes.take(outcome("a", FIRST, NEG))
    writes.write()
    before = path.stat()
    content = path.read_bytes()
    end = next(node for node in ast.walk(ast.parse(content)) if isinstance(node, ast.Call))

    writes.take(outcome("a", (end.end_lineno, end.end_col_offset), ABS, content=content))
    writes.write()

    after = path.stat()
    assert after.st_size == before.st_size
    assert int(after.st_mtime) > int(before.st_mtime)


def test_the_mode_of_the_file_stays_and_a_link_is_kept(writes, tmp_path):
    real = tmp_path / "real.py"
    os.replace(tmp_path / "test_a.py", real)
    real.chmod(0o640)
    (tmp_path / "test_a.py").symlink_to(real)
    writes.take(outcome("a", FIRST, NEG))

    writes.write()

    assert (tmp_path / "test_a.py").is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    assert texts_in(real)[0] is not None


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.gate.test_inline_writes import FIRST, NEG, outcome
from pytest_fxgraph.gate.inline_writes import InlineWrites

real = getattr(os, {step!r})
setattr(os, {step!r}, lambda *args: ({before} or True) and os.kill(os.getpid(), signal.SIGKILL))
writes = InlineWrites(Path(sys.argv[1]))
writes.take(outcome("a", FIRST, NEG))
writes.write()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
@pytest.mark.parametrize(
    ("step", "before", "is_new"),
    [("fsync", "real(*args)", False), ("replace", "None", False), ("replace", "real(*args)", True)],
)
def test_a_run_that_is_killed_leaves_the_old_or_the_new_file_whole(writes, tmp_path, step, before, is_new):
    code = KILLED.format(step=step, before=before)

    result = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)

    assert result.returncode == -signal.SIGKILL
    content = (tmp_path / "test_a.py").read_bytes()
    assert (content == SOURCE) is not is_new
    assert (texts_in(tmp_path / "test_a.py")[0] is not None) is is_new


def test_a_folder_that_is_gone_is_not_made_again(tmp_path):
    writes = InlineWrites(tmp_path)
    place = {"file": "gone/test_a.py", "digest": "", "end": list(FIRST)}
    writes.take(Outcome("a", "gone/test_a.py:2", "structure", "updated", new_text=NEG, inline=place))

    writes.write()

    assert [error.partition("; ")[0] for error in writes.errors] == [
        "cannot write the inline goldens of gone/test_a.py: no such file or directory"
    ]
    assert not (tmp_path / "gone").exists()


CHANGED = b"def test_a(g):\n    assert f == g.inline()\n    assert h == g.inline('new')\n"


@pytest.mark.parametrize(("end", "is_refused"), [(FIRST, False), (SECOND, True)])
def test_a_text_that_another_run_has_changed_stays(tmp_path, end, is_refused):
    (tmp_path / "test_a.py").write_bytes(CHANGED)
    source, writes = InlineSource(SOURCE, "test_a.py"), InlineWrites(tmp_path)
    wanted = outcome("a", end, NEG)
    number = source.number_of(end)
    wanted.inline.update(program=source.program, number=number, text=source.call_of(number)[1])
    writes.take(wanted)

    writes.write()

    assert writes.refused == [wanted] * is_refused
    assert writes.errors == is_refused * [
        "cannot write the inline golden test_a.py:3: another run has changed its text since this run was compared with "
        "it; nothing was written there, look at it and run the test again"
    ]
    assert writes.written == [] if is_refused else ["1 inline golden of test_a.py"]
    assert texts_in(tmp_path / "test_a.py")[1] == "new"


def test_a_text_that_another_run_has_written_alike_is_written(tmp_path):
    (tmp_path / "test_a.py").write_bytes(SOURCE)
    first = InlineSource(SOURCE, "test_a.py")
    (tmp_path / "test_a.py").write_bytes(first.rewritten({SECOND: NEG}))
    writes, wanted = InlineWrites(tmp_path), outcome("a", SECOND, NEG)
    number = first.number_of(SECOND)
    wanted.inline.update(program=first.program, number=number, text=first.call_of(number)[1])
    writes.take(wanted)

    writes.write()

    assert (writes.errors, writes.refused) == ([], [])
    assert (tmp_path / "test_a.py").read_bytes() == first.rewritten({SECOND: NEG})


def test_a_file_in_which_nothing_is_wanted_stays_and_the_next_is_written(writes, tmp_path):
    (tmp_path / "test_b.py").write_bytes(SOURCE)
    matched, wanted = outcome("a", FIRST, None), outcome("b", FIRST, NEG)
    wanted.inline["file"] = "test_b.py"
    writes.take(wanted)
    writes.take(matched)

    writes.write()

    assert writes.written == ["1 inline golden of test_b.py"]
    assert (tmp_path / "test_a.py").read_bytes() == SOURCE
