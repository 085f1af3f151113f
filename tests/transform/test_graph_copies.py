"""Copies of graphs: all that a pass may change is copied, all that belongs to several graphs is shared."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from torch import nn

import fxcore
from fixtures.transform_models import ConvBnRelu, image
from pytest_fxgraph.errors import SubjectError
from pytest_fxgraph.transform.pass_subject import copied, with_own_graph


def exported() -> torch.export.ExportedProgram:
    batch = torch.export.Dim("batch", min=2, max=64)
    return torch.export.export(ConvBnRelu().eval(), (image(),), dynamic_shapes=({0: batch},), strict=False)


SUBJECTS = {
    "fxcore": lambda: fxcore.symbolic_trace(ConvBnRelu().eval()),
    "torch.fx": lambda: torch.fx.symbolic_trace(ConvBnRelu().eval()),
    "exported": lambda: exported().module(),
}


def meta_of(graph: Any) -> list[dict[str, Any]]:
    return [{key: id(value) for key, value in node.meta.items() if key == "val"} for node in graph.nodes]


@pytest.mark.parametrize("make", SUBJECTS.values(), ids=SUBJECTS)
def test_a_graph_module_is_copied_with_all_its_attributes(make):
    graph_module = make()
    graph_module.register_buffer("unread", torch.ones(2))
    graph_module.tags = {"first": [1]}

    made = copied(graph_module)

    assert type(made).__mro__[1:] == type(graph_module).__mro__[1:]
    assert vars(made).keys() >= vars(graph_module).keys() - {"_graph"}
    assert str(made.graph) == str(graph_module.graph)
    assert made.graph.owning_module is made
    assert meta_of(made.graph) == meta_of(graph_module.graph)
    assert torch.equal(made(image()), graph_module(image()))
    own = {id(tensor) for tensor in [*graph_module.parameters(), *graph_module.buffers()]}
    assert own.isdisjoint({id(tensor) for tensor in [*made.parameters(), *made.buffers()]})
    made.tags["first"].append(2)
    assert graph_module.tags == {"first": [1]}


def test_what_exported_modules_refuse_the_copy_refuses_for_itself():
    made = copied(exported().module())

    assert made.train.__self__ is made
    with pytest.raises(NotImplementedError):
        made.eval()


def test_a_dict_in_the_meta_of_a_node_is_copied_and_a_fake_value_is_not():
    graph_module = SUBJECTS["exported"]()
    graph_module.graph.find_nodes(op="placeholder")[0].meta["custom"] = {"tag": 1}

    made = copied(graph_module)
    made.graph.find_nodes(op="placeholder")[0].meta["custom"]["tag"] = 2

    assert graph_module.graph.find_nodes(op="placeholder")[0].meta["custom"] == {"tag": 1}


def test_a_program_is_copied_with_signature_state_and_ranges():
    program = exported()
    output = program.module()(image())

    made = copied(program)
    made.graph_signature.input_specs.pop()
    made.range_constraints.clear()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.fill_(3)
    made.state_dict.pop("conv.bias")
    made.graph_module.graph.erase_node(list(made.graph_module.graph.nodes)[-1])

    program.validate()
    assert program.range_constraints
    assert torch.equal(program.module()(image()), output)


def test_a_program_may_share_its_tensors():
    program = exported()

    made = with_own_graph(program)

    assert all(made.state_dict[name] is value for name, value in program.state_dict.items())
    assert made.graph is not program.graph
    assert meta_of(made.graph) == meta_of(program.graph)


@pytest.mark.parametrize("make", SUBJECTS.values(), ids=SUBJECTS)
def test_a_graph_module_may_share_its_modules_and_tensors(make):
    graph_module = make()

    made = with_own_graph(graph_module)

    assert made.graph is not graph_module.graph
    assert [id(tensor) for tensor in made.parameters()] == [id(tensor) for tensor in graph_module.parameters()]
    assert [*made.modules()][1:] == [*graph_module.modules()][1:]


def test_tensors_that_are_shared_stay_shared_in_the_copy():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[1].weight = model[0].weight

    made = copied(torch.fx.symbolic_trace(model))

    assert made.get_submodule("1").weight is made.get_submodule("0").weight


def test_what_cannot_be_copied_is_shared_unless_a_pass_may_change_it():
    class Stubborn(nn.ReLU):
        def __deepcopy__(self, memo: dict[int, Any]) -> Any:
            raise TypeError("there is one of these")

    graph_module = torch.fx.symbolic_trace(nn.Sequential(nn.Tanh()))
    graph_module.handles = [(value for value in ())]

    assert copied(graph_module).handles[0] is graph_module.handles[0]

    graph_module.add_module("stubborn", Stubborn())
    with pytest.raises(SubjectError, match=r"cannot copy stubborn for the pass, .*TypeError: there is one"):
        copied(graph_module)


def test_graph_modules_inside_a_graph_module_are_copied_whole():
    inner = torch.fx.symbolic_trace(nn.Linear(2, 2))
    inner.note = ["kept without a node"]
    outer = torch.fx.symbolic_trace(nn.Sequential(inner), {})
    outer.add_submodule("inside", inner)

    made = copied(outer)

    assert made.inside is not inner
    assert made.inside.note == ["kept without a node"]
    assert made.inside.note is not inner.note
    assert torch.equal(made.inside.weight, inner.weight)


def test_a_copy_with_its_own_graph_shares_tensors_that_are_plain_attributes_and_no_other_values():
    given = torch.fx.symbolic_trace(ConvBnRelu().eval())
    given.table, given.tags = torch.ones(2), {"first": [1]}

    made = with_own_graph(given)

    assert made.table is given.table
    assert made.tags == given.tags
    assert made.tags is not given.tags


def test_metadata_of_nodes_is_shared_and_its_containers_are_copied():
    given = torch.fx.symbolic_trace(ConvBnRelu().eval())
    first = next(iter(given.graph.nodes))
    value = object()
    first.meta.update(val=value, tags=["a"], names={"a"}, by_name={"a": value})

    meta = next(iter(copied(given).graph.nodes)).meta

    assert meta == first.meta
    assert meta["val"] is value
    assert all(meta[key] is not first.meta[key] for key in ("tags", "names", "by_name"))


def test_attributes_that_a_pass_cannot_change_are_shared_and_what_cannot_be_copied_is_shared_within():
    given = torch.fx.symbolic_trace(ConvBnRelu().eval())
    lock, tree = threading.Lock(), object()
    given.tree, given.locks = tree, {"first": lock}

    made = copied(given)

    assert made.tree is tree
    assert made.locks == given.locks
    assert made.locks is not given.locks


def test_a_graph_module_inside_is_copied_once_for_all_its_places():
    inner = torch.fx.symbolic_trace(nn.Sequential(nn.ReLU()))
    inner.tags = ["mine"]
    root = nn.Module()
    root.first, root.second = inner, inner
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_module("second", (graph.call_module("first", (x,)),)))
    given = torch.fx.GraphModule(root, graph)

    made = copied(given)

    assert made.first is made.second
    assert made.first is not inner
    assert made.first.tags == ["mine"]
    assert with_own_graph(given).first is inner
