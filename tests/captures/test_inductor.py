"""Frontend "inductor": the graphs after each pass, and the kernels made of them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import fxcore
from pytest_fxgraph import assert_graph_matches_golden, capture
from pytest_fxgraph.captures.inductor import InductorCapture, InductorGraph, PassStep, _Recording
from pytest_fxgraph.captures.kernels import FusedNode, Kernel, KernelPlan, RefusedFusion
from pytest_fxgraph.captures.request import CaptureRequest
from pytest_fxgraph.captures.torch_internals import Unavailable
from pytest_fxgraph.errors import CaptureError, LevelError


class Normalized(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.norm, self.down = nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 8)

    def forward(self, x):
        return torch.softmax(self.down(self.norm(torch.relu(self.up(x))) + x), -1)


@pytest.fixture(scope="module")
def captured():
    return capture(Normalized(), torch.randn(4, 8), frontend="inductor")


def test_kernels_name_kind_operators_and_bytes(captured):
    kinds = [(kernel.kind, kernel.target) for kernel in captured.kernels]
    extern = ("extern", "extern_kernels.addmm")
    assert kinds == [extern, ("reduction", ""), extern, ("reduction", "")]
    assert captured.kernels[0].nodes[-1].module == "up"
    assert "aten.relu.default" in captured.kernels[1].operators
    # Weight, bias and input; the result.
    assert (captured.kernels[0].bytes_read, captured.kernels[0].bytes_written) == ((64 + 8 + 32) * 4, 32 * 4)


def test_the_last_graph_has_its_state_by_name_and_each_changing_pass_is_a_step(captured):
    state = {node.target for node in captured.graphs[0].graph.nodes if node.op == "get_attr"}
    assert state >= {"up.weight", "down.bias"}
    titles = [step.title for step in captured.steps]
    assert titles[0] == "pre-grad"
    assert "post-grad: reorder_for_locality" in titles


def test_the_backward_has_its_own_kernels():
    trained = capture(Normalized(), torch.randn(4, 8), frontend="inductor", mode="train")
    assert len(trained.graphs) == len(trained.backward_graphs) == 1
    assert all(plan.kernels for plan in trained.plans)


def test_settings_and_functions_of_inductor_are_restored():
    from torch._inductor import compile_fx, config, graph

    settings = config.get_config_copy()
    functions = compile_fx._recursive_joint_graph_passes, graph.GraphLowering.compile_to_module
    capture(lambda x: x.relu() + 1, torch.randn(4), frontend="inductor")
    assert config.get_config_copy() == settings
    assert functions == (compile_fx._recursive_joint_graph_passes, graph.GraphLowering.compile_to_module)


class Fused(nn.Module):
    def forward(self, x):
        return x.relu().cos()


class Split(nn.Module):
    def forward(self, x):
        return (x.relu() @ x).cos()


def test_a_golden_of_kernels_holds_kernels_alone_and_fails_when_a_fusion_is_lost(tmp_path):
    fused, split = (capture(model(), torch.randn(4, 4), frontend="inductor") for model in (Fused, Split))
    path = tmp_path / "kernels.yaml"
    assert_graph_matches_golden(fused, path, level="kernels", update=True)
    assert_graph_matches_golden(fused, path, level="kernels")
    assert "graph:" not in path.read_text()
    with pytest.raises(AssertionError, match="kernel"):
        assert_graph_matches_golden(split, path, level="kernels")


def test_kernels_of_another_frontend_are_refused(tmp_path):
    other = capture(lambda x: x.relu(), torch.randn(4), frontend="aot")
    with pytest.raises(CaptureError, match="frontend='aot' makes no kernels; use frontend='inductor'"):
        print(other.kernels)
    with pytest.raises(LevelError, match="level 'kernels' compares the kernels that Inductor makes"):
        assert_graph_matches_golden(other, tmp_path / "a.yaml", level="kernels", update=True)


def test_a_kernel_names_the_operators_it_computes_and_not_those_behind_stored_tensors(captured):
    assert captured.kernels[0].operators == captured.kernels[2].operators == ("aten.addmm.default",)
    assert captured.kernel_notes[0] == (
        "kernel: extern extern_kernels.addmm in up: aten.addmm; 416 B read, 128 B written"
    )


def test_a_tensor_that_is_read_twice_counts_once_and_all_results_of_a_call_count():
    twice = capture(lambda x: torch.cat([x.relu(), x.sin()]), torch.randn(4, 4), frontend="inductor")
    assert [(each.bytes_read, each.bytes_written) for each in twice.kernels] == [(64, 128)]
    several = capture(lambda x: torch.sort(x), torch.randn(4, 4), frontend="inductor")
    assert (several.kernels[0].kind, several.kernels[0].bytes_written) == ("fallback", 64 + 128)


def test_a_kernel_that_only_moves_data_is_a_copy():
    moved = capture(lambda x: x.t().contiguous(), torch.randn(4, 8), frontend="inductor")
    assert [kernel.kind for kernel in moved.kernels] == ["copy"]


def test_kernels_of_the_branches_of_a_condition_are_kernels_too():
    def branches(x):
        return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))

    kernels = capture(branches, torch.randn(4, 4), frontend="inductor").kernels
    assert {"higher_order.cond", "aten.sin.default", "aten.cos.default"} <= {
        name for kernel in kernels for name in kernel.operators
    }


def test_graphs_without_kernels_are_captured_and_level_kernels_refuses_them(monkeypatch, tmp_path):
    from torch._inductor.graph import GraphLowering

    def fail(self):
        raise RuntimeError("no C++ compiler was found")

    monkeypatch.setattr(GraphLowering, "codegen", fail)
    made = capture(lambda x: x.relu(), torch.randn(4), frontend="inductor")

    assert len(made.graphs) == 1
    assert_graph_matches_golden(made, tmp_path / "graph.yaml", update=True)
    with pytest.raises(
        CaptureError, match=r"no kernels: Inductor generated no kernels: RuntimeError: no C\+\+ compiler"
    ):
        print(made.kernels)
    with pytest.raises(CaptureError, match="level 'kernels' has no kernels to compare: Inductor generated no kernels"):
        assert_graph_matches_golden(made, tmp_path / "kernels.yaml", level="kernels", update=True)


@pytest.mark.parametrize("level", ["exact", "structure"])
def test_other_levels_neither_record_nor_compare_kernels(level, tmp_path, captured):
    path = tmp_path / "graph.yaml"
    assert_graph_matches_golden(captured, path, level=level, update=True)
    assert "kernel" not in path.read_text()
    assert_graph_matches_golden(captured, path, level=level)


@pytest.mark.slow
def test_kernels_are_known_without_a_compiler(captured, tmp_path):
    program = """
