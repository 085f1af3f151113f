from __future__ import annotations

import sys
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from pytest_fxgraph.captures import torch_internals, tracing
from pytest_fxgraph.recorder import module_calls
from pytest_fxgraph.recorder.module_calls import ModuleCalls

CALLS = """
def test_first():
    Small()(torch.ones(2, 4))
    model = Small()
    model(torch.ones(2, 4))
    model(torch.ones(2, 4))

def test_again():
    Small()(torch.ones(2, 4))

def test_other():
    Small(5)(torch.ones(2, 5))

def test_traced():
    Small()(torch.ones(2, 4))
    torch.fx.symbolic_trace(Small())
"""


@pytest.fixture
def traced(monkeypatch):
    """The modules that are traced."""
    found = []
    original = tracing.trace_for_inputs

    def trace_for_inputs(model, *args, **kwargs):
        found.append(model)
        return original(model, *args, **kwargs)

    monkeypatch.setattr(tracing, "trace_for_inputs", trace_for_inputs)
    return found


def test_a_module_is_traced_once_and_recorded_for_every_test_that_called_it(record, traced):
    recording = record(CALLS)
    graphs = {
        name.partition("::")[2]: [(each.kind, each.graph) for each in test.graphs]
        for name, test in recording.tests.items()
    }
    [(kind, small)] = set(graphs["test_first"])
    assert kind == "module"
    assert (len(graphs["test_first"]), graphs["test_again"]) == (2, [("module", small)])
    assert [kind for kind, _ in graphs["test_other"]] == ["module"]
    assert graphs["test_other"][0][1] != small
    assert graphs["test_traced"] == [("symbolic", small)]
    assert len(traced) == 2


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize(
    ("change", "count"),
    [
        ("pass", 1),
        ("model.eval()", 2),
        ("x = x[:1]", 2),
        ("x.requires_grad = True", 2),
        ("model.linear.bias = None", 2),
        ("model.power = 3", 2),
        ("model.linear = nn.Sequential(model.linear)", 2),
    ],
)
def test_another_structure_or_other_arguments_are_traced_again(record, traced, change, count):
    record(f"""
        @pytest.mark.parametrize("is_changed", [False, True])
        def test_it(is_changed):
            model, x = Small(), torch.ones(2, 4)
            if is_changed:
                {change}
            model(x)
    """)
    assert len(traced) == count


def test_a_module_whose_function_the_test_replaced_is_left_out(record, traced):
    recording = record("""
        def test_first():
            Small()(torch.ones(2, 4))
        def test_replaced(monkeypatch):
            monkeypatch.setattr(Small, "forward", lambda self, x: torch.sigmoid(self.linear(x)))
            Small()(torch.ones(2, 4))
        def test_again():
            Small()(torch.ones(2, 4))
    """)

    assert [len(test.graphs) for test in recording.tests.values()] == [1, 0, 1]
    (left_out,) = recording.tests["test_suite.py::test_replaced"].left_out
    assert left_out.reason == "the test replaced a forward function, which is another one after the test"
    assert len(traced) == 1


def test_the_example_has_the_sizes_of_the_call_whatever_happened_to_the_input_since(record):
    recording = record("""
        class Chooses(nn.Module):
            def forward(self, x):
                result = torch.sin(x) if len(x) == 2 else torch.cos(x)
                return result

        def test_it():
            x, y = torch.ones(2), torch.ones(3)
            Chooses()(x)
            Chooses()(y)
            x.resize_(5)
            y.data = torch.ones(2)
    """)
    texts = [recording.store.text(each.graph) for each in recording.tests["test_suite.py::test_it"].graphs]
    assert ["%sin = " in text for text in texts] == [True, False]
    assert ["%cos = " in text for text in texts] == [False, True]


def test_the_example_has_the_memory_format_of_the_call(record):
    recording = record("""
        class Chooses(nn.Module):
            def forward(self, x):
                return torch.sin(x) if x.is_contiguous() else torch.cos(x)

        def test_it():
            Chooses()(torch.ones(2, 3).t())
    """)
    (graph,) = recording.tests["test_suite.py::test_it"].graphs
    assert "%cos = " in recording.store.text(graph.graph)


