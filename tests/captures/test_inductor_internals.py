"""Kernels under the less common settings and inputs of Inductor."""

import operator
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from pytest_fxgraph import assert_graph_matches_golden, capture
from pytest_fxgraph.captures.inductor_internals import _operator, _run_pass, in_order
from pytest_fxgraph.errors import CaptureError

X = torch.rand(4, 8)
config = pytest.importorskip("torch._inductor.config")


def texts(model, *inputs, **options):
    return [kernel.text for kernel in capture(model, inputs, frontend="inductor", **options).kernels]


@pytest.mark.slow
def test_frozen_weights_are_constants_and_kernels_name_lowerings_of_passes():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()).eval()
    image = torch.rand(1, 3, 8, 8)
    with config.patch(freezing=True):
        frozen = texts(model, image)
        assert config.freezing
    assert not any("no operator" in text or "operator.fn" in text for text in frozen), frozen
    assert any(text.startswith("extern ") for text in frozen)
    told = " ".join(texts(model, image))
    assert "aten.sub" in told
    assert "aten.sub" not in " ".join(frozen), "batch norm is part of the convolution"


def test_a_dynamic_size_has_the_bytes_of_the_example():
    def model(x):
        return (x.sin() + 1).cos()

    shapes = {"x": {0: torch.export.Dim("n")}}
    four, ten = (texts(model, torch.rand(n, 8), dynamic_shapes=shapes) for n in (4, 10))
    assert four == ["pointwise: aten.add, aten.cos, aten.sin; 128 B read, 128 B written"]
    assert ten == ["pointwise: aten.add, aten.cos, aten.sin; 320 B read, 320 B written"]
    marked = torch.rand(4, 8)
    torch._dynamo.mark_dynamic(marked, 0)
    assert texts(model, marked) == four


def test_a_checkpoint_is_computed_anew_in_the_backward():
    class Checked(nn.Module):
        def __init__(self):
            super().__init__()
            self.up = nn.Linear(8, 8)

        def forward(self, x):
            return checkpoint(lambda x: torch.tanh(self.up(x)).sin(), x, use_reentrant=False)

    made = capture(Checked(), X, frontend="inductor", mode="train")
    forward, backward = made.plans
    for plan in (forward, backward):
        assert "aten.addmm.default" in [name for kernel in plan.kernels for name in kernel.operators]


def test_a_kernel_of_lists_of_tensors_names_all_their_operators():
    def model(x, y):
        return torch._foreach_add(torch._foreach_mul([x, y], 2.0), [y, x])

    found = texts(model, torch.rand(4), torch.rand(4))
    assert found == ["pointwise: aten._foreach_add, aten._foreach_mul; 32 B read, 32 B written"]


def test_a_kernel_that_ends_the_operator_of_another_kernel_names_it():
    def model(x):
        variance, mean = torch.var_mean(x.cos(), -1, keepdim=True)
        return mean @ variance.t()

    for kernel in capture(model, torch.rand(4, 300), frontend="inductor").kernels:
        assert kernel.operators


def test_kernels_of_all_graphs_around_a_break_are_in_the_golden(tmp_path):
    def broken(x):
        y = x.relu()
        torch._dynamo.graph_break()
        return y.cos()

    assert_graph_matches_golden(
        capture(broken, X, frontend="inductor"), tmp_path / "a.yaml", level="kernels", update=True
    )
    written = (tmp_path / "a.yaml").read_text()
    assert "aten.relu" in written
    assert "aten.cos" in written


def test_max_autotune_without_a_compiler_says_what_to_do(monkeypatch):
    from torch._inductor import exc
    from torch._inductor.graph import GraphLowering

    def fail(self):
        raise exc.InvalidCxxCompiler

    monkeypatch.setattr(GraphLowering, "codegen", fail)
    with config.patch(max_autotune=True), pytest.raises(CaptureError) as told:
        texts(lambda x: x.relu(), X)
    assert "No working C++ compiler found" in str(told.value)
    assert str(told.value).endswith("install a C++ compiler, or turn max_autotune off")


@pytest.mark.slow
def test_max_autotune_in_an_environment_without_a_compiler(tmp_path):
    program = """
import torch
from torch._inductor import config
from pytest_fxgraph import capture

with config.patch(max_autotune=True, freezing=True):
    print(*capture(torch.nn.Linear(64, 64).eval(), torch.rand(64, 64), frontend="inductor").kernel_notes)
"""
    environ = {name: value for name, value in os.environ.items() if name not in ("CC", "CXX")}
    environ.update(PATH=str(tmp_path), PYTHONPATH=str(Path(__file__).parents[2]))
    found = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=True)
    assert found.stdout.startswith("kernel: "), found.stdout
    assert "missing" not in found.stdout or "or turn max_autotune off" in found.stdout


def test_a_pass_is_told_only_where_it_runs_on_the_graph_of_the_phase():
    told = []
    graph, inner = object(), object()
    for running, of_pass in (([], graph), ([("post_grad", graph)], inner), ([("post_grad", graph)], graph)):
        observer = SimpleNamespace(gm=of_pass, passname="fuse")
        assert _run_pass(observer, lambda observer, run: "changed", running, lambda *step: told.append(step), None)

    assert told == [("post_grad", "fuse", graph)]


def made_by_a_pass(number):
    def inner():
        return number

    return inner


@pytest.mark.parametrize(
    ("op", "target", "name"),
    [
        ("get_attr", "weight", "constant"),
        ("call_function", torch.ops.aten.add.Tensor, "aten.add.Tensor"),
        ("call_function", torch.ops.aten.add, "aten.add"),
        ("call_function", torch.ops.higher_order.cond, "higher_order.cond"),
        ("call_function", partial(made_by_a_pass(1)), "lowering.made_by_a_pass"),
        ("call_function", operator.getitem, "operator.getitem"),
    ],
)
def test_the_operator_of_a_node_has_a_name_in_kernels(op, target, name):
    assert _operator(SimpleNamespace(op=op, target=target)) == name


def test_nodes_behind_their_readers_are_put_in_order():
    module = torch.fx.symbolic_trace(lambda x: x.sin().cos())
    sin, cos = [*module.graph.nodes][1:3]
    assert in_order(module) is module
    cos.append(sin)

    ordered = in_order(module)
    assert [node.name for node in ordered.graph.nodes] == ["x", "sin", "cos", "output"]
    assert [node.name for node in module.graph.nodes] == ["x", "cos", "sin", "output"]
