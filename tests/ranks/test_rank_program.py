"""The program of one rank: a golden for each parallel plan, runs on real processes, and ranks apart from each other."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

from fixtures.parallel_plans import PLANS, mesh_of, tokens, vocabulary_parallel
from fixtures.process_groups import needs_fake_group
from pytest_fxgraph.captures.request import CaptureRequest
from pytest_fxgraph.captures.step_trace import Step, local_part
from pytest_fxgraph.captures.ways import captured
from pytest_fxgraph.errors import ChoiceError, RanksError
from pytest_fxgraph.ranks.processes import run_on_ranks
from pytest_fxgraph.ranks.rank_program import ProgramRequest, StateMemory, check_optimizer, state_memory
from pytest_fxgraph.ranks.world import World

pytestmark = [
    needs_fake_group,
    pytest.mark.filterwarnings("ignore:FSDP2-wrapped module", "ignore:.*is deprecated:FutureWarning"),
]

# The classes of a loss are split in the forward only, and torch has no gradients of the others' collectives.
WITHOUT_TRAINING = {"loss_parallel", "plain_collectives", "functional_collectives"}


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("plan", PLANS)
def test_a_plan_is_one_subject(fx_ranks, fx_golden, plan):
    build, inputs = PLANS[plan]
    assert fx_ranks(build, inputs(), world_size=4) == fx_golden


def graph_and_eager(rank, plan, step):
    """Return the results of a rank's graph and of its model, in a real process; each rank has inputs of its own."""
    build, inputs = PLANS[plan]
    values = tuple(value * (1 + rank) if value.is_floating_point() else value for value in inputs())
    graph_module = captured(CaptureRequest.of(build(rank), values, None, "make_fx", step=step)).as_graph_module()
    with torch.no_grad():
        obtained = graph_module(*values)
    model = build(rank)
    outputs = model(*values)
    if not step.is_training:
        return obtained, pytree.tree_map(local_part, outputs)
    loss = outputs.sum()
    loss.backward()
    return obtained, (local_part(loss), {path: local_part(each.grad) for path, each in model.named_parameters()})


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("training", [False, True], ids=["forward", "training"])
@pytest.mark.parametrize("plan", PLANS)
def test_the_graph_of_a_rank_computes_what_its_model_does_on_real_processes(plan, training, ranks):
    if training and plan in WITHOUT_TRAINING:
        pytest.skip(f"torch cannot go backward through {plan}")
    results = run_on_ranks(graph_and_eager, ranks, args=(plan, Step(training)), timeout=200)

    assert len(results) == ranks
    for obtained, expected in results:
        assert any(leaf is not None and bool(leaf.any()) for leaf in pytree.tree_leaves(obtained))
        torch.testing.assert_close(obtained, expected)


def programs_alone(fx_ranks, build, inputs):
    """Capture the ranks one by one in another order, each after the caches were emptied."""
    return {rank: fx_ranks(build, inputs, world_size=4, ranks=[rank]).programs[rank] for rank in (3, 1, 0, 2)}


def test_a_rank_does_not_see_the_placements_of_an_earlier_rank(fx_ranks):
    together = fx_ranks(vocabulary_parallel, tokens(), world_size=4).programs
    for rank, alone in programs_alone(fx_ranks, vocabulary_parallel, tokens()).items():
        assert alone.document == together[rank].document
    nodes = [program.document.nodes for program in together.values()]
    assert [next(each.args[1] for each in of if each.target == "aten.lt.Scalar") for of in nodes] == [
        "0",
        "3",
        "6",
        "9",
    ]


class Redistributed(nn.Module):
    """Takes the rank's uneven part of a value that an operator made; torch caches the operator's mesh."""

    def forward(self, x):
        from torch.distributed.tensor import DTensor, Replicate, Shard

        whole = DTensor.from_local(x, mesh_of(tp=4), [Replicate()], run_check=False).relu()
        return whole.redistribute(placements=[Shard(1)]).to_local()


def test_a_rank_does_not_see_the_mesh_of_an_earlier_rank(fx_ranks):
    values = (torch.ones(2, 7),)
    together = fx_ranks(lambda rank: Redistributed(), values, world_size=4).programs
    for rank, alone in programs_alone(fx_ranks, lambda rank: Redistributed(), values).items():
        assert alone.document == together[rank].document
    widths = [next(reversed(program.capture.as_graph_module().graph.nodes)).args[0] for program in together.values()]
    assert [node.meta["val"].shape[1] for node in widths] == [2, 2, 2, 1]


