"""The ranges and the signature of an exported program stay, or the pass is named."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim, ExportedProgram, export
from torch.export.graph_signature import InputKind
from torch.utils._sympy.value_ranges import ValueRanges

from pytest_fxgraph.errors import ChoiceError
from pytest_fxgraph.transform.fixture import FxTransform
from pytest_fxgraph.transform.program_interface import ProgramInterface


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
