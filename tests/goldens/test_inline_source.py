"""Rewriting the source of a test: the text of a call is replaced, and not a byte beside it."""

from __future__ import annotations

import ast
import codecs
import re
from textwrap import dedent, indent

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_fxgraph.errors import GoldenWriteError
from pytest_fxgraph.goldens.inline_source import InlineSource
from pytest_fxgraph.goldens.inline_text import dedented

TEXT = "input x\n%neg = torch.neg(%x)\nreturn %neg\n"


def calls_of(content: bytes) -> list[ast.Call]:
    calls = [node for node in ast.walk(ast.parse(content)) if isinstance(node, ast.Call)]
    return sorted((call for call in calls if "inline" in ast.dump(call.func)), key=end_of)


def end_of(call: ast.Call) -> tuple[int, int]:
    return call.end_lineno, call.end_col_offset


def rewritten(source: str | bytes, *texts: str | None) -> str | bytes:
    """Return a source with new texts for its calls, in their order; None leaves one alone."""
    content = source if isinstance(source, bytes) else source.encode()
    ends = [end_of(call) for call in calls_of(content)]
    wanted = {end: text for end, text in zip(ends, texts or [TEXT] * len(ends), strict=True) if text is not None}
    new = InlineSource(content, "test_a.py").rewritten(wanted)
    assert [dedented(call.args[0].value) for call in calls_of(new) if call.args] == [
        text if text is not None else dedented(call.args[0].value)
        for call, text in zip(calls_of(content), texts or [TEXT] * len(ends), strict=True)
        if text is not None or call.args
    ]
    return new if isinstance(source, bytes) else new.decode()


def test_a_text_stands_below_its_call_one_step_deeper():
    assert rewritten("class A:\n  def t(self, g):\n    assert f == g.inline()  # why\n") == dedent(
        '''\
        class A:
          def t(self, g):
            assert f == g.inline("""
                input x
                %neg = torch.neg(%x)
                return %neg
            """)  # why
        '''
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("g.inline()", "g.inline(TEXT)"),
        ("g.inline( )", "g.inline(TEXT )"),
        ('g.inline("")', "g.inline(TEXT)"),
        ("g.inline('old', level='ops',)", "g.inline(TEXT, level='ops',)"),
        ('g.inline(level="ops")', 'g.inline(TEXT, level="ops")'),
        ("g.inline(**options)", "g.inline(TEXT, **options)"),
        ("(g.inline)(  # one\n    level='ops'\n)", "(g.inline)(TEXT,  # one\n    level='ops'\n)"),
        ("(g # (\n.inline)()", "(g # (\n.inline)(TEXT)"),
        ("g.inline((('old')))", "g.inline(((TEXT)))"),
        ("g.inline(u'old')", "g.inline(TEXT)"),
        ("h(g.inline('a')) == [g.inline(), 1]", "h(g.inline(TEXT)) == [g.inline(TEXT), 1]"),
    ],
)
def test_the_text_of_a_call_is_put_where_it_belongs(before, after):
    text = '"""\n    input x\n    %neg = torch.neg(%x)\n    return %neg\n"""'

    assert rewritten(before) == after.replace("TEXT", text)
    assert rewritten(rewritten(before)) == rewritten(before)


@pytest.mark.parametrize(
    "laid_out",
    [
        'def t(g):\n    assert f == g.inline("""\n        old\n    """)\n',
        'def t(g):\n\tassert f == g.inline(\n\t\t"""\n\t\told\n\t\t"""\n\t)\n',
        'def t(g):\n    assert f == g.inline("""\nold\n""")\n',
        "def t(g):\n    assert f == g.inline(\n            '''\n   old\n            ''')\n",
        'def t(g):\n    assert f == g.inline(r"""\n          old\n      """, level="ops")\n',
    ],
)
def test_a_formatters_layout_is_kept(laid_out):
    line = next(line for line in laid_out.split("\n") if line.strip() == "old")
    margin = line.removesuffix("old")

    assert rewritten(laid_out) == laid_out.replace(line, indent(TEXT, margin).rstrip("\n"))


