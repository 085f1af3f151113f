from __future__ import annotations

import re
import warnings

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from fxcore import Graph, GraphModule
from pytest_fxgraph.captures.subjects import to_graph_module
from pytest_fxgraph.document import tensor_texts
from pytest_fxgraph.document.builder import build_document
from pytest_fxgraph.document.model import StateRecord
from pytest_fxgraph.errors import DocumentError


def state_of(root, *, reads=(), calls=(), constants="exact"):
    graph = Graph()
    x = graph.placeholder("x")
    values = [graph.get_attr(path) for path in reads] + [graph.call_module(path, (x,)) for path in calls]
    graph.output(values)
    return build_document(GraphModule(root, graph), constants=constants).state


def test_parameters_and_buffers_of_called_modules_are_recorded():
    root = nn.ModuleDict({"norm": nn.BatchNorm1d(3)})
    root["norm"].weight.requires_grad_(False)

    state = {record.path: record for record in state_of(root, calls=["norm"])}

    assert state["norm.weight"] == StateRecord("norm.weight", "parameter", "float32[3]")
    assert state["norm.bias"] == StateRecord("norm.bias", "parameter", "float32[3]", requires_grad=True)
    assert state["norm.num_batches_tracked"] == StateRecord("norm.num_batches_tracked", "buffer", "int64[]")


def places(**tensors):
    root = nn.Module()
    for name, tensor in tensors.items():
        root.register_buffer(name, tensor)
    return {record.path: record.storage for record in state_of(root, reads=list(tensors)) if record.storage}


def test_tensors_that_overlap_in_memory_say_where():
    memory = torch.zeros(4, 4)

    assert places(z=memory[1], whole=memory, part=memory[:, 1], apart=torch.zeros(4)) == {
        "z": "part from byte 16",
        "whole": "part from byte 0",
        "part": "part from byte 4",
    }


def test_tensors_of_one_storage_that_do_not_overlap_share_nothing():
    memory = torch.zeros(8)

    apart = {"a": memory[:4], "b": memory[4:], "empty": memory[:0], "meta": torch.zeros(2, device="meta")}
    assert places(**apart) == {}
    other = torch.zeros(4)
    assert places(c=other[:3], d=other[2:], **apart) == {"c": "c from byte 0", "d": "c from byte 8"}


def test_tensors_of_a_called_module_that_overlap_say_where():
    memory, meta, leaf = torch.zeros(8), torch.zeros(4, device="meta"), nn.Module()
    tensors = {"a": memory[:4], "b": memory[2:], "empty": memory[3:3], "one": meta, "two": meta[1:]}
    for name, tensor in tensors.items():
        leaf.register_buffer(name, tensor)

    state = state_of(nn.ModuleDict({"leaf": leaf}), calls=["leaf"])

    assert {record.path: record.storage for record in state if record.storage} == {
        "leaf.a": "leaf.a from byte 0",
        "leaf.b": "leaf.a from byte 8",
    }


def test_an_overlap_does_not_depend_on_the_order_in_which_tensors_are_read():
    memory = torch.zeros(8)

    assert places(a=memory[2:], b=memory[:4]) == places(b=memory[:4], a=memory[2:])


def test_one_parameter_under_two_paths_is_recorded_as_the_same():
    root = nn.ModuleDict({"embed": nn.Embedding(4, 2), "head": nn.Linear(2, 4, bias=False)})
    root["head"].weight = root["embed"].weight

    embed, head = state_of(root, calls=["embed", "head"])

    assert embed.same_as is None
    assert head.same_as == "embed.weight"


def test_a_tensor_read_twice_is_recorded_once():
    (record,) = state_of(nn.Linear(1, 1), reads=["weight", "weight"])

    assert record == StateRecord("weight", "parameter", "float32[1, 1]", requires_grad=True)


def with_table(table, persistent=False):
    root = nn.ModuleDict({"leaf": nn.Module()})
    root["leaf"].register_buffer("table", table, persistent=persistent)
    return root


def table_content(table, **options):
    called, read = (
        state_of(with_table(table), calls=["leaf"], **options),
        state_of(with_table(table), reads=["leaf.table"], **options),
    )
    assert called == read
    return called[0].content


def test_a_buffer_of_the_state_dict_has_no_content():
    root = with_table(torch.ones(2), persistent=True)

    assert state_of(root, calls=["leaf"]) == (StateRecord("leaf.table", "buffer", "float32[2]"),)


class OwnTensor(torch.Tensor):
    """A tensor of the user's class."""


