from __future__ import annotations

import copy
import pickle
import re

import pytest
import torch
from torch import nn

import fxcore
from fixtures.oracle import assert_same
from fxcore import Graph, GraphModule, Tracer
from fxcore.errors import FxError, GuardError
from fxcore.graph_module import _get_attr_via_attr_list, _refuse_uncompiled


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.unused = nn.Linear(2, 2)
        self.weight = self.linear.weight
        self.constant = torch.ones(2)
        self.register_buffer("shift", torch.ones(2))

    def forward(self, x):
        return nn.functional.dropout(self.linear(x) + self.weight + self.shift + self.constant, training=self.training)


def test_state_is_shared_with_the_traced_module():
    model = Model().eval()

    traced = fxcore.symbolic_trace(model)

    assert traced.linear is model.linear
    assert traced.shift is model.shift
    assert not hasattr(traced, "unused")
    assert (traced.training, "training = False" in traced.code) == (False, True)


def test_a_module_and_its_copies_print_and_order_their_state_as_in_torch_fx():
    def sights(fx):
        traced = fx.symbolic_trace(Model())
        modules = [traced, copy.deepcopy(traced), copy.copy(traced)]
        return [(str(each), type(each).__name__, list(each.state_dict()), each.training) for each in modules]

    assert_same(sights)


def test_a_deep_copy_shares_nothing_and_keeps_what_was_shared_inside():
    traced = fxcore.symbolic_trace(Model())
    traced.meta["note"] = [1]

    copied = copy.deepcopy(traced)

    assert copied.weight is copied.linear.weight
    assert copied.weight is not traced.weight
    assert copied.meta == {"note": [1]}
    assert copied.meta["note"] is not traced.meta["note"]
    assert copied.graph.owning_module is copied
    assert type(copied).__mro__[1] is GraphModule


def test_deep_copies_of_modules_that_hold_graph_modules_run():
    outer = nn.Sequential(fxcore.symbolic_trace(nn.Sequential(nn.Linear(1, 1))), nn.ReLU())

    copied = copy.deepcopy(outer)
    outer[0].graph.output_node().args = (next(iter(outer[0].graph.nodes)),)
    outer[0].recompile()

    assert copied[0].graph.owning_module is copied[0]
    assert "call_module" in str(copied[0].graph)
    assert "self, input" in copied[0].code


def test_hooks_hear_of_copies_and_go_with_them():
    traced, copies = fxcore.symbolic_trace(Model()), []
    traced._register_deepcopy_hook(copies.append)

    first = copy.deepcopy(traced)
    second = copy.deepcopy(first)

    assert copies == [first, second]


def test_a_hook_must_be_callable():
    with pytest.raises(AssertionError, match="hook must be a callable"):
        fxcore.symbolic_trace(Model())._register_create_node_hook(3)


def test_a_dict_of_paths_is_a_root_too():
    def made(fx):
        graph = fx.Graph()
        x = graph.placeholder("x")
        parts = (graph.create_node("get_attr", "a.b.scale"), graph.create_node("call_module", "l.inner", (x,)))
        graph.output((*parts, graph.create_node("get_attr", "table"), graph.create_node("get_attr", "a.size")))
        root = {"a.b.scale": nn.Parameter(torch.ones(1)), "l.inner": nn.ReLU(), "table": torch.ones(2), "a.size": 5}
        module = fx.GraphModule(root, graph, "Assembled")
        return module, list(module.state_dict()), module(torch.ones(1)), module.graph.lint()

    assert_same(made)


@pytest.mark.parametrize(
    ("root", "words"),
    [
        ({}, r"Node scale referenced target scale but that target was not provided in ``root``!"),
        (3, r"Unsupported type .* passed for root!"),
    ],
)
def test_a_root_without_what_the_graph_reads_is_refused(root, words):
    graph = Graph()
    graph.output(graph.create_node("get_attr", "scale"))

    with pytest.raises(RuntimeError, match=words) as caught:
        GraphModule(root, graph)

    assert isinstance(caught.value, FxError)


