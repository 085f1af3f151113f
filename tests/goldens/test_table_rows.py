from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_fxgraph.errors import GoldenFormatError
from pytest_fxgraph.goldens.table_rows import (
    Row,
    decode_table,
    digest_of,
    encode_table,
    is_table,
    number_text,
    rows_if_table,
    table_lines,
)

ROW = Row("net", "net", {"nodes": 3})
TABLE = encode_table([ROW])
NAMES = st.text(min_size=1, max_size=8).filter(lambda name: "\r" not in name)
NUMBERS = st.integers(-(10**9), 10**9) | st.floats(allow_nan=False, allow_infinity=False)


@settings(max_examples=40)
@given(
    st.dictionaries(
        NAMES,
        st.dictionaries(NAMES.filter(lambda name: name not in ("row", "test")), NUMBERS, min_size=1, max_size=2),
        min_size=1,
        max_size=2,
    ),
    NAMES,
)
def test_a_table_is_read_as_it_was_written(rows, test):
    table = {name: Row(name, test, values) for name, values in rows.items()}

    assert decode_table(encode_table(table.values()), "t.yaml") == table


def test_a_table_is_written_sorted_one_line_a_row():
    rows = [Row("b", "test_b", {"nodes": 3, "flops": 1.5}), Row("a", "a", {"on": -2})]

    assert encode_table(rows).splitlines() == [
        "table: 1",
        "rows:",
        "- {row: a, 'on': '-2'}",
        "- {row: b, test: test_b, flops: '1.5', nodes: 3}",
        "end: true",
    ]


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("net", "net"),
        ("two words", "'two words'"),
        ("it's", "'it''s'"),
        ("Yes", "'Yes'"),
        ("a\nb", '"a\\U0000000ab"'),
        ('"\n', '"\\U00000022\\U0000000a"'),
        ("\\\n", '"\\U0000005c\\U0000000a"'),
    ],
)
def test_a_name_is_quoted_where_yaml_reads_another_value(name, written):
    assert f"row: {written}," in encode_table([Row(name, name, {"nodes": 1})])


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("table: 1\n", True),
        ("# note\ntable: 1\n", True),
        ("\ufefftable: 1", True),
        ("tables: 1", False),
        ("a: 1\ntable: 1", False),
    ],
)
def test_a_table_begins_with_its_format(text, is_one):
    assert is_table(text) is is_one


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (TABLE.replace("end", "<<<<<<< ours\nend"), "cannot read the table t.yaml: it holds a merge conflict; keep"),
        (TABLE.replace("end", ">>>>>>> ours\nend"), "it holds a merge conflict"),
        (TABLE.replace("table: 1", "table: 2"), "it does not begin with `table: 1`; restore it"),
        ("3\n", "it does not begin with `table: 1`"),
        (TABLE.replace("end: true\n", ""), "it was cut off: its last line is not `end: true`"),
        (TABLE.replace("end: true", "end: false"), "it was cut off"),
        (TABLE.replace("row: net", "name: net"), "an item of 'rows' has no row: it names no model"),
        (TABLE.replace("row: net", "row: 3"), "an item of 'rows' has no row"),
        (TABLE.replace("{row: net, nodes: 3}", "3"), "an item of 'rows' has no row"),
        (
            TABLE.replace("end", "- {row: net, nodes: 3}\nend"),
            "cannot read the table t.yaml, line 4: the row 'net' stands there",
        ),
        (TABLE.replace(", nodes: 3", ""), "cannot read the table t.yaml, line 3: the row 'net' is empty"),
        ("table: 1\nend: true\n", "it has no row, and every comparison with it would say nothing"),
        (TABLE.replace("3", "true"), "line 3: column 'nodes' of row 'net' is True, which is no number"),
        (TABLE.replace("3", "many"), "line 3: column 'nodes' of row 'net' is 'many', which is no number"),
        (TABLE.replace("3", "'nan'"), "column 'nodes' of row 'net' is 'nan'; a table holds finite numbers"),
    ],
)
def test_a_damaged_table_is_refused_with_its_line_and_reason(text, words):
    with pytest.raises(GoldenFormatError) as caught:
        decode_table(text, "t.yaml")

    assert words in str(caught.value)


def test_other_files_are_no_tables_and_line_ends_of_windows_are_read():
    assert rows_if_table(TABLE.replace("\n", "\r\n").encode(), "t.yaml") == {"net": ROW}
    assert rows_if_table(b"golden: 3\n", "t.yaml") is None


def test_the_digest_follows_the_content_of_a_row():
    assert digest_of(None) is None
    assert digest_of(ROW) == digest_of(Row("net", "net", {"nodes": 3}))
    assert digest_of(ROW) != digest_of(Row("net", "net", {"nodes": 4}))


@pytest.mark.parametrize(
    ("value", "shown", "quoted"),
    [
        (3, "3", "3"),
        (0, "0", "0"),
        (-3, "-3", "'-3'"),
        (1 / 3, "0.333333", "'0.3333333333333333'"),
        (2.0, "2", "'2.0'"),
    ],
)
def test_a_number_is_shown_short_and_written_in_full(value, shown, quoted):
    assert (number_text(value), number_text(value, quoted=True)) == (shown, quoted)


def test_a_table_is_shown_in_columns():
    rows = {"b": Row("b", "b", {"nodes": 10}), "a": Row("a", "a", {"nodes": 3, "flops": 1.5})}

    assert [line.split() for line in table_lines(rows)] == [
        ["row", "flops", "nodes"],
        ["a", "1.5", "3"],
        ["b", "-", "10"],
    ]
