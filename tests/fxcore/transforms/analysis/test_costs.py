"""Bytes and parameters of each node, and where they are counted."""

from __future__ import annotations

import operator

import pytest
import torch
from torch import nn

import fxcore
from fixtures.models.gpt_like import GptLike
from fixtures.quantized_tensors import with_blocked_weights
from fxcore import interop
from fxcore.errors import InterpreterError
from fxcore.passes.shape_prop import ShapeProp
from fxcore.transforms.analysis.costs import Cost, graph_costs
from fxcore.transforms.analysis.values import concrete, example_arguments, propagate

SQUARE = torch.ones(4, 4)  # 64 bytes


def bytes_of(function, *args):
    """Return the bytes that the calls of a function read and write, less those of calls that move none."""
    costs = graph_costs(fxcore.symbolic_trace(function), *args)
    return [(each.cost.bytes_read, each.cost.bytes_written) for each in costs.nodes if each.cost.bytes]


@pytest.mark.parametrize(
    ("function", "moved"),
    [
        (lambda x: x + 1, [(64, 64)]),
        (lambda x: x * x, [(64, 64)]),
        (lambda x: x + x.t(), [(128, 64)]),
        (lambda x: x.view(2, 8)[0], []),
        (lambda x: x.add_(1), [(64, 64)]),
        (lambda x: x.double(), [(64, 128)]),
        (lambda x: x.float(), []),
        (lambda x: x.t().contiguous(), [(64, 64)]),
        (lambda x: torch.zeros_like(x), [(0, 64)]),
        (lambda x: torch.empty_like(x), []),
        (lambda x: x[:1].expand(4, 4) + 1, [(16, 64)]),
        (lambda x: x.size(0), []),
        (lambda x: torch.cat([x, x]), [(64, 128)]),
        (lambda x: x.index_select(0, torch.arange(1)), [(24, 16)]),
    ],
    ids=range(14),
)
def test_a_call_reads_its_tensors_once_and_writes_its_results(function, moved):
    assert bytes_of(function, SQUARE) == moved


def test_a_module_reads_its_parameters_and_buffers():
    assert bytes_of(nn.Sequential(nn.Linear(4, 2)), SQUARE) == [(64 + 40, 32)]
    assert bytes_of(nn.Sequential(nn.BatchNorm1d(4)).eval(), SQUARE) == [(64 + 4 * 16, 64)]


def test_an_embedding_reads_the_rows_that_it_gives():
    rows, table = torch.tensor([1, 2]), nn.Embedding(1000, 4)

    assert bytes_of(table, rows) == bytes_of(nn.Sequential(table), rows) == [(2 * 8 + 32, 32)]


def test_shared_parameters_are_counted_where_they_are_read_first():
    model = GptLike(layers=1)

    costs = graph_costs(fxcore.symbolic_trace(model), torch.zeros(1, 8, dtype=torch.int64))

    assert costs.total.params == sum(parameter.numel() for parameter in model.parameters())
    assert costs.by_module["token"].params == model.token.weight.numel()
    assert costs.by_module["head"].params == 0


def test_costs_add_up_over_modules_inside_each_other():
    costs = graph_costs(fxcore.symbolic_trace(GptLike(layers=2)), torch.zeros(1, 8, dtype=torch.int64))

    inside = costs.by_module_and_inside

    assert inside[""] == costs.total == sum(costs.by_module.values(), Cost())
    assert inside["blocks"] == inside["blocks.0"] + inside["blocks.1"]
    assert inside["blocks.0.attn"].flops > costs.by_module["blocks.0.attn"].flops
    assert "blocks.1.attn.qkv" in costs.table()


@pytest.mark.parametrize("propagation", ["fake", "real"])
def test_costs_are_the_same_however_shapes_are_found(propagation):
    graph_module = fxcore.symbolic_trace(GptLike(layers=1).eval())
    tokens = torch.zeros(1, 8, dtype=torch.int64)

    costs = graph_costs(graph_module, tokens, propagation=propagation)

    assert costs.by_module == graph_costs(graph_module, tokens).by_module


def test_counting_changes_neither_module_nor_inputs_nor_generators():
    model = nn.Sequential(nn.BatchNorm1d(4), nn.Dropout(inplace=True)).train()
    inputs, state = torch.rand(3, 4), torch.random.get_rng_state()
    before = inputs.clone(), {name: tensor.clone() for name, tensor in model.state_dict().items()}

    graph_costs(fxcore.symbolic_trace(model), inputs, propagation="real")

    assert torch.equal(inputs, before[0])
    assert all(torch.equal(tensor, before[1][name]) for name, tensor in model.state_dict().items())
    assert torch.equal(torch.random.get_rng_state(), state)