def test_what_is_no_graph_cannot_be_assigned():
    with pytest.raises(AssertionError, match="Expected a Graph instance, but got <class 'int'>"):
        fxcore.symbolic_trace(Model()).graph = 3


def test_submodules_are_added_and_deleted_as_in_torch_fx():
    def answers(fx):
        module = fx.symbolic_trace(nn.Sequential(nn.Linear(1, 1)))
        added = [module.add_submodule(path, nn.ReLU()) for path in ("a.b.c", "0.weight.x", "d")]
        deleted = [
            module.delete_submodule(path)
            for path in ("a.b", "none", "0.weight", "a.none.x", "0.weight.shape", "0", "0")
        ]
        return added, deleted, [name for name, _ in module.named_modules()]

    assert_same(answers)


class Greets(GraphModule):
    def greeting(self):
        return "hello"


def test_a_subclass_that_others_can_import_keeps_its_methods_through_pickles():
    root = nn.Sequential(nn.Linear(1, 1))

    again = pickle.loads(pickle.dumps(Greets(root, Tracer().trace(root))))

    assert again.greeting() == "hello"
    assert type(again).__mro__[1:3] == (Greets, GraphModule)


def test_a_subclass_keeps_its_methods_through_copies():
    class Tagged(GraphModule):
        def __init__(self, root, graph, tag):
            super().__init__(root, graph, "Tagged")
            self.tag = tag

        def __deepcopy__(self, memo):
            holder = nn.Module()
            holder.__dict__ = copy.deepcopy(self.__dict__, memo)
            return Tagged(holder, copy.deepcopy(self.graph), self.tag)

        def greeting(self):
            return f"hello {self.tag}"

    root = nn.Sequential(nn.Linear(1, 1))
    copied = copy.deepcopy(Tagged(root, Tracer().trace(root), "you"))

    assert copied.greeting() == "hello you"
    assert copied(torch.ones(1)).shape == (1,)


def test_torch_scripts_exports_and_parallelises_it():
    traced = fxcore.symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    x = torch.ones(1, 2)
    expected = traced(x)

    assert torch.equal(torch.jit.script(traced)(x), expected)
    assert torch.equal(torch.export.export(traced, (x,)).module()(x), expected)
    assert torch.equal(nn.DataParallel(traced)(x), expected)
    assert torch.equal(torch.fx.symbolic_trace(traced)(x), expected)
    assert torch.equal(fxcore.symbolic_trace(traced)(x), expected)


def test_a_freed_module_frees_its_graph():
    import gc
    import weakref

    traced = fxcore.symbolic_trace(Model())
    traced(torch.ones(2))
    graph, module = weakref.ref(traced.graph), weakref.ref(traced)

    del traced
    gc.collect()

    assert (graph(), module()) == (None, None)


def failing(x, y):
    return torch.relu(x) @ y + 1


def test_a_failure_in_generated_code_is_shown_with_its_lines(capsys):
    def printed(fx):
        module = fx.symbolic_trace(failing)
        with pytest.raises(RuntimeError, match="inconsistent tensor size"):
            module(torch.ones(2), torch.ones(3))
        return re.sub(r"(?s).*Call using", "Call using", capsys.readouterr().err)

    assert_same(printed)
    printed(fxcore)
    assert "matmul = relu @ y" in printed(fxcore)


def test_a_failure_elsewhere_is_left_to_python(capsys):
    module = fxcore.symbolic_trace(nn.Sequential(nn.Linear(3, 4)))

    with pytest.raises(RuntimeError):
        module(torch.ones(2))
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        module()

    assert "HERE" not in capsys.readouterr().err


def test_modules_that_are_not_needed_are_deleted_as_torch_fx_deletes_them():
    def left(fx):
        root = nn.Sequential(nn.Linear(1, 1), nn.Sequential(nn.ReLU(), nn.Linear(1, 1)), nn.Sequential(nn.Tanh()))
        module = fx.symbolic_trace(root)
        module.add_submodule("spare.inside", nn.Linear(1, 1))
        module.add_submodule("0.below_a_called_one", nn.ReLU())
        tanh = list(module.graph.nodes)[-2]
        tanh.replace_all_uses_with(tanh.args[0])
        module.graph.erase_node(tanh)
        module.delete_all_unused_submodules()
        return [name for name, _ in module.named_modules()], module

    assert_same(left)


