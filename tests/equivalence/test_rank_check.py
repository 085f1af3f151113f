"""`fx_equivalence(..., ranks=)`: a parallel program does what the plain model does; broken programs are told."""

from __future__ import annotations

import copy
import dataclasses
import time
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from fixtures import parallel_plans as plans
from fixtures.process_groups import needs_fake_group
from fixtures.process_groups import training_forks as training_forks
from pytest_fxgraph.equivalence import rank_check
from pytest_fxgraph.equivalence.rank_check import Ranks
from pytest_fxgraph.errors import ChoiceError, EagerError, MismatchError, RanksError, VacuousCheckError
from pytest_fxgraph.ranks.world import World

pytestmark = [
    pytest.mark.usefixtures("training_forks"),
    pytest.mark.skipif(not dist.is_available() or not dist.is_gloo_available(), reason="this torch has no gloo"),
]


class Net(nn.Module):
    """Two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(4, 8, bias=False), nn.Linear(8, 4)

    def forward(self, x):
        return self.down(torch.tanh(self.up(x)))


class _Copied(torch.autograd.Function):
    """Hands its input on, and sums its gradient over all ranks."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.clone()
        dist.all_reduce(gradient)
        return gradient


class _Summed(torch.autograd.Function):
    """Sums its input over all ranks."""

    @staticmethod
    def forward(ctx, x, is_async=False):
        x = x.clone()
        if is_async and dist.get_rank():
            time.sleep(0.3)  # rank 0 goes on, and no collective can have ended
        dist.all_reduce(x, async_op=is_async)
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


class SplitByHand(nn.Module):
    """Hidden units in equal parts on all ranks, by plain collectives."""

    def __init__(self, net: Net, rank: int, *, fault: str = "") -> None:
        super().__init__()
        size = dist.get_world_size()
        place = rank if fault != "swapped" else size - 1 - rank
        self.fault, self.up, self.down = fault, nn.Linear(4, 8 // size, bias=False), nn.Linear(8 // size, 4)
        self.up.weight = nn.Parameter(net.up.weight.detach().chunk(size)[rank].clone())
        self.down.weight = nn.Parameter(net.down.weight.detach().chunk(size, 1)[place].clone())
        self.down.bias = nn.Parameter(net.down.bias.detach().clone())

    def forward(self, x):
        x = x if self.fault == "gradient" else _Copied.apply(x)
        part = F.linear(torch.tanh(self.up(x)), self.down.weight)
        if self.fault != "reduction":
            part = _Summed.apply(part, self.fault == "wait")
        return part + self.down.bias


@pytest.fixture
def net():
    torch.manual_seed(3)
    return Net()


X = torch.linspace(-1, 1, 16).reshape(4, 4)


def by_hand(net, fault=""):
    return {"build": lambda rank: SplitByHand(net, rank, fault=fault), "ranks": 2}


def test_hidden_units_split_by_hand_are_equivalent(fx_equivalence, net):
    fx_equivalence(net, X, **by_hand(net), grads=True, samples=2)


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("reduction", r"output \(rank 0-1\) has other values on the ranks than in eager"),
        ("wait", r"output \(rank 0(-1)?\) has other values"),
        ("swapped", r"output \(rank 0-1\) has other values"),
        ("gradient", r"gradient of input 0 \(rank 0-1\) has other values"),
    ],
)
def test_a_fault_of_hidden_units_split_by_hand_is_told(fx_equivalence, net, fault, told):
    with pytest.raises(MismatchError, match=told):
        fx_equivalence(net, X, **by_hand(net, fault), grads=True)


def averaged(net, factor):
    """Return the builder of a data-parallel model whose gradients are summed, then multiplied."""

    def build(rank):
        model = copy.deepcopy(net)
        for parameter in model.parameters():
            parameter.register_post_accumulate_grad_hook(reduce)
        return model

    def reduce(parameter):
        if factor:
            dist.all_reduce(parameter.grad)
            parameter.grad.mul_(factor)

    return build