@pytest.mark.parametrize("name", ["scale", "observer_enabled"])
@pytest.mark.parametrize("cls", [torch.Tensor, OwnTensor])
def test_a_users_buffer_that_is_named_like_a_setting_of_torch_has_no_content(cls, name):
    leaf = nn.Module()
    leaf.register_buffer(name, torch.ones(1).as_subclass(cls))

    assert state_of(nn.ModuleDict({"leaf": leaf}), calls=["leaf"])[0].content is None


def test_a_buffer_outside_the_state_dict_has_a_rounded_content():
    assert table_content(torch.tensor([0.123456, -0.0])) == "close([0.1235, 0.0])"
    assert table_content(torch.tensor([3, 4])) == "[3, 4]"
    assert table_content(torch.tensor([True])) == "[True]"
    assert table_content(torch.ones(2), constants="close") == "close([1.0, 1.0])"
    assert table_content(torch.ones(2), constants="shape") is None
    assert table_content(torch.ones(2, device="meta")) is None
    large = torch.arange(100.0).reshape(10, 10)
    assert table_content(large) == "close(min=0.0, max=99.0, mean=49.5, norm=573.0, sketch=-0.052)"
    assert table_content(large.t()) != table_content(large)
    assert table_content(large.long()).startswith("sha256=")


def test_equal_large_tables_are_described_once(monkeypatch):
    root = nn.ModuleDict({name: with_table(torch.ones(100))["leaf"] for name in "abc"})
    root["d"] = with_table(torch.ones(10, 10))["leaf"]
    described = []
    monkeypatch.setattr(tensor_texts, "constant_text", lambda *given: described.append(given) or "text")

    state = state_of(root, calls=list("abcd"))

    assert [record.content for record in state] == ["text"] * 4
    assert len(described) == 2


class Counting(nn.Module):
    """Reads a table and writes a counter, both outside the state dict."""

    def __init__(self, write):
        super().__init__()
        self.register_buffer("table", torch.ones(2), persistent=False)
        self.register_buffer("counter", torch.zeros(2), persistent=False)
        self.write = write

    def forward(self, x):
        self.write(self.counter, x)
        return x * self.table + self.counter


@pytest.mark.parametrize(
    "write", [lambda counter, x: torch.add(counter, x, out=counter), lambda counter, x: counter.add_(1)]
)
def test_a_buffer_that_the_graph_or_its_trace_writes_has_no_content(write):
    contents = {record.path: record.content for record in build_document(to_graph_module(Counting(write))).state}

    assert contents == {"table": "close([1.0, 1.0])", "counter": None}


def test_buffers_of_a_module_that_updates_its_state_have_no_content():
    norm = nn.BatchNorm1d(2)
    norm.register_buffer("table", torch.ones(2), persistent=False)

    assert state_of(nn.ModuleDict({"norm": norm.train()}), calls=["norm"])[-1].content is None
    assert state_of(nn.ModuleDict({"norm": norm.eval()}), calls=["norm"])[-1].content == "close([1.0, 1.0])"


def test_a_tensor_that_tracing_found_in_the_code_is_a_constant_with_its_values():
    root = nn.Module()
    root.register_buffer("_tensor_constant0", torch.tensor([1.5, 2.0]))

    assert state_of(root, reads=["_tensor_constant0"]) == (
        StateRecord("_tensor_constant0", "constant", "float32[2]", content="[1.5, 2.0]"),
    )
    assert state_of(root, reads=["_tensor_constant0"], constants="shape")[0].content is None


def test_a_plain_tensor_attribute_is_a_constant():
    graph_module = GraphModule(nn.Linear(1, 1), _graph_that_reads("weight"))
    del graph_module.weight
    graph_module.weight = torch.tensor([3])

    assert build_document(graph_module).state == (StateRecord("weight", "constant", "int64[1]", content="[3]"),)


def test_a_buffer_that_the_tracer_calls_a_constant_is_one():
    root = nn.Module()
    root.register_buffer("scale", torch.tensor(2.0))
    graph = _graph_that_reads("scale")
    next(node for node in graph.nodes if node.op == "get_attr").meta["is_constant"] = True

    assert build_document(GraphModule(root, graph)).state == (
        StateRecord("scale", "constant", "float32[]", content="2.0"),
    )


def test_a_plain_value_that_the_graph_reads_is_recorded_with_its_text():
    graph_module = GraphModule(nn.Linear(1, 1), _graph_that_reads("weight"))
    del graph_module.weight
    graph_module.weight = (1, "a")

    assert build_document(graph_module).state == (
        StateRecord("weight", "constant", "builtins.tuple", content='(1, "a")'),
    )


