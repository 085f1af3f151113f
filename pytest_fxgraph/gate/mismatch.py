"""What is told of a golden that a subject does not match, whether it is a file or stands in the test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from pytest_fxgraph import settings
from pytest_fxgraph.compare.difference import Difference
from pytest_fxgraph.document.model import GraphDocument
from pytest_fxgraph.gate.attempt import GoldenAttempt
from pytest_fxgraph.gate.obtained import GoldenRequest
from pytest_fxgraph.report.outcome import Outcome

# Most of what is needed is imported where it is first needed: a run in which every golden matches never parses YAML.


def difference_at(
    level: str, expected: GraphDocument, obtained: GraphDocument, request: GoldenRequest, item: pytest.Item
) -> Difference:
    """Compare two documents at a level, as a request and the settings of its test say."""
    from pytest_fxgraph.compare.levels import compare_documents

    return compare_documents(
        expected,
        obtained,
        level=level,
        commutative=settings.value_of(settings.COMMUTATIVE, item, request.commutative),
        normalize=settings.value_of(settings.NORMALIZE, item, request.normalize),
        constants=settings.value_of(settings.CONSTANT_FORM, item, request.constants),
        budget=settings.value_of(settings.BUDGET, item, request.budget),
    )


def keep_mismatch(
    attempt: GoldenAttempt,
    outcome: Outcome,
    difference: Difference,
    expected: GraphDocument,
    obtained: GraphDocument,
    *,
    command: str,
    instead: str = "",
    remark: str | None = None,
) -> AssertionError:
    """Keep the outcome of a mismatch with all that is told of it, and return the error to raise.

    `command` accepts the obtained graph; where none can, it is empty, and `instead` says why.
    `remark` says what else there is to be done.
    """
    from pytest_fxgraph.report.change_data import change_data
    from pytest_fxgraph.report.clusters import cluster_key
    from pytest_fxgraph.report.other_torch import with_remark
    from pytest_fxgraph.report.text import full_section, headline, short_lines

    cluster = cluster_key(difference, outcome.golden)
    outcome = replace(
        outcome, status="mismatch", cluster=cluster, command=command, changes=change_data(difference, cluster)
    )
    lines = with_remark(short_lines(difference, golden=outcome.golden, command=command), remark)
    lines += [f"  {instead}"] if instead else []
    section = full_section(difference, expected, obtained, golden=outcome.golden, command=command)
    section += f"\n{remark}" if remark else ""
    keep_failure(attempt, outcome, headline(difference), lines, section)
    return AssertionError("\n".join(lines))


def keep_failure(
    attempt: GoldenAttempt, outcome: Outcome, headline: str, lines: Sequence[str], section: str = ""
) -> None:
    """Keep the outcome of a comparison that failed, with its lines for the assertion and its report section."""
    if section:
        attempt.sections.append((outcome.section_name, section))
    attempt.outcomes.append(replace(outcome, headline=headline, lines=tuple(lines), section=section))


def is_drawn(config: pytest.Config) -> bool:
    """Tell whether a report of this run shows pictures of graphs."""
    return any(path.endswith((".html", ".md")) for path in config.getoption("fx_report"))


def is_expected_to_fail(item: pytest.Item) -> bool:
    """Tell whether an xfail marker holds for the test.

    Such a test is no place to update goldens from, and letting its mismatch pass would turn it into an unexpected pass.
    pytest keeps what it found out about the markers to itself, hence the import of a private function; where it is
    missing, a marker counts whatever its condition.
    """
    try:
        from _pytest.skipping import evaluate_xfail_marks
    except ImportError:
        return item.get_closest_marker("xfail") is not None
    return evaluate_xfail_marks(item) is not None
