from __future__ import annotations

from pytest_fxgraph.report.printable import aligned, counted, first_lines, listed, printable, printable_line


def test_what_a_terminal_would_obey_is_shown_instead():
    assert printable("a\x1b[2Jb\x07\r\x9bc") == "a\\x1b[2Jb\\x07\\x0d\\x9bc"


def test_marks_that_turn_the_direction_of_a_text_are_shown():
    assert printable("\u202eabc\u2066") == "\\u202eabc\\u2066"


def test_letters_of_all_scripts_lines_and_tabs_stay():
    text = "é\u05d0 \U0001f600\n\tx"

    assert printable(text) == text


def test_what_the_log_of_a_build_would_obey_is_shown_instead():
    assert printable("a\n  ::error::b\nc::d\n::e ##[error]f") == "a\n  \\x3a:error::b\nc::d\n\\x3a:e \\x23#[error]f"


def test_the_name_of_a_file_is_one_line():
    assert printable_line("a\n::error::b\r\nc") == "a\\n::error::b\\x0d\\nc"


def test_a_list_and_a_count_say_how_many_are_left_out():
    assert [counted(number, "golden") for number in (0, 1, 2)] == ["0 goldens", "1 golden", "2 goldens"]
    assert [listed("abcd"[:count], 3) for count in (0, 3, 4)] == ["", "a, b, c", "a, b, c and 1 more"]
    assert listed(["a", "b", "c"], 1, "; ") == "a and 2 more"
    assert first_lines(["a", "b"], 2) == ["a", "b"]
    assert first_lines(["a", "b", "c"], 1, "and {} more lines") == ["a", "and 2 more lines"]


def test_columns_stand_below_each_other():
    assert aligned([("name", "n"), ("a", "10")]) == ["name   n", "a     10"]


def test_each_sort_of_command_of_a_log_is_escaped_alone():
    assert printable("::error::b") == "\\x3a:error::b"
    assert printable("##[error]f") == "\\x23#[error]f"
    assert printable("a::b # [c]") == "a::b # [c]"
