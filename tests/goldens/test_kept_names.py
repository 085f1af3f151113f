from __future__ import annotations

import dataclasses
import difflib
import operator
import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import fxcore
from fixtures.documents import document
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.document.builder import build_document
from pytest_fxgraph.document.decoding import decode
from pytest_fxgraph.document.encoding import encode
from pytest_fxgraph.document.generated_code import Graphs, with_code
from pytest_fxgraph.document.model import GraphDocument
from pytest_fxgraph.document.node_names import differs_in_names_at_most, rename_nodes
from pytest_fxgraph.goldens.kept_names import document_after, with_kept_names


def updated(golden: str, graph_module: fxcore.GraphModule) -> GraphDocument:
    """Return the document that replaces a golden; it has to be the graph's, but for names."""
    graphs: Graphs = {}
    obtained = build_document(graph_module, graphs=graphs)
    kept = document_after(decode(golden, "golden"), with_code(obtained, graphs), graphs, "structure")
    assert compare_documents(kept, obtained).is_empty
    assert differs_in_names_at_most(encode(kept), obtained)
    assert encode(decode(encode(kept), "kept")) == encode(kept)
    return kept


def changed_lines(before: str, after: GraphDocument) -> list[str]:
    lines = difflib.unified_diff(before.split("\n"), encode(after).split("\n"), lineterm="", n=0)
    return [line for line in lines if line[0] in "+-" and line[:3] not in ("+++", "---")]


class Layers(nn.Module):
    """A linear layer, relu and a sum, again and again; in front of layer `place`, 2 is added."""

    def __init__(self, count: int, place: int | None = None) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(count)])
        self.place = place

    def forward(self, x):
        for number, layer in enumerate(self.layers):
            if number == self.place:
                x = x + 2
            x = torch.relu(layer(x)) + 1
        return x


@pytest.fixture(scope="module")
def large() -> str:
    return encode(build_document(fxcore.symbolic_trace(Layers(1000))))


@pytest.mark.slow
@pytest.mark.parametrize("place", [0, 1, 500, 999])
def test_an_operator_inserted_into_3000_nodes_changes_its_lines_and_those_of_its_reader(large, place):
    changed = changed_lines(large, updated(large, fxcore.symbolic_trace(Layers(1000, place))))

    assert len(changed) == 6
    assert [line[0] for line in changed] == ["-", "+", "+", "-", "+", "+"]
    assert "%add_1000 = operator.add(" in changed[1]


