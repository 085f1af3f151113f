"""Pages of HTML: pictures that fold and search, with texts and code beside them, in one file that needs no network."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

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
from pytest_fxgraph.report.graph_diff import node_line
from pytest_fxgraph.report.printable import printable_line

_MOST_SEEN = 150  # boxes at first
_MOST_PICTURES = 200  # of a page: each needs up to 300 kilobytes
_LONGEST_FACT = 2_000
_MOST_NODES = 20_000  # of a picture: 10,000 nodes take 3 megabytes; of a larger graph, the picture shows a part
_MOST_NODES_OF_A_PART = 4_000
_STAGE = "Picture"  # the name of the panel that a script fills


@dataclass(frozen=True)
class Entry:
    """What the list of a page knows of an entry."""

    id: str = ""  # the fragment of the entry's permanent link; made of the title if empty
    name: str = ""  # in the list; the title if empty
    test: str = ""
    modules: Sequence[str] = ()  # paths of the modules that the changes are in
    edits: Sequence[Mapping[str, Any]] = ()  # as `edit_data` returns them
    commands: Sequence[tuple[str, str]] = ()  # each command that accepts the change, with words for what it accepts


@dataclass(frozen=True)
class PageGraph:
    """A graph, or two graphs that differ, as a page shows them."""

    title: str
    status: str = ""  # "mismatch", "missing", ...
    headline: str = ""
    words: str = ""  # the whole difference as text
    expected: GraphDocument | None = None
    obtained: GraphDocument | None = None
    sources: Mapping[str, str] = field(default_factory=dict)  # name of an obtained node to its line of the model
    source: str = ""  # panel of the model's lines
    entry: Entry = Entry()


@dataclass(frozen=True)
class PageContent:
    """The texts of a page besides its graphs."""

    title: str
    summary: str = ""
    clusters: Sequence[Cluster] = ()
    sections: Sequence[str] = ()
    others: Mapping[str, Sequence[str]] = field(default_factory=dict)  # heading to the goldens without a picture
    facts: Mapping[str, str] = field(default_factory=dict)  # of the run: "commit", "torch", "platform", ...
    noun: str = "golden"  # the word for a thing that is compared


@dataclass(frozen=True)
class PageArticle:
    """An entry of a page: panels of HTML by name, and the data of a picture."""

    sort: str  # heading in the list; "" for a graph
    title: str
    status: str = ""
    headline: str = ""
    panels: Sequence[tuple[str, str]] = ()
    picture: dict[str, Any] | None = None  # as `picture.js` reads it
    entry: Entry = Entry()

    @property
    def digest(self) -> str:
        """The same for the same entry in each report, so that a browser knows the entries that were viewed."""
        words = [inner for name, inner in self.panels if name == "Words"]
        told = repr((self.title, self.status, self.headline, words))
        return hashlib.sha256(told.encode("utf-8", "replace")).hexdigest()[:8]


class Group(NamedTuple):
    """Entries that stand together in the list, below one heading."""

    heading: str
    cluster: str  # key of a cluster; "" for other groups
    members: Sequence[PageArticle]


def page_of_picture(picture: Picture, document: GraphDocument, *, is_full: bool = False) -> str:
    """Return the page of one graph."""
    opened = picture.all_opened() if is_full else picture.opened(_MOST_SEEN)
    panels = [(_STAGE, panel("stage")), *_graph_panels(document)]
    article = PageArticle("", picture.title, panels=panels, picture=picture_data(picture, sorted(opened)))
    return _page(PageContent(picture.title), [article])


_NO_LETTERS = re.compile(r"[^\w.:/@~]+")


def fragment_of(text: str) -> str:
    """Return a text as the fragment of a link. Letters, digits and `_.:/@~` stay; `-` stands for other characters."""
    return _NO_LETTERS.sub("-", text).strip("-") or "entry"


def page_text(content: PageContent, graphs: Sequence[PageGraph], articles: Sequence[PageArticle] = ()) -> str:
    """Return the page of several graphs and articles, with a list of the graphs by cluster.

    Graphs beyond _MOST_PICTURES have no picture, but all their words. Raises ReportError without Jinja2.
    """
    drawn = [_graph_article(graph, has_picture=number < _MOST_PICTURES) for number, graph in enumerate(graphs)]
    return _page(content, [*drawn, *articles])


def _page(content: PageContent, articles: Sequence[PageArticle]) -> str:
    groups = _groups(content.clusters, _with_ids(articles))
    listed = [article for group in groups for article in group.members]
    return page_from(content=content, articles=listed, groups=groups)


def _with_ids(articles: Sequence[PageArticle]) -> Iterator[PageArticle]:
    """Yield articles with an id each; of equal ids, the second ends in `~2`."""
    taken: Counter[str] = Counter()
    for article in articles:
        found = fragment_of(article.entry.id or article.title)
        taken[found] += 1
        end = f"~{taken[found]}" if taken[found] > 1 else ""
        yield replace(article, entry=replace(article.entry, id=found + end, name=article.entry.name or article.title))


def _groups(clusters: Sequence[Cluster], articles: Iterable[PageArticle]) -> list[Group]:
    """Group articles as the list shows them: goldens by cluster, other goldens, then other sorts of entries."""
    graphs: dict[str, list[PageArticle]] = {}
    sorts: dict[str, list[PageArticle]] = {}
    for article in articles:
        (sorts.setdefault(article.sort, []) if article.sort else graphs.setdefault(article.title, [])).append(article)
    groups = [
        Group(each.headline, each.key, [article for golden in each.goldens for article in graphs.pop(golden, ())])
        for each in clusters
    ]
    groups.append(Group("", "", [article for members in graphs.values() for article in members]))
    groups += [Group(sort, "", members) for sort, members in sorts.items()]
    return [group for group in groups if group.members]


def words_panel(text: str, name: str = "Words") -> tuple[str, str]:
    """Return a panel with a text of several lines."""
    return name, panel("words", text)


def _graph_article(graph: PageGraph, *, has_picture: bool) -> PageArticle:
    """Draw a graph, or the overlay of two, and pair the nodes of two graphs for the table."""
    document = graph.obtained or graph.expected
    panels = [words_panel(graph.words)] if graph.words else []
    panels += [("Source", graph.source)] if graph.source else []
    if document is None or not document.nodes:
        # Costs and breaks are recorded without nodes: breaks stand at lines of the model.
        costs = [each.cost if each is not None else None for each in (graph.expected, graph.obtained)]
        panels += [("Cost", cost_panel(*costs))] if any(costs) else []
        return PageArticle("", graph.title, graph.status, graph.headline, panels[::-1], None, graph.entry)
    expected, obtained = graph.expected, graph.obtained
    is_overlay = expected is not None and obtained is not None
    merged = merged_nodes(expected, obtained) if expected is not None else merged_nodes(document)
    picture = None
    if has_picture:
        seen = merged if len(merged) <= _MOST_NODES else near_changes(merged, _MOST_NODES_OF_A_PART)
        drawn = picture_of_nodes(seen, is_overlay=is_overlay, title=graph.title, sources=graph.sources)
        picture = picture_data(drawn, sorted(drawn.opened(_MOST_SEEN)))
        panels.insert(0, (_STAGE, panel("stage", _left_out(len(seen), len(merged), is_overlay=is_overlay))))
    if expected is not None and obtained is not None:
        panels += _overlay_panels(expected, obtained, merged)
    else:
        panels += _graph_panels(document)
    return PageArticle("", graph.title, graph.status, graph.headline, panels, picture, graph.entry)


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
