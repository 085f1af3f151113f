"""Nested outputs are compared part by part, each difference under its path."""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import math
import re

import numpy
import pytest
import torch

from fixtures.quantized_tensors import WrappingTensor
from pytest_fxgraph.choices import CHECKS
from pytest_fxgraph.equivalence.outputs import OutputComparison
from pytest_fxgraph.equivalence.tolerance import ToleranceRule
from pytest_fxgraph.errors import UncomparableError

Pair = collections.namedtuple("Pair", "first second")


@dataclasses.dataclass
class Record:
    values: torch.Tensor
    name: str = "r"


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Boxes:
    """An object that holds tensors, as detectors return it."""

    def __init__(self, scores, label="cat"):
        self.scores = scores
        self.label = label


class Slotted:
    __slots__ = ("values",)

    def __init__(self, values):
        self.values = values


class Ring:
    """Holds itself."""

    def __init__(self, values):
        self.values = values
        self.own = self


class Empty:
    """Has nothing to compare but its class."""


def closure_over(values):
    return lambda: values


def nested(*parts: torch.Tensor) -> torch.Tensor:
    return torch.nested.nested_tensor(list(parts))


def sentences(expected: object, obtained: object, **options: object) -> list[str]:
    comparison = OutputComparison(ToleranceRule(), **options)
    return [mismatch.sentence() for mismatch in comparison.compare(expected, obtained, "output")]


@pytest.mark.filterwarnings("ignore:.*quantized tensor creation functions.*are deprecated")
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.arange(3.0),
        lambda: (torch.arange(3), [torch.ones(2), None]),
        lambda: {"a": torch.tensor(math.nan), 1: (1, "x", 2.5, math.nan)},
        lambda: Pair(torch.zeros(0), torch.ones(1, dtype=torch.bool)),
        lambda: Record(torch.ones(2)),
        lambda: collections.OrderedDict(x=torch.eye(2).to_sparse()),
        lambda: torch.ones(2, 3, device="meta"),
        lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8),
        lambda: nested(torch.ones(2), torch.ones(3)),
        lambda: (torch.Size([1, 2]), torch.float32, torch.device("cpu"), slice(1, 2), {1, 2}),
        lambda: (Colour.RED, torch.strided, torch.channels_last, torch.relu, Boxes, math, torch.ops.aten.add.Tensor),
        lambda: torch.distributions.Normal(torch.zeros(2), torch.ones(2)),
        lambda: (Boxes(torch.ones(2)), Slotted(torch.ones(2)), Ring(torch.ones(2)), Empty()),
        lambda: ({"a": torch.ones(1)}.keys(), {"a": torch.ones(1)}.values(), {"a": torch.ones(1)}.items()),
        lambda: (numpy.arange(3.0), numpy.float32(1.5), numpy.array(["x", "y"]), numpy.array(None)),
        lambda: (torch.empty(0, 3), complex(math.nan, 1), math.inf, -math.inf),
        lambda: torch.quantize_per_channel(
            torch.ones(2), torch.tensor([0.1, 0.2]), torch.tensor([0, 1]), 0, torch.qint8
        ),
        lambda: (closure_over(torch.ones(1)), functools.partial(torch.add, torch.ones(1), alpha=2)),
        lambda: (
            torch.nn.Linear(1, 1).requires_grad_(False).apply(lambda layer: layer.weight.fill_(1) + layer.bias.fill_(0))
        ),
    ],
)
def test_equal_values_of_every_kind_agree(make):
    assert sentences(make(), make()) == []