class BasicBlock(nn.Module):
    """As torchvision's ResNet has it."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride > 1:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))

    def forward(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        out += identity
        return self.relu(out)


class ResNet18(nn.Module):
    def __init__(self, *, adds: bool) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 4, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(4)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        widths = [(4, 4, 1), (4, 4, 1), (4, 8, 2), (8, 8, 1), (8, 16, 2), (16, 16, 1), (16, 32, 2), (32, 32, 1)]
        self.layers = nn.Sequential(*[BasicBlock(*width) for width in widths])
        self.fc = nn.Linear(32, 10)
        self.adds = adds

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        if self.adds:
            x = x + 2
        return self.fc(self.layers(x).mean((2, 3)))


def test_an_operator_after_the_maxpool_of_resnet18_changes_its_lines_and_those_of_two_readers():
    golden = encode(build_document(fxcore.symbolic_trace(ResNet18(adds=False))))

    changed = changed_lines(golden, updated(golden, fxcore.symbolic_trace(ResNet18(adds=True))))

    assert len(changed) == 8


def test_without_kept_names_the_same_edit_renumbers_the_rest(large):
    traced = build_document(fxcore.symbolic_trace(Layers(1000, 0)))

    assert len(changed_lines(large, traced)) > 3000


def names(expected: str, obtained: str) -> dict[str, str]:
    before = document(obtained)
    after = with_kept_names(document(expected), before)
    return {node.name: kept.name for node, kept in zip(before.nodes, after.nodes, strict=True)}


def test_nodes_that_pair_have_the_names_of_the_golden_and_new_ones_the_next_free():
    kept = names(
        "%x = input x\n%add = operator.add(%x, 1)\n%add_1 = operator.add(%add, 2)\nreturn %add_1",
        "%x = input x\n%add = operator.add(%x, 7)\n%add_1 = operator.add(%add, 1)\n"
        "%add_2 = operator.add(%add_1, 2)\nreturn %add_2",
    )

    assert kept["add_1"] == "add"
    assert kept["add_2"] == "add_1"
    assert kept["add"] == "add_2"


def test_a_new_node_keeps_its_own_name_where_that_is_free():
    kept = names(
        "%x = input x\n%add = operator.add(%x, 1)\nreturn %add",
        "%x = input x\n%relu = torch.relu(%x)\n%add = operator.add(%relu, 1)\nreturn %add",
    )

    assert kept == {"x": "x", "relu": "relu", "add": "add", "output": "output"}


def test_the_name_of_a_node_that_is_gone_is_free():
    kept = names(
        "%x = input x\n%relu = torch.relu(%x)\n%add = operator.add(%relu, 1)\nreturn %add",
        "%x = input x\n%add = operator.add(%x, 1)\n%relu = torch.relu(%add)\nreturn %relu",
    )

    assert kept["relu"] == "relu"


def test_a_node_whose_operator_changed_takes_the_name_of_the_new_graph():
    golden = document("%x = input x\n%matmul_1 = torch.matmul(%x, %x)\n%relu_7 = .relu(%matmul_1)\nreturn %relu_7")
    obtained = document(
        "%x = input x\n%fused = torch.nn.functional.scaled_dot_product_attention(%x, %x)\n"
        "%relu = torch.relu(%fused)\nreturn %relu"
    )

    kept = with_kept_names(golden, obtained)

    assert [node.name for node in kept.nodes] == ["x", "fused", "relu_7", "output"]


def test_a_node_that_calls_a_renamed_module_takes_the_name_of_the_new_graph():
    golden = document("%x = input x\n%fc = self.fc(%x)\nreturn %fc")
    obtained = document("%x = input x\n%classifier = self.classifier(%x)\nreturn %classifier")

    kept = with_kept_names(golden, obtained)

    assert [node.name for node in kept.nodes] == ["x", "classifier", "output"]


@pytest.mark.parametrize("name", ["self", "class", "print", "torch", "nan", "1st", "\u00fc"])
def test_a_name_that_code_cannot_have_is_not_kept(name):
    kept = names(
        f"%x = input x\n%{name} = torch.relu(%x)\nreturn %{name}",
        "%x = input x\n%relu = torch.relu(%x)\nreturn %relu",
    )

    assert kept["relu"] == "relu"


def test_an_input_has_the_name_of_the_same_parameter_alone():
    golden = "%a_1 = input a\n%b = input b\n%sub = operator.sub(%a_1, %b)\nreturn %sub"

    same = names(golden, "%a = input a\n%b = input b\n%sub = operator.sub(%a, %b)\nreturn %sub")
    renamed = names(golden, "%c = input c\n%b = input b\n%sub = operator.sub(%c, %b)\nreturn %sub")

    assert same["a"] == "a_1"
    assert renamed["c"] == "c"


def test_an_input_goes_before_a_node_of_the_golden_that_has_its_name():
    kept = names(
        "%y = input y\n%x = self.x(%y)\nreturn %x",
        "%x = input x\n%x_1 = self.x(%x)\nreturn %x_1",
    )

    assert kept["x"] == "x"
    assert kept["x_1"] == "x_1"


def test_inputs_whose_names_in_the_golden_are_parameters_of_others_keep_their_own():
    kept = names(
        "%b = input a\n%a = input b\n%sub = operator.sub(%b, %a)\nreturn %sub",
        "%a = input a\n%b = input b\n%sub = operator.sub(%a, %b)\nreturn %sub",
    )

    assert (kept["a"], kept["b"]) == ("a", "b")


class Inner(nn.Module):
    def forward(self, x):
        return torch.relu(x + 1) + 2


class InnerWithMore(nn.Module):
    def forward(self, x):
        return torch.relu((x + 3) + 1) + 2


def around(inner: nn.Module) -> fxcore.GraphModule:
    graph = fxcore.Graph()
    root = nn.Module()
    root.inner = fxcore.symbolic_trace(inner)
    value = graph.call_module("inner", (graph.placeholder("x"),))
    graph.output(graph.call_function(operator.add, (value, 1)))
    return fxcore.GraphModule(root, graph)


def test_graphs_inside_a_graph_keep_their_names_too():
    golden = encode(build_document(around(Inner())))

    changed = changed_lines(golden, updated(golden, around(InnerWithMore())))

    assert len(changed) == 6
    assert "add_2 = x + 3;  x = None" in changed[4]


def module_relu(x):
    return torch.relu(x)


# Names that collide with each other, with Python's words, with what code refers to, and with attributes of the module.
# Code of a graph with a node called `self` does not run, so that only a golden has it.
NAMES = ("self", "add", "add_1", "add_2", "x", "x_1", "input_1", "class", "print", "torch", "tests", "weight", "block")
WRAPPED = "tests_golden_test_kept_names_module_relu"
NAMES += (WRAPPED, "device", "module_relu", "relu", "output", "self_1", "nan")
PARAMETERS = ("x", "input", "add", "weight", "relu", "torch_1")
STEPS = ("add", "relu", "wrapped", "method", "block", "weight", "cat")


class Root(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = nn.Linear(3, 3)
        self.weight = nn.Parameter(torch.arange(3.0))


ROOT = Root()
steps = st.tuples(st.sampled_from(STEPS), st.integers(0, 9), st.integers(0, 9), st.none() | st.sampled_from(NAMES[1:]))
programs = st.lists(steps, max_size=8)
inputs = st.lists(st.sampled_from(PARAMETERS), min_size=1, max_size=3, unique=True)


def graph_of(parameters, program) -> fxcore.GraphModule:
    graph = fxcore.Graph()
    values = [graph.placeholder(name) for name in parameters]
    for step, first, second, name in program:
        one, other = values[first % len(values)], values[second % len(values)]
        op, target, args = {
            "add": ("call_function", operator.add, (one, other)),
            "relu": ("call_function", torch.relu, (one,)),
            "wrapped": ("call_function", module_relu, (one,)),
            "method": ("call_method", "sin", (one,)),
            "block": ("call_module", "block", (one,)),
            "weight": ("get_attr", "weight", ()),
            "cat": ("call_function", torch.maximum, (one, other)),
        }[step]
        values.append(graph.create_node(op, target, args, name=name))
    graph.output(values[-1])
    return fxcore.GraphModule(ROOT, graph)


def run(code: str, module: fxcore.GraphModule, values) -> torch.Tensor:
    """Run code with the globals of a graph's own code; a global that a node's name took may have another number."""
    known = module.graph.python_code("self").globals
    namespace = dict(known)
    for name in re.findall(r"(\w+)\(", code):
        namespace.setdefault(name, module_relu)
    exec(code, namespace)
    return namespace["forward"](module, *values)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_the_kept_code_computes_what_the_graph_does_whatever_names_the_golden_has(data):
    parameters, program = data.draw(inputs), data.draw(programs)
    golden = build_document(graph_of(parameters, program))
    wild = data.draw(st.lists(st.sampled_from(NAMES), max_size=len(golden.nodes), unique=True))
    free = [name for name in wild if name not in {node.name for node in golden.nodes}]
    golden = rename_nodes(golden, dict(zip([node.name for node in golden.nodes][::-1], free, strict=False)))
    for _ in range(data.draw(st.integers(0, 3))):
        place = data.draw(st.integers(0, len(program)))
        program = (
            program[:place] + data.draw(st.lists(steps, max_size=2)) + program[place + data.draw(st.integers(0, 1)) :]
        )
    graph_module = graph_of(data.draw(st.just(parameters) | inputs), program)

    kept = updated(encode(golden), graph_module)

    values = [
        torch.arange(3.0) + number for number, node in enumerate(graph_module.graph.nodes) if node.op == "placeholder"
    ]
    assert torch.equal(run(kept.code, graph_module, values), graph_module(*values))
    # Only values that have the name of a global of the code, or it with a number, have other ones there.
    called = {node.name for node in kept.nodes if node.op.startswith("call_")}
    assert {name for name in called if not name.startswith(WRAPPED)} <= set(
        re.findall(r"^    (\w+) = ", kept.code, re.MULTILINE)
    )


@pytest.mark.parametrize(
    ("level", "keeps", "name"),
    [("exact", False, "relu"), ("structure", True, "relu"), ("exact", True, "relu"), ("structure", False, "mine")],
)
def test_traced_names_are_kept_at_level_exact_and_in_a_golden_that_has_them(level, keeps, name):
    graphs: Graphs = {}
    obtained = build_document(fxcore.symbolic_trace(lambda x: torch.relu(x)), graphs=graphs)
    golden = dataclasses.replace(rename_nodes(obtained, {"relu": "mine"}), keeps_traced_names=keeps)

    after = document_after(golden, with_code(obtained, graphs), graphs, level)

    assert after.nodes[1].name == name
    assert after.keeps_traced_names is (name == "relu")


@pytest.mark.parametrize(
    ("before", "after", "is_kept"),
    [
        ("torch.relu(%x)", "torch.relu(%x)", True),
        ("torch.tanh(%x)", "torch.relu(%x)", False),  # another operator
        (".relu(%x)", "torch.relu(%x)", False),
        ("self.conv(%x)", "self.conv(%x)", True),
    ],
)
def test_a_name_is_kept_by_a_node_of_the_same_operator(before, after, is_kept):
    golden, obtained = (
        document(f"%x = input x\n%{name} = {call}\nreturn %{name}") for name, call in (("mine", before), ("n", after))
    )

    assert (with_kept_names(golden, obtained).nodes[1].name == "mine") is is_kept
