"""Higher-order operators as nodes. Plain Python that computes the same is the reference, since eager torch compiles."""

from __future__ import annotations

import copy
import pickle
import random
import subprocess
import sys

import pytest
import torch
from torch import nn
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as map_rows
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.utils import checkpoint as checkpoints
from torch.utils.checkpoint import checkpoint

import fxcore
from fxcore import interop
from fxcore.errors import GuardError, TraceError
from fxcore.guided import transforms
from fxcore.guided.higher_order import _takes_operands, operators_called_in_python

switch = getattr(torch._higher_order_ops, "switch", None)
HIGHER_ORDER = torch.ops.higher_order
IS_RECENT = _takes_operands()  # torch 2.6 has gradients of cond and map alone


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down, self.drop = nn.Linear(4, 4), nn.Linear(4, 4), nn.Dropout(0.5)
        self.register_buffer("limit", torch.zeros(()))


def targets(graph_module):
    return [node.target for node in graph_module.graph.nodes if node.op == "call_function"]


def gradients(run, model, inputs):
    inputs = [each.detach().clone().requires_grad_(each.is_floating_point()) for each in inputs]
    state = [*model.parameters(), *[each for each in inputs if each.requires_grad]]
    result = run(*inputs)
    results = result if isinstance(result, (tuple, list)) else [result]
    found = torch.autograd.grad(sum(each.sum() for each in results), state, allow_unused=True)
    # torch gives zeros for an operand that a branch does not use.
    return [torch.zeros_like(value) if grad is None else grad for value, grad in zip(state, found, strict=True)]


def assert_computes(model, reference, example, *others, with_gradients=True):
    """Trace `model`, and hold every way to run its graph to `reference(model, ...)` on the example and other inputs."""
    graph_module = fxcore.symbolic_trace(model, example_inputs=example)
    graph_module.graph.lint()
    loaded = pickle.loads(pickle.dumps(graph_module))
    for inputs in (example, *others):
        expected = reference(model, *inputs)
        for run in (graph_module, fxcore.Interpreter(graph_module).run, copy.deepcopy(graph_module), loaded):
            torch.testing.assert_close(run(*inputs), expected)
        for nested in (False, True):
            torch.testing.assert_close(interop.to_torch(graph_module, nested=nested)(*inputs), expected)
        if with_gradients:
            wanted = gradients(lambda *given: reference(model, *given), model, inputs)
            torch.testing.assert_close(gradients(graph_module, model, inputs), wanted)
    return graph_module


# cond


class OneBranch(Layers):
    def forward(self, x):
        return torch.cond(x.sum() > self.limit, lambda x: self.up(x).sin(), lambda x: self.down(x) * x.shape[0], (x,))

    def reference(self, x):
        return self.up(x).sin() if x.sum() > self.limit else self.down(x) * x.shape[0]


def test_cond_is_one_node_and_its_branches_are_inner_graphs():
    x = torch.rand(3, 4)

    graph_module = assert_computes(OneBranch(), OneBranch.reference, (x,), (-x,), (-torch.rand(5, 4),))

    node = graph_module.graph.find_nodes(op="call_function", target=HIGHER_ORDER.cond)[0]
    assert [str(each) for each in node.args[1:3]] == ["true_graph_0", "false_graph_0"]
    operands = ["x", "up_weight", "up_bias", "down_weight", "down_bias"]
    assert [str(each) for each in node.args[3]] == operands
    for branch in (graph_module.true_graph_0, graph_module.false_graph_0):
        assert isinstance(branch, fxcore.GraphModule)
        assert [each.target for each in branch.graph.find_nodes(op="placeholder")] == operands
    assert "linear.sin()" in graph_module.true_graph_0.code
    assert not graph_module.graph.guards


def test_parameters_of_branches_stay_parameters_of_the_model():
    model = OneBranch()

    graph_module = fxcore.symbolic_trace(model, example_inputs=torch.rand(3, 4))
    with torch.no_grad():
        model.up.weight.zero_()

    assert list(graph_module.state_dict()) == list(model.state_dict())
    torch.testing.assert_close(graph_module(torch.rand(2, 4)), model.up.bias.sin().expand(2, 4))


class Nested(Layers):
    def forward(self, x, given):
        y, rows = x.sin(), x.shape[0]

        def positive(tree):
            z = tree["a"] * y

            def inner(tree):
                w = z + tree["a"]
                return torch.cond(
                    w.sum() > 1,
                    lambda a, b: {"r": (self.up(a) * w + rows, b + 1)},
                    lambda a, b: {"r": (self.down(a) * z * y.shape[-1] ** -0.5, b * rows)},
                    (tree["a"], tree["b"][0]),
                )

            found = torch.cond(z.sum() > 0, inner, lambda tree: {"r": (tree["a"] * 2, tree["b"][0] * 3)}, (tree,))
            return found["r"][0], found["r"][1]

        tree = {"a": x, "b": [x * 2]}
        return torch.cond(x.sum() > given, positive, lambda tree: (tree["a"] + 0, tree["b"][0] * 4), (tree,))

    def reference(self, x, given):
        y, rows, b = x.sin(), x.shape[0], x * 2
        if not x.sum() > given:
            return x + 0, b * 4
        z = x * y
        if not z.sum() > 0:
            return x * 2, b * 3
        w = z + x
        return (self.up(x) * w + rows, b + 1) if w.sum() > 1 else (self.down(x) * z * 4**-0.5, b * rows)