@pytest.mark.parametrize(
    ("text", "before", "literal"),
    [
        ('%y = f("a")\n', "()", '("""\n    %y = f("a")\n""")'),
        ('%y = f("\\n")\n', "()", '(r"""\n    %y = f("\\n")\n""")'),
        ('%y = f("\\n")\n', "(R'old')", '(R"""\n    %y = f("\\n")\n""")'),
        ('note """\n', "()", "('''\n    note \"\"\"\n''')"),
        ("note '''\n", "('''old''')", '("""\n    note \'\'\'\n""")'),
        ("note \"\"\"''' \\ x\n", "()", '("""\n    note \\"\\"\\"\'\'\' \\\\ x\n""")'),
        ("a\n\n  b\n", "()", '("""\n    a\n\n      b\n""")'),
    ],
)
def test_quotes_and_backslashes_survive(text, before, literal):
    assert rewritten(f"g.inline{before}\n", text) == f"g.inline{literal}\n"


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends_are_those_of_the_file(end):
    source = 'a = """x\ny"""\nb = g.inline()\nc = 1'.replace("\n", end).encode()

    new = rewritten(source)

    assert new == rewritten('a = """x\ny"""\nb = g.inline()\nc = 1').replace("\n", end).encode()


def test_line_ends_of_a_mixed_file_are_those_of_the_line():
    assert rewritten(b"a = 1\nb = g.inline('')\r\nc = 2\n").count(b"\r\n") == 5


@pytest.mark.parametrize("mark", [b"", codecs.BOM_UTF8])
def test_a_byte_order_mark_stays(mark):
    new = rewritten(mark + b"a = g.inline()\n")

    assert new.startswith(mark + b'a = g.inline("""\n')


@pytest.mark.parametrize(
    ("encoding", "written"),
    [
        ("utf-8", "caf\u00e9 \u0142"),
        ("latin-1", "caf\u00e9 \\u0142"),
        ("cp1250", "caf\u00e9 \u0142"),
        ("shift_jis", "caf\\xe9 \\u0142"),
    ],
)
def test_the_encoding_of_the_file_is_kept_and_what_it_lacks_is_escaped(encoding, written):
    around = {"shift_jis": "\u30bd\u8868"}.get(encoding, "\u00e9")
    source = f"# -*- coding: {encoding} -*-\na = '{around}', g.inline(), '{around}'\n".encode(encoding)

    new = rewritten(source, "note caf\u00e9 \u0142\n")

    assert new.decode(encoding).startswith(f'# -*- coding: {encoding} -*-\na = \'{around}\', g.inline("""\n')
    assert written in new.decode(encoding)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("g.inline(TEXT)", "its text is not a literal, but made or kept elsewhere; write one text in quotes"),
        ("g.inline('a' + 'b')", "its text is not a literal"),
        ("g.inline(*texts)", "its text is not a literal"),
        ("g.inline(f'a')", "its text is an f-string, which may say something else in each run"),
        ("g.inline('a' 'b')", "its text is made of several literals side by side; make them one text"),
        ("g.inline('''a''' '''b''')", "its text is made of several literals side by side"),
        ("g.inline('a'\n  # why\n  'b')", "its text is made of several literals side by side"),
        ("g.inline(b'a')", "its text is not a literal"),
    ],
)
def test_what_is_not_one_literal_is_refused(source, reason):
    end = end_of(calls_of(source.encode())[0])

    with pytest.raises(GoldenWriteError, match=re.escape(f"cannot write the inline golden test_a.py:1: {reason}")):
        InlineSource(source.encode(), "test_a.py").find(end, 1, "ab")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"def\n", "invalid syntax"),
        (b"# coding: nothing\n", "unknown encoding: nothing"),
        (b"a = '\xff'\n", "encoding declaration"),
        (b"a = '\0'\n", "null bytes"),
    ],
)
def test_what_is_no_source_is_refused(content, reason):
    with pytest.raises(
        GoldenWriteError, match=r"the inline goldens of test_a.py: it cannot be read as Python"
    ) as caught:
        InlineSource(content, "test_a.py")

    assert reason in str(caught.value)
    assert str(caught.value).endswith("; mend the file")