def test_gradients_averaged_over_data_are_those_of_the_whole_batch(fx_equivalence, net):
    step = lambda parameters: torch.optim.SGD(parameters, lr=0.1)  # noqa: E731
    fx_equivalence(net, X, ranks=2, build=averaged(net, 0.5), batch=True, optimizer=step, grads=True)


@pytest.mark.sampled(every=3, start=2)
@pytest.mark.parametrize(("factor", "times"), [(0.25, "averaged twice"), (1, "summed"), (0, "not reduced")])
def test_gradients_of_another_factor_are_told(fx_equivalence, net, factor, times):
    with pytest.raises(MismatchError, match=r"gradient of up.weight \(rank 0-1\) has other values on the ranks"):
        fx_equivalence(net, X, ranks=2, build=averaged(net, factor), batch=True, grads=True)


def test_a_step_with_another_optimizer_is_told(fx_equivalence, net):
    def step(parameters):
        return torch.optim.SGD(parameters, lr=0.1 if not dist.is_initialized() else 0.2)

    with pytest.raises(MismatchError, match=r"parameter up.weight after a step \(rank 0-1\) has other values"):
        fx_equivalence(net, X, ranks=2, build=averaged(net, 0.5), batch=True, optimizer=step, grads=True)


def test_a_mean_over_the_batch_is_the_mean_of_the_ranks(fx_equivalence, net):
    class Loss(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = copy.deepcopy(net)

        def forward(self, x):
            return self.net(x).square().mean()

    fx_equivalence(loss := Loss(), X, ranks=2, build=averaged(loss, 0.5), batch=True, grads=True)


@pytest.mark.sampled(every=3, start=2)
@pytest.mark.parametrize("plan", [plans.tensor_parallel, plans.fully_sharded, plans.data_parallel])
def test_plans_of_torch_are_equivalent(fx_equivalence, plan):
    pytest.importorskip("torch.distributed.tensor.parallel")
    batch = plan is not plans.tensor_parallel
    fx_equivalence(plans.plain(), plans.inputs(), ranks=2, build=plan, batch=batch, timeout=200, grads=True)


@pytest.mark.slow
def test_a_plan_of_two_dimensions_is_equivalent(fx_equivalence):
    fx_equivalence(
        plans.plain(),
        plans.inputs(),
        ranks=4,
        build=plans.two_dimensions,
        mesh={"dp": 2, "tp": 2},
        batch="dp",
        timeout=200,
        grads=True,
    )


@needs_fake_group
class RunningMean(nn.Module):
    """Notes the running mean of its outputs, over the batch of this rank or of all ranks."""

    def __init__(self, is_reduced: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear, self.is_reduced = nn.Linear(4, 4), is_reduced
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        y = self.linear(x)
        mean = y.detach().mean(0)
        if self.is_reduced:
            dist.all_reduce(mean)
            mean /= dist.get_world_size()
        self.mean.lerp_(mean, 0.1)
        self.calls += 1
        return y


def test_buffers_after_a_call_are_compared_with_the_plain_models(fx_equivalence):
    def check(is_reduced):
        build = lambda rank: nn.parallel.DistributedDataParallel(RunningMean(is_reduced))  # noqa: E731
        x = torch.linspace(-1, 2, 32).reshape(8, 4)
        fx_equivalence(RunningMean(False), x, ranks=2, build=build, batch=True, modes=("train",))

    check(is_reduced=True)
    with pytest.raises(MismatchError, match=r"buffer mean after the call \(rank 0-1\) has other values on the ranks"):
        check(is_reduced=False)


def test_a_captured_program_runs_on_as_many_ranks(fx_equivalence, fx_ranks):
    programs = fx_ranks(plans.tensor_parallel, plans.inputs(), world_size=2)
    fx_equivalence(plans.plain(), plans.inputs(), ranks=programs, timeout=200)


def test_a_number_of_ranks_needs_a_builder(fx_equivalence, net):
    with pytest.raises(ChoiceError, match=r"ranks=2 needs build=, a function that makes the model of a rank: fx_eq"):
        fx_equivalence(net, X, ranks=2)
    with pytest.raises(ChoiceError, match=r"build= makes the model of a rank; give ranks= as well"):
        fx_equivalence(net, X, build=lambda rank: net)


def test_other_weights_are_told_with_the_remedy(fx_equivalence, net):
    with pytest.raises(MismatchError, match=r"up.weight \(rank 0-1\) has other values in the ranks .*deepcopy"):
        fx_equivalence(net, X, ranks=2, build=lambda rank: Net())


def test_a_part_that_no_rank_holds_is_told(fx_equivalence, net):
    with pytest.raises(MismatchError) as caught:
        fx_equivalence(net, X, ranks=2, build=lambda rank: SplitByHand(net, 0))
    assert any(each.sentence() == "parameter up.weight (rank 0) has its elements 4 to 7 of dimension 0 on no rank"
               for each in caught.value.mismatches)  # fmt: skip


class Dropped(nn.Module):
    """Dropout between two layers, with a seed for each rank."""

    def __init__(self, net, seed=None):
        super().__init__()
        self.net = net
        self.seed = seed

    def forward(self, x):
        if self.seed is not None:
            torch.manual_seed(self.seed)
        return self.net.down(F.dropout(torch.tanh(self.net.up(x)), 0.5, self.training))


WIDE = torch.linspace(-1, 1, 128).reshape(32, 4)


@pytest.mark.sampled(every=4, start=1)
@pytest.mark.parametrize("batch", [True, False])
@pytest.mark.parametrize("own", [True, False])
def test_ranks_with_other_values_have_another_seed_and_ranks_with_equal_values_one(fx_equivalence, net, batch, own):
    ranks = {"ranks": 2, "build": lambda rank: Dropped(net, 7 + own * rank), "batch": batch}
    if batch == own:
        fx_equivalence(Dropped(net), WIDE, **ranks, modes="train")
        return
    told = "the same elements as on rank 0 of different" if batch else "other elements than on rank 0 of equal"
    with pytest.raises(MismatchError, match=rf"dropout 1 of 1 \(rank 1\) drops {told} values: give"):
        fx_equivalence(Dropped(net), WIDE, **ranks, modes="train")


def test_a_rank_that_raises_ends_the_check_with_its_name(fx_equivalence, net):
    class Fails(Net):
        def forward(self, x):
            if dist.get_rank() == 1:
                raise KeyError("no shard")
            return _Summed.apply(super().forward(x))

    with pytest.raises(RanksError, match=r"rank 1 of 2 failed in .*: KeyError: 'no shard'\nrank 0 waits in all_reduce"):
        fx_equivalence(net, X, ranks=2, build=lambda rank: Fails())


def test_a_check_that_could_not_fail_is_refused(fx_equivalence, net):
    for parameter in net.parameters():
        nn.init.zeros_(parameter)
    with pytest.raises(VacuousCheckError, match="a graph that gives zeros would pass"):
        fx_equivalence(net, X, ranks=2, build=lambda rank: net)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"world_size": 1}, "a parallel program has a whole number of ranks from 2"),
        ({"world_size": 4, "mesh": {"dp": 2}}, "a mesh of 2 has 2 ranks, and the program has 4"),
        ({"world_size": 2, "mesh": {"dp": 2}, "batch": "tp"}, "the mesh has no dimension 'tp'"),
    ],
)
def test_a_world_that_cannot_be_is_refused(options, told):
    with pytest.raises(ChoiceError, match=told):
        Ranks(abs, **options)