import torch
from tests.captures.test_inductor import Normalized
from pytest_fxgraph import capture

for kernel in capture(Normalized(), torch.randn(4, 8), frontend="inductor").kernels:
    print(kernel.text)
"""
    environ = {name: value for name, value in os.environ.items() if name not in ("CC", "CXX")}
    environ.update(PATH=str(tmp_path), PYTHONPATH=str(Path(__file__).parents[2]))
    found = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=True)
    assert found.stdout.splitlines() == [kernel.text for kernel in captured.kernels]


def test_operators_of_one_kernel_are_fused_and_kernels_apart_are_named_with_the_reason_of_torch():
    fused = capture(Fused(), torch.randn(4, 4), frontend="inductor")
    fused.assert_fused("aten.relu", torch.ops.aten.cos, "aten.co*")
    with pytest.raises(
        AssertionError, match=r"no kernel computes aten\.sin; the kernels are: <pointwise kernel of aten"
    ):
        fused.assert_fused("aten.relu", "aten.sin")

    split = capture(Split(), torch.randn(4, 4), frontend="inductor")
    expected = (
        "aten.relu is not fused with aten.cos in the forward graph: <pointwise kernel of aten.relu.default>; "
        "<pointwise kernel of aten.cos.default>, and Inductor did not try to fuse these"
    )
    with pytest.raises(AssertionError) as told:
        split.assert_fused("aten.relu", "aten.cos")
    assert str(told.value) == expected

    def scaled(x):
        y = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True))
        return torch.round(y / y.abs().amax())

    with pytest.raises(
        AssertionError, match=r"aten\.mean in the forward graph: .*, because intermediate nodes between"
    ):
        capture(scaled, torch.randn(8, 16), frontend="inductor").assert_fused("aten.round", "aten.mean")


def test_operators_in_two_graphs_are_not_fused():
    def broken(x):
        y = x.relu()
        torch._dynamo.graph_break()
        return y.cos()

    with pytest.raises(AssertionError, match=r"relu\.default>; another graph computes aten\.cos"):
        capture(broken, torch.randn(4), frontend="inductor").assert_fused("aten.relu", "aten.cos")
    with pytest.raises(CaptureError, match="frontend='aot' makes no kernels; use frontend='inductor'"):
        capture(lambda x: x.relu(), torch.randn(4), frontend="aot").assert_fused("aten.relu")


def test_a_backward_names_the_state_of_its_own_graph():
    class Broken(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            y = self.first(x.sin()).tanh()
            torch._dynamo.graph_break()
            return self.second(y.sin()).tanh()

    found = capture(Broken(), torch.randn(2, 4, requires_grad=True), frontend="inductor", mode="train")
    named = [{node.target for node in each.graph.nodes if node.op == "get_attr"} for each in found.backward_graphs]
    assert sorted(map(sorted, named)) == [["first.weight"], ["second.weight"]]


def test_a_backward_without_calls_has_no_kernels():
    class Sum(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.rand(4))

        def forward(self, x):
            return x + self.weight

    found = capture(Sum(), torch.randn(4), frontend="inductor", mode="train")
    assert [node.op for node in found.backward_graphs[0].graph.nodes] == ["placeholder", "output"]
    assert [kernel.operators for kernel in found.kernels] == [("aten.add.Tensor",)]


def step(phase, name="", *, is_change=True):
    return PassStep(phase, name, fxcore.symbolic_trace(nn.ReLU()), is_change)


def kernel(*operators):
    return Kernel("pointwise", tuple(FusedNode(name, f"aten.{name}.default", "") for name in operators))


def capture_of(*compiled):
    return InductorCapture(compiled, frontend="inductor", model_name="Net", graphs=[])


def test_a_step_has_the_title_of_its_phase_and_pass():
    titles = [step("joint", name).title for name in ("", "end", "fuse")]

    assert titles == ["joint", "joint", "joint: fuse"]


def test_steps_are_the_first_and_the_changing_ones_of_the_first_forward_graph():
    unchanged = step("pre-grad", is_change=False)
    forward = (unchanged, step("joint", "a"), step("joint", "b", is_change=False), step("joint", "c"))
    plan = KernelPlan(())
    found = capture_of(
        InductorGraph("backward", (step("post-grad"),), plan),
        InductorGraph("forward", forward, plan),
        InductorGraph("forward", (step("post-grad"),), plan),
    ).steps

    assert [each.name for each in found] == ["", "a", "c"]
    assert found[0] is unchanged
    assert capture_of(InductorGraph("backward", (unchanged,), plan)).steps == []


def test_kernels_and_reasons_of_all_graphs_are_known():
    refused = (RefusedFusion(("relu",), ("cos",), "first"), RefusedFusion(("cos",), ("relu",), "last"))
    forward = InductorGraph("forward", (), KernelPlan((kernel("relu"), kernel("cos")), refused))
    backward = InductorGraph("backward", (), KernelPlan((kernel("sin"),)))
    failed = InductorGraph("backward", (), Unavailable("no compiler"))
    whole = capture_of(forward, backward)

    assert [each.operators for each in whole.kernels] == [(f"aten.{name}.default",) for name in ("relu", "cos", "sin")]
    assert sum("backward" in note for note in whole.kernel_notes) == 1
    assert [*whole.refusals.values()] == ["first", "last"]
    assert [*capture_of(failed, forward).refusals.values()] == ["first", "last"]
    assert any("no compiler" in note for note in capture_of(forward, failed).kernel_notes)
    with pytest.raises(CaptureError, match="Net has no kernels: no compiler"):
        _ = capture_of(forward, failed).plans
    with pytest.raises(AssertionError, match=r"aten\.sin is not fused with aten\.cos in the backward graph"):
        whole.assert_fused("aten.sin", "aten.cos")


def test_a_pass_that_changed_nothing_keeps_the_graph_of_before():
    made = _Recording(CaptureRequest.of(nn.ReLU(), torch.ones(2), None, "inductor"))
    module = torch.fx.symbolic_trace(lambda x: x.relu().cos())
    (relu,) = (node for node in module.graph.nodes if node.name == "relu")
    made.on_pass("joint", "", module)
    made.on_pass("joint", "same", module)
    relu.target = "tanh"
    made.on_pass("joint", "renamed", module)
    module.graph.inserting_before(relu).__enter__()
    module.graph.call_method("sin", (relu.args[0],))
    made.on_pass("joint", "longer", module)
    made.on_pass("joint", "same", module)

    assert [each.is_change for each in made._steps] == [True, False, True, True, False]
    assert [place for place, each in enumerate(made._steps[1:], 1) if each.graph is made._steps[place - 1].graph] == [
        1,
        4,
    ]


@pytest.mark.parametrize(
    ("phase", "names", "expected"),
    [
        ("pre-grad", ["a", "b"], {"b": "weight"}),
        ("pre-grad", ["a"], {}),
        ("joint", ["primals_1", "primals_2", "tangents_1"], {"primals_2": "weight"}),
        ("joint", ["arg0_1", "arg1_1"], {}),
        ("post-grad", ["arg0_1", "arg1_1"], {"arg1_1": "weight"}),
        ("post-grad", ["tangents_1", "primals_2"], {"primals_2": "weight"}),
        ("post-grad", ["tangents_1", "arg1_1"], {}),
    ],
)
def test_inputs_of_a_phase_are_state_by_their_place_or_number(phase, names, expected):
    made = _Recording(CaptureRequest.of(nn.ReLU(), torch.ones(2), None, "inductor"))
    made._state = {1: "weight"}
    graph = fxcore.Graph()
    graph.output([graph.placeholder(name) for name in names])

    assert made._names(fxcore.GraphModule(nn.Module(), graph), phase) == expected
