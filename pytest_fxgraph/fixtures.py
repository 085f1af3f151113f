"""The fixtures. Each imports the modules that need torch when a test first asks for the fixture."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from pytest_fxgraph import settings

if TYPE_CHECKING:
    from fxcore.state.tensor_values import BufferPool
    from pytest_fxgraph.captures.stages import FxStages
    from pytest_fxgraph.captures.tracing import FxTrace
    from pytest_fxgraph.captures.ways import FxCapture
    from pytest_fxgraph.equivalence.fixture import FxEquivalence
    from pytest_fxgraph.gate.attempt import GoldenAttempt
    from pytest_fxgraph.gate.fixture import FxGolden
    from pytest_fxgraph.gate.table_fixture import FxTable
    from pytest_fxgraph.operator_queries import FxOps
    from pytest_fxgraph.ranks.fixture import FxRanks
    from pytest_fxgraph.transform.fixture import FxTransform
    from pytest_fxgraph.transform.rewriting import FxRewrite

# In the stash of the config, for fixtures that outlive a test.
CURRENT_ITEM: pytest.StashKey[pytest.Item] = pytest.StashKey()
_ATTEMPT: pytest.StashKey[GoldenAttempt] = pytest.StashKey()  # in the stash of a test
_BUFFER_POOL: pytest.StashKey[BufferPool] = pytest.StashKey()


@pytest.fixture(scope="session")
def fx_trace() -> FxTrace:
    """Trace a model to an fxcore.GraphModule; a model that cannot be traced fails the test, naming the model's line.

    fx_trace(model, *, example_inputs=None, example_kwargs=None, concrete_args=None, leaf_modules=(), wrap=())
    """
    _require_torch("fx_trace")
    from pytest_fxgraph.captures.tracing import FxTrace

    return FxTrace()


@pytest.fixture
def fx_golden(request: pytest.FixtureRequest) -> FxGolden:
    """Compare a graph with its golden file: assert subject == fx_golden. A mismatch is an AssertionError.

    fx_golden(name=, level=, ...) sets options; fx_golden.check(subject, ...) goes on after a mismatch;
    assert subject == fx_golden.inline() has its golden in the test itself.
    """
    _require_torch("fx_golden")
    follow_tests(request)
    from pytest_fxgraph.gate.activation import enable_golden_session
    from pytest_fxgraph.gate.fixture import FxGolden

    enable_golden_session(request.config)  # of tests that get the fixture by name, nobody knew before
    return FxGolden.of_test(request.node, attempt_of(request.node))


@pytest.fixture
def fx_equivalence(request: pytest.FixtureRequest) -> FxEquivalence:
    """Run a model eagerly and as a graph on the same inputs and compare; an AssertionError names the difference.

    Returns the GraphModule.
    fx_equivalence(model, inputs, *, graph=None, kwargs=None, rtol=None, atol=None, grads=False, modes=("eval",), ...)
    """
    _require_torch("fx_equivalence")
    from pytest_fxgraph.equivalence.fixture import FxEquivalence

    frontend = settings.value_of(settings.FRONTEND, request.node)
    return FxEquivalence(frontend=frontend, **_numeric_settings(request.node), **_session_arguments(request.node))


@pytest.fixture
def fx_transform(request: pytest.FixtureRequest) -> FxTransform:
    """Apply a transform to a model's graph, lint the result and compare it with the model run eagerly.

    fx_transform(transform, model, inputs, ...) returns a TransformResult; an AssertionError names the difference.
    """
    _require_torch("fx_transform")
    from pytest_fxgraph.transform.fixture import FxTransform

    own_name = _own_names(request.node.ihook)
    return FxTransform(**_numeric_settings(request.node), **_session_arguments(request.node), own_name=own_name)


@pytest.fixture(scope="session")
def fx_ops(request: pytest.FixtureRequest) -> FxOps:
    """Ask for operators of a graph: fx_ops(subject).count(torch.relu), .absent(...), .in_order(...), .only_from(...).

    Targets are functions, operators, classes of modules, names of methods, and globs such as "aten.batch_norm*".
    Graphs inside the graph are looked into; fx_ops(subject, recursive=False) leaves them out.
    """
    _require_torch("fx_ops")
    follow_tests(request)
    from pytest_fxgraph.operator_queries import FxOps

    hook = request.config.hook.pytest_fxgraph_adapt
    config = request.config

    def frontend() -> str:
        """Return the frontend of the test that runs: the fixture is made once, and the marker is a test's."""
        item = config.stash.get(CURRENT_ITEM, None)
        if item is None:
            return str(settings.value_of_config(settings.FRONTEND, config))
        return str(settings.value_of(settings.FRONTEND, item))

    return FxOps(lambda obj: hook(obj=obj), _own_names(config.hook), frontend)


