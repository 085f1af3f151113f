from __future__ import annotations

import collections
import dataclasses
import functools
import operator
import subprocess
import sys
import time

import pytest
import torch
import torch.fx
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv

import fxcore
from fixtures.lowered import with_delegate
from fxcore import Graph, GraphModule
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.document.builder import MOST_NESTED_GRAPHS, build_document
from pytest_fxgraph.document.decoding import decode
from pytest_fxgraph.document.encoding import encode
from pytest_fxgraph.document.model import NodeRecord, graphs_of
from pytest_fxgraph.errors import DocumentError


def documented(root, *paths):
    graph = Graph()
    value = graph.placeholder("x")
    for path in paths:
        value = graph.call_module(path, (value,))
    graph.output(value)
    return build_document(GraphModule(root, graph))


def test_modules_stand_in_the_order_of_their_calls_once_each():
    root = nn.ModuleDict({"first": nn.ReLU(), "second": nn.Tanh()})

    document = documented(root, "second", "first", "second")

    assert [(module.path, module.kind) for module in document.modules] == [
        ("second", "torch.nn.Tanh"),
        ("first", "torch.nn.ReLU"),
    ]


def test_one_module_under_two_paths_is_recorded_as_the_same():
    shared = nn.Linear(2, 2)
    root = nn.ModuleDict({"first": shared, "second": shared})

    first, second = documented(root, "first", "second").modules

    assert first.same_as is None
    assert second.same_as == "first"
    assert second.config == first.config


def test_the_modules_inside_a_called_module_are_described_too():
    root = nn.ModuleDict({"layer": nn.TransformerEncoderLayer(4, 2, dropout=0.25)})

    records = {module.path: module for module in documented(root, "layer").modules}

    assert dict(records["layer.dropout1"].config)["p"] == "0.25"
    assert records["layer.dropout1"].training is True
    assert dict(records["layer.self_attn"].config)["num_heads"] == "2"


def test_a_module_that_is_a_graph_is_documented_inside():
    inner = Graph()
    inner.output(inner.call_module("relu", (inner.placeholder("a"),)))
    root = nn.Module()
    root.inner = GraphModule(nn.ModuleDict({"relu": nn.ReLU()}), inner)

    (record,) = documented(root, "inner").modules

    assert record.kind == "GraphModule"
    assert [node.name for node in record.graph.nodes] == ["a", "relu", "output"]
    assert [module.path for module in record.graph.modules] == ["relu"]


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, padding=1)
        self.norm = nn.BatchNorm2d(3)

    def forward(self, x, scale=1e-05):
        return {"out": torch.relu(self.norm(self.conv(x))) * scale + x}


def chain(length):
    graph = Graph()
    value = graph.placeholder("x")
    for index in range(length):
        value = graph.call_function(operator.add, (value, index))
    graph.output(value)
    return GraphModule(nn.Module(), graph)


@pytest.mark.parametrize("symbolic_trace", [fxcore.symbolic_trace, torch.fx.symbolic_trace])
def test_a_graph_is_written_down_node_by_node(symbolic_trace):
    document = build_document(symbolic_trace(Residual()), sources=False)

    assert document.nodes == (
        NodeRecord("x", "placeholder", "x"),
        NodeRecord("scale", "placeholder", "scale", ("1e-05",)),
        NodeRecord("conv", "call_module", "conv", ("%x",)),
        NodeRecord("norm", "call_module", "norm", ("%conv",), effects=("state",)),
        NodeRecord("relu", "call_function", "torch.relu", ("%norm",)),
        NodeRecord("mul", "call_function", "operator.mul", ("%relu", "%scale")),
        NodeRecord("add", "call_function", "operator.add", ("%mul", "%x")),
        NodeRecord("output", "output", "output", ('{"out": %add}',)),
    )
    assert document.torch_version == torch.__version__
    assert document.code.startswith("def forward(self, x, scale = 1e-05):\n    conv = self.conv(x)\n")
    assert not document.code.endswith("\n")


def test_values_are_told_where_shapes_are_known():
    graph_module = chain(1)
    for node in graph_module.graph.nodes:
        node.meta["val"] = torch.zeros(2, 3)

    assert [node.value for node in build_document(graph_module).nodes] == ["float32[2, 3]"] * 3


