"""Programs that once stopped a trace with an error that was none of fxcore's, and programs like them.

Each is traced and right on other inputs too, or it is refused by an FxError with the line of the program.
"""

from __future__ import annotations

import bisect
import collections
import concurrent.futures
import contextlib
import copy
import dataclasses
import decimal
import functools
import heapq
import io
import math
import pickle
import random
import threading
from random import random as draw
from typing import Any

import einops
import pytest
import torch
from torch import nn
from torch.nn.utils import prune

import fxcore
from fxcore.errors import FxError, TraceArgumentError, TraceError
from tests.fxcore.guided.program import EXAMPLE, SECOND, Program, Programs, check

PROGRAMS = Programs()
pytestmark = pytest.mark.filterwarnings("ignore")  # of torch, about tensors in beta state


@PROGRAMS.parametrized()
def test_a_program_is_right_on_other_inputs_or_refused_with_its_line(program):
    check(program)


@functools.partial(torch.compile, backend="eager")
def compiled(x):
    return torch.relu(x) * 2


@torch.jit.script
def scripted(x: torch.Tensor, count: int):
    return x * count


@torch.no_grad()
def without_gradient(x):
    return x * 2


@torch.inference_mode()
def in_inference(x):
    return x * 2


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, count):
        ctx.save_for_backward(x)
        return x * x * count

    @staticmethod
    def backward(ctx, gradient):
        return 2 * ctx.saved_tensors[0] * gradient, None


class SquareWithContext(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, gradient):
        return 2 * ctx.saved_tensors[0] * gradient


class OfFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, function, values):
        return function(values[0]) + values[1]


LIBRARY = torch.library.Library("every_failure", "DEF")
LIBRARY.define("twice(Tensor x) -> Tensor")
LIBRARY.impl("twice", lambda x: x * 2, "CPU")


@torch.library.custom_op("every_failure::thrice", mutates_args=())
def thrice(x: torch.Tensor) -> torch.Tensor:
    return x * 3


@torch.library.custom_op("every_failure::fill", mutates_args=("x",))
def fill(x: torch.Tensor) -> None:
    x.fill_(1.0)


@PROGRAMS.traced
def tensor_of_sums(x):
    return torch.tensor([x.sum(), x.mean()]) * 2


@PROGRAMS.traced
def tensor_of_size(x):
    return x * torch.tensor(x.shape[0])


@PROGRAMS.traced
def tensor_of_sizes(x):
    return x.sum() + torch.tensor([x.shape[0], x.shape[1]])


@PROGRAMS.traced
def tensor_of_shape(x):
    return x.sum() + torch.tensor(x.shape)


@PROGRAMS.traced
def tensor_of_items(x):
    return torch.tensor([x[0, 0].item(), x[0, 1].item()]) + x[:, :2]


@PROGRAMS.traced
def as_tensor_of_nested(x):
    return torch.as_tensor([[x.sum(), x.mean()], [x.max(), 1.0]])


@PROGRAMS.guarded
def as_tensor_of_list_of_tensors(x):
    return torch.as_tensor([r.sum() for r in x])


@PROGRAMS.refused("TypeError: object of type 'int' has no len()")
def long_tensor_of_shape(x):
    return torch.LongTensor([x.shape[0]]) + x.sum()


@PROGRAMS.traced
def nested_tensor(x):
    return torch.nested.to_padded_tensor(torch.nested.nested_tensor([x, x]), 0.0)


@PROGRAMS.traced
def nested_jagged(x):
    return torch.nested.nested_tensor([x, x], layout=torch.jagged).values() * 2


@PROGRAMS.traced
def compiled_helper(x):
    return compiled(x) + 1


@PROGRAMS.guarded
def manual_seed_from_size(x):
    g = torch.Generator().manual_seed(x.shape[0])
    return x + torch.rand(3, generator=g)


@PROGRAMS.refused("was turned into an int")
def manual_seed_from_contents(x):
    g = torch.Generator()
    g.manual_seed(int(x.sum()))
    return x + torch.rand(3, generator=g)


@PROGRAMS.traced
def sparse_coo(x):
    return torch.sparse.mm(x.to_sparse(), torch.ones(3, 2))