@pytest.fixture(scope="session")
def fx_capture() -> FxCapture:
    """Capture the graphs that a frontend makes of a model: a Capture with .graphs, .breaks, .recompiles, ...

    fx_capture(model, inputs, *, kwargs=None, frontend="dynamo", dynamic_shapes=None, mode="eval", calls=(), ...)
    """
    _require_torch("fx_capture")
    from pytest_fxgraph.captures.ways import FxCapture

    return FxCapture()


@pytest.fixture(scope="session")
def fx_ranks(request: pytest.FixtureRequest) -> FxRanks:
    """Capture one program on many ranks as one subject, without GPUs: .graphs, .groups, .collectives, .cost, ...

    fx_ranks(build, inputs, *, world_size, mesh=None, ranks="all", frontend="make_fx", mode=None, backend="fake")
    The marker fx(world_size=..., mesh=...) gives defaults.
    """
    _require_torch("fx_ranks")
    follow_tests(request)
    from pytest_fxgraph.ranks.fixture import FxRanks

    def marked() -> tuple[int | None, Any]:
        """Return number of ranks and mesh of the test that runs: the fixture is made once."""
        item = request.config.stash[CURRENT_ITEM]
        return settings.value_of(settings.WORLD_SIZE, item), settings.value_of(settings.MESH, item)

    return FxRanks(marked)


@pytest.fixture(scope="session")
def fx_stages(request: pytest.FixtureRequest) -> FxStages:
    """Follow a model through its lowering: the additions, removals and rewrites of each stage.

    fx_stages(model, inputs, stages=["export", "decompose", my_pass]) returns Stages: .text(), .made_by(), .history().
    """
    _require_torch("fx_stages")
    follow_tests(request)
    from pytest_fxgraph.captures.stages import FxStages

    if not request.config.getoption("fx_report"):
        return FxStages()
    # The fixture is made once, and a lowering belongs to the test that runs.
    return FxStages(lambda strip: attempt_of(request.config.stash[CURRENT_ITEM]).strips.append(strip))


@pytest.fixture
def fx_table(request: pytest.FixtureRequest) -> FxTable:
    """Compare the numbers of a capture or graph with its row in the table of the test file: assert x == fx_table.

    fx_table(row=, name=, extra=, tolerance=, better=, costs=, frontend=, example_inputs=) sets options.
    """
    _require_torch("fx_table")
    follow_tests(request)
    from pytest_fxgraph.gate.activation import enable_golden_session
    from pytest_fxgraph.gate.table_fixture import FxTable

    enable_golden_session(request.config)  # nobody knew before of tests that get the fixture by name
    return FxTable.of_test(request.node, attempt_of(request.node))


@pytest.fixture(scope="session")
def fx_rewrite(request: pytest.FixtureRequest) -> FxRewrite:
    """Replace a pattern in a graph; the result has .matched, .graph_module and .explain().

    fx_rewrite(gm, pattern, replacement, match_filters=None, ignore_literals=False, ..., *, match_modules="path", ...)
    """
    _require_torch("fx_rewrite")
    from pytest_fxgraph.transform.rewriting import FxRewrite

    hook = request.config.hook.pytest_fxgraph_adapt
    return FxRewrite(lambda obj: hook(obj=obj))


class AroundTests:
    """The hooks around each test, registered when a test asks for a fixture that needs them.

    A run of 50 other tests takes 1.4 million instructions less without them.
    """

    def __init__(self, item: pytest.Item | None) -> None:
        self.item = item  # its setup or call had begun when the hooks were registered

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Begin an attempt; a rerun begins another."""
        self.item = None
        item.config.stash[CURRENT_ITEM] = item
        end_attempt(item)

    # Behind hooks of pytest that run the test and its teardown, and raise if these fail. A wrapper would cost three
    # times as much.
    @pytest.hookimpl(trylast=True)
    def pytest_runtest_call(self, item: pytest.Item) -> None:
        """Fail a test that passed for failed checks of `fx_golden.check`, or for a fixture that compared nothing."""
        __tracebackhide__ = True
        attempt = begun_attempt(item)
        if attempt is not None:
            attempt.close()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        """Fail the test during whose call the hooks were registered: pytest did not ask them in this call."""
        if item is self.item and call.when == "call" and call.excinfo is None:
            try:
                self.pytest_runtest_call(item)
            except (Exception, pytest.fail.Exception):
                call.excinfo = pytest.ExceptionInfo.from_current()

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        """Fail a test for failed checks in the teardown of its fixtures, too."""
        __tracebackhide__ = True
        attempt = begun_attempt(item)
        if attempt is not None:
            attempt.raise_failed_checks()


def follow_tests(request: pytest.FixtureRequest) -> None:
    """Register the hooks around tests, where a test gets the run's first fixture by name: nobody knew before."""
    item: pytest.Item = request._pyfuncitem  # also of a fixture of the session, whose node is the session
    if follow_all_tests(request.config, item):
        request.config.stash[CURRENT_ITEM] = item


