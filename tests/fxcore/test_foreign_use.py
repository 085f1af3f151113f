"""Programs as libraries write them: tracers of their own, and names that are private but widely used."""

from __future__ import annotations

import copy
import importlib
import operator
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.fx
import torch.fx._symbolic_trace
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

import fxcore
import fxcore._symbolic_trace
from fixtures.oracle import assert_same
from fxcore import interop
from fxcore.codegen import globals as generated_globals
from fxcore.node_data import namespace


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x, mask=None):
        y = self.linear(x) * self.scale
        return y if mask is None else y + mask


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])

    def forward(self, x, mask=None):
        for block in self.blocks:
            x = block(x, mask)
        if x.size(0) > 1:
            x = x.mean(dim=0, keepdim=True)
        return x


# Tracers as libraries write them.


def shape_aware_tracer(fx):
    """Return a tracer whose proxies know their shape, as language-model libraries have it."""

    class ShapedProxy(fx.Proxy):
        def install(self, shape):
            self._shape = shape
            return self

        def size(self, dim=None):
            return self._shape if dim is None else self._shape[dim]

        def __bool__(self):
            return self._shape.numel() > 0

    class ShapedTracer(fx.Tracer):
        def __init__(self, shapes):
            super().__init__()
            self.shapes = shapes

        def proxy(self, node):
            return ShapedProxy(node, self)

        def create_proxy(self, kind, target, args, kwargs, name=None, type_expr=None, proxy_factory_fn=None):
            made = super().create_proxy(kind, target, args, kwargs, name, type_expr, proxy_factory_fn)
            if kind in ("placeholder", "get_attr"):
                return made.install(self.shapes[target])
            read = []
            fx.node.map_aggregate((args, kwargs), lambda a: read.append(a._shape) if isinstance(a, fx.Proxy) else a)
            return made.install(torch.broadcast_shapes(*read))

        def create_args_for_root(self, root_fn, is_module, concrete_args=None):
            function, arguments = super().create_args_for_root(root_fn, is_module, concrete_args)
            self.number_of_arguments = len(arguments)
            return function, arguments

        def path_of_module(self, mod):
            try:
                return super().path_of_module(mod)
            except NameError:
                self.root.add_module("stateless", mod)
                return "stateless"

        def trace(self, root, concrete_args=None):
            self.shapes |= {name: value.shape for name, value in root.state_dict().items()}
            self.graph = super().trace(root, concrete_args)
            for node in self.graph.nodes:
                if node.op == "placeholder":
                    node.args = ()
            return self.graph

    return ShapedTracer


def test_a_tracer_whose_proxies_know_shapes():
    def graph(fx):
        tracer = shape_aware_tracer(fx)({"x": torch.Size([3, 4]), "mask": torch.Size([4])})
        graph = tracer.trace(Model())
        return graph, tracer.number_of_arguments

    assert_same(graph)
    assert "mean" in [node.name for node in graph(fxcore)[0].nodes]


def scoped_tracer(fx):
    """Return a tracer that skips modules by name and notes where each node comes from, as quantizers have it."""

    class ScopedTracer(fx.Tracer):
        def __init__(self, skipped):
            super().__init__()
            self.skipped = skipped
            self.record_stack_traces = True
            self.scope = fx.proxy.Scope("", None)

        def is_leaf_module(self, m, module_qualified_name):
            ours = m.__module__.startswith("torch.nn") and not isinstance(m, nn.Sequential)
            return ours or module_qualified_name in self.skipped

    return ScopedTracer


def test_a_scope_has_the_path_of_another_inside_a_block():
    def paths(fx):
        scope, found = fx.proxy.Scope("outer", nn.Sequential), []
        with fx.proxy.ScopeContextManager(scope, fx.proxy.Scope("outer.inner", nn.ReLU)) as inner:
            found += [inner is scope, scope.module_path, scope.module_type]
        return [*found, scope.module_path, scope.module_type]

    assert paths(fxcore) == paths(torch.fx) == [True, "outer.inner", nn.ReLU, "outer", nn.Sequential]


def test_an_object_makes_its_own_argument():
    class Pair:
        def __init__(self, x):
            self.x = x

        def __fx_create_arg__(self, tracer):
            return tracer.create_node("call_function", torch.stack, ([self.x.node, self.x.node],), {})

    def graph(fx):
        return str(fx.symbolic_trace(lambda x: torch.nn.functional.relu(x.add(Pair(x)))).graph)

    assert_same(graph)
    assert "torch.stack" in graph(fxcore)


