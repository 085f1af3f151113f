"""Kernels under the less common settings and inputs of Inductor."""

import operator
import os
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from pytest_fxgraph import assert_graph_matches_golden, capture
from pytest_fxgraph.captures import inductor_internals, kernels
from pytest_fxgraph.captures.inductor_internals import _operator, _run_pass, compiled_plan, in_order
from pytest_fxgraph.captures.kernels import RefusedFusion
from pytest_fxgraph.captures.torch_internals import Unavailable
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


def test_a_phase_inside_of_a_phase_is_not_told():
    told, running, graphs = [], [], [SimpleNamespace(name=name) for name in ("outer", "inner", "made")]
    outer, inner, made = graphs

    def run(function, graph):
        return inductor_internals._run_phase("joint", function, running, lambda *step: told.append(step), graph, 1, k=2)

    def of_inner(graph, one, *, k):
        assert (graph, one, k) == (inner, 1, 2)

    assert run(lambda graph, one, *, k: run(of_inner, inner) or made, outer) is made
    assert told == [("joint", "", outer), ("joint", "end", made)]
    assert run(lambda graph, one, *, k: None, outer) is None
    assert told[2:] == [("joint", "", outer), ("joint", "end", outer)]
    with pytest.raises(ZeroDivisionError):
        run(lambda graph, one, *, k: 1 / 0, outer)
    assert running == []


def test_a_pass_belongs_to_the_innermost_phase():
    told, graph = [], object()
    observer = SimpleNamespace(gm=graph, passname="fuse")
    _run_pass(observer, lambda *_: None, [("joint", None), ("post", graph)], lambda *step: told.append(step), None)

    assert told == [("post", "fuse", graph)]


@pytest.mark.parametrize(
    ("now", "loaded"), [({"a": 1, "b": 2}, []), ({"a": 1, "b": 3}, [{"b": 2}]), ({"a": 1, "c": 3}, [{"b": 2}])]
)
def test_settings_that_changed_are_restored(now, loaded):
    calls = []
    fake = SimpleNamespace(get_config_copy=lambda: now, load_config=calls.append)
    inductor_internals._restore_settings(fake, {"a": 1, "b": 2})

    assert calls == loaded


def test_code_is_generated_for_gcc_whatever_compiler_is_there(monkeypatch):
    builder = pytest.importorskip("torch._inductor.cpp_builder")
    instructions = pytest.importorskip("torch._inductor.cpu_vec_isa")
    monkeypatch.setattr(builder, "is_clang", lambda: True, raising=False)
    monkeypatch.setattr(builder, "is_gcc", lambda: False, raising=False)
    monkeypatch.delattr(builder, "is_msvc_cl", raising=False)
    with inductor_internals._without_compiler():
        assert (builder.is_gcc(), builder.is_clang()) == (True, False)
        assert instructions.pick_vec_isa() is instructions.invalid_vec_isa
    assert (builder.is_gcc(), builder.is_clang()) == (False, True)


def failing(error):
    def compile_graph():
        raise error

    return compile_graph


@pytest.mark.parametrize(
    ("compile_graph", "reason"),
    [
        (lambda: None, "Inductor made no program of this graph"),
        (failing(ValueError("one\ntwo")), "Inductor generated no kernels: ValueError: one"),
        (
            failing(ValueError("no Compiler")),
            "Inductor generated no kernels: ValueError: no Compiler; max_autotune compiles kernels to measure them: "
            "install a C++ compiler, or turn max_autotune off",
        ),
    ],
)
def test_a_graph_without_kernels_has_the_reason(compile_graph, reason):
    assert compiled_plan(compile_graph) == Unavailable(reason)


class Dep:
    """A read or a write of a kernel."""


@dataclass(frozen=True)
class MemoryDep(Dep):
    name: str
    size: int = 1000

    def numbytes_hint(self):
        return self.size


class WeakDep(MemoryDep):
    pass


class ReuseLine:
    def __init__(self, node, reused_as):
        self.node, self.reused_as = buffer(node), buffer(reused_as)


def buffer(name, *users, **facts):
    return SimpleNamespace(get_name=lambda: name, users=[user(each) for each in users], get_mutations=list, **facts)


def user(name):
    """Return a user of a buffer; a name with a bracket is one of several results of a kernel."""
    node = type("MultiOutput", (), {})() if "[" in name else None
    return SimpleNamespace(get_name=lambda: name, node=SimpleNamespace(node=node, get_outputs=lambda: [buffer(name)]))


class SchedulerNode:
    """A loop, or with `kind` another node of the scheduler."""

    def __init__(self, name, reads=(), outputs=(), node=None, rounds=(), **facts):
        self.name, self.node, self.outputs, self.rounds, self.facts = name, node, list(outputs), rounds, facts
        names = [each.get_name() for each in outputs]
        self.read_writes = SimpleNamespace(
            reads=[each if isinstance(each, Dep) else MemoryDep(each) for each in reads],
            writes=[MemoryDep(name) for name in names],
        )

    def get_name(self):
        return self.name

    def get_nodes(self):
        return [self]

    def get_outputs(self):
        return self.outputs

    def get_ranges(self):
        return [self.rounds] if self.rounds else [[1000]]

    def is_extern(self):
        return self.facts.get("is_extern", False)

    def is_template(self):
        return self.facts.get("is_template", False)

    def is_reduction(self):
        return self.facts.get("is_reduction", False)


