"""Programs that mix higher-order operators with layers, sizes, closures and gradients.

The reference is the same program with operators in plain Python: `if`, `while`, `for`.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as map_rows
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.func import grad, hessian, jacrev, jvp, vjp, vmap
from torch.nn import functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.utils import _pytree as pytree
from torch.utils.checkpoint import checkpoint

import fxcore

IS_RECENT = torch.torch_version.TorchVersion(torch.__version__) >= "2.13"


class Operators:
    """torch's operators, or the same in plain Python."""

    cond, while_loop, scan, map_rows = map(staticmethod, (torch.cond, while_loop, scan, map_rows))
    associative_scan = staticmethod(associative_scan)


class Python:
    @staticmethod
    def cond(pred, true_fn, false_fn, operands=()):
        return (true_fn if pred else false_fn)(*operands)

    @staticmethod
    def while_loop(cond_fn, body_fn, carried):
        while cond_fn(*carried):
            carried = body_fn(*carried)
        return carried

    @staticmethod
    def scan(combine_fn, init, xs, *, dim=0, reverse=False):
        count, rows = pytree.tree_leaves(xs)[0].shape[dim], []
        for index in reversed(range(count)) if reverse else range(count):
            init, row = combine_fn(init, pytree.tree_map(lambda each, index=index: each.select(dim, index), xs))
            rows.append(row)
        rows = rows[::-1] if reverse else rows
        return init, pytree.tree_map(lambda *each: torch.stack(each, dim if each[0].dim() >= dim else 0), *rows)

    @staticmethod
    def map_rows(function, xs, *args):
        count = pytree.tree_leaves(xs)[0].shape[0]
        rows = [function(pytree.tree_map(lambda each, index=index: each[index], xs), *args) for index in range(count)]
        return pytree.tree_map(lambda *each: torch.stack(each), *rows)

    @staticmethod
    def associative_scan(combine_fn, xs, dim, reverse=False, combine_mode="generic"):
        count = pytree.tree_leaves(xs)[0].shape[dim]
        parts = [pytree.tree_map(lambda each, index=index: each.select(dim, index), xs) for index in range(count)]
        parts = parts[::-1] if reverse else parts
        for index in range(1, count):
            parts[index] = combine_fn(parts[index - 1], parts[index])
        parts = parts[::-1] if reverse else parts
        return pytree.tree_map(lambda *each: torch.stack(each, dim), *parts)


@dataclass(frozen=True)
class Program:
    run: Callable[..., Any]
    inputs: list[tuple[torch.Tensor, ...]]  # the example first
    has_gradients: bool


PROGRAMS: dict[str, Program] = {}


def program(*inputs, gradients=True):
    """Add a program. torch has no gradients of some operators."""

    def add(function):
        PROGRAMS[function.__name__] = Program(function, [*inputs], gradients)
        return function

    return add


class Model(nn.Module):
    def __init__(self, run):
        super().__init__()
        self.run, self.operators = run, Operators
        self.up, self.down, self.norm = nn.Linear(4, 4), nn.Linear(4, 4), nn.LayerNorm(4)
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.recurrent = nn.GRU(4, 4, batch_first=True)
        self.table, self.sliding = nn.Embedding(10, 4), nn.Conv1d(4, 4, 3, padding=1)
        self.register_buffer("weights", torch.rand(4))
        self.plain = torch.rand(4)

    def forward(self, *inputs):
        return self.run(self, self.operators, *inputs)

    def hot(self, x, y):
        return self.up(x) + y

    def cold(self, x, y):
        return self.down(y) - x


torch.manual_seed(0)
x, long, deep = torch.rand(3, 4), torch.rand(6, 4), torch.rand(2, 3, 4)
one_input, deep_inputs = [(x,), (-x,), (long,)], [(deep,), (-deep,), (torch.rand(4, 5, 4),)]


@program(*one_input)
def layer_norm_in_a_branch(self, ops, x):
    return ops.cond(x.mean() > 0.1, lambda x: self.norm(self.up(x)), lambda x: F.gelu(self.down(x)) * x.size(-1), (x,))


@program(*one_input)
def branches_in_a_row(self, ops, x):
    for step in range(3):
        x = ops.cond(x.sum() > step, lambda x: self.up(x) + step, lambda x: self.down(x) - step, (x,))  # noqa: B023
    return x


@program(*deep_inputs)
def attention_in_a_branch(self, ops, x):
    return ops.cond(x.sum() > 0, lambda x: self.attention(x, x, x)[0], lambda x: self.up(x), (x,))


@program(*deep_inputs, gradients=False)
def recurrence_in_a_branch(self, ops, x):
    return ops.cond(x.sum() > 0, lambda x: self.recurrent(x)[0], lambda x: self.up(x), (x,))


@program(*one_input)
def plain_tensors_of_the_model(self, ops, x):
    return ops.cond(x.sum() > 0, lambda x: x * self.plain + self.weights, lambda x: x - self.plain, (x,))