def follow_all_tests(config: pytest.Config, item: pytest.Item | None = None) -> bool:
    """Register the hooks around tests. A second call does nothing. Return whether it was the first."""
    is_first = not config.pluginmanager.has_plugin("fxgraph-around-tests")
    if is_first:
        config.pluginmanager.register(AroundTests(item), "fxgraph-around-tests")
    return is_first


def attempt_of(item: pytest.Item) -> GoldenAttempt:
    """Return the attempt that is under way; begin it if nothing of it is known yet."""
    attempt = begun_attempt(item)
    if attempt is None:
        from pytest_fxgraph.gate.attempt import GoldenAttempt

        attempt = item.stash[_ATTEMPT] = GoldenAttempt()
    return attempt


def begun_attempt(item: pytest.Item) -> GoldenAttempt | None:
    """Return the attempt that is under way; None for a test that used nothing of ours."""
    # pytest's `get` raises and catches a KeyError. Every test, of any suite, asks six times, and most have no attempt.
    return item.stash[_ATTEMPT] if _ATTEMPT in item.stash else None  # noqa: SIM401


def end_attempt(item: pytest.Item) -> None:
    """Forget an attempt, with the frames and texts that it holds."""
    if _ATTEMPT in item.stash:
        del item.stash[_ATTEMPT]


def _require_torch(fixture: str) -> None:
    """Fail the test with one line if torch cannot be imported, because every fixture needs torch."""
    try:
        import torch  # noqa: F401
    except ModuleNotFoundError as error:
        problem = (
            "torch is not installed" if error.name == "torch" else f"torch needs {error.name}, which is not installed"
        )
    except (ImportError, OSError) as error:  # OSError: a library of torch that Windows cannot load
        problem = f"torch cannot be imported ({' '.join(str(error).split())})"
    else:
        return
    pytest.fail(
        f"{fixture} needs torch, and {problem}: install torch 2.6 or later into the Python that runs the tests "
        '(pip install "torch>=2.6"), or skip these tests with pytest.importorskip("torch")',
        pytrace=False,
    )


def _own_names(hooks: Any) -> Callable[[Any], str | None] | None:
    """Return a function that asks the hooks for a function's name; None is faster, and stands for no hooks."""
    hook = hooks.pytest_fxgraph_target_name
    return (lambda target: hook(target=target)) if hook.get_hookimpls() else None


def _numeric_settings(item: pytest.Item) -> dict[str, Any]:
    return settings.values_of(settings.NUMERIC, item, {})


def _session_arguments(item: pytest.Item) -> dict[str, Any]:
    """Return the user's hooks, the folder of mismatches, and the memory for copies of models' states."""
    from fxcore.state.tensor_values import BufferPool
    from pytest_fxgraph.equivalence.repro import ReproductionFolder

    adapt, compare = item.ihook.pytest_fxgraph_adapt, item.ihook.pytest_fxgraph_compare_outputs
    folder = item.config.getoption("fx_repro")

    def compare_outputs(expected: object, obtained: object, path: str) -> Any:
        return compare(expected=expected, obtained=obtained, path=path)

    # None is faster than a hook without an implementation.
    return {
        "compare_outputs": compare_outputs if compare.get_hookimpls() else None,
        "adapt": (lambda obj: adapt(obj=obj)) if adapt.get_hookimpls() else None,
        "reproduction": folder and ReproductionFolder(item.config.invocation_params.dir / folder, item.nodeid),
        "buffer_pool": item.config.stash.setdefault(_BUFFER_POOL, BufferPool()),
        "tell_search": lambda text: item.add_report_section("call", "fx search", text),
        "tells_path": bool(item.config.getoption("fx_report")),
    }