def test_options_of_graphs_are_refused(fx_equivalence, net):
    ranks = {"ranks": 2, "build": lambda rank: net}
    with pytest.raises(ChoiceError, match="cannot compare ranks= with search=: ranks run a program"):
        fx_equivalence(net, X, **ranks, search=3)
    with pytest.raises(ChoiceError, match=r"optimizer=.* give grads=True"):
        fx_equivalence(net, X, ranks=2, build=lambda rank: net, optimizer=torch.optim.SGD)
    with pytest.raises(ChoiceError, match="the first input has a batch of 3"):
        fx_equivalence(net, X[:3], ranks=2, build=lambda rank: net, batch=True)
    with pytest.raises(EagerError, match="the forward of the model itself raised"):
        fx_equivalence(net, X[:, :3], **ranks)


def test_the_part_of_a_rank_follows_the_dimensions_of_the_mesh():
    ranks = Ranks(abs, 8, mesh={"dp": 2, "tp": 2, "cp": 2}, batch=("dp", "cp"))
    assert [ranks.part_of(rank) for rank in range(8)] == [0, 1, 0, 1, 2, 3, 2, 3]
    assert ranks.parts == 4
    assert (Ranks(abs, 2).parts, Ranks(abs, 2).part_of(1)) == (1, 0)
    assert (Ranks(abs, 2, batch=True).parts, Ranks(abs, 2, batch=True).part_of(1)) == (2, 1)