@program((torch.tensor([[1, 2], [3, 4]]),), (torch.tensor([[9, 9, 9]]),), gradients=IS_RECENT)
def embeddings(self, ops, index):
    return ops.cond(index.sum() > 15, lambda i: self.table(i) * 2, lambda i: self.table(i).sin(), (index,))


@program(*one_input)
def constants_made_in_a_branch(self, ops, x):
    return ops.cond(
        x.sum() > 0, lambda x: x + torch.arange(4) * torch.tensor(2.0), lambda x: x * torch.ones(x.shape[0], 1), (x,)
    )


@program(*one_input)
def views(self, ops, x):
    halves = x.view(-1, 2, 2)
    return ops.cond(
        halves.sum() > 0,
        lambda h: h.transpose(1, 2).reshape(h.shape[0], 4) + 1,
        lambda h: h.flatten(1) * 2,
        (halves,),
    )


@program(*one_input)
def containers_from_outside(self, ops, x):
    parts, named = x.split(2, -1), {"k": x * 2, "l": [x, x + 1]}
    return ops.cond(
        x.sum() > 0,
        lambda x: torch.cat(parts[::-1], -1) + named["k"],
        lambda x: parts[0].sum() + named["l"][1] * len(parts),
        (x,),
    )


@program(*one_input)
def numbers_from_outside(self, ops, x):
    scale, half, dtype = x.shape[-1] ** -0.5, x.shape[0] // 2, x.dtype
    return ops.cond(
        x.sum() > 0, lambda x: (x * scale)[:half].to(dtype).sum(0), lambda x: torch.ones(4, dtype=dtype) * half, (x,)
    )


@program(*one_input)
def methods_as_branches(self, ops, x):
    return ops.cond(x.sum() > 0, self.hot, self.cold, (x, x * 2))


@program(*one_input)
def no_operands(self, ops, x):
    y = self.up(x)
    return ops.cond(x.sum() > 0, lambda: y * 2, lambda: y.sin())


@program((x, torch.tensor(True)), (x, torch.tensor(False)))
def condition_as_input(self, ops, x, chosen):
    return ops.cond(chosen, lambda x: self.up(x), lambda x: self.down(x), (x,))


@program(*one_input)
def condition_on_a_size_and_contents(self, ops, x):
    y = ops.cond(x.shape[0] > 4, lambda x: self.up(x), lambda x: self.down(x), (x,))
    return ops.cond((y.sum() > 0) & (y.max() < 2), lambda y: y + x, lambda y: y * x, (y,))


@program((x,), (long,), gradients=False)
def loop_with_a_buffer(self, ops, x):
    steps, y = ops.while_loop(
        lambda i, y: (i < 4) & (y.abs().max() < 50), lambda i, y: (i + 1, y + self.weights * i), (torch.tensor(0), x)
    )
    return y * steps


@program((x,), (long,), gradients=IS_RECENT)
def loop_with_layers(self, ops, x):
    return ops.while_loop(lambda i, y: i < 2, lambda i, y: (i + 1, self.norm(self.up(y))), (torch.tensor(0), x))[1]


@program(*deep_inputs, gradients=IS_RECENT)
def scan_over_the_second_dimension(self, ops, x):
    return ops.scan(lambda c, row: ((c + self.up(row)).tanh(), c * 2), x[:, 0] * 0, x, dim=1)


@program(*deep_inputs, gradients=IS_RECENT)
def scan_of_trees_from_the_end(self, ops, x):
    def step(carry, rows):
        return {"h": carry["h"] * 0.5 + rows["u"]}, (carry["h"] + rows["v"] * self.weights,)

    carry, rows = ops.scan(step, {"h": x[0] * 0}, {"u": x, "v": x * 2}, reverse=True)
    return carry["h"], rows[0]


@program(*deep_inputs)
def branch_in_a_map(self, ops, x):
    return ops.map_rows(lambda row: ops.cond(row.sum() > 5, lambda r: self.up(r), lambda r: self.down(r), (row,)), x)


@program(*deep_inputs)
def associative_scan_of_trees(self, ops, x):
    def combine(a, b):
        return {"h": a["h"] * b["g"] + b["h"], "g": a["g"] * b["g"]}

    return ops.associative_scan(combine, {"h": self.up(x), "g": x.sigmoid()}, 1, combine_mode="generic")["h"]


@program(*deep_inputs)
def associative_scan_from_the_end(self, ops, x):
    return ops.associative_scan(torch.maximum, self.up(x), 2, reverse=True, combine_mode="generic")


@program(*one_input)
def checkpoint_in_a_checkpoint(self, ops, x):
    def block(y):
        return checkpoint(self.up, y.relu(), use_reentrant=False) + self.norm(y)

    return checkpoint(block, x, use_reentrant=False)


@program(*one_input)
def branch_in_a_checkpoint(self, ops, x):
    return checkpoint(lambda y: ops.cond(y.sum() > 0, self.up, self.down, (y,)), x * 1, use_reentrant=False)


@program(*one_input)
def map_in_a_map(self, ops, x):
    return vmap(lambda row: vmap(lambda each: each * row.sum() + self.weights[0])(row))(x)


