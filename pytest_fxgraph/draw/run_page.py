"""The report of a run as a page: the results of the goldens, and a picture of each golden that differs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from pytest_fxgraph.document.decoding import decode
from pytest_fxgraph.document.model import GraphDocument
from pytest_fxgraph.draw.page import Entry, PageArticle, PageContent, PageGraph, fragment_of, page_text, words_panel
from pytest_fxgraph.draw.panels import failure_panels, strip_panel
from pytest_fxgraph.draw.source_lines import notes_of, source_panel
from pytest_fxgraph.errors import GoldenError
from pytest_fxgraph.report.clusters import Cluster
from pytest_fxgraph.report.json_report import RunReport
from pytest_fxgraph.report.numeric_failure import NumericFailure
from pytest_fxgraph.report.outcome import Outcome
from pytest_fxgraph.report.printable import counted


def run_page(report: RunReport, folder: Path = Path()) -> str:
    """Return the page of a run. A failed golden has one entry, however many tests compared it.

    The paths of the model's lines are relative to `folder`.
    """
    causes = report.failed_by_cause()
    others: dict[str, dict[str, None]] = {}
    for outcome in report.outcomes:
        if not outcome.has_failed:
            others.setdefault(outcome.status, {})[outcome.golden] = None
    goldens = {what: tuple(sorted(found)) for what, found in others.items()}
    if report.unused:
        goldens["not asked for by any test"] = tuple(report.unused)
    clusters = [
        Cluster(cause[0].cluster, cause[0].headline, tuple(outcome.golden for outcome in cause))
        for cause in causes
        if cause[0].cluster
    ]
    summary, facts = _summary(report), report.environment
    content = PageContent(report.title, summary, clusters, report.sections, goldens, facts=facts, noun=report.noun)
    articles = [_failure_article(failure, folder) for failure in report.failures]
    articles += [
        PageArticle(
            "lowerings",
            strip.nodeid,
            headline=strip.title,
            panels=[("Stages", strip_panel(strip)), words_panel(strip.text)],
            entry=Entry(f"{fragment_of(strip.nodeid)}@stages", test=strip.nodeid),
        )
        for strip in report.strips
    ]
    return page_text(content, [*_page_graphs(report, causes, folder)], articles)


def _summary(report: RunReport) -> str:
    told = [report.summary or "no golden was compared"]
    broken = sum(failure.check == "capture" for failure in report.failures)
    if len(report.failures) > broken:
        told.append(f"{counted(len(report.failures) - broken, 'test')} computed other results")
    if broken:
        told.append(f"{counted(broken, 'model')} not captured whole")
    if report.strips:
        verb = "was" if len(report.strips) == 1 else "were"
        told.append(f"{counted(len(report.strips), 'lowering')} {verb} followed")
    return "; ".join(told)


def _failure_article(failure: NumericFailure, folder: Path) -> PageArticle:
    is_numeric = failure.check == "equivalence"
    firsts = [(step.source, f"differs first here: {step.operator}") for step in failure.path if step.status == "first"]
    source = source_panel(firsts or failure.places, folder)
    panels = [*failure_panels(failure), *([("Source", source)] if source else []), words_panel(failure.section)]
    return PageArticle(
        "results that differ" if is_numeric else "graph breaks",
        failure.nodeid,
        "mismatch",
        failure.headline,
        panels,
        entry=Entry(
            f"{fragment_of(failure.nodeid)}@{failure.check}",
            test=failure.nodeid,
            modules=sorted({step.module for step in failure.path if step.module and step.status == "first"}),
        ),
    )


def _page_graphs(report: RunReport, causes: Sequence[Sequence[Outcome]], folder: Path) -> Iterator[PageGraph]:
    # A golden's place among the goldens of its test stays the same in reports in which other goldens match.
    places: dict[str, dict[str, int]] = {}
    for outcome in report.outcomes:
        of_test = places.setdefault(outcome.nodeid, {})
        of_test.setdefault(outcome.golden, len(of_test) + 1)
    failed = Counter(outcome.nodeid for cause in causes for outcome in cause)
    for cause in causes:
        for outcome in cause:
            place = places[outcome.nodeid][outcome.golden]
            name = f" ({PurePosixPath(outcome.golden).name})" if failed[outcome.nodeid] > 1 else ""
            entry = Entry(
                f"{fragment_of(outcome.nodeid)}.{place}" if place > 1 else outcome.nodeid,
                outcome.nodeid + name,
                outcome.nodeid,
                sorted({str(change["module"]) for change in outcome.changes if change.get("module")}),
                outcome.edits,
                [*_commands(report, outcome, cause)],
            )
            yield _page_graph(outcome, entry, source_panel(notes_of(outcome), folder))


def _commands(report: RunReport, outcome: Outcome, cause: Sequence[Outcome]) -> Iterator[tuple[str, str]]:
    if outcome.command:
        yield outcome.command, "this golden" if outcome.is_alone else "all goldens of its test"
    for command, words in report.commands_for(cause).items():
        if command.startswith(report.accept):
            yield command, words


def _page_graph(outcome: Outcome, entry: Entry, source: str) -> PageGraph:
    documents = [graph_of(text, outcome.golden) for text in outcome.graphs]
    obtained = documents[-1] if documents else None
    expected = documents[0] if len(documents) > 1 else None
    sources: Mapping[str, str] = {}
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
        sources,
        source,
        entry,
    )


def graph_of(text: str, name: str) -> GraphDocument | None:
    """Read a graph of an outcome; None for a text that cannot be read back, which is shown in words alone."""
    try:
        return decode(text, name)
    except GoldenError:
        return None