def test_a_module_whose_parameter_is_read_stays():
    class Reads(nn.Module):
        def __init__(self):
            super().__init__()
            self.outer = nn.Sequential(nn.Linear(1, 1), nn.ReLU())

        def forward(self, x):
            return x + self.outer[0].weight

    traced = fxcore.symbolic_trace(Reads())
    traced.add_submodule("outer.1", nn.ReLU())

    traced.delete_all_unused_submodules()

    assert [path for path, _ in traced.named_modules()] == ["", "outer", "outer.0"]
    assert list(traced.state_dict()) == ["outer.0.weight"]


class Inner(nn.Module):
    def forward(self, x):
        return torch.relu(x)


def test_a_module_and_those_inside_are_one_readable_class(capsys):
    def texts(fx):
        class Outer(nn.Module):
            def __init__(self):
                super().__init__()
                self.inside = fx.symbolic_trace(Inner())

            def forward(self, x):
                return self.inside(x) + 1

        class KeepsGraphModules(fx.Tracer):
            def is_leaf_module(self, m, module_qualified_name):
                return isinstance(m, fx.GraphModule)

        root = Outer()
        module = fx.GraphModule(root, KeepsGraphModules().trace(root), "Named")
        for node in module.graph.nodes:
            node.meta["val"] = torch.ones(2, 3)
            node.stack_trace = 'File "model.py", line 3, in forward\n    return x'
        options = [{}, {"include_stride": True, "include_device": True}, {"colored": True}, {"expanded_def": True}]
        returned = [module.print_readable(**chosen) for chosen in options]
        return returned, capsys.readouterr().out, module.print_readable(print_output=False), str(module)

    assert_same(texts)


def test_a_replica_for_data_parallelism_runs_and_says_that_it_is_one():
    gm = fxcore.symbolic_trace(nn.Linear(2, 2))

    replica = gm._replicate_for_data_parallel()

    assert replica._is_replica
    assert not hasattr(gm, "_is_replica")
    assert torch.equal(replica(torch.ones(1, 2)), gm(torch.ones(1, 2)))


def test_an_attribute_is_read_by_the_list_of_its_names():
    model = nn.Sequential(nn.Linear(2, 2))

    assert _get_attr_via_attr_list(model, ["0", "weight"]) is model[0].weight
    assert _get_attr_via_attr_list(model, []) is model


class WithoutMode(nn.Module):
    def __init__(self):
        super().__init__()
        del self.__dict__["training"]


@pytest.mark.parametrize(
    ("root", "training"),
    [(nn.Module(), True), (nn.Module().eval(), False), (WithoutMode(), True), ({}, True)],
    ids=["training", "evaluating", "no mode", "dict"],
)
def test_a_module_is_in_the_mode_of_its_root(root, training):
    graph = Graph()
    graph.output(None)

    assert GraphModule(root, graph).training is training


def test_a_child_that_overrides_recompile_is_compiled_again_with_its_parent(monkeypatch):
    monkeypatch.setattr(GraphModule, "_somebody_overrides_recompile", False)

    class Recompiles(GraphModule):
        times = 0

        def recompile(self):
            Recompiles.times += 1
            return super().recompile()

    inner, outer = Graph(), Graph()
    inner.output(None)
    root = nn.Module()
    root.inner = Recompiles({}, inner)
    outer.output(outer.call_module("inner"))
    module = GraphModule(root, outer)
    before = Recompiles.times

    module.recompile()

    assert Recompiles.times == before + 1


def test_a_subclass_that_overrides_recompile_is_known(monkeypatch):
    monkeypatch.setattr(GraphModule, "_somebody_overrides_recompile", False)
    type("Plain", (GraphModule,), {})
    assert not GraphModule._somebody_overrides_recompile

    type("Own", (GraphModule,), {"recompile": GraphModule.recompile})

    assert GraphModule._somebody_overrides_recompile