def test_keyword_arguments_keep_the_order_of_the_call():
    graph = Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_function(torch.sum, (x,), {"keepdim": True, "dim": 1}))

    document = build_document(GraphModule(nn.Module(), graph))

    assert document.nodes[1].kwargs == (("keepdim", "True"), ("dim", "1"))


Pair = collections.namedtuple("Pair", "a b")


class Scaled(Pair):
    def __new__(cls, first, factor, *more):
        return super().__new__(cls, first, factor)


@dataclasses.dataclass
class Scores:
    scores: object
    bias: object = None


@pytest.mark.parametrize(
    ("record", "count", "by_keyword", "expected"),
    [
        (Pair, 2, {}, ((), ("a", "b"))),
        (Pair, 1, {"b": 1}, ((), ("a", "b"))),
        (Scaled, 2, {}, ((), ("first", "factor"))),
        (Scores, 1, {}, ((), ("scores",))),
        (Scores, 0, {"bias": 1}, ((), ("bias",))),
        # No field has these names.
        (Pair, 3, {}, (("%x", "%x", "%x"), ())),
        (Scaled, 3, {}, (("%x", "%x", "%x"), ())),
        (Pair, 1, {"a": 1}, (("%x",), ("a",))),
        (dict, 1, {}, (("%x",), ())),
        (tuple, 1, {}, (("%x",), ())),
        (type("Fields", (), {"_fields": ("a",), "__init__": lambda self, a: None}), 1, {}, (("%x",), ())),
        (type("Counter", (), {"__signature__": "unknown"}), 1, {}, (("%x",), ())),
    ],
)
def test_fields_of_a_record_have_names(record, count, by_keyword, expected):
    graph = Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_function(record, (x,) * count, by_keyword))

    node = build_document(GraphModule(nn.Module(), graph)).nodes[1]

    assert (node.args, tuple(key for key, _ in node.kwargs)) == expected


def test_a_named_tuple_with_another_field_is_a_difference():
    class Model(nn.Module):
        def __init__(self, fields):
            super().__init__()
            self.kind = collections.namedtuple("Pair", fields, module=__name__)

        def forward(self, x):
            return self.kind(x + 1, x * 2)

    golden, same, renamed = (build_document(fxcore.symbolic_trace(Model(each))) for each in ("a b", "a b", "a c"))

    assert compare_documents(golden, same).is_empty
    assert not compare_documents(golden, renamed).is_empty


def test_an_argument_without_a_stable_text_is_refused_by_node_and_argument():
    graph = Graph()
    x = graph.placeholder("x")
    graph.output(graph.create_node("call_function", torch.sum, (x,), {"dim": object()}))

    with pytest.raises(
        DocumentError, match=r"cannot write down argument 'dim' of node 'sum_1' .call_function.: an object of type"
    ):
        build_document(GraphModule(nn.Module(), graph))


def test_an_argument_that_holds_itself_is_refused():
    graph_module = chain(1)
    endless = type("Endless", (), {"__repr__": lambda self: f"Endless({self!r})"})()
    list(graph_module.graph.nodes)[1].kwargs = {"key": endless}

    with pytest.raises(DocumentError, match=r"'key' of node 'add' .call_function.: it is nested too deep"):
        build_document(graph_module)


def test_a_missing_attribute_is_named_with_its_reader():
    graph = Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_module("conv", (x,)))
    graph_module = GraphModule(nn.ModuleDict({"conv": nn.ReLU()}), graph)
    del graph_module.conv

    with pytest.raises(DocumentError, match="node 'conv': the graph's module has no attribute 'conv'; add it"):
        build_document(graph_module)


def test_a_node_that_is_read_before_it_is_made_is_refused():
    graph_module = chain(2)
    _, first, second, _ = graph_module.graph.nodes
    first.args = (second, 1)

    with pytest.raises(DocumentError, match=r"argument 0 of node 'add' .*reads %add_1, which no earlier node"):
        build_document(graph_module)


def nested(graph_module):
    graph = Graph()
    graph.output(graph.call_module("inner", (graph.placeholder("x"),)))
    root = nn.Module()
    root.inner = graph_module
    return GraphModule(root, graph)


