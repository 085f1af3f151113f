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

    pytest-fxgraph calls the hook for each subject of a fixture, unless the subject is a graph of fxcore or torch.fx.
    The call comes before the trace, so that the hook can also turn a module into a graph. The first answer other than
    None is used, and the hook is not called for that answer again. `fx_equivalence` and `fx_transform` run the object
    itself as the model if the object is a module or a function, otherwise the answer.

    :param obj: the subject that the test gave to the fixture.
    :returns: a torch.nn.Module, a function, a Graph or GraphModule of fxcore or torch.fx, or a
        torch.export.ExportedProgram. None for objects that this hook does not know.

    Example, for models in a container::

        def pytest_fxgraph_adapt(obj):
            if isinstance(obj, Pipeline):
                return obj.model
    """


def pytest_fxgraph_normalize(document: GraphDocument) -> GraphDocument | None:
    """Change the document of a graph before it is compared with its golden or written as one.

    pytest-fxgraph calls the hook for each comparison of `fx_golden`. Every implementation is called, in pluggy's order,
    each with the result of the one before. The golden on disk is not changed here: the hook changed its document when
    the golden was written.

    :param document: the graph as plain frozen data, see `pytest_fxgraph.document.model`.
    :returns: another document, made with `dataclasses.replace`; its records have `_replace`. None to leave the document
        as it is. Any other answer is a DocumentError.

    Example, for module paths with a prefix that varies::

        def pytest_fxgraph_normalize(document):
            nodes = [node._replace(target=node.target.removeprefix("wrapped.")) for node in document.nodes]
            return replace(document, nodes=tuple(nodes))
    """


@pytest.hookspec(firstresult=True)
def pytest_fxgraph_target_name(target: Any) -> str | None:
    """Return the name of a function or operator in goldens and for `fx_ops`.

    `fx_golden`, `fx_ops` and `fx_transform` call the hook once for each function or operator of a graph, also for
    functions that are arguments. Methods and modules are written by name and path, without a call. The first answer
    other than None is used. Two functions with one name are the same function to a golden.

    :param target: the function or operator.
    :returns: a name that is the same in every run. None for the usual name. Any other answer is a DocumentError.

    Example, for kernels that moved to another module while their goldens stay as they are::

        def pytest_fxgraph_target_name(target):
            if getattr(target, "__module__", "").startswith("acme._kernels."):
                return f"acme.{target.__name__}"
    """


def pytest_fxgraph_report_section(outcomes: tuple[Outcome, ...]) -> str | None:
    """Return a text about the goldens of a run, for its summary and its reports.

    pytest-fxgraph calls the hook once, at the end of a run with comparisons, in the process that writes goldens (under
    pytest-xdist the controller). Every implementation is called. The texts are printed in the summary, and written
    under "sections" in the reports of --fx-report.

    :param outcomes: one for each comparison in the last attempt of each test, see `pytest_fxgraph.report.outcome`.
        `nodeid`, `golden`, `level`, `status` and `headline` are the most useful fields.
    :returns: a text of one or more lines. None to add no text.

    Example, for a line in the log of a nightly run::

        def pytest_fxgraph_report_section(outcomes):
            differing = {outcome.golden for outcome in outcomes if outcome.status == "mismatch"}
            return f"nightly: {len(differing)} graphs changed"
    """


@pytest.hookspec(firstresult=True)
def pytest_fxgraph_compare_outputs(expected: Any, obtained: Any, path: str) -> str | None:
    """Compare an output of the eager model with the output of its graph, in a way of your own.

    `fx_equivalence` and `fx_transform` call the hook for each output, first for containers, then for their items. The
    first answer other than None is used. The items of a container with an answer are not compared.

    :param expected: the output of the model.
    :param obtained: the output of its graph.
    :param path: the place in the output, for example ``output['logits'][0]``.
    :returns: "" if the two are equal enough. Otherwise the difference in words; the failure shows it after the path.
        None for the usual comparison. Any other answer is an UncomparableError.

    Example, for boxes in any order::

        def pytest_fxgraph_compare_outputs(expected, obtained, path):
            if path.endswith("['boxes']"):
                same = sorted(expected.tolist()) == sorted(obtained.tolist())
                return "" if same else "holds other boxes"
    """