def test_modules_are_watched_in_tests_alone(record):
    record("""
        def is_watched():
            return "recorder" in vars(nn.Module)["__call__"].__code__.co_filename

        at_import = is_watched()

        def test_it():
            assert (at_import, is_watched()) == (False, True)
    """)
    record.result.assert_outcomes(passed=1)


def test_the_trace_leaves_the_module_and_random_numbers_as_they_were(record):
    recording = record("""
        class Draws(nn.Module):
            def __init__(self):
                super().__init__()
                self.norm = nn.BatchNorm1d(4)
                self.calls = []
            def forward(self, x):
                self.calls.append(1)
                return self.norm(x) + torch.rand(1)

        torch.manual_seed(0)
        model = Draws()

        def test_a():
            model(torch.ones(2, 4))

        def test_b():
            assert len(model.calls) == 1
            assert model.norm.num_batches_tracked == 1
            drawn = torch.rand(1)
            torch.manual_seed(0)
            assert drawn != torch.rand(1) and drawn == torch.rand(1)
    """)
    record.result.assert_outcomes(passed=2)
    assert recording.tests["test_suite.py::test_a"].graphs


def test_a_module_that_cannot_be_traced_is_left_out_with_its_reason_on_one_line(record):
    recording = record("""
        class Untraceable(nn.Module):
            def forward(self, x):
                import threading
                threads = [threading.Thread(target=lambda: x.sum().item())]
                [each.start() for each in threads]
                [each.join() for each in threads]
                return torch.from_numpy(x.detach().numpy() + 1)[int(x.sum()) :].tolist()

        def test_it():
            Untraceable()(torch.ones(2))
            Untraceable()(torch.ones(2))
            Small()(torch.ones(2, 4))
    """)
    record.result.assert_outcomes(passed=1)
    test = recording.tests["test_suite.py::test_it"]
    assert [each.model for each in test.graphs][-1:] == ["test_suite.Small"]
    for each in test.left_out:
        assert each.reason.startswith("cannot trace Untraceable")
        assert "\n" not in each.reason


def test_a_compiled_module_is_recorded_as_a_module_where_nothing_is_compiled_again(record):
    recording = record("""
        compiled = torch.compile(Small(), backend="eager")
        def test_a():
            compiled(torch.ones(2, 4))
        def test_b():
            compiled(torch.ones(2, 4))
    """)
    kinds = {name.partition("::")[2]: [each.kind for each in test.graphs] for name, test in recording.tests.items()}
    assert kinds == {"test_a": ["dynamo"], "test_b": ["module"]}


# Calls of modules in this process, with stand-ins for the store and for the trace.


class Kept:
    """Stands for KeptGraphs: the graphs that were noted, and the reasons of the others."""

    def __init__(self) -> None:
        self.kinds, self.is_full = {"module"}, False
        self.noted, self.left_out = [], []

    def has_graphs(self):
        return self.is_full

    def hash_of(self, graph):
        return graph

    def note(self, kind, model, line, graph):
        self.noted.append((kind, model.rpartition(".")[2], graph))

    def leave_out(self, kind, model, line, reason):
        self.left_out.append((kind, model.rpartition(".")[2], reason))


class Watching:
    """Follows the calls of modules; `traced` has the module and the arguments of each trace."""

    def __init__(self, monkeypatch, tmp_path) -> None:
        self.traced = []
        self.kept, self.functions = Kept(), SimpleNamespace(is_inside=False, muted=nullcontext)
        self.calls = ModuleCalls(self.kept, self.functions, tmp_path)
        monkeypatch.setattr(tracing, "trace_for_inputs", self._trace)
        monkeypatch.setattr(module_calls, "document_of", lambda graph: graph)

    def _trace(self, model, args, kwargs, *, verify):
        assert verify is False
        if "fails" in kwargs:
            raise ValueError("odd\nand more")
        self.traced.append((model, args, kwargs))
        return f"graph {len(self.traced)}"