class ExternKernelSchedulerNode(SchedulerNode):
    pass


class ForeachKernelSchedulerNode(SchedulerNode):
    pass


class NopKernelSchedulerNode(SchedulerNode):
    pass


class GroupedSchedulerNode:
    def __init__(self, *snodes):
        self.snodes = snodes


SIZES = {"a": 10, "b": 20, "c": 30, "one[0]": 7}  # numbers of elements of four bytes


def graph_of(nodes=(), lines=(), **facts):
    hints = SimpleNamespace(size_hint=lambda size, fallback: size)
    return SimpleNamespace(
        get_numel=SIZES.__getitem__, get_dtype=lambda name: torch.float32, sizevars=hints, name_to_buffer={},
        scheduler=SimpleNamespace(nodes=list(nodes)), graph=SimpleNamespace(nodes=[]), cpp_wrapper=False,
        wrapper_code=SimpleNamespace(lines=list(lines)), **facts,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("deps", "size"),
    [
        ([], 0),
        ([(MemoryDep("a"), inf)], 40),
        ([(MemoryDep("a", 24), inf)], 24),
        ([(MemoryDep("a"), 5)], 20),
        ([(MemoryDep("a"), 0)], 0),
        ([(MemoryDep("a"), 5), (MemoryDep("a"), 5)], 20),
        ([(MemoryDep("a", 12), 5), (MemoryDep("a", 16), 5)], 28),
        ([(MemoryDep("a"), 9), (MemoryDep("a", 16), 9)], 40),
        ([(MemoryDep("a"), inf), (MemoryDep("b"), inf)], 120),
        ([(WeakDep("a"), inf)], 0),
        ([(MemoryDep("a"), inf), (WeakDep("b"), inf), (MemoryDep("b"), inf)], 120),
        ([(MemoryDep("unknown", 8), inf)], 8),
    ],
)
def test_the_bytes_of_a_tensor_are_at_most_its_size_and_one_element_per_round(deps, size):
    assert inductor_internals._bytes(deps, graph_of()) == size


@pytest.mark.parametrize(
    ("parts", "traffic"),
    [
        ([SchedulerNode("p", ["a"], [buffer("b", "q")])], (40, 80)),
        ([SchedulerNode("p", ["a"], [buffer("b")])], (40, 80)),
        ([SchedulerNode("p", ["a"], [buffer("b", "q")], rounds=[2, 3])], (24, 24)),
        ([ExternKernelSchedulerNode("p", ["a"], [buffer("b", "q")], rounds=[2, 3])], (40, 80)),
        ([SchedulerNode("p", ["a"], [buffer("b", "q")]), SchedulerNode("q", ["b"], [buffer("c", "r")])], (40, 120)),
        (
            [SchedulerNode("p", ["a"], [buffer("b", "q", "r")]), SchedulerNode("q", ["b"], [buffer("c", "r")])],
            (40, 200),
        ),
        ([ExternKernelSchedulerNode("p", ["a"], [buffer("b", "one[0]")])], (40, 108)),
    ],
)
def test_a_kernel_reads_and_writes_the_tensors_outside_of_it(parts, traffic):
    assert inductor_internals._traffic(parts, graph_of()) == traffic


def of_loop(*operators):
    return SimpleNamespace(
        data=type("Pointwise", (), {"inner_fn_opcount": lambda self: SimpleNamespace(used_ops=operators)})()
    )


@pytest.mark.parametrize(
    ("node", "kind"),
    [
        (ForeachKernelSchedulerNode("p", is_template=True), kernels.FOREACH),
        (SchedulerNode("p", is_template=True, is_extern=True), kernels.TEMPLATE),
        (SchedulerNode("p", is_extern=True, node=object(), is_reduction=True), kernels.EXTERN),
        (SchedulerNode("p", is_reduction=True, node=of_loop("load")), kernels.REDUCTION),
        (SchedulerNode("p", node=of_loop("load")), kernels.COPY),
        (SchedulerNode("p", node=of_loop("load", "add")), kernels.POINTWISE),
        (SchedulerNode("p", node=SimpleNamespace(data=None)), kernels.POINTWISE),
    ],
)
def test_a_kernel_has_a_kind(node, kind):
    assert inductor_internals._kind(node, [node]) == kind