@PROGRAMS.traced
def sparse_made(x):
    i = torch.tensor([[0, 1], [1, 0]])
    return torch.sparse_coo_tensor(i, x[0, :2], (2, 2)).to_dense()


@PROGRAMS.traced
def sparse_csr(x):
    return (x.t() @ x).to_sparse_csr() @ torch.ones(3, 2)


@PROGRAMS.traced
def sparse_values(x):
    return x.to_sparse().coalesce().values().sum()


@PROGRAMS.traced
def scripted_helper(x):
    return scripted(x, x.shape[0]) + 1


@PROGRAMS.traced
def autograd_function(x):
    return Square.apply(x, x.shape[0])


@PROGRAMS.traced
def autograd_function_new(x):
    return SquareWithContext.apply(x) + 1


@PROGRAMS.traced
def autograd_function_of_function(x):
    return OfFunction.apply(torch.sin, [x, x])


@PROGRAMS.traced
def custom_op_without_fake(x):
    return torch.ops.every_failure.twice(x) + 1


@PROGRAMS.traced
def custom_op_def(x):
    return thrice(x) + 1


@PROGRAMS.traced
def custom_op_mutating(x):
    y = x.clone()
    fill(y)
    return y + x


@PROGRAMS.traced
def no_grad_decorated(x):
    return without_gradient(x) + 1


@PROGRAMS.traced
def inference_mode_decorated(x):
    return in_inference(x) + 1


@PROGRAMS.refused("was asked for its length")
def tolist(x):
    return x * sum(x[0].tolist())


@PROGRAMS.traced
def format_of_tensor(x):
    str(x)
    f"{x}"
    return x + 1


@PROGRAMS.refused("was asked for its length")
def len_of_set(x):
    return x * len(set(x[0].tolist()))


@PROGRAMS.traced
def deepcopy_of_value(x):
    return copy.deepcopy(x) * 2 + copy.copy(x)


@PROGRAMS.traced
def deepcopy_of_dict(x):
    d = copy.deepcopy({"a": x, "n": x.shape[0]})
    return d["a"] * d["n"]


@PROGRAMS.traced
def deepcopy_of_shape(x):
    s = copy.deepcopy(x.shape)
    return x.reshape(s[1], s[0])


@PROGRAMS.traced
def threads(x):
    out = []
    t = threading.Thread(target=lambda: out.append(x * 2))
    t.start()
    t.join()
    return out[0] + 1


@PROGRAMS.traced
def pool(x):
    with concurrent.futures.ThreadPoolExecutor(2) as p:
        return sum(p.map(lambda a: a * 2, [x, x + 1]))


@PROGRAMS.guarded
def generator_over(x):
    return sum(r * 2 for r in x)


@PROGRAMS.guarded
def iterator_next(x):
    it = iter(x)
    return next(it) + next(it)


@PROGRAMS.guarded
def zip_over(x):
    return torch.stack([a + b for a, b in zip(x, x + 1, strict=False)])


@PROGRAMS.guarded
def enumerate_over(x):
    return torch.stack([a * i for i, a in enumerate(x)])


@PROGRAMS.guarded
def map_over(x):
    return torch.stack(list(map(torch.relu, x)))


@PROGRAMS.guarded
def zip_strict(x):
    return torch.stack([a + b for a, b in zip(x.unbind(), x.chunk(x.shape[0]), strict=True)])


@PROGRAMS.refused("was asked for its truth")
def sorted_over(x):
    return torch.stack(sorted(x[0], key=lambda a: a.item()))


@PROGRAMS.guarded
def max_of_sizes(x):
    return x * max(x.shape)


@PROGRAMS.refused("the traced code catches RuntimeError: shape '[4, -1]' is invalid")
def try_around_call(x):
    try:
        y = x.view(4, -1)
    except RuntimeError:
        y = x * 2
    return y


@PROGRAMS.refused("was turned into an int")
def try_around_item(x):
    try:
        n = int(x.sum())
    except ValueError:
        n = 100
    return x * n


@PROGRAMS.refused("the traced code catches IndexError: index 3 is out of bounds")
def try_around_index(x):
    try:
        return x[3]
    except IndexError:
        return x[0]


@PROGRAMS.refused("was turned into a float")
def suppress(x):
    with contextlib.suppress(Exception):
        x = x * float(x.mean())
    return x