def test_lowered_graphs_name_the_parameters_that_fsdp_exchanges(fx_ranks):
    programs = fx_ranks(PLANS["fully_sharded"][0], PLANS["fully_sharded"][1](), world_size=2, ranks=[1], frontend="aot")
    graphs = programs.programs[1].capture.graphs
    names = [node.target for graph_module in graphs for node in graph_module.graph.nodes if node.op == "get_attr"]
    assert {"blocks.0.norm.weight", "blocks.1.up.weight", "blocks.1.down.bias"} <= set(names)
    assert len(names) == 12


@pytest.mark.parametrize(
    ("plan", "frontend", "part"),
    [
        ("fully_sharded", "symbolic", "FSDPModule"),
        ("data_parallel", "export", "DistributedDataParallel"),
        ("tensor_parallel", "export", "distributed tensors"),
    ],
)
def test_a_frontend_that_cannot_take_a_plan_names_the_plan_and_the_next_step(fx_ranks, plan, frontend, part):
    build, inputs = PLANS[plan]
    words = f"rank 0: frontend='{frontend}' cannot take this model with {part} .* take frontend='make_fx', which runs"
    with pytest.raises(RanksError, match=words):
        fx_ranks(build, inputs(), world_size=2, frontend=frontend)


def test_a_fully_sharded_model_on_a_torch_that_needs_streams_names_the_next_step(fx_ranks):
    """torch 2.6 fails so on a CPU."""

    class FSDPModule(nn.Module):
        def forward(self, x):
            raise AttributeError("'Stream' object has no attribute 'record_event'")

    with pytest.raises(RanksError, match="needs streams, which a CPU does not have; take a later release of torch"):
        fx_ranks(lambda rank: FSDPModule(), (torch.ones(1),), world_size=2)


def test_a_schedule_of_a_pipeline_is_refused_with_the_alternative(fx_ranks):
    pipelining = pytest.importorskip("torch.distributed.pipelining")

    def build(rank):
        return pipelining.PipelineStage(torch.nn.Linear(4, 4), rank, 2, torch.device("cpu"))

    with pytest.raises(RanksError, match=r"rank 0: build returns a PipelineStage .* Return the module of the stage"):
        fx_ranks(build, (torch.ones(2, 4),), world_size=2)


@pytest.mark.parametrize(
    ("frontend", "mode", "step"),
    [
        ("make_fx", "train", Step(is_training=True)),
        ("make_fx", "eval", Step(is_training=False)),
        ("make_fx", None, Step(is_training=False)),
        ("aot", "train", None),
    ],
)
def test_a_step_is_traced_by_make_fx_alone_and_trains_in_that_mode(frontend, mode, step):
    model = nn.Linear(2, 2)
    request = ProgramRequest(lambda rank: model, torch.ones(1, 2), None, frontend, mode, World.of(2, None), "cpu")

    assert request.capture_request(model, 0).step == step


def test_inputs_are_those_of_the_rank_or_of_all_ranks():
    for inputs, of_rank in ((torch.ones(2), 1.0), (lambda rank: torch.full((2,), float(rank)), 3.0)):
        request = ProgramRequest(nn.Linear, inputs, None, "aot", None, World.of(4, None), "cpu")
        assert request.arguments(3).tolist() == [of_rank] * 2


@pytest.mark.parametrize(
    ("is_training", "optimizer", "memory"),
    [
        (False, None, StateMemory(36, 0, 0)),
        (True, None, StateMemory(36, 8, 0)),
        (True, "sgd", StateMemory(36, 8, 0)),
        (True, "sgd_momentum", StateMemory(36, 8, 8)),
        (True, "adam", StateMemory(36, 8, 16)),
        (True, "adamw", StateMemory(36, 8, 16)),
    ],
)
def test_parameters_that_train_have_gradients_and_the_state_of_an_optimizer(is_training, optimizer, memory):
    model = nn.Linear(2, 2)
    model.weight.requires_grad_(False)
    model.register_buffer("scale", torch.ones(3))

    assert state_memory(model, is_training=is_training, optimizer=optimizer) == memory
    assert state_memory(torch.relu, is_training=is_training, optimizer=optimizer) == StateMemory()


@pytest.mark.parametrize(
    ("optimizer", "mode", "words"),
    [
        (None, None, None),
        (None, "train", None),
        ("adam", "train", None),
        ("adam", "eval", "belongs to a training step"),
        ("lion", "train", "there is no optimizer 'lion'"),
    ],
)
def test_an_optimizer_is_known_and_belongs_to_a_training_step(optimizer, mode, words):
    if words is None:
        check_optimizer(optimizer, mode)
    else:
        with pytest.raises(ChoiceError, match=words):
            check_optimizer(optimizer, mode)
