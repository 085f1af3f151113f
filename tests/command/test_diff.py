from __future__ import annotations

import dataclasses
import json
import os
import re
from pathlib import Path

import pytest

from fixtures.documents import document
from pytest_fxgraph.command.main import main
from pytest_fxgraph.document.costs import CostBlock, CostRecord
from pytest_fxgraph.document.encoding import encode
from pytest_fxgraph.goldens.table_rows import Row, encode_table

TEXT = "%x = input x\n%a = torch.relu(%x)\nreturn %a"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, operator in (("before/a", "relu"), ("after/a", "gelu"), ("before/b", "relu"), ("after/b", "gelu")):
        golden(name, TEXT.replace("relu", operator))
    return tmp_path


def golden(name: str, text: str) -> None:
    path = Path(f"{name}.yaml")
    path.parent.mkdir(exist_ok=True)
    path.write_text(encode(document(text)), encoding="utf-8")


def run(capsys, *arguments: str) -> tuple[int, list[str], str]:
    status = main(["diff", *arguments])
    out, err = capsys.readouterr()
    return status, out.splitlines(), err


def test_two_goldens_are_written_as_a_page(capsys):
    status, out, _ = run(capsys, "before/a.yaml", "after/a.yaml", "-o", "diff.html")

    name = str(Path("after/a.yaml"))
    assert (status, out) == (1, [f"{name}: torch.relu -> torch.gelu", "wrote diff.html"])
    page = Path("diff.html").read_text(encoding="utf-8")
    assert "<p>the graphs differ at level structure</p>" in page
    assert '"overlay":true' in page
    assert "<nav" not in page


def test_folders_are_one_page_with_clusters_and_what_is_on_one_side_alone(capsys):
    golden("before/gone", TEXT)
    golden("after/same", TEXT)
    golden("before/same", TEXT)

    status, out, _ = run(capsys, "before", "after", "-o", "diff.html")

    assert status == 1
    assert [line.partition(":")[0] for line in out] == ["a.yaml", "b.yaml", "wrote diff.html"]
    page = Path("diff.html").read_text(encoding="utf-8")
    assert "2 of 4 goldens differ at level structure" in page
    assert "2 goldens differ in this way" in page
    assert "<summary>1 only in before</summary>" in page
    assert "<summary>1 matched</summary>" in page


def test_equal_goldens_have_a_page_that_says_so_and_exit_with_0(capsys):
    status, out, _ = run(capsys, "before/a.yaml", "before/b.yaml", "-o", "diff.html")

    assert (status, out) == (0, ["wrote diff.html"])
    assert "<p>nothing differs</p>" in Path("diff.html").read_text(encoding="utf-8")


def test_a_page_has_the_ending_of_one(capsys):
    status, _, err = run(capsys, "before/a.yaml", "after/a.yaml", "-o", "diff.svg")

    assert status == 2
    assert err.startswith(
        "fxgraph: cannot write the differences to diff.svg: they are a page; give a name that ends in"
    )
    assert not Path("diff.svg").exists()


@pytest.mark.parametrize("sides", [("before/a.yaml", os.devnull), (os.devnull, "before/a.yaml")])
def test_what_git_says_is_new_or_gone_is_told(capsys, sides):
    status, (line,), _ = run(capsys, *sides)

    assert status == 1
    assert line == f"only in {Path('before/a.yaml')}: there is nothing in {os.devnull} to compare it with"


def test_tables_are_compared_row_by_row(tmp_path, capsys):
    before, after = tmp_path / "tables", tmp_path / "other_tables"
    for folder, rows in ((before, [("a", 1), ("b", 2)]), (after, [("a", 1), ("b", 3), ("c", 4)])):
        folder.mkdir()
        text = encode_table(Row(name, name, {"nodes": number}) for name, number in rows)
        folder.joinpath("table.yaml").write_text(text, encoding="utf-8")

    assert main(["diff", str(before), str(after)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:] == [
        f"{after / 'table.yaml'} does not match: 2 differences",
        "  ~ b: nodes 2 -> 3 (one node more), which is worse",
        "  + c: nodes 4",
    ]
    assert main(["diff", str(before), str(before)]) == 0
    assert main(["diff", str(before), str(after), "-o", str(tmp_path / "page.html")]) == 1
    assert "table.yaml + c: nodes 4" in tmp_path.joinpath("page.html").read_text(encoding="utf-8")
    capsys.readouterr()
    assert main(["show", str(after / "table.yaml")]) == 0
    assert capsys.readouterr().out.splitlines() == ["row  nodes", "a        1", "b        3", "c        4"]


def table(name: str, **nodes: int) -> None:
    rows = [Row(row, row, {"nodes": number}) for row, number in nodes.items()]
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).write_text(encode_table(rows), encoding="utf-8")


