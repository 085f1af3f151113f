from __future__ import annotations

import json

import pytest
import torch

from fxcore.operators import by_hand
from fxcore.operators.generate import TABLE, TORCH_VERSION, main, table_text
from fxcore.operators.table import operator_table

made_with_this_torch = pytest.mark.skipif(
    torch.__version__.partition("+")[0] != TORCH_VERSION, reason=f"the table is made with torch {TORCH_VERSION}"
)


@made_with_this_torch
def test_the_table_is_up_to_date(capsys):
    assert main(["--check"]) == 0, "run python -m fxcore.operators.generate"
    assert "up to date" in capsys.readouterr().out


@made_with_this_torch
def test_a_stale_table_is_told_and_written_anew(tmp_path, monkeypatch, capsys):
    expected = TABLE.read_text(encoding="utf-8")
    stale = tmp_path / "table.json"
    stale.write_text(expected.replace('"abs"', '"abz"'), encoding="utf-8")
    monkeypatch.setattr("fxcore.operators.generate.TABLE", stale)

    assert main(["--check"]) == 1
    assert "stale" in capsys.readouterr().out
    assert main([]) == 0
    assert stale.read_text(encoding="utf-8") == expected


def test_the_table_has_one_operator_a_line_and_is_sorted():
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    names = [line.partition(": ")[0] for line in lines[1:-1]]

    assert len(names) == len(operator_table())
    assert names == sorted(names)


@made_with_this_torch
def test_what_is_written_by_hand_is_not_said_by_the_schemas(monkeypatch):
    written = by_hand.FLAGS
    monkeypatch.setattr(by_hand, "FLAGS", {"random": frozenset()})

    said = json.loads(table_text())

    for fact in ("non_aliasing", "random"):
        assert not [name for name in written[fact] if fact in said.get(name, ())]
