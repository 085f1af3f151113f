from __future__ import annotations

import copy
import math
import types
import weakref

import pytest
import torch
from torch import nn

import fxcore
import fxcore.tracer as tracer_file
from fixtures.oracle import assert_same, assert_same_success
from fxcore import Tracer
from fxcore.errors import FxError
from fxcore.tracing import recorded_functions


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)

    def forward(self, x):
        return self.linear(x).relu()


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block()
        self.same = self.block
        self.stack = nn.Sequential(Block(), nn.Tanh())
        self.parameters_ = nn.ParameterList([nn.Parameter(torch.ones(2))])
        self.register_buffer("shift", torch.ones(2))

    def forward(self, x):
        y = self.block(self.same(self.stack(x))) + self.parameters_[0] + self.shift
        return y @ self.stack[0].linear.weight


def test_scopes_and_module_stacks_are_torch_fx_s():
    def sights(fx):
        tracer = fx.Tracer()
        graph = tracer.trace(Model())
        stacks = [(node.name, list(node.meta.get("nn_module_stack", {}).items())) for node in graph.nodes]
        return graph, stacks, tracer.num_calls, tracer.node_name_to_scope, tracer.root_module_name

    assert_same_success(sights)


def test_a_tracer_can_be_used_again():
    def sights(fx):
        tracer, model = fx.Tracer(), Model()
        return tracer.trace(model), tracer.trace(model), tracer.trace(lambda x: x + 1), tracer.num_calls

    assert_same_success(sights)


def test_the_leaf_policy_is_the_user_s():
    def graphs(fx):
        class Everything(fx.Tracer):
            def is_leaf_module(self, m, module_qualified_name):
                return True

        class Nothing(fx.Tracer):
            def is_leaf_module(self, m, module_qualified_name):
                return False

        return Everything().trace(Model()), Nothing().trace(Model())

    assert_same_success(graphs)


def test_calls_attributes_and_paths_go_through_the_user_s_methods():
    def log(fx):
        calls = []

        class Logs(fx.Tracer):
            def call_module(self, m, forward, args, kwargs):
                calls.append(("call", type(m).__name__))
                return super().call_module(m, forward, args, kwargs)

            def getattr(self, attr, attr_val, parameter_proxy_cache):
                calls.append(("read", attr, sorted(parameter_proxy_cache)))
                return super().getattr(attr, attr_val, parameter_proxy_cache)

            def path_of_module(self, mod):
                calls.append(("path", super().path_of_module(mod)))
                return calls[-1][1]

        Logs().trace(Model())
        return calls

    assert_same_success(log)


def test_buffers_are_proxies_if_asked_for():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("shift", torch.ones(2))

        def forward(self, x):
            return x + self.shift + self.shift.size(0)

    def graph(fx):
        tracer = fx.Tracer()
        tracer.proxy_buffer_attributes = True
        return tracer.trace(Model())

    assert_same_success(graph)


def test_functions_of_modules_and_those_given_are_recorded():
    def root(x):
        return x**0.5

    helpers = types.ModuleType("helpers")
    helpers.twice = lambda x: 2 * x
    helpers.twice.__module__ = "helpers"
    names = {"math": math, "root": root, "helpers": helpers}
    exec("def function(x):\n    return math.sqrt(x) + math.floor(2.5) + root(x) + helpers.twice(x)", names)
    tracer = Tracer(autowrap_modules=(math, helpers), autowrap_functions=(root,))

    targets = [node.target for node in tracer.trace(names["function"]).nodes if node.op == "call_function"]

    assert [math.sqrt in targets, root in targets, helpers.twice in targets] == [True, True, True]
    assert math.sqrt(4) == 2


MODULES = {
    "recurrent": (nn.LSTM(2, 2), lambda module, x: module(x)[1][0]),
    "called by forward": (nn.Sequential(nn.Linear(2, 2)), lambda module, x: module[0].forward(x)),
    "parameters in a loop": (nn.Linear(2, 2), lambda module, x: sum([x * value for value in module.parameters()])),
    "normalised weight": (nn.utils.parametrizations.weight_norm(nn.Linear(2, 2)), lambda module, x: module(x)),
    "scripted": (torch.jit.script(nn.Linear(2, 2)), lambda module, x: module(x)),
}