@pytest.mark.parametrize(
    ("expected", "obtained", "words"),
    [
        (torch.ones(2), torch.ones(2).double(), "output has dtype torch.float32 in eager, torch.float64 in the graph"),
        (torch.ones(2, 1), torch.ones(2), "output has shape (2, 1) in eager, (2,) in the graph"),
        (torch.ones(2), torch.ones(2, device="meta"), "output has device cpu in eager, meta in the graph"),
        (torch.eye(2), torch.eye(2).to_sparse(), "has layout torch.strided in eager, torch.sparse_coo in"),
        (torch.ones(2, 3), torch.ones(3, 2).t(), "output has stride (3, 1) in eager, (1, 2) in the graph"),
        ([1], (1,), "output is list of 1 in eager, tuple of 1 in the graph"),
        (Pair(1, 2), (1, 2), "output is Pair of 2 in eager, tuple of 2 in the graph"),
        ([1, 2], [1], "output has 2 parts in eager, 1 in the graph; the graph lacks [1]"),
        ({"a": 1}, {"b": 1}, "output has 1 parts in eager, 1 in the graph; the graph lacks ['a']; eager lacks ['b']"),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, "the order ['a'], ['b'] in eager, ['b'], ['a'] in the graph"),
        ((1, None), (1, 0), "output[1] is None in eager, int in the graph"),
        (1, True, "output is int in eager, bool in the graph"),
        ({"k": [1, 2]}, {"k": [1, 3]}, "output['k'][1] is 2 in eager, 3 in the graph"),
        (1.0, math.nan, "output is 1.0 in eager, nan in the graph"),
        (Record(torch.ones(1)), Record(torch.zeros(1)), "output.values has other values in the graph than in eager"),
        (Pair(1, "x"), Pair(1, "y"), "output.second is 'x' in eager, 'y' in the graph"),
        (torch.ones(1), 1.0, "output is Tensor in eager, float in the graph"),
        (torch.eye(2).to_sparse(), (2 * torch.eye(2)).to_sparse(), "output has other values"),
        (Colour.RED, Colour.BLUE, "output is <Colour.RED: 1> in eager, <Colour.BLUE: 2> in the graph"),
        (torch.float32, torch.float64, "output is torch.float32 in eager, torch.float64 in the graph"),
        (torch.strided, torch.sparse_coo, "output is torch.strided in eager, torch.sparse_coo in the graph"),
        (Boxes(torch.ones(2)), Boxes(torch.zeros(2)), "output.scores has other values in the graph than in eager"),
        (Boxes(None, "cat"), Boxes(None, "dog"), "output.label is 'cat' in eager, 'dog' in the graph"),
        (Boxes(1), Slotted(1), "output is Boxes in eager, Slotted in the graph"),
        (Slotted(torch.ones(2)), Slotted(torch.zeros(2)), "output.values has other values in the graph than in eager"),
        (Ring(1), Ring(2), "output.values is 1 in eager, 2 in the graph"),
        (torch.distributions.Normal(0.0, 1.0), torch.distributions.Normal(0.5, 1.0), "output.loc has other values"),
        ({"a": 1}.values(), {"a": 2}.values(), "output[0] is 1 in eager, 2 in the graph"),
        ({"a": 1}.keys(), {"b": 1}.keys(), "output[0] is 'a' in eager, 'b' in the graph"),
        (numpy.arange(3.0), numpy.arange(3.0) + 1, "output has other values in the graph than in eager"),
        (numpy.arange(3.0), numpy.arange(4.0), "output has shape (3,) in eager, (4,) in the graph"),
        (numpy.float32(1), numpy.float32(2), "output has other values in the graph than in eager"),
        (numpy.array(["x"]), numpy.array(["x", "y", "z"]), "output is array(['x']"),
        (closure_over(1), closure_over(2), "output.__closure__[0] is 1 in eager, 2 in the graph"),
        (functools.partial(torch.add, 1), functools.partial(torch.add, 2), "output.args[0] is 1 in eager, 2 in"),
        (torch.nn.Linear(2, 1, bias=False), torch.nn.Linear(3, 1, bias=False), "output.state_dict()['weight'] has"),
        (type("Own", (list,), {})([1]), [1], "output is Own of 1 in eager, list of 1 in the graph"),
        ([1], [1, 2], "output has 1 parts in eager, 2 in the graph; eager lacks [1]"),
        ((1, 0), (1, None), "output[1] is int in eager, None in the graph"),
        (math, numpy, "output is <module 'math' "),
        (numpy.arange(2.0), numpy.array(["x", "y"]), "output is array([0., 1.]) in eager, array(['x', 'y']"),
        (math.inf, 1.0, "output is inf in eager, 1.0 in the graph"),
        (1.0, math.inf, "output is 1.0 in eager, inf in the graph"),
        (math.inf, -math.inf, "output is inf in eager, -inf in the graph"),
        (math.nan, 1.0, "output is nan in eager, 1.0 in the graph"),
        (1 + 1j, 1 - 1j, "output is (1+1j) in eager, (1-1j) in the graph"),
        (torch.ones(2, 1), torch.ones(2).double(), "output has shape (2, 1) in eager, (2,) in the graph"),
    ],
)  # fmt: skip
def test_each_difference_is_named_by_its_path(expected, obtained, words):
    found = sentences(expected, obtained)

    assert len(found) == 1
    assert words in found[0]


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_the_parts_of_nested_tensors_are_compared():
    found = sentences(nested(torch.ones(2), torch.ones(3)), nested(torch.ones(2), torch.zeros(3)))

    assert found == ["output[1] has other values in the graph than in eager"]