@pytest.mark.slow
def test_closures_over_several_levels_become_operands_of_each():
    low, high, x = torch.tensor(-100.0), torch.tensor(100.0), torch.rand(3, 4)

    model = Nested().requires_grad_(IS_RECENT)  # torch 2.6 has no gradients of nested branches

    graph_module = assert_computes(
        model, Nested.reference, (x, low), (x, high), (0.01 * x, low), (x[:2], low), with_gradients=IS_RECENT
    )

    names = [name for name, module in graph_module.named_modules() if isinstance(module, fxcore.GraphModule)]
    assert names == [
        *("", "true_graph_0", "true_graph_0.true_graph_0", "true_graph_0.true_graph_0.true_graph_0"),
        *("true_graph_0.true_graph_0.false_graph_0", "true_graph_0.false_graph_0", "false_graph_0"),
    ]


class LayersAsBranches(Layers):
    def forward(self, x):
        return torch.cond(x.sum() > 0, self.up, self.down, (x,))


def test_layers_are_branches():
    x = torch.rand(3, 4)

    assert_computes(LayersAsBranches(), lambda model, x: model.up(x) if x.sum() > 0 else model.down(x), (x,), (-x,))


def test_a_condition_on_a_size_leaves_the_size_free():
    class Sized(Layers):
        def forward(self, x):
            return torch.cond(x.shape[0] > 3, self.up, self.down, (x,))

    graph_module = assert_computes(
        Sized(),
        lambda model, x: model.up(x) if x.shape[0] > 3 else model.down(x),
        (torch.rand(3, 4),),
        (torch.rand(5, 4),),
    )

    assert not graph_module.graph.guards


def test_branches_for_sizes_that_do_not_fit_together_are_chosen_by_a_guard():
    class Sized(Layers):
        def forward(self, x):
            return torch.cond(x.shape[0] > 3, lambda x: self.up(x), lambda x: self.down(x).sum(0), (x,))

    model, x = Sized(), torch.rand(3, 4)

    graph_module = fxcore.symbolic_trace(model, example_inputs=x)

    assert [str(guard) for guard in graph_module.graph.guards] == ["x.shape[0] <= 3"]
    torch.testing.assert_close(graph_module(x), model.down(x).sum(0))
    with pytest.raises(GuardError, match=r"x.shape\[0\] <= 3"):
        graph_module.check_guards(torch.rand(5, 4))


def test_a_known_condition_takes_its_branch():
    class Known(Layers):
        def forward(self, x):
            return torch.cond(self.training, lambda x: self.up(x), lambda x: self.down(x), (x,))

    graph_module = fxcore.symbolic_trace(Known(), example_inputs=torch.rand(3, 4))

    assert HIGHER_ORDER.cond not in targets(graph_module)
    assert [node.target for node in graph_module.graph.find_nodes(op="call_module", target="up")] == ["up"]


def test_a_size_that_the_condition_decides_about_is_no_constant():
    def halved(x):
        y = torch.cond(x.sum() > 0, lambda x: x[:2].clone(), lambda x: x.clone(), (x,))
        return y * y.shape[0]

    graph_module = fxcore.symbolic_trace(halved, example_inputs=torch.rand(3, 4))

    x = -torch.rand(3, 4)
    torch.testing.assert_close(graph_module(x), x * 3)
    with pytest.raises(TraceError, match=r"was used as an index.*\n?.*contents of a tensor|contents of a tensor"):
        fxcore.symbolic_trace(lambda x: list(range(halved(x).shape[0])), example_inputs=torch.rand(3, 4))


def test_a_guard_of_a_branch_is_a_guard_of_the_graph():
    def branch(x):
        return x * 2 if x.shape[0] % 2 == 1 else x * 3

    graph_module = fxcore.symbolic_trace(
        lambda x: torch.cond(x.sum() > 0, branch, lambda x: x + 1, (x,)), example_inputs=torch.rand(3, 4)
    )

    assert [str(guard) for guard in graph_module.graph.guards] == ["(x.shape[0] % 2) == 1"]
    graph_module.check_guards(torch.rand(5, 4))
    with pytest.raises(GuardError):
        graph_module.check_guards(torch.rand(4, 4))
    assert "%" not in graph_module.code


def test_a_guard_on_the_result_of_a_nested_operator_is_computed_from_the_inputs():
    def inner(x):
        y = torch.cond(x.max() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))
        return y * 2 if y.shape[0] > 2 else y

    graph_module = fxcore.symbolic_trace(
        lambda x: torch.cond(x.sum() > 0, inner, lambda x: x + 1, (x,)), example_inputs=torch.rand(3, 4)
    )

    assert targets(graph_module).count(HIGHER_ORDER.cond) == 1  # the guard's own is not in the graph
    graph_module.check_guards(torch.rand(5, 4))
    with pytest.raises(GuardError):
        graph_module.check_guards(torch.rand(2, 4))