@pytest.fixture
def watching(monkeypatch, tmp_path):
    own = nn.Module.__call__
    made = Watching(monkeypatch, tmp_path)
    made.calls.begin()
    assert nn.Module.__call__ is not own
    yield made
    made.calls.off()
    assert nn.Module.__call__ is own


class Takes(nn.Module):
    def __init__(self, *sizes):
        super().__init__()
        for number, size in enumerate(sizes):
            self.register_buffer(f"part{number}", torch.zeros(size))

    def forward(self, *args, **kwargs):
        return args


def resized(x):
    x.data = torch.zeros(3)


@pytest.mark.parametrize(
    ("make", "change", "is_kept"),
    [
        (lambda: torch.zeros(2), lambda x: None, True),
        (lambda: torch.zeros(2, dtype=torch.int32), lambda x: None, True),
        (lambda: torch.zeros(2), lambda x: x.add_(1), False),
        (lambda: torch.zeros(2), resized, False),
        (lambda: torch.zeros(2, dtype=torch.int32), lambda x: x.add_(1), False),
        (lambda: torch.zeros(2, requires_grad=True), lambda x: None, True),
        (lambda: torch.zeros(2, requires_grad=True) * 1, lambda x: None, False),
        (lambda: nn.Parameter(torch.zeros(2)), lambda x: None, True),
    ],
)
def test_the_example_is_the_tensor_of_the_call_or_ones_of_its_shape(watching, make, change, is_kept):
    x, model = make(), Takes()
    model(x, [{"a": (x, 3)}], name=[x, "text"])
    dtype = x.dtype
    change(x)

    watching.calls.end()

    ((traced, args, kwargs),) = watching.traced
    assert traced is model
    found = [args[0], args[1][0]["a"][0], kwargs["name"][0]]
    assert [(type(args), type(args[1][0]["a"]), args[1][0]["a"][1], kwargs["name"][1])] == [(tuple, tuple, 3, "text")]
    for each in found:
        assert (each is x) == is_kept
        assert (each.shape, each.dtype) == ((2,), dtype)
        assert is_kept or each.tolist() == [1, 1]


def test_a_tensor_of_inference_mode_is_kept(watching):
    with torch.inference_mode():
        x = torch.zeros(2)
        Takes()(x)

    watching.calls.end()

    assert watching.traced[0][1][0] is x


@pytest.mark.parametrize(
    ("limit", "kept", "is_tensor_kept"), [(7, 1, False), (8, 2, True), (15, 2, True), (16, 3, True)]
)
def test_modules_and_tensors_beyond_a_gibibyte_are_not_kept(watching, monkeypatch, limit, kept, is_tensor_kept):
    monkeypatch.setattr(module_calls, "_MOST_BYTES_KEPT", limit)
    x = torch.zeros(0)
    for name in range(3):
        Takes(2)(x, name)  # 8 bytes

    watching.calls.end()

    too_large = ("module", "Takes", "the modules of the test need more than 1 GiB, and are not kept until its end")
    assert len(watching.traced) == kept
    assert watching.kept.left_out == [too_large] * (3 - kept)
    assert (watching.traced[0][1][0] is x) == is_tensor_kept


def test_the_tensors_of_a_call_count_for_the_next_one(watching, monkeypatch):
    monkeypatch.setattr(module_calls, "_MOST_BYTES_KEPT", 7)
    x = torch.zeros(2)  # 8 bytes
    Takes()(x, x)
    Takes(1)(x)
    watching.calls.end()

    ((_, (first, second), _),) = watching.traced
    assert first is x
    assert second is not x
    assert len(watching.kept.left_out) == 1

    watching.calls.begin()
    Takes(2)(x)
    watching.calls.end()
    assert len(watching.traced) == 2