@pytest.mark.filterwarnings("ignore:.*quantized tensor creation functions.*are deprecated")
@pytest.mark.parametrize(
    ("obtained", "words"),
    [
        (((0.5, 0.25), (0, 1), 1), "has quantization axis 0, scale/zero point 0.5/0, 0.25/1 in eager, axis 1, "),
        (
            ((0.5, 0.25), (0, 2), 0),
            "scale/zero point 0.5/0, 0.25/1 in eager, axis 0, scale/zero point 0.5/0, 0.25/2 in",
        ),
        ((0.5, 3, None), "0.25/1 in eager, scale 0.5, zero point 3 in the graph"),
    ],
)
def test_the_quantization_of_a_tensor_is_compared(obtained, words):
    values, (scale, zero_point, axis) = torch.ones(2, 2), obtained
    expected = torch.quantize_per_channel(values, torch.tensor([0.5, 0.25]), torch.tensor([0, 1]), 0, torch.qint8)
    other = (
        torch.quantize_per_tensor(values, scale, zero_point, torch.qint8)
        if axis is None
        else torch.quantize_per_channel(values, torch.tensor(scale), torch.tensor(zero_point), axis, torch.qint8)
    )

    assert any(words in sentence for sentence in sentences(expected, other))


def test_all_differences_are_found_not_only_the_first():
    assert len(sentences(torch.ones(2), torch.ones(2, device="meta").double())) == 2
    assert sentences(strided(torch.ones(2, 3)), torch.zeros(2, 3)) == [
        "output has stride (1, 2) in eager, (3, 1) in the graph",
        "output has other values in the graph than in eager",
    ]
    found = sentences({"a": torch.ones(2), "b": [1, 2]}, {"a": torch.zeros(2), "b": [1, 5]})

    assert [sentence.partition(" ")[0] for sentence in found] == ["output['a']", "output['b'][1]"]


def test_an_object_of_which_only_the_type_is_known_is_refused_with_the_hook_to_write():
    with pytest.raises(UncomparableError, match=r"cannot compare output\['g'\]: an object of torch") as caught:
        sentences({"g": torch.Generator()}, {"g": torch.Generator()})

    assert "def pytest_fxgraph_compare_outputs(expected, obtained, path):" in str(caught.value)
    assert "if path == \"output['g']\":" in str(caught.value)
    same = torch.Generator()
    assert sentences(same, same) == []


def test_the_stride_of_a_single_element_means_nothing():
    assert sentences(torch.ones(1, 3).t(), torch.ones(3, 1)) == []


def test_requires_grad_is_compared_where_gradients_are_asked_for():
    expected = torch.ones(2, requires_grad=True)

    assert sentences(expected, expected.detach()) == []
    assert sentences(expected, expected.detach(), requires_grad=True) == [
        "output has requires_grad=True in eager, False in the graph"
    ]


def test_a_comparison_of_the_users_own_is_asked_first():
    def own(expected: object, obtained: object, path: str) -> str | None:
        return {"output[0]": "", "output[1]": "is off by one word"}.get(path)

    assert sentences([1, 2, 3], [9, 9, 9], custom_comparison=own) == [
        "output[1] is off by one word",
        "output[2] is 3 in eager, 9 in the graph",
    ]


def test_an_answer_of_the_users_comparison_counts_among_the_values():
    options = {"custom_comparison": lambda expected, obtained, path: "differs"}

    assert sentences(1, 1, **options) == ["output differs"]
    assert sentences(1, 1, checks=frozenset({"strides"}), **options) == []


def test_a_number_has_the_tolerance_of_its_path():
    def agrees(expected: float, obtained: float, **tolerances: object) -> bool:
        return not [*OutputComparison(ToleranceRule(**tolerances)).compare([expected], [obtained], "output")]

    assert agrees(1.0, 1.0 + 1e-8)
    assert not agrees(1.0, 1.0 + 1e-6)
    assert agrees(1.0, 2.0, rtol=0, atol={"output[0]": 1.0})
    assert not agrees(1.0, 2.0, rtol=0, atol={"output[1]": 1.0})


