"""The ranges and the signature of an exported program stay, or the pass is named."""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import Dim, ExportedProgram, export
from torch.export.graph_signature import InputKind
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._sympy.value_ranges import ValueRanges

from pytest_fxgraph.errors import ChoiceError
from pytest_fxgraph.transform.fixture import FxTransform
from pytest_fxgraph.transform.program_interface import ProgramInterface, _inner_sizes, _input_sizes, _kinds


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.register_buffer("scale", torch.full((4,), 2.0))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.lin(x)) * self.scale + y


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.linspace(-1, 1, 20).reshape(5, 4), torch.ones(5, 4)


def program() -> ExportedProgram:
    batch = Dim("batch", min=3, max=64)
    return export(Net().eval(), inputs(), dynamic_shapes=({0: batch}, {0: batch}), strict=False)


def with_range(low: int, high: int) -> Callable[[ExportedProgram], ExportedProgram]:
    def ranged(given: ExportedProgram) -> ExportedProgram:
        made = copy.copy(given)
        made._range_constraints = {symbol: ValueRanges(low, high) for symbol in given.range_constraints}
        return made

    return ranged


def without_ranges(given: ExportedProgram) -> ExportedProgram:
    made = copy.copy(given)
    made._range_constraints = {}
    return made


def frozen(given: ExportedProgram) -> ExportedProgram:
    made = copy.copy(given)
    made._graph_signature = copy.deepcopy(given.graph_signature)
    for spec in made.graph_signature.input_specs:
        if spec.target == "lin.weight":
            spec.kind, spec.persistent = InputKind.BUFFER, True
    return made


def specialised(_: ExportedProgram) -> ExportedProgram:
    return export(Net().eval(), inputs(), strict=False)


@pytest.mark.parametrize(
    ("transform", "words"),
    [
        (with_range(3, 16), "dimension 0 of input 0 was from 3 to 64 and is from 3 to 16"),
        (with_range(2, 1000), "dimension 0 of input 0 was from 3 to 64 and is from 2 to 1000"),
        (without_ranges, "dimension 0 of input 0 was from 3 to 64 and is of any value"),
    ],
)
def test_another_range_of_an_input_is_told(transform, words):
    with pytest.raises(AssertionError, match=f"changed the ranges of the program: {words}; keep range_constraints"):
        FxTransform()(transform, program(), inputs())


def test_sizes_that_became_static_are_told_with_their_equality():
    subject = program()
    with torch.no_grad():
        made = specialised(subject)
        made.state_dict.update(subject.state_dict)

    words = "0 of input 0 was from 3 to 64 and is 5; dimension 0 of input 1 was dimension 0 of input 0 and is 5; keep"
    with pytest.raises(AssertionError, match=words):
        FxTransform()(lambda _: made, subject, inputs())


def test_a_parameter_that_became_a_buffer_is_told():
    with pytest.raises(AssertionError, match=r"frozen changed the signature of the program: lin.weight was a parameter "
                                             r"and is a buffer; .*may_change=\('signature',\) if that"):  # fmt: skip
        FxTransform()(frozen, program(), inputs())


def test_a_test_may_name_the_promises_that_change():
    FxTransform()(frozen, program(), inputs(), may_change="signature")
    FxTransform()(with_range(3, 16), program(), inputs(), may_change=("ranges", "refusals"))
    with pytest.raises(AssertionError, match="changed the ranges of the program"):
        FxTransform()(with_range(3, 16), program(), inputs(), may_change=("signature", "val"))
    with pytest.raises(ChoiceError, match=r"no promise 'range' \(did you mean 'ranges'\?\); there are 'ranges', "):
        FxTransform()(frozen, program(), inputs(), may_change=("range",))


def folded(given: ExportedProgram) -> ExportedProgram:
    """Drop a buffer that the graph no longer needs, and its input."""
    made = copy.copy(given)
    made._graph_signature = copy.deepcopy(given.graph_signature)
    graph = made.graph_module.graph
    by_name = {node.name: node for node in graph.nodes}
    lost = next(spec for spec in made.graph_signature.input_specs if spec.target == "scale")
    reader = next(iter(by_name[lost.arg.name].users))
    reader.args = (reader.args[0], 2.0)
    reader.target = torch.ops.aten.mul.Tensor
    graph.erase_node(by_name[lost.arg.name])
    made.graph_signature.input_specs.remove(lost)
    made._state_dict = {name: value for name, value in given.state_dict.items() if name != "scale"}
    made.graph_module.recompile()
    return made


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("transform", [folded, ExportedProgram.run_decompositions, lambda given: given.module()])
def test_state_that_goes_and_other_forms_of_a_program_are_no_change(transform: Any):
    FxTransform()(transform, program(), inputs())