@pytest.mark.slow
def test_modes_inside_of_a_branch_stay_there():
    class Stopped(Layers):
        def forward(self, x):
            def branch(x):
                with torch.no_grad():
                    y = self.up(x)
                return y + self.down(x)

            return torch.cond(x.sum() > 0, branch, lambda x: self.down(x) * 2, (x,))

    def reference(model, x):
        return model.up(x).detach() + model.down(x) if x.sum() > 0 else model.down(x) * 2

    x = torch.rand(3, 4)
    assert_computes(Stopped(), reference, (x,), (-x,))


def test_a_layer_without_state_stays_one_call_in_a_branch():
    class Dropped(Layers):
        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda x: self.drop(self.up(x)), lambda x: self.down(x), (x,))

    graph_module = fxcore.symbolic_trace(Dropped(), example_inputs=torch.rand(3, 4))

    assert [node.target for node in graph_module.true_graph_0.graph.find_nodes(op="call_module", target="drop")]
    x = torch.rand(3, 4)
    assert not torch.equal(graph_module(x), graph_module(x))


def test_an_operator_called_directly_is_recorded_too():
    graph_module = fxcore.symbolic_trace(
        lambda x: HIGHER_ORDER.cond(x.sum() > 0, lambda x: (x * 2,), lambda x: (x * 3,), (x,))[0],
        example_inputs=torch.rand(3),
    )

    torch.testing.assert_close(graph_module(-torch.ones(3)), -3 * torch.ones(3))


def test_a_model_without_memory_is_traced():
    model = Nested().to("meta")

    graph_module = fxcore.symbolic_trace(
        model, example_inputs=(torch.rand(3, 4, device="meta"), torch.zeros((), device="meta"))
    )

    assert HIGHER_ORDER.cond in targets(graph_module)


def test_the_cure_that_the_message_of_a_branch_names_works():
    with pytest.raises(TraceError, match=r"torch\.cond"):
        fxcore.symbolic_trace(lambda x: x * 2 if x.sum() > 0 else x, example_inputs=torch.rand(3))

    graph_module = fxcore.symbolic_trace(
        lambda x: torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x.clone(), (x,)), example_inputs=torch.rand(3)
    )

    torch.testing.assert_close(graph_module(-torch.ones(3)), -torch.ones(3))


# Refusals


@pytest.mark.parametrize(
    ("true_fn", "false_fn", "words"),
    [
        (lambda x: x.mul_(2), lambda x: x + 1, r"becomes 'true_graph' writes 'x' in place.*\n.*write into a clone\(\)"),
        (lambda x: x.int(), lambda x: x + 1, r"torch.int32 of 2 dimensions\) and \(torch.float32 of 2 dimensions"),
        (lambda x: x.sum(), lambda x: x + 1, r"of 0 dimensions\) and \(torch.float32 of 2 dimensions\) differ"),
        (lambda x: (x + 1,), lambda x: [x + 1], r"return different structures"),
        (lambda x: (x, 3), lambda x: (x, 4), r"of 2 dimensions, 3\) and \(torch.float32 of 2 dimensions, 4\) differ"),
        (lambda x: x if x.max() > 2 else x * 2, lambda x: x + 1, r"follows from the contents of a tensor"),
        (lambda x: x + 1, lambda x: x[7], r"branch of torch.cond that the example does not take fails.*\nIndexError"),
    ],
    ids=["write", "dtype", "dimensions", "structure", "number", "contents", "failure"],
)
def test_branches_that_an_operator_cannot_run_are_refused_with_their_line(true_fn, false_fn, words):
    with pytest.raises(TraceError, match=words) as caught:
        fxcore.symbolic_trace(
            lambda x: torch.cond(x.sum() > 0, true_fn, false_fn, (x,)), example_inputs=torch.rand(3, 4)
        )

    assert "test_higher_order.py" in str(caught.value)


def test_a_value_of_a_branch_that_is_used_outside_is_refused():
    def leaking(x):
        kept = []

        def branch(x):
            kept.append(x.sin())
            return x * 2

        return torch.cond(x.sum() > 0, branch, lambda x: x + 1, (x,)) + kept[0]

    with pytest.raises(TraceError, match="'sin' was made in a function that a higher-order operator calls"):
        fxcore.symbolic_trace(leaking, example_inputs=torch.rand(3))


def test_a_buffer_that_a_branch_writes_is_refused_and_stays():
    class Counting(Layers):
        def forward(self, x):
            def branch(x):
                self.limit.add_(1)
                return x * 2

            return torch.cond(x.sum() > 0, branch, lambda x: x + 1, (x,))

    model = Counting()

    with pytest.raises(TraceError, match="writes 'limit' in place"):
        fxcore.symbolic_trace(model, example_inputs=torch.rand(3))

    assert model.limit == 0


