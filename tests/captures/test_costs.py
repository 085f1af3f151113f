"""Costs of every sort of subject, as goldens of level `cost` hold them."""

from __future__ import annotations

import pytest
import torch
import torch.fx
from torch import nn
from torch.fx.passes.shape_prop import ShapeProp

from fixtures.catalog import small_models
from fixtures.train_steps import net_inputs, net_step
from fxcore.transforms.analysis.flop_formulas import FORMULAS
from pytest_fxgraph import assert_graph_matches_golden, capture
from pytest_fxgraph.captures.costs import costs_of_captured, costs_on, costs_together, step_memory, with_costs
from pytest_fxgraph.captures.shapes import shapes_recorded
from pytest_fxgraph.captures.tracing import trace
from pytest_fxgraph.captures.train_step import PHASES
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.document.builder import build_document
from pytest_fxgraph.document.costs import CostBlock, CostRecord
from pytest_fxgraph.document.decoding import decode
from pytest_fxgraph.errors import CaptureError, ChoiceError, InputsError
from pytest_fxgraph.report.text import full_section

# Keywords that a model takes by `**` are no inputs of its graph, with which example_kwargs could be matched.
MODELS = [entry for entry in small_models() if entry.name != "star_keywords"]
INPUTS = torch.ones(2, 3, 8, 8)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.head = nn.Conv2d(3, 4, 3), nn.Linear(4, 2)

    def forward(self, x):
        return self.head(torch.relu(self.conv(x)).mean((2, 3)))


@pytest.fixture
def block_of(tmp_path):
    """Write a golden of level cost and read its block."""

    def block(subject, **options):
        golden = tmp_path / "golden.yaml"
        golden.unlink(missing_ok=True)
        assert_graph_matches_golden(subject, golden, level="cost", update=True, **options)
        assert_graph_matches_golden(subject, golden, level="cost", **options)
        return decode(golden.read_bytes(), "golden").cost

    return block


@pytest.fixture
def expected(block_of):
    return block_of(Net().eval(), example_inputs=INPUTS)


def test_a_graph_of_torch_fx_costs_what_the_model_costs(block_of, expected):
    graph_module = torch.fx.symbolic_trace(Net().eval())

    assert block_of(graph_module, example_inputs=INPUTS) == expected
    assert block_of(graph_module, example_inputs=None, example_kwargs={"x": INPUTS}) == expected


def test_a_graph_that_knows_its_shapes_needs_no_inputs(block_of, expected):
    graph_module = torch.fx.symbolic_trace(Net().eval())
    ShapeProp(graph_module).propagate(INPUTS)

    assert block_of(graph_module) == expected


@pytest.mark.parametrize("dynamic", [None, ({0: torch.export.Dim("batch", min=2, max=9)},)], ids=["static", "dynamic"])
def test_an_exported_program_costs_what_the_model_costs(block_of, expected, dynamic):
    assert block_of(torch.export.export(Net().eval(), (INPUTS,), dynamic_shapes=dynamic)) == expected


def test_a_graph_that_knows_no_shapes_needs_inputs(block_of):
    with pytest.raises(InputsError, match=r"level cost needs example inputs: .*; write fx_golden"):
        block_of(torch.fx.symbolic_trace(Net()))


def test_inputs_that_do_not_fit_are_refused(block_of):
    with pytest.raises(CaptureError, match="the example inputs do not run through the graph of Net, at node 'conv'"):
        block_of(Net(), example_inputs=torch.ones(2, 5, 8, 8))


def test_a_wrong_budget_is_refused_before_anything_is_traced(tmp_path):
    with pytest.raises(ChoiceError, match="there is no cost 'flop'"):
        assert_graph_matches_golden(None, tmp_path / "golden.yaml", level="cost", budget={"flop": 0})


def test_a_budget_lets_a_graph_pass(tmp_path):
    golden = tmp_path / "golden.yaml"
    assert_graph_matches_golden(Net(), golden, level="cost", example_inputs=INPUTS, update=True)
    larger = torch.ones(2, 3, 8, 9)

    with pytest.raises(AssertionError, match=r"does not match: flops \+16"):
        assert_graph_matches_golden(Net(), golden, level="cost", example_inputs=larger)
    budget = {"flops": "20%", "bytes": "20%", "peak_activation": "20%"}
    assert_graph_matches_golden(Net(), golden, level="cost", example_inputs=larger, budget=budget)


class Attends(nn.Module):
    def __init__(self, change=None):
        super().__init__()
        self.query, self.change = nn.Linear(8, 8), change

    def forward(self, x):
        query = self.query(x)
        if self.change == "copy":
            query = query.clone()
        if self.change == "batch":
            query = torch.cat([query, query])
            return torch.bmm(query, query.transpose(1, 2))
        return torch.bmm(query, query.transpose(1, 2))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("copy", "clone added: .clone(%), which costs 0 FLOPs and 1,024 bytes"),
        ("batch", "bmm: value float32[2, 8, 8] -> float32[4, 8, 8], which costs 4,096 FLOPs and 3,072 bytes"),
    ],
)
def test_an_extra_copy_and_a_larger_product_are_named_with_what_they_cost(change, words):
    # A golden of costs has no nodes, so two whole documents are compared.
    expected, obtained = (document_with_costs(Attends(each)) for each in (None, change))

    difference = compare_documents(expected, obtained, level="cost")

    assert words in full_section(difference, expected, obtained, golden="costs")


