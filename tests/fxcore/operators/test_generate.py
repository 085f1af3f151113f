from __future__ import annotations

import json

import pytest
import torch

from fxcore.operators.generate import TABLE, TORCH_VERSION, facts_by_hand, main, table_text
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
    by_hand = facts_by_hand()
    nothing = {fact: {} for fact in ("non_aliasing", "random", "mutates")}
    monkeypatch.setattr("fxcore.operators.generate.facts_by_hand", lambda: by_hand | nothing)

    said = json.loads(table_text())

    for fact in nothing:
        assert not [name for name in by_hand[fact] if fact in said.get(name, ())]


def test_facts_by_hand_are_words_behind_a_prefix():
    by_hand = facts_by_hand()

    assert by_hand["writes_statistics"]["instance_norm"] == "use_input_stats"
    assert by_hand["spelling"]["torch.nn.LeakyReLU"] == "leaky_relu"
    assert "torch.nn.HuberLoss" in by_hand["non_aliasing"]
    assert "operator.add" in by_hand["non_aliasing"]
    assert "operator.getitem" not in by_hand["non_aliasing"]
    assert {"append", "operator.iadd", "__iadd__"} <= by_hand["mutates"].keys()
