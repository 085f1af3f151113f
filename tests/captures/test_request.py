from __future__ import annotations

import traceback
from typing import Any

import pytest
import torch
from torch import nn

from fixtures.train_steps import net_inputs, net_step
from pytest_fxgraph import capture
from pytest_fxgraph.captures.request import CaptureRequest, copied_call, independent_call, left_as_it_was
from pytest_fxgraph.errors import CaptureError, ChoiceError, InputsError

ONE, TWO = torch.ones(1), torch.ones(2)


def request(model: Any = None, inputs: object = (ONE,), frontend: str = "dynamo", **options: Any) -> CaptureRequest:
    return CaptureRequest.of(model or nn.ReLU(), inputs, options.pop("kwargs", None), frontend, **options)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"frontend": "jit"}, ChoiceError, "there is no frontend 'jit'; there are 'symbolic', 'export'"),
        ({"mode": "test"}, ChoiceError, "there is no mode 'test'; there are 'eval', 'train'"),
        ({"model": "net"}, CaptureError, "cannot capture an object of type str: hand over a module or function"),
        (
            {"frontend": "export", "calls": [((ONE,), {})]},
            CaptureError,
            "frontend='export' compiles once; use frontend='dynamo' or 'aot', or leave calls out",
        ),
        ({"decompositions": "core"}, CaptureError, "frontend='dynamo' knows no decompositions"),
        ({"decompositions": "core", "frontend": "symbolic"}, CaptureError, "'symbolic' knows no decompositions"),
        ({"decompositions": "cores", "frontend": "aot"}, ChoiceError, "no decompositions 'cores'; give a table, or"),
        ({"dynamic_shapes": True, "frontend": "symbolic"}, CaptureError, "records no sizes, so dynamic_shapes= says"),
        ({"dynamic_shapes": True, "frontend": "export"}, CaptureError, "dynamic_shapes=True is for frontends 'dynamo'"),
        ({"calls": [ONE]}, InputsError, "expected .* a tuple and a dict, got Tensor for call 2; write"),
        ({"calls": [((ONE,), {}), ((ONE,),)]}, InputsError, "got tuple for call 3"),
        ({"calls": [(ONE, {})]}, InputsError, "got tuple for call 2"),
        ({"calls": [((ONE,), ())]}, InputsError, "got tuple for call 2"),
        ({"calls": [[(ONE,), {}]]}, InputsError, "got list for call 2"),
        ({"calls": [((ONE,), {}, "change")]}, InputsError, "got tuple for call 2"),
    ],
)
def test_an_impossible_capture_is_refused_with_its_cure(options, error, words):
    with pytest.raises(error, match=words):
        request(**options)


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "train"},
        {"model": torch.relu},
        {"frontend": "aot", "calls": [((ONE,), {})]},
        {"frontend": "export", "decompositions": "core"},
        {"frontend": "make_fx", "dynamic_shapes": True},
        {"frontend": "export", "dynamic_shapes": {"x": {0: 1}}},
        {"frontend": "symbolic", "inputs": None},
    ],
)
def test_a_possible_capture_is_accepted(options):
    request(**options)


def test_the_calls_are_the_first_and_the_further_ones_each_with_the_change_before_it():
    changes: list[str] = []
    calls = [((TWO,), {"y": 1}), ((ONE,), {}, lambda: changes.append("changed"))]

    made = request(inputs=None, kwargs={"x": ONE}, calls=calls)

    assert made.calls == (((), {"x": ONE}), ((TWO,), {"y": 1}), ((ONE,), {}))
    for number in (1, 2):
        made.change_before(number)
    assert changes == []
    made.change_before(3)
    assert changes == ["changed"]


class Named(nn.Module):
    def forward(this, x, flag=True):  # a model may name it so
        return x


def test_the_arguments_of_a_call_are_known_by_the_names_of_the_parameters():
    model = Named()
    made = request(model)

    assert made.arguments(((ONE,), {})) == {"this": model, "x": ONE, "flag": True}
    assert made.arguments(((), {})) == {}
    assert request(lambda x, y=2: x).arguments(((1,), {})) == {"x": 1, "y": 2}


def test_the_model_has_the_name_that_its_forward_gives_it():
    class Static(nn.Module):
        forward = staticmethod(lambda: None)

    assert [request(model).own_name for model in (Named(), Static(), lambda this: this)] == ["this", "self", "self"]


def test_core_is_a_table_of_decompositions_and_any_other_table_stays():
    table = {torch.ops.aten.add.Tensor: lambda *args: None}

    assert torch.ops.aten.addcmul.default in request(frontend="aot", decompositions="core").decomposition_table
    assert request(frontend="aot", decompositions=table).decomposition_table is table
    assert request().decomposition_table is None