def test_graphs_nested_too_deep_are_refused():
    graph_module = chain(1)
    for _ in range(MOST_NESTED_GRAPHS - 1):
        graph_module = nested(graph_module)

    assert len(list(graphs_of(build_document(graph_module)))) == 50
    with pytest.raises(DocumentError, match="cannot write down graphs nested deeper than 50"):
        build_document(nested(graph_module))


def test_what_is_no_graph_module_is_refused():
    with pytest.raises(DocumentError, match="an object of type Linear: it has no graph; trace it first"):
        build_document(nn.Linear(1, 1))


def test_an_unknown_form_of_constants_is_refused():
    with pytest.raises(DocumentError, match="constants='rough' is not known; choose one of exact, close, shape"):
        build_document(chain(1), constants="rough")


def test_a_graph_without_nodes_is_a_document_without_nodes():
    assert build_document(GraphModule(nn.Module(), Graph())).nodes == ()


def test_torchs_and_our_graph_of_one_program_are_one_document():
    def same_program(graph):
        x = graph.placeholder("x")
        graph.output(graph.call_function(torch.add, (x, [x, 1]), {"alpha": 2}))
        return graph

    ours = build_document(GraphModule(nn.Module(), same_program(Graph())))
    theirs = build_document(torch.fx.GraphModule(nn.Module(), same_program(torch.fx.Graph())))

    assert ours.nodes == theirs.nodes
    assert ours.code == theirs.code


@pytest.mark.long  # tests/trust/test_harmless.py asks the same of all that it has, in every run
def test_the_document_is_the_same_in_every_process_and_under_every_hash_seed():
    program = (
        "import fxcore; from torch import nn;"
        "from pytest_fxgraph.document.builder import build_document;"
        "from pytest_fxgraph.document.encoding import encode;"
        "m = nn.Sequential(nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1), nn.Dropout(), nn.ReLU(inplace=True));"
        "g = fxcore.symbolic_trace(m); g.graph.output_node().args = ({'b', 'a', 'c'},);"
        "print(encode(build_document(g)))"
    )

    texts = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "42")
    }

    assert len(texts) == 1
    assert '{"a", "b", "c"}' in texts.pop()


def test_building_and_encoding_take_time_in_proportion_to_the_nodes():
    def seconds_for(graph_module):
        started = time.process_time()
        encode(build_document(graph_module))
        return time.process_time() - started

    small, large = chain(1_000), chain(8_000)
    for graph_module in (small, large):
        seconds_for(graph_module)

    # Eight times the nodes; the squared time would be sixty-four.
    assert min(seconds_for(large) for _ in range(3)) < 24 * min(seconds_for(small) for _ in range(3))


class Annotation:
    pass


def with_metadata(**metadata):
    graph = Graph()
    x = graph.placeholder("x")
    first = graph.call_function(torch.sin, (x,))
    last = graph.call_function(torch.cos, (first,))
    graph.output(last)
    last.meta.update(metadata)
    return GraphModule({}, graph), first, last


def test_metadata_that_a_test_asks_for_is_written_and_compared():
    gm, first, last = with_metadata(partition_tag="a", other=1)
    last.meta["annotation"] = {"inputs": (first, last), "spec": torch.int8}

    document = build_document(gm, meta=("partition_tag", "annotation"))

    assert document.nodes[2].meta == (
        ("partition_tag", '"a"'),
        ("annotation", '{"inputs": (%sin, this), "spec": torch.int8}'),
    )
    assert all(node.meta == () for node in document.nodes if node.name != "cos")
    for key, value in (("partition_tag", "b"), ("annotation", {"inputs": (last, first), "spec": torch.int8})):
        kept, last.meta[key] = last.meta[key], value
        difference = compare_documents(document, build_document(gm, meta=("partition_tag", "annotation")))
        assert difference.changes[0].field.startswith(f"meta['{key}']")
        last.meta[key] = kept
    assert compare_documents(document, build_document(gm, meta=("partition_tag", "annotation"))).is_empty
    assert not compare_documents(document, build_document(gm)).is_empty