def test_the_ranks_of_a_captured_program_are_the_ones_that_it_was_captured_for():
    request = SimpleNamespace(build=abs, world=World.of(4, {"dp": 2, "tp": 2}))
    captured = SimpleNamespace(request=request)

    assert Ranks.of(captured, None, None) == Ranks(abs, 4, {"dp": 2, "tp": 2})
    assert Ranks.of(captured, len, {"pp": 4}) == Ranks(len, 4, {"pp": 4})
    request.world = World.of(4, None)
    assert Ranks.of(captured, None, None) == Ranks(abs, 4, None)
    for ranks, build in (("two", abs), (2, None)):
        with pytest.raises(ChoiceError, match=r"needs build=, a function that makes the model of a rank"):
            Ranks.of(ranks, build, None)


# The ranks of the tests below exchange nothing, so this process plays one after the other.


@pytest.fixture
def told(fx_equivalence, monkeypatch):
    """Return a function that compares a model with ranks played by this process, and returns the sentences."""

    def run_here(function, size, *, args, timeout):
        return [function(rank, *args) for rank in range(size)]

    def check(model, inputs, build, **options):
        try:
            fx_equivalence(model, inputs, build=build, **{"ranks": 2, **options})
        except MismatchError as error:
            return [each.sentence() for each in error.mismatches]
        return []

    monkeypatch.setattr(rank_check, "run_on_ranks", run_here)
    return check


class Holding(nn.Module):
    """Returns its input twice as large, and holds some parameters."""

    def __init__(self, **parameters) -> None:
        super().__init__()
        for name, value in parameters.items():
            self.register_parameter(name, nn.Parameter(value.clone()))

    def forward(self, x):
        return x * 2


WHOLE = torch.arange(8.0).reshape(4, 2)
OTHER = "has other values in the ranks than in eager before the first call: build the ranks' model from a deepcopy"