@PROGRAMS.traced
def complex_values(x):
    return torch.view_as_real(torch.fft.fft(torch.complex(x, x))).sum(-1)


@PROGRAMS.guarded
def complex_number(x):
    return x * complex(1, x.shape[0])


@PROGRAMS.refused("was turned into a complex number")
def complex_item(x):
    return x * complex(x.sum().item())


@PROGRAMS.traced
def quantized(x):
    return torch.quantize_per_tensor(x, 0.1, 0, torch.quint8).dequantize()


@PROGRAMS.traced
def quantized_int_repr(x):
    q = torch.quantize_per_tensor(x, 0.1, 0, torch.quint8)
    return q.int_repr() * q.q_scale()


@PROGRAMS.traced
def fake_quantize(x):
    return torch.fake_quantize_per_tensor_affine(x, 0.1, 0, 0, 255)


@PROGRAMS.guarded
def einops_rearrange(x):
    return einops.rearrange(x, "b c -> c b") + einops.reduce(x, "b c -> c ()", "sum")


@PROGRAMS.traced
def einops_repeat(x):
    return einops.repeat(x, "b c -> b c r", r=x.shape[0])


@PROGRAMS.traced
def einops_einsum(x):
    return einops.einsum(x, x, "b c, d c -> b d")


@PROGRAMS.traced
def einops_pack(x):
    p, s = einops.pack([x, x[0]], "* c")
    return einops.unpack(p, s, "* c")[1]


@PROGRAMS.guarded
def bisect_of_size(x):
    return x * bisect.bisect([1, 3, 7], x.shape[0])


@PROGRAMS.traced
def math_of_size(x):
    return x * math.sqrt(x.shape[0]) + math.prod(x.shape) + math.ceil(x.shape[0] / 2) + math.gcd(x.shape[0], 4)


@PROGRAMS.refused("tracing raised TypeError: conversion from")
def decimal_of(x):
    return x * float(decimal.Decimal(x.shape[0]))


@PROGRAMS.traced
def int_pow(x):
    return x * 2 ** x.shape[0] + pow(x.shape[0], 2, 7)


@PROGRAMS.guarded
def reduce_over(x):
    return functools.reduce(torch.add, x)


@PROGRAMS.traced
def dlpack(x):
    return torch.from_dlpack(x) * 2


@PROGRAMS.refused("tracing raised PicklingError")
def pickled(x):
    return pickle.loads(pickle.dumps(x)) * 2


@PROGRAMS.refused("tracing raised PicklingError")
def saved(x):
    b = io.BytesIO()
    torch.save(x, b)
    b.seek(0)
    return torch.load(b) * 2


@PROGRAMS.refused("was asked for its length")
def counter_of(x):
    c = collections.Counter(x[0].tolist())
    return x * len(c)


@PROGRAMS.refused("was asked for its truth")
def heapq_of(x):
    return torch.stack(heapq.nlargest(2, list(x[0])))


@PROGRAMS.traced
def imported_random(x):
    random.seed(0)
    return x + draw()


@PROGRAMS.traced
def torch_seeded(x):
    torch.manual_seed(3)
    return x + torch.rand(3)


@PROGRAMS.traced
def torch_seeded_by_size(x):
    torch.manual_seed(x.shape[0])
    return x + torch.rand(3)


@dataclasses.dataclass
class Pair:
    """An input that is a dataclass."""

    x: torch.Tensor
    count: int = 2


def reads_a_dataclass(pair):
    return pair.x * pair.count


def makes_a_dataclass(x):
    return Pair(x * 2, x.shape[0])


def replaces_in_a_dataclass(pair):
    return dataclasses.replace(pair, x=pair.x * 2).x + 1


def turns_a_dataclass_into_a_dict(pair):
    return dataclasses.asdict(pair)["x"] * 2


def writes_to_a_dataclass(pair):
    pair.x = pair.x * 2
    return pair.x + 1


class Plain:
    def __init__(self, x):
        self.x = x


def reads_an_object(given):
    return given.x * 2