def test_metadata_that_dynamo_leaks_is_left_out():
    leaked = {"_torchdynamo_disable": True, "_torchdynamo_disable_method": "function_of_an_earlier_test"}
    gm, first, last = with_metadata(custom={"stage": 1, **leaked})
    first.meta["custom"] = leaked

    document = build_document(gm, meta=("custom",))

    assert {node.name: node.meta for node in document.nodes if node.meta} == {"cos": (("custom", '{"stage": 1}'),)}
    last.meta["custom"] = {"stage": 1}
    del first.meta["custom"]
    assert build_document(gm, meta=("custom",)) == document


@pytest.mark.skipif(not hasattr(torch.fx.traceback, "annotate"), reason="this torch has no annotations")
def test_an_annotation_does_not_depend_on_functions_that_dynamo_leaves_out():
    @torch._dynamo.disable
    def own(x):
        return x + 1

    def exported(inner):
        class Model(torch.nn.Module):
            def forward(self, x):
                with torch.fx.traceback.annotate({"stage": 1}):
                    return inner(x).relu()

        with torch.fx.traceback.preserve_node_meta():
            return torch.export.export(Model(), (torch.ones(2),), strict=False).module()

    left_out, plain = exported(own), exported(lambda x: x + 1)

    assert "_torchdynamo_disable" in str([node.meta.get("custom") for node in left_out.graph.nodes])
    documents = [build_document(each, meta=("custom",), sources=False) for each in (left_out, plain)]
    assert documents[0].nodes == documents[1].nodes
    assert [node.name for node in documents[0].nodes if node.meta] == ["add", "relu"]


def test_metadata_is_read_back_from_a_golden():
    gm, _, _ = with_metadata(tag=(1, "b"))
    document = build_document(gm, meta=["tag"])

    assert decode(encode(document), "golden").nodes == tuple(node._replace(source=None) for node in document.nodes)


def test_metadata_without_a_stable_text_is_refused():
    gm, first, last = with_metadata(tag=Annotation())
    with pytest.raises(
        DocumentError, match=r"cannot write down metadata 'tag' of node 'cos': .*Annotation has no text"
    ):
        build_document(gm, meta=("tag",))

    first.meta["tag"] = (last,)
    with pytest.raises(DocumentError, match=r"'tag' of node 'sin': it refers to 'cos', which does not come before"):
        build_document(gm, meta=("tag",))


def test_metadata_that_no_node_has_is_refused_with_the_names_that_there_are():
    gm, _, _ = with_metadata(partition_tag="a")

    with pytest.raises(
        DocumentError, match=r"no node has the metadata 'partition'; nodes of this graph have partition_tag"
    ):
        build_document(gm, meta=("partition",))
    with pytest.raises(DocumentError, match=r"is no tuple of names; write meta="):
        build_document(gm, meta="partition_tag")


class Callable:
    def __call__(self, x):
        return x


@pytest.mark.parametrize("target", [functools.partial(torch.add, alpha=2), functools.partial(Callable()), Callable()])
def test_a_target_without_a_name_is_refused_in_words(target):
    graph = Graph()
    x = graph.placeholder("x")
    graph.output(graph.create_node("call_function", target, (x,), name="called"))
    gm = GraphModule({}, graph)

    with pytest.raises(
        DocumentError, match=r"cannot write down the target of node 'called'.* define a function with `def`"
    ):
        build_document(gm)
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"object has no attribute '__name__', so generated code cannot call it"):
            _ = gm.code


class Repeated(nn.Module):
    def forward(self, x):
        for _ in range(x.shape[0]):
            x = x + 1
        return x


class Gate(nn.Module):
    def forward(self, x):
        return x * 2 if x.sum() > 0 else x


def test_a_guard_is_a_note_with_module_function_and_source():
    graph_module = fxcore.symbolic_trace(nn.Sequential(Repeated()), example_inputs=torch.rand(2, 3))

    assert build_document(graph_module).notes == (
        "guard: input.shape[0] == 2 (in module 0, function forward, for _ in range(x.shape[0]):)",
    )


def test_a_leaf_for_want_of_a_trace_is_a_note_with_the_reason():
    graph_module = fxcore.symbolic_trace(nn.Sequential(nn.ReLU(), Gate()), leaf_modules="auto")

    assert build_document(graph_module).notes == (
        "leaf: 1: cannot be traced: The value 'gt' (call_function of sum_1) was asked for its truth: "
        "return x * 2 if x.sum() > 0 else x",
    )