@pytest.mark.parametrize(
    ("whole", "parts", "words"),
    [
        (WHOLE, [WHOLE, WHOLE], []),
        (WHOLE, [WHOLE[:2], WHOLE[2:]], []),
        (WHOLE, [WHOLE[2:], WHOLE[:2]], []),
        (WHOLE, [WHOLE[:, :1], WHOLE[:, 1:]], []),
        (WHOLE, [WHOLE[:3], WHOLE[3:]], []),
        (WHOLE, [WHOLE[:1], WHOLE[1:]], []),
        (WHOLE, [None, WHOLE], []),
        (torch.arange(10.0).reshape(5, 2), [torch.arange(2.0, 10.0).reshape(4, 2), torch.arange(2.0)[None]], []),
        (WHOLE * 0, [WHOLE[:2] * 0, WHOLE[2:] * 0], []),  # both parts are alike
        (WHOLE, [WHOLE[:2], WHOLE], []),
        (WHOLE, [WHOLE, WHOLE[:2]], []),
        (WHOLE[:1], [WHOLE[:1], WHOLE[:1]], []),
        (WHOLE * 0, [None, WHOLE[:2] * 0], ["w (rank 0) has its elements 2 to 3 of dimension 0 on no rank"]),
        (torch.tensor(3.0), [torch.tensor(3.0)] * 2, []),
        (WHOLE, [WHOLE[:2], WHOLE[:2]], ["w (rank 0) has its elements 2 to 3 of dimension 0 on no rank"]),
        (WHOLE, [WHOLE[:1], WHOLE[1:3]], ["w (rank 0) has its elements 3 of dimension 0 on no rank"]),
        (WHOLE, [WHOLE[:, :1], WHOLE[:, :1]], ["w (rank 0) has its elements 1 of dimension 1 on no rank"]),
        (WHOLE, [None, None], ["w (rank 0) is on no rank"]),
        (WHOLE, [WHOLE + 1, WHOLE], [f"w (rank 0) {OTHER}"]),
        (WHOLE, [WHOLE + 1, WHOLE + 2], [f"w (rank 0-1) {OTHER}"]),
        (WHOLE, [WHOLE, WHOLE.flatten()], [f"w (rank 1) {OTHER}"]),
        (WHOLE, [WHOLE, WHOLE[:2, :1]], [f"w (rank 1) {OTHER}"]),
        (WHOLE, [WHOLE, WHOLE[:0]], [f"w (rank 1) {OTHER}"]),
        (WHOLE, [WHOLE, torch.cat([WHOLE, WHOLE])], [f"w (rank 1) {OTHER}"]),
        (WHOLE, [WHOLE[:2], WHOLE[2:] + 1],
         [f"w (rank 0-1) {OTHER}"]),
        (torch.tensor(3.0), [torch.tensor(3.0), torch.tensor(4.0)], [f"w (rank 1) {OTHER}"]),
    ],
)  # fmt: skip
def test_ranks_together_hold_each_parameter(told, whole, parts, words):
    def build(rank):
        return Holding(**({} if parts[rank] is None else {"w": parts[rank]}), last=torch.ones(1))

    found = told(Holding(w=whole, last=torch.ones(1)), X, build)

    assert [sentence.partition("of the plain model")[0].strip() for sentence in found] == [
        f"parameter {each}" for each in words
    ]


class Biased(nn.Module):
    """Adds a part of a bias, from `start` on."""

    def __init__(self, start, length):
        super().__init__()
        self.start, self.bias = start, nn.Parameter(torch.zeros(length))

    def forward(self, x):
        return x + F.pad(self.bias, (self.start, 4 - self.start - len(self.bias)))


def test_parts_of_zeros_stand_one_behind_the_other(told):
    assert told(Biased(0, 4), X, lambda rank: Biased(2 * rank, 2), grads=True) == []
    assert told(Biased(0, 4), X, lambda rank: Biased(3 * rank, 3 - 2 * rank), grads=True) == []
    assert told(Biased(0, 4), X, lambda rank: Biased(2 - 2 * rank, 2), grads=True) == [
        "gradient of bias (rank 0-1) has other values on the ranks than in eager"
    ]


def test_parts_of_a_parameter_without_a_gradient_have_none(told):
    assert told(Holding(w=WHOLE), X, lambda rank: Holding(w=WHOLE[2 * rank : 2 * rank + 2]), grads=True) == []


def test_ranks_of_a_function_hold_no_parameters(told):
    assert told(lambda x: x * 2, X, lambda rank: lambda x: x * 2) == []
    assert told(Holding(w=WHOLE), X, lambda rank: lambda x: x * 2) == []


@pytest.mark.parametrize(
    ("of_rank", "words"),
    [
        (lambda rank, x: (x * 2, x.mean(), 3), []),
        (lambda rank, x: (x * 2, x.mean() + rank, 3),
         ["output[1] (rank 0-1) has other values on the ranks than in eager"]),
        (lambda rank, x: (x * (2 + rank), x.mean(), 3),
         ["output[0] (rank 1) has other values on the ranks than in eager"]),
        (lambda rank, x: (x * 2, x.mean(), 3 + rank), ["output[2] (rank 1) is 3 in eager, 4 on the ranks"]),
        (lambda rank, x: None, ["output (rank 0-1) is tuple of 3 in eager, None on the ranks"]),
    ],
)  # fmt: skip
def test_each_rank_returns_its_part_and_means_over_the_parts(told, of_rank, words):
    found = told(lambda x: (x * 2, x.mean(), 3), X + 3, lambda rank: lambda x: of_rank(rank, x), batch=True)

    assert found == words