@program(*one_input)
def a_step_of_learning(self, ops, x):
    parameters = dict(self.up.named_parameters())

    def loss(parameters):
        return F.linear(x, parameters["weight"], parameters["bias"]).pow(2).mean()

    gradients = grad(loss)(parameters)
    learned = {name: value - 0.1 * gradients[name] for name, value in parameters.items()}
    return F.linear(x, learned["weight"], learned["bias"])


@program(*one_input)
def gradients_per_sample(self, ops, x):
    return vmap(grad(lambda weight, row: F.linear(row, weight).sin().sum()), in_dims=(None, 0))(self.up.weight, x)


@program(*one_input)
def pushed_forward_per_sample(self, ops, x):
    return vmap(lambda row: jvp(lambda z: self.up(z).tanh(), (row,), (torch.ones_like(row),))[1])(x)


@program(*one_input)
def pulled_back_per_sample(self, ops, x):
    return vmap(lambda row: vjp(lambda z: self.up(z).tanh(), row)[1](torch.ones_like(row))[0])(x)


@program(*deep_inputs)
def layers_in_a_map(self, ops, x):
    return vmap(lambda rows: self.norm(self.sliding(rows.t().unsqueeze(0)).squeeze(0).t()))(x)


@program(*deep_inputs)
def map_over_the_second_dimension(self, ops, x):
    return vmap(vmap(lambda row: torch.softmax(self.up(row), -1)), in_dims=1, out_dims=1)(x)


@program(*one_input)
def gradient_of_a_choice(self, ops, x):
    return grad(lambda y: torch.where(y.sum() > 0, self.up(y).sum(), self.down(y).sum()))(x)


@program(*one_input, gradients=IS_RECENT)
def everything_at_once(self, ops, x):
    y = ops.cond(x.shape[0] > 4, lambda x: self.up(x), lambda x: self.down(x), (x,))
    carry, rows = ops.scan(lambda c, row: (c + row * self.weights, row * c), y[0] * 0, y)
    curvature = vmap(lambda row: hessian(lambda z: (self.up(z) ** 2).sum())(row).sum(-1))(rows)
    return curvature + carry + vmap(jacrev(lambda row: self.down(row).tanh()))(rows).sum(-1)


@program((torch.rand(1, 2, 16, 4),), (-torch.rand(3, 2, 8, 4),), gradients=False)
def attention_by_scores_in_a_branch(self, ops, q):
    return ops.cond(
        q.sum() > 1,
        lambda q: flex_attention(q, q, q, score_mod=lambda score, b, h, i, j: score + self.weights[h] * (i - j)),
        lambda q: q * 2,
        (q,),
    )


@program((torch.rand(1, 4, 16, 4),), (torch.rand(3, 4, 24, 4),), gradients=False)
def attention_by_groups_with_a_window(self, ops, q):
    size, keys = q.shape[2], q[:, :2]
    mask = create_block_mask(
        lambda b, h, i, j: (i - j).abs() < size // 2, None, None, size, size, device="cpu", BLOCK_SIZE=8
    )
    return flex_attention(q, keys, keys, block_mask=mask, enable_gqa=True)


def gradients(run, state, inputs):
    inputs = [each.detach().clone().requires_grad_(each.is_floating_point()) for each in inputs]
    state = [*state, *[each for each in inputs if each.requires_grad]]
    results = [each.sum() for each in pytree.tree_leaves(run(*inputs)) if each.requires_grad]
    found = torch.autograd.grad(sum(results), state, allow_unused=True) if results else [None] * len(state)
    return [torch.zeros_like(value) if each is None else each for value, each in zip(state, found, strict=True)]


# torch makes graphs of gradients at each call, so these take 2 to 9 seconds each.
LONG = {
    *("scan_over_the_second_dimension", "everything_at_once", "branch_in_a_map", "attention_by_groups_with_a_window"),
    *("attention_by_scores_in_a_branch", "branches_in_a_row", "methods_as_branches", "branch_in_a_checkpoint"),
}


SLOW = {"attention_in_a_branch", "condition_on_a_size_and_contents", "layer_norm_in_a_branch"}


def marks_of(name):
    return [pytest.mark.long] if name in LONG else [pytest.mark.slow] if name in SLOW else []


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("name", [pytest.param(name, marks=marks_of(name)) for name in PROGRAMS])
def test_the_graph_computes_as_plain_python_does(name):
    torch.manual_seed(0)
    each = PROGRAMS[name]
    model = Model(each.run).requires_grad_(each.has_gradients)
    plain = copy.copy(model)
    plain.operators = Python

    graph_module = fxcore.symbolic_trace(model, example_inputs=each.inputs[0])

    graph_module.graph.lint()
    runs = (graph_module, fxcore.Interpreter(graph_module).run, pickle.loads(pickle.dumps(graph_module)))
    for inputs in each.inputs:
        expected = plain(*inputs)
        for run in runs:
            torch.testing.assert_close(run(*inputs), expected)
        if each.has_gradients:
            state = list(model.parameters())
            wanted = gradients(plain, state, inputs)
            torch.testing.assert_close(gradients(graph_module, state, inputs), wanted, rtol=1e-4, atol=1e-5)