class Sometimes(collections.UserDict):
    """A mapping whose items may refuse."""

    def __init__(self, refuses):
        super().__init__(a=1)
        self._refuses = refuses

    def __iter__(self):
        if self._refuses:
            raise RuntimeError("not now")
        return super().__iter__()

    def __repr__(self):
        return f"Sometimes({self._refuses})"


class Refusing:
    """Cannot be compared."""

    def __eq__(self, other):
        raise RuntimeError("not comparable")

    __hash__ = None

    def __repr__(self):
        return "Refusing()"


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
def test_tensors_that_torch_cannot_compare_are_compared_by_wider_values():
    ones, zeros = (make(2, dtype=torch.complex32) for make in (torch.ones, torch.zeros))

    assert sentences(ones, ones.clone()) == []
    assert sentences(ones, zeros) == ["output has other values in the graph than in eager"]


def test_values_whose_methods_raise_differ():
    assert sentences(Sometimes(False), Sometimes(True)) == [
        "output is Sometimes(False) in eager, Sometimes(True) in the graph"
    ]
    assert sentences(Sometimes(True), Sometimes(False)) == [
        "output is Sometimes(True) in eager, Sometimes(False) in the graph"
    ]
    assert sentences(Refusing(), Refusing()) == ["output is Refusing() in eager, Refusing() in the graph"]


def test_a_list_that_a_graph_made_immutable_is_a_list():
    from fxcore.immutable_collections import immutable_list

    assert sentences([1, 2], immutable_list([1, 2])) == []


class Kind(torch.Tensor):
    """A tensor of a kind of its own."""


def strided(values: torch.Tensor) -> torch.Tensor:
    return values.t().contiguous().t()


@pytest.mark.parametrize(
    ("check", "other", "words"),
    [
        ("values", lambda x: x + 1, "output has other values"),
        ("dtype", lambda x: x.double(), "output has dtype torch.float32 in eager, torch.float64 in the graph"),
        ("layout", lambda x: x.to_sparse(), "output has layout torch.strided in eager, torch.sparse_coo in the graph"),
        ("strides", strided, r"output has stride \(3, 1\) in eager, \(1, 2\) in the graph"),
        ("requires_grad", lambda x: x.requires_grad_(), "output has requires_grad=False in eager, True in the graph"),
    ],
)
def test_a_check_that_is_left_out_finds_nothing_and_alone_it_finds_its_own(check, other, words):
    expected = torch.arange(6.0).reshape(2, 3)
    options = {"requires_grad": True}

    (alone,) = sentences(expected, other(expected.clone()), checks=frozenset({check}), **options)
    assert re.match(words, alone)
    assert sentences(expected, other(expected.clone()), checks=frozenset(CHECKS) - {check}, **options) == []


@pytest.mark.parametrize("other", [lambda x: x[:1], lambda x: [x], lambda x: x.as_subclass(Kind)])
def test_structure_type_and_shape_are_compared_whatever_the_checks_are(other):
    expected = torch.arange(6.0).reshape(2, 3)

    assert sentences(expected, other(expected), checks=frozenset({"aliasing"}))


def test_without_the_dtype_values_of_two_dtypes_are_compared():
    expected = torch.tensor([1.0, 2.0])

    assert sentences(expected, expected.bfloat16(), checks=frozenset({"values"})) == []
    assert sentences(expected, expected.bfloat16() + 1, checks=frozenset({"values"})) == [
        "output has other values in the graph than in eager"
    ]


def test_a_tensor_without_values_is_no_match_for_one_with_values():
    (told,) = sentences(torch.ones(2), torch.ones(2, device="meta"), checks=frozenset({"values"}))

    assert told == "output has device cpu in eager, meta in the graph"
    assert sentences(torch.ones(2, device="meta"), torch.ones(2), checks=frozenset({"strides"})) == [
        "output has device meta in eager, cpu in the graph"
    ]


def test_without_the_layout_a_tensor_without_strides_has_no_strides_to_compare():
    assert sentences(torch.eye(2), torch.eye(2).to_sparse(), checks=frozenset({"strides"})) == []
    assert sentences(torch.empty(0, 3), torch.empty(3, 0).t()) == []


def test_without_values_numbers_and_texts_may_differ():
    assert sentences((1, 2.0, "a"), (2, 3.0, "b"), checks=frozenset({"strides"})) == []
    assert sentences((1, 2.0), (2, 3.0, "b"), checks=frozenset({"strides"}))


