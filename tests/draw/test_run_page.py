from __future__ import annotations

import re
from dataclasses import replace

from fixtures.documents import document
from pytest_fxgraph.document.encoding import encode
from pytest_fxgraph.draw.run_page import run_page
from pytest_fxgraph.report.json_report import RunReport
from pytest_fxgraph.report.numeric_failure import ErrorHistogram, NumericFailure, PathStep, TensorError
from pytest_fxgraph.report.outcome import Outcome
from pytest_fxgraph.report.run_record import RunRecord
from pytest_fxgraph.report.stage_strip import StageStrip, StripNode, StripStage

RECORD = RunRecord(had_path_arguments=False, finished=True)
TEXTS = tuple(encode(document(f"%x = input x\n%a = torch.{name}(%x)\nreturn %a")) for name in ("neg", "exp"))


def outcome(golden: str, status: str = "mismatch", **more: object) -> Outcome:
    return Outcome(f"test_net.py::{golden}", golden, "structure", status, f"headline of {golden}", **more)


def page(*outcomes: Outcome, **more: object) -> str:
    return run_page(RunReport("summary", RECORD, outcomes, **more))


def test_goldens_that_differ_in_the_same_way_stand_together_the_largest_cluster_first():
    text = page(outcome("a", cluster="aaa"), outcome("b", cluster="bbb"), outcome("c", cluster="bbb"))

    assert text.index("cluster bbb") < text.index("cluster aaa")
    assert "2 goldens differ in this way" in text
    assert "all 2 goldens of this cause: <code>fxgraph accept --cluster bbb</code>" in text


def test_a_mismatch_has_a_picture_with_the_lines_of_the_model():
    text = page(outcome("a", graphs=TEXTS, sources=("", "model.py:3: exp(x)", "")))

    assert '"overlay":true' in text
    assert '["source","model.py:3: exp(x)"]' in text


def test_links_follow_the_tests_and_stay_where_other_goldens_match():
    first, second = (replace(outcome(name), nodeid="test_net.py::test_net[a]") for name in ("one.yaml", "two.yaml"))

    assert re.findall('<article id="(.*?)"', page(first, second)) == [
        "test_net.py::test_net-a",
        "test_net.py::test_net-a.2",
    ]
    assert re.findall('<article id="(.*?)"', page(replace(first, status="matched"), second)) == [
        "test_net.py::test_net-a.2"
    ]


def test_a_break_stands_at_its_lines_of_source(tmp_path):
    (tmp_path / "model.py").write_text("def forward(x):\n    x = f(x)\n    print(x)\n    return x\n")
    change = {"subject": "break", "action": "added", "node": "print in forward", "field": None, "operator": None}
    change |= {"file": "model.py", "line": 3, "text": "print(x)"}
    golden = outcome("a", changes=(change,))
    failure = NumericFailure("t", "h", "s", check="capture", places=(("model.py:3: print(x)", "graph break: print"),))

    text = run_page(RunReport("", RECORD, [golden], failures=[failure]), tmp_path)

    assert re.findall(r'role="tab".*?>(\w+)</button>', text) == ["Source", "Words", "Source", "Words"]
    assert text.count("<td>    x = f(x)</td>") == 2
    assert "graph break added: print in forward</div>" in text
    assert "graph break: print</div>" in text


def test_an_entry_knows_its_test_status_modules_and_edits():
    edit = {"text": "F.gelu -> nn.GELU", "title": "F.gelu -> nn.GELU at 2 places", "places": [], "changes": [0]}
    changes = ({"module": "blocks.0"}, {"module": None}, {"module": "blocks.1"})

    (item,) = re.findall("<li data-key=.*", page(outcome("a.yaml", changes=changes, edits=(edit,), cluster="aaa")))
    assert 'data-test="test_net.py::a.yaml a.yaml" data-status="mismatch" data-module="blocks.0 blocks.1"' in item
    assert 'data-edit="F.gelu -&gt; nn.GELU"' in item


def test_a_missing_golden_has_the_picture_of_the_graph():
    text = page(outcome("a", "missing", graphs=TEXTS[1:]))

    assert '"overlay":false' in text


def test_what_cannot_be_read_back_is_told_in_words():
    text = page(outcome("a", "error", lines=("it is corrupt",), graphs=("no golden",)))

    assert "it is corrupt" in text
    assert "application/json" not in text


