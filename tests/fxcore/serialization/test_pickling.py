from __future__ import annotations

import collections
import copy
import enum
import io
import math
import operator
import pickle
from types import SimpleNamespace

import pytest
import torch
import torch.fx
import torch.fx.graph_module as theirs
import torch.nn.functional as F
from torch import nn

import fxcore
from fxcore import Graph, GraphModule, Tracer, wrap
from fxcore.errors import FxError
from fxcore.graph_module import reduce_graph_module, reduce_package_graph_module
from fxcore.serialization.pickling import _importable, graph_data, graph_from_data


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        self.weight = nn.Parameter(torch.randn(2))

    def forward(self, x):
        return torch.add(self.block(x) * self.weight, 1)


def pickled(gm):
    """What a pickle of torch's holds: the attributes without the graph, and imports."""
    body = dict(vars(gm))
    del body["_graph"]
    return {**body, "_code": gm.code, "unread": 5, "_graphmodule_cls_name": "Own"}, "import torch\n"


def test_code_becomes_the_graph_that_torch_makes_of_it():
    model, x = Model(), torch.randn(3, 2)
    body, imports = pickled(fxcore.symbolic_trace(model))

    made = reduce_graph_module(body, imports)
    expected = theirs.reduce_graph_module(*pickled(torch.fx.symbolic_trace(model)))

    assert str(made.graph) == str(expected.graph)
    assert type(made).__name__ == type(expected).__name__ == "Own"
    assert made.unread == 5
    torch.testing.assert_close(made(x), model(x))


def test_stack_traces_come_back():
    body, imports = pickled(fxcore.symbolic_trace(Model()))
    body["_graphmodule_graph_node_meta_stack_trace"] = {"add": "the line"}

    made = reduce_graph_module(body, imports)

    assert {node.name: node.stack_trace for node in made.graph.nodes if node.stack_trace} == {"add": "the line"}


def test_code_of_a_package_is_imported_from_it():
    model, x = Model(), torch.randn(3, 2)
    gm = fxcore.symbolic_trace(model)
    body, _ = pickled(gm)
    importer = SimpleNamespace(import_module=lambda name: SimpleNamespace(forward=type(gm).forward))

    made = reduce_package_graph_module(importer, body, "fx-generated")

    assert str(made.graph) == str(gm.graph)
    torch.testing.assert_close(made(x), model(x))


Point = collections.namedtuple("Point", "x y")


class Colour(enum.Enum):
    RED = 1


@wrap
def leaf(x):
    return x + 1


class EverythingLeaf(Tracer):
    def is_leaf_module(self, m, module_qualified_name):
        return True


def targets_of_all_kinds(x, size: int = 3, limit=math.inf):
    y = torch.relu(x) + F.gelu(x) + x.sigmoid() + torch._C._nn.gelu(x) + torch.special.expit(x) + leaf(x)
    z = torch.ops.aten.add.Tensor(y, 1) + torch.ops.aten.mul(y, y) + operator.neg(x) + torch.linalg.norm(x)
    odd = [Colour.RED, Point(1, 2), slice(1, None), ..., math.nan, torch.float16, torch.device("cpu")]
    return z[0:1, None].to(torch.float32), {"odd": odd, "size": size}, torch.add(x, x, alpha=2)


def test_a_graph_comes_back_node_for_node():
    module = fxcore.symbolic_trace(targets_of_all_kinds)

    again = pickle.loads(pickle.dumps(module))

    assert again.code == module.code
    assert str(again.graph) == str(module.graph)
    for before, after in zip(module.graph.nodes, again.graph.nodes, strict=True):
        assert (before.op, before.name, before.type) == (after.op, after.name, after.type)
        assert before.target is after.target or before.op != "call_function"


def test_operators_as_arguments_come_back():
    graph = Graph()
    x = graph.placeholder("x")
    arguments = (x, [torch.ops.aten.add.Tensor], Point(x, (1, [2])))
    graph.output(graph.call_function(leaf, arguments, {"packet": torch.ops.aten.mul}))

    again = graph_from_data(pickle.loads(pickle.dumps(graph_data(graph))))

    node = list(again.nodes)[1]
    assert node.args[1] == [torch.ops.aten.add.Tensor]
    assert node.kwargs["packet"] is torch.ops.aten.mul
    assert type(node.args[2]) is Point
    assert node.args[2] == Point(node.args[0], (1, [2]))


@pytest.mark.parametrize("target", [torch.relu, F.gelu, torch._C._nn.gelu, torch.ops.aten.add.Tensor])
def test_a_function_of_torch_is_kept_by_its_name(target):
    graph = Graph()
    graph.output(graph.call_function(target, (graph.placeholder("x"),)))

    (_, (_, row), _), *_ = graph_data(graph)

    assert row[2][0] == "torch"
    assert row[2][1].startswith("torch.")
    assert list(graph_from_data(graph_data(graph)).nodes)[1].target is target


