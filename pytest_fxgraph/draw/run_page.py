"""The report of a run as a page: the results of the goldens, and a picture of each golden that differs."""

from __future__ import annotations

from pytest_fxgraph.document.decoding import decode
from pytest_fxgraph.document.model import GraphDocument
from pytest_fxgraph.draw.page import PageArticle, PageContent, PageGraph, page_text, words_panel
from pytest_fxgraph.draw.panels import failure_panels, strip_panel
from pytest_fxgraph.errors import GoldenError
from pytest_fxgraph.report.clusters import Cluster
from pytest_fxgraph.report.json_report import RunReport
from pytest_fxgraph.report.outcome import Outcome
from pytest_fxgraph.report.printable import counted

ACCEPT = "fxgraph accept --cluster"


def run_page(report: RunReport) -> str:
    """Return the page of a run. A failed golden has one entry, however many tests compared it."""
    causes = report.failed_by_cause()
    others: dict[str, dict[str, None]] = {}
    for outcome in report.outcomes:
        if not outcome.has_failed:
            others.setdefault(outcome.status, {})[outcome.golden] = None
    goldens = {what: tuple(sorted(found)) for what, found in others.items()}
    if report.unused:
        goldens["not asked for by any test"] = tuple(report.unused)
    told = [report.summary or "no golden was compared"]
    broken = sum(failure.check == "capture" for failure in report.failures)
    if len(report.failures) > broken:
        told.append(f"{counted(len(report.failures) - broken, 'test')} computed other results")
    if broken:
        told.append(f"{counted(broken, 'model')} not captured whole")
    if report.strips:
        verb = "was" if len(report.strips) == 1 else "were"
        told.append(f"{counted(len(report.strips), 'lowering')} {verb} followed")
    summary = "; ".join(told)
    clusters = [
        Cluster(cause[0].cluster, cause[0].headline, tuple(outcome.golden for outcome in cause))
        for cause in causes
        if cause[0].cluster
    ]
    content = PageContent("Graphs and goldens", summary, clusters, report.sections, goldens, ACCEPT)
    articles = [
        PageArticle(
            "results that differ" if failure.check == "equivalence" else "graph breaks",
            failure.nodeid,
            "mismatch",
            failure.headline,
            [*failure_panels(failure), words_panel(failure.section)],
        )
        for failure in report.failures
    ]
    articles += [
        PageArticle(
            "lowerings",
            strip.nodeid,
            headline=strip.title,
            panels=[("Stages", strip_panel(strip)), words_panel(strip.text)],
        )
        for strip in report.strips
    ]
    return page_text(content, [_page_graph(outcome) for cause in causes for outcome in cause], articles)


def _page_graph(outcome: Outcome) -> PageGraph:
    documents = [graph_of(text, outcome.golden) for text in outcome.graphs]
    obtained = documents[-1] if documents else None
    expected = documents[0] if len(documents) > 1 else None
    sources: dict[str, str] = {}
    if obtained is not None and len(obtained.nodes) == len(outcome.sources):
        pairs = zip(obtained.nodes, outcome.sources, strict=True)
        sources = {node.name: source for node, source in pairs if source}
    return PageGraph(
        outcome.golden,
        outcome.status,
        outcome.headline,
        "\n\n".join(filter(None, (outcome.nodeid, outcome.section or "\n".join(outcome.lines)))),
        expected,
        obtained,
        outcome.cluster,
        sources,
    )


def graph_of(text: str, name: str) -> GraphDocument | None:
    """Read a graph of an outcome; None for a text that cannot be read back, which is shown in words alone."""
    try:
        return decode(text, name)
    except GoldenError:
        return None