def test_what_matched_and_what_nobody_asked_for_is_counted():
    text = page(outcome("a", "matched"), outcome("a", "matched"), outcome("b", "matched"), unused=["old.yaml"])

    assert "<summary>2 matched</summary>" in text
    assert "<summary>1 not asked for by any test</summary>" in text


def test_a_golden_that_two_tests_compared_is_told_once():
    assert page(outcome("a"), outcome("a")).count("<article") == 1


def test_a_run_without_goldens_has_a_page():
    assert "no golden was compared" in run_page(RunReport("", RECORD))


def test_a_numeric_failure_is_listed_with_its_way_its_errors_and_its_words():
    path = (PathStep("first", "relu", "relu_1", "block", "model.py:3", "1", "2", 0.5),)
    tensors = (TensorError("output", "has other values", ("2 of 3",), ErrorHistogram(-1, (1,), (2,), 0)),)
    failure = NumericFailure("test_net.py::test_net", "eager and graph differ", "all of it", tensors, path)

    text = page(failures=[failure])

    assert "summary; 1 test computed other results" in text
    assert (
        '<a href="#test_net.py::test_net@equivalence" title="test_net.py::test_net">test_net.py::test_net</a>'
        in page(outcome("a", "error"), failures=[failure])
    )
    assert re.findall(r'role="tab".*?>(\w+)</button>', text) == ["Way", "Errors", "Words"]


def test_a_lowering_is_listed_with_its_stages():
    nodes = (StripNode("fc", "aten.linear", "traced"),)
    strip = StageStrip("test_net.py::test_net", (StripStage("export", nodes), StripStage("mine", nodes)), "in words")

    text = page(strips=[strip])

    assert "summary; 1 lowering was followed" in text
    assert re.findall(r'role="tab".*?>(\w+)</button>', text) == ["Stages", "Words"]
    assert "export \N{RIGHTWARDS ARROW} mine" in text


def test_a_test_with_several_mismatches_names_the_golden_of_each():
    first, second = (replace(outcome(name), nodeid="test_net.py::test_net") for name in ("one.yaml", "two.yaml"))

    assert "test_net.py::test_net (two.yaml)" in page(first, second)
    assert "(two.yaml)" not in page(replace(first, status="matched"), second)


def test_a_numeric_failure_stands_at_the_line_and_in_the_module_where_both_first_differ(tmp_path):
    (tmp_path / "model.py").write_text("a\nb\nc\nd\ne\n")
    path = (
        PathStep("agrees", "linear", "fc", "net.fc", "model.py:1: a", "1", "1", 0.0),
        PathStep("first", "relu", "relu_1", "net.block", "model.py:3: c", "1", "2", 0.5),
        PathStep("first", "neg", "neg", "", "model.py:4: d", "1", "2", 0.5),
        PathStep("differs", "add", "add", "net.tail", "model.py:5: e", "1", "2", 0.5),
    )

    failures = [NumericFailure(name, "h", "s", (), path) for name in "tu"]
    text = run_page(RunReport("", RECORD, failures=failures), tmp_path)

    assert re.findall(r'class="note">.*?</span> (.*?)</div>', text) == [
        *("differs first here: relu", "differs first here: neg"),
        *("differs first here: relu", "differs first here: neg"),
    ]
    assert text.count('data-status="results that differ" data-module="net.block" ') == 2
    assert "results that differ" in text


def test_failures_of_captures_stand_below_a_heading_of_their_own():
    failures = [NumericFailure("t", "h", "s", check=check) for check in ("capture", "equivalence")]

    text = page(failures=failures)

    headings = [text.index(heading) for heading in ("graph breaks", "results that differ")]
    assert all(headings)
    assert 'href="#t@capture"' in text


def test_a_golden_names_the_command_that_accepts_it_alone_or_all_of_its_test():
    for is_alone, words in ((True, "this golden"), (False, "all goldens of its test")):
        golden = outcome("a", command="pytest --fx-update-golden", is_alone=is_alone)

        assert f"accept {words}: <code>pytest --fx-update-golden</code>" in page(golden)
    assert "accept this golden" not in page(outcome("a"))


def test_the_golden_stands_before_the_obtained_graph():
    assert '["target","torch.neg","torch.exp"]' in page(outcome("a", graphs=TEXTS))
