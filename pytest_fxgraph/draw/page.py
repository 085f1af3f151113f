"""Pages of HTML: pictures that fold and search, with texts and code beside them, in one file that needs no network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pytest_fxgraph.document.model import GraphDocument
from pytest_fxgraph.draw.builder import picture_of_nodes
from pytest_fxgraph.draw.cost_panel import cost_panel
from pytest_fxgraph.draw.markup import preformatted, quoted, script_data
from pytest_fxgraph.draw.overlay import MergedNode, merged_nodes
from pytest_fxgraph.draw.picture import Fact, Picture
from pytest_fxgraph.draw.side_by_side import Row, table_html, text_rows
from pytest_fxgraph.report.change_text import clipped
from pytest_fxgraph.report.clusters import Cluster
from pytest_fxgraph.report.context import node_line
from pytest_fxgraph.report.graph_text import document_lines
from pytest_fxgraph.report.printable import printable_line

_HERE = Path(__file__).parent
_SCRIPTS = ("placement.js", "picture.js", "page.js")
_MOST_SEEN = 150  # boxes at first
_MOST_PICTURES = 200  # of a page: each is some hundred kilobytes
_LONGEST_FACT = 2_000
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


@dataclass(frozen=True)
class PageGraph:
    """A graph, or two that differ, as a page shows them; texts are shown as they are."""

    title: str
    status: str = ""  # "mismatch", "missing", ...
    headline: str = ""
    words: str = ""  # everything that is to be said
    expected: GraphDocument | None = None
    obtained: GraphDocument | None = None
    cluster: str = ""
    sources: Mapping[str, str] = field(default_factory=dict)  # lines of the model by the names of obtained nodes


@dataclass(frozen=True)
class PageContent:
    """What a page says besides its graphs."""

    title: str
    summary: str = ""
    clusters: Sequence[Cluster] = ()
    sections: Sequence[str] = ()
    others: Mapping[str, Sequence[str]] = field(default_factory=dict)  # goldens without a picture, by what they are
    command: str = ""  # that accepts a cluster, before its key


@dataclass(frozen=True)
class PageArticle:
    """Something else that a page shows, in panels of HTML by name."""

    sort: str  # under which it is listed: "numeric failures"
    title: str
    status: str = ""
    headline: str = ""
    panels: Sequence[tuple[str, str]] = ()


class _DrawnGraph(NamedTuple):
    graph: PageGraph
    data: dict[str, Any] | None = None  # of its picture
    rows: Sequence[Row] | None = None  # of two graphs


def page_of_picture(picture: Picture, document: GraphDocument, *, is_full: bool = False) -> str:
    """Return the page of one graph."""
    graph = PageGraph(picture.title, expected=document)
    opened = picture.all_opened() if is_full else picture.opened(_MOST_SEEN)
    return _page(PageContent(picture.title), [_DrawnGraph(graph, picture_data(picture, sorted(opened)))])


def page_text(content: PageContent, graphs: Sequence[PageGraph], articles: Sequence[PageArticle] = ()) -> str:
    """Return the page of several graphs, with a list of them and of the clusters they are in, and of what else is told.

    Only so many graphs are drawn; what differs in all others is told in words.
    """
    drawn = [_drawn(graph, has_picture=number < _MOST_PICTURES) for number, graph in enumerate(graphs)]
    return _page(content, drawn, articles)


def _drawn(graph: PageGraph, *, has_picture: bool) -> _DrawnGraph:
    """Draw a graph, and pair the nodes of two for the table."""
    document, is_overlay = graph.obtained or graph.expected, graph.expected is not None and graph.obtained is not None
    if document is None:
        return _DrawnGraph(graph)
    merged = merged_nodes(graph.expected, graph.obtained) if graph.expected is not None else merged_nodes(document)
    rows = [_node_row(node) for node in merged] if is_overlay else None
    if not has_picture:
        return _DrawnGraph(graph, None, rows)
    alone = None if is_overlay else document
    picture = picture_of_nodes(merged, alone, title=graph.title, sources=graph.sources)
    return _DrawnGraph(graph, picture_data(picture, sorted(picture.opened(_MOST_SEEN))), rows)


def picture_data(picture: Picture, opened: Sequence[int]) -> dict[str, Any]:
    """Return a picture as `picture.js` reads it."""
    return {
        "overlay": picture.is_overlay,
        "opened": list(opened),
        "nodes": [
            [
                *(printable_line(text) for text in (node.name, node.label, node.place)),
                *(node.sort, node.status, node.value),
                [_fact_data(fact) for fact in node.facts],
                *([[[printable_line(text) for text in side] for side in node.sides]] if node.sides else ()),
            ]
            for node in picture.nodes
        ],
        "edges": [[edge.source, edge.target] for edge in picture.edges],
        "clusters": [
            {
                "label": printable_line(each.label),
                "sort": each.sort,
                "path": printable_line(each.path),
                "count": each.nodes,
                "changes": each.changes,
                "children": each.children,
                "in": each.ports_in,
                "out": each.ports_out,
                "rows": each.layers.rows,
                "links": [
                    [link.source, link.target, link.bends, link.values, link.status] for link in each.layers.links
                ],
            }
            for each in picture.clusters
        ],
    }


def _fact_data(fact: Fact) -> list[str]:
    """Return what is known and the text, or two where they differ."""
    texts = [fact.obtained] if fact.expected == fact.obtained else [fact.expected, fact.obtained]
    return [printable_line(clipped(text, _LONGEST_FACT)) for text in (fact.what, *texts)]


def _page(content: PageContent, graphs: Sequence[_DrawnGraph], articles: Sequence[PageArticle] = ()) -> str:
    return "".join(_parts(content, graphs, articles))


def _parts(content: PageContent, graphs: Sequence[_DrawnGraph], articles: Sequence[PageArticle]) -> Iterator[str]:
    style = _file("picture.css") + _file("page.css")
    yield (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{quoted(content.title)}</title>\n<style>{style}</style></head>\n<body class='fx'>\n"
    )
    yield f"<header><h1>{quoted(content.title)}</h1>"
    yield f"<p>{quoted(content.summary)}</p></header>\n" if content.summary else "</header>\n"
    if len(graphs) + len(articles) > 1 or content.clusters or content.others or content.sections:
        yield from _overview(content, [each.graph for each in graphs], articles)
    yield "<main>\n"
    for number, drawn in enumerate(graphs):
        graph = drawn.graph
        data = "" if drawn.data is None else script_data(drawn.data)
        yield from _article(number, graph.title, graph.headline, [*_panels(drawn)], data)
    for number, article in enumerate(articles, len(graphs)):
        yield from _article(number, article.title, article.headline, article.panels)
    if not graphs and not articles:
        yield "<p>Nothing differs.</p>\n"
    yield f"</main>\n<script>\n{''.join(map(_file, _SCRIPTS))}</script>\n</body></html>\n"


def _file(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


def _overview(content: PageContent, graphs: Sequence[PageGraph], articles: Sequence[PageArticle]) -> Iterator[str]:
    yield '<nav aria-label="goldens">\n'
    numbers: dict[str, int] = {}
    for number, graph in enumerate(graphs):
        numbers.setdefault(graph.title, number)
    told: set[str] = set()
    for cluster in content.clusters:
        count = len(cluster.goldens)
        yield f'<section class="same-cause"><h2>{quoted(cluster.headline)}</h2>'
        words = "1 golden" if count == 1 else f"{count} goldens differ in this way"
        accept = f": <code>{quoted(content.command)} {quoted(cluster.key)}</code>" if content.command else ""
        yield f"<p>{words}, cluster {quoted(cluster.key)}{accept}</p><ul>"
        for golden in cluster.goldens:
            told.add(golden)
            yield _item(golden, numbers.get(golden), "mismatch")
        yield "</ul></section>\n"
    rest = [(number, graph) for number, graph in enumerate(graphs) if graph.title not in told]
    if rest:
        yield "<ul>"
        for number, graph in rest:
            yield _item(graph.title, number, graph.status)
        yield "</ul>\n"
    for sort in dict.fromkeys(article.sort for article in articles):
        yield f"<h2>{quoted(sort)}</h2><ul>"
        for number, article in enumerate(articles, len(graphs)):
            if article.sort == sort:
                yield _item(article.title, number, article.status)
        yield "</ul>\n"
    for what, goldens in content.others.items():
        yield f"<details><summary>{len(goldens)} {quoted(what)}</summary><ul>"
        for golden in goldens:
            yield _item(golden, None, "")
        yield "</ul></details>\n"
    for section in content.sections:
        yield f"{preformatted(section)}\n"
    yield "</nav>\n"


def _item(golden: str, number: int | None, status: str) -> str:
    mark = f' <span class="mark {quoted(status)}">{quoted(status)}</span>' if status else ""
    name = f'<a href="#graph-{number}">{quoted(golden)}</a>' if number is not None else quoted(golden)
    return f"<li>{name}{mark}</li>"


def _article(
    number: int, title: str, headline: str, panels: Sequence[tuple[str, str]], data: str = ""
) -> Iterator[str]:
    yield f'<article id="graph-{number}" aria-labelledby="title-{number}"><h2 id="title-{number}">{quoted(title)}</h2>'
    yield f'<p class="headline">{quoted(headline)}</p>\n' if headline else "\n"
    yield f'<div class="tabs" role="tablist" aria-labelledby="title-{number}">'
    for place, (name, _) in enumerate(panels):
        yield (
            f'<button type="button" role="tab" id="tab-{number}-{place}" aria-controls="panel-{number}-{place}" '
            f'aria-selected="{"false" if place else "true"}" tabindex="{-1 if place else 0}">{name}</button>'
        )
    yield "</div>\n"
    for place, (name, inner) in enumerate(panels):
        yield (
            f'<section role="tabpanel" id="panel-{number}-{place}" class="panel {name.lower()}" tabindex="0" '
            f'aria-labelledby="tab-{number}-{place}">{inner}</section>\n'
        )
    yield f"{data}</article>\n"


def _panels(drawn: _DrawnGraph) -> Iterator[tuple[str, str]]:
    graph = drawn.graph
    if drawn.data is not None:
        yield "Picture", '<div class="stage"><noscript>The picture needs JavaScript; the texts do not.</noscript></div>'
    if graph.words:
        yield "Words", preformatted(graph.words)
    if drawn.rows is not None and graph.expected is not None and graph.obtained is not None:
        yield "Nodes", table_html(drawn.rows, "The nodes of both graphs")
        if graph.expected.code and graph.obtained.code:
            yield "Code", table_html(text_rows(graph.expected.code, graph.obtained.code), "The generated code")
        if graph.expected.cost is not None or graph.obtained.cost is not None:
            yield "Cost", cost_panel(graph.expected.cost, graph.obtained.cost)
        return
    document = graph.expected or graph.obtained
    if document is not None:
        if document.cost is not None:
            yield "Cost", cost_panel(None, document.cost)
        yield "Nodes", preformatted("\n".join(document_lines(document)))
        if document.code:
            yield "Code", preformatted(document.code)


def _node_row(node: MergedNode) -> Row:
    expected, obtained = (node_line(each) if each is not None else None for each in (node.expected, node.obtained))
    return expected, obtained, bool(node.status)