@dataclasses.dataclass
class Record:
    values: torch.Tensor
    ones: torch.Tensor


def test_whether_an_output_requires_grad_is_not_compared(told):
    build = lambda rank: lambda x: Record(x * 2, torch.ones(4))  # noqa: E731

    assert told(lambda x: Record(x * 2, 0 * x[0] + 1), X, build, grads=True) == []


def test_a_stage_of_a_pipeline_that_is_not_the_last_returns_nothing(told):
    stages = [lambda x: None, lambda x: x * 2]

    assert told(lambda x: x * 2, X, lambda rank: stages[rank]) == []


def scaled_gradient(x, factor):
    return x * 3 + factor * (x - x.detach())


@pytest.mark.parametrize("batch", [True, False])
@pytest.mark.parametrize(
    ("factor", "words"), [(0, []), (1, ["gradient of input 0 (rank 0-1) has other values on the ranks than in eager"])]
)
def test_each_rank_has_the_gradient_of_its_part_of_an_input(told, batch, factor, words):
    build = lambda rank: lambda x: scaled_gradient(x, factor)  # noqa: E731

    assert told(lambda x: x * 3, X, build, grads=True, batch=batch) == words


def test_an_input_without_a_batch_has_a_share_of_its_gradient_on_each_rank(told):
    def double(x, scale):
        return x * scale

    assert told(double, (X, torch.tensor(3.0)), lambda rank: double, grads=True, batch=True) == []
    assert told(double, (X, torch.tensor(3.0)), lambda rank: double, grads=True) == []
    assert told(double, (torch.tensor(2.0), torch.tensor(3.0)), lambda rank: double, grads=True) == []


class Counting(nn.Module):
    """Counts calls in a buffer, beside a constant of the rank."""

    def __init__(self, step, rank=0.0):
        super().__init__()
        self.register_buffer("calls", torch.ones(1))
        self.register_buffer("rank", torch.tensor([float(rank)]))
        self.step = step

    def forward(self, x):
        self.calls += self.step
        self.rank += self.step
        return x * 2


def test_a_buffer_that_begins_as_in_eager_ends_as_in_eager(told):
    assert told(Counting(1), X, lambda rank: Counting(1, rank)) == []
    assert told(Counting(1), X, lambda rank: Counting(1 + rank, rank)) == [
        "buffer calls after the call (rank 1) has other values on the ranks than in eager"
    ]


def test_parameters_after_a_step_are_compared(told, net):
    def sgd(parameters):
        return torch.optim.SGD(parameters, lr=0.1)

    assert told(net, X, lambda rank: copy.deepcopy(net), grads=True, optimizer=sgd) == []
    rates = iter([0.1, 0.1, 0.2])  # of the plain model and of the ranks
    found = told(
        net, X, lambda rank: copy.deepcopy(net), grads=True, optimizer=lambda each: torch.optim.SGD(each, next(rates))
    )
    assert found == [
        f"parameter {name} after a step (rank 1) has other values on the ranks than in eager"
        for name in ("up.weight", "down.weight", "down.bias")
    ]


def test_gradients_of_a_model_without_any_are_refused(told):
    with pytest.raises(EagerError, match=r"cannot compare gradients .*: no output of the model requires grad"):
        told(lambda x: x.long(), X * 3, lambda rank: lambda x: x.long(), grads=True)


@pytest.mark.parametrize(
    ("own_seed", "batch", "probability", "inputs", "words"),
    [
        (False, False, 0.5, WIDE, []),
        (True, True, 0.5, WIDE, []),
        (False, True, 0.5, WIDE,
         ["drops the same elements as on rank 0 of different values: give each of these ranks a seed of its own"]),
        (True, False, 0.5, WIDE, ["drops other elements than on rank 0 of equal values: give these ranks one seed"]),
        (False, True, 0.5, WIDE[:2], []),  # chance may draw as much
        (False, True, 1.0, WIDE, []),
        (False, True, 0.0, WIDE, []),
    ],
)  # fmt: skip
def test_dropout_draws_anew_for_other_values(told, own_seed, batch, probability, inputs, words):
    class Drops(nn.Module):
        def __init__(self, seed=None):
            super().__init__()
            self.seed = seed

        def forward(self, x):
            if self.seed is not None:
                torch.manual_seed(self.seed)
            return F.dropout(x, probability, self.training) + 1

    found = told(Drops(), inputs, lambda rank: Drops(7 + own_seed * rank), batch=batch, modes=("train",))

    assert found == [f"dropout 1 of 1 (rank 1) {each}" for each in words]


