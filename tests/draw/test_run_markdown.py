"""The Markdown report: a table, a picture and the words of each cause, within what GitHub takes."""

from __future__ import annotations

import re

import pytest

from fixtures.documents import document
from pytest_fxgraph.document.encoding import encode
from pytest_fxgraph.document.model import GraphDocument
from pytest_fxgraph.draw.run_markdown import code_block, code_span, html_code, run_markdown, table
from pytest_fxgraph.report.json_report import RunReport
from pytest_fxgraph.report.numeric_failure import NumericFailure
from pytest_fxgraph.report.outcome import Outcome
from pytest_fxgraph.report.run_record import RunRecord

RECORD = RunRecord(had_path_arguments=False, finished=True)
TEXTS = tuple(encode(document(f"%x = input x\n%a = torch.{name}(%x)\nreturn %a")) for name in ("neg", "exp"))


def outcome(golden: str, status: str = "mismatch", **more: object) -> Outcome:
    values = {"headline": f"headline of {golden}", "command": f"pytest {golden}", "section": f"words of {golden}"}
    return Outcome(f"test_net.py::{golden}", golden, "structure", status, **{**values, **more})


def markdown(*outcomes: Outcome, summary: str = "3 goldens differ", most: int = 65_536, **more: object) -> str:
    return run_markdown(RunReport(summary, RECORD, outcomes, **more), most)


def test_the_table_has_golden_level_headline_and_the_command_that_accepts():
    lines = markdown(outcome("a.yaml")).split("\n")

    assert lines[:5] == [
        "## Graphs and goldens: 3 goldens differ",
        "",
        "| golden | level | what differs | accept with |",
        "| --- | --- | --- | --- |",
        "| `a.yaml` | `structure` | `headline of a.yaml` | `pytest a.yaml` |",
    ]


def test_goldens_of_one_cause_are_one_row_and_told_once():
    text = markdown(*(outcome(f"{n}.yaml", cluster="abc123", graphs=TEXTS) for n in range(12)), outcome("z.yaml"))

    assert (
        "| `0.yaml` and 11 more | `structure` | `headline of 0.yaml` "
        "| `fxgraph accept --cluster abc123` (all 12 goldens of this cause) |"
    ) in text
    assert text.count("<details") == text.count("</details>") == 2
    assert text.count("```mermaid") == 1
    assert "- `9.yaml`\n- and 2 more\n" in text
    assert "words of 1.yaml" not in text


def test_inline_goldens_of_a_cause_have_commands_of_their_own():
    inline = [outcome(f"test_net.py:{line}", cluster="abc123", inline={}) for line in (3, 9)]

    assert "| `pytest test_net.py:3` and `pytest test_net.py:9` |" in markdown(*inline)
    assert (
        "| `fxgraph accept --cluster abc123` (all 2 goldens of this cause in files) and "
        "`pytest test_net.py:3` and `pytest test_net.py:9` |"
    ) in markdown(*(outcome(name, cluster="abc123") for name in ("a.yaml", "b.yaml")), *inline)


@pytest.mark.parametrize(("count", "rest"), [(4, ""), (5, " and 1 more")])
def test_of_many_commands_four_are_told(count, rest):
    inline = [outcome(f"t.py:{line}", cluster="abc123", inline={}) for line in range(count)]
    four = "`pytest t.py:0` and `pytest t.py:1` and `pytest t.py:2` and `pytest t.py:3`"

    assert f"| {four}{rest} |" in markdown(*inline)


def test_a_golden_that_two_tests_compared_is_told_once_and_those_that_match_not_at_all():
    text = markdown(outcome("a"), outcome("a"), outcome("b", "matched"), outcome("c", "updated"))

    assert text.count("<details") == 1
    assert "`b`" not in text
    assert "`c`" not in text


def test_details_hold_the_picture_of_the_change_and_the_words():
    text = markdown(outcome("a.yaml", graphs=TEXTS))

    assert "<details open><summary><code>headline of a.yaml</code></summary>\n\n- `a.yaml`\n\n```mermaid\n" in text
    assert '["neg → exp"]:::changed' in text
    assert "```text\nwords of a.yaml\n```\n\n</details>\n" in text


def test_a_golden_of_kernels_has_words_and_no_empty_picture():
    kernels = encode(GraphDocument((), notes=("frontend: inductor", "kernel: copy: aten.clone; 4 B read, 4 B written")))
    text = markdown(outcome("a.yaml", graphs=(kernels, kernels)))

    assert "words of a.yaml" in text
    assert "mermaid" not in text


def test_a_missing_golden_shows_the_graph_that_would_be_written():
    text = markdown(outcome("a.yaml", "missing", graphs=TEXTS[1:]))

    assert "| `a.yaml` | `structure` | no golden yet | `pytest a.yaml` |" in text
    assert '["exp"]' in text


def test_a_numeric_failure_has_a_row_and_its_words():
    failure = NumericFailure("test_net.py::t", "eager and graph differ (mode eval): output is wide", "all of it")

    text = markdown(summary="", failures=[failure])

    assert "## Graphs and goldens: 1 check of eager against graph failed\n" in text
    assert "| `test_net.py::t` | eager and graph | `(mode eval): output is wide` |  |" in text
    assert "<summary><code>test_net.py::t</code>: eager and graph differ</summary>\n\n```text\nall of it\n```" in text


