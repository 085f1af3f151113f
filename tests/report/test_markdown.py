"""Nothing that a model's author writes is markup in a report."""

from __future__ import annotations

import re

import pytest

from pytest_fxgraph.report.markdown import code_block, code_span, html_code, table

HOSTILE = [
    "plain",
    "`",
    "a`b``c",
    "```\n# heading",
    "<img src=x onerror=alert(1)>",
    "a|b",
    "\\|",
    "]]>--></details><script>",
    "@someone #1 [a](javascript:b)",
    "~~~\r\nx",
]


def test_an_ordinary_text_is_a_code_span():
    assert code_span("torch.relu -> torch.tanh") == "`torch.relu -> torch.tanh`"


@pytest.mark.parametrize("text", HOSTILE)
def test_a_span_holds_a_text_on_one_line_and_no_backtick_in_it_ends_it(text):
    span = code_span(text)

    assert "\n" not in span
    assert "\r" not in span
    fence, inside = re.fullmatch(r"(`+)(.+?)\1", span).groups()
    assert fence not in re.findall("`+", inside)
    assert inside[0] != "`" != inside[-1]


@pytest.mark.parametrize("text", ["a|b", "\\|", "`|<b>", "|"])
def test_a_pipe_cannot_end_a_cell(text):
    row = table(["a"], [[code_span(text)]])[-1]

    assert len(re.findall(r"(?<!\\)\|", row)) == 2  # those of the row itself
    assert row.count(r"\|") == 1


def test_a_long_span_is_cut_in_the_middle():
    assert len(code_span("x" * 10_000)) < 400
    assert " ... " in code_span("x" * 10_000)


def test_nothing_is_no_span():
    assert code_span(" ") == ""


@pytest.mark.parametrize("text", HOSTILE)
def test_no_line_of_a_block_ends_it(text):
    lines = code_block(text)

    fence = lines[0].removesuffix("text")
    assert set(fence) == {"`"}
    assert lines[-1] == fence
    assert not any(line.lstrip().startswith(fence) for line in lines[1:-1])


def test_a_block_has_no_control_characters():
    assert code_block("a\x1b[31m\rb\u202e") == ["```text", "a\\x1b[31m\\x0db\\u202e", "```"]


def test_html_is_escaped():
    assert html_code("</code><script>\n&") == "<code>&lt;/code&gt;&lt;script&gt;\\n&amp;</code>"


def test_a_table_has_a_row_for_each():
    assert table(["a", "b"], [["1", "2"]]) == ["| a | b |", "| --- | --- |", "| 1 | 2 |"]