def test_a_graph_that_takes_nothing_for_granted_has_no_notes():
    graph_module = fxcore.symbolic_trace(nn.Linear(3, 3), example_inputs=torch.rand(2, 3))

    assert build_document(graph_module).notes == ()


def test_the_output_of_a_layer_is_named_by_the_layer_and_not_by_the_node():
    graph_module = fxcore.symbolic_trace(nn.Sequential(nn.Linear(3, 3), Repeated()), example_inputs=torch.rand(2, 3))

    (note,) = build_document(graph_module).notes

    assert note.startswith("guard: self.0(...).shape[0] == 2 (in module 1, function forward")


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(1))
        self.register_buffer("mean", torch.zeros(3))
        self.table = torch.zeros(3)

    def forward(self, x):
        self.seen.add_(1)
        self.mean = self.mean * 0.9 + x.mean(0)
        self.table += 1
        return x * 2


def test_state_that_a_trace_without_an_example_writes_is_a_note():
    graph_module = fxcore.symbolic_trace(Counting())

    assert build_document(graph_module).notes == (
        "note: forward writes self.table while it is traced, and the graph does not",
        "note: forward writes self.seen while it is traced, and the graph does not",
        "note: forward writes self.mean while it is traced, and the graph does not",
    )


def test_the_note_of_a_trace_without_an_example_changes_no_printed_form():
    printed = fxcore.symbolic_trace(Counting()).print_readable(print_output=False)

    assert "note" not in printed
    assert fxcore.symbolic_trace(nn.Sequential(nn.Linear(3, 3))).graph.guards == ()


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (
            ("x", "x"),
            "cannot write down node 'x': another node has this name; let the graph choose",
        ),
        (("x", "a b"), "cannot write down node 'a b': nodes cannot have this name"),
    ],
)
def test_a_name_that_stands_for_no_single_node_is_refused(names, words):
    graph = Graph()
    first = graph.placeholder("x")
    second = graph.call_function(torch.neg, (first,))
    graph.output(second)
    first.name, second.name = names

    with pytest.raises(DocumentError, match=words):
        build_document(GraphModule({}, graph))


def test_a_node_may_have_the_second_of_two_keys_of_metadata_alone():
    gm, first, _ = with_metadata(partition_tag="a", other=1)
    first.meta["other"] = 2

    document = build_document(gm, meta=("partition_tag", "other"))

    assert {node.name: node.meta for node in document.nodes}[first.name] == (("other", "2"),)


def test_a_graph_without_a_module_is_described_with_its_source_lines():
    gm = fxcore.symbolic_trace(nn.ReLU(), example_inputs=(torch.ones(2),))
    for node in gm.graph.nodes:
        node.meta["stack_trace"] = '  File "model.py", line 3, in forward\n    return x.relu()\n'

    with_sources = build_document(gm, graph=gm.graph)
    without = build_document(gm, graph=gm.graph, sources=False)

    assert build_document(gm, sources=True).nodes == build_document(gm).nodes
    assert [node.source for node in with_sources.nodes] == [node.source for node in build_document(gm).nodes]
    assert any(node.source for node in with_sources.nodes)
    assert not any(node.source for node in without.nodes)


def test_a_graph_may_have_a_single_node_and_slices_as_arguments():
    single, sliced = Graph(), Graph()
    single.output(())
    sliced.output(sliced.call_function(operator.getitem, (sliced.placeholder("x"), slice(1, None))))

    assert [node.args for node in build_document(GraphModule({}, single)).nodes] == [("()",)]
    assert build_document(GraphModule({}, sliced)).nodes[1].args == ("%x", "slice(1, None, None)")


def test_names_that_a_capture_made_up_are_told_in_a_graph_of_our_tracer():
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = make_fx(lambda x: x.sin() + 1)(torch.ones(2))

        def forward(self, x):
            return self.inner(x)

    document = build_document(fxcore.symbolic_trace(Outer(), leaf_modules=(torch.fx.GraphModule,)))

    assert document.nodes[0].name_from is None
    assert [node.name_from for node in document.modules[0].graph.nodes if node.op == "placeholder"] == ["position"]