def test_a_run_without_goldens_says_so():
    assert markdown(summary="") == "## Graphs and goldens: no golden was compared\n\n"


def test_unused_goldens_and_what_hooks_say_are_there():
    text = markdown(unused=["old.yaml"], sections=["nightly: `x`"])

    assert "<details><summary>no test asked for 1 golden</summary>\n\n- `old.yaml`\n" in text
    assert "```text\nnightly: `x`\n```" in text


@pytest.mark.parametrize("most", [65_536, 8_000])
def test_a_report_is_no_longer_than_github_takes_and_says_what_is_left_out(most):
    text = markdown(*(outcome(f"{n}.yaml", section="long line \N{ROCKET}\n" * 200) for n in range(100)), most=most)

    assert len(text.encode()) <= most
    left_out = text.rstrip("\n").split("\n")[-1]
    assert re.match(r"Left out for lack of room: .*\d+ texts?", left_out)
    assert left_out.endswith("The page that `--fx-report x.html` writes has everything.")
    assert text.count("<details") == text.count("</details>")


def test_pictures_are_left_out_before_words():
    long = tuple(
        encode(document("%x = input x\n" + "\n".join(f"%a{n} = torch.{name}(%x)" for n in range(40)) + "\nreturn %a1"))
        for name in ("neg", "exp")
    )

    text = markdown(outcome("a.yaml", graphs=long), most=4_000)

    assert "mermaid" not in text
    assert "words of a.yaml" in text
    assert "Left out for lack of room: 1 picture." in text


def test_nothing_that_a_model_holds_is_markup():
    evil = "```\n</details><script>x</script>\n# heading | cell `tick` @someone\n::error::x"

    text = markdown(
        outcome(evil, headline=evil, command=evil, section=evil, graphs=("no graph",)),
        failures=[NumericFailure(evil, evil, evil)],
        unused=[evil],
        sections=[evil],
    )

    outside, fence = [], ""
    for line in text.split("\n"):
        if fence:
            fence = "" if line == fence else fence
        elif found := re.match("`{3,}", line):
            fence = found[0]
        else:
            outside.append(re.sub(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)|<code>.*?</code>", "", line))
    assert fence == ""
    assert not re.search("script|heading|someone|error::", "\n".join(outside))
    assert sum(line == "</details>" for line in outside) == sum(line.startswith("<details") for line in outside) == 3


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


@pytest.mark.parametrize(("causes", "failures", "is_open"), [(9, 0, True), (10, 0, False), (8, 1, True), (9, 1, False)])
def test_the_first_cause_is_open_where_few_are_told(causes, failures, is_open):
    failed = [NumericFailure(f"test_{number}", "words", "said") for number in range(failures)]

    text = markdown(*(outcome(f"{number}.yaml") for number in range(causes)), failures=failed)

    assert text.count("<details open>") == is_open
    assert text.count("<details") == causes + failures


def test_rows_that_do_not_fit_are_halved_until_the_table_fits():
    text = markdown(*(outcome(f"{number}.yaml") for number in range(40)), most=2_000)

    assert text.count("| `structure` |") == 5
    assert "Left out for lack of room: 35 rows, 40 texts." in text


def test_a_report_that_fits_beside_1500_bytes_is_whole():
    full = markdown(outcome("a.yaml"))
    size = len(full.encode())

    assert markdown(outcome("a.yaml"), most=size + 1_500) == full
    shorter = markdown(outcome("a.yaml"), most=size + 1_499)
    assert "Left out for lack of room: 1 text." in shorter
    assert "words of a.yaml" not in shorter


@pytest.mark.parametrize(("count", "is_open"), [(9, True), (10, False)])
def test_of_few_causes_the_first_is_open_and_of_many_eight_have_a_picture(count, is_open):
    text = markdown(*(outcome(f"{number}.yaml", graphs=TEXTS) for number in range(count)))

    assert text.count("```mermaid") == 8
    assert ("<details open><summary><code>headline of 0.yaml" in text) is is_open
    assert text.count("<details open>") == is_open


def test_pictures_without_room_do_not_count():
    long = tuple(
        encode(document("%x = input x\n" + "\n".join(f"%a{n} = torch.{name}(%x)" for n in range(40)) + "\nreturn %a1"))
        for name in ("neg", "exp")
    )
    large = [outcome(f"{number}.yaml", graphs=long) for number in range(9)]

    assert "mermaid" in markdown(*large, outcome("z.yaml", graphs=TEXTS), most=8_000)


def test_two_goldens_of_one_cause_are_counted():
    text = markdown(*(outcome(name, cluster="abc123") for name in ("a.yaml", "b.yaml")))

    assert "| `a.yaml` and 1 more |" in text
    assert "<summary>2 goldens: <code>headline of a.yaml</code></summary>" in text


@pytest.mark.parametrize(
    "graphs", [("no golden",), ("no golden", "no golden"), (TEXTS[0], "no golden"), ("no", TEXTS[0])]
)
def test_graphs_that_cannot_be_read_back_have_no_picture(graphs):
    text = markdown(outcome("a.yaml", graphs=graphs))

    assert "mermaid" not in text
    assert "words of a.yaml" in text


def test_without_a_command_that_accepts_there_is_no_column_for_it():
    lines = markdown(outcome("a.yaml"), accept="").split("\n")

    assert lines[2] == "| golden | level | what differs |"
    assert lines[4] == "| `a.yaml` | `structure` | `headline of a.yaml` |"
