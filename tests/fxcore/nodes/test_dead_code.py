from __future__ import annotations

import pytest
import torch
import torch.ao.nn.quantized  # and with it the rest of torch.ao
from torch import nn
from torch.nn import functional

import fxcore
from fixtures.oracle import assert_same
from fxcore import Graph
from fxcore.nodes.dead_code import may_alias, remove_unread
from fxcore.passes.shape_prop import ShapeProp


def with_a_dead_chain(x, y, z=1):
    a = x + 1
    b = a * 2
    b.neg()
    return y


def test_a_chain_that_nobody_reads_goes_and_inputs_stay():
    def cleaned(fx):
        graph = fx.symbolic_trace(with_a_dead_chain).graph
        return graph.eliminate_dead_code(), graph, graph.eliminate_dead_code()

    assert_same(cleaned)


def test_a_node_stays_if_the_caller_says_so():
    def cleaned(fx):
        graph = fx.symbolic_trace(with_a_dead_chain).graph
        graph.eliminate_dead_code(lambda node: node.is_impure() or node.name == "mul")
        return graph

    assert_same(cleaned)


def test_the_number_of_erased_nodes_is_told():
    graph = fxcore.symbolic_trace(with_a_dead_chain).graph

    assert remove_unread(graph, lambda node: node.is_impure()) == 3
    assert remove_unread(graph, lambda node: node.is_impure()) == 0


class WritesNobodySees(nn.Module):
    """Writes into values of its own that it never reads, as the auxiliary branch of a classifier does."""

    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 3, 1)
        self.norm = nn.BatchNorm2d(3)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        functional.relu(self.norm(self.convolution(x)), inplace=True)
        self.relu(self.convolution(x))
        copied = x.clone()
        copied.add_(1)
        copied.relu_().mul_(2)
        return x + 1


def test_what_is_written_into_a_value_that_nobody_reads_goes_with_it():
    graph = fxcore.symbolic_trace(WritesNobodySees()).graph

    graph.eliminate_dead_code()

    assert [node.name for node in graph.nodes] == ["x", "add", "output"]


def written_into_a_value_of_its_own(x):
    functional.softmax(x, 0).mul_(2)
    torch.linalg.inv(x).add_(1)
    nn.init.zeros_(x.sum(0))
    return x


def test_any_operator_that_returns_new_storage_may_be_written_into_unseen():
    graph = fxcore.symbolic_trace(written_into_a_value_of_its_own).graph

    graph.eliminate_dead_code()

    assert [node.name for node in graph.nodes] == ["x", "output"]


class WritesThroughALayer(nn.Module):
    def __init__(self, inplace):
        super().__init__()
        self.relu = nn.ReLU(inplace=inplace)

    def forward(self, x):
        self.relu(x).add_(1)
        return x


@pytest.mark.parametrize(("inplace", "kept"), [(False, ["x", "output"]), (True, ["x", "relu", "add_", "output"])])
def test_a_layer_that_works_in_place_returns_what_it_was_given(inplace, kept):
    graph = fxcore.symbolic_trace(WritesThroughALayer(inplace)).graph

    graph.eliminate_dead_code()

    assert [node.name for node in graph.nodes] == kept


def written_into_a_reader(x):
    y = x.clone()
    y.add_(1)
    return y


def written_through_a_view(x):
    y = x.clone()
    y.view(-1).add_(1)
    return y


def written_into_an_input(x, y):
    x.add_(1)
    return y


def written_where_a_function_wrote(x):
    functional.relu(x, True).add_(1)
    return x


def written_where_a_function_wrote_by_keyword(x):
    functional.relu(x, inplace=True).add_(1)
    return x


def written_into_what_an_operator_gave_back(x):
    x.type_as(x).add_(1)
    return x


def written_into_out(x, y):
    torch.add(x, 1, out=y).mul_(2)
    return y


def written_at_random(x):
    x.clone().uniform_()
    return x


def written_by_init(x):
    nn.init.uniform_(x.clone())
    return x


@pytest.mark.parametrize(
    ("function", "kept"),
    [
        (written_into_a_reader, "add_"),
        (written_through_a_view, "add_"),
        (written_into_an_input, "add_"),
        (written_where_a_function_wrote, "add_"),
        (written_where_a_function_wrote_by_keyword, "add_"),
        (written_into_what_an_operator_gave_back, "add_"),
        (written_into_out, "mul_"),
        (written_at_random, "uniform_"),
        (written_by_init, "uniform_"),
    ],
)
def test_a_write_that_somebody_may_notice_stays(function, kept):
    graph = fxcore.symbolic_trace(function).graph

    graph.eliminate_dead_code()

    assert kept in [node.name for node in graph.nodes]


quantize = torch.quantize_per_tensor


def dequantized(x):
    quantize(x, 0.1, 0, torch.quint8).dequantize().add_(1)
    torch.dequantize(torch.quantize_per_tensor_dynamic(x, torch.qint8, False)).relu_()
    return x


def written_into_views_of_its_own(x):
    x.clone().view(-1).add_(1)
    x.abs().t()[0].mul_(2)
    torch.chunk(torch.flatten(x + 1), 2)[0].zero_()
    return x


def written_into_what_operators_gave(x):
    torch.ops.aten.mul.Tensor(x, 2).add_(1)
    torch.ops.aten.relu(x).add_(1)
    torch.ops.fxcore_dead_code.doubled.default(x).add_(1)
    torch.ops.fxcore_dead_code.doubled(x).add_(1)
    return x