def test_calls_that_are_known_need_no_memory(watching, monkeypatch):
    monkeypatch.setattr(module_calls, "_MOST_BYTES_KEPT", 8)
    x = torch.zeros(0)
    for _ in range(3):
        Takes(2)(x)  # 8 bytes
    watching.calls.end()
    assert watching.kept.noted == [("module", "Takes", "graph 1")] * 3

    watching.calls.begin()
    Takes(3)(x)
    Takes(2)(x)
    watching.calls.end()
    assert watching.kept.noted[3:] == [("module", "Takes", "graph 2"), ("module", "Takes", "graph 1")]


def test_a_tensor_that_is_not_kept_needs_no_memory(watching, monkeypatch):
    monkeypatch.setattr(module_calls, "_MOST_BYTES_KEPT", 0)
    Takes()(torch.ones(2, requires_grad=True) * 2)
    Takes()(torch.zeros(0))
    watching.calls.end()

    assert len(watching.traced) == 2


class OwnTensor(torch.Tensor):
    """A tensor of a user."""


def test_arguments_that_are_no_plain_tensors_are_handed_on(watching):
    own = torch.ones(2).as_subclass(OwnTensor)
    given = (torch.float32, torch.device("cpu"), own, "text", None)
    Takes()(*given)
    watching.calls.end()

    assert all(one is other for one, other in zip(watching.traced[0][1], given, strict=True))


def test_each_kind_of_call_is_traced_once_and_noted_for_each_module(watching):
    model, twin = Takes(), Takes()
    for _ in range(2):
        model(torch.ones(2))
        twin(torch.ones(2))
    model(torch.ones(3))
    watching.calls.end()

    noted = [("module", "Takes", "graph 1")] * 2 + [("module", "Takes", "graph 2")]
    assert sorted(watching.kept.noted) == noted
    watching.calls.begin()
    model(torch.ones(3))
    watching.calls.end()
    assert len(watching.traced) == 2
    assert watching.kept.noted[3:] == [("module", "Takes", "graph 2")]


def test_a_call_inside_another_one_is_not_noted(watching):
    nn.Sequential(Takes(), nn.Identity())(torch.ones(2))
    watching.functions.is_inside = True
    Takes()(torch.ones(2))
    watching.calls.end()

    assert [model for _, model, _ in watching.kept.noted] == ["Sequential"]


def test_a_call_that_raises_is_followed_by_others(watching):
    with pytest.raises(TypeError):
        nn.ReLU()(1, 2, 3)
    Takes()(torch.ones(2))
    watching.calls.end()

    assert [model for _, model, _ in watching.kept.noted] == ["ReLU", "Takes"]


def test_a_test_with_another_graph_has_none_of_modules(watching):
    Takes()(torch.ones(2))
    watching.kept.is_full = True
    watching.calls.end()

    assert (watching.kept.noted, watching.traced) == ([], [])


def test_a_trace_that_fails_is_told_once_for_each_test(watching):
    for _ in range(2):
        watching.calls.begin()
        Takes()(torch.ones(2), fails=True)
        watching.calls.end()

    assert watching.kept.left_out == [("module", "Takes", "odd")] * 2


class Odd(nn.Module):
    def named_modules(self, *args, **kwargs):
        raise ValueError("no names")

    def forward(self, x):
        return x


def test_a_module_that_cannot_be_described_is_left_out_and_runs(watching):
    x = torch.ones(2)

    assert Odd()(x) is x
    watching.calls.end()
    assert watching.kept.left_out == [("module", "Odd", "no names")]


def test_nothing_is_watched_where_the_kind_is_not_wanted(monkeypatch, tmp_path):
    own = nn.Module.__call__
    watching = Watching(monkeypatch, tmp_path)
    watching.kept.kinds = {"symbolic"}
    asked = []
    watching.calls.add_to(SimpleNamespace(after_import=lambda *_: asked.append(1), add=lambda *_: asked.append(1)))

    watching.calls.begin()

    assert nn.Module.__call__ is own
    assert not asked


