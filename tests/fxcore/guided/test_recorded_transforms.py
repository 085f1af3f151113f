"""`torch.vmap` and `torch.func` in traced code: one node, with parameters of the model as operands."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import nn
from torch.func import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, vjp, vmap
from torch.nn import functional as F

import fxcore
from fxcore.errors import TraceError
from fxcore.guided import transforms


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(4, 4), nn.Linear(4, 4)


class Mapped(Layers):
    def forward(self, x):
        return torch.vmap(lambda row: self.up(row).sin() * x.shape[0])(x)


class MappedTree(Layers):
    def forward(self, x):
        def each(row, tree, more):
            return {"a": self.up(row) + tree["k"][0], "b": row.sum() * more}

        return vmap(each, in_dims=(1, {"k": (0,)}, None), out_dims={"a": 1, "b": 0})(x.t(), {"k": (x,)}, x.shape[1])


class MappedParameter(nn.Module):
    def __init__(self):
        super().__init__()
        self.weights = nn.Parameter(torch.rand(3, 4, 4))

    def forward(self, x):
        return torch.vmap(lambda weight: F.linear(x, weight))(self.weights)


class Gradient(Layers):
    def forward(self, x):
        return grad(lambda rows: self.down(self.up(rows).tanh()).sum())(x)


class GradientAndMore(Layers):
    def forward(self, x):
        def loss(tree, rows):
            return (self.up(rows) * tree["w"]).sum(), {"doubled": rows * 2}

        gradient, (value, more) = grad_and_value(loss, has_aux=True)({"w": x[0]}, x)
        return gradient["w"], value, more["doubled"]


class GradientWithParts(Layers):
    def forward(self, x):
        def loss(tree, rows):
            return (self.up(rows) * tree["w"]).sum(), {"doubled": rows * 2}

        gradient, more = grad(loss, has_aux=True)({"w": x[0]}, x)
        return gradient["w"], more["doubled"]


class TwoArguments(Layers):
    def forward(self, x):
        return grad(lambda a, b: (self.up(a) * b).sum(), argnums=(0, 1))(x, x * 2)


class Jacobian(Layers):
    def forward(self, x):
        return torch.vmap(jacrev(lambda row: self.up(row).tanh()))(x), jacfwd(self.down)(x[0])


class JacobianOfTree(Layers):
    def forward(self, x):
        found, more = jacrev(lambda row: ({"a": self.up(row), "b": row.sum()}, row * 2), has_aux=True)(x[0])
        return found["a"], found["b"], more


class Physics(Layers):
    def forward(self, x):
        def potential(row):
            return self.down(torch.tanh(self.up(row))).sum()

        return vmap(lambda row: torch.trace(hessian(potential)(row)))(x) + vmap(grad(potential))(x).sum(-1)


class Pulled(Layers):
    def forward(self, x):
        result, pull = vjp(lambda rows: self.up(rows).sin(), x)
        return result, pull(torch.ones_like(result))[0]


class PulledTree(Layers):
    def forward(self, x):
        _, pull = vjp(lambda a, b: {"s": self.up(a) * b, "t": a.sum()}, x, x * 2)
        return pull({"s": torch.ones_like(x), "t": x.sum()})


class PulledAndMore(Layers):
    def forward(self, x):
        _, pull, more = vjp(lambda rows: (self.up(rows).sin(), rows.sum()), x, has_aux=True)
        return pull(torch.ones_like(x))[0], more


class Pushed(Layers):
    def forward(self, x):
        return jvp(lambda rows: self.up(rows).sin(), (x,), (torch.ones_like(x),))


class MadeBefore(Layers):
    def __init__(self):
        super().__init__()
        self.jacobian = jacrev(lambda row: self.up(row).sin())

    def forward(self, x):
        return self.jacobian(x[0])


class ChosenBranch(Layers):
    def forward(self, x):
        return torch.vmap(lambda row: torch.where(row.sum() > 0, self.up(row), self.down(row)))(x)


MODELS = [
    *(
        Mapped,
        MappedTree,
        MappedParameter,
        Gradient,
        GradientAndMore,
        GradientWithParts,
        TwoArguments,
        Jacobian,
        JacobianOfTree,
    ),
    *(Physics, Pulled, PulledTree, PulledAndMore, Pushed, MadeBefore, ChosenBranch),
]


def gradients(run, model, x):
    x = x.clone().requires_grad_()
    results = torch.utils._pytree.tree_leaves(run(x))
    return torch.autograd.grad(sum(each.sum() for each in results), [x, *model.parameters()], allow_unused=True)


@pytest.mark.parametrize("kind", MODELS, ids=lambda kind: kind.__name__)
def test_a_transform_computes_as_eager_torch_does(kind):
    torch.manual_seed(0)
    model = kind()

    graph_module = fxcore.symbolic_trace(model, example_inputs=torch.rand(3, 4))

    graph_module.graph.lint()
    assert graph_module.state_dict().keys() <= model.state_dict().keys()
    for x in (torch.rand(3, 4), -torch.rand(5, 4)):
        expected = model(x)
        loaded = pickle.loads(pickle.dumps(graph_module))
        for run in (graph_module, fxcore.Interpreter(graph_module).run, copy.deepcopy(graph_module), loaded):
            torch.testing.assert_close(run(x), expected)
        for wanted, found in zip(gradients(model, model, x), gradients(graph_module, model, x), strict=True):
            found = torch.zeros_like(wanted) if found is None and wanted is not None else found
            wanted = torch.zeros_like(found) if wanted is None and found is not None else wanted
            torch.testing.assert_close(found, wanted)


def test_parameters_are_operands_that_are_not_mapped():
    graph_module = fxcore.symbolic_trace(Mapped(), example_inputs=torch.rand(3, 4))

    (node,) = graph_module.graph.find_nodes(op="call_function", target=transforms.vmap)
    assert [str(each) for each in node.args[1]] == ["x", "up_weight", "up_bias", "x"]
    assert node.kwargs == {"in_dims": (0, None, None, None)}
    assert not graph_module.graph.guards
    assert "linear.sin()" in graph_module.vmap_graph_0.code


def test_a_transform_in_a_transform_is_an_inner_graph_of_it():
    graph_module = fxcore.symbolic_trace(Physics(), example_inputs=torch.rand(3, 4))

    names = [name for name, module in graph_module.named_modules() if isinstance(module, fxcore.GraphModule)]
    assert names == ["", "vmap_graph_0", "vmap_graph_0.hessian_graph_0", "vmap_graph_1", "vmap_graph_1.grad_graph_0"]


def test_numbers_are_drawn_in_each_run_of_a_mapped_function():
    graph_module = fxcore.symbolic_trace(
        lambda x: torch.vmap(lambda row: row + torch.rand(4), randomness="different")(x),
        example_inputs=torch.zeros(3, 4),
    )

    drawn = graph_module(torch.zeros(3, 4))
    assert not torch.equal(drawn, graph_module(torch.zeros(3, 4)))
    assert not torch.equal(drawn[0], drawn[1])


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: torch.vmap(lambda a, b: a, in_dims=(0,))(x, x), r"in_dims=\(0,\) of vmap do not fit"),
        (lambda x: torch.vmap(lambda a: a, out_dims=(0, 1))(x), r"out_dims=\(0, 1\) of vmap do not fit"),
        (lambda x: torch.vmap(lambda a: a.item())(x[:, 0]) * 2, r"torch cannot run vmap with the example"),
        (lambda x: grad(lambda a, n: a.sum() * n, argnums=1)(x, 3.0), r"asked for a value that is no tensor"),
        (lambda x: vjp(lambda a: a * torch.rand(4), x)[0], r"the function of vjp draws random numbers"),
        (lambda x: torch.vmap(lambda a: a.add_(1))(x), r"becomes 'vmap_graph' writes 'a' in place"),
    ],
    ids=["in_dims", "out_dims", "item", "argnums", "random", "write"],
)
def test_a_transform_that_the_graph_cannot_repeat_is_refused_with_its_line(function, words):
    with pytest.raises(TraceError, match=words) as caught:
        fxcore.Tracer().trace(function, example_inputs=torch.rand(3, 4))  # symbolic_trace raises eager's own error

    assert "test_recorded_transforms.py" in str(caught.value)


def pushed(**options):
    def program(x):
        def function(rows):
            return (rows.sin(), rows.sum()) if options.get("has_aux") else rows.sin()

        return jvp(function, (x,), (torch.ones_like(x),), **options)

    return program


def pulled_and_more(x):
    result, pull, more = vjp(lambda rows: (rows.sin(), rows.sum()), x, has_aux=True)
    return result, pull(torch.ones_like(x))[0], more


@pytest.mark.parametrize(
    ("function", "target", "more", "options"),
    [
        (lambda x: jacrev(lambda a, b: a.sin() * b)(x[0], x[1]), transforms.jacrev, (), {"argnums": (0,)}),
        (lambda x: jacfwd(lambda a, b: a.sin() * b, 1)(x[0], x[1]), transforms.jacfwd, (), {"argnums": (1,)}),
        (lambda x: grad(lambda a, b: (a.sin() * b).sum())(x[0], x[1]), transforms.grad, (), {"argnums": (0,)}),
        (pushed(), transforms.jvp, (0,), {}),
        (pushed(strict=True), transforms.jvp, (0,), {"strict": True}),
        (pushed(has_aux=True), transforms.jvp, (0,), {"has_aux": True}),
        (pulled_and_more, transforms.vjp, (0,), {}),
    ],
)
def test_the_node_of_a_transform_has_the_options_that_differ_from_their_default(function, target, more, options):
    x = torch.rand(3, 4)

    graph_module = fxcore.symbolic_trace(function, example_inputs=x)

    (node,) = graph_module.graph.find_nodes(op="call_function", target=target)
    assert node.kwargs == options
    assert node.args[3:] == ((more,) if more else ())
    torch.testing.assert_close(graph_module(x), function(x))