def test_a_tracer_that_keeps_scopes():
    def scopes(fx):
        tracer = scoped_tracer(fx)(["blocks.0"])
        tracer.trace(nn.ModuleDict({"blocks": nn.Sequential(Block(), Block())})["blocks"])
        return {
            name: (path, getattr(kind, "__name__", kind)) for name, (path, kind) in tracer.node_name_to_scope.items()
        }

    assert scopes(fxcore) == scopes(torch.fx)


def own_trace(fx):
    """Return a tracer whose `trace` is written anew out of the parts of torch's."""
    parts = fx._symbolic_trace

    class OwnTracer(fx.Tracer):
        @parts.compatibility(is_backward_compatible=True)
        def trace(self, root, concrete_args=None):
            self.root, self.graph = root, fx.Graph(tracer_cls=type(self))
            self.submodule_paths = {module: path for path, module in root.named_modules()}
            self.tensor_attrs = {}
            function = type(root).forward
            names = function.__globals__
            function, arguments = self.create_args_for_root(function, True, concrete_args)
            cache = {}

            def read(module, name):
                return self.getattr(name, parts._orig_module_getattr(module, name), cache)

            def call(module, *args, **kwargs):
                def forward(*args, **kwargs):
                    return parts._orig_module_call(module, *args, **kwargs)

                parts._autowrap_check(patcher, type(module).forward.__globals__, self._autowrap_function_ids)
                return self.call_module(module, forward, args, kwargs)

            with parts._Patcher() as patcher:
                patcher.patch_method(nn.Module, "__getattr__", read, deduplicate=False)
                patcher.patch_method(nn.Module, "__call__", call, deduplicate=False)
                parts._patch_wrapped_functions(patcher)
                parts._autowrap_check(patcher, names, self._autowrap_function_ids)
                self.create_node("output", "output", (self.create_arg(function(*arguments)),), {})
            self.submodule_paths = None
            return self.graph

    return OwnTracer


def test_a_trace_written_anew_out_of_private_parts():
    call, read = nn.Module.__call__, nn.Module.__getattr__

    assert_same(lambda fx: own_trace(fx)().trace(Block()))

    assert nn.Module.__call__ is call
    assert nn.Module.__getattr__ is read


def test_a_patcher_puts_functions_over_names_of_a_module_and_takes_them_away():
    def own_len(value):
        return 3

    def other(value):
        return 4

    names = {"relu": torch.relu}
    with fxcore._symbolic_trace._Patcher() as patcher:
        patcher.patch(names, "len", own_len)
        patcher.patch(names, "relu", own_len)
        patcher.patch(names, "relu", other)  # somebody did so already
        assert names == {"relu": own_len, "len": own_len}
        patcher.patch_method(Block, "forward", own_len)
        patcher.patch_method(Block, "forward", other)
        assert Block.forward is own_len

    assert names == {"relu": torch.relu}
    assert Block.forward is not own_len


def test_whether_somebody_is_tracing_is_known_while_tracing():
    answers = []

    def program(x):
        answers.append(fxcore._symbolic_trace.is_fx_tracing())
        answers.append(fxcore._symbolic_trace.is_fx_symbolic_tracing())
        return x + 1

    fxcore.symbolic_trace(program)

    assert answers == [True, True]
    assert not fxcore._symbolic_trace.is_fx_symbolic_tracing()
    assert not fxcore._symbolic_trace.is_fx_tracing()


# Private names of graphs, nodes and graph modules.


def test_the_list_of_nodes_is_walked_by_hand():
    def walked(fx):
        graph = fx.symbolic_trace(Block()).graph
        names, node = [], graph._root._next
        while node is not graph._root:
            names.append(node.name)
            node = node._next
        return names, graph._root._prev.name, graph._root.op, len(graph.nodes), graph._len

    assert walked(fxcore) == walked(torch.fx)


def test_names_are_taken_from_the_namespace_of_a_graph():
    def names(fx):
        graph = fx.symbolic_trace(Block()).graph
        return [graph._graph_namespace.create_name(name, None) for name in ("linear", "linear", "fresh", "2d")]

    assert names(fxcore) == names(torch.fx)