SEVERAL = b"""
x = [g.inline("a"), g.inline("b"), g.inline()]
y = g.inline("c") == g.inline("c")
z = h(
    g.inline(
        "d",
    )
)
same = inline("e")
"""


@pytest.mark.parametrize(("line", "text", "found"), [(2, "b", "b"), (2, None, None), (5, "d", "d"), (9, "e", "e")])
def test_without_a_column_a_call_is_found_by_its_line_and_text(line, text, found):
    source = InlineSource(SEVERAL, "test_a.py")
    end = source.find(None, line, text)

    assert (
        ast.literal_eval(
            next(repr(c.args[0].value) if c.args else "None" for c in calls_of(SEVERAL) if end_of(c) == end)
        )
        == found
    )


@pytest.mark.parametrize(
    ("line", "text", "reason"),
    [
        (
            3,
            "c",
            "more than one call of fx_golden.inline with the same text stands there; put each on a line of its own",
        ),
        (2, "z", "no call of fx_golden.inline with a text of its own stands there"),
        (99, "a", "no call of fx_golden.inline with a text of its own stands there"),
    ],
)
def test_without_a_column_what_is_not_certain_is_refused(line, text, reason):
    with pytest.raises(GoldenWriteError, match=re.escape(f"test_a.py:{line}: {reason}")):
        InlineSource(SEVERAL, "test_a.py").find(None, line, text)


def test_a_call_whose_text_is_another_than_the_one_that_ran_is_refused():
    with pytest.raises(GoldenWriteError, match=r"the text that .* was given is not the one that stands there; run"):
        InlineSource(b"g.inline('a')", "test_a.py").find((1, 13), 1, "b")


def test_a_place_at_which_no_call_ends_is_refused():
    with pytest.raises(
        GoldenWriteError, match=r"test_a.py:1: no call ends where the tests have found one; run the tests"
    ):
        InlineSource(b"g.inline('a')", "test_a.py").rewritten({(1, 5): TEXT})


@pytest.mark.parametrize(
    ("literal", "line"),
    [('"""\na\n"""', 2), ("'a'", None), ('"""\\\na\n"""', None), ('r"""\n\\a\n"""', 2), ("", None)],
)
def test_the_line_of_a_text_is_known_where_its_lines_are_those_of_the_source(literal, line):
    content = f"\ng.inline({literal})\n".encode()

    assert InlineSource(content, "test_a.py").first_line(end_of(calls_of(content)[0])) == line


FRAGMENTS = st.sampled_from(
    [
        "a = 1",
        "# g.inline('no')",
        "b = '''g.inline(\"x\")\n'''",
        "s = '\\x41 \u00e9 \U0001f600'",
        "def f(g):\n    return g.inline()",
        "assert f == g.inline('old', level='ops')",
        'c = [g.inline("""\n  a\n"""), g.inline( )]',
        "g.inline(\n    # c\n    r'''\n\t\\a\n''',\n)",
        "if a: g.inline(u'\u00e9'); g.inline(level=g.inline)",
        "d = f'{g}'; e = g.inline('\\u00e9')\\\n  .x",
        "\x0c",
        "",
    ]
)
WANTED = st.lists(
    st.sampled_from(
        ["input x", '%y = f("a\\n")', "note \u00e9\u0142", '  note """', "  '''", "", "%z = g('\\\\')", 'note "']
    ),
    min_size=1,
    max_size=4,
).map(lambda lines: dedented("note a\n" + "\n".join(lines)))


@given(
    st.lists(FRAGMENTS, min_size=1, max_size=6),
    st.lists(WANTED | st.none(), min_size=30, max_size=30),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.sampled_from(["utf-8", "utf-8-sig", "cp1252"]),
)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_every_byte_beside_the_texts_stays_and_a_second_time_changes_nothing(fragments, wanted, end, encoding):
    head = "# coding: cp1252\n" if encoding == "cp1252" else "\n"
    text = head + "\n".join(fragments) + "\n"
    content = text.replace("\n", end).encode(encoding, "replace")
    ends = [end_of(call) for call in calls_of(content)]
    texts = {place: text for place, text in zip(ends, wanted, strict=False) if text is not None}

    new = InlineSource(content, "test_a.py").rewritten(texts)

    assert without_texts(new, ends, texts) == without_texts(content, ends, texts)
    values = [call.args[0].value if call.args else None for call in calls_of(new)]
    for place, value in zip(ends, values, strict=True):
        assert place not in texts or dedented(value) == texts[place]
    moved = [end_of(call) for call in calls_of(new)]
    again = {moved[ends.index(place)]: text for place, text in texts.items()}
    assert InlineSource(new, "test_a.py").rewritten(again) == new