def document_with_costs(model):
    inputs = torch.ones(2, 8, 8)
    graph = trace(model)
    with shapes_recorded(graph, inputs):
        return with_costs(build_document(graph), graph, graph.graph, inputs, None)


@pytest.mark.parametrize("entry", MODELS[::4], ids=lambda entry: entry.name)
def test_every_model_of_the_zoo_has_costs(block_of, entry):
    block = block_of(entry.build().eval(), example_inputs=entry.example_inputs(), example_kwargs=entry.example_kwargs())

    assert block.total.nodes == sum(record.nodes for _, record in block.modules)
    assert block.total.flops == sum(record.flops for _, record in block.modules)
    assert FORMULAS.keys().isdisjoint(block.uncounted)


@pytest.mark.long
@pytest.mark.parametrize("entry", MODELS, ids=lambda entry: entry.name)
def test_no_operator_of_the_zoo_lacks_a_formula(block_of, entry):
    block = block_of(entry.build().eval(), example_inputs=entry.example_inputs(), example_kwargs=entry.example_kwargs())

    assert block.uncounted == ()


def test_an_exported_graph_that_does_not_run_is_refused(block_of):
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    x.meta["val"] = torch.ones(2, 5, device="meta")
    weight = graph.call_function(torch.ones, (3, 4))
    graph.output(graph.call_function(torch.mm, (x, weight)))

    with pytest.raises(CaptureError, match=r"cannot count what the graph costs: .*at node 'mm'"):
        block_of(torch.fx.GraphModule({}, graph))


def test_the_memory_of_a_step_is_told_by_its_parts():
    graph_module = capture(net_step("adamw"), net_inputs(), frontend="make_fx").graphs[0]
    parameters = sum(each.numel() for each in graph_module.parameters())
    buffers = 2 * 8 * 4 + 8  # the means and variances of the norm, and its count

    assert step_memory(graph_module) == {
        "memory_parameters": 4 * parameters + buffers,
        "memory_gradients": 4 * parameters,
        "memory_optimizer": 2 * 4 * parameters + 5 * 4,  # two averages, and a count for each of five parameters
    }
    assert step_memory(trace(Net())) == {}


def test_costs_of_a_step_are_told_by_phase_and_module():
    block = costs_of_captured(capture(net_step("sgd"), net_inputs(), frontend="make_fx").graphs[0])
    found = {path: cost.flops for path, cost in block.by_module.items()}

    assert list(dict.fromkeys(path.partition(".")[0] for path in found)) == [
        "up",
        "norm",
        "forward",
        "down",
        *PHASES[1:],
    ]
    assert found["backward.down"] > found["down"] > 0 == found["update.down.weight"]


def test_a_captured_graph_without_shapes_cannot_be_counted():
    with pytest.raises(CaptureError, match=r"cannot count what \w+ costs: the shapes of its inputs are not known"):
        costs_of_captured(trace(nn.ReLU()))


def test_costs_of_graphs_are_added_and_the_highest_peak_is_the_peak():
    outer, inner = CostRecord(1, 2, 3, 4, 5), CostRecord(10, 20, 30, 40, 50)
    together = costs_together(
        {
            "graph_0": CostBlock(outer, 7, "a", (("", outer),), ("b", "a")),
            "graph_1": CostBlock(inner, 9, "", (("", inner), ("fc", inner)), ("a",)),
        }
    )

    assert together == CostBlock(
        CostRecord(11, 22, 33, 44, 55),
        9,
        "graph_1",
        (("graph_0", outer), ("graph_1", inner), ("graph_1.fc", inner)),
        ("a", "b"),
    )
    assert costs_together({"graph_0": CostBlock(outer, 7, "a")}).peak_at == "graph_0.a"


def test_shapes_that_depend_on_values_are_counted_on_real_tensors():
    graph_module = trace(lambda x, y: torch.relu(x[y > 0]))

    assert costs_on(graph_module, (torch.ones(3, 2), torch.tensor([1, 0, 1]))).total.nodes == 3


def test_a_document_has_the_costs_of_the_graph_that_it_is_of():
    module = trace(lambda x: torch.relu(torch.relu(x)))
    other = trace(lambda x: torch.relu(x)).graph
    document = build_document(module)

    for graph, nodes in ((module.graph, 2), (other, 1)):
        assert with_costs(document, module, graph, torch.ones(2), None).cost.total.nodes == nodes


def test_the_peak_is_in_a_module_or_nowhere():
    assert costs_on(trace(nn.Sequential(nn.Linear(2, 3))), (torch.ones(1, 2),)).peak_at == "0"
    assert costs_on(trace(lambda: 3), ()).peak_at == ""
