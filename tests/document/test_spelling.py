"""Texts of a golden are spelt in one way, and other spellings of people are read as the document has them."""

from __future__ import annotations

import re

import pytest

from pytest_fxgraph.document.model import YamlDataError
from pytest_fxgraph.document.spelling import (
    argument_text,
    fact_text,
    fits_in_a_block,
    is_seen_line,
    key_text,
    plain_text,
    raw_text,
    split_at,
    tidy_text,
)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (" 3 ", "3"),
        ("1_000", "1000"),
        ("1.50", "1.5"),
        ("1e3", "1000.0"),
        ("-2.", "-2.0"),
        ("x1.5", "x1.5"),
        ("[1,2,  3]", "[1, 2, 3]"),
        ("( 1 , )", "(1,)"),
        ("(1, 2, )", "(1, 2)"),
        ("[1, ]", "[1]"),
        ("{'a' :1}", '{"a" :1}'),
        ("((1,), [2,])", "((1,), [2])"),
        ("f( %x ,'y')", 'f(%x, "y")'),
        ("b'a'", 'b"a"'),
        ("a   b", "a b"),
        ('~"a  b"', "a  b"),
        ("torch.float32", "torch.float32"),
    ],
)
def test_a_value_is_read_as_documents_spell_it(written, read):
    assert tidy_text(written) == read
    assert tidy_text(read) == read or written.startswith("~")


@pytest.mark.parametrize(
    ("read", "text", "reason"),
    [
        (tidy_text, "  ", "a value is missing"),
        (tidy_text, r"['\x']", r"'\x' is no quoted text of Python"),
        (plain_text, '"a', '"a is no quoted text of Python'),
        (plain_text, '"a" + 1', '"a" + 1 is no quoted text of Python'),
        (lambda text: split_at(text, ","), "a)", "the bracket ')' closes nothing"),
        (lambda text: split_at(text, ","), "(a]", "the bracket ']' closes nothing"),
        (lambda text: split_at(text, ","), "([a]", "a bracket is not closed: ')' is missing"),
        (lambda text: split_at(text, ","), 'a, "b', "a quoted text does not end"),
    ],
)
def test_a_text_that_nobody_means_is_refused_with_the_reason(read, text, reason):
    with pytest.raises(YamlDataError, match=re.escape(reason)):
        read(text)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", [""]),
        ("a", ["a"]),
        ("a, b", ["a", " b"]),
        ("a,", ["a", ""]),
        ("f(a, b), [c, {d, e}]", ["f(a, b)", " [c, {d, e}]"]),
        ("\"a, b\", 'c, d'", ['"a, b"', " 'c, d'"]),
        (r'"a\", b", c', [r'"a\", b"', " c"]),
    ],
)
def test_a_text_is_split_outside_of_quotes_and_brackets(text, parts):
    assert split_at(text, ",") == parts


@pytest.mark.parametrize(
    ("text", "argument", "fact"),
    [
        ("%x", "%x", "%x"),
        ("(1, 2)", "(1, 2)", "(1, 2)"),
        ("a, b", '~"a, b"', "a, b"),
        ("a; b", '~"a; b"', '~"a; b"'),
        ("a # b", '~"a # b"', '~"a # b"'),
        ("=b", '~"=b"', "=b"),
        ("dim=1", '~"dim=1"', "dim=1"),
        ("dim==1", "dim==1", "dim==1"),
        ("training", "training", '~"training"'),
        ("in a", "in a", '~"in a"'),
        ("inner", "inner", "inner"),
        ("~a", '~"~a"', '~"~a"'),
        ("a  b", '~"a  b"', '~"a  b"'),
        ("it's", '~"it\'s"', '~"it\'s"'),
        ('"it\'s"', '"it\'s"', '~"\\"it\'s\\""'),
        ("(a", '~"(a"', '~"(a"'),
    ],
)
def test_a_text_is_quoted_where_it_would_not_come_back(text, argument, fact):
    assert (argument_text(text), fact_text(text)) == (argument, fact)
    assert tidy_text(argument) == tidy_text(fact) == text


def test_keywords_and_raw_texts_are_quoted():
    assert [key_text(name) for name in ("dim", "a b", "")] == ["dim", '"a b"', '""']
    assert raw_text('a "b"') == r'~"a \"b\""'
    assert [plain_text(text) for text in ('"a b"', "a b")] == ["a b", "a b"]


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("a\nb", True),
        ("a \nb", False),
        (" a", False),
        ("\na", False),
        ("a ", False),
        ("a\n", False),
        ("a\tb", False),
        ("ä\nb", True),
        ("ä \nb", False),
        (" ä", False),
        ("ä\n", False),
        ("ä\u200b", False),
        ("ä\u3000b", False),
        ("ä\ue000", False),
    ],
)
def test_a_literal_block_holds_text_that_no_editor_changes_and_everybody_sees(text, fits):
    assert fits_in_a_block(text) is fits
    assert is_seen_line(text) is (fits and "\n" not in text)
    assert not is_seen_line("")