def _graph_that_reads(path):
    graph = Graph()
    graph.output(graph.get_attr(path))
    return graph


def test_a_parameter_that_is_not_initialized_is_refused_in_words():
    with pytest.raises(
        DocumentError, match=r"'inner\.weight' of torch\.nn\.\S*LazyLinear is not initialized yet.*run the model"
    ):
        state_of(nn.ModuleDict({"inner": nn.LazyLinear(3)}), calls=["inner"])


def test_an_object_without_a_text_is_recorded_by_its_class():
    root = nn.Module()
    root.setting = object()

    assert state_of(root, reads=["setting"]) == (StateRecord("setting", "constant", "builtins.object"),)


def test_tensors_without_strides_or_numbers_as_sizes_are_recorded_by_their_shape():
    mode = FakeTensorMode(shape_env=ShapeEnv())
    root = nn.ModuleDict({"leaf": nn.Module()})
    for name, tensor in {
        "sparse": torch.ones(2, 2).to_sparse(),
        "jagged": torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged),
        "symbolic": mode.from_tensor(torch.ones(4, 3)),
    }.items():
        root["leaf"].register_buffer(name, tensor)

    state = state_of(root, calls=["leaf"])

    assert [(record.kind, record.content) for record in state] == [("buffer", None)] * 3
    sparse, jagged, symbolic = (record.value for record in state)

    assert sparse == "float32[2, 2]"
    assert re.fullmatch(r"float32\[2, j\d+\]", jagged)
    assert re.fullmatch(r"float32\[s\d+, s\d+\]", symbolic)


def test_tensors_inside_a_transform_of_torch_func_have_no_place_in_memory():
    found = []

    def recorded(x):
        root = nn.ModuleDict({"leaf": nn.Module()})
        root["leaf"].register_buffer("whole", x)
        root["leaf"].register_buffer("part", x[1:])
        found.append(state_of(root, calls=["leaf"]))
        return x.sum()

    torch.func.grad(recorded)(torch.ones(3))

    assert [(record.path, record.value, record.storage) for record in found[0]] == [
        ("leaf.whole", "float32[3]", None),
        ("leaf.part", "float32[2]", None),
    ]


def test_constants_and_quantized_buffers_of_a_called_module_keep_their_kind_and_form():
    root = nn.ModuleDict({"leaf": nn.Module()})
    root["leaf"].register_buffer("_tensor_constant0", torch.tensor([1.5]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        root["leaf"].register_buffer("table", torch.quantize_per_tensor(torch.ones(2), 0.5, 0, torch.qint8))

    constant, table = state_of(root, calls=["leaf"])

    assert (constant.kind, constant.content) == ("constant", "[1.5]")
    assert (table.kind, table.value) == ("buffer", "qint8[2] per tensor, symmetric")


def test_packed_weights_that_a_graph_reads_are_recorded_with_their_tensors():
    root = nn.Module()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        weight = torch.quantize_per_tensor(torch.ones(3, 2), 0.5, 0, torch.qint8)
        root.packed = torch.ops.quantized.linear_prepack(weight, torch.zeros(3))

    packed, *tensors = state_of(root, reads=["packed"])

    assert (packed.kind, packed.content) == ("constant", None)
    assert [(record.path, record.kind, record.value) for record in tensors] == [
        ("packed.weight", "parameter", "qint8[3, 2] per tensor, symmetric"),
        ("packed.bias", "parameter", "float32[3]"),
    ]


@pytest.mark.parametrize(
    ("target", "size", "has_content"),
    [
        (torch.quantize_per_tensor, 1, True),
        (torch.quantize_per_tensor, 2, False),
        (torch.add, 1, False),
    ],
)
def test_a_single_number_of_the_state_dict_has_its_content_where_a_call_quantizes_by_it(target, size, has_content):
    root, graph = nn.Module(), Graph()
    root.register_buffer("scale", torch.full((size,), 0.5))
    graph.output(graph.call_function(target, (graph.placeholder("x"), graph.get_attr("scale"))))

    (record,) = build_document(GraphModule(root, graph)).state

    assert (record.content is not None) is has_content


def test_parameters_and_buffers_behind_a_missing_one_are_recorded():
    class Leaf(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_parameter("missing", None)
            self.weight = nn.Parameter(torch.zeros(2))
            self.register_buffer("none", None)
            self.register_buffer("table", torch.zeros(3))

    state = state_of(nn.ModuleDict({"leaf": Leaf()}), calls=["leaf"])

    assert [record.path for record in state] == ["leaf.weight", "leaf.table"]