def test_a_leaf_with_parameters_in_a_branch_is_refused():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x):
            return self.layer(x)

    class Holder(nn.Module):
        def __init__(self):
            super().__init__()
            self.block = Block()

        def forward(self, x):
            return torch.cond(x.sum() > 0, self.block, lambda x: x + 1, (x,))

    x = torch.rand(3, 4)
    with pytest.raises(TraceError, match=r"the module 'block' is a leaf.*\n.*Leave it out of leaf_modules"):
        fxcore.symbolic_trace(Holder(), example_inputs=x, leaf_modules=[Block])

    branch = fxcore.symbolic_trace(Holder(), example_inputs=x).true_graph_0
    names = [node.name for node in branch.graph.nodes]
    assert names == ["x", "block_layer_weight", "block_layer_bias", "linear", "output"]


# Loops


def test_while_loop_is_one_node():
    def doubled(x):
        return while_loop(lambda i, y: i < x.shape[0], lambda i, y: (i + 1, y * 2 + x), (torch.tensor(0), x))

    def reference(_, x):
        y = x
        for _ in range(x.shape[0]):
            y = y * 2 + x
        return torch.tensor(x.shape[0]), y

    graph_module = assert_computes(doubled, reference, (torch.rand(3, 4),), (torch.rand(2, 4),), with_gradients=False)

    assert targets(graph_module).count(HIGHER_ORDER.while_loop) == 1
    assert not graph_module.graph.guards
    assert "while_loop_cond_graph_0, while_loop_body_graph_0, (" in graph_module.code


@pytest.mark.skipif(not IS_RECENT, reason="torch 2.6 has no gradients of while_loop")
def test_gradients_go_through_a_loop_to_the_layer_in_it():
    class Repeated(Layers):
        def forward(self, x):
            return while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, self.up(y).tanh()), (torch.tensor(0), x))[1]

    def reference(model, x):
        for _ in range(3):
            x = model.up(x).tanh()
        return x

    assert_computes(Repeated(), reference, (torch.rand(3, 4),), (torch.rand(5, 4),))


def test_the_number_of_steps_is_no_constant():
    def counted(x):
        steps, y = while_loop(lambda i, y: y.sum() < 100, lambda i, y: (i + 1, y * 2), (torch.tensor(0), x))
        return y + 1 if steps > 3 else y

    with pytest.raises(TraceError, match="contents of a tensor"):
        fxcore.symbolic_trace(counted, example_inputs=torch.ones(3))


def test_a_loop_that_changes_the_shape_is_refused():
    with pytest.raises(TraceError, match=r"while_loop needs results of one kind.*\[3\]\) and .*\[6\]\) differ"):
        fxcore.symbolic_trace(
            lambda x: while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, torch.cat([y, y])), (torch.tensor(0), x)),
            example_inputs=torch.rand(3),
        )


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.Linear(8, 4)

    def step(self, carry, row):
        return torch.tanh(self.cell(torch.cat([carry, row], -1)))

    def forward(self, x):
        def combine(carry, row):
            made = self.step(carry, row)
            return made, made * x.shape[0]

        return scan(combine, x.new_zeros(x.shape[1], 4), x)

    def reference(self, x):
        carry, rows = x.new_zeros(x.shape[1], 4), []
        for row in x:
            carry = self.step(carry, row)
            rows.append(carry * x.shape[0])
        return carry, torch.stack(rows)


@pytest.mark.slow
def test_scan_keeps_the_layer_and_the_length():
    x = torch.rand(5, 3, 4)

    graph_module = assert_computes(
        Recurrent().requires_grad_(IS_RECENT),
        Recurrent.reference,
        (x,),
        (torch.rand(7, 2, 4),),
        with_gradients=IS_RECENT,
    )

    node = graph_module.graph.find_nodes(op="call_function", target=HIGHER_ORDER.scan)[0]
    assert str(node.args[0]) == "scan_combine_graph_0"


def test_map_passes_parameters_and_arguments():
    class Mapped(Layers):
        def forward(self, x):
            return map_rows(lambda row, more: {"made": self.up(row) + more}, x, x[0] * 2)["made"]

    graph_module = assert_computes(
        Mapped(), lambda model, x: model.up(x) + x[0] * 2, (torch.rand(5, 4),), (torch.rand(7, 4),)
    )

    assert HIGHER_ORDER.map_impl in targets(graph_module)


@pytest.mark.parametrize("is_closure", [False, True])
def test_associative_scan_keeps_its_length(is_closure):
    class Scanned(nn.Module):
        def __init__(self):
            super().__init__()
            self.factor = nn.Parameter(torch.rand(4))

        def forward(self, x):
            factor = self.factor if is_closure else 0.5
            return associative_scan(lambda a, b: a + b + factor * a * b, x, 0, combine_mode="generic")

    def reference(model, x):
        factor, rows = model.factor if is_closure else 0.5, [x[0]]
        for row in x[1:]:
            rows.append(rows[-1] + row + factor * rows[-1] * row)
        return torch.stack(rows)

    graph_module = assert_computes(Scanned(), reference, (torch.rand(5, 4),), (torch.rand(8, 4),))

    names = [getattr(target, "__name__", "") for target in targets(graph_module)]
    assert names.count("associative_scan") == 1
    assert not any("shape[0] ==" in str(guard) for guard in graph_module.graph.guards)


# Attention


def attention(x, allowed, scores=None):
    found = (x @ x.transpose(-1, -2)) / x.shape[-1] ** 0.5
    found = found if scores is None else found + scores
    return found.masked_fill(~allowed, -torch.inf).softmax(-1) @ x