def test_the_calling_convention_is_carried_from_one_graph_to_another():
    def code(fx):
        traced = fx.symbolic_trace(lambda x: x["a"] + x["b"], concrete_args={"x": {"a": fx.PH, "b": fx.PH}})
        graph, copies = fx.Graph(), {}
        graph.output(graph.graph_copy(traced._graph, copies))
        graph._codegen = copy.deepcopy(traced.graph._codegen)
        graph._tracer_cls = traced.graph._tracer_cls
        assert isinstance(graph._codegen, fx.graph._PyTreeCodeGen)
        return fx.GraphModule(traced, graph)({"a": 1, "b": 2})

    assert code(fxcore) == code(torch.fx) == 3


def test_attributes_are_moved_between_modules_by_path():
    def moved(fx):
        source, target = Model(), nn.Module()
        fx.graph_module._copy_attr(source, target, "blocks.0.scale")
        fx.graph_module._copy_attr(source, target, "blocks.1.linear")
        fx.graph_module._assign_attr(torch.zeros(1), target, "other.buffer")
        assert fx.graph_module._get_attr(target, "blocks.0.scale") is source.blocks[0].scale
        fx.graph_module._del_attr(target, "blocks.0.scale")
        return sorted(target.state_dict()), fx.graph_module._has_attr(target, "other")

    assert moved(fxcore) == moved(torch.fx)


class TwoGraphs:
    """A graph module with two graphs, which takes its base class's `__init__` apart, as vision libraries have it."""

    @staticmethod
    def of(fx):
        class DualGraphModule(fx.GraphModule):
            def __init__(self, root, train_graph, eval_graph):
                super(fx.GraphModule, self).__init__()
                self.train_graph, self.eval_graph = train_graph, eval_graph
                for node in (*train_graph.nodes, *eval_graph.nodes):
                    if node.op in ("get_attr", "call_module"):
                        fx.graph_module._copy_attr(root, self, node.target)
                self.train()
                self.graph = train_graph

            def train(self, mode=True):
                if mode != self.training:
                    self.graph = self.train_graph if mode else self.eval_graph
                return super().train(mode)

            def __deepcopy__(self, memo):
                body = fx.graph_module._CodeOnlyModule(copy.deepcopy(self.__dict__, memo))
                return DualGraphModule(body, body.__dict__["train_graph"], body.__dict__["eval_graph"])

        return DualGraphModule


def test_a_graph_module_of_two_graphs():
    def codes(fx):
        model = Block()
        short = fx.symbolic_trace(nn.Sequential(model.linear)).graph
        for node in short.find_nodes(op="call_module"):
            node.target = "linear"
        module = TwoGraphs.of(fx)(model, fx.symbolic_trace(model).graph, short)
        training = module.code
        copied = copy.deepcopy(module).eval()
        return training, module.eval().code, copied.code, sorted(copied.state_dict())

    assert codes(fxcore) == codes(torch.fx)


def test_functions_are_named_as_libraries_ask():
    functions = (torch.relu, operator.add, torch.nn.functional.relu, len, torch.Tensor.add)

    assert [fxcore.node._get_qualified_name(f) for f in functions] == [
        torch.fx.node._get_qualified_name(f) for f in functions
    ]
    assert fxcore.node.base_types == torch.fx.node.base_types
    assert fxcore.graph.inplace_methods == torch.fx.graph.inplace_methods
    assert fxcore.graph.magic_methods.items() <= torch.fx.graph.magic_methods.items()


class Constant:
    def __repr__(self):
        return "FOREIGN_CONSTANT"


FOREIGN_CONSTANT = Constant()


@pytest.fixture
def _builtins_are_left_as_they_were(monkeypatch):
    # Registrations are for good, and other tests compare all globals of generated code with torch.fx's.
    monkeypatch.setattr(generated_globals, "CUSTOM_BUILTINS", dict(generated_globals.CUSTOM_BUILTINS))
    monkeypatch.setattr(namespace, "_RESERVED", dict(namespace._RESERVED))