def test_each_path_has_its_own_tolerance():
    expected, obtained = (
        {"a": torch.ones(2), "b": torch.ones(2)},
        {"a": torch.full((2,), 1.1), "b": torch.full((2,), 1.1)},
    )
    rule = ToleranceRule(rtol={"output['a']": 0.2})

    found = OutputComparison(rule).compare(expected, obtained, "output")

    assert [mismatch.where for mismatch in found] == ["output['b']"]


class Alike:
    """A key that prints like every other key of its class."""

    def __repr__(self) -> str:
        return "a key"


def test_keys_that_print_alike_cannot_be_compared():
    first, second = Alike(), Alike()
    values = {first: torch.ones(1), second: torch.ones(1)}

    (found,) = OutputComparison(ToleranceRule()).compare(values, values, "output")

    assert found.kind == "structure"
    assert found.description == "has two keys that print alike, so its parts cannot be told apart"
    for pair in ((values, {first: torch.ones(1)}), ({first: torch.ones(1)}, values)):
        (found,) = OutputComparison(ToleranceRule()).compare(*pair, "output")
        assert found.description == "has two keys that print alike, so its parts cannot be told apart"


@pytest.mark.parametrize(
    ("rule", "values", "would_match"),
    [
        ({"sqnr": 20.0}, [0.0, 0.0], True),  # zeros reach no SQNR
        ({"atol": 1.0}, [0.5, 0.0], True),
        ({"atol": 0.1}, [0.5, 0.0], False),
        ({"atol": 0.1}, [math.nan, math.inf], True),
        ({"atol": 0.1}, [math.nan, 1.0], False),
    ],
)
def test_zeros_match_zeros_small_values_and_no_values(rule, values, would_match):
    comparison = OutputComparison(ToleranceRule(None, rule.pop("atol", None), **rule))

    assert comparison.would_match_zeros(torch.tensor(values), "output") is would_match


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.filterwarnings("ignore:.*quantized tensor creation functions.*are deprecated")
@pytest.mark.parametrize(
    ("make", "would_match"),
    [
        (lambda: 0, False),
        (lambda: torch.tensor([0]), False),
        (lambda: torch.tensor([False]), False),
        (lambda: torch.tensor([0j]), True),
        (lambda: torch.tensor([1j]), False),
        (lambda: torch.ones(0), True),
        (lambda: torch.ones(1).to(torch.float8_e4m3fn), False),  # torch cannot tell whether it is finite
        (lambda: torch.ones(1, device="meta"), True),
        (lambda: torch.quantize_per_tensor(torch.zeros(2), 0.5, 1, torch.qint8), True),
        (lambda: torch.quantize_per_tensor(torch.ones(2), 0.5, 1, torch.qint8), False),
        (lambda: nested(torch.zeros(1), torch.zeros(2)), True),
        (lambda: nested(torch.zeros(1), torch.ones(2)), False),
    ],
)
def test_integers_and_python_values_cannot_be_mistaken_for_zeros(make, would_match):
    assert OutputComparison(ToleranceRule()).would_match_zeros(make(), "output") is would_match


def test_the_users_comparison_decides_about_outputs_alone():
    answers = [(None, True, True), ("", False, True), ("differs", False, True)]

    for answer, of_output, of_state in answers:
        comparison = OutputComparison(ToleranceRule(), custom_comparison=lambda *_, answer=answer: answer)
        assert comparison.would_match_zeros(torch.zeros(1), "output") is of_output
        assert comparison.would_match_zeros(torch.zeros(1), "buffer b", is_output=False) is of_state


@pytest.mark.parametrize("answer", [False, True, 0, {}])
def test_an_answer_of_the_users_comparison_that_is_no_text_is_refused(answer):
    with pytest.raises(
        UncomparableError, match=f"compare_outputs gave {answer} for output; expected '' for equal outp"
    ):
        sentences([1], [2], custom_comparison=lambda *_: answer)


def test_the_users_comparison_is_asked_about_a_tensor_that_wraps_others_and_not_about_its_parts():
    asked = []
    comparison = OutputComparison(
        ToleranceRule(rtol=0.0, atol=1.0),
        custom_comparison=lambda expected, obtained, path: asked.append(type(expected)),
    )

    assert comparison.would_match_zeros(WrappingTensor(torch.ones(2), torch.ones(2)), "output")
    assert asked == [WrappingTensor]
