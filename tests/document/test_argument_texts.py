from __future__ import annotations

import collections
import dataclasses
import decimal
import enum
import functools
import math
import operator
import subprocess
import sys
from collections import OrderedDict, defaultdict, deque
from types import SimpleNamespace
from typing import NamedTuple

import pytest
import torch
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils import _pytree as pytree

from fixtures.process_groups import fake_group, needs_fake_group
from fxcore import Graph
from fxcore.immutable_collections import immutable_dict, immutable_list
from pytest_fxgraph.document.argument_texts import ArgumentTexts, has_groups, structure_notes
from pytest_fxgraph.errors import DocumentError


def graph_with(inputs, outputs):
    _, in_spec = pytree.tree_flatten(inputs)
    _, out_spec = pytree.tree_flatten(outputs)
    info = SimpleNamespace(orig_args=["x", "options"], in_spec=in_spec, out_spec=out_spec)
    return SimpleNamespace(_codegen=SimpleNamespace(pytree_info=info))


def test_nested_inputs_and_outputs_are_noted():
    notes = structure_notes(graph_with(((1, {"k": 2}), {}), {"logits": 1, "hidden": [1, (2,), None]}), repr)

    assert notes == (
        "inputs: x, options",
        "input structure: ((*, {'k': *}), {})",
        f"output structure: {{'logits': *, 'hidden': [*, (*,), {'*' if _none_is_leaf() else 'builtins.NoneType()'}]}}",
    )


def test_a_graph_that_takes_its_values_as_they_are_has_no_notes():
    assert structure_notes(SimpleNamespace(_codegen=SimpleNamespace()), repr) == ()


class Moments(NamedTuple):
    mean: int
    variance: int


@dataclasses.dataclass
class Scores:
    logits: object
    loss: object = None


torch.export.register_dataclass(Scores)


@dataclasses.dataclass
class Registered:
    first: object


pytree.register_pytree_node(Registered, lambda value: ([value.first], None), lambda parts, _: Registered(*parts))


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (Moments(1, 2), "test_argument_texts.Moments(mean=*, variance=*)"),
        (Scores(1, 2), "test_argument_texts.Scores(logits=*, loss=*)"),
        (Scores(1), "test_argument_texts.Scores(logits=*, loss=None)"),
        (Registered(1), "test_argument_texts.Registered(*)"),
        (OrderedDict(a=1), "collections.OrderedDict({'a': *})"),
        (defaultdict(list, {"a": 1}), "collections.defaultdict(builtins.list, {'a': *})"),
        (deque([1], maxlen=3), "collections.deque(*, maxlen=3)"),
        (deque([1]), "collections.deque(*)"),
        (torch.Size([1]), "torch.Size(*)"),
        ({}, "{}"),
    ],
    ids=str,
)
def test_every_container_that_torch_knows_is_told_by_its_class_and_its_names(output, words):
    (*_, note) = structure_notes(graph_with((1,), output), repr)

    assert note.removeprefix("output structure: ").endswith(words)


def _none_is_leaf():
    return pytree.tree_flatten(None)[1].type is None


class Colour(enum.Enum):
    RED = 1


class Bits(enum.IntFlag):
    ONE = 1
    TWO = 2


Point = collections.namedtuple("Point", "x y")


@dataclasses.dataclass
class Options:
    size: int
    names: list[str]


class Called:
    def __init__(self, name):
        self.__name__ = name

    def __call__(self):
        pass

    def __repr__(self):
        return "Called()"