def causal(size):
    return torch.ones(size, size, dtype=torch.bool).tril()


def test_flex_attention_lifts_the_tensors_of_its_scores():
    class Scored(nn.Module):
        def __init__(self):
            super().__init__()
            self.bias = nn.Parameter(torch.rand(2, 32))
            self.register_buffer("slope", torch.rand(2))

        def forward(self, x):
            def score(value, b, h, i, j):
                return value + self.bias[h, i] - self.slope[h] * (i - j) * x.shape[2]

            return flex_attention(x, x, x, score_mod=score)

    def reference(model, x):
        size = x.shape[2]
        steps = torch.arange(size)
        scores = model.bias[:, :size, None] - model.slope[:, None, None] * (steps[:, None] - steps) * size
        return attention(x, torch.ones(size, size, dtype=torch.bool), scores)

    example = torch.rand(2, 2, 16, 8)
    graph_module = assert_computes(Scored(), reference, (example,), (torch.rand(3, 2, 12, 8),), with_gradients=False)

    node = graph_module.graph.find_nodes(op="call_function", target=HIGHER_ORDER.flex_attention)[0]
    assert [str(each) for each in node.args[7][:2]] == ["bias", "slope"]
    grads = [
        torch.autograd.grad(run(example).sin().sum(), [graph_module.bias])[0]
        for run in (graph_module, lambda x: reference(graph_module, x))
    ]
    torch.testing.assert_close(*grads)


def test_a_block_mask_of_the_model_is_a_constant_for_its_length():
    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 16, 16, device="cpu", BLOCK_SIZE=8)

        def forward(self, x):
            return flex_attention(x, x, x, block_mask=self.mask)

    graph_module = assert_computes(
        Masked(), lambda _, x: attention(x, causal(16)), (torch.rand(2, 2, 16, 8),), with_gradients=False
    )

    with pytest.raises(GuardError, match="16"):
        graph_module.check_guards(torch.rand(2, 2, 24, 8))
    with pytest.raises(GuardError, match="16"):
        graph_module(torch.rand(2, 2, 24, 8))


def test_a_block_mask_of_the_inputs_is_computed_in_each_run():
    def padded(x, lengths):
        mask = create_block_mask(
            lambda b, h, i, j: (i >= j) & (j < lengths[b]),
            *(x.shape[0], None, x.shape[2], x.shape[2]),
            device=x.device,
            BLOCK_SIZE=8,
        )
        return flex_attention(x, x, x, block_mask=mask)

    def reference(_, x, lengths):
        allowed = torch.arange(x.shape[2]) < lengths[:, None, None, None]
        return attention(x, causal(x.shape[2]) & allowed)

    assert_computes(
        padded,
        reference,
        (torch.rand(2, 2, 16, 8), torch.tensor([5, 9])),
        (torch.rand(2, 2, 24, 8), torch.tensor([20, 3])),
        with_gradients=False,
    )


# Checkpoint


@pytest.mark.parametrize("use_reentrant", [False, True])
@pytest.mark.parametrize("by_name", [False, True])
def test_checkpoint_is_one_node_that_computes_again(use_reentrant, by_name):
    class Checkpointed(Layers):
        def forward(self, x):
            call = checkpoint if by_name else checkpoints.checkpoint
            return call(lambda y: self.down(self.up(y).relu()), x * 2, use_reentrant=use_reentrant) + x

    model, x = Checkpointed(), torch.rand(3, 4, requires_grad=True)

    graph_module = fxcore.symbolic_trace(model, example_inputs=x)

    assert targets(graph_module).count(transforms.checkpoint if use_reentrant else checkpoints.checkpoint) == 1
    assert use_reentrant or "torch.utils.checkpoint.checkpoint(wrap_body_0, mul, up_weight" in graph_module.code
    found = []
    for run in (
        lambda x: model.down(model.up(x * 2).relu()) + x,
        graph_module,
        pickle.loads(pickle.dumps(graph_module)),
    ):
        state = [x, *(run if run is not graph_module and isinstance(run, nn.Module) else model).parameters()]
        for each in state:
            each.grad = None
        run(x).sum().backward()
        found.append([each.grad for each in state])
    torch.testing.assert_close(found[1], found[0])
    torch.testing.assert_close(found[2], found[0])


def test_a_reentrant_checkpoint_without_a_gradient_at_its_inputs_gives_no_gradients():
    class Checkpointed(Layers):
        def forward(self, x):
            return self.down(checkpoint(self.up, x, use_reentrant=True))

    model = Checkpointed()
    graph_module = fxcore.symbolic_trace(model, example_inputs=torch.rand(3, 4))

    graph_module(torch.rand(3, 4)).sum().backward()

    assert model.up.weight.grad is None
    assert model.down.weight.grad is not None


def test_a_checkpoint_with_a_function_of_its_own_is_recorded_inside():
    def call(x):
        return checkpoint(lambda y: y.sin(), x, use_reentrant=False, context_fn=checkpoints.noop_context_fn)

    graph_module = fxcore.symbolic_trace(call, example_inputs=torch.rand(3))

    assert [node.target for node in graph_module.graph.nodes if node.op == "call_method"] == ["sin"]


