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

    Called for each subject of a fixture that is no graph of fxcore or torch.fx, before it is traced: a module can be
    turned into a graph here, too. The first answer that is not None is used, and the hook is not called for it again.
    `fx_equivalence` and `fx_transform` run the object itself as the model if it is a module or a function, otherwise
    the answer.

    :param obj: what the test gave to the fixture.
    :returns: a torch.nn.Module, a function, a Graph or GraphModule of fxcore or torch.fx, or a
        torch.export.ExportedProgram; None for objects that this hook does not know.

    Example, for models that are kept in a container::

        def pytest_fxgraph_adapt(obj):
            if isinstance(obj, Pipeline):
                return obj.model
    """


def pytest_fxgraph_normalize(document: GraphDocument) -> GraphDocument | None:
    """Change the document of a graph before it is compared with its golden or written as one.

    Called for each comparison of `fx_golden`. Every implementation is called, in pluggy's order, each with the document
    that the one before it returned. The golden on disk is not changed here: its document was, when it was written.

    :param document: the graph as plain frozen data, see `pytest_fxgraph.document.model`.
    :returns: another document, made with `dataclasses.replace`; None to leave the document as it is.

    Example, for a project whose module paths begin with a prefix that varies::

        def pytest_fxgraph_normalize(document):
            nodes = [replace(node, target=node.target.removeprefix("wrapped.")) for node in document.nodes]
            return replace(document, nodes=tuple(nodes))
    """


@pytest.hookspec(firstresult=True)
def pytest_fxgraph_target_name(target: Any) -> str | None:
    """Return the name under which goldens write, and `fx_ops` finds, a function or operator that a graph calls.

    Called by `fx_golden`, `fx_ops` and `fx_transform`, once for each function or operator of a graph, also for those
    that are arguments; not for methods and modules, which are written by name and path. The first answer that is not
    None is used. Two functions with one name are the same function to a golden.

    :param target: the function or operator.
    :returns: a name that is the same in every run; None for the name that it has without this hook. Anything else is a
        DocumentError.

    Example, for kernels whose module was moved, and whose goldens are to stay as they are::

        def pytest_fxgraph_target_name(target):
            if getattr(target, "__module__", "").startswith("acme._kernels."):
                return f"acme.{target.__name__}"
    """


def pytest_fxgraph_report_section(outcomes: tuple[Outcome, ...]) -> str | None:
    """Return a text about the goldens of a run, for its summary and its reports.

    Called once at the end of a run that compared something, in the process that writes goldens (under pytest-xdist the
    controller). Every implementation is called; the texts are printed in the summary, and written under "sections" in
    the reports of --fx-report.

    :param outcomes: one for each comparison in the last attempt of each test, see `pytest_fxgraph.report.outcome`;
        `nodeid`, `golden`, `level`, `status` and `headline` say most.
    :returns: a text of one or more lines; None to add nothing.

    Example, for a line in the log of a nightly run::

        def pytest_fxgraph_report_section(outcomes):
            differing = {outcome.golden for outcome in outcomes if outcome.status == "mismatch"}
            return f"nightly: {len(differing)} graphs changed"
    """


@pytest.hookspec(firstresult=True)
def pytest_fxgraph_compare_outputs(expected: Any, obtained: Any, path: str) -> str | None:
    """Compare an output of a model that ran eagerly with the output of its graph, in a way of your own.

    Called by `fx_equivalence` and `fx_transform` for each output, first for containers, then for their items. The first
    answer that is not None is used; the items of a container with an answer are not compared any more.

    :param expected: the output of the model.
    :param obtained: the output of its graph.
    :param path: where in the output the two are, such as ``output['logits'][0]``.
    :returns: "" if the two are equal enough; otherwise how they differ, for the failure, which puts it after the path;
        None to have them compared as usual.

    Example, for boxes whose order does not matter::

        def pytest_fxgraph_compare_outputs(expected, obtained, path):
            if path.endswith("['boxes']"):
                same = sorted(expected.tolist()) == sorted(obtained.tolist())
                return "" if same else "holds other boxes"
    """
