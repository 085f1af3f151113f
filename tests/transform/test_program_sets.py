"""A manager of several programs is known by what it can do, and is given to passes whole or program by program."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.export import ExportedProgram

from fixtures.lowered import EdgeProgramManager
from fixtures.shown_frames import raises_here
from pytest_fxgraph.errors import SubjectError
from pytest_fxgraph.transform.fixture import FxTransform
from pytest_fxgraph.transform.passes import apply_step
from pytest_fxgraph.transform.program_sets import is_program_set, program_at, programs_in, with_programs


def exported(layer: nn.Module) -> ExportedProgram:
    return torch.export.export(nn.Sequential(layer), (torch.ones(2, 4),), strict=False)


def manager() -> EdgeProgramManager:
    return EdgeProgramManager({"encode": exported(nn.Tanh()), "decode": exported(nn.Linear(4, 4))})


def values() -> torch.Tensor:
    return torch.linspace(-2, 2, 8).reshape(2, 4)


def decomposed(given: EdgeProgramManager) -> EdgeProgramManager:
    return EdgeProgramManager({name: given.exported_program(name).run_decompositions() for name in given.methods})


def test_a_manager_is_known_by_its_methods():
    given = manager()

    assert is_program_set(given)
    assert not is_program_set(exported(nn.Tanh()))
    assert programs_in(given) == ["decode", "encode"]
    assert programs_in(nn.ReLU()) == [""]
    with pytest.raises(SubjectError, match="has no program 'forward'; it has decode, encode"):
        program_at(given, "forward")


def test_other_programs_are_put_into_a_copy():
    given = manager()
    other = exported(nn.ReLU())

    made = with_programs(given, {"encode": other})

    assert made.exported_program("encode") is other
    assert given.exported_program("encode") is not other
    assert made.exported_program("decode") is given.exported_program("decode")


def test_a_manager_that_keeps_its_programs_elsewhere_is_refused():
    class Elsewhere:
        methods = ("forward",)

        def exported_program(self, name: str) -> Any:
            return name

    with pytest.raises(SubjectError, match="cannot copy a Elsewhere: none of its attributes is a dict"):
        with_programs(Elsewhere(), {})


def test_a_pass_of_managers_is_given_the_manager_and_every_program_is_compared():
    given = manager()

    result = FxTransform()(decomposed, given, {"encode": values(), "decode": values()})

    assert isinstance(result.after, EdgeProgramManager)
    assert result.before is given
    result.assert_ops(removed="aten.linear*", unchanged="aten.tanh*")
    result.assert_state_dict(kept="0.*")
    with pytest.raises(SubjectError, match="there is no one difference between 2 programs and 2"):
        result.difference  # noqa: B018


def test_a_pass_that_breaks_one_program_is_told_with_its_name():
    def to_cos(graph_module: torch.fx.GraphModule) -> None:
        for node in graph_module.graph.nodes:
            if node.target is torch.ops.aten.tanh.default:
                node.target = torch.ops.aten.cos.default
        graph_module.recompile()

    with raises_here(AssertionError, match=r"eager and graph after to_cos, program 'encode', differ: output has"):
        FxTransform()(to_cos, manager(), {"encode": values(), "decode": values()})

    result = FxTransform()(to_cos, manager(), {"decode": values()})
    assert result.passes == ("to_cos",)


def test_inputs_name_the_programs():
    with pytest.raises(SubjectError, match=r"a EdgeProgramManager with 2 programs takes inputs by name: inputs=\{'"):
        FxTransform()(decomposed, manager(), values())
    with pytest.raises(SubjectError, match="inputs name 'forward', and the EdgeProgramManager has 'decode', 'encode'"):
        FxTransform()(decomposed, manager(), {"forward": values()})

    FxTransform()(decomposed, EdgeProgramManager({"forward": exported(nn.Tanh())}), values())


def test_a_pass_that_loses_a_program_is_refused():
    with pytest.raises(SubjectError, match="has no program 'encode'; it has decode"):
        FxTransform()(
            lambda given: EdgeProgramManager({"decode": given.exported_program("decode")}),
            manager(),
            {"encode": values()},
        )


def test_a_pass_over_a_set_returns_a_set():
    def lost(programs):
        return 3

    with pytest.raises(SubjectError, match="lost returned"):
        apply_step(lost, manager())


def test_a_class_with_one_of_the_two_names_is_no_manager():
    class OnlyMethods:
        methods = ("forward",)

    class OnlyPrograms:
        def exported_program(self, name: str) -> None: ...

    assert not is_program_set(OnlyMethods())
    assert not is_program_set(OnlyPrograms())


def test_other_attributes_of_a_manager_stay_as_they_are():
    given = manager()
    others = {"empty": {}, "listed": [1], "numbers": {"encode": 1}, "mixed": {"encode": 1, "x": exported(nn.Tanh())}}
    vars(given).update(others)

    made = with_programs(given, {"encode": exported(nn.ReLU())})

    assert all(vars(made)[name] is value for name, value in others.items())