USES_OPERATORS = """
import sys, torch
from torch import nn
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as map_rows
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
import fxcore

before = "torch._dynamo" in sys.modules  # some releases of torch import it with these operators

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.calls = nn.Linear(4, 4), []
    def forward(self, x):
        self.calls.append("a call")  # a trace compares later calls with eager for this
        x = torch.cond(x.sum() > 0, lambda tree: self.layer(tree["x"]), lambda tree: tree["x"] * 2, ({"x": x},))
        x, _ = while_loop(lambda x, i: i < 2, lambda x, i: (x * 2, i + 1), (x, torch.tensor(0)))
        x = map_rows(lambda row: row + 1, x)
        total, _ = scan(lambda carry, row: (carry + row, carry * row), x[0], x)
        return total + associative_scan(torch.add, x, 0, combine_mode="generic")

model, example = Model().requires_grad_(False), torch.rand(3, 4)
"""


@pytest.mark.slow
@pytest.mark.parametrize("verify", [None, True])
def test_a_trace_runs_operators_without_dynamo(verify):
    program = USES_OPERATORS + (
        f"graph_module = fxcore.symbolic_trace(model, example_inputs=example, verify={verify})\n"
        "graph_module(example)\n"
        "print(len(model.calls), len(graph_module.graph.guards.notes), not before and 'torch._dynamo' in sys.modules)"
    )

    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert result.stdout.split() == ["0", "1", "False"]


class Branching(nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda tree: tree["x"].sin(), lambda tree: tree["x"].cos(), ({"x": x},))


