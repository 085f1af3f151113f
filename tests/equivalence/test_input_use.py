"""An input that eager depends on and the graph lost is told, and nothing else is."""

from __future__ import annotations

import dataclasses
import operator
import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import nn

import fxcore
from fixtures.transform_models import Arithmetic, ConvBnRelu, Mlp, Unused, image, matrix
from fxcore.state.snapshot import Snapshot
from pytest_fxgraph.equivalence.fixture import FxEquivalence
from pytest_fxgraph.equivalence.input_use import InputUse, inputs_used, unread_inputs
from pytest_fxgraph.equivalence.inputs import Arguments
from pytest_fxgraph.equivalence.run import RunSettings
from pytest_fxgraph.equivalence.state_changes import StateNames
from pytest_fxgraph.errors import MismatchError
from pytest_fxgraph.functions import assert_equivalent
from pytest_fxgraph.transform.fixture import FxTransform

X, MASK = matrix(), torch.ones(3, 4)


class Scripted(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.jit.trace(lambda x, mask: x * mask, (X, MASK))

    def forward(self, x, mask):
        return self.inner(x, mask)


class OwnFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, mask):
        return x * mask


class Keeping(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("kept", torch.zeros(3, 4))

    def forward(self, x, mask):
        self.kept.copy_(mask)
        self.kept.zero_()
        return x * 2


@dataclasses.dataclass
class Batch:
    scale: torch.Tensor


def into_a_part(x, mask):
    made = torch.zeros(3, 4)
    made[:, :2] = mask[:, :2]
    return x * (made + 1 - made)


def by_hand(x, mask):
    return x * torch.from_numpy(mask.detach().numpy().copy())


def into_its_argument(x, mask):
    return x.mul_(mask)


@pytest.mark.parametrize(
    ("eager", "words"),
    [
        (lambda x, mask: x * mask, "mul"),
        (lambda x, mask: x * mask.t().contiguous().t(), "t"),
        (lambda x, mask: x * int(mask.max()), "max"),
        (lambda x, mask: x * 1 if mask.all() else -x, "all"),
        (lambda x, mask: x * mask[0, 0].item(), "select"),
        (lambda x, mask: x * (len(mask) / 3), "__len__"),
        (lambda x, mask: x * (mask.shape[0] / 3), "shape"),
        (lambda x, mask: x * (mask.size(0) / 3), "size"),
        (lambda x, mask: x + torch.zeros_like(mask), "zeros_like"),
        (lambda x, mask: x * mask.tolist()[0][0], "select|unbind|tolist"),
        (lambda x, mask: (torch._assert(mask.all(), "no"), x * 1)[1], "all"),
        (lambda x, mask: OwnFunction.apply(x, mask), "mul"),
        (by_hand, "detach"),
        (into_a_part, "slice"),
        (Scripted(), "mul"),
    ],
)
def test_an_input_that_the_graph_lost_is_told(eager, words):
    assert_equivalent(eager, lambda x, mask: x * 1, (X, MASK))
    with pytest.raises(
        MismatchError, match=rf"input 1 is read by eager \(({words})\), and nothing in the graph"
    ) as caught:
        assert_equivalent(eager, lambda x, mask: x * 1, (X, MASK), strict_inputs=True)
    assert [mismatch.kind for mismatch in caught.value.mismatches] == ["input"]


@pytest.mark.parametrize("eager", [Keeping(), into_its_argument])
def test_an_input_that_is_written_to_what_was_there_before_is_read(eager):
    def graph(x, mask):
        if isinstance(eager, nn.Module):
            eager.kept.zero_()
            return x * 2
        return x.mul_(1)

    with pytest.raises(MismatchError, match="input 1 is read by eager"):
        assert_equivalent(eager, graph, (X.clone(), MASK), strict_inputs=True)


@pytest.mark.parametrize(
    "eager",
    [
        lambda x, mask: x * 2,
        lambda x, mask: (mask + 1, x * 2)[1],
        lambda x, mask: x * 2 if mask.dim() == 2 and mask.dtype.is_floating_point and mask.is_cpu else x,
        lambda x, mask: x * 2 if mask is not None else x,
    ],
    ids=["not read", "read for nothing", "asked for what a graph fixes", "asked whether it is there"],
)
def test_what_no_result_depends_on_may_be_lost(eager):
    assert_equivalent(eager, lambda x, mask: x * 2, (X, MASK), strict_inputs=True)


@pytest.mark.parametrize(
    ("function", "used"),
    [
        (lambda x, mask: mask, {"input 1": "return"}),
        (lambda x, mask: (x.is_same_size(mask), x + 1)[1], {"input 0": "is_same_size", "input 1": "is_same_size"}),
        (lambda x, mask: (mask.is_contiguous(), mask.device, x + 1)[2], {"input 0": "add"}),
        (lambda x, mask: (mask.stride(), x + 1)[1], {"input 0": "add", "input 1": "stride"}),
        (lambda x, mask: (mask.add(1).sum().item(), x + 1)[1], {"input 0": "add", "input 1": "add"}),
        (lambda x, mask: mask.new_zeros(2).add_(x.sum()), {"input 0": "sum", "input 1": "new_zeros"}),
    ],
)
def test_the_first_operator_that_read_an_input_of_the_first_call_is_noted(function, used):
    use = InputUse(nn.Module())

    output = use.call(function, (X, MASK), {})
    again = use.call(lambda x, mask: x * mask, (X, MASK), {})

    assert use.used == used
    assert output.shape in ((), (2,), X.shape)
    assert torch.equal(again, X)


def test_parts_of_an_input_are_told_apart():
    def eager(batch):
        return batch["x"] * batch["masks"][1] * batch["other"].scale

    inputs = ({"x": X, "masks": [MASK, MASK.clone()], "other": Batch(torch.ones(1))},)
    with pytest.raises(MismatchError) as caught:
        assert_equivalent(eager, lambda batch: batch["x"] * batch["masks"][0], inputs, strict_inputs=True)
    assert [mismatch.where for mismatch in caught.value.mismatches] == [
        "input 0['masks'][1]", "input 0['other'].scale"]  # fmt: skip


class Scaling(nn.Module):
    def forward(self, x: torch.Tensor, scale: float = 2.0, unused: int = 1) -> torch.Tensor:
        return x * scale


def scale_baked(gm: fxcore.GraphModule) -> fxcore.GraphModule:
    for node in gm.graph.nodes:
        if node.op == "call_function":
            node.args = (node.args[0], 2.0)
    gm.recompile()
    return gm


def test_a_number_before_inputs_of_any_number_is_told():
    def eager(scale: float, *rest: torch.Tensor) -> torch.Tensor:
        return rest[0] * scale

    graph = fxcore.symbolic_trace(lambda scale, *rest: rest[0] * 2.0)
    with pytest.raises(MismatchError) as caught:
        assert_equivalent(eager, graph, (2.0, X), strict_inputs=True)
    assert [mismatch.where for mismatch in caught.value.mismatches] == ["input 0"]

    graph = fxcore.symbolic_trace(lambda *rest: rest[1] * 2.0)
    assert_equivalent(eager, graph, (2.0, X), strict_inputs=True)  # a graph with one name for all says too little


@pytest.mark.parametrize(
    ("inputs", "kwargs", "where"),
    [((X, 2.0, 3), None, "input 1"), ((X,), {"scale": 2.0, "unused": 3}, "input scale")],
)
def test_a_number_that_the_graph_baked_is_told(inputs, kwargs, where):
    FxTransform()(scale_baked, Scaling(), inputs, kwargs=kwargs)
    with pytest.raises(MismatchError, match=f"{where} is read by eager, and nothing in the graph depends on it"):
        FxTransform()(scale_baked, Scaling(), inputs, kwargs=kwargs, strict_inputs=True)
    FxTransform()(lambda gm: gm, Scaling(), inputs, kwargs=kwargs, strict_inputs=True, allow_vacuous=True)


def test_another_mismatch_notes_the_input_that_was_lost():
    with pytest.raises(MismatchError) as caught:
        assert_equivalent(lambda x, mask: x * mask, lambda x, mask: x * 2, (X, MASK))

    assert caught.value.mismatches[0].kind == "value"
    assert "  input 1 is read by eager (mul), and nothing in the graph depends on it" in str(caught.value).splitlines()


@pytest.mark.parametrize(
    ("model", "inputs"),
    [(Arithmetic, (X, X + 1)), (ConvBnRelu, (image(),)), (Mlp, (X,)), (Unused, (X,))],
)
@pytest.mark.parametrize("grads", [False, True])
def test_right_graphs_pass(model, inputs, grads):
    torch.manual_seed(0)
    made: Any = model()

    FxEquivalence()(made, inputs, modes=("eval", "train"), grads=grads, strict_inputs=True)
    FxEquivalence(strict_inputs=True)(made, inputs)


def test_a_tensor_that_an_operator_takes_by_name_alone_is_read():
    def eager(x, order):
        return torch.searchsorted(x, torch.zeros(2), sorter=order)

    inputs = torch.tensor([-2.0, -1.0, 1.0]), torch.arange(3)
    with pytest.raises(MismatchError, match=r"input 1 is read by eager \(searchsorted\)"):
        assert_equivalent(eager, lambda x, order: torch.searchsorted(x, torch.zeros(2)), inputs, strict_inputs=True)


def called(*calls: tuple[Any, tuple[str, ...]]) -> fxcore.GraphModule:
    """Return a graph of x * 2 with further calls of functions on its inputs `x` and `scale`."""
    graph = fxcore.Graph()
    inputs = {name: graph.placeholder(name) for name in ("x", "scale")}
    for function, names in calls:
        graph.call_function(function, tuple(inputs[name] for name in names))
    graph.output(graph.call_function(torch.mul, (inputs["x"], 2.0)))
    return fxcore.GraphModule({}, graph)


@pytest.mark.parametrize(
    ("calls", "is_lost"),
    [((), True), (((operator.add, ("scale", "scale")),), True), (((torch._assert, ("scale", "x")),), False)],
    ids=["without", "in an operator without a reader", "in an operator with an effect"],
)
def test_a_number_is_lost_that_no_result_and_no_effect_of_the_graph_depends_on(calls, is_lost):
    graph = called(*calls)
    found = [each.where for each in unread_inputs(Scaling(), graph, graph, settings_of(Scaling(), X, 2.0))]

    assert found == ["input 1"] * is_lost


def settings_of(model: nn.Module, *inputs: Any) -> RunSettings:
    guard = Snapshot(model)
    return RunSettings(Arguments(inputs, {}), StateNames(guard.state_of(model)), guard, 0, False)


class Masks(nn.Module):
    def __init__(self, fails: bool) -> None:
        super().__init__()
        self.fails = fails

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        if self.fails:
            raise ValueError("no")
        return x * mask


@pytest.mark.parametrize(("eager_fails", "graph_fails"), [(True, False), (False, True)])
def test_a_run_that_fails_tells_of_no_input(eager_fails, graph_fails):
    model, graph = Masks(eager_fails), Masks(graph_fails)
    settings = settings_of(model, X, MASK)
    settings.guard.include(graph)

    assert [*unread_inputs(model, graph, graph, settings)] == []
    for each in (model, graph):
        used = inputs_used(each, each, settings)
        assert used == (None if each.fails else {"input 0": "mul", "input 1": "mul"})


@pytest.mark.slow
def test_following_inputs_does_not_import_dynamo():
    # torch wraps the methods of dispatch modes in one that does, which takes longer than the check.
    program = (
        "import sys, torch\n"
        "from pytest_fxgraph import assert_equivalent\n"
        "try:\n"
        "    assert_equivalent(torch.sin, lambda x: torch.cos(x), torch.rand(3))\n"
        "except AssertionError as error:\n"
        "    print('differ' in str(error), 'torch._dynamo' in sys.modules)\n"
    )

    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert run.stdout.split() == ["True", "False"]