@pytest.mark.parametrize(("module", "use"), MODULES.values(), ids=MODULES)
def test_modules_of_all_kinds_are_met_as_in_torch_fx(module, use):
    class Holds(nn.Module):
        def __init__(self):
            super().__init__()
            self.held = module

        def forward(self, x):
            return use(self.held, x)

    assert_same(lambda fx: fx.symbolic_trace(Holds()).graph)


def test_hooks_of_modules_run_during_the_trace():
    class Shifts(nn.Module):
        def forward(self, x):
            return x + 1

    model = nn.Sequential(Shifts())
    model[0].register_forward_pre_hook(lambda module, args: (args[0] - 1,))
    model[0].register_forward_hook(lambda module, args, output: output * 3)

    assert_same_success(lambda fx: fx.symbolic_trace(model).graph)


def test_a_module_or_parameter_that_is_not_below_the_root_is_refused():
    stranger, parameter = nn.Linear(1, 1), nn.Parameter(torch.ones(3))

    with pytest.raises(NameError, match="module is not installed as a submodule") as caught:
        fxcore.symbolic_trace(lambda x: stranger(x))
    assert isinstance(caught.value, FxError)
    with pytest.raises(NameError, match=r"parameter is not a member of this module: one of shape \[3\]") as caught:
        fxcore.symbolic_trace(lambda x: x + parameter)
    assert f"{__file__}:" in str(caught.value)


def test_recording_without_trace_knows_the_root_s_state():
    tracer = Tracer()
    tracer.graph, tracer.root = fxcore.Graph(), nn.Linear(2, 2)
    x = tracer.create_proxy("placeholder", "x", (), {})

    torch.add(x, tracer.root.weight)
    tracer.create_arg(torch.ones(1))

    assert [node.target for node in tracer.graph.find_nodes(op="get_attr")] == ["weight", "_tensor_constant0"]


def test_garbage_collection_is_as_it_was():
    import gc

    fxcore.symbolic_trace(Model())
    assert gc.isenabled()
    gc.disable()
    try:
        fxcore.symbolic_trace(Model())
        assert not gc.isenabled()
    finally:
        gc.enable()


class Summing(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x):
        self.total += x
        return self.total * 2


@pytest.mark.parametrize("options", [{}, {"example_inputs": torch.ones(3)}], ids=["plain", "example"])
def test_a_buffer_that_forward_assigns_stays_the_models(options):
    model, eager = Summing(), Summing()

    graph_module = fxcore.symbolic_trace(model, **options)

    assert torch.equal(model.total, torch.zeros(3))
    for _ in range(2):
        assert torch.equal(graph_module(torch.ones(3)), eager(torch.ones(3)))


class CallsAboveAnother(nn.Module):
    def __init__(self):
        super().__init__()
        self.leaf = nn.ReLU()

    def forward(self, x):
        y = self.leaf(x)
        with x.node.graph.inserting_before(y.node):
            z = self.leaf(x)
        return self.leaf(y) + z


def test_a_leaf_is_recorded_where_the_traced_code_inserts():
    def sights(fx):
        graph = fx.Tracer().trace(CallsAboveAnother())
        return str(graph), [str(node.meta["nn_module_stack"]) for node in graph.nodes if node.op == "call_module"]

    assert_same_success(sights)


def test_a_tracer_can_be_copied_and_collected_after_its_trace():
    tracer = fxcore.Tracer()
    tracer.trace(CallsAboveAnother())
    traced_again = copy.deepcopy(tracer).trace(CallsAboveAnother())
    known = weakref.ref(tracer)

    del tracer

    assert known() is None  # nothing of the trace refers to it
    assert len(traced_again.nodes) == 6


class OwnGraph(fxcore.Graph):
    pass