def test_draws_are_compared_where_no_rank_has_a_zero(told):
    x = WIDE.clone()
    x[1], x[18] = 0, 0  # of rank 0 and of rank 1

    found = told(nn.Dropout(0.5), x, lambda rank: SeededDropout(7), batch=True, modes=("train",))

    assert [each.split(":")[0] for each in found] == [
        "dropout 1 of 1 (rank 1) drops the same elements as on rank 0 of different values"
    ]


@pytest.mark.parametrize(("rows", "count"), [(4, 0), (6, 1)])
def test_few_draws_agree_by_chance(told, rows, count):
    """16 draws agree with a chance above one in a million, and 24 with a smaller one."""
    found = told(nn.Dropout(0.5), WIDE[: 2 * rows], lambda rank: SeededDropout(7), batch=True, modes=("train",))

    assert len(found) == count


class SeededDropout(nn.Dropout):
    def __init__(self, seed):
        super().__init__(0.5)
        self.seed = seed

    def forward(self, x):
        torch.manual_seed(self.seed)
        return super().forward(x)


def test_draws_of_other_shapes_are_not_compared(told):
    class Drops(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.width = width

        def forward(self, x):
            F.dropout(x[:, : self.width], 0.5, self.training)
            return x + 1

    assert told(Drops(1), WIDE, lambda rank: Drops(1 + 2 * rank), modes="train") == []

    class DropsOtherElements(Drops):
        def forward(self, x):
            torch.manual_seed(self.width)
            return super().forward(x)

    class Wide(Drops):
        def forward(self, x):
            torch.manual_seed(7)
            F.dropout(x[:, :3], 0.5, self.training)
            return x + 1

    ranks = [DropsOtherElements(3), Drops(1), Wide(3)]
    found = told(Drops(1), WIDE, lambda rank: ranks[rank], ranks=3, modes="train")
    assert [each.split(" of equal")[0] for each in found] == [
        "dropout 1 of 1 (rank 2) drops other elements than on rank 0"
    ]


def test_without_training_no_draws_are_compared(told):
    class Drops(nn.Module):
        def forward(self, x):
            return F.dropout(x, 0.5, self.training) + 1

    assert told(Drops(), WIDE, lambda rank: Drops(), batch=True) == []


def test_a_lone_dimension_may_be_the_batch(told):
    assert told(lambda x: x * 2, WIDE[:, 0], lambda rank: lambda x: x * 2, batch=True) == []
    assert told(lambda x: x.sum(1), WIDE, lambda rank: lambda x: x.sum(1), batch=True) == []


def test_each_sample_has_values_of_its_own_and_the_first_those_of_the_test(told):
    seen = []

    def double(x):
        seen.append(x.clone())
        return x * 2

    assert told(lambda x: x * 2, WIDE, lambda rank: double, samples=2) == []
    first, second = seen[:2]  # of rank 0
    assert torch.equal(first, WIDE)
    assert not torch.equal(second, WIDE)


def test_model_and_ranks_run_in_the_mode_of_the_check(told):
    class Mode(nn.Module):
        def forward(self, x):
            return x * (2 + self.training)

    assert told(Mode(), X, lambda rank: Mode().eval()) == []
    assert told(Mode().eval(), X, lambda rank: Mode(), modes="train") == []


def test_inputs_without_a_batch_cannot_be_divided(told):
    with pytest.raises(ChoiceError, match=r"cannot give each of 2 ranks its part of the batch: no input has a batch"):
        told(lambda x: x * 2, torch.tensor(3.0), lambda rank: lambda x: x * 2, batch=True)
