"""The hooks of pytest-fxgraph. Implement them in a conftest.py or in a plugin of your own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_fxgraph.document.model import GraphDocument
    from pytest_fxgraph.report.outcome import Outcome


@pytest.hookspec(firstresult=True)
def pytest_fxgraph_adapt(obj: Any) -> Any:
    """Turn an object of your own into a subject: a module, a function, or a graph.

    Called for each subject of a fixture that is not a graph of fxcore or torch.fx already, before it is traced; so
    it can also say how a module of a certain class is to be made a graph. The first answer that is not None counts,
    and is not asked about again. `fx_equivalence` and `fx_transform` run what a test hands over as the model if that
    is a module or a function, and else what this hook turns it into.

    :param obj: what the test handed over.
    :returns: a torch.nn.Module, a function, a Graph or GraphModule of fxcore or torch.fx, or a
        torch.export.ExportedProgram; None for objects that this hook does not know.

    Example, for models that are kept in a container::

        def pytest_fxgraph_adapt(obj):
            if isinstance(obj, Pipeline):
                return obj.model
    """


def pytest_fxgraph_normalize(document: GraphDocument) -> GraphDocument | None:
    """Change what is written down of a graph, before it is compared with its golden or written as one.

    Called for each comparison of `fx_golden`, with the document that is about to be compared. Every implementation is
    called, in pluggy's order, each with what the one before it made. The golden on disk is not passed through here: it
    was when it was written.

    :param document: the graph as plain frozen data, see `pytest_fxgraph.document.model`.
    :returns: another document, made with `dataclasses.replace`; None to leave it as it is.

    Example, for a project whose module paths begin with a prefix that varies::

        def pytest_fxgraph_normalize(document):
            nodes = [replace(node, target=node.target.removeprefix("wrapped.")) for node in document.nodes]
            return replace(document, nodes=tuple(nodes))
    """


@pytest.hookspec(firstresult=True)
def pytest_fxgraph_target_name(target: Any) -> str | None:
    """Name a function or operator that a graph calls, as goldens are to write it.

    Called by `fx_golden`, once for each function or operator of a graph, also for those that are arguments; not for
    methods and modules, which go by name and path. The first answer that is not None counts. Two functions of one
    name are one function to a golden.

    :param target: what the graph calls.
    :returns: a name that is the same in every run; None for the name that it would have without this hook.

    Example, for kernels whose module was moved, and whose goldens are to stay as they are::

        def pytest_fxgraph_target_name(target):
            if getattr(target, "__module__", "").startswith("acme._kernels."):
                return f"acme.{target.__name__}"
    """


def pytest_fxgraph_report_section(outcomes: tuple[Outcome, ...]) -> str | None:
    """Say something of your own about the goldens of a run, at its end.

    Called once, in the process that writes goldens (under pytest-xdist the controller), with what became of every
    comparison, the last attempt of each test counting; not at all in a run without comparisons. What each
    implementation returns stands in the summary, and under "sections" in the reports of --fx-report.

    :param outcomes: see `pytest_fxgraph.report.outcome`; `nodeid`, `golden`, `level`, `status` and `headline` say most.
    :returns: a text of one or more lines; None to say nothing.

    Example, for a line in the log of a nightly run::

        def pytest_fxgraph_report_section(outcomes):
            differing = {outcome.golden for outcome in outcomes if outcome.status == "mismatch"}
            return f"nightly: {len(differing)} graphs changed"
    """


@pytest.hookspec(firstresult=True)
def pytest_fxgraph_compare_outputs(expected: Any, obtained: Any, path: str) -> str | None:
    """Compare two values in a way of your own: outputs of a model run eagerly and of its graph.

    Called by `fx_equivalence` and `fx_transform` for each output, first for containers, then for what is in them. The
    first answer that is not None counts, and what is inside is not asked about any more.

    :param expected: the value that the model gave.
    :param obtained: the value that its graph gave.
    :param path: where in the output the two are, such as ``output['logits'][0]``.
    :returns: "" if the two are equal enough; otherwise words that say how they differ, put after the path in the
        failure; None to have them compared as usual.

    Example, for boxes whose order does not matter::

        def pytest_fxgraph_compare_outputs(expected, obtained, path):
            if path.endswith("['boxes']"):
                same = sorted(expected.tolist()) == sorted(obtained.tolist())
                return "" if same else "holds other boxes"
    """