class OverridesRecording(Tracer):
    def create_node(self, *args, **kwargs):
        return super().create_node(*args, **kwargs)


@pytest.mark.parametrize(
    ("change", "is_fast"),
    [
        (lambda tracer: None, True),
        (lambda tracer: setattr(tracer, "graph", OwnGraph()), False),
        (lambda tracer: setattr(tracer.graph, "create_node", tracer.graph.create_node), False),
        (lambda tracer: setattr(tracer, "record_stack_traces", True), False),
        (lambda tracer: setattr(tracer, "check_mutable_operations", True), False),
        (lambda tracer: setattr(tracer, "proxy", tracer.proxy), False),
        (lambda tracer: setattr(tracer, "__class__", OverridesRecording), False),
    ],
)
def test_calls_are_recorded_in_one_step_where_nobody_can_tell(change, is_fast):
    tracer = Tracer()
    tracer.root, tracer.graph = nn.Module(), fxcore.Graph()
    change(tracer)

    tracer.allow_fast_recording(True)

    assert (tracer._fast is not None) is is_fast
    tracer.allow_fast_recording(False)
    assert tracer._fast is None


def test_a_trace_records_in_one_step_and_keeps_the_types_and_proxies_that_are_asked_for():
    class OwnProxy(fxcore.Proxy):
        pass

    def forward(x):
        tracer = x.tracer
        assert tracer._fast is not None
        typed = tracer.create_proxy("call_function", torch.relu, (x,), {}, type_expr=int)
        made = tracer.create_proxy(
            "call_function", torch.neg, (typed,), {}, proxy_factory_fn=lambda node: OwnProxy(node, tracer)
        )
        assert type(made) is OwnProxy
        assert type(typed) is fxcore.Proxy
        return made

    assert [node.type for node in Tracer().trace(forward).nodes] == [None, int, None, None]


def test_a_size_is_a_tuple_and_no_call_of_its_class():
    tracer = Tracer()
    tracer.root, tracer.graph = nn.Module(), fxcore.Graph()

    tracer.create_arg(torch.Size((2, 3)))

    assert not len(tracer.graph.nodes)