def test_names_and_plain_metadata_survive_and_the_rest_is_left():
    module = fxcore.symbolic_trace(lambda x: torch.relu(x))
    node = list(module.graph.nodes)[1]
    node.name = "activation"
    node.meta.update(stack_trace="here", shape=(1, [2.0, None]), value=torch.ones(1), kind=nn.ReLU)
    node.meta.update(mixed={"key": torch.ones(1)}, keyed={nn.ReLU(): "text"}, listed=[1, print])
    module.recompile()

    again = list(pickle.loads(pickle.dumps(module)).graph.nodes)[1]

    assert again.name == "activation"
    assert again.meta == {"stack_trace": "here", "shape": (1, [2.0, None]), "kind": nn.ReLU}


def test_nothing_is_traced_again():
    calls = []

    class Custom(nn.Module):
        def forward(self, x):
            calls.append(x)
            return x

    root = nn.Module()
    graph = Graph()
    graph.output(graph.call_function(leaf, (graph.placeholder("x"),)))
    root.unused = nn.ReLU()
    module = GraphModule(root, graph)
    module.note = "kept"

    again = pickle.loads(pickle.dumps(module))

    assert (calls, again.note, again(1)) == ([], "kept", 2)


def test_torch_save_and_a_tracer_of_the_user():
    root = nn.Sequential(nn.Sequential(nn.Linear(1, 1)))
    module = GraphModule(root, EverythingLeaf().trace(root))
    buffer = io.BytesIO()

    torch.save(module, buffer)
    buffer.seek(0)
    again = torch.load(buffer, weights_only=False)

    assert again.graph._tracer_cls is EverythingLeaf
    assert torch.equal(again(torch.ones(1)), module(torch.ones(1)))


def test_a_function_that_torch_does_not_have_is_named():
    target = "torch", "torch.no_such_function"
    row = "tuple", ["gone", "call_function", target, ("tuple", []), ("dict", []), None, ("dict", [])]

    with pytest.raises(RuntimeError, match=r"cannot rebuild the graph: it calls torch\.no_such_function") as caught:
        graph_from_data(([row], None, None, None, {}))

    assert isinstance(caught.value, FxError)


def saved(value):
    buffer = io.BytesIO()
    torch.save(value, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=False)


@pytest.mark.parametrize("is_called", [False, True], ids=["before the first call", "after the first call"])
@pytest.mark.parametrize("again", [lambda value: pickle.loads(pickle.dumps(value)), saved, copy.deepcopy])
def test_a_graph_and_a_node_are_copied_alone(again, is_called):
    module = fxcore.symbolic_trace(Model())
    if is_called:
        module(torch.ones(1, 2))
    node = module.graph.find_nodes(op="call_function", target=torch.add)[0]

    graph, copied = again(module.graph), again(node)
    graph.lint()
    graph.find_nodes(op="call_function", target=torch.add)[0].target = torch.sub

    assert str(copied.graph) == str(module.graph)
    assert (copied.name, str(copied.args), [user.name for user in copied.users]) == ("add", "(mul, 1)", ["output"])
    assert "torch.sub" in str(graph.python_code("self").src)
    assert "torch.add" in module.code


class Color(enum.Enum):
    RED = 1


Pair = collections.namedtuple("Pair", "first second")


def everything(x: torch.Tensor):
    y = operator.neg(x)[:, None, ..., 1:2].to(torch.float64, memory_format=torch.contiguous_format)
    return {"pair": Pair(torch.ops.aten.cos.default(y), [y.sum(), 2j]), "rest": (Color.RED, math.inf, slice(y, None))}


def test_a_saved_module_is_read_with_weights_only_and_no_more_names_than_torch_s():
    module = fxcore.symbolic_trace(everything)
    for node in module.graph.nodes:
        node.meta["note"] = {"type": (torch.Tensor, [torch.int8]), "stack": collections.OrderedDict(a=Color)}
    buffer = io.BytesIO()
    torch.save(module, buffer)

    buffer.seek(0)
    names = torch.serialization.get_unsafe_globals_in_checkpoint(buffer)
    with torch.serialization.safe_globals([fxcore.Tracer, fxcore.graph_module._rebuild]):
        buffer.seek(0)
        loaded = torch.load(buffer, weights_only=True)

    assert sorted(names) == ["fxcore.graph_module._rebuild", "fxcore.tracer.Tracer"]  # torch.fx's two are as these
    assert loaded.code == module.code
    assert [node.meta for node in loaded.graph.nodes] == [node.meta for node in module.graph.nodes]
    note = next(iter(loaded.graph.nodes)).meta["note"]
    assert [type(note), type(note["stack"])] == [dict, collections.OrderedDict]
    assert str(loaded(torch.ones(1, 3, 1, 4))) == str(module(torch.ones(1, 3, 1, 4)))


@pytest.mark.parametrize(
    ("module", "path", "words"),
    [
        ("fxcore.gone", "tool", "it refers to tool of the module fxcore.gone, which is not there; install or restore"),
        ("fxcore.graph", "Gone.tool", "it refers to Gone.tool of the module fxcore.graph, which is not there"),
    ],
)
def test_an_object_that_is_no_longer_there_is_named(module, path, words):
    with pytest.raises(RuntimeError, match=f"cannot rebuild the graph: {words}"):
        _importable(module, path)