for function, kind in [
    (reads_a_dataclass, Pair),
    (replaces_in_a_dataclass, Pair),
    (turns_a_dataclass_into_a_dict, Pair),
    (writes_to_a_dataclass, Pair),
    (reads_an_object, Plain),
]:
    PROGRAMS.append(Program(function, "traced", example=(kind(EXAMPLE),), second=(kind(SECOND),)))
PROGRAMS.append(Program(makes_a_dataclass, "traced"))


class Annotated(torch.Tensor):
    """A tensor that handles calls of torch, as every subclass does."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs or {})


def reads_a_subclass(x):
    return torch.relu(x) + 1


def makes_a_subclass(x):
    return x.as_subclass(Annotated) * 2


subclassed = EXAMPLE.as_subclass(Annotated), SECOND.as_subclass(Annotated)
PROGRAMS.append(Program(reads_a_subclass, "traced", example=subclassed[:1], second=subclassed[1:]))
PROGRAMS.append(Program(makes_a_subclass, "refused", "argument of type: <class 'torch._C._TensorMeta'>"))


class Wrapping:
    """Handles calls of torch, and is no tensor."""

    def __init__(self, tensor):
        self.tensor = tensor

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return cls(func(*[each.tensor if isinstance(each, cls) else each for each in args], **(kwargs or {})))


@PROGRAMS.traced
def calls_torch_with_an_object_of_its_own(x):
    return torch.add(Wrapping(x), 1).tensor


class CompiledLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.compile(nn.Linear(3, 3), backend="eager")

    def forward(self, x):
        return self.layer(x) + 1


class Scripted(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.jit.script(nn.Sequential(nn.Linear(3, 3), nn.ReLU()))

    def forward(self, x):
        return self.layer(x) * 2


class TracedByTorch(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.jit.trace(nn.Linear(3, 3), EXAMPLE)

    def forward(self, x):
        return self.layer(x) * 2


class Pruned(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)
        prune.l1_unstructured(self.layer, "weight", amount=0.5)

    def forward(self, x):
        return self.layer(x)


class Force(nn.Module):
    """The gradient of an energy, as force fields compute it."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 1)

    def energy(self, x):
        return self.layer(torch.tanh(x)).sum()

    def forward(self, x):
        x = x.detach().requires_grad_(True)
        with torch.enable_grad():
            return torch.autograd.grad(self.energy(x), x, create_graph=True)[0]


class ForceByBackward(Force):
    def forward(self, x):
        x = x.detach().requires_grad_(True)
        with torch.enable_grad():
            self.energy(x).backward()
        return x.grad * 2


for made in (CompiledLayer, Scripted, TracedByTorch, Pruned, Force, ForceByBackward):
    PROGRAMS.append(Program(made(), "traced"))


class Normalised(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x):
        return self.norm(x)


def test_an_error_of_eager_on_the_example_is_raised_as_it_is():
    with pytest.raises(ValueError, match="Expected more than 1 value per channel when training") as refusal:
        fxcore.symbolic_trace(Normalised().train(), example_inputs=torch.rand(1, 3))

    assert not isinstance(refusal.value, FxError)


def test_a_scripted_module_cannot_be_the_root_but_one_node():
    model = torch.jit.script(nn.Sequential(nn.Linear(3, 3), nn.ReLU()))

    with pytest.raises(TraceError, match="is a scripted module: it has no Python code to trace"):
        fxcore.symbolic_trace(model, example_inputs=EXAMPLE)

    graph_module = fxcore.symbolic_trace(model, example_inputs=EXAMPLE, leaf_modules="auto")
    assert torch.equal(graph_module(SECOND), model(SECOND))


def test_a_default_that_no_node_can_hold_is_refused_by_name():
    def called(x, function=torch.nn.Module.train):
        return x * 2

    with pytest.raises(TraceArgumentError, match=r"the default of parameter 'function' is no argument of a node"):
        fxcore.symbolic_trace(called, example_inputs=EXAMPLE)


def test_an_error_of_a_plain_trace_stays_as_it_was():
    def asks(x: Any):
        return x * 2 if x.sum() > 0 else x

    with pytest.raises(TraceError, match="symbolically traced variables cannot be used as inputs to control flow"):
        fxcore.symbolic_trace(asks)


@PROGRAMS.refused("module is not installed as a submodule: a Linear was called")
def makes_a_module(x):
    return nn.Linear(3, 3)(x)
