"""The page of a run in a real browser: two graphs side by side, failures, lowerings; skipped where there is none."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.documents import document
from pytest_fxgraph.document.encoding import encode
from pytest_fxgraph.draw.run_page import run_page
from pytest_fxgraph.report.json_report import RunReport
from pytest_fxgraph.report.numeric_failure import ErrorHistogram, NumericFailure, PathStep, TensorError
from pytest_fxgraph.report.outcome import Outcome
from pytest_fxgraph.report.run_record import RunRecord
from pytest_fxgraph.report.stage_strip import StageStrip, StripNode, StripStage

if sys.platform == "win32":
    pytest.skip("a browser is driven over files 3 and 4, which Windows does not hand over", allow_module_level=True)

from fixtures.browser import VARIABLE, Page, browser_page, browser_path

BROWSER = browser_path()
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(BROWSER is None, reason=f"there is no Chromium here; name one in {VARIABLE}"),
]
BEFORE = """
%x = input x : float32[2, 4]
%n = torch.neg(%x) : float32[2, 4] @ layers.0
%old = torch.clone(%n) : float32[2, 4] @ layers.0
%a = torch.relu(%old) : float32[2, 4] @ layers.0.act
%p = .reshape(%a, 2, 4) : float32[2, 4] @ layers.0
return %p
"""
AFTER = """
%x = input x : float32[2, 4]
%n = torch.neg(%x) : float32[2, 4] @ layers.0
%a = torch.tanh(%n) : float32[2, 4] @ layers.0.act
%p = .reshape(%a, 4, 2) : float32[4, 2] @ layers.0
%new = .contiguous(%p) : float32[4, 2] @ layers.0
return %new
"""
HOSTILE = "</script><script>document.body.remove()</script><img src=http://127.0.0.1:9/x onerror=alert(1)>\u2028\ud800"
SAME, STAGES = "test_net.py::test_same@equivalence", "test_net.py::test_stages@stages"
FAILURE = NumericFailure(
    "test_net.py::test_same",
    "eager and graph differ",
    "in words",
    (TensorError("output", "has other values", ("2 of 9",), ErrorHistogram(-3, (1, 0), (0, 2), 6)),),
    (PathStep("agrees", "linear", error=0.0), PathStep("first", "relu", "relu_1", "act", "model.py:3", "1", "2", 0.5)),
)
STRIP = StageStrip(
    "test_net.py::test_stages",
    (
        StripStage("export", (StripNode("fc", "aten.linear", "traced"), StripNode("r", "aten.relu", "traced"))),
        StripStage("decompose", tuple(StripNode(name, f"aten.{name}", "rewritten", (0,)) for name in ("t", "mm"))),
        StripStage("mine", (StripNode("mm", "aten.mm", "kept", (1,)), StripNode("c", "aten.clone", "added")), (0,)),
    ),
    "in words",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Page]:
    assert BROWSER is not None
    with browser_page(BROWSER) as page:
        yield page


def opened(browser: Page, folder: Path, **more: object) -> Page:
    graphs = tuple(encode(document(text, code="def forward(self, x):\n    return x")) for text in (BEFORE, AFTER))
    outcome = Outcome("test_net.py::test_net", "net.yaml", "structure", "mismatch", "-1 clone", graphs=graphs)
    record = RunRecord(had_path_arguments=False, finished=True)
    file = folder / "page.html"
    file.write_text(run_page(RunReport("1 golden differs", record, [outcome], **more)), encoding="utf-8")
    browser.requests.clear()
    browser.complaints.clear()
    browser.resize(1300, 850)
    browser.open(file)
    return browser


def labels(page: Page, pane: str) -> list[str]:
    found = page.ask(f"[...document.querySelectorAll('.pane.{pane} .node .label')].map(e => e.textContent)")
    return [str(label) for label in found]


def test_side_by_side_each_graph_has_its_own_nodes_in_its_own_words(browser, tmp_path):
    page = opened(browser, tmp_path)
    assert {"neg", "clone", "relu → tanh", ".reshape(4, 2)", ".contiguous"} < {*labels(page, "both")}

    page.ask("[...document.querySelectorAll('button')].find(b => b.textContent === 'Side by side').click()")

    assert labels(page, "both") == []
    assert {*labels(page, "expected")} == {"x", "neg", "clone", "relu", ".reshape(2, 4)", "output"}
    assert {*labels(page, "obtained")} == {"x", "neg", "tanh", ".reshape(4, 2)", ".contiguous", "output"}
    assert page.ask("document.querySelector('[aria-pressed=true]').textContent") == "Side by side"


def test_side_by_side_what_is_the_same_stands_and_moves_together(browser, tmp_path):
    page = opened(browser, tmp_path)
    page.ask("document.querySelector('[tabindex=\"0\"][data-child]').focus()")
    page.press("b")
    place = (
        "[...document.querySelectorAll('.pane:not([hidden])')].map(p => { const r = [...p.querySelectorAll('.node')]"
        ".find(n => n.getAttribute('aria-label').startsWith('n,')).getBoundingClientRect(), "
        "f = p.getBoundingClientRect(); return [r.x - f.x, r.y - f.y, r.width] })"
    )
    before = page.ask(place)

    page.call("Input.dispatchMouseEvent", type="mouseWheel", x=1000, y=500, deltaX=0, deltaY=240)
    page.settle()

    after = page.ask(place)
    assert before[0] == pytest.approx(before[1], abs=1.5)
    assert after[0] == pytest.approx(after[1], abs=1.5)
    assert after[0] != pytest.approx(before[0], abs=1.5)


def test_side_by_side_a_node_is_selected_in_both_graphs_and_a_box_folds_in_both(browser, tmp_path):
    page = opened(browser, tmp_path)
    page.ask("document.querySelector('.stage').view.split()")
    page.ask("document.querySelector('.stage').view.go(1)")
    assert page.ask("document.querySelectorAll('.pane:not([hidden]) .selected').length") == 2

    page.ask("document.querySelector('.stage').view.foldAll()")

    assert page.ask("[...document.querySelectorAll('.pane:not([hidden]) .folded')].length") == 2
    page.ask("document.querySelector('.pane.expected .folded').focus()")
    page.press("Enter")
    assert page.ask("document.querySelectorAll('.pane:not([hidden]) .cluster').length") == 2
    assert page.ask("document.activeElement.closest('.pane').className") == "pane expected"


def test_changes_are_told_by_signs_too(browser, tmp_path):
    page = opened(browser, tmp_path)

    signs = page.ask(
        "[...document.querySelectorAll('.node')].map(n => [n.querySelector('.label').textContent, "
        "n.querySelector('text.sign') && n.querySelector('text.sign').textContent])"
    )

    told = dict(signs)
    assert (told["clone"], told[".contiguous"], told["relu → tanh"]) == ("\N{MINUS SIGN}", "+", "~")
    assert told["neg"] is None


def test_failures_and_lowerings_are_chosen_in_the_list(browser, tmp_path):
    page = opened(browser, tmp_path, failures=[FAILURE], strips=[STRIP])

    page.ask(f"document.querySelector('nav a[href=\"#{SAME}\"]').click()")
    page.settle()
    assert page.ask("document.querySelector('article:not([hidden]) .way').innerText").count("differs first here")
    assert page.ask("document.querySelector('article:not([hidden]) .histogram').checkVisibility()") is False
    page.ask("document.querySelector('article:not([hidden]) [role=tab]:nth-child(2)').click()")
    assert page.ask("document.querySelector('article:not([hidden]) .histogram').checkVisibility()")
    page.ask(f"document.querySelector('nav a[href=\"#{STAGES}\"]').click()")
    page.settle()
    assert page.ask("document.querySelector('article:not([hidden]) .strip').children.length") == 3
    assert page.ask("scrollY") == 0
    assert page.complaints == []


def test_a_node_is_followed_through_its_lowering(browser, tmp_path):
    page = opened(browser, tmp_path, strips=[STRIP])
    page.ask(f"document.querySelector('nav a[href=\"#{STAGES}\"]').click()")
    page.settle()

    page.ask("document.querySelector('[data-node=\"1.1\"]').click()")

    assert page.ask("[...document.querySelectorAll('.strip .lit')].map(n => n.dataset.node)") == ["0.0", "1.1", "2.0"]
    assert page.ask("document.querySelector('.followed').textContent") == (
        "export: aten.linear → decompose: aten.mm → mine: aten.mm"
    )
    page.ask("document.querySelector('[data-node=\"0.0\"]').click()")
    lit = page.ask("[...document.querySelectorAll('.strip .lit')].map(n => n.dataset.node)")
    assert lit == ["0.0", "1.0", "1.1", "2.0", "2.gone.0"]


def test_nothing_from_a_model_runs_and_nothing_is_asked_for(browser, tmp_path):
    failure = NumericFailure(
        *[HOSTILE] * 3, (TensorError(HOSTILE, HOSTILE, (HOSTILE,)),), (PathStep("first", *[HOSTILE] * 6, 1.0),)
    )
    node = StripNode(HOSTILE, HOSTILE, "added", (), HOSTILE, HOSTILE)
    strip = StageStrip(HOSTILE, (StripStage(HOSTILE, (node,)), StripStage(HOSTILE, (node,), (0,))), HOSTILE)

    page = opened(browser, tmp_path, failures=[failure], strips=[strip], sections=[HOSTILE])
    for number in (2, 3):
        page.ask(f"document.querySelectorAll('nav a')[{number - 1}].click()")
        page.settle()
    page.ask("document.querySelector('.strip-node').click()")

    assert page.ask("document.images.length") == 0
    assert page.ask("document.querySelectorAll('article').length") == 3
    assert [address.partition(":")[0] for address in page.requests] == ["file"]
    assert page.complaints == []


def test_the_policy_of_the_page_lets_nothing_out(browser, tmp_path):
    page = opened(browser, tmp_path)

    answers = page.ask(
        "Promise.all([fetch('http://127.0.0.1:9/').then(() => 'out', () => 'no'), new Promise(done => { "
        "const i = new Image(); i.onload = () => done('out'); i.onerror = () => done('no'); "
        "i.src = 'http://127.0.0.1:9/x.png' })])"
    )

    assert answers == ["no", "no"]
    assert all("Content Security Policy" in text for text in page.complaints)
    assert len(page.complaints) >= 2


def test_every_control_has_a_name_for_a_screen_reader(browser, tmp_path):
    page = opened(browser, tmp_path, failures=[FAILURE], strips=[STRIP])

    nodes = page.call("Accessibility.getFullAXTree")["nodes"]

    roles = ("button", "link", "tab", "searchbox", "tabpanel", "navigation", "toolbar", "group")
    named = [
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in nodes
        if not node.get("ignored") and node.get("role", {}).get("value") in roles
    ]
    assert len([role for role, _ in named if role == "button"]) > 12
    assert [role for role, name in named if not name.strip()] == []


@pytest.mark.parametrize("dark", [False, True])
def test_texts_can_be_read_on_what_they_stand_on(browser, tmp_path, dark):
    page = opened(browser, tmp_path)
    page.resize(1300, 850, dark=dark)
    names = ("paper", "ink", "soft", "box", "added", "added-fill", "removed", "removed-fill", "changed", "changed-fill")
    colours = page.ask(
        f"{json.dumps(names)}.map(n => getComputedStyle(document.body).getPropertyValue('--' + n).trim())"
    )
    of = dict(zip(names, colours, strict=True))
    pairs = [("ink", "paper"), ("soft", "paper"), ("ink", "box"), ("soft", "box")]
    pairs += [(name, f"{name}-fill") for name in ("added", "removed", "changed")]
    pairs += [("ink", f"{name}-fill") for name in ("added", "removed", "changed")]

    low = {pair: round(contrast(of[pair[0]], of[pair[1]]), 2) for pair in pairs}

    assert {pair: ratio for pair, ratio in low.items() if ratio < 4.5} == {}


def contrast(one: str, other: str) -> float:
    """Return the ratio of contrast of two colours, as the guidelines for accessible content define it."""
    lights = sorted(map(luminance, (one, other)))
    return (lights[1] + 0.05) / (lights[0] + 0.05)


def luminance(colour: str) -> float:
    digits = colour.removeprefix("#")
    digits = "".join(digit * 2 for digit in digits) if len(digits) == 3 else digits
    parts = [int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_nothing_moves_for_readers_who_want_no_motion(browser, tmp_path):
    page = opened(browser, tmp_path, strips=[STRIP])
    page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": "reduce"}])

    moving = page.ask(
        "[...document.querySelectorAll('*')].filter(e => { const s = getComputedStyle(e); "
        "return parseFloat(s.transitionDuration) > 0 || s.animationName !== 'none' }).length"
    )

    assert moving == 0


def test_paper_holds_what_is_seen(browser, tmp_path):
    page = opened(browser, tmp_path, failures=[FAILURE])

    printed = page.call("Page.printToPDF", printBackground=True)["data"]

    assert len(printed) > 5_000
    assert page.complaints == []


EDITS = (
    {"kind": "inserted", "text": "clone removed", "title": "clone removed at layers.0", "changes": [],
     "places": [{"where": "layers.0", "expected": ["old"], "obtained": []}]},
    {"kind": "replaced", "text": "relu -> tanh", "title": "relu -> tanh at layers.0.act", "changes": [],
     "places": [{"where": "layers.0.act", "expected": ["a"], "obtained": ["a"]}] * 3},
)  # fmt: skip


def run_of_three(browser: Page, folder: Path, address: str = "") -> Page:
    """Open the page of a run: two goldens of one cause, a missing one, and one that is listed last."""
    graphs = tuple(encode(document(text)) for text in (BEFORE, AFTER))
    outcomes = [
        Outcome("t.py::new", "new.yaml", "structure", "missing", "there is no golden", graphs=graphs[1:]),
        *(
            Outcome(
                f"t.py::{name}", f"{name}.yaml", "structure", "mismatch", f"{name} differs", graphs=graphs, edits=edits,
                cluster=cluster, changes=({"module": module},), command=f"pytest --fx-update-golden t.py::{name}",
            )
            for name, cluster, module, edits in (
                ("one", "aaa", "layers.0.act", EDITS),
                ("two", "aaa", "layers.0", EDITS),
                ("head", "bbb", "head", EDITS[:1]),
            )
        ),
    ]  # fmt: skip
    record = RunRecord(had_path_arguments=False, finished=True)
    report = RunReport("4 goldens", record, outcomes, environment={"commit": "c0ffee", "torch": "2.13.0"})
    file = folder / "run.html"
    file.write_text(run_page(report), encoding="utf-8")
    browser.requests.clear()
    browser.complaints.clear()
    browser.resize(1300, 850)
    browser.open(file)
    browser.ask("(() => { try { localStorage.clear() } catch {} })()")
    browser.open(file)
    if address:
        browser.ask(f"location.hash = {json.dumps(address)}")
        browser.settle()
    return browser


SHOWN = "[...document.querySelectorAll('article')].filter(a => !a.hidden).map(a => a.id)"
LISTED = "[...document.querySelectorAll('nav li[data-key]:not([hidden]) a')].map(a => a.textContent)"


def test_the_first_entry_of_the_list_is_shown(browser, tmp_path):
    page = run_of_three(browser, tmp_path)

    assert page.ask(LISTED) == ["t.py::one", "t.py::two", "t.py::head", "t.py::new"]
    assert page.ask(SHOWN) == ["t.py::one"]
    assert page.ask("document.querySelector('nav [aria-current]').textContent") == "t.py::one"
    assert page.complaints == []


def test_keys_work_on_a_page_in_which_nothing_was_clicked(browser, tmp_path):
    page = run_of_three(browser, tmp_path)

    page.press("n")
    assert page.ask("document.querySelector('article:not([hidden]) .said').textContent") == "change 1 of 5"
    page = run_of_three(browser, tmp_path)
    page.press("j")
    page.press("j")
    assert page.ask(SHOWN) == ["t.py::head"]
    page.press("k")
    assert page.ask(SHOWN) == ["t.py::two"]
    assert page.ask("location.hash") == "#t.py::two"
    page.press("/")
    assert page.ask("document.activeElement.closest('.filter') !== null")
    page.write("j/n")
    assert page.ask("document.activeElement.value") == "j/n"


@pytest.mark.parametrize(
    ("terms", "names"),
    [
        ("test:two", ["two"]),
        ("status:missing", ["new"]),
        ("status:missing status:mismatch two", ["two"]),
        ("module:layers.0", ["one", "two"]),
        ("module:act", ["one"]),
        ("module:ac", []),
        ('edit:"relu -> tanh"', ["one", "two"]),
        ('edit:clone status:mismatch HEAD', ["head"]),
    ],
)  # fmt: skip
def test_the_list_is_filtered_by_test_status_module_and_edit(browser, tmp_path, terms, names):
    page = run_of_three(browser, tmp_path)
    page.press("/")

    page.write(terms)

    assert page.ask(LISTED) == [f"t.py::{name}" for name in names]
    assert page.ask("document.querySelector('.filter [role=status]').textContent") == f"{len(names)} of 4"
    if names:
        assert page.ask(SHOWN) == [f"t.py::{names[0]}"]


def test_the_address_keeps_the_filter_and_the_entry(browser, tmp_path):
    page = run_of_three(browser, tmp_path)
    page.ask("[...document.querySelectorAll('.filter button')].find(b => b.title === 'relu -> tanh').click()")
    page.press("j")
    address = page.ask("location.href")
    assert address.endswith("#t.py::two&filter=edit%3A%22relu%20-%3E%20tanh%22")

    page.call("Page.navigate", url="about:blank")
    page.settle()
    page.call("Page.navigate", url=address)
    page.settle()

    page.ask("new Promise(done => document.readyState === 'complete' ? done() : addEventListener('load', done))")
    assert page.ask(SHOWN) == ["t.py::two"]
    assert page.ask(LISTED) == ["t.py::one", "t.py::two"]
    pressed = "[...document.querySelectorAll('.filter [aria-pressed=true]')].map(b => b.title)"
    assert page.ask(pressed) == ["relu -> tanh"]
    page.ask("document.querySelector('.filter [aria-pressed=true]').click()")
    assert page.ask("document.querySelector('.filter input').value") == ""
    assert len(page.ask(LISTED)) == 4


def test_a_link_to_an_entry_that_is_gone_says_so(browser, tmp_path):
    page = run_of_three(browser, tmp_path, "#t.py::passed")

    assert page.ask(SHOWN) == ["t.py::one"]
    assert page.ask("document.querySelector('main').textContent").strip().startswith("There is no entry t.py::passed")


def test_viewed_entries_are_marked_until_their_difference_changes(browser, tmp_path):
    page = run_of_three(browser, tmp_path)
    page.press("j")
    viewed = "[...document.querySelectorAll('nav .viewed')].map(e => !e.hidden)"
    assert page.ask(viewed) == [True, True, False, False]

    page.open(tmp_path / "run.html")
    assert page.ask(viewed) == [True, True, False, False]
    page.ask("localStorage.setItem('pytest-fxgraph viewed', 'no JSON')")
    page.open(tmp_path / "run.html")
    assert page.ask(viewed) == [True, False, False, False]
    assert page.complaints == []


def test_a_page_without_storage_marks_entries_as_long_as_it_is_open(browser, tmp_path):
    script = "Object.defineProperty(window, 'localStorage', {get() { throw new DOMException('no', 'SecurityError') }})"
    added = browser.call("Page.addScriptToEvaluateOnNewDocument", source=script)
    page = run_of_three(browser, tmp_path)
    page.press("j")
    viewed = page.ask("[...document.querySelectorAll('nav .viewed')].filter(e => !e.hidden).length")
    browser.call("Page.removeScriptToEvaluateOnNewDocument", identifier=added["identifier"])

    assert viewed == 2
    assert page.complaints == []


def test_a_command_is_copied_with_and_without_the_clipboard_of_the_browser(browser, tmp_path):
    page = run_of_three(browser, tmp_path)
    command = "pytest --fx-update-golden t.py::one"
    page.ask("document.addEventListener('copy', () => { window.copied = getSelection().toString() })")
    page.ask("Object.defineProperty(navigator, 'clipboard', {value: undefined, configurable: true})")

    page.click("article:not([hidden]) .copy")

    assert page.ask("window.copied") == command
    assert page.ask("document.querySelector('article:not([hidden]) .copy').textContent") == "Copied"
    page.ask("document.execCommand = () => false")
    page.click("article:not([hidden]) .copy")
    assert page.ask("document.querySelector('article:not([hidden]) .copy').textContent") == "Press Ctrl+C"
    assert page.ask("getSelection().toString()") == command
    page.ask(
        "Object.defineProperty(navigator, 'clipboard', {value: {writeText: async text => { window.copied = text }}})"
    )
    page.ask("document.querySelectorAll('article:not([hidden]) .copy')[1].click()")
    page.settle()
    assert page.ask("window.copied") == "fxgraph accept --cluster aaa"


def test_an_edit_leads_to_its_first_place(browser, tmp_path):
    page = run_of_three(browser, tmp_path)

    page.click(".edit:not(li:first-child *)")

    assert page.ask("document.querySelector('article .edits').innerText").count("\N{MULTIPLICATION SIGN}3") == 1
    assert page.ask("document.querySelector('.selected').getAttribute('aria-label')").startswith("a, relu → tanh")


def test_others_of_a_cluster_are_opened_on_request(browser, tmp_path):
    page = run_of_three(browser, tmp_path)
    seen = "[...document.querySelectorAll('nav a')].filter(a => a.checkVisibility()).map(a => a.textContent)"
    assert page.ask(seen) == ["t.py::one", "t.py::head", "t.py::new"]

    page.click(".same-cause summary")

    assert page.ask(seen) == ["t.py::one", "t.py::two", "t.py::head", "t.py::new"]