def without_texts(content: bytes, ends: list, texts: dict) -> bytes:
    """Return a source without the texts of some calls, nor the comma that comes with a new one."""
    source = InlineSource(content, "test_a.py")
    for call, place in reversed(list(zip(calls_of(content), ends, strict=True))):
        if place in texts:
            literal = source._literal(end_of(call))
            start, stop = source._byte(literal.start), source._byte(literal.end)
            rest = content[stop:]
            has_new_comma = call.keywords and re.match(rb", ?", rest)
            content = content[:start] + (rest[has_new_comma.end() :] if has_new_comma else rest)
    return content


@pytest.mark.parametrize(
    ("encoding", "source"),
    [
        ("utf-7", b"# coding: utf-7\na = '+AOk-+AOk-', g.inline()\n"),
        ("iso-2022-jp", b"# coding: iso-2022-jp\na = '\x1b(B', g.inline()\n"),
    ],
)
def test_an_encoding_with_several_bytes_for_one_text_is_refused(encoding, source):
    (call,) = calls_of(source)
    words = f"its encoding, {encoding}, does not say in one way which bytes a text is; convert the file to UTF-8"

    with pytest.raises(GoldenWriteError, match=words):
        InlineSource(source, "test_a.py").rewritten({end_of(call): TEXT})


def source(*calls: str) -> InlineSource:
    return InlineSource(
        "\n".join(["def test_x(g):", *(f"    assert f == {call}" for call in calls)]).encode(), "test_a.py"
    )


def test_a_program_is_the_same_whatever_texts_its_calls_have_and_another_with_other_code():
    program = source("g.inline()", "g.inline()").program

    assert source('g.inline("""a""")', 'g.inline("b")').program == program
    assert source("g.inline()").program != program
    assert source('g.inline("a", level="ops")', "g.inline()").program != program
    assert source("g.inline(TEXT)", "g.inline()").program != program
    assert source("h.check('a', 1)").program != source("h.check('b', 1)").program


def test_a_call_is_found_by_its_position_with_its_text():
    found = source("g.inline()", 'g.inline("""\n        input x\n        return %x\n    """)')

    ends = [found.find(None, 2, None), found.find(None, 3, "\n        input x\n        return %x\n    ")]
    calls = [found.call_of(found.number_of(end)) for end in ends]
    assert calls == [(ends[0], ""), (ends[1], "input x\nreturn %x\n")]


def test_a_call_whose_end_is_unknown_or_elsewhere_is_found_by_its_line():
    found = source('g.inline("a")', 'g.inline("b")')
    end = found.find(None, 3, "b")

    assert found.find((99, 1), 3, "b") == found.find(end, 3, "b") == found.find(end, 2, "b") == end
    with pytest.raises(GoldenWriteError, match="is not the one that stands there"):
        found.find(end, 3, "c")
    with pytest.raises(GoldenWriteError, match="with a text of its own stands there"):
        found.find(None, 2, "b")


@pytest.mark.parametrize(
    "written",
    [
        b"",  # no text
        b"1",
        b"'other'",
        f"{TEXT!r}), (1".encode(),  # a call and something else
    ],
)
def test_a_file_that_would_be_another_program_is_not_written(monkeypatch, written):
    content = b"assert f == g.inline()\n"
    source = InlineSource(content, "test_a.py")
    (end,) = map(end_of, calls_of(content))
    monkeypatch.setattr(InlineSource, "_replacement", lambda self, literal, text: written)

    with pytest.raises(GoldenWriteError, match="would not be the same program with other texts; nothing was written"):
        source.rewritten({end: TEXT})
