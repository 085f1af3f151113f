"""What `fx_capture` tells of a model: graphs, breaks, recompiles, guards; and that it leaves nothing behind."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

import fixtures.dynamo  # noqa: F401  before any test: Dynamo cannot be imported a second time
import fxcore
from fixtures import models_that_break as models
from fixtures.process_groups import fake_group, needs_fake_group
from fixtures.quantized_tensors import with_wrapped_weights
from fixtures.torch_versions import TORCH
from pytest_fxgraph import Capture, assert_equivalent, capture, ops
from pytest_fxgraph.captures.capture import (
    Break,
    Findings,
    Guard,
    Recompile,
    SkippedFrame,
    Unavailable,
    explain_findings,
)
from pytest_fxgraph.captures.places import Place
from pytest_fxgraph.captures.torch_internals import InternalsError
from pytest_fxgraph.errors import CaptureError, ChoiceError, InputsError

X = torch.ones(2, 4)


@cache
def captured(name: str) -> Capture:
    return capture(getattr(models, name)(), X)


@pytest.mark.parametrize(
    ("model", "text", "cure"),
    [
        ("Prints", 'builtin (print) in forward: print("between")', "remove the print"),
        ("Branches", "branch on a tensor (if) in first.forward: if y.sum() > 0:", "torch.cond"),
        (
            "TakesNumberOut",
            "number out of a tensor (item) in forward: number = x.sum().item()",
            "capture_scalar_outputs",
        ),
        (
            "BreaksInHelper",
            "graph_break() (torch._dynamo.graph_break) in asks_for_break: torch._dynamo.graph_break()",
            "remove the call of torch._dynamo.graph_break()",
        ),
        (
            "CallsDisabled",
            "disabled function (disabled) in forward: return disabled(x + 1) * 3",
            "remove torch.compiler",
        ),
        (
            "UnknownShape",
            "operator of unknown shape (aten.nonzero.default) in forward: return torch.nonzero(x + 1).float() * 2",
            "capture_dynamic_output_shape_ops",
        ),
    ],
)
def test_a_break_is_told_by_kind_operator_place_and_cure(model, text, cure):
    (found,) = captured(model).breaks

    assert found.text == text
    assert found.is_avoidable
    assert cure in found.cure
    assert found.place.file.endswith("models_that_break.py")
    assert found.place.line > 1


def test_a_break_in_a_function_shows_the_calls_that_lead_to_it():
    (found,) = captured("BreaksInHelper").breaks

    assert [frame.function for frame in found.frames] == ["forward", "asks_for_break"]
    assert found.frames[0].source == "return asks_for_break(x + 1) * 3"


def test_the_graphs_on_both_sides_of_a_break_are_subjects():
    first, second = captured("Prints").graphs

    assert ops(first).summary() == "operator.add x1"
    assert ops(second).summary() == "relu x1"
    torch.testing.assert_close(second(first(X)[0])[0], X + 1)


def test_all_graphs_of_a_capture_are_asked_for_their_operators():
    assert ops(captured("Prints")).count("relu") == 1


def test_parameters_have_their_names_in_the_state_dict():
    (graph,) = captured("Whole").graphs

    names = [node.target for node in graph.graph.nodes if node.op == "get_attr"]
    assert sorted(names) == sorted(models.Whole().state_dict())
    assert len([node for node in graph.graph.nodes if node.op == "placeholder"]) == 1
    assert captured("Whole").signature[0].inputs == (("L_x_", "float32[2, 4]"),)
    assert captured("Whole").signature[0].outputs == ("float32[2, 4]",)


def test_a_model_without_breaks_is_whole():
    captured("Whole").assert_whole()

    assert captured("Whole").breaks == []
    assert captured("Whole").recompiles == []
    assert [guard.text for guard in captured("Whole").guards if guard.kind == "value"] == ["scale == 2"]


def test_what_is_not_whole_is_told_with_the_users_frames_and_the_cure():
    with pytest.raises(AssertionError) as error:
        captured("BreaksInHelper").assert_whole()

    lines = str(error.value).splitlines()
    assert lines[0] == "BreaksInHelper is not captured whole: 1 graph break, 4 graphs"
    assert lines[2].endswith("in forward: return asks_for_break(x + 1) * 3")
    assert lines[3].endswith("in asks_for_break: torch._dynamo.graph_break()")
    assert lines[5] == "  to avoid it: remove the call of torch._dynamo.graph_break()"


def test_a_function_that_is_left_to_python_is_told_and_there_is_nothing_to_compare():
    found = captured("BreaksInLoop")

    assert found.graphs == []
    assert [frame.text for frame in found.skipped] == ["forward: builtin"]
    assert [(each.kind, each.operator, each.place.function) for each in found.breaks] == [
        ("builtin", "print", "forward")
    ]
    with pytest.raises(AssertionError, match="BreaksInLoop was not captured: frontend 'dynamo' made no graph"):
        found.assert_whole()
    with pytest.raises(CaptureError, match=r"(?s)made no graph of it, so there is nothing to compare.*in forward: "):
        ops(found)


def test_a_call_that_computes_nothing_ends_the_capture_of_the_function():
    found = capture(models.ReturnsAtOnce(), (X, True), calls=[((X, False), {}), ((torch.ones(3, 4), True), {})])

    assert len(found.graphs) == 1
    assert [frame.text for frame in found.skipped] == ["forward: no operator in a call"]


def test_recompiles_name_call_guard_and_both_values():
    found = capture(
        models.TakesFlag(),
        X,
        calls=[((X, False), {}), ((torch.ones(3, 4),), {}), ((X,), {"more": (X,)})],
    )

    assert [each.text for each in found.recompiles] == [
        "call 2 of forward: flag: expected True, obtained False",
        "call 3 of forward: x size[0]: expected 2, obtained 3",
        "call 4 of forward: len(more): expected 0, obtained 1",
    ]
    assert len(found.graphs) == 4
    assert found.recompiles[0].place.source.startswith("def forward")


def test_a_size_that_differs_is_named_with_its_dimension():
    found = capture(models.Whole(), X, calls=[((torch.ones(3, 4),), {})])

    assert [each.text for each in found.recompiles] == ["call 2 of forward: x size[0]: expected 2, obtained 3"]
    assert [*found.range_constraints.values()] == [(2, None)]


@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        ((X,), (X, 3), "more: expected None, obtained 3"),
        ((X, {"key": 1}), (X, {"key": 1, "other": 2}), "len(more): expected 1, obtained 2"),
        ((X, {"key": X}), (X, {"other": X}), "key 0 of more: expected 'key', obtained 'other'"),
        ((X,), (X.clone().requires_grad_(),), "x requires_grad: expected False, obtained True"),
        ((X,), (X[0],), "x rank: expected 2, obtained 1"),
        ((X, 2), (X, 3), "more: expected 2, obtained 3"),
    ],
    ids=["None", "length", "key", "requires_grad", "rank", "number"],
)
def test_what_a_call_had_otherwise_is_told_with_both_values(first, second, text):
    found = capture(models.TakesAnything(), first, calls=[(second, {})])

    assert [each.text for each in found.recompiles] == [f"call 2 of forward: {text}"]


def test_a_global_variable_that_changed_is_named():
    models.calls = 0

    found = capture(models.CountsCalls(), X, calls=[((X,), {})])

    assert [each.text for each in found.recompiles] == ["call 2 of forward: global calls: expected 0"]


def test_a_break_in_a_generator_is_told_once_where_it_is():
    found = capture(models.BreaksInGenerator(), X)

    assert [each.text for each in found.breaks] == ['builtin (print) in prints_between: print("between")']


def test_a_break_in_code_of_torch_is_told_at_the_line_of_the_user():
    (found,) = capture(models.Disabled(), X).breaks

    assert (found.kind, found.place.function) == ("disabled function", "forward")
    assert found.place.file.endswith("models_that_break.py")


def test_a_dtype_that_differs_is_named():
    found = capture(models.Prints(), X, calls=[((X.double(),), {})])

    assert found.recompiles[0].text == "call 2 of forward: x dtype: expected Float, obtained Double"
    assert found.recompiles[1].text.startswith('call 2 of forward behind the break at `print("between")`: x dtype')


def test_a_function_that_is_compiled_too_often_falls_back_to_python():
    found = capture(models.TakesText(), (X, "0"), calls=[((X, str(number)), {}) for number in range(1, 11)])

    assert [each.text for each in found.fallbacks] == ["forward: compiled too often"]
    with pytest.raises(AssertionError, match="TakesText is not captured whole"):
        found.assert_whole()


def test_symbolic_sizes_have_ranges_and_what_a_branch_on_them_assumed():
    size = torch.export.Dim("size", min=4, max=64)
    found = capture(models.Whole(), X.repeat(4, 1), dynamic_shapes={"x": {0: size}})

    assert [*found.range_constraints.values()] == [(4, 64)]
    assert found.recompiles == []
    even = capture(models.EvenSizes(), X, calls=[((torch.ones(4, 4),), {})])
    assert any("Mod(" in guard.text for guard in even.guards)


@pytest.mark.parametrize(
    ("size", "ranges"),
    [(8, []), (torch.export.Dim.STATIC, []), (torch.export.Dim.AUTO, [(2, None)]), (None, [])],
    ids=["number", "static", "auto", "none"],
)
def test_sizes_are_named_for_dynamo_as_for_export(size, ranges):
    found = capture(models.Prints(), X.repeat(4, 1), dynamic_shapes=({0: size},))

    assert [*found.range_constraints.values()] == ranges


def test_make_fx_tells_the_ranges_of_symbolic_sizes():
    found = capture(models.Prints(), X, frontend="make_fx", dynamic_shapes=True)

    assert {*found.range_constraints.values()} == {(2, None)}
    assert capture(models.Prints(), X, frontend="make_fx").range_constraints == {}


def test_aot_gives_forward_backward_and_joint_graphs_with_operators():
    found = capture(models.Whole(), X, frontend="aot", mode="train")

    (forward,), (backward,), (joint,) = found.graphs, found.backward_graphs, found.joint_graphs
    assert ops(forward).count(torch.ops.aten.addmm.default) == 2
    assert ops(backward).count("aten.threshold_backward*") == 2
    assert ops(joint).count("aten.threshold_backward*") == 2
    assert {node.target for node in backward.graph.nodes if node.op == "get_attr"} <= set(models.Whole().state_dict())


def test_a_training_step_that_is_one_graph_is_whole():
    found = capture(models.Whole(), X, frontend="aot", mode="train")

    assert found.fallbacks == []
    found.assert_whole()


def test_aot_in_eval_mode_has_no_backward_graph():
    found = capture(models.Whole(), X, frontend="aot")

    assert found.backward_graphs == []
    assert ops(found).count("aten.addmm.default") == 2


@pytest.mark.parametrize("frontend", ["symbolic", "export", "make_fx"])
def test_other_frontends_make_one_graph_that_does_what_the_model_does(frontend):
    torch.manual_seed(0)
    model = models.Whole().eval()
    found = capture(model, X, frontend=frontend)

    (graph,) = found.graphs
    assert_equivalent(model, graph, X)
    assert found.breaks == []
    with pytest.raises(CaptureError, match="records no backward graph; use frontend='aot' with mode='train'"):
        _ = found.backward_graphs


def test_export_tells_the_ranges_of_its_sizes():
    size = torch.export.Dim("size", min=4, max=64)
    found = capture(models.Whole(), X.repeat(4, 1), frontend="export", dynamic_shapes={"x": {0: size}})

    assert [*found.range_constraints.values()] == [(4, 64)]


def test_what_a_frontend_refuses_is_told_with_the_users_line_and_another_frontend():
    with pytest.raises(CaptureError) as error:
        capture(models.Branches(), X, frontend="export")

    assert str(error.value).startswith("frontend='export': cannot capture Branches: ")
    assert "in forward: if y.sum() > 0:" in str(error.value)
    assert str(error.value).endswith("frontend='dynamo' captures it in parts and says where it breaks")


def test_decompositions_are_applied():
    found = capture(nn.Linear(4, 4), X, frontend="export", decompositions="core")

    assert ops(found).count("aten.addmm.default") == 1


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"frontend": "tvm"}, ChoiceError, "there is no frontend 'tvm'; there are 'symbolic', 'export'"),
        ({"mode": "test"}, ChoiceError, "there is no mode 'test'"),
        ({"frontend": "export", "calls": [((X,), {})]}, CaptureError, "frontend='export' compiles once"),
        ({"calls": [(X,)]}, InputsError, r"calls: expected \(args, kwargs\)"),
        ({"decompositions": "core"}, CaptureError, "frontend='dynamo' knows no decompositions"),
        ({"frontend": "make_fx", "dynamic_shapes": {"x": {0: 3}}}, CaptureError, "give dynamic_shapes=True"),
        ({"frontend": "symbolic", "dynamic_shapes": True}, CaptureError, "records no sizes"),
        ({"frontend": "export", "dynamic_shapes": True}, CaptureError, "dynamic_shapes=True is for frontends 'dynamo'"),
        ({"dynamic_shapes": {"y": {0: 3}}}, CaptureError, "names 'y', and Whole takes 'x'; write dynamic_shapes="),
        ({"dynamic_shapes": {"x": [{0: 3}, {0: 3}]}}, CaptureError, "has another structure than the inputs"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(options, error, words):
    with pytest.raises(error, match=words):
        capture(models.Whole(), X, **options)


@pytest.mark.parametrize("frontend", ["export", "dynamo", "aot", "make_fx"])
def test_a_model_that_fails_is_told_as_its_own_failure_with_its_line(frontend):
    with pytest.raises(CaptureError) as error:
        capture(models.Whole(), torch.ones(2, 5), frontend=frontend)

    first, second = str(error.value).splitlines()
    assert first.startswith(f"frontend='{frontend}': the model Whole itself fails: RuntimeError: mat1 and mat2")
    assert second.endswith("in forward: return self.linear(x).relu()")


def test_what_torch_refuses_though_the_model_runs_is_a_failure_of_the_frontend():
    with pytest.raises(CaptureError, match=r"(?s)cannot capture .*<lambda>: .*no fake impl registered"):
        capture(lambda x: torch.ops.fxgraph_test.no_shape_known(x) + 1, X)


@torch.library.custom_op("fxgraph_test::no_shape_known", mutates_args=())
def no_shape_known(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def test_model_inputs_generators_and_dynamo_are_left_as_they_were():
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout())
    model[0].weight.grad = torch.ones(4, 4)
    before, flags = copy.deepcopy(model.state_dict()), [module.training for module in model.modules()]
    x, generator = X.clone().requires_grad_(), torch.get_rng_state()

    capture(model, x, frontend="aot", mode="train")
    capture(model, x)

    for name, value in model.state_dict().items():
        torch.testing.assert_close(value, before[name], rtol=0, atol=0)
    assert [module.training for module in model.modules()] == flags
    assert torch.equal(model[0].weight.grad, torch.ones(4, 4))
    assert model[0].bias.grad is None
    assert x.grad is None
    assert torch.equal(generator, torch.get_rng_state())
    assert not hasattr(x, "_dynamo_dynamic_indices")
    assert vars(model).keys() == vars(nn.Sequential()).keys()


def test_what_dynamo_counts_is_left_as_it_was():
    from torch._dynamo import output_graph, utils

    def counted():
        counters = {kind: dict(counter) for kind, counter in utils.counters.items()}
        return counters, len(utils.get_compilation_metrics()), len(output_graph.graph_break_reasons)

    utils.counters["of the user"]["calls"] = 3
    torch.compile(models.Prints(), backend="eager")(X)  # a break of the user's own
    before = counted()

    capture(models.Prints(), X)

    assert counted() == before
    del utils.counters["of the user"]


def test_two_captures_in_one_process_do_not_know_of_each_other():
    first, second = [capture(models.Prints(), X) for _ in range(2)]

    assert first.breaks == second.breaks
    assert len(first.graphs) == len(second.graphs) == 2
    assert second.recompiles == []


def test_a_part_of_torch_that_is_not_there_is_named_and_never_an_empty_list(monkeypatch):
    monkeypatch.delattr("torch._dynamo.output_graph.graph_break_reasons")
    found = capture(models.Whole(), X)

    assert len(found.graphs) == 1
    with pytest.raises(CaptureError, match=r"has no torch\._dynamo\.output_graph\.graph_break_reasons, from which Cap"):
        _ = found.breaks


PARTS = {
    "0.weight.whole": (8, 4),
    "0.weight.scale": (),
    "0.bias": (8,),
    "2.weight.whole": (4, 8),
    "2.weight.scale": (),
    "2.bias": (4,),
}


def wrapping_net():
    torch.manual_seed(0)
    return with_wrapped_weights(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4)).eval())


@pytest.mark.parametrize("frontend", ["aot", "make_fx"])
def test_the_state_of_a_quantized_model_has_its_names_below_aot_and_make_fx(frontend):
    model = wrapping_net()

    (graph,) = capture(model, X, frontend=frontend).graphs

    read = {node.target: node.meta["val"].shape for node in graph.graph.nodes if node.op == "get_attr" and node.users}
    assert {path: tuple(shape) for path, shape in read.items()} == PARTS
    assert graph.get_buffer("2.weight.scale") is model[2].weight.scale
    assert not [name for name, _ in graph.named_buffers() if "constant" in name]
    torch.testing.assert_close(pytree.tree_leaves(graph(X))[0], model(X))


def test_make_fx_takes_an_input_that_wraps_tensors_by_its_parts():
    weight = wrapping_net()[0].weight

    (graph,) = capture(lambda x, weight: nn.functional.linear(x, weight), (X, weight), frontend="make_fx").graphs

    assert [node.op for node in graph.graph.nodes].count("placeholder") == 3
    torch.testing.assert_close(graph(X, weight.whole, weight.scale), nn.functional.linear(X, weight))


@needs_fake_group
def test_make_fx_names_the_local_weights_of_a_distributed_model():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    with fake_group(size=2):
        mesh, plan = init_device_mesh("cpu", (2,)), {"0": ColwiseParallel(), "2": RowwiseParallel()}
        model = parallelize_module(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4)), mesh, plan).eval()

        (graph,) = capture(model, X, frontend="make_fx").graphs

        read = {node.target: tuple(node.meta["val"].shape) for node in graph.graph.nodes if node.op == "get_attr"}
        assert read == {
            "0.weight._local_tensor": (4, 4),
            "0.bias._local_tensor": (4,),
            "2.weight._local_tensor": (4, 4),
            "2.bias._local_tensor": (4,),
        }
        assert graph.get_buffer("0.bias._local_tensor") is model[0].bias._local_tensor
        adds = [node for node in graph.graph.nodes if node.target is torch.ops.aten.addmm.default]
        if TORCH >= (2, 13):  # torch 2.6 copies biases first
            assert [str(node.all_input_nodes[0]) for node in adds] == ["_0_bias__local_tensor", "div"]


def test_findings_show_themselves_in_one_line_and_tell_more_in_several():
    place = Place("model.py", 3, "forward", "y = x.item()", "block")
    found = Break("number out of a tensor", "item", place, False, None, "torch's words")
    recompiled = Recompile(1, "size", "x size[0]", "2", "3", place)
    skipped = SkippedFrame(place, "too many recompiles", "torch's words")

    assert repr(found) == "<break: number out of a tensor (item) in block.forward: y = x.item()>"
    assert found.lines()[-1] == "  torch cannot trace this; keep it out of the model's forward"
    assert replace(found, is_avoidable=None).lines()[-1] == "  torch says: torch's words"
    assert replace(found, cure="write it otherwise").lines()[-1] == "  to avoid it: write it otherwise"
    assert repr(recompiled) == "<recompile: call 1 of block.forward: x size[0]: expected 2, obtained 3>"
    assert recompiled.lines() == [f"recompiled in {recompiled.text}", f"  {place}"]
    assert repr(Guard("value", "k", "2")) == "<guard: k == 2>"
    assert repr(skipped) == "<skipped: block.forward: too many recompiles>"


def test_a_capture_shows_its_model_and_counts_its_findings():
    place = Place("model.py", 3, "forward", "y = x.item()")
    found = Break("number out of a tensor", "item", place, False, None, "torch's words")
    recompiled = Recompile(1, "size", "x size[0]", "2", "3", place)
    graph, missing = fxcore.symbolic_trace(nn.ReLU()), Unavailable("this torch does not tell")

    assert repr(Capture("trace", "Net", [graph])) == "<capture of Net by trace: 1 graph>"
    assert repr(Capture("dynamo", "Net", [graph] * 2)) == "<capture of Net by dynamo: 2 graphs, 0 breaks>"
    told = Capture("dynamo", "Net", [graph], breaks=[found], recompiles=[recompiled] * 2)
    assert repr(told) == "<capture of Net by dynamo: 1 graph, 1 break, 2 recompiles>"
    silent = Capture("dynamo", "Net", [graph], breaks=missing, recompiles=missing)
    assert repr(silent) == "<capture of Net by dynamo: 1 graph>"
    with pytest.raises(CaptureError, match=r"^this torch does not tell$"):
        _ = silent.breaks


def test_a_failed_comparison_of_findings_is_explained():
    place = Place("model.py", 3, "forward", "y = x.item()")
    found = Findings([Break("number out of a tensor", "item", place, False, None, "torch's words")])

    assert explain_findings("==", found, []) == ["1 finding where there should be none", *found.explanation()]
    assert explain_findings("==", [], found) == ["1 finding where there should be none", *found.explanation()]
    two = Findings([*found, *found])
    assert explain_findings("==", two, [1]) == ["2 findings where there should be others", *two.explanation()]
    assert explain_findings("!=", found, []) is None
    assert explain_findings("==", Findings(), [1]) is None
    assert explain_findings("==", [1], []) is None


@pytest.mark.parametrize("frontend", ["dynamo", "make_fx"])
def test_ranges_that_this_torch_does_not_keep_are_an_error_and_never_empty(frontend, monkeypatch):
    def without_ranges(graph):
        raise InternalsError("torch has no ShapeEnv.var_to_range, from which Capture.range_constraints is read")

    module = {"dynamo": "dynamo", "make_fx": "capture"}[frontend]
    monkeypatch.setattr(f"pytest_fxgraph.captures.{module}.shape_facts", without_ranges)
    found = capture(models.Prints(), X, frontend=frontend, dynamic_shapes=True)

    assert len(found.graphs) > 0
    with pytest.raises(CaptureError, match=r"has no ShapeEnv.var_to_range, from which Capture.range_constraints"):
        _ = found.range_constraints


@pytest.mark.parametrize(
    ("shapes", "ranges"),
    [
        ({"pair": ({0: 4}, None)}, []),
        ({"pair": ({0: torch.export.Dim("n", min=2, max=9)}, None)}, [(2, 9)]),
    ],
)
def test_sizes_of_tensors_inside_an_input_are_named_in_its_structure(shapes, ranges):
    def added(pair):
        return pair[0] + pair[1]

    found = capture(added, ((torch.ones(4, 1), torch.ones(1, 3)),), dynamic_shapes=shapes)

    assert [*found.range_constraints.values()] == ranges


@pytest.mark.parametrize(
    "shapes", [{"pair": ({0: 3},)}, {"pair": [(3, None), {}]}, {"flag": {0: 3}}, {"pair": ({0: {1: 2}}, None)}]
)
def test_sizes_in_another_structure_than_the_input_are_refused(shapes):
    def added(pair, flag=True):
        return pair[0] + pair[1] if flag else pair[0]

    with pytest.raises(CaptureError, match="dynamic_shapes= has another structure than the inputs; give a dict of"):
        capture(added, ((X, X), True), dynamic_shapes=shapes)


def test_functions_left_to_python_are_unknown_without_the_record_of_torch(monkeypatch):
    monkeypatch.delattr("torch._dynamo.utils.get_compilation_metrics")
    found = capture(models.Whole(), X)

    assert len(found.graphs) == 1
    for read in (lambda: found.skipped, lambda: found.fallbacks, lambda: found.breaks):
        with pytest.raises(CaptureError, match=r"has no torch\._dynamo\.utils\.get_compilation_metrics"):
            read()


def test_what_is_no_model_is_refused():
    with pytest.raises(CaptureError, match="cannot capture an object of type int: hand over a module or function"):
        capture(3, X)


def test_frames_that_were_left_for_other_reasons_are_equal():
    place = Place("a.py", 1, "forward", "x.item()")

    assert SkippedFrame(place, "graph break", "one") == SkippedFrame(place, "graph break", "other")
    assert SkippedFrame(place, "graph break", "one") != SkippedFrame(place, "skipped", "one")


@pytest.mark.parametrize(("count", "last"), [(0, []), (20, ["19"]), (21, ["and 1 more"]), (30, ["and 10 more"])])
def test_twenty_findings_are_told_and_others_counted(count, last):
    told = Findings(
        [SimpleNamespace(lines=lambda number=number: [str(number)]) for number in range(count)]
    ).explanation()

    assert told[-1:] == last
    assert told[:20] == [str(number) for number in range(min(count, 20))]
