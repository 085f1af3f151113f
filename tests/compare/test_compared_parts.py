"""Exporters add tensors that nothing reads and checks of inputs; no level but `exact` compares them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.export import Dim, export

from fixtures.documents import document as document_of
from fxcore import Graph, GraphModule
from pytest_fxgraph.compare.compared_parts import as_compared
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.document.builder import build_document
from pytest_fxgraph.document.model import ModuleRecord, StateRecord
from pytest_fxgraph.functions import structural_hash, structurally_equal


class Linear(nn.Module):
    def __init__(self, *, has_more: bool = False) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        if has_more:
            self.more = nn.Parameter(torch.zeros(2))
            self.register_buffer("table", torch.zeros(5))

    def forward(self, x):
        return self.linear(x)


def exported(largest=20, **options):
    return export(Linear(**options), (torch.rand(4, 3),), dynamic_shapes={"x": {0: Dim("batch", max=largest)}})


def are_one(expected, obtained):
    is_equal = structurally_equal(expected, obtained)
    assert is_equal == (structural_hash(expected) == structural_hash(obtained))
    return is_equal


def test_state_that_no_operator_of_a_program_reads_is_no_difference():
    assert are_one(exported(), exported(has_more=True))


def test_a_program_equals_its_module_with_the_checks_of_inputs():
    assert are_one(exported(), exported().module())


@pytest.mark.parametrize("of", [lambda program: program, lambda program: program.graph_module, lambda p: p.module()])
def test_another_bound_is_a_difference_of_a_program_its_module_and_its_bare_graph(of):
    assert are_one(of(exported()), of(exported()))
    assert not are_one(of(exported()), of(exported(9999)))


def held(*, reads=(), dead=()):
    root, graph = nn.Module(), Graph()
    for name in ("a", "b"):
        root.register_buffer(name, torch.zeros(2))
    x = graph.placeholder("x")
    for name in dead:
        graph.get_attr(name)
    for name in reads:
        x = graph.call_function(torch.add, (x, graph.get_attr(name)))
    graph.output(x)
    return GraphModule(root, graph)


def test_a_dead_read_of_a_tensor_is_no_difference():
    assert are_one(held(reads=["a"]), held(reads=["a"], dead=["a", "b"]))
    assert not are_one(held(reads=["a"]), held(reads=["b"], dead=["a"]))
    assert not are_one(held(reads=["a"]), held(reads=["a", "b"]))


@pytest.mark.parametrize("name_from", ["lifting", None])
def test_a_call_that_reads_the_other_of_two_tensors_is_one_change_if_both_graphs_have_both(name_from):
    state = tuple(
        StateRecord(path, "constant", "float32[1]", content=f"[{path[1]}.0]", name_from=name_from)
        for path in ("c0", "c1")
    )
    graphs = [
        replace(document_of(f"%x = input x\n%c = get c0\n%d = get c1\n%a = mul(%x, {read})\nreturn %a"), state=state)
        for read in ("%c", "%d")
    ]

    (change,) = compare_documents(*graphs).changes

    assert (change.where, change.field, change.expected, change.obtained) == ("a", "args[1]", "%c", "%d")


@pytest.mark.parametrize("paths", [("a", "b", "c"), ("b", "a", "c"), ("c", "b", "a")])
@pytest.mark.parametrize("is_tied", [True, False])
def test_tied_tensors_are_told_alike_whichever_of_them_a_graph_reads_first(paths, is_tied):
    def reading(order, tied):
        module = nn.Module()
        module.a = nn.Parameter(torch.ones(2))
        module.b = module.a if tied else nn.Parameter(torch.ones(2))
        module.c = module.a
        graph = Graph()
        read = {path: graph.get_attr(path) for path in order}  # nobody reads `a`
        graph.output((read["b"], read["c"]))
        return GraphModule(module, graph)

    golden, obtained = reading(("a", "b", "c"), True), reading(paths, is_tied)

    assert compare_documents(build_document(golden), build_document(obtained)).is_empty is is_tied
    assert structurally_equal(golden, obtained) is is_tied


def test_level_exact_compares_dead_reads():
    documents = [build_document(each) for each in (held(reads=["a"]), held(reads=["a"], dead=["b"]))]

    assert not compare_documents(*documents, level="exact").is_empty
    assert all(compare_documents(*documents, level=level).is_empty for level in ("structure", "ops", "signature"))


def with_meta(*values):
    graph = Graph()
    graph.output(graph.call_function(torch.relu, (graph.placeholder("x"),)))
    for node in graph.nodes:
        node.meta |= dict(zip("ab", values, strict=True))
    return GraphModule(nn.Module(), graph)


def documents_of(meta, *subjects):
    return [build_document(subject, meta=meta) for subject in subjects]


def test_the_order_of_metadata_and_of_its_keys_is_no_difference():
    one = with_meta({"x": 1, "y": [{"p": (1, 2), "q": "z, {"}]}, 3)
    turned = with_meta({"y": [{"q": "z, {", "p": (1, 2)}], "x": 1}, 3)
    other = with_meta({"y": [{"q": "z, {", "p": (2, 1)}], "x": 1}, 3)

    assert compare_documents(*documents_of(("a", "b"), one, turned)).is_empty
    assert not compare_documents(*documents_of(("a", "b"), one, other)).is_empty
    (expected,), (obtained,) = documents_of(("a", "b"), one), documents_of(("b", "a"), one)
    assert compare_documents(expected, obtained).is_empty


def frozen(*numbers, reads=None):
    root, graph = nn.Module(), Graph()
    x = graph.placeholder("x")
    for number in numbers:
        root.register_buffer(f"_frozen_param{number}", torch.zeros(4, 4))
    for number in reads or numbers:
        x = graph.call_function(torch.matmul, (x, graph.get_attr(f"_frozen_param{number}")))
    graph.output(x)
    made = GraphModule(root, graph)
    made._frozen_param_count = 10  # as torch's constant folding leaves it
    return made


@pytest.mark.parametrize("numbers", [(8, 9), (1, 2), (0, 5)])
def test_folded_parameters_that_were_counted_otherwise_are_the_same(numbers):
    assert are_one(frozen(0, 1), frozen(*numbers))


def test_folded_parameters_that_changed_places_are_a_difference():
    assert not are_one(frozen(0, 1), frozen(0, 1, reads=(1, 0)))
    assert not are_one(frozen(8, 9), frozen(0, 1, reads=(1, 0)))


@st.composite
def folded_blocks(draw):
    """Draw two chains of blocks that read the same folded parameters, counted otherwise and perhaps exchanged."""
    sizes = draw(st.lists(st.sampled_from([(4, 4), (4,)]), min_size=2, max_size=4))
    places = st.permutations(range(len(sizes)))
    reads, exchanged = draw(places) + draw(st.lists(st.integers(0, len(sizes) - 1), max_size=2)), draw(places)
    skipped = st.sampled_from([[0] * 4, [2, 0, 9, 1]])
    return blocks(sizes, draw(skipped), reads), blocks(sizes, draw(skipped), [exchanged[place] for place in reads])


def blocks(sizes, skipped, reads):
    root, graph = nn.Module(), Graph()
    x, numbers = graph.placeholder("x"), [place + sum(skipped[: place + 1]) for place in range(len(sizes))]
    for number, size in zip(numbers, sizes, strict=True):
        root.register_buffer(f"_frozen_param{number}", torch.zeros(size))
    for place in reads:
        x = graph.call_function(torch.add, (x, graph.get_attr(f"_frozen_param{numbers[place]}")))
    graph.output(x)
    made = GraphModule(root, graph)
    made._frozen_param_count = numbers[-1] + 1
    return made


@settings(max_examples=150, deadline=None)
@given(folded_blocks())
def test_hashes_of_folded_blocks_are_equal_exactly_where_the_level_finds_no_difference(pair):
    are_one(*pair)


READING = "%x = input x\n%c = get c0\n%d = get c1\n%a = mul(%x, {})\nreturn %a"


@pytest.mark.parametrize(("made_by", "change"), [(None, ("a", "args[1]")), ("lifting", ("c0", "content"))])
def test_a_tensor_that_the_other_graph_reads_stays_if_its_path_is_not_generated(made_by, change):
    state = tuple(
        StateRecord(f"c{number}", "constant", "float32[1]", content=f"[{number}.0]", name_from=made_by)
        for number in range(3)
    )
    expected = document_of(READING.format("%c"), state=state[:2])
    obtained = document_of(READING.format("%d").replace("%a", "%e = get c2\n%a", 1), state=state)

    changes = compare_documents(expected, obtained).changes

    assert [(each.where, each.field) for each in changes] == [change]


def test_a_tensor_that_an_inner_graph_of_the_other_document_reads_stays():
    state = tuple(StateRecord(path, "constant", "float32[1]", content=f"[{path[1]}.0]") for path in ("c0", "c1"))
    documents = [
        document_of(
            "%x = input x\n%a = self.m(%x)\nreturn %a",
            modules=(ModuleRecord("m", "GraphModule", graph=document_of(READING.format(read), state=state)),),
        )
        for read in ("%c", "%d")
    ]

    (change,) = compare_documents(*documents).changes

    assert (change.where, change.field, change.expected, change.obtained) == ("m/a", "args[1]", "%c", "%d")


def test_a_second_dead_read_of_a_tensor_is_no_difference():
    assert are_one(held(reads=["b"], dead=["a"]), held(reads=["b"], dead=["a", "a"]))


def test_a_check_of_inputs_goes_with_the_tensors_that_only_the_check_reads():
    modules = (ModuleRecord("check", "torch.export._unlift.GuardsFn"), ModuleRecord("m", "M"))
    state = tuple(StateRecord(path, "buffer", "float32[1]") for path in ("v", "w"))
    text = "%x = input x\n%v = get v\n%w = get w\n%c = self.check(%x, %w)\n%y = self.m(%x, %v)\nreturn %y"

    compared = as_compared(document_of(text, modules=modules, state=state))

    assert [node.name for node in compared.nodes] == ["x", "v", "y", "output"]
    assert (compared.modules, compared.state) == (modules[1:], state[:1])


@pytest.mark.parametrize(
    ("line", "meta", "stays"),
    [
        ("%w = get w", (), False),
        ("%w = get w ! write %w", (), True),
        ("%w = get w", (("k", "1"),), True),
    ],
)
def test_a_dead_read_with_an_effect_or_with_metadata_stays(line, meta, stays):
    graph = document_of(f"%x = input x\n{line}\nreturn %x", state=(StateRecord("w", "buffer", "float32[1]"),))
    nodes = [node._replace(meta=meta) if node.name == "w" else node for node in graph.nodes]

    compared = as_compared(replace(graph, nodes=tuple(nodes)))

    assert ("w" in [node.name for node in compared.nodes]) is stays


@pytest.mark.parametrize(
    ("text", "ordered"),
    [
        ('{"y": 1, "x": [3, 2]}', '{"x": [3, 2], "y": 1}'),
        ('[{"y": 1, "x": 2}, 0]', '[{"x": 2, "y": 1}, 0]'),
        ("f(b=2, a={2, 1})", "f(b=2, a={1, 2})"),
        ('"{b, a}"', '"{b, a}"'),
        ("7", "7"),
    ],
)
def test_metadata_has_the_keys_of_its_dicts_in_order(text, ordered):
    graph = document_of("%x = input x\nreturn %x")
    nodes = (graph.nodes[0]._replace(meta=(("k", text),)), graph.nodes[1])

    assert as_compared(replace(graph, nodes=nodes)).nodes[0].meta == (("k", ordered),)
