from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from fixtures.documents import document
from pytest_fxgraph.document.costs import CostBlock, CostRecord
from pytest_fxgraph.document.model import GraphDocument
from pytest_fxgraph.draw.builder import picture_of
from pytest_fxgraph.draw.page import (
    Entry,
    PageArticle,
    PageContent,
    PageGraph,
    fragment_of,
    page_of_picture,
    page_text,
    words_panel,
)
from pytest_fxgraph.report.clusters import Cluster

BEFORE = document(
    "%x = input x : float32[2]\n%a = torch.neg(%x)\nreturn %a", code="def forward(self, x):\n    return -x"
)
AFTER = document("%x = input x : float32[2]\n%a = torch.exp(%x)\nreturn %a", code="def forward(self, x):\n    return x")
TIMES = "\N{MULTIPLICATION SIGN}"
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\x1b[0m"


class Reader(HTMLParser):
    """Reads a page: its elements, the texts in them, and everything that it refers to."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.attributes: list[str] = []
        self.texts = ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "action", "srcset")]

    def handle_data(self, data):
        self.texts += data


def data_of(page: str) -> list[dict[str, object]]:
    return [
        json.loads(text) for text in re.findall(r'<script type="application/json" class="data">(.*)</script>', page)
    ]


def test_a_difference_is_told_in_picture_words_nodes_and_code():
    page = page_text(PageContent("two"), [PageGraph("net.yaml", "mismatch", "neg -> exp", "words", BEFORE, AFTER)])

    assert re.findall(r'role="tab".*?>(\w+)</button>', page) == ["Picture", "Words", "Nodes", "Code"]
    assert "<h2 id=" in page
    assert "neg -&gt; exp" in page
    assert "<del>neg</del>" in page
    assert "<ins>exp</ins>" in page
    (data,) = data_of(page)
    assert data["overlay"] is True
    assert [node[4] for node in data["nodes"]] == ["", "changed", ""]


def test_a_page_refers_to_nothing_outside_and_forbids_it():
    page = page_text(PageContent("two"), [PageGraph("net.yaml", expected=BEFORE, obtained=AFTER)])

    assert Reader(page).addresses == []
    assert "default-src 'none'" in page
    assert "unsafe-inline" not in page
    assert "style=" not in page
    assert "@import" not in page


def test_nothing_that_comes_from_files_is_markup():
    plain = Reader(page_text(PageContent("t", "s"), [PageGraph("n", "m", "h", "w", BEFORE, AFTER)]))
    graph = PageGraph(HOSTILE, HOSTILE, HOSTILE, HOSTILE, BEFORE, AFTER, sources={"a": HOSTILE})

    page = page_text(PageContent(HOSTILE, HOSTILE), [graph])

    assert Reader(page).tags == plain.tags
    assert sorted(Reader(page).attributes) == sorted(plain.attributes)
    assert "\x1b" not in page


def test_names_of_clusters_and_goldens_are_no_markup():
    cluster = Cluster(HOSTILE, HOSTILE, (HOSTILE, HOSTILE))
    content = PageContent("t", "s", [cluster], [HOSTILE], {HOSTILE: [HOSTILE]}, facts={HOSTILE: HOSTILE})
    edit = {"text": HOSTILE, "title": HOSTILE, "places": [{"obtained": [HOSTILE], "expected": []}] * 2}
    entry = Entry(HOSTILE, HOSTILE, HOSTILE, [HOSTILE], [edit, edit], [(HOSTILE, HOSTILE)])

    read = Reader(page_text(content, [PageGraph(HOSTILE, entry=entry), PageGraph(HOSTILE, entry=entry)]))

    assert "img" not in read.tags
    assert read.tags.count("script") == 1


def test_a_page_lists_clusters_with_their_goldens():
    clusters = [Cluster("3f09ac", "relu -> gelu", ("a.yaml", "b.yaml"))]
    graphs = [PageGraph(f"{name}.yaml", "mismatch", expected=BEFORE, obtained=AFTER) for name in "ab"]
    content = PageContent("run", "2 goldens differ", clusters, ("a section",), {"matched": ["c.yaml"]})

    page = page_text(content, graphs)

    read = Reader(page)
    assert "2 goldens differ in this way, cluster 3f09ac" in read.texts
    assert f"{TIMES}2, 1 more" in read.texts
    assert read.addresses == ["#a.yaml", "#b.yaml"]
    assert "1 matched" in read.texts
    assert "a section" in read.texts


def test_the_first_entry_of_the_list_is_the_first_article():
    graphs = [PageGraph(name, "missing", words="w") for name in "abc"]
    content = PageContent("run", clusters=[Cluster("3f09ac", "relu -> gelu", ("c", "a"))])
    results = PageArticle("results that differ", "t")

    page = page_text(content, graphs, [results])

    assert re.findall(r'<a href="#(\w+)"', page) == re.findall(r'<article id="(\w+)"', page) == ["c", "a", "b", "t"]


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("tests/test_net.py::TestNet::test_vit[12-bf16]", "tests/test_net.py::TestNet::test_vit-12-bf16"),
        ('test_net.py::test_net[größe & "x"]', "test_net.py::test_net-größe-x"),
        ("[]", "entry"),
    ],
)
def test_a_link_is_made_of_the_name_of_its_entry(text, fragment):
    assert fragment_of(text) == fragment


def test_entries_of_one_name_have_links_of_their_own():
    graphs = [PageGraph(name, words="w", entry=Entry("test[a b]")) for name in "ab"]

    assert Reader(page_text(PageContent("run"), graphs)).addresses == ["#test-a-b", "#test-a-b~2"]


def test_an_entry_is_viewed_until_its_difference_changes():
    told = [("x", "w"), ("x", "w"), ("y", "w"), ("x", "other words")]
    articles = [PageArticle("", "a.yaml", "mismatch", line, [words_panel(words)]) for line, words in told]

    assert [each.digest == articles[0].digest for each in articles] == [True, True, False, False]


def test_a_page_names_the_run_and_the_commands_that_accept():
    graph = PageGraph("a.yaml", entry=Entry(commands=[("fxgraph accept a.yaml", "this golden")]))

    page = page_text(PageContent("run", facts={"commit": "c0ffee", "torch": "2.13.0"}), [graph])

    assert "<span>commit <code>c0ffee</code></span><span>torch <code>2.13.0</code></span>" in page
    assert "accept this golden: <code>fxgraph accept a.yaml</code>" in page


def test_one_graph_has_a_picture_its_nodes_and_its_code():
    page = page_of_picture(picture_of(BEFORE, title="net.yaml"), BEFORE)

    assert re.findall(r'role="tab".*?>(\w+)</button>', page) == ["Picture", "Nodes", "Code"]
    assert "<nav" not in page
    (data,) = data_of(page)
    assert data["overlay"] is False


def test_a_graph_that_cannot_be_read_is_told_in_words():
    page = page_text(PageContent("run"), [PageGraph("a.yaml", "error", words="it is corrupt")])

    assert "it is corrupt" in page
    assert data_of(page) == []


def test_costs_without_nodes_have_no_picture():
    before, after = (GraphDocument((), cost=CostBlock(CostRecord(flops), 0, "")) for flops in (10, 20))

    page = page_text(PageContent("run"), [PageGraph("a.yaml", words="words", expected=before, obtained=after)])

    assert re.findall(r'role="tab".*?>(\w+)</button>', page) == ["Cost", "Words"]
    assert "20 <span" in page
    assert data_of(page) == []


def test_the_page_of_a_large_overlay_says_what_its_picture_leaves_out(monkeypatch):
    monkeypatch.setattr("pytest_fxgraph.draw.page._MOST_NODES", 10)
    monkeypatch.setattr("pytest_fxgraph.draw.page._MOST_NODES_OF_A_PART", 4)
    calls = [f"%n{place} = torch.neg(%n{place - 1})" for place in range(1, 20)]
    before = document("\n".join(["%n0 = input n0", *calls, "return %n19"]))
    after = document("\n".join(["%n0 = input n0", *calls, "return %n18"]))

    page = page_text(PageContent("two"), [PageGraph("net.yaml", "mismatch", "", "words", before, after)])

    assert "The picture shows 3 of 21 nodes, around what differs; 18 are left out, and the words list" in page
    assert len(data_of(page)[0]["nodes"]) == 3


def tabs_of(page: str) -> list[str]:
    return re.findall(r'role="tab".*?>(\w+)</button>', page)


def test_a_graph_without_a_partner_is_shown_alone():
    for graph in (PageGraph("a.yaml", expected=BEFORE), PageGraph("a.yaml", obtained=BEFORE)):
        page = page_text(PageContent("run"), [graph])

        assert tabs_of(page) == ["Picture", "Nodes", "Code"]
        assert "%a = torch.neg(%x)" in Reader(page).texts
        assert [data["overlay"] for data in data_of(page)] == [False]


@pytest.mark.parametrize("with_cost", [(True, True), (True, False), (False, True), (False, False)])
@pytest.mark.parametrize("with_code", [(True, True), (True, False), (False, False)])
def test_costs_and_code_of_two_graphs_have_a_panel_where_they_are_known(with_cost, with_code):
    cost = CostBlock(CostRecord(10), 0, "")
    graphs = [
        replace(graph, cost=cost if has_cost else None, code=graph.code if has_code else "")
        for graph, has_cost, has_code in zip((BEFORE, AFTER), with_cost, with_code, strict=True)
    ]

    page = page_text(PageContent("run"), [PageGraph("a.yaml", "", "", "", *graphs)])

    assert tabs_of(page)[2:] == [*["Code"] * all(with_code), *["Cost"] * any(with_cost)]


def test_costs_of_one_graph_have_a_panel():
    graph = replace(BEFORE, cost=CostBlock(CostRecord(1_234), 0, ""), code="")

    page = page_text(PageContent("run"), [PageGraph("a.yaml", obtained=graph)])

    assert tabs_of(page) == ["Picture", "Cost", "Nodes"]
    assert "1,234" in page


def test_graphs_beyond_a_number_have_their_words_and_no_picture(monkeypatch):
    monkeypatch.setattr("pytest_fxgraph.draw.page._MOST_PICTURES", 2)

    page = page_text(PageContent("run"), [PageGraph(name, words="w", obtained=BEFORE) for name in "abc"])

    assert tabs_of(page) == [*["Picture", "Words", "Nodes", "Code"] * 2, "Words", "Nodes", "Code"]


@pytest.mark.parametrize(("most", "count"), [(3, 3), (2, 2)])
def test_a_graph_with_the_largest_number_of_nodes_is_drawn_whole(monkeypatch, most, count):
    monkeypatch.setattr("pytest_fxgraph.draw.page._MOST_NODES", most)
    monkeypatch.setattr("pytest_fxgraph.draw.page._MOST_NODES_OF_A_PART", 2)

    page = page_text(PageContent("run"), [PageGraph("a.yaml", obtained=BEFORE)])

    assert len(data_of(page)[0]["nodes"]) == count
    assert ("The picture shows 2 of 3 nodes, at its beginning; 1 are left out" in page) is (most == 2)


def test_a_full_picture_is_opened_everywhere():
    calls = [f"%n{place} = torch.neg(%n{place - 1}) @ m{place}.a" for place in range(1, 200)]
    calls += [f"%n{place} = torch.neg(%n{place - 1}) @ m{place - 200}.a" for place in range(200, 400)]
    graph = document("\n".join(["%n0 = input n0", *calls, "return %n399"]))
    picture = picture_of(graph, title="net")

    opened = [len(data_of(page_of_picture(picture, graph, is_full=full))[0]["opened"]) for full in (False, True)]

    assert opened[0] < opened[1] == len(picture.clusters)


def test_the_list_shows_the_name_of_an_entry_or_else_its_title():
    graphs = [PageGraph("a.yaml", entry=Entry(name="the golden of a")), PageGraph("b.yaml")]

    texts = Reader(page_text(PageContent("run"), graphs)).texts

    assert "the golden of a" in texts
    assert "b.yaml" in texts


def test_a_fact_of_both_graphs_is_told_once_and_a_changed_fact_in_both_forms():
    (data,) = data_of(page_text(PageContent("two"), [PageGraph("net.yaml", expected=BEFORE, obtained=AFTER)]))

    facts = [fact for node in data["nodes"] for fact in node[6]]
    assert ["name", "a"] in facts
    assert ["target", "torch.neg", "torch.exp"] in facts


def test_a_digest_has_eight_digits():
    assert re.fullmatch("[0-9a-f]{8}", PageArticle("", "a.yaml").digest)


def test_a_changed_node_has_its_label_and_shape_in_either_graph():
    before = document("%x = input x : float32[2]\n%a = torch.neg(%x) : float32[2]\nreturn %a")
    after = document("%x = input x : float32[2]\n%a = torch.exp(%x) : float32[2]\nreturn %a")

    (data,) = data_of(page_text(PageContent("two"), [PageGraph("net.yaml", expected=before, obtained=after)]))

    assert [node[8:] for node in data["nodes"]] == [[], [[["neg", "2"], ["exp", "2"]]], []]