class Counting(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        count = (x > 0).sum().item()
        torch._check(count >= 1)
        torch._check(count <= 9)
        return x.new_ones(count) * 2


def test_another_range_of_a_computed_size_is_told():
    x = torch.tensor([1.0, 2.0, -1.0])
    subject = export(Counting(), (x,), strict=False)

    with pytest.raises(AssertionError, match=r"the inner size u\d was from 1 to 9 and is from 1 to 100"):
        FxTransform()(with_range(1, 100), subject, x, may_change="refusals")


class Sized(nn.Module):
    def forward(self, x: torch.Tensor, pair: torch.Tensor, count: int) -> torch.Tensor:
        return x * count + pair[::2]


def sized_program() -> ExportedProgram:
    half = Dim("half", min=3, max=32)
    example = torch.ones(5, 4), torch.ones(10, 4), 3
    shapes = ({0: half}, {0: 2 * half}, Dim.AUTO)
    return export(Sized(), example, dynamic_shapes=shapes, strict=False)


def test_sizes_that_follow_from_others_and_numbers_have_words_of_their_own():
    sizes = ProgramInterface.of(sized_program()).sizes

    assert sizes["dimension 0 of input 0"] == "from 3 to 32"
    assert sizes["dimension 1 of input 0"] == "4"
    assert sizes["dimension 0 of input 1"] == "computed from others"
    assert sizes["input 2"].startswith("from ")


def interface(sizes=(), ranges=(), inner=(), signature=()) -> ProgramInterface:
    return ProgramInterface(dict(sizes), dict(ranges), inner, dict(signature))


def test_sizes_that_are_restricted_otherwise_are_told():
    before = interface(
        {"a": "4", "b": "from 3 to 64", "gone": "5"}, {"u0": "from 0 to 9", "u2": "1", "u3": "2"}, ["u0", "u1", "u2"]
    )
    after = interface(
        {"a": "4", "b": "8", "new": "5"}, {"u0": "from 0 to 4", "u1": "from 0 to 2", "u3": "3"}, ["u0", "u1"]
    )

    assert [*before.changed_sizes(before)] == []
    assert [*before.changed_sizes(after)] == [
        "b was from 3 to 64 and is 8",
        "the inner size u0 was from 0 to 9 and is from 0 to 4",
        "the inner size u1 was of any value and is from 0 to 2",
    ]


def test_a_kind_of_both_programs_that_differs_is_told():
    before = interface(signature={"w": "a parameter", "b": "a buffer", "gone": "a buffer"})
    after = interface(signature={"w": "a buffer", "b": "a buffer", "new": "a buffer"})

    assert [*before.changed_signature(after)] == ["w was a parameter and is a buffer"]


def test_sizes_are_no_change_of_a_program_and_ranges_and_kinds_are():
    same = interface({"a": "4"}, {"u0": "1"}, (), {"w": "a parameter"})

    assert not same.changed(interface({"a": "5"}, {"u0": "1"}, ("u0",), {"w": "a parameter"}))
    assert same.changed(interface({"a": "4"}, {"u0": "2"}, (), {"w": "a parameter"}))
    assert same.changed(interface({"a": "4"}, {"u0": "1"}, (), {"w": "a buffer"}))


def spec(kind: str, target: str | None = None, argument: object = None, persistent: bool | None = None) -> Any:
    return SimpleNamespace(kind=SimpleNamespace(name=kind), target=target, arg=argument, persistent=persistent)


def test_inputs_and_outputs_of_a_signature_are_named_by_their_kinds():
    tensor, number = type("TensorArgument", (), {})(), type("ConstantArgument", (), {"value": 3})()
    signature = SimpleNamespace(
        input_specs=[
            spec("PARAMETER", "w"),
            spec("BUFFER", "b", persistent=True),
            spec("BUFFER", "c", persistent=False),
            spec("CONSTANT_TENSOR", "d", persistent=False),
            spec("USER_INPUT", None, tensor),
            spec("TOKEN", None),
            spec("USER_INPUT", None, number),
        ],
        output_specs=[
            spec("BUFFER_MUTATION", "b"),
            spec("LOSS_OUTPUT"),
            spec("GRADIENT_TO_PARAMETER", "w"),
            spec("USER_OUTPUT"),
        ],
    )

    assert _kinds(signature) == {
        "w": "a parameter",
        "b": "a buffer",
        "c": "a buffer that is not saved",
        "d": "a constant tensor",
        "input 0": "a value of kind Tensor",
        "input 1": "the constant 3",
        "output 0": "loss output",
        "output 1": "gradient to parameter of w",
        "output 2": "user output",
    }


def test_sizes_of_inputs_are_numbers_ranges_and_equal_sizes():
    environment = ShapeEnv()
    mode = FakeTensorMode(shape_env=environment)
    x = mode.from_tensor(torch.ones(5, 7))
    with mode:
        first, second = x.shape
        inner = environment.create_unbacked_symint()
        values = [x, torch.empty(3, second), first, first * 2, 4, None, "text"]
    ranges = {first.node.expr: SimpleNamespace(lower=2, upper=9)}

    assert _input_sizes(values, ranges) == {
        "dimension 0 of input 0": "from 2 to 9",
        "dimension 1 of input 0": "of any value",
        "dimension 0 of input 1": "3",
        "dimension 1 of input 1": "dimension 1 of input 0",
        "input 2": "dimension 0 of input 0",
        "input 3": "computed from others",
        "input 4": "4",
    }
    assert _inner_sizes([*values, (inner * 2, [first])]) == {str(inner)}