def test_a_module_without_a_graph_cannot_write_its_code():
    module = GraphModule.__new__(GraphModule)

    with pytest.raises(RuntimeError, match=r"cannot write the code of this .*: .* has no attribute '_code'") as caught:
        _ = module.code

    assert isinstance(caught.value, FxError)


def test_paths_that_nodes_use_are_texts():
    module = fxcore.symbolic_trace(nn.Sequential(nn.ReLU(), nn.Tanh()))
    module.graph.call_method("1", (next(iter(module.graph.nodes)),))
    tanh = next(node for node in module.graph.nodes if node.target == "1")
    tanh.replace_all_uses_with(tanh.args[0])
    module.graph.erase_node(tanh)

    module.delete_all_unused_submodules()

    assert [path for path, _ in module.named_modules()] == ["", "0"]


class Guarded(nn.Module):
    """The guard needs a buffer that the graph itself does not read."""

    def __init__(self):
        super().__init__()
        self.register_buffer("limit", torch.ones(2))

    def forward(self, x):
        return x + 1 if fxcore.assume(x.sum() > self.limit.sum()) else x - 1


def test_attributes_that_only_guards_read_are_copied():
    traced = fxcore.symbolic_trace(Guarded(), example_inputs=(torch.ones(4),))
    traced.graph.eliminate_dead_code()
    assert not [node for node in traced.graph.nodes if node.op == "get_attr"]

    copied = GraphModule(Guarded(), traced.graph)

    assert [name for name, _ in copied.named_buffers()] == ["limit"]
    copied.check_guards(torch.ones(3))
    assert list(GraphModule(Guarded(), fxcore.Tracer().trace(lambda x: x + 1)).buffers()) == []


class KnownTracer(Tracer):
    pass


def test_a_module_keeps_the_tracer_that_another_process_can_import_and_its_extras():
    class Local(Tracer):
        pass

    def noted(kind, extras):
        module = GraphModule(nn.Module(), Graph(tracer_cls=kind, tracer_extras=extras))
        return module._tracer_cls, module._tracer_extras

    assert noted(KnownTracer, {"a": 1}) == (KnownTracer, {"a": 1})
    assert noted(Local, None) == (None, {})


def test_compiling_a_module_compiles_its_changed_children(monkeypatch):
    monkeypatch.setattr(GraphModule, "_somebody_overrides_recompile", False)
    parent = fxcore.symbolic_trace(nn.Sequential(nn.ReLU(), nn.Tanh()))
    parent.add_submodule("child", fxcore.symbolic_trace(lambda x: x + 1))
    add = next(node for node in parent.child.graph.nodes if node.op == "call_function")
    add.args = (add.args[0], 5)
    assert "x + 5" not in parent.child.code

    parent.recompile()

    assert "x + 5" in parent.child.code


def test_an_error_of_a_graph_with_broken_guards_that_nobody_enforces_stays():
    def function(x):
        return (x if x.shape[0] > 3 else -x).reshape(2, -1)

    traced = fxcore.symbolic_trace(function, example_inputs=(torch.ones(4),), enforce_guards=False)

    with pytest.raises(RuntimeError):
        traced(torch.ones(3))


def test_a_pickle_names_the_class_that_another_process_can_import():
    class Local(GraphModule):
        pass

    def named(kind):
        return kind(nn.Module(), Graph()).__reduce__()[1][0]

    assert [named(kind) for kind in (GraphModule, Greets, Local)] == [None, Greets, None]


def test_a_compilation_fails_for_a_guard_only_if_the_inputs_break_it():
    traced = fxcore.symbolic_trace(lambda x: x + 1 if x.shape[0] > 2 else x, example_inputs=(torch.ones(4),))
    error = ValueError("no graph")

    assert _refuse_uncompiled(traced, (torch.ones(3),), {}, error) is None
    assert _refuse_uncompiled(traced, (), {"x": torch.ones(3)}, error) is None
    with pytest.raises(GuardError) as caught:
        _refuse_uncompiled(traced, (torch.ones(2),), {}, error)

    assert caught.value.__cause__ is error
