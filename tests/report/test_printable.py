from __future__ import annotations

from pytest_fxgraph.report.printable import printable


def test_what_a_terminal_would_obey_is_shown_instead():
    assert printable("a\x1b[2Jb\x07\r\x9bc") == "a\\x1b[2Jb\\x07\\x0d\\x9bc"


def test_marks_that_turn_the_direction_of_a_text_are_shown():
    assert printable("\u202eabc\u2066") == "\\u202eabc\\u2066"


def test_letters_of_all_scripts_lines_and_tabs_stay():
    text = "é\u05d0 \U0001f600\n\tx"

    assert printable(text) == text
