from __future__ import annotations

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import PythonKeyTracer, make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.fx.passes.split_module import split_module

import fxcore
from fixtures.torch_versions import TORCH
from pytest_fxgraph.captures.subjects import to_graph_module
from pytest_fxgraph.document.builder import build_document

SQUARE = torch.ones(3, 3)


class Lifts(nn.Module):
    """Has a tensor of its own for each way to have one, and meets another in its code."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.register_buffer("_tensor_constant7", torch.ones(3))
        self.lifted_tensor_x = torch.arange(3.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x) + self._tensor_constant7 + self.lifted_tensor_x + torch.tensor([1.0, 2.0, 3.0])


class Chooses(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))


class ChoosesAndLifts(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos() + torch.tensor([0.5]), (x,))


def document_of(subject):
    return build_document(to_graph_module(subject))


def names(document):
    """Map each name that nobody chose to what made it."""
    records = [(record.path, record.name_from) for record in (*document.modules, *document.state)]
    records += [(node.target, node.name_from) for node in document.nodes]
    return {name: name_from for name, name_from in records if name_from is not None}


def captured_by_dynamo(function, *inputs, dynamic=None):
    captured = []

    def keep(gm, _):
        captured.append(gm)
        return gm.forward

    torch._dynamo.reset()
    torch.compile(function, backend=keep, dynamic=dynamic)(*inputs)
    torch._dynamo.reset()
    return captured[0]


def test_a_constant_that_tracing_met_is_told_from_a_buffer_that_is_spelled_like_one():
    assert names(document_of(Lifts())) == {"_tensor_constant0": "lifting"}
    assert names(document_of(fxcore.symbolic_trace(Lifts()))) == {"_tensor_constant0": "lifting"}


def test_what_is_lifted_stays_known_in_a_copy():
    import copy
    import pickle

    gm = fxcore.symbolic_trace(Lifts())

    for duplicate in (copy.deepcopy(gm), pickle.loads(pickle.dumps(gm))):
        assert names(document_of(duplicate)) == {"_tensor_constant0": "lifting"}


def test_where_nothing_tells_a_name_is_the_users():
    def of_the_user(x_1, arg0_1, primals_1, l_x_):
        return x_1 + arg0_1 + primals_1 + l_x_

    # torch.fx keeps a lifted constant as a buffer like any other.
    assert names(document_of(torch.fx.symbolic_trace(Lifts()))) == {}
    assert names(document_of(torch.fx.symbolic_trace(of_the_user))) == {}
    assert names(document_of(of_the_user)) == {}


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_inputs_and_tensors_of_make_fx_have_names_that_nobody_chose(mode):
    def function(x, y):
        return x + y["a"] + torch.tensor([1.0, 2.0, 3.0])

    gm = make_fx(function, tracing_mode=mode)(SQUARE, {"a": SQUARE})

    assert names(document_of(gm)) == {"x_1": "position", "y_1": "position", "_tensor_constant0": "lifting"}


def test_what_a_pass_adds_to_a_graph_of_make_fx_is_the_users():
    gm = make_fx(lambda x: x + 1)(SQUARE)
    gm.register_buffer("scale", torch.ones(3))
    output = next(node for node in gm.graph.nodes if node.op == "output")
    with gm.graph.inserting_before(output):
        scaled = gm.graph.call_function(torch.ops.aten.mul.Tensor, (output.args[0], gm.graph.get_attr("scale")))
    output.args = (scaled,)

    assert names(document_of(gm)) == {"x_1": "position"}


def test_inputs_of_an_exported_program_are_the_users_and_lifted_tensors_nobodys():
    program = torch.export.export(Lifts(), (SQUARE,))

    assert names(document_of(program)) == {"lifted_tensor_0": "lifting"}
    assert names(document_of(program.module())) == {"lifted_tensor_0": "lifting"}


def test_a_tracer_made_from_that_of_make_fx_may_keep_names_of_the_users():
    class PassTracer(PythonKeyTracer):
        pass

    gm = make_fx(lambda x: x + torch.ones(3))(SQUARE)
    gm.graph._tracer_cls = PassTracer

    assert names(document_of(gm)) == {}


def test_branches_are_named_by_what_captured_them_and_their_inputs_stand_by_place():
    for subject in (torch.export.export(Chooses(), (SQUARE,)), make_fx(ChoosesAndLifts())(SQUARE)):
        document = document_of(subject)

        assert [record.name_from for record in document.modules] == ["capture", "capture"]
        for record in document.modules:
            assert {node.name_from for node in record.graph.nodes if node.op == "placeholder"} == {"position"}
    assert names(document.modules[1].graph)["_tensor_constant0"] == "lifting"


def test_inputs_of_dynamo_are_named_by_their_source_unless_they_are_a_models_state():
    document = document_of(captured_by_dynamo(Lifts(), SQUARE))

    made = [node.target for node in document.nodes if node.name_from == "source"]
    assert made == ["L_x_"]
    state = [node.target for node in document.nodes if node.op == "placeholder" and node.name_from is None]
    assert len(state) == 4


def test_a_symbol_that_dynamo_hands_in_stands_by_place():
    document = document_of(captured_by_dynamo(lambda x: x.sin() + x.shape[0], SQUARE, dynamic=True))

    symbols = [node for node in document.nodes if node.op == "placeholder" and node.target in document.symbols]
    assert {node.name_from for node in symbols} == {"position"}


@pytest.mark.skipif(TORCH < (2, 13), reason="AOT of older releases leaves no marks on the inputs of what it splits")
def test_inputs_of_forward_and_backward_of_aot_stand_by_place():
    from torch._dynamo.backends.common import aot_autograd

    kept = []

    def keep(gm, _):
        kept.append(gm)
        return gm.forward

    torch._dynamo.reset()
    compiled = torch.compile(nn.Linear(3, 3), backend=aot_autograd(fw_compiler=keep, bw_compiler=keep))
    compiled(SQUARE.clone().requires_grad_()).sum().backward()
    torch._dynamo.reset()

    for gm in kept:
        inputs = [node for node in document_of(gm).nodes if node.op == "placeholder"]
        assert inputs
        assert {node.name_from for node in inputs} == {"position"}


@pytest.mark.parametrize("split", [fxcore.passes.split_module.split_module, split_module], ids=["fxcore", "torch"])
def test_parts_of_a_split_graph_are_named_by_the_split(split):
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    trace = torch.fx.symbolic_trace if split is split_module else fxcore.symbolic_trace
    gm = split(trace(model), model, lambda node: int(node.target == "1"))

    if "partition_names" not in gm.meta:
        pytest.skip("this torch does not say which modules split_module made")
    document = document_of(gm)
    assert [(record.path, record.name_from) for record in document.modules] == [
        ("submod_0", "capture"),
        ("submod_1", "capture"),
    ]


def test_a_graph_module_that_the_user_put_there_keeps_its_name():
    class Holds(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.submod_1 = make_fx(lambda x: x.sin())(SQUARE)

        def forward(self, x):
            return self.submod_1(x)

    class Tracer(fxcore.Tracer):
        def is_leaf_module(self, m, path):
            return True

    model = Holds()
    document = document_of(fxcore.GraphModule(model, Tracer().trace(model)))

    assert names(document) == {}
    # What is in it is make_fx's all the same.
    assert names(document.modules[0].graph) == {"x_1": "position"}


def test_tensors_of_freezing_are_known_by_its_count():
    from torch._inductor.constant_folding import replace_node_with_constant

    gm = make_fx(lambda x: x + torch.zeros(3))(SQUARE)
    gm.register_buffer("_frozen_param7", torch.ones(3))
    zeros = next(node for node in gm.graph.nodes if "zeros" in node.name)
    replace_node_with_constant(gm, zeros, torch.zeros(3))
    output = next(node for node in gm.graph.nodes if node.op == "output")
    with gm.graph.inserting_before(output):
        kept = gm.graph.get_attr("_frozen_param7")
    output.args = ((output.args[0], kept),)

    assert names(document_of(gm)) == {"x_1": "position", "_frozen_param0": "lifting"}


def test_symbols_are_listed_once_in_the_order_of_use_with_those_of_inner_graphs():
    gm = make_fx(lambda x, y: x.sum() + y.sum(), tracing_mode="symbolic")(torch.ones(4, 3), torch.ones(5, 3))
    document = document_of(gm)

    values = [node.value for node in document.nodes if node.op == "placeholder"]
    rows = [value.split("[")[1].split(",")[0] for value in values]
    assert list(document.symbols[:1]) == rows[:1]
    assert set(rows) <= set(document.symbols)
    assert len(set(document.symbols)) == len(document.symbols)


def test_a_graph_of_known_sizes_has_no_symbols():
    assert document_of(make_fx(lambda x: [x + 1])(SQUARE)).symbols == ()


def recorded(tracer=None, **meta):
    """Return a graph with a branch and a tensor, as a recorder that leaves these marks would make it."""
    inner = torch.fx.Graph()
    inner.output(inner.placeholder("a"))
    graph = torch.fx.Graph(tracer_cls=tracer)
    x, branch = graph.placeholder("x"), graph.get_attr("true_graph_0")
    chosen = graph.call_function(torch.ops.higher_order.cond, (x, branch, branch, (x,)))
    graph.output((chosen, graph.get_attr("lifted_tensor_0")))
    root = nn.Module()
    root.true_graph_0, root.lifted_tensor_0 = torch.fx.GraphModule({}, inner), torch.ones(2)
    gm = torch.fx.GraphModule(root, graph)
    gm.lifted_tensor_0 = gm._buffers.pop("lifted_tensor_0")
    gm.meta.update(meta)
    return gm


@pytest.mark.parametrize(
    ("tracer", "meta", "expected"),
    [
        (None, {}, {}),
        (torch.fx.Tracer, {}, {}),
        (torch.fx.Tracer, {"inline_constraints": {}}, {}),
        (None, {"dynamo_flat_name_to_original_fqn": {}}, {"true_graph_0": "capture", "a": "position"}),
        (PythonKeyTracer, {}, {"true_graph_0": "capture", "a": "position"}),
        (
            PythonKeyTracer,
            {"inline_constraints": {}},
            {"true_graph_0": "capture", "a": "position", "lifted_tensor_0": "lifting"},
        ),
    ],
)
def test_marks_of_the_recorder_decide_who_named_a_branch_and_a_tensor(tracer, meta, expected):
    document = build_document(recorded(tracer, **meta))

    inner = [record.graph for record in document.modules if record.graph is not None]
    assert {name: made for each in (document, *inner) for name, made in names(each).items()} == expected


def test_a_graph_with_ranges_is_an_exported_one_and_an_input_of_aot_tells_that_branches_are_captured():
    exported, of_aot = recorded(PythonKeyTracer), recorded()
    exported.range_constraints = {}
    next(iter(of_aot.graph.nodes)).meta["partitioner_tag"] = "is_forward"

    assert names(build_document(exported)) == {"true_graph_0": "capture", "lifted_tensor_0": "lifting"}
    assert names(build_document(of_aot)) == {"true_graph_0": "capture", "x": "position"}


@pytest.mark.parametrize(
    ("path", "readers", "expected"),
    [
        ("branch", (torch.ops.higher_order.cond,), {"branch": "capture"}),
        ("of.branch", (torch.ops.higher_order.cond,), {}),
        ("branch", (torch.ops.higher_order.cond, print), {}),
        ("branch", (print,), {}),
        ("branch", (), {}),
    ],
)
def test_a_graph_that_only_operators_on_graphs_read_is_a_branch(path, readers, expected):
    graph = torch.fx.Graph(tracer_cls=PythonKeyTracer)
    branch = graph.get_attr(path)
    graph.output([graph.call_function(reader, (branch,)) for reader in readers])
    root = nn.Module()
    root.branch, root.of = symbolic_identity(), nn.Module()
    root.of.branch = root.branch

    assert names(build_document(torch.fx.GraphModule(root, graph))) == expected


def symbolic_identity():
    return torch.fx.symbolic_trace(nn.Identity())


@pytest.mark.parametrize(("count", "made"), [(None, []), (1, [0]), (2, [0, 1])])
def test_as_many_tensors_of_freezing_are_known_as_it_counted(count, made):
    graph = torch.fx.Graph(tracer_cls=PythonKeyTracer)
    graph.output([graph.get_attr(f"_frozen_param{number}") for number in range(2)])
    root = nn.Module()
    for number in range(2):
        root.register_buffer(f"_frozen_param{number}", torch.ones(2))
    gm = torch.fx.GraphModule(root, graph)
    if count is not None:
        gm._frozen_param_count = count

    assert names(build_document(gm)) == {f"_frozen_param{number}": "lifting" for number in made}


@pytest.mark.parametrize(
    ("tracer", "is_marked", "expected"),
    [
        (None, True, {"_tensor_constant0": "lifting"}),
        (None, False, {}),
        (torch.fx.Tracer, True, {}),
        (PythonKeyTracer, False, {"_tensor_constant0": "lifting"}),
    ],
)
def test_a_constant_is_of_make_fx_or_of_a_graph_that_aot_marked(tracer, is_marked, expected):
    graph = torch.fx.Graph(tracer_cls=tracer)
    constant = graph.get_attr("_tensor_constant0")
    graph.output(constant)
    if is_marked:
        constant.meta["partitioner_tag"] = "is_forward"
    root = nn.Module()
    root.register_buffer("_tensor_constant0", torch.ones(2))

    assert names(build_document(torch.fx.GraphModule(root, graph))) == expected


class Source:
    base = None


class SourceOfNNModule:
    base = None


class Item:
    base = SourceOfNNModule()


@pytest.mark.parametrize(
    ("source", "marks", "expected"),
    [
        (None, {}, None),
        (Source(), {}, "source"),
        (SourceOfNNModule(), {}, None),
        (Item(), {}, None),
        (Source(), {"type": torch.SymInt}, "position"),
        (SourceOfNNModule(), {"example_value": ShapeEnv().create_unbacked_symint()}, "position"),
    ],
)
def test_an_input_of_dynamo_is_named_by_its_source_or_place(source, marks, expected):
    graph = torch.fx.Graph()
    node = graph.placeholder("L_x_", type_expr=marks.pop("type", None))
    node._dynamo_source = source
    node.meta.update(marks)
    graph.output(node)

    assert build_document(torch.fx.GraphModule({}, graph)).nodes[0].name_from == expected


def test_sizes_anywhere_in_a_value_are_symbols():
    size = FakeTensorMode(shape_env=ShapeEnv()).from_tensor(torch.ones(4, 3))
    gm = torch.fx.symbolic_trace(lambda x: x)
    next(iter(gm.graph.nodes)).meta["val"] = {"a": [(size.shape[1], torch.finfo(torch.float32))], "b": size}

    document = build_document(gm)

    assert {f"float32[{', '.join(order)}]" for order in (document.symbols, document.symbols[::-1])} >= {
        document.nodes[0].value.rpartition(": ")[2].removesuffix("}")
    }
    assert len(document.symbols) == 2
