"""`fxgraph show --cost` and `fxgraph diff --cost`."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from fixtures.documents import document
from pytest_fxgraph.command.main import main
from pytest_fxgraph.document.costs import CostBlock, CostRecord
from pytest_fxgraph.document.encoding import encode
from pytest_fxgraph.goldens.table_rows import Row, encode_table

PLAIN = document("%x = input x\nreturn %x")
COST = CostBlock(CostRecord(3000, 80, 20, 10, 2), 64, "", (("act", CostRecord(3000, 80, 20, 10, 2)),), ("lib.f",))


@pytest.fixture
def goldens(tmp_path):
    dearer = replace(COST, total=CostRecord(3300, 80, 20, 10, 2))
    for name, cost in (("plain", None), ("cheap", COST), ("dear", dearer)):
        (tmp_path / f"{name}.yaml").write_text(encode(replace(PLAIN, cost=cost)), encoding="utf-8")
    return tmp_path


def run(capsys, *arguments):
    verb = ("show", "--cost") if len(arguments) == 1 else ("diff", "--cost")
    status = main([*verb, *map(str, arguments)])
    return status, *capsys.readouterr()


def test_it_prints_the_table_of_a_golden(capsys, goldens):
    status, out, err = run(capsys, goldens / "cheap.yaml")

    assert (status, err) == (0, "")
    assert out.splitlines() == [
        "module  FLOPs  read  written  FLOPs/byte  params  nodes",
        "act     3,000    80       20       30.00      10      2",
        "total   3,000    80       20       30.00      10      2",
        "peak activation memory: 64 bytes, in the outermost module",
        "operators without a count of FLOPs: lib.f",
    ]


def test_of_a_folder_it_prints_those_that_hold_costs(capsys, goldens):
    _, out, _ = run(capsys, goldens)

    assert [line for line in out.splitlines() if line.startswith("==")] == ["== cheap.yaml", "== dear.yaml"]


def test_of_two_goldens_it_prints_what_differs(capsys, goldens):
    status, out, _ = run(capsys, goldens / "cheap.yaml", goldens / "dear.yaml")

    assert status == 1
    assert "  flops: 3,000 -> 3,300 (+10.00%, the budget is 0)" in out.splitlines()
    assert run(capsys, goldens / "cheap.yaml", goldens / "cheap.yaml") == (0, "", "")


def test_of_two_folders_it_compares_the_goldens_that_hold_costs(capsys, goldens):
    obtained = goldens / "obtained"
    obtained.mkdir()
    for name, source in (("plain", "plain"), ("cheap", "dear")):
        (obtained / f"{name}.yaml").write_bytes((goldens / f"{source}.yaml").read_bytes())

    status, out, err = run(capsys, goldens, obtained)

    assert (status, err) == (1, "")
    assert "  flops: 3,000 -> 3,300 (+10.00%, the budget is 0)" in out.splitlines()
    assert "plain.yaml" not in out


def test_two_goldens_without_costs_are_named(capsys, goldens):
    plain = goldens / "plain.yaml"

    status, out, err = run(capsys, plain, plain)

    assert (status, out) == (2, "")
    assert err.startswith(f"fxgraph: cannot compare at level 'cost': no costs are recorded in {plain} or {plain}; a ")


def test_a_golden_without_costs_is_an_error_that_says_what_records_them(capsys, goldens):
    status, out, err = run(capsys, goldens / "plain.yaml")

    assert (status, out) == (2, "")
    assert 'plain.yaml costs: no costs are recorded there; a test with fx_golden(level="cost", exam' in err


def test_json_holds_the_costs_of_each_module(capsys, goldens):
    assert main(["show", "--cost", "--json", str(goldens / "cheap.yaml")]) == 0

    (shown,) = json.loads(capsys.readouterr().out)
    assert shown["cost"]["total"]["flops"] == 3000
    assert [path for path, _ in shown["cost"]["modules"]] == ["act"]


def test_json_of_a_table_holds_its_rows(capsys, tmp_path):
    rows = [Row("one", "test_one", {"nodes": 3, "seconds": 0.5})]
    (tmp_path / "table.yaml").write_text(encode_table(rows), encoding="utf-8")

    status = main(["show", "--json", str(tmp_path / "table.yaml")])

    assert status == 0
    (shown,) = json.loads(capsys.readouterr().out)
    assert shown["rows"] == {"one": {"nodes": 3, "seconds": 0.5}}


def test_a_folder_without_a_golden_is_an_error(capsys, tmp_path):
    for options in ((), ("--json",), ("--cost",)):
        assert main(["show", str(tmp_path), *options]) == 2
        assert capsys.readouterr().err == (
            f"fxgraph: cannot show {tmp_path}: the folder holds no golden; check the path\n"
        )