@pytest.fixture
def operators_of_a_library():
    library = torch.library.Library("fxcore_dead_code", "DEF")
    library.define("doubled(Tensor x) -> Tensor")
    library.define("same(Tensor(a) x) -> Tensor(a)")
    yield
    library._destroy()


@pytest.mark.usefixtures("operators_of_a_library")
@pytest.mark.parametrize(
    "function", [dequantized, written_into_views_of_its_own, written_into_what_operators_gave], ids=lambda f: f.__name__
)
def test_what_is_written_into_a_fresh_value_goes(function):
    graph = fxcore.symbolic_trace(function).graph

    graph.eliminate_dead_code()

    assert [node.name for node in graph.nodes] == ["x", "output"]


def dequantized_input(x):
    x.dequantize().add_(1)
    return x


def dequantized_again(x):
    quantize(x, 0.1, 0, torch.quint8).dequantize()  # what follows is another's
    x.relu().dequantize().add_(1)
    return x


def view_of_an_input(x):
    x.view(-1)[0].add_(1)
    return x


def view_of_what_is_read(x):
    y = x.clone()
    y.view(-1).add_(1)
    return y


def one_of_two_views(x):
    y = x.clone()
    y[0].add_(1)
    return y.view(-1)


def same_as_an_input(x):
    torch.ops.fxcore_dead_code.same(x).add_(1)
    torch.ops.aten.view.default(x, [-1]).add_(1)
    return x


@pytest.mark.usefixtures("operators_of_a_library")
@pytest.mark.parametrize(
    "function",
    [dequantized_input, view_of_an_input, view_of_what_is_read, one_of_two_views, same_as_an_input],
    ids=lambda f: f.__name__,
)
def test_what_is_written_into_a_view_that_may_be_seen_stays(function):
    graph = fxcore.symbolic_trace(function).graph
    before = [node.name for node in graph.nodes]

    graph.eliminate_dead_code()

    assert [node.name for node in graph.nodes] == before


def test_a_write_into_a_value_that_only_looks_dequantized_goes_with_the_value_it_belongs_to():
    graph = fxcore.symbolic_trace(dequantized_again).graph

    graph.eliminate_dead_code()

    assert [node.name for node in graph.nodes] == ["x", "output"]


def test_metadata_tells_that_a_value_is_quantized():
    gm = fxcore.symbolic_trace(dequantized_input)
    ShapeProp(gm).propagate(quantize(torch.ones(2), 0.1, 0, torch.quint8))

    gm.graph.eliminate_dead_code()

    assert [node.name for node in gm.graph.nodes] == ["x", "output"]


class Quantized(nn.Module):
    def __init__(self, last):
        super().__init__()
        self.quantize = torch.ao.nn.quantized.Quantize(0.1, 0, torch.quint8)
        self.linear = torch.ao.nn.qat.Linear(2, 2, qconfig=torch.ao.quantization.default_qat_qconfig)
        self.dequantize = torch.ao.nn.quantized.DeQuantize()
        self.last = last

    def forward(self, x):
        self.last(self, x).add_(1)
        return x


@pytest.mark.parametrize(
    ("last", "goes"),
    [
        (lambda self, x: self.dequantize(self.quantize(x)), True),
        (lambda self, x: self.quantize(x).dequantize(), True),
        (lambda self, x: self.linear(x), True),
        (lambda self, x: self.dequantize(x), False),
        (lambda self, x: self.dequantize(torch.flatten(x)), False),
    ],
    ids=["modules", "a module and a method", "a layer", "not quantized", "a view that is not quantized"],
)
def test_layers_of_torch_ao_give_fresh_values_as_those_of_torch_nn_do(last, goes):
    gm = fxcore.symbolic_trace(Quantized(last))

    gm.graph.eliminate_dead_code()

    assert ("add_" not in [node.name for node in gm.graph.nodes]) is goes


def seeds_torch(x):
    torch.manual_seed(7)
    return x + torch.rand(3)


def seeds_the_module(x):
    torch.random.manual_seed(7)
    return x + torch.rand(3)


def seeds_a_generator(x):
    generator = torch.Generator()
    generator.manual_seed(3)
    return x + torch.rand(3, generator=generator)


def forks(x):
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return x + torch.rand(3)


@pytest.mark.parametrize("function", [seeds_torch, seeds_the_module, seeds_a_generator, forks])
def test_a_seed_stays(function):
    x = torch.zeros(3)
    graph_module = fxcore.symbolic_trace(function, example_inputs=x)
    graph_module.graph.eliminate_dead_code()
    graph_module.recompile()

    torch.manual_seed(0)
    before = torch.get_rng_state()
    result = graph_module(x)
    after = torch.get_rng_state()
    torch.set_rng_state(before)
    assert torch.equal(result, function(x))
    assert torch.equal(after, torch.get_rng_state())


class DeQuantize(nn.Module):
    def forward(self, x):
        return x


@pytest.mark.parametrize("layer", [DeQuantize(), torch.ao.nn.quantized.FloatFunctional()], ids=["user's", "torch.ao's"])
def test_only_torchs_layer_for_dequantizing_gives_a_fresh_value(layer):
    root = nn.Module()
    root.layer = layer
    graph = Graph()
    quantized = graph.call_function(torch.quantize_per_tensor, (graph.placeholder("x"), 0.1, 0, torch.quint8))
    call = graph.call_module("layer", (quantized,))
    graph.output(quantized)

    assert may_alias(call, root)
    assert not may_alias(quantized, root)
