"""Symbols of unknown sizes are renamed in texts, and nothing else is."""

from __future__ import annotations

import pytest

from pytest_fxgraph.document.symbol_names import rename_symbols, rename_symbols_of_note

NAMES = {"s7": "s0", "s8": "s1"}


@pytest.mark.parametrize(
    ("text", "renamed"),
    [
        ("float32[s7, 3]", "float32[s0, 3]"),
        ("(float32[2*s7 + s8], int64[s77])", "(float32[2*s0 + s1], int64[s77])"),
        ('{"s7": float32[s7]}', '{"s7": float32[s0]}'),
        ("f(\"s7 (s7)\", 's7')", "f(\"s7 (s7)\", 's0')"),
        ('torch.SymInt("s7 + 1")', 'torch.SymInt("s0 + 1")'),
        ("%s7", "%s7"),
        ("torch.s7", "torch.s7"),
    ],
)
def test_symbols_are_renamed_and_nothing_else(text, renamed):
    assert rename_symbols(text, NAMES) == renamed


def test_names_of_inputs_in_notes_are_no_symbols():
    assert rename_symbols_of_note("inputs: s7, x", NAMES) == "inputs: s7, x"
    assert rename_symbols_of_note("range of s7: 2 to 10", NAMES) == "range of s0: 2 to 10"


def test_source_text_in_notes_of_a_capture_holds_no_symbols():
    note = "break: builtin (print) in forward: print(s0)"

    assert rename_symbols_of_note(note, {"s0": "s1"}) == note
    assert rename_symbols_of_note("guard: Eq(Mod(s0, 2), 0)", {"s0": "s1"}) == "guard: Eq(Mod(s1, 2), 0)"