def test_an_exported_program_is_counted_by_the_shapes_that_it_knows():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.head = nn.Conv2d(3, 4, 3), nn.Linear(144, 2)

        def forward(self, x):
            return self.head(torch.relu(self.conv(x)).flatten(1))

    model = Net().eval()
    inputs = torch.ones(2, 3, 8, 8)
    dynamic = {0: torch.export.Dim("batch", min=2, max=64)}
    graph_module = interop.from_torch(torch.export.export(model, (inputs,), dynamic_shapes=(dynamic,)))

    costs = graph_costs(graph_module, *example_arguments(graph_module.graph))

    traced = graph_costs(fxcore.symbolic_trace(model), inputs)
    assert (costs.total.flops, costs.total.params) == (traced.total.flops, traced.total.params)
    assert costs.by_module["conv"] == traced.by_module["conv"]


def test_inputs_that_do_not_fit_are_an_error_that_names_the_node():
    graph_module = fxcore.symbolic_trace(nn.Sequential(nn.Linear(4, 2), nn.Linear(3, 2)))

    with pytest.raises(InterpreterError, match="cannot find the shapes of the graph at node '_1'"):
        graph_costs(graph_module, SQUARE)


def test_shapes_that_depend_on_values_need_a_real_run():
    graph_module = fxcore.symbolic_trace(lambda x: x.nonzero() + 1)

    with pytest.raises(InterpreterError, match='use propagation="real"'):
        propagate(graph_module, torch.eye(3))
    assert graph_costs(graph_module, torch.eye(3), propagation="real").total.flops == 6


def test_another_propagation_is_refused():
    with pytest.raises(ValueError, match="propagation='magic' is not known; use one of meta, fake, real"):
        propagate(fxcore.symbolic_trace(nn.ReLU()), SQUARE, propagation="magic")


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_weights_cost_the_bytes_in_which_they_are_held():
    model = nn.Sequential(nn.Linear(64, 32, bias=False)).eval()
    weights = {
        "float32": (model, 4 * 64 * 32),
        "int8 by row": (with_blocked_weights(model), 64 * 32 + 5 * 32),  # a float and an int8 for each row
        "packed": (torch.ao.quantization.quantize_dynamic(model, {nn.Linear}), 64 * 32),
    }
    if "fbgemm" in torch.backends.quantized.supported_engines:  # other engines have no packed halves
        halves = torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.float16)
        weights["packed halves"] = (halves, 2 * 64 * 32)
    x = torch.ones(2, 64)

    for name, (each, expected) in weights.items():
        costs = graph_costs(fxcore.symbolic_trace(each), x, propagation="real")
        assert (name, costs.total.bytes_read) == (name, 4 * x.numel() + expected)
        assert costs.total.params == 64 * 32


def test_an_assignment_of_items_writes_the_bytes_that_it_reads():
    graph = fxcore.Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    graph.call_function(operator.setitem, (x, 0, y))
    graph.output(x)

    costs = graph_costs(fxcore.GraphModule({}, graph), SQUARE.clone(), torch.ones(4))

    assert [(each.cost.bytes_read, each.cost.bytes_written) for each in costs.nodes if each.cost.bytes] == [(16, 16)]


def test_arguments_are_made_from_every_kind_of_metadata():
    def function(x, pair, scale):
        return x + pair[0] * pair[1] * scale

    gm = fxcore.symbolic_trace(function)
    x, _, scale = gm.graph.find_nodes(op="placeholder")
    assert example_arguments(gm.graph) is None
    ShapeProp(gm).propagate(torch.ones(2, 3).t(), [torch.ones(()), torch.ones(1)], 2.0)
    scale.meta["val"] = 2.0

    made = example_arguments(gm.graph)

    assert (made[0].shape, made[0].stride(), made[0].is_meta) == ((3, 2), (1, 3), True)
    assert [(each.shape, each.stride()) for each in made[1]] == [((), ()), ((1,), (1,))]
    assert made[2] == 2.0
    x.meta["tensor_meta"] = x.meta["tensor_meta"]._replace(stride=())
    assert example_arguments(gm.graph)[0].stride() == (2, 1)


def test_a_size_without_a_value_is_an_error():
    program = torch.export.export(OfNonzero(), (torch.ones(3),))
    node = next(node for node in program.graph.nodes if str(node.target) == "aten.nonzero.default")

    with pytest.raises(ValueError, match="the size u0 is not known before the model runs; give example inputs"):
        concrete(node.meta["val"].shape[0])


class OfNonzero(nn.Module):
    def forward(self, x):
        return x.nonzero() + 1


@pytest.mark.parametrize("propagation", ["meta", "fake"])
def test_metadata_alone_and_a_tensor_that_the_graph_reads_give_the_costs(propagation):
    class Adds(nn.Module):
        def forward(self, x):
            return x + CONSTANT

    gm = fxcore.symbolic_trace(Adds())

    costs = graph_costs(gm, SQUARE.to("meta"), propagation=propagation)

    assert [(each.cost.bytes_read, each.cost.bytes_written) for each in costs.nodes if each.cost.bytes] == [(80, 64)]


CONSTANT = torch.ones(4)


def test_a_sparse_tensor_has_a_size():
    values = propagate(fxcore.symbolic_trace(lambda x: x.to_sparse()), torch.eye(3), propagation="real")

    (spec,) = [spec for node, spec in values.results.items() if node.name == "to_sparse"]
    assert (spec.shape, spec.stride, spec.nbytes) == ((3, 3), (), 36)
