from __future__ import annotations

import collections
import typing
from typing import Any, Callable, Optional, Union  # noqa: UP035 - what annotations may be written with

import pytest
import torch
from torch import nn

import fxcore
from fixtures.oracle import assert_same_success
from fxcore import Graph
from fxcore.codegen.globals import GeneratedGlobals
from fxcore.errors import CodeGenerationError
from fxcore.node_data.namespace import NameOrderError, Namespace

KINDS = {
    "Any": Any,
    "text": "int",
    "Optional": Optional[int],  # noqa: UP045
    "Union": Union[int, str, None],  # noqa: UP007
    "bar": int | None,
    "text with a bar": "int | None",
    "Literal with a bar": typing.Literal["a|b"],
    "list": list[int],
    "bare list": list,
    "List": typing.List[typing.List[torch.Tensor]],  # noqa: UP006
    "bare List": typing.List,  # noqa: UP006
    "Dict": typing.Dict[str, Optional[typing.Tuple[int, torch.Tensor]]],  # noqa: UP006, UP045
    "tuple": tuple[int, ...],
    "empty Tuple": typing.Tuple[()],  # noqa: UP006
    "Type": typing.Type[int],  # noqa: UP006
    "module": nn.Linear,
    "device": torch.device,
    "dtype": torch.dtype,
    "none": type(None),
    "Literal": typing.Literal["a"],
    "Sequence": collections.abc.Sequence[int],
    "OrderedDict": collections.OrderedDict,
    "NoReturn": typing.NoReturn,
}


def annotated(fx, kind):
    graph = fx.Graph()
    x = graph.placeholder("x", type_expr=kind)
    graph.output(graph.call_function(torch.relu, (x,), type_expr=kind), type_expr=kind)
    return graph


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_an_annotation_is_written_as_torch_fx_writes_it(kind):
    def sights(fx):
        code = annotated(fx, kind).python_code("self")
        return code.src, sorted(code.globals), annotated(fx, kind)

    assert_same_success(sights)


@pytest.mark.parametrize(
    "kind", [Callable[[int], str], typing.Annotated[int, "positive"]], ids=["Callable", "Annotated"]
)
def test_an_annotation_that_torch_fx_cannot_write_is_written(kind):
    with pytest.raises(TypeError):
        torch.fx.GraphModule(nn.Module(), annotated(torch.fx, kind))

    assert fxcore.GraphModule(nn.Module(), annotated(fxcore, kind))(torch.ones(1)) == 1


def test_names_of_two_objects_are_told_apart():
    names = GeneratedGlobals(Namespace())
    first, second = type("Thing", (), {}), type("Thing", (), {})

    assert [names.add("Thing", first), names.add("Thing", second), names.add("Thing", first)] == [
        "Thing",
        "Thing_1",
        "Thing",
    ]
    assert names.table["Thing_1"] is second


def test_objects_of_torch_are_named_in_full_and_need_no_entry():
    names = GeneratedGlobals(Namespace())

    assert names.add("relu", torch.relu) == "torch.relu"
    assert "relu" not in names.table
    assert names.add("device", torch.device) == "device"


def test_a_graph_keeps_builtin_names_for_the_builtins():
    graph = Graph()
    print_, inf = graph.placeholder("print"), graph.placeholder("inf")

    assert [print_.name, inf.name] == ["print_1", "inf_1"]


class Equal:
    """Equals other objects of its value."""

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return isinstance(other, Equal) and self.value == other.value


class OneName(Namespace):
    name = None

    def create_name(self, candidate, obj):
        return self.name or super().create_name(candidate, obj)


def test_one_name_stands_for_equal_objects_alone():
    namespace = OneName()
    names, first, undefined = GeneratedGlobals(namespace), Equal(1), Equal(float("nan"))
    namespace.name = "thing"

    assert [names.add("thing", each) for each in (first, first, Equal(1))] == ["thing"] * 3
    with pytest.raises(CodeGenerationError, match="Global name thing already assigned to different object"):
        names.add("thing", Equal(2))
    names.table["thing"] = undefined
    assert names.add("thing", undefined) == "thing"


def test_a_global_that_could_take_the_name_of_a_value_is_refused():
    def double(x):
        return 2 * x

    names = GeneratedGlobals(Namespace(), {"double"})

    assert names.add("triple", double) == "triple"
    for name in ("double", "layer_1"):
        with pytest.raises(NameOrderError):
            names.add(name, lambda x: x)
    assert GeneratedGlobals(Namespace()).add("layer_1", double) == "layer_1"