class HasLeaf(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = Branching()

    def forward(self, x):
        return self.part(x) + 1


def test_an_operator_in_a_leaf_runs_without_dynamo_while_a_trace_runs():
    example = torch.rand(3)
    counters = torch._dynamo.utils.counters
    counters.clear()

    graph_module = fxcore.symbolic_trace(HasLeaf(), example_inputs=example, leaf_modules=[Branching])

    assert [node.op for node in graph_module.graph.nodes][1] == "call_module"
    assert not counters
    compiled = torch.compile(Branching(), backend="eager", fullgraph=True)
    assert torch.equal(compiled(example), example.sin())


class Marked(torch.Tensor):
    """A tensor with a class of its own, which torch's dispatcher serves."""


def test_operators_run_in_python_on_the_tensors_themselves():
    seen = []

    def doubled(x, count):
        seen.append(type(x))
        return x * 2, count + 1

    x = torch.arange(6.0, requires_grad=True).reshape(3, 2)
    with operators_called_in_python():
        looped = while_loop(lambda x, count: count < 2, doubled, (x, torch.tensor(0)))
        mapped = map_rows(lambda row, more: row + more, x, x[2])
        carry, rows = scan(lambda carry, row: (carry + row, carry * row), x[0], x)
        chosen = torch.cond(x.sum() > 0, torch.neg, torch.sin, (x.detach().as_subclass(Marked),))

    assert seen == [torch.Tensor] * 2
    assert [each.tolist() for each in looped] == [(x * 4).tolist(), 2]
    assert mapped.tolist() == (x + x[2]).tolist()
    assert [carry.tolist(), rows.tolist()] == [[6, 10], [[0, 1], [0, 6], [8, 25]]]
    assert torch.equal(chosen, -x)
    assert type(chosen) is Marked


class Switches(Layers):
    def forward(self, x, index):
        return switch(index, (torch.sin, lambda x: self.up(x), lambda x: self.down(x) * 2), (x,)) + 1


def switched(model, x, index):
    return (torch.sin, model.up, lambda x: model.down(x) * 2)[index](x) + 1


@pytest.mark.skipif(switch is None, reason="torch 2.14 has this operator")
def test_switch_is_one_node_with_a_graph_for_each_branch():
    x = torch.rand(3, 4)
    example, *others = [(x, torch.tensor(number)) for number in (1, 0, 2)]

    graph_module = assert_computes(Switches(), switched, example, *others, with_gradients=False)

    assert HIGHER_ORDER.switch in targets(graph_module)
    assert {"branch0_graph_0", "branch1_graph_0", "branch2_graph_0"} <= dict(graph_module.named_children()).keys()
    assert [str(guard) for guard in graph_module.graph.guards] == ["index.numel() == 1"]  # a check of torch


@pytest.mark.skipif(switch is None, reason="torch 2.14 has this operator")
def test_a_switch_on_a_size_takes_the_branch_of_the_run():
    class OnSize(nn.Module):
        def forward(self, x):
            return switch(x.shape[0] - 1, (torch.sin, torch.cos, torch.tan), (x,))

    x = torch.rand(2, 4)
    graph_module = fxcore.symbolic_trace(OnSize(), example_inputs=x)

    assert torch.equal(graph_module(x), x.cos())
    x = torch.rand(3, 4)
    assert torch.equal(graph_module(x), x.tan())


def repeated(x):
    return while_loop(lambda i, y: i < 2, lambda i, y: (i + 1, y * 2), (torch.zeros((), device=x.device), x))[1]


WITHOUT_MEMORY = {
    "map": (lambda x: map_rows(lambda row: row.sum(0), x), [(5, 3)]),
    "scan": (lambda x: scan(lambda a, b: (a + b, a[:2].sum(0)), torch.zeros(4, 3).to(x), x), [(4, 3), (5, 3)]),
    "associative_scan": (lambda x: associative_scan(torch.add, x, 1, combine_mode="generic"), [(5, 4, 3)]),
    "while_loop": (repeated, [(5, 4, 3)]),
}


@pytest.mark.parametrize("name", WITHOUT_MEMORY)
def test_results_without_memory_have_the_shapes_of_the_operator(name):
    function, shapes = WITHOUT_MEMORY[name]

    def program(x):
        results = function(x)
        results = results if isinstance(results, tuple) else (results,)
        if [tuple(each.shape) for each in results] != shapes:
            raise ValueError([each.shape for each in results])
        return results

    x = torch.rand(5, 4, 3)
    fxcore.symbolic_trace(program, example_inputs=x)
    fxcore.symbolic_trace(program, example_inputs=x.to("meta"))


@pytest.mark.skipif(not IS_RECENT, reason="the operator of this torch has other arguments")
def test_the_function_of_an_associative_scan_sees_whole_rows():
    def combined(a, b):
        return [a + b if a.shape[-1] == 4 else a * b]

    x = torch.rand(5, 4)

    graph_module = fxcore.symbolic_trace(
        lambda x: HIGHER_ORDER.associative_scan(combined, [x], ())[0], example_inputs=x
    )

    torch.testing.assert_close(graph_module(x), x.cumsum(0))


def guards_of(graph_module):
    return [str(guard) for guard in graph_module.graph.guards]


def test_a_branch_that_reads_a_list_from_outside_asks_for_its_type_and_length():
    def joined(x, parts):
        return torch.cond(x.sum() > 0, lambda x: torch.cat(parts) + x.sum(), lambda x: torch.cat(parts) * 2, (x,))

    x = torch.ones(3)
    graph_module = fxcore.symbolic_trace(joined, example_inputs=(x, [x, x + 1]))

    # torch.cat of 2.6 does not ask for the type: a tuple of tensors gives the same result.
    asked = ["type(parts) is list"] if IS_RECENT else []
    assert guards_of(graph_module) == [*asked, "len(parts) == 2"]
    assert torch.equal(graph_module(x, [x, x]), torch.cat([x, x]) + 3)
    assert torch.equal(graph_module(-x, [x, x]), torch.cat([x, x]) * 2)
    for others in ((x, x), [x, x, x]) if IS_RECENT else ([x, x, x],):
        with pytest.raises(GuardError):
            graph_module(x, others)


def test_a_branch_asks_about_an_input_of_the_traced_function():
    def shifted(x, shift):
        def by_shift(x):
            return x + shift[0] if isinstance(shift, list) else x + shift

        return torch.cond(x.sum() > 0, by_shift, lambda x: x - 1, (x,))

    x = torch.ones(3)
    graph_module = fxcore.symbolic_trace(shifted, example_inputs=(x, [x]))

    assert "isinstance(shift, list)" in guards_of(graph_module)
    assert torch.equal(graph_module(x, [x * 2]), x * 3)
    assert torch.equal(graph_module(-x, [x]), -x - 1)
    with pytest.raises(GuardError, match=r"isinstance\(shift, list\)"):
        graph_module(x, x)


@fxcore.wrap
def sum_of_parts(parts):
    return parts["a"] + parts["b"]


def test_a_leaf_in_a_branch_gets_a_dict_from_outside_with_its_values():
    def summed(x, parts):
        return torch.cond(x.sum() > 0, lambda x: sum_of_parts(parts) + x, lambda x: sum_of_parts(parts) - x, (x,))

    x = torch.ones(3)
    graph_module = fxcore.symbolic_trace(summed, example_inputs=(x, {"a": x, "b": x}))

    assert guards_of(graph_module) == ["list(parts) == ['a', 'b']"]
    assert torch.equal(graph_module(x, {"a": x, "b": x * 2}), x * 4)
    assert torch.equal(graph_module(-x, {"a": x, "b": x * 2}), x * 4)


def test_a_drawn_number_from_outside_is_no_input_of_a_branch():
    def scaled(x):
        scale = random.random()
        return torch.cond(x.sum() > 0, lambda x: x * scale, lambda x: x, (x,))

    with pytest.raises(TraceError, match=r"the value 'drawn' is used .* and a float cannot be an input of it"):
        fxcore.symbolic_trace(scaled, example_inputs=torch.ones(3))


def test_a_question_about_a_value_that_a_loop_makes_is_no_guard():
    def doubled(x):
        def body(count, x):
            return count + 1, x * 2 if count.dtype == torch.int64 else x

        return while_loop(lambda count, x: count < 3, body, (torch.tensor(0), x))[1]

    graph_module = fxcore.symbolic_trace(doubled, example_inputs=torch.ones(3))

    assert guards_of(graph_module) == []
    assert torch.equal(graph_module(torch.ones(3)), torch.full((3,), 8.0))


def count_of(x):
    return torch.cond(x.sum() > 0, lambda x: x.shape[0] + 1, lambda x: x.shape[0], (x,))


def test_a_number_that_a_branch_returns_is_another_in_another_branch():
    graph_module = fxcore.symbolic_trace(lambda x: x * count_of(x), example_inputs=torch.ones(3))

    assert guards_of(graph_module) == []
    assert torch.equal(graph_module(torch.ones(3)), torch.full((3,), 4.0))
    assert torch.equal(graph_module(-torch.ones(4)), torch.full((4,), -4.0))

    def with_count(x):
        return torch.cond(x.shape[0] > 2, lambda x: (x * 2, x.shape[0] + 1), lambda x: (x * 3, x.shape[0]), (x,))

    for function in (lambda x: x if count_of(x) > 3 else -x, lambda x: x if with_count(x)[1] > 3 else -x):
        with pytest.raises(TraceError, match="cannot be used as inputs to control flow"):
            fxcore.symbolic_trace(function, example_inputs=torch.ones(3))


def test_the_error_of_a_branch_that_the_example_takes_is_raised_as_it_is():
    def wrong(x):
        return torch.cond(x.sum() > 0, lambda x: x @ torch.ones(5), lambda x: x.sum(), (x,))

    with pytest.raises(RuntimeError, match="inconsistent tensor size") as caught:
        fxcore.symbolic_trace(wrong, example_inputs=torch.ones(3))
    assert not isinstance(caught.value, TraceError)


@pytest.mark.parametrize("read", [lambda kept: kept, lambda kept: kept.shape[0], lambda kept: kept.dtype])
def test_nothing_of_a_value_that_a_branch_made_leaves_it(read):
    def leaking(x):
        kept = []

        def keeping(x):
            kept.append(x * 2)
            return x + 1

        y = torch.cond(x.sum() > 0, keeping, lambda x: x - 1, (x,))
        return y, read(kept[0])

    with pytest.raises(TraceError, match="was made in a function that a higher-order operator calls, and is used"):
        fxcore.symbolic_trace(leaking, example_inputs=torch.ones(3))


def of_keyword(x, *, scale=2):
    return x * scale


@pytest.mark.parametrize(
    ("true_fn", "false_fn", "operands", "inputs"),
    [
        (of_keyword, lambda y: -y, lambda x: (x,), [["operand_0"], ["y"]]),
        (lambda x, n: x * n, lambda y, m: y * 3, lambda x: (x, x.shape[0]), [["x", "n"], ["y", "m"]]),
        (lambda x, n=2: x * n, lambda y: -y, lambda x: (x,), [["operand_0"], ["y"]]),
        (lambda p: p[0], lambda p: p[1], lambda x: (x.chunk(2, 1),), [["operand_0", "operand_1"]] * 2),
        (lambda x, w, n: x * w * n, lambda x, w, n: x, lambda x: (x, torch.ones(4), 2), [["x", "w"]] * 2),
    ],
)
def test_inputs_of_a_branch_have_the_names_of_its_parameters_if_each_takes_one_value(
    true_fn, false_fn, operands, inputs
):
    def program(x):
        return torch.cond(x.sum() > 0, true_fn, false_fn, operands(x))

    x = torch.rand(3, 4)
    graph_module = fxcore.symbolic_trace(program, example_inputs=x)

    branches = graph_module.true_graph_0, graph_module.false_graph_0
    assert [[node.name for node in each.graph.nodes if node.op == "placeholder"] for each in branches] == inputs
    assert torch.equal(graph_module(x), true_fn(*operands(x)))
    assert torch.equal(graph_module(-x), false_fn(*operands(-x)))


def doubled_if_positive(value):
    return value * 2 if value.sum() > 0 else value


@pytest.mark.parametrize(
    "program",
    [
        lambda x: while_loop(lambda y: y.sum() < 9, lambda y: (doubled_if_positive(y),), (torch.ones(3),))[0] + x,
        lambda x: scan(lambda carry, row: (doubled_if_positive(carry), row), torch.ones(3), torch.ones(2, 3))[0] + x,
        lambda x: scan(lambda carry, row: (carry, doubled_if_positive(row)), torch.ones(3), torch.ones(2, 3))[0] + x,
    ],
)
def test_a_constant_that_goes_into_a_loop_has_other_contents_in_other_steps(program):
    with pytest.raises(TraceError, match="It follows from the contents of a tensor"):
        fxcore.symbolic_trace(program, example_inputs=torch.rand(3))


def longer_if_wide(row):
    return row * 2 if row.shape[0] == 3 else row


@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.parametrize(
    "program",
    [
        lambda x: map_rows(longer_if_wide, x),
        lambda x: scan(lambda carry, row: (carry + row, longer_if_wide(row)), x[0] * 0, x)[1],
    ],
)
def test_the_function_of_a_loop_sees_one_row(program, steps):
    x = torch.rand(steps, 3)

    graph_module = fxcore.symbolic_trace(program, example_inputs=x)

    assert {guard for guard in guards_of(graph_module) if "select(...)" in guard} == {"select(...).shape[0] == 3"}
    (call,) = (node for node in graph_module.graph.nodes if isinstance(node.target, torch._ops.HigherOrderOperator))
    assert call.kwargs == {}
    assert torch.equal(graph_module(x), x * 2)