def test_a_model_that_fails_by_itself_is_told_apart_from_a_frontend_that_fails():
    def broken(x: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("no weights")

    failure = request(broken, frontend="export").failure(ValueError("torch's"))

    assert str(failure).startswith("frontend='export': the model ")
    assert "broken itself fails: RuntimeError: no weights" in str(failure)


def test_the_failing_call_is_named_where_there_are_several():
    made = request(calls=[((TWO,), {})])

    assert str(made.failure(ValueError("too deep"), 2)).startswith("frontend='dynamo' in call 2: cannot capture ")
    assert str(request().failure(ValueError("too deep"))).startswith("frontend='dynamo': cannot capture ")


def test_a_model_is_asked_whether_it_fails_with_the_arguments_of_the_failing_call():
    def picky(x: torch.Tensor) -> torch.Tensor:
        if len(x) > 1:
            raise RuntimeError("one row at most")
        return x

    made = request(picky, calls=[((TWO,), {})])

    assert "itself fails: RuntimeError: one row at most" in str(made.failure(ValueError("torch's"), 2))
    assert "itself fails" not in str(made.failure(ValueError("torch's"), 1))


def test_the_lines_that_torch_knows_are_told():
    error = ValueError("graph break")
    error.real_stack = traceback.StackSummary.from_list([("model.py", 3, "forward", "y = x.item()")])

    assert "\n  model.py:3, in forward: y = x.item()" in str(request().failure(error))


def test_the_first_call_fails_unless_another_one_is_named():
    def picky(x: torch.Tensor) -> torch.Tensor:
        if len(x) > 1:
            raise RuntimeError("one row at most")
        return x

    made = request(picky, calls=[((TWO,), {})])

    assert str(made.failure(ValueError("torch's"))).startswith("frontend='dynamo' in call 1: cannot capture ")
    for arguments, words in (
        ((), r"frontend='dynamo' in call 1: cannot capture .*: ValueError: torch's"),
        ((2,), r"in call 2: the model .* itself fails: RuntimeError: one row at most"),
    ):
        with pytest.raises(CaptureError, match=words), made.failures_told(*arguments):
            raise ValueError("torch's")


@pytest.mark.parametrize("stack", [None, "words", traceback.StackSummary()])
def test_an_error_without_lines_of_torch_tells_none(stack):
    error = ValueError("graph break")
    error.real_stack = stack

    assert str(request().failure(error)).splitlines() == [
        "frontend='dynamo': cannot capture ReLU: ValueError: graph break"
    ]


def test_a_train_step_is_captured_by_make_fx_alone():
    assert request(net_step("sgd"), net_inputs(), "make_fx").frontend == "make_fx"
    with pytest.raises(ChoiceError, match=r"frontend='export' takes no train step, because none of its graphs holds"):
        request(net_step("sgd"), net_inputs(), "export")


@pytest.mark.parametrize(
    ("frontend", "cure"), [("export", "frontend='dynamo' captures it in parts"), ("make_fx", "frontend='export' names")]
)
def test_another_frontend_is_the_cure(frontend, cure):
    assert cure in str(request(frontend=frontend).failure(ValueError("no")))


def test_a_call_may_write_into_its_copy():
    x = torch.zeros(2)

    args, kwargs = copied_call(((x,), {"y": x}))
    args[0].add_(1)

    assert x.sum() == 0
    assert kwargs["y"] is args[0]


@pytest.mark.parametrize(("mode", "trains"), [("train", True), ("eval", False), (None, True)])
def test_a_capture_sees_its_mode_and_leaves_the_modes_of_the_model(mode, trains):
    model = nn.Sequential(nn.Dropout(), nn.ReLU())
    model[1].eval()

    with left_as_it_was(request(model, mode=mode)):
        assert model[0].training is trains
        assert model[1].training is (mode == "train")

    assert [module.training for module in model] == [True, False]


class Weighted(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x * 2 - y


@pytest.mark.parametrize("frontend", ["export", "make_fx"])
def test_a_tensor_given_twice_is_two_inputs(frontend: str) -> None:
    graph = capture(Weighted(), (TWO, TWO), frontend=frontend).graphs[0]

    assert torch.equal(graph(TWO, ONE.expand(2)), torch.ones(2))
    assert torch.equal(graph(TWO, TWO * 5), TWO * -3)


def test_the_second_place_of_a_tensor_gets_a_copy_and_all_else_stays_shared():
    x = torch.ones(2, requires_grad=True)
    (first, second), more = independent_call(((x, x), {"y": (x, ONE), "flags": [3, 3]}))

    given = [first, second, *more["y"]]
    assert len({id(each) for each in given}) == 4
    assert [each.requires_grad for each in given] == [True, True, True, False]
    assert all(torch.equal(each, x) for each in given[:3])
    assert more["flags"] == [3, 3]
    (one, other), _ = copied_call(((x, x), {}))
    assert one is other