class LayerWithConstant(nn.Module):
    """A layer with a plain tensor behind another one without it: the second layer is searched late."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Identity(), nn.Identity()
        self.first.note, self.second.note = 1, torch.ones(2)

    def forward(self, x):
        return x + self.second.note + torch.zeros(2)


def test_a_constant_of_a_layer_is_read_where_it_is_and_a_constant_of_no_module_is_marked():
    traced = fxcore.symbolic_trace(LayerWithConstant())

    reads = {node.target: node.meta.get("is_lifted") for node in traced.graph.nodes if node.op == "get_attr"}
    assert reads == {"second.note": None, "_tensor_constant0": True}


class Writes(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(1))
        self.register_buffer("total", torch.zeros(1))
        self.plain = torch.zeros(1)

    def forward(self, x):
        self.plain += 1
        self.total += 1
        self.count = torch.ones(1)
        return x


def test_tensors_that_forward_writes_or_replaces_are_noted():
    notes = Tracer().trace(Writes()).guards.notes

    told = "forward writes self.{} while it is traced, and the graph does not"
    assert sorted(notes) == [told.format(path) for path in ("count", "plain", "total")]
    assert Tracer().trace(Model()).guards == ()


def test_a_trace_of_a_graph_module_keeps_its_guards():
    traced = fxcore.symbolic_trace(lambda x: x + 1 if x.shape[0] > 2 else x, example_inputs=(torch.ones(4),))

    assert list(map(str, Tracer().trace(traced).guards)) == list(map(str, traced.graph.guards)) != []


def test_functions_are_replaced_during_a_trace_only_for_a_torch_that_needs_it(monkeypatch):
    calls = []
    monkeypatch.setattr(recorded_functions, "patch_recorded", lambda patcher: calls.append("patch"))
    monkeypatch.setattr(recorded_functions, "restore_targets", lambda graph: calls.append("restore"))
    found = []
    for is_able in (True, False):
        monkeypatch.setattr(recorded_functions, "are_recorded_by_torch", lambda is_able=is_able: is_able)
        Tracer().trace(lambda x: x + 1)
        found.append(tuple(calls))

    assert found == [(), ("patch", "restore")]


def test_functions_in_the_globals_of_every_forward_are_recorded():
    def made(names):
        exec("def forward(x):\n    return sqrt(x)", names)
        return names["forward"]

    def sights(fx):
        first, second, third = Plain(), Plain(), Plain()
        second.forward, third.forward = made({"sqrt": math.sqrt}), made({"sqrt": math.sqrt})
        ways = {"sqrt": math.sqrt, "nn": nn}
        exec("class Only(nn.Module):\n    def forward(self, x):\n        return sqrt(x)", ways)
        return fx.Tracer().trace(nn.Sequential(first, second, third, ways["Only"]()))

    assert_same_success(sights)


class Plain(nn.Module):
    def forward(self, x):
        return x + 1


class CallsItself(nn.Module):
    def _call_impl(self, *args, **kwargs):
        raise AssertionError("called")


def test_a_module_that_is_called_in_its_own_way_is_recorded_too():
    def called(*args):
        raise AssertionError("called")

    def sights(fx):
        class Leaves(fx.Tracer):
            def is_leaf_module(self, module, path):
                return True

        compiled = nn.ReLU()
        compiled._compiled_call_impl = called
        return [Leaves().trace(nn.Sequential(nn.Tanh(), odd)) for odd in (compiled, CallsItself())]

    assert_same_success(sights)


def test_parameters_have_no_known_shape_unless_asked_for():
    class Shaped(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2, 3))

        def forward(self, x):
            return x.reshape(self.weight.shape)

    assert [str(Tracer(param_shapes_constant=known).trace(Shaped())) for known in (False,)] == [
        str(Tracer().trace(Shaped()))
    ]
    assert len(Tracer().trace(Shaped()).nodes) > len(Tracer(param_shapes_constant=True).trace(Shaped()).nodes)


def test_undoing_a_part_of_a_trace_forgets_its_parameters_alone():
    class Undoes(nn.Linear):
        def forward(self, x):
            kept = self.weight
            progress = x.tracer._progress()
            self.bias  # noqa: B018
            x.tracer._return_to(progress)
            return x + kept + self.bias + self.weight

    nodes = Tracer().trace(Undoes(2, 2)).nodes

    assert [node.target for node in nodes if node.op == "get_attr"] == ["weight", "bias"]


@pytest.mark.parametrize(
    ("is_imported", "is_available", "is_initialized", "is_patched"),
    [
        (False, False, False, False),
        (True, False, False, True),
        (False, True, False, False),
        (False, True, True, True),
        (True, True, True, True),
    ],
)
def test_collectives_are_recorded_where_somebody_may_call_them(
    monkeypatch, is_imported, is_available, is_initialized, is_patched
):
    calls = []
    monkeypatch.setattr(tracer_file, "patch_collectives", calls.append)
    monkeypatch.setattr(tracer_file, "FUNCTIONAL", "sys" if is_imported else "a module that nobody imported")
    monkeypatch.setattr(torch.distributed, "is_available", lambda: is_available)
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: is_initialized, raising=False)

    Tracer().trace(lambda x: x + 1)

    assert bool(calls) is is_patched


def test_a_forward_is_traced_again_with_the_tracer_and_the_arguments_of_the_first_trace():
    class Own(Tracer):
        pass

    def forward(self, x, is_negated):
        return -x if is_negated else x

    made = tracer_file.retrace(forward, {"_tracer_cls": Own, "_tracer_extras": {"concrete_args": {"is_negated": True}}})
    plain = tracer_file.retrace(lambda self, x: x, {"_tracer_cls": None, "_tracer_extras": None, "note": 1})

    assert (made.graph._tracer_cls, made(2, True)) == (Own, -2)
    assert (plain.graph._tracer_cls, plain(2), plain.note) == (Tracer, 2, 1)