@pytest.mark.parametrize(
    ("facts", "is_extern", "target"),
    [
        ({"python_kernel_name": "extern.mm", "op_overload": "aten.mm"}, True, "extern.mm"),
        ({"python_kernel_name": None, "op_overload": "aten.mm"}, True, "aten.mm"),
        ({}, True, ""),
        ({"op_overload": "aten.mm"}, False, ""),
    ],
)
def test_a_call_of_a_library_has_a_target(facts, is_extern, target):
    node = SchedulerNode("p", node=SimpleNamespace(**facts), is_extern=is_extern)

    assert inductor_internals._target(node) == target


def test_nodes_of_groups_run_kernels_and_nodes_without_work_run_none():
    loops = [SchedulerNode(name) for name in "abc"]
    item = SchedulerNode("d", node=type("MultiOutput", (), {})())
    nodes = [loops[0], GroupedSchedulerNode(loops[1], NopKernelSchedulerNode("e"), loops[2]), item]

    assert [*inductor_internals._kernel_nodes(nodes)] == loops


def test_graphs_inside_of_a_call_have_a_scheduler():
    inner = graph_of()
    held = SimpleNamespace(one=SimpleNamespace(graph=inner), two=SimpleNamespace(graph=object()), three=3)

    assert inductor_internals._inner_graphs(SchedulerNode("p", node=held, is_extern=True)) == [inner]
    assert inductor_internals._inner_graphs(SchedulerNode("p", node=held)) == []
    assert inductor_internals._inner_graphs(SchedulerNode("p", is_extern=True)) == []


def test_a_plan_has_refusals_reuses_partitions_and_the_program(monkeypatch):
    lowering = pytest.importorskip("torch._inductor.graph").GraphLowering
    why = pytest.importorskip("torch._inductor.scheduler").WhyNoFuse
    monkeypatch.setattr(why, "__call__", lambda self, reason, *args: (reason, args))
    graph = graph_of(lines=[object(), ReuseLine("buf0", "buf1")], partition_maps=[1, 2])
    graph.codegen, graph.codegen_with_cpp_wrapper = (lambda: ("text", 0)), (lambda: (SimpleNamespace(value="C++"), 0))

    def compile_graph():
        named = SimpleNamespace(name1="x", node2=SchedulerNode("y"))
        assert why.__call__(named, "no %s", "room") == ("no %s", ("room",))
        lowering.compile_to_module(graph)

    for graph.cpp_wrapper, program in ((False, "text"), (True, "C++")):
        plan = compiled_plan(compile_graph)
        assert (plan.refused, plan.reused) == ((RefusedFusion((), (), "no room"),), (("buf0", "buf1"),))
        assert (plan.kernels, plan.partitions, plan.code) == ((), 2, program)


@pytest.mark.parametrize(
    ("options", "without"),
    [({}, ["entered"]), ({"max_autotune": True}, []), ({"max_autotune_gemm": True}, [])],
)
def test_a_capture_uses_no_cache_and_a_compiler_only_to_measure(options, without, monkeypatch):
    entered = []
    monkeypatch.setattr(inductor_internals, "_without_compiler", lambda: nullcontext(entered.append("entered")))
    names = config.get_config_copy().keys() & {"force_disable_caches", "fx_graph_cache", "compile_threads"}
    usual = {"force_disable_caches": False, "fx_graph_cache": True, "compile_threads": 2}
    with config.patch({**{name: usual[name] for name in names}, "max_autotune": False, "max_autotune_gemm": False}):
        with config.patch(options), inductor_internals.inductor_watched(lambda *step: None):
            own = {name: getattr(config, name) for name in names}
        after = {name: getattr(config, name) for name in names}

    assert own == {name: {**usual, "force_disable_caches": True, "fx_graph_cache": False, "compile_threads": 1}[name]
                   for name in names}  # fmt: skip
    assert after == {name: usual[name] for name in names}
    assert entered == without


def test_the_nodes_of_libraries_are_the_ends_of_their_calls():
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    product, relu = (graph.call_function(target, (x,)) for target in (torch.mm, torch.relu))
    scheduled = graph_of(
        [
            SchedulerNode("a", node=SimpleNamespace(origin_node=product), is_extern=True),
            SchedulerNode("b", node=SimpleNamespace(origin_node=relu)),
        ]
    )
    scheduled.graph = graph

    order = inductor_internals._Order.of(scheduled)
    assert order.in_libraries == {product}
    assert order.places == {x: 0, product: 1, relu: 2}


def test_the_end_of_a_buffer_is_its_own_node_or_the_last_of_its_origins():
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    pair = graph.call_function(torch.var_mean, (x,))
    first = graph.call_function(operator.getitem, (pair, 0))
    relu = graph.call_function(torch.relu, (first,))

    def ends(*origins, **facts):
        found = inductor_internals._end_nodes(SimpleNamespace(get_origins=lambda: origins, **facts))
        assert len(found) == len({*found})
        return {*found}

    assert ends(x, relu, origin_node=first) == {pair}
    assert ends(first, relu, origin_node=x) == ends(first, relu) == {relu, pair}
    assert ends(first, relu, op_overload=torch.var_mean) == {pair}
    assert inductor_internals._end_nodes(SimpleNamespace()) == []