@pytest.mark.parametrize("sides", [("t.yaml", "after/a.yaml"), ("after/a.yaml", "t.yaml")])
def test_a_table_is_not_compared_with_a_graph(capsys, sides):
    table("t.yaml", one=1)

    status, out, err = run(capsys, *sides)

    assert (status, out) == (2, [])
    assert err == (
        f"fxgraph: cannot compare t.yaml, a table, with {Path('after/a.yaml')}, which is none; give two of one kind\n"
    )


def test_tables_and_goldens_of_one_side_are_told_as_data(capsys):
    table("before/t.yaml", one=1, two=2)
    table("after/t.yaml", one=1, two=3)
    Path("after/a.yaml").unlink()

    status, out, _ = run(capsys, "before", "after", "--json")

    told = {each["golden"]: each for each in json.loads("\n".join(out))}
    assert status == 1
    assert told["a.yaml"] == {"golden": "a.yaml", "level": "structure", "only_in": "before"}
    assert told["t.yaml"]["rows"] == ["~ two: nodes 2 -> 3 (one node more), which is worse"]


def test_a_page_names_the_modules_of_the_changes_and_no_others(capsys):
    lines = "%x = input x\n%a = torch.relu(%x) @ enc.act\n%b = torch.relu(%a)\n%c = torch.neg(%b) @ dec\nreturn %c"
    golden("before/a", lines)
    golden("after/a", lines.replace("relu", "gelu"))

    run(capsys, "before", "after", "-o", "diff.html")

    page = Path("diff.html").read_text(encoding="utf-8")
    assert re.findall('data-module="(.*?)"', page) == ["enc.act", ""]


def test_two_folders_without_a_golden_are_no_comparison(capsys):
    os.mkdir("empty")
    os.mkdir("other")

    assert run(capsys, "empty", "other") == (
        2,
        [],
        "fxgraph: cannot compare empty with other: neither folder holds a golden; check the paths\n",
    )
    assert run(capsys, "empty", "before")[:2] == (1, ["only in before: a.yaml", "only in before: b.yaml"])


def with_costs(name: str) -> None:
    costs = CostBlock(CostRecord(1, 2, 3, 4, 1), 5, "")
    Path(f"{name}.yaml").write_text(encode(dataclasses.replace(document(TEXT), cost=costs)), encoding="utf-8")


@pytest.mark.parametrize("sides", [("before/a.yaml", os.devnull), (os.devnull, "before/a.yaml")])
def test_a_golden_without_costs_that_git_calls_new_or_gone_is_told_at_level_cost(capsys, sides):
    status, out, _ = run(capsys, "--cost", *sides)

    assert status == 1
    assert out == [f"only in before/a.yaml: there is nothing in {os.devnull} to compare it with"]


def test_goldens_of_folders_without_costs_are_left_out_at_level_cost(capsys):
    golden("before/gone", TEXT)
    assert run(capsys, "--cost", "before", "after")[0] == 2
    with_costs("after/new")
    with_costs("before/a")

    with_costs("after/a")

    status, out, _ = run(capsys, "--cost", "before", "after")

    assert (status, out) == (1, ["only in after: new.yaml"])


def test_two_goldens_of_folders_have_a_cluster_on_the_page_and_two_files_have_none(capsys):
    run(capsys, "before", "after", "-o", "folders.html")
    run(capsys, "before/a.yaml", "after/a.yaml", "-o", "files.html")

    pages = [Path(f"{name}.html").read_text(encoding="utf-8") for name in ("folders", "files")]
    assert ["goldens differ in this way" in page for page in pages] == [True, False]
    assert "2 of 2 goldens differ at level structure" in pages[0]


def test_graphs_behind_tables_are_compared(capsys):
    for folder, nodes in (("before", 1), ("after", 2)):
        Path(f"{folder}/Table.yaml").write_text(encode_table([Row("one", "one", {"nodes": nodes})]), encoding="utf-8")

    out = run(capsys, "before", "after")[1]

    assert [line for line in out if line.startswith("expected ")] == [
        f"expected {Path('before', name)}" for name in ("Table.yaml", "a.yaml", "b.yaml")
    ]
