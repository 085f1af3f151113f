"""Names of inputs, sizes and findings that Dynamo's log gives, whatever version of torch wrote it."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import fxcore
from pytest_fxgraph.captures import dynamo
from pytest_fxgraph.captures.capture import Break, Recompile, SkippedFrame
from pytest_fxgraph.captures.dynamo import DynamoRecording, break_at, name_inputs
from pytest_fxgraph.captures.places import Place
from pytest_fxgraph.captures.request import CaptureRequest
from pytest_fxgraph.captures.torch_internals import FailedFrame, Unavailable
from pytest_fxgraph.errors import CaptureError


def test_inputs_that_are_sizes_are_numbered_past_the_names_that_are_taken():
    graph = fxcore.Graph()
    graph.placeholder("s77", type_expr=torch.SymInt)
    x = graph.placeholder("x")
    graph.placeholder("s3", type_expr=torch.SymInt)
    graph.output(graph.create_node("call_function", torch.relu, (x,), name="size_1"))
    module = fxcore.GraphModule(torch.nn.Module(), graph)

    name_inputs(module)

    assert [node.name for node in graph.nodes] == ["size_0", "x", "size_2", "size_1", "output"]
    assert [node.target for node in graph.find_nodes(op="placeholder")] == ["size_0", "x", "size_2"]


class MeshLike:
    mesh_dim_names = ("tp",)


def test_inputs_that_are_meshes_are_numbered():
    graph = fxcore.Graph()
    x = graph.placeholder("x")
    graph.placeholder("l_self_modules_up_forward_pre_hooks_0_closure_0_cell_contents")
    graph.output(x)

    name_inputs(fxcore.GraphModule(torch.nn.Module(), graph), [torch.ones(2), MeshLike()])

    assert [node.target for node in graph.find_nodes(op="placeholder")] == ["x", "mesh_0"]


class Net(nn.Module):
    def forward(self, x, y=None):
        z = x.relu()
        return z + 1


LINE = Net.forward.__code__.co_firstlineno


def recording(**options):
    return DynamoRecording(CaptureRequest.of(Net(), torch.ones(2, 3), None, "dynamo", **options))


def frame(line=None, kind="skipped", file=__file__, function="forward", reason="words"):
    return FailedFrame(file, function, LINE, line, kind, reason)


def reason_at(line):
    stack = [SimpleNamespace(filename=__file__, lineno=line, name="forward"),
             SimpleNamespace(filename=torch.__file__, lineno=1, name="inner")]  # fmt: skip
    return SimpleNamespace(reason="words", user_stack=stack)


@pytest.mark.parametrize(
    ("reasons", "failed", "breaks", "skipped", "fallbacks"),
    [
        ([], [], [], [], []),
        ([reason_at(LINE + 1)], [], [LINE + 1], [], []),
        ([reason_at(LINE + 1), reason_at(LINE + 1)], [], [LINE + 1], [], []),
        ([], [frame(LINE + 1)], [LINE + 1], [LINE + 1], []),
        ([], [frame()], [LINE], [LINE], []),
        ([reason_at(LINE + 1)], [frame(LINE + 1)], [LINE + 1], [LINE + 1], []),
        ([reason_at(LINE + 2)], [frame(LINE + 1)], [LINE + 2, LINE + 1], [LINE + 1], []),
        ([], [frame(LINE + 1), frame(LINE + 1)], [LINE + 1], [LINE + 1], []),
        ([], [frame(kind="")], [], [LINE], []),
        ([], [frame(kind="", function="other")], [], [], []),
        ([], [frame(kind="", file=torch.__file__)], [], [], []),
        ([], [frame(file=None)], [], [], [0]),
        ([], [frame(file=torch.__file__, function="wrapper")], [LINE], [LINE], []),
    ],
)
def test_findings_are_read_from_the_log(reasons, failed, breaks, skipped, fallbacks):
    made = recording()
    made._read(SimpleNamespace(break_reasons=lambda: reasons, failed_frames=lambda: failed))
    capture = made.capture([])

    assert [each.place.line for each in capture.breaks] == breaks
    assert [each.place.line for each in capture.skipped] == skipped
    assert [each.place.line for each in capture.fallbacks] == fallbacks
    assert {each.kind for each in capture.fallbacks} <= {"compiled too often"}


def test_a_function_that_was_compiled_too_often_is_that_of_the_last_recompile():
    made = recording()
    made._recompiles = [
        Recompile(call, "value", "k", "1", "2", Place("net.py", line, "forward", "x"))
        for call, line in ((2, 3), (3, 7))
    ]
    made._read(SimpleNamespace(break_reasons=list, failed_frames=lambda: [frame(file=None)]))

    assert [each.place.line for each in made.capture([]).fallbacks] == [7]


def test_a_function_without_an_operator_is_told_as_that():
    made = recording()
    made._read(SimpleNamespace(break_reasons=list, failed_frames=lambda: [frame(kind="")]))

    assert [(each.kind, each.place.function) for each in made.capture([]).skipped] == [
        ("no operator in a call", "forward")
    ]


def test_what_torch_does_not_record_is_unknown():
    missing = Unavailable("no record")
    made = recording()
    made._read(SimpleNamespace(break_reasons=lambda: missing, failed_frames=lambda: [frame(LINE + 1)]))
    capture = made.capture([])

    assert len(capture.skipped) == 1
    with pytest.raises(CaptureError, match="no record"):
        _ = capture.breaks
    made._read(SimpleNamespace(break_reasons=list, failed_frames=lambda: missing))
    for finding in ("breaks", "skipped", "fallbacks"):
        with pytest.raises(CaptureError, match="no record"):
            getattr(made.capture([]), finding)


def test_breaks_in_one_function_have_the_modules_of_all_of_them():
    def at(line, function, module):
        return break_at("words", (Place("net.py", line, function, "x", module),))

    found = dynamo._with_callers([at(1, "f", "a"), at(2, "f", ""), at(3, "f", "b"), at(4, "g", ""), at(5, "h", "c")])

    assert [each.place.module for each in found] == ["a, b", "a, b", "a, b", "", "c"]


def test_a_break_without_frames_has_no_place():
    assert break_at("words", ()).place == Place("", 0, "", "")
    inner, outer = Place("net.py", 3, "g", "y"), Place("net.py", 1, "f", "x", "m")
    found = break_at("words\nmore", (outer, inner))
    assert isinstance(found, Break)
    assert (found.place.line, found.place.module, found.reason, found.frames) == (3, "m", "words", (outer, inner))


def test_a_recording_of_frames_has_a_line_even_where_torch_tells_none():
    without = FailedFrame(__file__, "forward", None, None, "skipped", "words")

    assert isinstance(recording()._skipped_frame(without), SkippedFrame)
    assert recording()._skipped_frame(without).place.line == 0


@pytest.fixture
def marked(monkeypatch):
    found = []
    monkeypatch.setattr(dynamo, "mark_size", lambda value, dimension, size: found.append((value, dimension, size)))
    return found


X, Y = torch.ones(2, 3), torch.ones(4)


@pytest.mark.parametrize(
    ("value", "spec", "sizes"),
    [
        (X, {0: "n"}, [(X, 0, "n")]),
        (X, {0: "n", 1: None}, [(X, 0, "n")]),
        (X, ("n", "m"), [(X, 0, "n"), (X, 1, "m")]),
        (X, [None, "m"], [(X, 1, "m")]),
        (X, None, []),
        ([X, Y], [{0: "n"}, None], [(X, 0, "n")]),
        ([X, Y], [None, {0: "m"}], [(Y, 0, "m")]),
        ({"a": X}, {"a": {1: "n"}}, [(X, 1, "n")]),
        (3, None, []),
        ([3, X], [None, {0: "n"}], [(X, 0, "n")]),
    ],
)
def test_sizes_are_marked_on_the_tensors_of_an_input(marked, value, spec, sizes):
    dynamo._mark(value, spec)

    assert len(marked) == len(sizes)
    for (tensor, *size), (expected, *expected_size) in zip(marked, sizes, strict=True):
        assert tensor is expected
        assert size == expected_size


@pytest.mark.parametrize(
    ("value", "spec"),
    [
        (X, {"a": "n"}),
        (X, {0: {1: "n"}}),
        (X, [["n"]]),
        (3, {0: "n"}),
        (3, "n"),
        ([X, Y], [{0: "n"}]),
        ([X], {0: "n", "b": 1}),
    ],
)
def test_sizes_in_another_structure_are_refused(marked, value, spec):
    with pytest.raises(CaptureError, match="another structure than the inputs"):
        dynamo._mark(value, spec)


@pytest.mark.parametrize(
    ("shapes", "sizes"),
    [
        (None, []),
        (True, []),
        ({"x": {0: "n"}}, [(0, "n")]),
        ({"x": {0: "n"}, "y": {1: "m"}}, [(0, "n"), (1, "m")]),
        (({0: "n"}, {1: "m"}), [(0, "n"), (1, "m")]),
        (({0: "n"},), [(0, "n")]),
    ],
)
def test_sizes_are_given_by_name_or_by_place(marked, shapes, sizes):
    made = DynamoRecording(CaptureRequest.of(Net(), (X, X), None, "dynamo", dynamic_shapes=shapes))

    made._marked(((X, X), {}))

    assert [tuple(size) for _, *size in marked] == sizes


def test_a_name_that_is_no_input_is_refused_with_the_inputs():
    made = recording(dynamic_shapes={"z": {0: "n"}})

    with pytest.raises(CaptureError, match="dynamic_shapes= names 'z', and Net takes 'x', 'y'; write"):
        made._marked(((X,), {}))


def test_a_backward_runs_for_the_outputs_with_a_gradient():
    weight = torch.ones(2, requires_grad=True)
    dynamo._run_backward({"a": weight * 2, "b": torch.ones(3), "c": [weight * 3, 4]})
    dynamo._run_backward([torch.ones(2), None])

    assert weight.grad.tolist() == [5, 5]


class Log:
    """A log of a Dynamo that hands over one graph of its own in each call."""

    graph = torch.fx.symbolic_trace(lambda x: x.relu())

    def compiled(self, model, backend, *, is_dynamic):
        self.is_dynamic = is_dynamic
        Log.last = self

        def run(x):
            return backend(self.graph, [x])(x)

        return run

    def break_reasons(self):
        return []

    def failed_frames(self):
        return []


@pytest.mark.parametrize(("shapes", "is_dynamic"), [(None, None), (True, True), (False, False), ({"x": None}, None)])
@pytest.mark.parametrize("is_backward_run", [False, True])
def test_all_calls_are_made_and_each_graph_is_lowered(monkeypatch, shapes, is_dynamic, is_backward_run):
    monkeypatch.setattr(dynamo, "DynamoLog", Log)
    monkeypatch.setattr(dynamo, "dynamo_reset", nullcontext)
    changed = []
    calls = [((torch.ones(3, requires_grad=True),), {}, lambda: changed.append("before the second call"))]
    request = CaptureRequest.of(Net(), torch.ones(2, 3), None, "dynamo", calls, shapes)
    made = DynamoRecording(request)
    given = []

    def lower(graph_module, examples, state):
        given.append(state)
        return graph_module.forward

    found = made.run(lower, is_backward_run=is_backward_run) if is_backward_run else made.run(lower)

    assert Log.last.is_dynamic is is_dynamic
    assert changed == ["before the second call"]
    assert given == [{}, {}]
    assert [tuple(outputs.shape) for _, outputs in found] == [(2, 3), (3,)]
    assert [(call[0][0].grad is not None) for call, _ in found] == [False, is_backward_run]
    assert [[node.op for node in each.graph.nodes] for each in made.graphs] == [
        ["placeholder", "call_method", "output"]
    ] * 2


def test_a_graph_without_a_call_is_lowered_and_not_kept():
    made, lowered = recording(), []
    backend = made._backend(lambda graph_module, examples, state: lowered.append(graph_module))

    backend(torch.fx.symbolic_trace(lambda x: x), [torch.ones(2)])

    assert (len(lowered), made.graphs) == (1, [])


def test_ranges_that_torch_does_not_keep_stay_unknown(monkeypatch):
    answers = iter([({}, ["a", "b"]), ({}, ["b", "c"]), CaptureError("no ranges"), ({}, ["d"])])

    def note(graph_module):
        answer = next(answers)
        if isinstance(answer, CaptureError):
            raise answer
        return answer

    monkeypatch.setattr(dynamo, "note_shapes", note)
    monkeypatch.setattr(dynamo, "named_bounds", lambda ranges: {"s0": (1, 2)})
    made = recording()

    made._read_shapes(None)
    made._read_shapes(None)
    assert made.capture([]).range_constraints == {"s0": (1, 2)}
    assert [guard.name for guard in made.capture([]).guards] == ["a", "b", "c"]
    made._read_shapes(None)
    made._read_shapes(None)
    assert [guard.name for guard in made.capture([]).guards] == ["a", "b", "c", "d"]
    with pytest.raises(CaptureError, match="no ranges"):
        _ = made.capture([]).range_constraints