def test_modules_are_watched_from_the_import_of_torch_on_and_in_tests_alone(monkeypatch, tmp_path):
    own, acts, added = nn.Module.__call__, {}, []
    watching = Watching(monkeypatch, tmp_path)
    watching.calls.add_to(SimpleNamespace(after_import=acts.__setitem__, add=lambda kind, *_: added.append(kind)))
    act = acts["torch.nn.modules.module"]

    act(None)
    assert nn.Module.__call__ is own
    with monkeypatch.context() as patch:
        patch.delitem(sys.modules, "torch.nn.modules.module")
        watching.calls.begin()
        assert nn.Module.__call__ is own
    act(None)
    assert nn.Module.__call__ is not own
    watching.calls.end()
    act(None)
    assert nn.Module.__call__ is own
    assert {*acts} == {"torch.nn.modules.module", "torch._dynamo.utils", "torch._dynamo.eval_frame"}
    assert added == ["start of a compilation"]


def test_dynamo_leaves_the_replacement_to_python_from_its_import_on(monkeypatch, tmp_path):
    left, acts = [], {}
    monkeypatch.setattr(torch_internals, "leave_to_python", left.append)
    calls = Watching(monkeypatch, tmp_path).calls
    calls.add_to(SimpleNamespace(after_import=acts.__setitem__, add=lambda *_: None))
    try:
        with monkeypatch.context() as patch:
            patch.delitem(sys.modules, "torch._dynamo.eval_frame")
            calls.begin()
            assert left == []
        acts["torch._dynamo.eval_frame"](None)
        assert left == [nn.Module.__call__.__code__]
    finally:
        calls.off()
    acts["torch._dynamo.eval_frame"](None)
    assert len(left) == 1


def test_a_replacement_by_somebody_else_stays(monkeypatch, tmp_path):
    watching = Watching(monkeypatch, tmp_path)
    monkeypatch.setattr(nn.Module, "__call__", nn.Module.__call__)
    watching.calls.begin()
    watching.calls.begin()
    ours = nn.Module.__call__
    nn.Module.__call__ = other = lambda module, *args: ours(module, *args)

    watching.calls.off()
    watching.calls.off()

    assert nn.Module.__call__ is other
    assert Takes()(1) == (1,)
    assert watching.calls._calls == []


def test_dynamo_sees_the_function_of_torch(watching):
    own = nn.Module.__call__.__wrapped__
    utilities = SimpleNamespace(unpatched_nn_module_call=nn.Module.__call__)
    other = SimpleNamespace(unpatched_nn_module_call="another one")

    for each in (utilities, other, SimpleNamespace()):
        watching.calls._mend(each)

    assert utilities.unpatched_nn_module_call is own
    assert other.unpatched_nn_module_call == "another one"
    assert watching.calls._compilation(lambda *args, **kwargs: (args, kwargs), 1, a=2) == ((1,), {"a": 2})
    assert nn.Module.__call__ is own


class Plain:
    pass


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (torch.ones(2, 3), "torch.float32(2, 3)False"),
        (torch.ones(2, requires_grad=True), "torch.float32(2,)True"),
        ([1, ("a", None)], "[1, ['a', None]]"),
        ({"a": 1.5, "b": [True]}, "{a: 1.5, b: [True]}"),
        (Plain(), "Plain"),
        (SimpleNamespace(dtype="int8", shape=[2]), "int8(2,)"),
        (SimpleNamespace(dtype="int8"), "SimpleNamespace"),
    ],
)
def test_arguments_are_described_by_their_kinds(value, text):
    assert module_calls._signature(value) == text


def test_a_module_is_described_by_its_plain_attributes_and_its_state():
    module = nn.Linear(2, 3, bias=False)
    module.sizes, module.act, module.mixed, module.other = [1, (2)], torch.relu, [1, object()], object()

    facts = [*module_calls._facts(module)]

    assert facts[0] == "torch.nn.modules.linear.Linear"
    assert {"training=True", "in_features=2", "out_features=3", "sizes=[1, 2]", f"act={torch.relu.__qualname__}"} <= {
        *facts
    }
    assert facts[-2:] == [f"weight={(torch.float32, 3, 2)}", "bias=None"]
    assert not any(each.startswith(("mixed=", "other=")) for each in facts)
