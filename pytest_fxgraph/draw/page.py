"""Pages of HTML: pictures that fold and search, with texts and code beside them, in one file that needs no network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_fxgraph.document.model import GraphDocument
from pytest_fxgraph.document.text_writer import document_lines
from pytest_fxgraph.draw.builder import picture_of_nodes
from pytest_fxgraph.draw.overlay import MergedNode, merged_nodes, near_changes
from pytest_fxgraph.draw.panels import cost_panel
from pytest_fxgraph.draw.picture import Fact, Picture
from pytest_fxgraph.draw.placement import closed_size, cluster_lines, node_size
from pytest_fxgraph.draw.side_by_side import Row, table_html, text_rows
from pytest_fxgraph.draw.templates import page_from, panel
from pytest_fxgraph.report.change_text import clipped
from pytest_fxgraph.report.clusters import Cluster
from pytest_fxgraph.report.context import node_line
from pytest_fxgraph.report.printable import printable_line

_MOST_SEEN = 150  # boxes at first
_MOST_PICTURES = 200  # of a page: each needs up to 300 kilobytes
_LONGEST_FACT = 2_000
_MOST_NODES = 20_000  # of a picture: 10,000 nodes take 3 megabytes; of a larger graph, the picture shows a part
_MOST_NODES_OF_A_PART = 4_000
_STAGE = "Picture"  # the name of the panel that a script fills


@dataclass(frozen=True)
class PageGraph:
    """A graph, or two graphs that differ, as a page shows them."""

    title: str
    status: str = ""  # "mismatch", "missing", ...
    headline: str = ""
    words: str = ""  # the whole difference as text
    expected: GraphDocument | None = None
    obtained: GraphDocument | None = None
    cluster: str = ""
    sources: Mapping[str, str] = field(default_factory=dict)  # name of an obtained node to its line of the model


@dataclass(frozen=True)
class PageContent:
    """The texts of a page besides its graphs."""

    title: str
    summary: str = ""
    clusters: Sequence[Cluster] = ()
    sections: Sequence[str] = ()
    others: Mapping[str, Sequence[str]] = field(default_factory=dict)  # heading to the goldens without a picture
    command: str = ""  # command that accepts a cluster, without the key


@dataclass(frozen=True)
class PageArticle:
    """An entry of a page: panels of HTML by name, and the data of a picture."""

    sort: str  # heading of the entry in the list; empty for a golden
    title: str
    status: str = ""
    headline: str = ""
    panels: Sequence[tuple[str, str]] = ()
    picture: dict[str, Any] | None = None  # as `picture.js` reads it


def page_of_picture(picture: Picture, document: GraphDocument, *, is_full: bool = False) -> str:
    """Return the page of one graph."""
    opened = picture.all_opened() if is_full else picture.opened(_MOST_SEEN)
    panels = [(_STAGE, panel("stage")), *_graph_panels(document)]
    article = PageArticle("", picture.title, panels=panels, picture=picture_data(picture, sorted(opened)))
    return _page(PageContent(picture.title), [article])


def page_text(content: PageContent, graphs: Sequence[PageGraph], articles: Sequence[PageArticle] = ()) -> str:
    """Return the page of several graphs and articles, with a list of the graphs by cluster.

    Graphs beyond _MOST_PICTURES have no picture, but all their words. Raises ReportError without Jinja2.
    """
    drawn = [_graph_article(graph, has_picture=number < _MOST_PICTURES) for number, graph in enumerate(graphs)]
    return _page(content, [*drawn, *articles])


def _page(content: PageContent, articles: Sequence[PageArticle]) -> str:
    numbers: dict[str, int] = {}
    groups: dict[str, list[tuple[int, PageArticle]]] = {}
    clustered = {golden for cluster in content.clusters for golden in cluster.goldens}
    for number, article in enumerate(articles):
        if not article.sort:
            numbers.setdefault(article.title, number)
        if article.sort or article.title not in clustered:
            groups.setdefault(article.sort, []).append((number, article))
    return page_from(content=content, articles=articles, numbers=numbers, groups=groups)


def words_panel(text: str, name: str = "Words") -> tuple[str, str]:
    """Return a panel with a text of several lines."""
    return name, panel("words", text)


def _graph_article(graph: PageGraph, *, has_picture: bool) -> PageArticle:
    """Draw a graph, or the overlay of two, and pair the nodes of two graphs for the table."""
    document = graph.obtained or graph.expected
    panels = [words_panel(graph.words)] if graph.words else []
    if document is None:
        return PageArticle("", graph.title, graph.status, graph.headline, panels)
    expected, obtained = graph.expected, graph.obtained
    is_overlay = expected is not None and obtained is not None
    merged = merged_nodes(expected, obtained) if expected is not None else merged_nodes(document)
    picture = None
    if has_picture:
        alone = None if is_overlay else document
        seen = merged if len(merged) <= _MOST_NODES else near_changes(merged, _MOST_NODES_OF_A_PART)
        drawn = picture_of_nodes(seen, alone, title=graph.title, sources=graph.sources)
        picture = picture_data(drawn, sorted(drawn.opened(_MOST_SEEN)))
        panels.insert(0, (_STAGE, panel("stage", _left_out(len(seen), len(merged), is_overlay=is_overlay))))
    if expected is not None and obtained is not None:
        panels += _overlay_panels(expected, obtained, merged)
    else:
        panels += _graph_panels(document)
    return PageArticle("", graph.title, graph.status, graph.headline, panels, picture)


def _left_out(seen: int, count: int, *, is_overlay: bool) -> str:
    """Return the note above a picture that shows a part of its graph; "" above a whole picture."""
    if seen == count:
        return ""
    part = "around what differs" if is_overlay else "at its beginning"
    where = "the words list what differs" if is_overlay else "the nodes are listed in full beside it"
    return f"The picture shows {seen:,} of {count:,} nodes, {part}; {count - seen:,} are left out, and {where}."


def _graph_panels(document: GraphDocument) -> Iterator[tuple[str, str]]:
    if document.cost is not None:
        yield "Cost", cost_panel(None, document.cost)
    yield words_panel("\n".join(document_lines(replace(document, code=""))), "Nodes")
    if document.code:
        yield words_panel(document.code, "Code")


def _overlay_panels(
    expected: GraphDocument, obtained: GraphDocument, merged: Sequence[MergedNode]
) -> Iterator[tuple[str, str]]:
    yield "Nodes", table_html([_node_row(node) for node in merged], "The nodes of both graphs")
    if expected.code and obtained.code:
        yield "Code", table_html(text_rows(expected.code, obtained.code), "The generated code")
    if expected.cost is not None or obtained.cost is not None:
        yield "Cost", cost_panel(expected.cost, obtained.cost)


def _node_row(node: MergedNode) -> Row:
    expected, obtained = (node_line(each) if each is not None else None for each in (node.expected, node.obtained))
    return expected, obtained, bool(node.status)


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
                printable_line(node.change),
                *([[[printable_line(text) for text in side] for side in node.sides]] if node.sides else ()),
            ]
            for node in picture.nodes
        ],
        # By child: of a node, and of a cluster that is not open.
        "sizes": [*map(node_size, picture.nodes), *(closed_size(picture, each) for each in picture.clusters)],
        "edges": [[edge.source, edge.target] for edge in picture.edges],
        "clusters": [
            {
                "label": printable_line(each.label),
                "lines": [*map(printable_line, cluster_lines(each))],
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
    """Return the name of a fact and its text, or both texts where the graphs differ."""
    texts = [fact.obtained] if fact.expected == fact.obtained else [fact.expected, fact.obtained]
    return [printable_line(clipped(text, _LONGEST_FACT)) for text in (fact.what, *texts)]
