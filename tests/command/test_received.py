"""Received files are found, compared with their goldens, accepted and rejected; the commands are tested beside this."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fixtures.documents import document
from pytest_fxgraph.command.received import (
    ReceivedGolden,
    by_file,
    decide,
    received_in,
    received_that_match,
    shown_names,
    take_over,
)
from pytest_fxgraph.document.encoding import encode
from pytest_fxgraph.errors import GateError, GoldenError, GoldenFormatError
from pytest_fxgraph.goldens.files import Received, golden_digest, write_received
from pytest_fxgraph.goldens.layout import GoldenLayout
from pytest_fxgraph.goldens.table_rows import Row, decode_table, encode_table
from pytest_fxgraph.report.outcome import Terms

GOLDEN = "golden/test_a/test_x.yaml"


def graph(*operators: str) -> str:
    lines, value = ["%x = input x"], "%x"
    for number, operator in enumerate(operators):
        lines.append(f"%n{number} = torch.{operator}({value})")
        value = f"%n{number}"
    return encode(document("\n".join([*lines, f"return {value}"])))


def table(**nodes: int) -> str:
    return encode_table(Row(name, name, {"nodes": count}) for name, count in nodes.items())


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "test_a.py").touch()


def layout() -> GoldenLayout:
    return GoldenLayout(Path.cwd(), "golden")


def put(path: str, text: str) -> Path:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text, encoding="utf-8")
    return Path(path)


def received(
    text: str, golden: str | None, cause: dict[str, Any] | None = None, *, row: str | None = None, name: str = GOLDEN
) -> ReceivedGolden:
    """Write a golden, None for no golden, and what was received for it."""
    Path(name).unlink(missing_ok=True)
    if golden is not None:
        put(name, golden)
    digest = None if golden is None else golden_digest(golden.encode())
    path = put(name.replace(".yaml", ".received.yaml"), write_received(Received(text, digest, cause or {})))
    return ReceivedGolden(path, row)


def test_a_received_file_has_the_name_of_its_golden():
    assert received(graph("neg"), None).name == GOLDEN
    assert received(table(one=1), None, row="one").name == f"{GOLDEN}[one]"


def test_the_difference_is_shown_where_there_is_a_golden_and_else_the_graph():
    assert received(graph("neg"), None).shown_by() == "fxgraph show golden/test_a/test_x.received.yaml"
    assert received(graph("neg"), graph("abs")).shown_by() == (
        f"fxgraph diff {GOLDEN} golden/test_a/test_x.received.yaml"
    )


@pytest.mark.parametrize(
    ("text", "golden", "rows"),
    [
        (graph("neg"), graph("abs"), [None]),
        (graph("neg"), None, [None]),
        (table(one=1, two=2, three=3), table(one=1, two=0), ["three", "two"]),
        (table(one=1, two=2), None, ["one", "two"]),
        (table(one=1), table(one=1), [None]),
        (table(one=1), table(one=1).removesuffix("end: true\n"), [None]),  # a table that cannot be read
        (table(one=1), graph("neg"), [None]),
    ],
)
def test_each_row_that_differs_is_accepted_by_itself_and_any_other_file_as_a_whole(text, golden, rows):
    assert sorted([each.row for each in received(text, golden).parts()], key=str) == rows


def test_a_graph_is_compared_as_its_test_compared_it():
    exact = {"level": "exact"}
    renamed = graph("neg").replace("%n0", "%other")

    assert received(renamed, graph("neg")).difference().is_empty
    assert not received(renamed, graph("neg"), exact).difference().is_empty
    assert received(renamed, graph("neg"), exact).difference(Terms(level="ops")).is_empty
    assert received(graph("neg"), None).difference() is None
    assert received(graph("neg"), "damaged\n").difference() is None
    assert received(table(one=1), table(one=2)).difference() is None
    with pytest.raises(GoldenError):
        received("damaged\n", graph("neg")).difference()


MORE = "~ two: nodes 0 -> 2 (2 nodes more), which is worse"


def test_rows_that_differ_are_described_and_of_one_row_that_row_alone():
    text, golden = table(one=1, two=2, three=3), table(one=1, two=0)

    assert received(graph("neg"), graph("abs")).table_lines() is None
    assert received(text, golden).table_lines() == [
        "+ three: nodes 3",
        MORE,
    ]
    assert received(text, golden, row="two").table_lines() == [MORE]
    assert received(text, "damaged\n", row="two").table_lines() == ["+ two: nodes 2"]
    assert received(text, None).table_lines() == ["+ one: nodes 1", "+ three: nodes 3", "+ two: nodes 2"]


STORED = {"level": "structure", "headline": "stored", "cluster": "3f"}


@pytest.mark.parametrize(
    ("text", "golden", "cause", "row", "headline", "cluster"),
    [
        (graph("neg"), graph("abs"), STORED, None, "stored", "3f"),
        (graph("neg"), graph("abs"), {**STORED, "cluster": ""}, None, "stored", ""),
        (graph("neg"), graph("abs"), {}, None, "torch.abs -> torch.neg", ""),
        (graph("neg"), None, {}, None, "there is no golden yet", ""),
        (graph("neg"), "damaged\n", {}, None, "the golden cannot be read", ""),
        (
            graph("neg"),
            graph("neg"),
            {**STORED, "cluster": ""},
            None,
            "no difference at level structure: names, order or code",
            "",
        ),
        (table(one=2), table(one=1), {"rows": {"one": STORED}}, "one", "stored", "3f"),
        (
            table(one=2),
            table(one=1),
            {"rows": {"two": STORED}},
            "one",
            "nodes 1 -> 2 ",
            "",
        ),
        (table(one=2), table(one=1), STORED, "one", "nodes 1 -> 2 ", ""),
        (table(one=2, two=2), table(one=2), {}, "two", "there is no golden yet", ""),
        (table(one=2), table(one=2), {}, None, "no difference in a row", ""),
        (table(one=2), "damaged\n", {}, None, "the golden cannot be read", ""),
    ],
)
def test_the_cause_is_the_stored_one_or_follows_from_a_comparison(text, golden, cause, row, headline, cluster):
    found = received(text, golden, cause, row=row).cause()

    assert (found.headline.removesuffix("(one node more), which is worse"), found.cluster) == (headline, cluster)
    assert found.golden == GOLDEN + (f"[{row}]" if row else "")


def test_equal_changes_without_a_stored_cluster_have_one_key():
    keys = [
        received(graph("neg", last), graph("abs", last), name=f"golden/test_a/test_{last}.yaml").cause().key
        for last in ("exp", "sin")
    ]
    rows = [received(table(**{name: 2}), table(**{name: 1}), row=name).cause().key for name in ("one", "two")]

    assert len({*keys, *rows}) == 2


@pytest.mark.parametrize("golden", [None, graph("abs"), "damaged\n"])
def test_an_accepted_file_takes_the_place_of_the_golden(golden):
    each = received(graph("neg"), golden)

    assert not each.is_outdated()
    each.accept()

    assert each.golden.read_text(encoding="utf-8") == graph("neg")
    assert not each.path.exists()


def test_a_file_for_another_golden_is_outdated_unless_the_golden_has_its_text():
    each = received(graph("neg"), graph("abs"))

    put(GOLDEN, graph("sin"))
    assert each.is_outdated()
    with pytest.raises(GoldenError, match="is no longer the golden that it was compared with; run the test again"):
        each.accept()
    assert each.path.exists()

    put(GOLDEN, graph("neg"))
    assert not each.is_outdated()
    each.accept()
    assert not each.path.exists()


def test_a_row_is_never_outdated_by_other_rows():
    each = received(table(one=2), table(one=1), row="one")
    put(GOLDEN, table(one=1, two=1))

    assert not each.is_outdated()
    assert ReceivedGolden(each.path).is_outdated()


def test_a_received_text_that_cannot_be_read_becomes_no_golden():
    each = received("damaged\n", graph("abs"))

    with pytest.raises(GoldenFormatError):
        each.accept()

    assert each.golden.read_text(encoding="utf-8") == graph("abs")


def test_rows_are_accepted_and_rejected_one_by_one():
    each = received(table(one=2, two=2, three=2), table(one=1, two=1, three=1))

    assert decide([ReceivedGolden(each.path, "one")], accepts=True) == [f"accepted {GOLDEN}[one]"]
    assert decide([ReceivedGolden(each.path, "two")], accepts=False) == [f"rejected {GOLDEN}[two]"]

    rows = decode_table(each.golden.read_text(encoding="utf-8"), GOLDEN)
    assert {name: row.values["nodes"] for name, row in rows.items()} == {"one": 2, "three": 1, "two": 1}
    assert [part.row for part in each.parts()] == ["three"]
    assert decide([each], accepts=False) == [f"rejected {GOLDEN}"]
    assert not each.path.exists()


def test_a_decision_that_fails_is_told_with_its_reason(capsys):
    each = received(graph("neg"), graph("abs"))
    put(GOLDEN, graph("sin"))

    assert decide([each], accepts=True) == []
    assert capsys.readouterr().err.startswith("fxgraph: cannot accept golden/test_a/test_x.received.yaml: ")


def test_received_files_of_a_project_are_found_and_rows_of_one_table_stand_together():
    one, other = (received(graph("neg"), None, name=f"golden/test_a/test_{name}.yaml") for name in "xy")
    put("golden/test_a/test_z.yaml", graph("neg"))

    assert [each.path.name for each in received_in(layout())] == ["test_x.received.yaml", "test_y.received.yaml"]
    rows = [ReceivedGolden(one.path, "a"), other, ReceivedGolden(one.path, "b")]
    assert by_file(rows) == [[rows[0], rows[2]], [other]]


def test_five_names_of_one_cause_are_shown():
    assert shown_names("abcde", "  ") == ["  a", "  b", "  c", "  d", "  e"]
    assert shown_names("abcdefg", "  ") == ["  a", "  b", "  c", "  d", "  e", "  and 2 more"]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        (GOLDEN, ["test_x"]),
        ("golden/test_a/test_x.received.yaml", ["test_x"]),
        ("golden/*", ["test_x", "test_y"]),
        ("golden/test_a/*_y.yaml", ["test_y"]),
        ("golden", ["test_x", "test_y"]),
        ("golden/test_a", ["test_x", "test_y"]),
        ("./golden/../golden/test_a", ["test_x", "test_y"]),
        ("*", ["test_x", "test_y"]),
    ],
)
@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_patterns_name_goldens_from_the_working_folder_or_from_rootdir(monkeypatch, pattern, names, is_elsewhere):
    for name in "yx":
        received(graph("neg"), None, name=f"golden/test_a/test_{name}.yaml")
    given = layout()
    if is_elsewhere:
        Path("elsewhere").mkdir()
        monkeypatch.chdir("elsewhere")

    found = received_that_match([pattern, pattern], given)

    assert [each.path.name.split(".")[0] for each in found] == names


@pytest.mark.parametrize("pattern", ["golden/test_a/test_z.yaml", "nowhere/*", "/nowhere/*"])
def test_a_pattern_without_a_received_file_is_refused(pattern):
    received(graph("neg"), None)

    with pytest.raises(GoldenFormatError, match=r"cannot accept '.*': nothing was received for such a golden"):
        received_that_match([GOLDEN, pattern], layout())


def shard(name: str, text: str, *, below: str = "") -> None:
    put(f"{below}shard/{name}", write_received(Received(text, None)))


@pytest.mark.parametrize(
    ("name", "golden", "place"),
    [
        ("test_a/test_x.received.yaml", None, "test_a/test_x"),  # a test file is there
        ("run 3/test_a/test_x.received.yaml", None, "test_a/test_x"),
        ("run 3/test_b/test_x.received.yaml", "golden/test_b/test_x.yaml", "test_b/test_x"),
        ("test_a/test_b/test_x.received.yaml", "golden/test_b/test_x.yaml", "test_b/test_x"),
        ("test_a/test_b/test_x.received.yaml", "golden/test_a/test_b/test_x.yaml", "test_a/test_b/test_x"),
    ],
)
def test_received_files_of_another_machine_go_beside_their_goldens(name, golden, place):
    if golden:
        put(golden, graph("abs"))
    shard(name, graph("neg"))

    assert take_over(["shard"], layout()) == 1
    assert Path(f"golden/{place}.received.yaml").read_bytes() == Path(f"shard/{name}").read_bytes()
    assert take_over(["shard"], layout()) == 0  # the copy is there already


def test_what_cannot_be_taken_over_is_refused_before_anything_is_copied():
    shard("test_a/test_x.received.yaml", graph("neg"))
    Path("empty").mkdir()
    for folder, reason in (("empty", r"it holds no \*.received.yaml"), ("gone", "there is no such folder")):
        with pytest.raises(GateError, match=f"cannot accept from {folder}: {reason}; name the unpacked folder"):
            take_over(["shard", folder], layout())

    shard("test_b/test_x.received.yaml", graph("neg"), below="other/")
    with pytest.raises(GateError, match="there is no golden and no test file of its name here; change the folder"):
        take_over(["shard", "other"], layout())
    assert not Path("golden").exists()


@pytest.mark.parametrize("is_here", [False, True])
def test_two_received_files_that_differ_for_one_golden_are_refused(is_here):
    shard("test_a/test_x.received.yaml", graph("neg"))
    if is_here:
        received(graph("abs"), None)
    else:
        shard("test_a/test_x.received.yaml", graph("abs"), below="other/")

    with pytest.raises(GateError, match="holds another graph for the same golden; find the reason why"):
        take_over(["shard"] if is_here else ["shard", "other"], layout())