@pytest.mark.usefixtures("_builtins_are_left_as_they_were")
def test_an_object_of_ones_own_is_named_in_generated_code():
    fxcore.graph._register_custom_builtin("FOREIGN_CONSTANT", "FOREIGN_CONSTANT = 1", FOREIGN_CONSTANT)
    graph = fxcore.Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_function(max, (x, 1)))

    module = fxcore.GraphModule({}, graph)

    assert module.forward.__globals__["FOREIGN_CONSTANT"] is FOREIGN_CONSTANT
    assert graph._graph_namespace.create_name("FOREIGN_CONSTANT", None) == "FOREIGN_CONSTANT_1"


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_graphs_of_make_fx_are_edited_and_run(mode):
    def program(x, y):
        return torch.nn.functional.gelu(x @ y).sum(0), x * 2

    x, y = torch.randn(3, 4), torch.randn(4, 5)
    theirs = make_fx(program, tracing_mode=mode)(x, y)

    ours = interop.from_torch(theirs)
    for node in ours.graph.find_nodes(op="call_function", target=torch.ops.aten.gelu.default):
        node.target = torch.ops.aten.relu.default
    ours.recompile()

    assert ours.code.count("relu.default") == 1
    torch.testing.assert_close(ours(x, y), [torch.relu(x @ y).sum(0), x * 2], check_stride=False)
    assert ours.graph.find_nodes(op="placeholder")[0].meta == theirs.graph.find_nodes(op="placeholder")[0].meta


# Names that quantizers, accelerators and torch itself import.


def scaled(x):
    return x * 2


TABLE = torch.arange(4)


def check_registrations():
    """Trace with a function and a method that a library registered, by both libraries."""

    def graph(fx):
        parts = fx._symbolic_trace
        parts._wrapped_fns_to_patch[id(globals()), "scaled"] = globals()
        parts._wrapped_methods_to_patch.append((torch.Tensor, "__getitem__"))
        try:
            return fx.symbolic_trace(lambda x: TABLE[scaled(x)]).graph
        finally:
            parts._wrapped_methods_to_patch.remove((torch.Tensor, "__getitem__"))

    assert_same(graph)
    assert [node.target for node in graph(fxcore).nodes][1:-1] == [scaled, "_tensor_constant0", "__getitem__"]
    assert torch.equal(TABLE[scaled(1)], torch.tensor(2))


@pytest.mark.slow
def test_functions_and_methods_that_a_library_registers_are_recorded():
    # In a process of its own: after a replacement of Tensor.__getitem__, torch.tensor([x.sum()]) fails for good.
    program = "from tests.fxcore.test_foreign_use import check_registrations; check_registrations()"
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


def test_the_flag_of_tracing_can_be_put_down_for_a_while():
    parts, answers = fxcore._symbolic_trace, []

    def program(x):
        flag, parts._is_fx_tracing_flag = parts._is_fx_tracing_flag, False
        answers.append(parts.is_fx_tracing())
        parts._is_fx_tracing_flag = flag
        answers.append(parts.is_fx_tracing())
        return x + 1

    fxcore.symbolic_trace(program)

    assert [*answers, bool(parts._is_fx_tracing_flag)] == [False, True, False]


def test_parts_of_a_tracer_written_anew():
    def parts_of(fx):
        parts = fx._symbolic_trace
        patched = parts._patch_function(lambda *args, **kwargs: (args, kwargs), 2)
        kinds = [kind.__name__ for kind in parts._constant_attribute_types]
        doubled = parts.map_aggregate([1, (2, {"a": 3})], lambda leaf: leaf * 2)
        return patched("as", "it is"), parts.HAS_VARSTUFF, kinds, str(parts._ConstantAttributeType), doubled

    assert_same(parts_of)
    assert fxcore._symbolic_trace._proxyable_classes is not None


def test_arguments_are_written_below_the_setters():
    graph = fxcore.symbolic_trace(lambda x, y: x + y).graph
    x, y, add, _ = graph.nodes

    add._update_args_kwargs((y, 1), {})

    assert (add.args, x.users, list(y.users)) == ((y, 1), {}, [add])


def test_side_effects_that_a_library_registers_keep_a_call():
    def effect(x):
        return None

    graph = fxcore.Graph()
    graph.output(graph.placeholder("x"))
    with graph.inserting_before(graph.output_node()):
        graph.call_function(effect, tuple(graph.find_nodes(op="placeholder")))
    fxcore.node._side_effectful_functions.add(effect)
    try:
        graph.eliminate_dead_code()
    finally:
        fxcore.node._side_effectful_functions.discard(effect)

    assert [node.name for node in graph.nodes] == ["x", "effect", "output"]