@pytest.fixture
def text():
    return ArgumentTexts(None).text


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, "1"),
        (True, "True"),
        (1.0, "1.0"),
        (-0.0, "-0.0"),
        (math.nan, "nan"),
        (1e-05, "1e-05"),
        (1j, "complex(0.0, 1.0)"),
        ("50%", '"50%"'),
        (b"\x00%", r'b"\x00%"'),
        (None, "None"),
        (..., "Ellipsis"),
        ((), "()"),
        ((1,), "(1,)"),
        ([1, [2]], "[1, [2]]"),
        ({"a": 1, 2: None}, '{"a": 1, 2: None}'),
        (immutable_list([1]), "[1]"),
        (immutable_dict({"a": 1}), '{"a": 1}'),
        ({3, 1, 2}, "{1, 2, 3}"),
        (set(), "set()"),
        (frozenset({1}), "frozenset({1})"),
        (slice(None, 2), "slice(None, 2, None)"),
        (range(3), "range(0, 3, 1)"),
        (torch.float, "torch.float32"),
        (torch.double, "torch.float64"),
        (torch.device("cuda", 1), 'device("cuda:1")'),
        (torch.strided, "torch.strided"),
        (torch.channels_last, "torch.channels_last"),
        (torch.Size([2, 3]), "torch.Size([2, 3])"),
        (torch.tensor([1, 2]), "tensor(int64[2], [1, 2])"),
        (torch.nn.functional.relu, "torch.nn.functional.relu"),
        (operator.add, "operator.add"),
        (functools.partial(torch.sum, dim=[0]), "functools.partial(torch.sum, dim=[0])"),
        (torch.nn.Conv2d, "torch.nn.Conv2d"),
        (int, "builtins.int"),
        (math, "math"),
        (Colour.RED, f"{__name__}.Colour.RED"),
        (Bits.ONE, f"{__name__}.Bits.ONE"),
        (Bits.ONE | Bits.TWO, f"{__name__}.Bits(3)"),
        (Point(1, "a"), f'{__name__}.Point(x=1, y="a")'),
        (Options(1, ["a"]), f'{__name__}.Options(size=1, names=["a"])'),
        (Called("sin"), f"{__name__}.sin"),
        (Called(None), f'{__name__}.Called("Called()")'),
        (SimpleNamespace(__name__="sin"), "types.SimpleNamespace(\"namespace(__name__='sin')\")"),
        (decimal.Decimal("1.5"), "decimal.Decimal(\"Decimal('1.5')\")"),
    ],
)
def test_a_value_has_its_exact_text(text, value, expected):
    assert text(value) == expected


def test_a_structseq_of_torch_is_told_apart_from_a_tuple(text):
    assert text(torch.tensor([1]).max(0)) == "torch.return_types.max([tensor(int64[], 1), tensor(int64[], 0)])"


def test_nodes_are_written_by_name_wherever_they_stand():
    graph = Graph()
    x = graph.placeholder("x")
    texts = ArgumentTexts(type(x))
    texts.references[x] = "%x"

    assert texts.text([x, {"k": (x, slice(x, None))}]) == '[%x, {"k": (%x, slice(%x, None, None))}]'


def test_a_node_that_no_earlier_node_is_is_refused():
    graph = Graph()
    x = graph.placeholder("x")

    with pytest.raises(DocumentError, match="it reads %x, which no earlier node of this graph makes"):
        ArgumentTexts(type(x)).text([x])


def test_an_object_without_a_description_of_its_own_is_refused(text):
    with pytest.raises(DocumentError, match=r"an object of type builtins.object has no text that is the same"):
        text(object())


def test_a_description_with_an_address_is_refused(text):
    class Named:
        def __repr__(self):
            return f"<Named at {id(self):#x}>"

    with pytest.raises(DocumentError, match=r"Named holds an address: <Named at 0x"):
        text(Named())


@pytest.mark.slow
def test_sets_are_written_alike_under_every_hash_seed():
    code = (
        "from pytest_fxgraph.document.argument_texts import ArgumentTexts;"
        "print(ArgumentTexts(None).text({'a', 'b', 'c', 'd', ('e', 1)}))"
    )

    texts = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }

    assert texts == {'{"a", "b", "c", "d", ("e", 1)}\n'}


def test_values_of_numpy_are_written_by_their_content(text):
    numpy = pytest.importorskip("numpy")

    assert text(numpy.float64(0.5)) == "numpy.float64(0.5)"
    assert text(numpy.int32(3)) == "numpy.int32(3)"
    assert text(numpy.array([1, 2])) == f"numpy.ndarray({text(torch.tensor([1, 2]))})"
    with pytest.raises(DocumentError, match=r"the text of an object of type numpy\.ndarray holds an address"):
        text(numpy.array([object()], dtype=object))


def test_a_structure_is_written_with_its_keys():
    _, spec = pytree.tree_flatten({"k": (1, [2])})

    assert ArgumentTexts(None).text(spec) == 'TreeSpec({"k": (*, [*])})'


def test_a_size_that_torch_knows_as_a_symbol_is_written_by_its_name():
    symbol = ShapeEnv().create_unbacked_symint()

    assert ArgumentTexts(None).text([symbol, 2]) == f'[torch.SymInt("{symbol}"), 2]'


@needs_fake_group
def test_there_are_groups_of_processes_once_the_processes_have_joined(monkeypatch):
    found = [has_groups()]
    with fake_group():
        found.append(has_groups())
        monkeypatch.delitem(sys.modules, "torch.distributed")
        found.append(has_groups())
        monkeypatch.undo()

    assert found == [False, True, False]
