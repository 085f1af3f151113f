"""A golden that cannot be read fails its test, and is never lost without the flag."""

from __future__ import annotations

import pytest

BAD = {
    "empty": b"",
    "truncated": None,
    "binary": bytes(range(256)),
    "foreign YAML": b"name: ci\non: [push]\n",
    "a Python object": b"!!python/object/apply:os.system ['echo executed']\n",
    "brackets": b"[" * 100_000,
    "no format": b"nodes: []\n",
}


def spoil(project, content: bytes | None):
    project.update()
    path = project.path / "golden/test_net/test_net.yaml"
    text = path.read_bytes()
    path.write_bytes(text[: len(text) // 2] if content is None else content)
    return path


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("kind", BAD)
def test_a_spoilt_golden_fails_clearly_and_stays(project, kind):
    path = spoil(project, BAD[kind])
    spoilt = path.read_bytes()

    result = project.run()

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*GoldenFormatError*test_net/test_net.yaml*", "fx: 1 golden unreadable"])
    assert path.read_bytes() == spoilt


@pytest.mark.sampled(every=4, start=3)
@pytest.mark.parametrize("kind", BAD)
def test_a_spoilt_golden_is_rewritten_under_the_flag(project, kind):
    path = spoil(project, BAD[kind])

    project.update().assert_outcomes(passed=1)

    assert path.read_bytes() != BAD[kind]
    project.run().assert_outcomes(passed=1)


def test_a_spoilt_golden_is_no_new_one(project):
    path = spoil(project, b"")

    project.update("--fx-update-only=new").assert_outcomes(failed=1)

    assert path.read_bytes() == b""


def test_a_golden_of_a_newer_format_is_never_rewritten(project):
    newer = b"format: 99\nsomething: else\n"
    path = spoil(project, newer)

    result = project.update()

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["E*GoldenVersionError*99*; upgrade pytest-fxgraph, or remove the file and record it with pytest --fx-upd*"]
    )
    assert path.read_bytes() == newer
    path.unlink()
    project.update().assert_outcomes(passed=1)


def test_a_folder_in_the_place_of_a_golden_is_an_error(project):
    (project.path / "golden/test_net/test_net.yaml").mkdir(parents=True)

    result = project.update()

    assert result.ret == 1
    result.stdout.fnmatch_lines(["*golden/test_net/test_net.yaml*"])


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize(
    "last", ["    y = self.linear(x);  x = None\n", "code: |\n", "    return relu\n", "graph: |\n"]
)
def test_a_golden_that_was_cut_off_after_a_line_fails_clearly(project, last):
    project.update()
    path = project.path / "golden/test_net/test_net.yaml"
    whole = path.read_text().replace("      linear =", "      y =")
    assert last in whole
    path.write_text(whole[: whole.index(last) + len(last)])

    result = project.run()

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*golden/test_net/test_net.yaml: it was cut off: its last line is not `end: true`*"])
