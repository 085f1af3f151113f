from __future__ import annotations

import pytest
import torch
from torch import nn

import fxcore
from pytest_fxgraph.captures.state_names import (
    named_inputs_of_aot,
    names_of_state,
    placed,
    reassembled,
    state_of_flattened,
    state_of_inputs,
    tensor_parts,
    with_named_state,
)


class Pair(torch.Tensor):
    """A tensor that wraps two, and holds a number beside them."""

    @staticmethod
    def __new__(cls, first: torch.Tensor, second: torch.Tensor) -> Pair:
        return torch.Tensor._make_wrapper_subclass(cls, first.shape, dtype=first.dtype)

    def __init__(self, first: torch.Tensor, second: torch.Tensor) -> None:
        self.first, self.second, self.number = first, second, 3

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["first", "second", "number"], None

    @staticmethod
    def __tensor_unflatten__(inner: dict, context: None, size: object, stride: object) -> Pair:
        return Pair(inner["first"], inner["second"])

    __torch_dispatch__ = None


ONE, TWO, THREE = (torch.full((2,), float(n)) for n in (1, 2, 3))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(2, 2)
        self.again = self.fc
        self.register_buffer("table", ONE)
        self.register_buffer("cache", TWO, persistent=False)


def test_each_tensor_of_a_module_has_its_first_name():
    model = Model()

    names = names_of_state(model)

    assert names[id(model.again.weight)] == "fc.weight"
    assert sorted(names.values()) == ["cache", "fc.bias", "fc.weight", "table"]
    assert names_of_state(torch.relu) == {}


def test_inputs_that_are_state_are_known_by_their_position():
    model = Model()

    assert state_of_inputs([THREE, model.table, 4], names_of_state(model)) == {1: "table"}


def test_the_parts_of_a_wrapped_tensor_have_names_of_their_own():
    pair = Pair(ONE, Pair(TWO, THREE))

    assert [(path, part) for path, part in tensor_parts(pair, "w")] == [
        ("w.first", ONE),
        ("w.second.first", TWO),
        ("w.second.second", THREE),
    ]
    assert tensor_parts(ONE, "w") == [("w", ONE)]
    assert tensor_parts(5) == [("", 5)]


def test_a_wrapped_tensor_is_put_together_again_from_other_parts():
    made = reassembled(Pair(ONE, Pair(TWO, THREE)), iter([THREE, ONE, TWO]))

    assert [part for _, part in tensor_parts(made)] == [THREE, ONE, TWO]
    assert reassembled(ONE, iter([TWO])) is TWO


def test_flattened_inputs_keep_the_names_of_their_state():
    values = [THREE, Pair(ONE, TWO), 7, TWO]

    # The parts: the input, two tensors and a number of the pair, 7, and the last input.
    assert state_of_flattened(values, {1: "w", 3: "b"}) == {1: "w.first", 2: "w.second", 5: "b"}


def graph_of(*names: str) -> fxcore.GraphModule:
    graph = fxcore.Graph()
    nodes = [graph.placeholder(name) for name in names]
    nodes[0].meta.update(val=1, desc=2, grapharg=3)
    graph.output(tuple(nodes))
    return fxcore.GraphModule(nn.Module(), graph)


@pytest.mark.parametrize(
    ("path", "kind", "persistent"),
    [("fc.weight", nn.Parameter, True), ("table", torch.Tensor, True), ("cache", torch.Tensor, False)],
)
def test_an_input_becomes_the_state_of_its_name(path, kind, persistent):
    model = Model()

    made = with_named_state(graph_of("a", "x"), {"a": path}, model)

    assert [(node.op, node.target) for node in made.graph.nodes][:2] == [("get_attr", path), ("placeholder", "x")]
    assert next(iter(made.graph.nodes)).meta == {"val": 1}
    owner, _, name = path.rpartition(".")
    shared = getattr(made.get_submodule(owner), name)
    assert shared is getattr(model.get_submodule(owner), name)
    assert isinstance(shared, kind)
    assert (path in made.state_dict()) is persistent
    assert made(THREE)[1] is THREE


def test_two_tensors_of_one_module_share_the_holder():
    made = with_named_state(graph_of("a", "b"), {"a": "fc.weight", "b": "fc.bias"}, Model())

    assert set(made.state_dict()) == {"fc.weight", "fc.bias"}


def test_a_part_of_a_wrapped_tensor_is_a_buffer_below_its_name():
    model = nn.Module()
    model.register_buffer("w", Pair(ONE, TWO))

    made = with_named_state(graph_of("a", "x"), {"a": "w.second"}, model)

    assert made(THREE)[0] is TWO
    assert "w.second" in made.state_dict()


@pytest.mark.parametrize(
    ("kind", "names", "expected"),
    [
        ("forward", ["primals_1", "primals_2"], {"primals_2": "weight"}),
        ("backward", ["tangents_1", "primals_2", "primals_1"], {"primals_2": "weight"}),
        ("forward", ["arg0_1", "arg1_1"], {"arg1_1": "weight"}),
        ("backward", ["arg0_1", "arg1_1"], {}),
        ("forward", ["primals_1", "other"], {}),  # inputs that have numbers do not stand in their order
        ("forward", ["other", "primals_2x"], {"primals_2x": "weight"}),
    ],
)
def test_inputs_of_lowered_graphs_are_state_by_their_number_or_place(kind, names, expected):
    graph = fxcore.Graph()
    graph.output([graph.call_function(torch.relu, (graph.placeholder(name),)) for name in names])
    module = fxcore.GraphModule(nn.Module(), graph)

    assert named_inputs_of_aot(module, kind, {1: "weight"}) == expected


def test_a_placed_buffer_is_persistent_unless_told_otherwise():
    root = nn.Module()
    placed(root, "a.b", torch.ones(1))
    placed(root, "a.c", torch.ones(1), persistent=False)

    assert [*root.state_dict()] == ["a.b"]
    assert [name for name, _ in root.named_buffers()] == ["a.b", "a.c"]