def test_unknown_sizes_of_a_graph_of_our_tracer_are_symbols():
    gm = fxcore.symbolic_trace(lambda x: x + 1)
    size = FakeTensorMode(shape_env=ShapeEnv()).from_tensor(torch.ones(4, 3))
    for node in gm.graph.nodes:
        node.meta["val"] = size

    document = build_document(gm)

    assert document.symbols
    assert document.nodes[0].value == f"float32[{', '.join(document.symbols)}]"


@pytest.mark.parametrize("library", [fxcore, torch.fx])
def test_an_input_that_aot_marked_has_a_name_that_nobody_chose(library):
    graph = library.Graph()
    x = graph.placeholder("x")
    graph.output(x)
    x.meta["partitioner_tag"] = "is_forward"

    assert build_document(library.GraphModule({}, graph)).nodes[0].name_from == "position"


def test_modules_and_their_state_are_told_behind_graphs_and_delegates():
    lowered = with_delegate(nn.Linear(2, 2))
    graph = Graph()
    value = graph.placeholder("x")
    root = nn.Module()
    root.inner, root.lowered, root.block = GraphModule(nn.Linear(2, 2), Graph()), lowered.lowered_module_0, Affine()
    for path in ("inner", "lowered", "block"):
        value = graph.call_module(path, (value,))
    graph.output(value)

    document = build_document(GraphModule(root, graph))

    assert [module.path for module in document.modules] == ["inner", "lowered", "block", "block.scale"]
    assert [module.kind.rpartition(".")[2] for module in document.modules[:3]] == [
        "GraphModule",
        "LoweredBackendModule",
        "Affine",
    ]
    assert [record.path for record in document.state] == ["block.shift", "block.scale.weight", "block.scale.bias"]


class Affine(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Linear(2, 2)
        self.shift = nn.Parameter(torch.zeros(2))

    def forward(self, x):
        return self.scale(x) + self.shift


def test_parts_of_a_module_are_told_once_and_behind_graphs_that_tell_their_own():
    root = nn.Module()
    root.block = type("Block", (nn.Module,), {})()
    root.block.first, root.block.inner, root.block.last = nn.ReLU(), symbolic_sequence(nn.Tanh()), nn.GELU()
    graph = Graph()
    x = graph.placeholder("x")
    graph.output([graph.call_module(path, (x,)) for path in ("block.first", "block")])
    gm = GraphModule(root, Graph())
    root.block.graphs = [gm, symbolic_sequence(nn.SiLU())]
    gm.block, gm.graph = root.block, graph

    paths = [module.path for module in build_document(gm).modules]

    assert paths == ["block.first", "block", "block.graphs[1]", "block.inner", "block.last"]


def symbolic_sequence(*layers):
    return fxcore.symbolic_trace(nn.Sequential(*layers))


def test_a_leaf_is_told_behind_nodes_of_other_code():
    class Double(nn.Module):
        def forward(self, x):
            return x * 2

    for sources in (False, True):
        graph_module = fxcore.symbolic_trace(nn.Sequential(Double(), Gate()), leaf_modules="auto")
        (note,) = build_document(graph_module, sources=sources).notes
        assert note.startswith("leaf: 1: cannot be traced")


def test_tensors_of_a_numbered_module_stand_together():
    root = nn.Module()
    root.blocks = nn.ModuleList([Affine(), Affine()])
    graph = Graph()
    x = graph.placeholder("x")
    values = [graph.get_attr(f"blocks.{number}.shift") for number in (0, 1)]
    values += [graph.call_module(f"blocks.{number}.scale", (x,)) for number in (0, 1)]
    graph.output(values)

    assert [record.path for record in build_document(GraphModule(root, graph)).state] == [
        f"blocks.{number}.{name}" for number in (0, 1) for name in ("shift", "scale.weight", "scale.bias")
    ]


def other(module, *args):
    return args[-1]


@pytest.mark.parametrize(
    ("method", "key"),
    [("register_forward_hook", "forward hooks"), ("register_forward_pre_hook", "forward pre-hooks")],
)
def test_one_hook_of_a_called_module_is_told(method, key):
    layer = nn.ReLU()
    getattr(layer, method)(other)

    (record,) = documented(nn.ModuleDict({"act": layer}), "act").modules

    assert dict(record.config)[key] == f"[{__name__}.other]"