def test_code_that_takes_a_list_of_inputs():
    def boxed(fx):
        module = fx.symbolic_trace(lambda x, y=2: x + y)
        module.graph.set_codegen(fx.graph._BoxedCodeGen())
        module.recompile()
        inputs = [torch.ones(2), 3]
        return module.code, module(inputs), inputs

    assert_same(boxed)


def test_frames_of_formatted_stacks():
    stack = 'File "a.py", line 1, in f\n    x = g(x)\nFile "b.py", line 2, in g\n    return x'

    def frames(fx):
        parse = fx.graph._parse_stack_trace
        found = (parse(stack), parse(stack, lambda file, name, code: file == "a.py"))
        return [(each.file, each.lineno, each.name, each.code, each.get_summary_str()) for each in found]

    assert_same(frames)


def test_signatures_of_schemas():
    def signatures(fx):
        schemas = importlib.import_module(f"{fx.__name__}.operator_schemas")
        schema = torch.ops.aten.add.Tensor._schema
        kinds = [schemas._torchscript_type_to_python_type(argument.type) for argument in schema.arguments]
        signature = schemas._torchscript_schema_to_signature(schema)
        assert schemas._SCHEMA_TO_SIGNATURE_CACHE["aten::add", "Tensor"] is signature
        found = schemas._normalize_function_or_error(torch.ops.aten.relu.default, (1,), {})
        return str(kinds), str(signature), tuple(found)

    assert_same(signatures)
    with pytest.raises(RuntimeError, match="Failed to normalize function"):
        fxcore.operator_schemas._normalize_function_or_error(torch.ops.aten.relu.default, (), {})


def test_the_metadata_that_is_taken_over_is_a_module_variable():
    traceback = fxcore.traceback
    with traceback.preserve_node_meta():
        traceback.current_meta["custom"] = {"note": 1}
        graph = fxcore.symbolic_trace(lambda x: x + 1).graph
        answers = traceback.should_preserve_node_meta, traceback.current_replay_node

    assert answers == (True, None)
    assert [node.meta["custom"] for node in graph.nodes] == [{"note": 1}] * 3
    assert "custom" not in traceback.current_meta


def test_a_proxy_that_claims_the_class_of_its_value_is_a_leaf():
    def leaves(fx):
        class ValueProxy(fx.Proxy):
            value = None

            @property
            def __class__(self):
                if self.value is None:
                    raise LookupError("no value is known")
                return type(self.value)

        proxies = [ValueProxy(node, fx.proxy.TracerBase()) for node in fx.symbolic_trace(Block()).graph.nodes]
        proxies[0].value = [1, 2]
        found = []
        fx.node.map_aggregate((proxies[0], [proxies[1]]), found.append)
        return [proxy.node.name for proxy in found]

    assert_same(leaves)


SAME_NAMES = [
    "graph.map_arg",
    "graph._InsertPoint",
    "graph._custom_builtins",
    "graph._node_list",
    "graph_module._print_readable",
    "graph_module._get_attr_via_attr_list",
    "node.BaseArgumentTypes",
    "proxy.base_types",
    "proxy._COPY_META_FIELDS",
    "passes.infra.pass_manager._topological_sort_passes",
    "passes.utils.matcher_with_name_node_map_utils._split_to_graph_and_name_node_map",
    "passes.utils.fuser_utils.legalize_graph",
    "config.do_not_emit_stack_traces",
    "_pytree._deregister_pytree_flatten_spec",
    "_pytree.SUPPORTED_NODES",
]


@pytest.mark.parametrize("name", SAME_NAMES)
def test_a_private_name_that_libraries_import_is_of_the_same_kind(name):
    module, _, attribute = name.rpartition(".")
    ours, theirs = (
        getattr(importlib.import_module(f"{package}.{module}"), attribute) for package in ("fxcore", "torch.fx")
    )

    if callable(theirs) and theirs != ours:
        assert callable(ours)
    elif isinstance(theirs, dict):
        assert {getattr(key, "__name__", key) for key in ours} <= {getattr(key, "__name__", key) for key in theirs}
    else:
        assert ours == theirs
