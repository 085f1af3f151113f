from __future__ import annotations

import ast
import math
import struct

from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_fxgraph.document.literals import (
    bytes_text,
    complex_text,
    float_text,
    int_text,
    references,
    rename_references,
    string_text,
    without_references,
)


@given(st.text())
@settings(max_examples=50)
def test_a_string_comes_back_from_its_text_which_is_printable_ascii(value):
    text = string_text(value)

    assert ast.literal_eval(text) == value
    assert text.isascii()
    assert text.isprintable()


def test_half_a_surrogate_pair_and_a_whole_one_are_told_apart():
    assert string_text("\ud83d\ude00") == r'"\ud83d\ude00"'
    assert string_text("\U0001f600") == r'"\U0001f600"'


@given(st.binary())
@settings(max_examples=50)
def test_bytes_come_back_from_their_text(value):
    assert ast.literal_eval(bytes_text(value)) == value


@given(st.floats(allow_nan=False))
@settings(max_examples=50)
def test_a_float_comes_back_bit_for_bit(value):
    assert struct.pack("d", float(float_text(value))) == struct.pack("d", value)


def test_floats_that_are_equal_or_nearly_so_have_different_texts():
    texts = [float_text(value) for value in (0.0, -0.0, 0.1, math.nextafter(0.1, 1), math.inf, -math.inf)]

    assert texts == ["0.0", "-0.0", "0.1", "0.10000000000000002", "inf", "-inf"]


def test_nan_keeps_its_sign_and_payload():
    payload = struct.unpack(">d", (0x7FF8000000000123).to_bytes(8, "big"))[0]

    assert float_text(math.nan) == "nan"
    assert float_text(-math.nan) == "-nan"
    assert float_text(payload) == "nan(0x7ff8000000000123)"


def test_a_complex_number_keeps_the_signs_of_its_zeros():
    assert complex_text(complex(-0.0, 2)) == "complex(-0.0, 2.0)"
    assert complex_text(complex(0.0, -0.0)) == "complex(0.0, -0.0)"


def test_an_integer_too_long_for_decimal_digits_is_written_in_hexadecimal():
    assert int_text(-(10**20)) == "-100000000000000000000"
    assert int_text(16**5000) == "0x1" + "0" * 5000


def test_references_are_listed_in_order_and_with_repetitions():
    assert references("[%a, (%b_1, %a), slice(%c, None, 2)]") == ["a", "b_1", "a", "c"]
    assert references("%lone") == ["lone"]
    assert references("3") == []


def test_a_percent_sign_within_quotes_is_no_reference():
    assert references(r'{"%x": %y, "\"%z": "%", b"%w": %v}') == ["y", "v"]


def test_renaming_touches_references_alone():
    renamed = rename_references(r'[%a, "%a", {"\\": %ab, "k": %c}]', {"a": "x", "ab": "y"})

    assert renamed == r'[%x, "%a", {"\\": %y, "k": %c}]'
    assert rename_references("%a", {"a": "b"}) == "%b"


@given(st.text(), st.text())
@settings(max_examples=50)
def test_whatever_strings_hold_the_references_around_them_are_found(before, after):
    between = f"{string_text(before)}, %b, {bytes_text(after.encode())}"
    text = f"[%a, {between}, %c]"

    assert references(text) == ["a", "b", "c"]
    assert rename_references(text, {"a": "c", "c": "a"}) == f"[%c, {between}, %a]"


def test_each_character_has_the_shortest_escape():
    assert string_text("\x1f ~\x7f\xff\u0100\uffff\U00010000") == r'"\x1f ~\x7f\xff\u0100\uffff\U00010000"'


def test_a_text_without_references_keeps_its_quoted_texts():
    assert without_references('(%x, "%x", 1, %y_1)') == '(%, "%x", 1, %)'
    assert without_references("float32") == "float32"
