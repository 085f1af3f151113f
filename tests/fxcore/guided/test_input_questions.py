"""Questions about inputs become guards: presence, type, length, keys, singletons and identity."""

from __future__ import annotations

import dataclasses
import enum
import functools
import math
import pickle
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

import fxcore
from fxcore.errors import GuardError


class Mode(enum.Enum):
    SUM = 1
    MEAN = 2


@dataclass
class Batch:
    x: Any
    mask: Any = None


class Pair(NamedTuple):
    x: Any
    mask: Any


def by_mask_in_dict(d):
    return d["x"] * 2 if d["mask"] is None else d["x"] * d["mask"]


def by_stored_mask(d):
    mask = d["mask"]
    if mask is not None:
        return d["x"] * 2
    return d["x"]


def by_get(d):
    mask = d.get("mask")
    return d["x"] if mask is None else d["x"] * mask


def by_presence(d):
    return d["x"] * 2 if "mask" in d else d["x"]


def by_length(d):
    return d["x"] * len(d)


def by_none_in_tuple(pair):
    x, mask = pair
    return x if mask is None else x * 2


def by_field(batch):
    return batch.x if batch.mask is None else batch.x * 2


def sum_of_list(tensors):
    total = 0
    for each in tensors:
        total = total + each
    return total


def of_two(tensors):
    one, other = tensors
    return one + other


def by_text(x, name):
    return x * 2 if name == "double" else x


def by_flag(x, flag):
    return x * 2 if flag is True else x


def by_number(x, number):
    return x * 2 if number > 0.5 else x


def by_member(x, mode):
    return x.sum() if mode is Mode.SUM else x.mean()


def by_identity(x, y):
    return x * 2 if x is y else x + y


def by_type(x, kind):
    return x * 2 if kind is nn.ReLU else x


def by_dtype_argument(x, dtype):
    return x * 2 if dtype is torch.float32 else x


def by_helper(x, other):
    return x * factor_of(other)


def factor_of(mask):
    return 2 if mask is None else 3


def by_caught_key(d):
    try:
        return d["x"] * d["scale"]
    except KeyError:
        return d["x"]


def by_rank(x):
    rows, columns = x.shape
    return x.reshape(-1) / (rows + columns)


def by_attribute(x, options):
    return x * 2 if hasattr(options, "scale") else x


class Options:
    def __init__(self, **values):
        self.__dict__.update(values)


X, Y = torch.rand(3, 4), torch.rand(3, 4)

# Function, its example, inputs that would decide otherwise, and the guards.
ASKED = {
    "None in a dict": (by_mask_in_dict, ({"x": X, "mask": None},), ({"x": X, "mask": Y},), ["d['mask'] is None"]),
    "a tensor in a dict": (
        *(by_mask_in_dict, ({"x": X, "mask": Y},), ({"x": X, "mask": None},), ["d['mask'] is not None"]),
    ),
    "a stored item": (by_stored_mask, ({"x": X, "mask": Y},), ({"x": X, "mask": None},), ["d['mask'] is not None"]),
    "get, absent": (by_get, ({"x": X},), ({"x": X, "mask": Y},), ["'mask' not in d"]),
    "get, None": (by_get, ({"x": X, "mask": None},), ({"x": X, "mask": Y},), ["'mask' in d", "d['mask'] is None"]),
    "a missing key": (by_presence, ({"x": X},), ({"x": X, "mask": Y},), ["'mask' not in d"]),
    "a key": (by_presence, ({"x": X, "mask": Y},), ({"x": X},), ["'mask' in d"]),
    "a caught key": (by_caught_key, ({"x": X},), ({"x": X, "scale": Y},), ["'x' in d", "'scale' not in d"]),
    "length of a dict": (by_length, ({"x": X},), ({"x": X, "y": Y},), ["len(d) == 1"]),
    "None in a tuple": (*(by_none_in_tuple, ((X, None),), ((X, Y),), ["len(pair) == 2", "pair[1] is None"]),),
    "a tensor in a tuple": (*(by_none_in_tuple, ((X, Y),), ((X, None),), ["len(pair) == 2", "pair[1] is not None"]),),
    "None in a named tuple": (by_field, (Pair(X, None),), (Pair(X, Y),), ["batch.mask is None"]),
    "None in a dataclass": (by_field, (Batch(X),), (Batch(X, Y),), ["batch.mask is None"]),
    "a tensor in a dataclass": (by_field, (Batch(X, Y),), (Batch(X),), ["batch.mask is not None"]),
    "a loop over a list": (sum_of_list, ([X, Y],), ([X, Y, X],), ["len(tensors) == 2"]),
    "an unpacked list": (of_two, ([X, Y],), ([X, Y, X],), ["len(tensors) == 2"]),
    "a text": (by_text, (X, "double"), (X, "half"), ["name == 'double'"]),
    "True": (by_flag, (X, True), (X, False), ["flag"]),
    "True, and 1": (by_flag, (X, True), (X, 1), ["flag"]),
    "False": (by_flag, (X, False), (X, True), ["not flag"]),
    "a number": (by_number, (X, 0.75), (X, 0.25), ["number > 0.5"]),
    "a member of an enum": (by_member, (X, Mode.SUM), (X, Mode.MEAN), ["mode is Mode.SUM"]),
    "a class": (by_type, (X, nn.ReLU), (X, nn.GELU), ["kind is ReLU"]),
    "a dtype": (by_dtype_argument, (X, torch.float32), (X, torch.float64), ["dtype == torch.float32"]),
    "one tensor twice": (by_identity, (X, X), (X, Y), ["y is x"]),
    "two tensors": (by_identity, (X, Y), (X, X), ["y is not x"]),
    "a helper, given": (by_helper, (X, Y), (X, None), ["other is not None"]),
    "a helper, None": (by_helper, (X, None), (X, Y), ["other is None"]),
    "the rank": (by_rank, (X,), (torch.rand(2, 3, 4),), ["len(x.shape) == 2"]),
    "a missing attribute": (*(by_attribute, (X, Options()), (X, Options(scale=2)), ["not hasattr(options, 'scale')"]),),
    "an attribute": (by_attribute, (X, Options(scale=2)), (X, Options()), ["hasattr(options, 'scale')"]),
}


@pytest.mark.parametrize("name", ASKED)
def test_a_question_about_the_structure_of_inputs_is_a_guard(name):
    function, example, others, guards = ASKED[name]

    graph_module = fxcore.symbolic_trace(function, example_inputs=example)

    assert [str(guard) for guard in graph_module.graph.guards] == guards
    torch.testing.assert_close(graph_module(*example), function(*example))
    graph_module.check_guards(*example)
    with pytest.raises(GuardError):
        graph_module.check_guards(*others)


def test_questions_that_nobody_asks_are_no_guards():
    def attention(query, key, value):
        return (query @ key.transpose(0, 1)).softmax(-1) @ value

    graph_module = fxcore.symbolic_trace(attention, example_inputs=(X, X, X))

    assert list(graph_module.graph.guards) == []
    inputs = (torch.rand(2, 4), torch.rand(5, 4), torch.rand(5, 3))
    torch.testing.assert_close(graph_module(*inputs), attention(*inputs))


def test_an_optional_argument_that_is_given_must_be_given():
    def masked(x, mask=None):
        return x if mask is None else x * mask

    graph_module = fxcore.symbolic_trace(masked, example_inputs=(X, Y))

    assert [str(guard) for guard in graph_module.graph.guards] == ["mask is not None"]
    with pytest.raises(GuardError, match="mask is not None"):
        graph_module.check_guards(X)


def test_a_module_that_compares_its_argument_with_none_asks_for_it():
    class Inner(nn.Module):
        def forward(self, x, bias):
            return x if bias is None else x + bias

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        def forward(self, x, others):
            return self.inner(x, others["b"])

    graph_module = fxcore.symbolic_trace(Outer(), example_inputs=(X, {"b": Y}))

    assert [str(guard) for guard in graph_module.graph.guards] == ["others['b'] is not None"]


def test_starred_arguments_have_guards_where_the_code_reads_them():
    def joined(x, *others, **named):
        return torch.cat([x, *others, *named.values()])

    graph_module = fxcore.symbolic_trace(joined, example_inputs=(X, Y), example_kwargs={"last": X})

    assert [str(guard) for guard in graph_module.graph.guards] == ["len(others) == 1", "list(named) == ['last']"]
    with pytest.raises(GuardError, match=r"list\(named\) == \['last'\]"):
        graph_module.check_guards(X, Y, last=X, other=Y)
    with pytest.raises(GuardError, match=r"len\(others\) == 1"):
        graph_module.check_guards(X, last=X)


def test_starred_arguments_that_nobody_reads_are_free():
    graph_module = fxcore.symbolic_trace(lambda x, *others, **named: x * 2, example_inputs=(X,))

    assert list(graph_module.graph.guards) == []
    assert torch.equal(graph_module(X, Y, last=Y), X * 2)


def test_a_part_that_only_guards_ask_for_leaves_no_node():
    graph_module = fxcore.symbolic_trace(by_stored_mask, example_inputs=({"x": X, "mask": Y},))

    assert [node.name for node in graph_module.graph.nodes] == ["d", "getitem_1", "mul", "output"]


def by_pattern_of_shape(x):
    match x.shape:
        case (3, columns):
            return x * columns
        case (_, _, depth):
            return x * depth
    return x


def by_pattern_of_dict(d):
    match d:
        case {"kind": "scale", "x": x}:
            return x * 2
        case {"x": x}:
            return x


def by_pattern_of_class(batch):
    match batch:
        case Batch(x=x, mask=None):
            return x
        case Batch(x=x, mask=mask):
            return x * mask
        case list():
            return batch[0]


@pytest.mark.parametrize(
    ("function", "example", "other"),
    [
        (by_pattern_of_shape, (torch.rand(3, 2),), (torch.rand(2, 2),)),
        (by_pattern_of_shape, (torch.rand(5, 2, 3),), (torch.rand(3, 2),)),
        (by_pattern_of_shape, (torch.rand(5),), (torch.rand(5, 2, 3),)),
        (by_pattern_of_dict, ({"kind": "scale", "x": X},), ({"kind": "other", "x": X},)),
        (by_pattern_of_dict, ({"kind": "other", "x": X},), ({"kind": "scale", "x": X},)),
        (by_pattern_of_class, (Batch(X),), (Batch(X, Y),)),
        (by_pattern_of_class, (Batch(X, Y),), (Batch(X),)),
        (by_pattern_of_class, ([X],), (Batch(X, Y),)),
    ],
)
def test_a_match_statement_takes_the_example_s_case_and_guards_it(function, example, other):
    graph_module = fxcore.symbolic_trace(function, example_inputs=example)

    torch.testing.assert_close(graph_module(*example), function(*example))
    graph_module.check_guards(*example)
    # A condition behind the one that fails may not be computable.
    with pytest.raises((GuardError, LookupError, TypeError)):
        graph_module.check_guards(*other)


def test_items_of_starred_arguments_that_may_be_compared_with_none_must_be_given():
    def shifted(x, *more):
        (shift,) = more
        return x if shift is None else x * 2

    graph_module = fxcore.symbolic_trace(shifted, example_inputs=(X, Y))

    assert [str(guard) for guard in graph_module.graph.guards] == ["len(more) == 1", "more[0] is not None"]


class Base(nn.Module):
    def forward(self, x, scale=None):
        return x * math.sqrt(x.shape[0]) if scale is None else x * scale


class Derived(Base):
    def forward(self, x, scale=None):
        return super().forward(x, scale)


def test_code_behind_a_forward_of_a_base_class_is_traced_as_it_is():
    graph_module = fxcore.symbolic_trace(nn.Sequential(Derived(), Derived()), example_inputs=(X,))

    assert list(graph_module.graph.guards) == []
    torch.testing.assert_close(graph_module(torch.ones(4, 2)), torch.full((4, 2), 4.0))


def test_none_may_stand_on_the_left_of_is():
    def same(parts, other):
        return parts[0] * 2 if other is parts[1] else parts[0]

    graph_module = fxcore.symbolic_trace(same, example_inputs=([X, Y], None))

    with pytest.raises(GuardError):
        graph_module([X, None], None)


def test_a_guard_on_an_argument_has_the_line_of_the_function():
    graph_module = fxcore.symbolic_trace(by_flag, example_inputs=(X, True))

    (guard,) = graph_module.graph.guards
    assert guard.function == "by_flag"
    assert guard.source == "def by_flag(x, flag):"


ASKED_TYPES = {
    "a tensor": (lambda x: x * 2 if isinstance(x, torch.Tensor) else x[0], X, [X], ["isinstance(x, torch.Tensor)"]),
    "a list": (lambda x: x[0] * 2 if isinstance(x, list) else x[0], [X], (X,), ["isinstance(x, list)"]),
    "several types": (
        *(lambda x: x[0] if isinstance(x, (list, tuple)) else x, [X], X, ["isinstance(x, (list, tuple))"]),
    ),
    "a number": (
        lambda x: X * x if isinstance(x, int) else X + x,
        *(2, 2.0, ["isinstance(x, int)"]),
    ),
    "a parameter": (
        lambda x: x * 2 if isinstance(x, nn.Parameter) else x,
        *(X, nn.Parameter(X.clone()), ["not isinstance(x, Parameter)"]),
    ),
    "the very type": (
        lambda x: x * 2 if type(x) is torch.Tensor else x,
        *(X, nn.Parameter(X.clone()), ["type(x) is torch.Tensor"]),
    ),
    "the class of a number": (lambda x: X * x if x.__class__ is int else X + x, 2, 2.0, ["type(x) is int"]),
    "dtype": (lambda x: x * 2 if x.dtype == torch.float32 else x, X, X.double(), ["x.dtype == torch.float32"]),
    "requires_grad": (
        lambda x: x * 2 if x.requires_grad else x,
        *(X, X.clone().requires_grad_(), ["not x.requires_grad"]),
    ),
    "device": (lambda x: x * 2 if x.device.type == "cpu" else x, X, X.to("meta"), ["x.device.type == 'cpu'"]),
}


def with_gradient():
    x = X.clone().requires_grad_()
    x.sum().backward()
    return x


@pytest.mark.parametrize("name", ASKED_TYPES)
def test_a_question_about_a_type_is_a_guard(name):
    function, example, other, guards = ASKED_TYPES[name]

    graph_module = fxcore.symbolic_trace(function, example_inputs=(example,))

    assert [str(guard) for guard in graph_module.graph.guards] == guards
    graph_module.check_guards(example)
    with pytest.raises(GuardError):
        graph_module.check_guards(other)


def test_a_gradient_that_is_compared_with_none_is_a_guard():
    graph_module = fxcore.symbolic_trace(
        lambda x: x * 2 if x.grad is None else x, example_inputs=(X.clone().requires_grad_(),)
    )

    assert [str(guard) for guard in graph_module.graph.guards] == ["x.grad is None"]
    with pytest.raises(GuardError, match=r"x\.grad is None"):
        graph_module.check_guards(with_gradient())


def is_sequence(value):
    return isinstance(value, (list, tuple))


def flattened(x):
    return x[0] * 2 if is_sequence(x) else x


def test_a_question_of_a_helper_is_a_guard_and_survives_a_pickle():
    graph_module = fxcore.symbolic_trace(flattened, example_inputs=([X],))

    copied = pickle.loads(pickle.dumps(graph_module))

    assert [str(guard) for guard in copied.graph.guards] == ["isinstance(x, (list, tuple))"]
    copied.check_guards((X, X))
    with pytest.raises(GuardError):
        copied.check_guards(X)


def test_types_of_values_that_the_graph_computes_are_no_guards():
    graph_module = fxcore.symbolic_trace(
        lambda x: x * 2 if isinstance(x.shape[0], int) and type(x * 1) is torch.Tensor else x, example_inputs=(X,)
    )

    assert list(graph_module.graph.guards) == []


def test_the_names_mean_what_they_meant_after_the_trace():
    fxcore.symbolic_trace(flattened, example_inputs=(X,))

    assert not globals().keys() & {"isinstance", "type", "hasattr", "len"}


def test_the_length_of_a_tensor_stays_free():
    def spread(x):
        kept = x[x > 0.5]
        return x.reshape(len(x), 1, -1) * kept.new_ones(len(kept)).sum()

    graph_module = fxcore.symbolic_trace(spread, example_inputs=torch.rand(2, 3))

    assert not list(graph_module.graph.guards)
    x = torch.rand(5, 3)
    assert torch.equal(graph_module(x), spread(x))


class Kind(type):
    """A class of classes."""


def answers_of_type():
    class Made(type):
        pass

    found = [
        *(issubclass(Kind, type), issubclass(int, type), isinstance(int, type), isinstance(1, type)),
        *(Made.__mro__[1:] == Kind.__mro__[1:], type.__name__, type[int], type | None, None | type),
        *({type: 1}.get(type(int)), type("Other", (), {}).__name__, type.mro(Kind)),
    ]
    return [*found, type == type(int), type != int, type == type]  # noqa: E721


EXPECTED_OF_TYPE = answers_of_type()


def test_the_class_type_itself_keeps_its_answers_in_traced_code():
    graph_module = fxcore.symbolic_trace(
        lambda x: x + (answers_of_type() == EXPECTED_OF_TYPE), example_inputs=torch.ones(2)
    )

    assert graph_module(torch.ones(2)).tolist() == [2, 2]
    assert not graph_module.graph.guards


def test_a_missing_item_of_a_list_that_the_code_catches_is_a_guard():
    def second_or_first(items):
        try:
            return items[1]
        except IndexError:
            return items[0] * 2

    x = torch.ones(2)
    graph_module = fxcore.symbolic_trace(second_or_first, example_inputs=([x],))

    assert torch.equal(graph_module([x]), x * 2)
    with pytest.raises(GuardError, match="len"):
        graph_module([x, x])


def test_a_part_that_is_none_lets_parts_before_it_be_compared_with_none():
    def first_or_sum(x, parts):
        first, second = parts["first"], parts["second"]
        if first is x:
            return first
        return x + first if second is None else x + second

    x = torch.ones(3)
    graph_module = fxcore.symbolic_trace(first_or_sum, example_inputs=(x, {"first": x + 1, "second": None}))

    assert [str(guard) for guard in graph_module.graph.guards] == [
        "parts['first'] is not None",
        "parts['first'] is not x",
        "parts['second'] is None",
        "x is not None",
    ]
    assert torch.equal(graph_module(x, {"first": x * 3, "second": None}), x * 4)
    for parts in ({"first": x, "second": None}, {"first": x * 3, "second": x}, {"first": None, "second": None}):
        with pytest.raises(GuardError):
            graph_module(x, parts)


@functools.singledispatch
def dispatched(x):
    return "other"


@dispatched.register
def _of_tensor(x: torch.Tensor):
    return x * 2


@dispatched.register
def _of_list(x: list):
    return [each * 3 for each in x]


def parts_or_none(x):
    try:
        return [each for each in x]  # noqa: C416 - the loop asks
    except TypeError:
        return None


def amount_or_none(x):
    try:
        return x.amount
    except AttributeError:
        return None


@dataclass
class Counted:
    x: Any
    amount: int = 2


ONES = torch.ones(3)
ASKED_ELSEWHERE = {
    "is_tensor": lambda x: x * 2 if torch.is_tensor(x) else "none",
    "is_tensor_like": lambda x: "one" if torch.overrides.is_tensor_like(x) else "none",
    "jit": lambda x: "one" if torch.jit.isinstance(x, torch.Tensor) else "none",
    "is_dataclass": lambda x: "one" if dataclasses.is_dataclass(x) else "none",
    "class": lambda x: "one" if x.__class__ is torch.Tensor else x.__class__.__name__,
    "singledispatch": lambda x: dispatched(x),
    "iterable": lambda x: "one" if isinstance(x, Iterable) else "none",
    "iterable attribute": lambda x: "one" if hasattr(x, "__iter__") else "none",
    "tree_map": lambda x: pytree.tree_map(lambda leaf: [leaf], x),
    "tree_leaves": lambda x: len(pytree.tree_leaves(x)),
    "caught loop": parts_or_none,
    "caught attribute": amount_or_none,
}
KINDS = {
    "tensor": ONES,
    "list": [ONES, ONES],
    "long list": [ONES] * 3,
    "dict": {"a": ONES},
    "nested": {"a": (ONES, [3])},
    "number": 3,
    "pair": Pair(ONES, 2),
    "dataclass": Counted(ONES),
}


@pytest.mark.parametrize("function", ASKED_ELSEWHERE.values(), ids=ASKED_ELSEWHERE)
def test_a_question_that_code_of_a_library_asks_is_answered_as_eager_does_or_refused(function):
    for name, example in KINDS.items():
        if function is amount_or_none and name == "tensor":
            continue  # a tensor is not asked for attributes that it lacks
        graph_module = fxcore.symbolic_trace(function, example_inputs=(example,))

        for kind, other in KINDS.items():
            try:
                obtained = graph_module(other)
            except GuardError:
                assert kind != name
            else:
                assert repr(obtained) == repr(function(other)), (name, kind)


def test_a_library_finds_out_that_a_value_is_a_proxy():
    def asks(x):
        return x * (2 if isinstance(x, fxcore.Proxy) else 3)

    assert torch.equal(fxcore.symbolic_trace(asks, example_inputs=(ONES,))(ONES), 2 * ONES)


X = torch.rand(3, 4)


def copied_dict(named):
    return named["x"] if named.copy()["mask"] is None else named["x"] * 2


def same(query, key):
    return query * 2 if key is query else query + key


def same_or_nothing(query, key, value):
    return query * 2 if key is query else query + key + (0 if value is None else value)


def unpacked(pair):
    x, mask = pair
    return x if mask is None else x * mask


def unpacked_alone(single):
    (mask,) = single
    return mask * 2 if mask is not None else 0


def by_position(pair):
    mask = pair[1]
    return pair[0] if mask is None else pair[0] * mask


def first_leaf(tree):
    return pytree.tree_leaves(tree)[0] * 2


@pytest.mark.parametrize(
    ("function", "example", "guards"),
    [
        (copied_dict, ({"x": X, "mask": None},), ["named.copy()['mask'] is None"]),
        (same, (X, X.clone()), ["key is not query"]),
        (
            same_or_nothing,
            (X, X.clone(), None),
            ["key is not query", "value is None", "query is not None", "key is not None"],
        ),
        (unpacked, ((X, X.clone()),), ["len(pair) == 2", "pair[1] is not None"]),
        (unpacked, ((X, None),), ["len(pair) == 2", "pair[1] is None"]),
        (unpacked_alone, ((X,),), ["len(single) == 1", "single[0] is not None"]),
        (by_position, ((X, X.clone()),), ["pair[1] is not None"]),
        (lambda x: pytree.tree_leaves([x, x.shape])[0] * 2, (X,), ["isinstance(x, torch.Tensor)"]),
        (
            first_leaf,
            ({"x": X, "size": X.shape},),
            [
                "type(tree) is dict",
                "list(tree) == ['x', 'size']",
                "isinstance(tree['x'], torch.Tensor)",
                "type(tree['size']) is Size",
            ],
        ),
    ],
)
def test_a_program_has_exactly_these_guards(function, example, guards):
    graph_module = fxcore.symbolic_trace(function, example_inputs=example)

    assert [str(guard) for guard in graph_module.graph.guards] == guards
    assert torch.equal(graph_module(*example), function(*example))


@dataclass
class LargerBatch(Batch):
    size: int = 0


def test_the_fields_of_a_dataclass_are_those_of_its_class():
    def named(batch):
        return {each.name: getattr(batch, each.name) for each in dataclasses.fields(batch)}

    graph_module = fxcore.symbolic_trace(named, example_inputs=(Batch(X, X * 2),))

    assert [str(guard) for guard in graph_module.graph.guards] == ["type(batch) is Batch"]
    torch.testing.assert_close(graph_module(Batch(X, Y)), {"x": X, "mask": Y})
    with pytest.raises(GuardError, match="type\\(batch\\) is Batch: it is"):
        graph_module(LargerBatch(X, X))


def of_values(named):
    return [value * 2 for value in named.values() if value is not None]


def of_pairs(named):
    given = {}
    for key, value in named.items():
        if value is not None:
            given[key] = value
    return given


def of_sorted_pairs(named):
    for _, value in sorted(named.items()):
        if value is None:
            return 1
    return 2


def of_keys(named):
    return sum(named[key] is not None for key in named)


def of_an_added_key(named):
    value = named.setdefault("b", 1)
    return 1 if value is None else 2


def of_an_assigned_expression(named):
    if (value := named["b"]) is None:
        return 1
    return 2 if value is named else 3


def of_two_names(named):
    value = other = named["b"]
    return [value, 1 if other is None else 2]


def of_a_present_key(named):
    value = named["b"] if "b" in named else None  # noqa: SIM401 - the form under test
    return 1 if value is None else 2


def of_a_new_list(named):
    values = [named[key] for key in ("a", "b")]
    return 1 if values[1] is None else 2


def second_of(named):
    return named["b"]


def of_a_result(named):
    value = second_of(named)
    return 1 if value is None else 2


@pytest.mark.parametrize("other", [None, Y])
@pytest.mark.parametrize(
    "function",
    [
        *(of_values, of_pairs, of_sorted_pairs, of_keys, of_an_added_key, of_an_assigned_expression, of_two_names),
        *(of_a_present_key, of_a_new_list, of_a_result),
    ],
)
def test_an_item_that_is_compared_with_none_wherever_it_goes_is_a_guard(function, other):
    graph_module = fxcore.symbolic_trace(function, example_inputs=({"a": X, "b": other},))

    torch.testing.assert_close(graph_module({"a": X, "b": other}), function({"a": X, "b": other}))
    with pytest.raises(GuardError):
        graph_module({"a": X, "b": X if other is None else None})


class Holder:
    def __init__(self, value):
        self.value = value


def as_given(value):
    return value


def enclosing():
    def inner(value):
        return 1 if value is None else 2

    return lambda named: inner(named["b"])


def by_an_inner_function(named):
    def inner(value):
        return 1 if value is None else 2

    return inner(named["b"])


def in_a_new_dict(named):
    new = {"c": named["b"]}
    return 1 if new["c"] is None else 2


def in_a_called_dict(named):
    new = dict(c=named["b"])  # noqa: C408 - the form under test
    return 1 if new.get("c") is None else 2


def in_a_new_tuple(named):
    _, value = (named["a"], named["b"])
    return 1 if value is None else 2


def in_a_new_object(named):
    value = named["b"]
    return 1 if Holder(value).value is None else 2


def in_a_batch(named):
    batch = Batch(named["a"], mask=named["b"])
    return 1 if batch.mask is None else 2


def in_an_attribute(named):
    holder = Holder(0)
    holder.value = named["b"]
    return 1 if holder.value is None else 2


def in_a_set_attribute(named):
    holder = Holder(0)
    setattr(holder, "value", named["b"])  # noqa: B010 - the form under test
    return 1 if holder.value is None else 2


def in_an_old_list(named):
    values = []
    values.append(named["b"])
    return 1 if values[0] is None else 2


def in_an_old_dict(named):
    new = {}
    new["c"] = named["b"]
    return 1 if new["c"] is None else 2


def in_an_updated_dict(named):
    new = {}
    new.update(c=named["b"])
    return 1 if new["c"] is None else 2


def through_a_function(named):
    value = as_given(named["b"])
    return 1 if value is None else 2


class Helper:
    def asked(self, value):
        return 1 if value is None else 2

    def keep(self, value):
        self.kept = value

    def answer(self):
        return 1 if self.kept is None else 2


HELPER = Helper()


def by_a_global_object(named):
    return HELPER.asked(named["b"])


def by_a_new_object(named):
    return Helper().asked(named["b"])


def kept_by_an_object(named):
    helper = Helper()
    helper.keep(named["b"])
    return helper.answer()


def of_more(*values):
    return 1 if values[1] is None else 2


def of_names(**values):
    return 1 if values["b"] is None else 2


def by_more(named):
    return of_more(named["a"], named["b"])


def by_names(named):
    return of_names(b=named["b"])


def in_a_joined_dict(named):
    new = named | {"c": 1}
    return 1 if new["b"] is None else 2


def behind_none(named):
    return 1 if None is named["b"] else 2


@pytest.mark.parametrize(
    "function",
    [
        *(
            enclosing(),
            by_an_inner_function,
            in_a_new_dict,
            in_a_called_dict,
            in_a_new_tuple,
            in_a_new_object,
            in_a_batch,
        ),
        *(in_an_attribute, in_a_set_attribute, in_an_old_list, in_an_old_dict, in_an_updated_dict, through_a_function),
        *(by_a_global_object, by_a_new_object, kept_by_an_object, by_more, by_names, in_a_joined_dict, behind_none),
    ],
)
@pytest.mark.skipif(sys.version_info < (3, 11), reason="the places of instructions are known from Python 3.11 on")
def test_an_item_that_is_handed_on_is_a_guard_where_something_is_compared_with_none(function):
    graph_module = fxcore.symbolic_trace(function, example_inputs=({"a": X, "b": Y},))

    assert graph_module({"a": Y, "b": X}) == function({"a": Y, "b": X})
    with pytest.raises(GuardError, match=r"is not None: it is False"):
        graph_module({"a": X, "b": None})


class HoldsAHelper(nn.Module):
    def __init__(self):
        super().__init__()
        self.helper = Helper()

    def forward(self, named):
        return self.helper.asked(named["b"])


def behind_a_number(values):
    joined = [0] + values  # noqa: RUF005 - the form under test
    return 1 if joined[2] is None else 2


def before_a_number(values):
    joined = values + [0]  # noqa: RUF005 - the form under test
    return 1 if joined[1] is None else 2


def added_to_a_list(values):
    joined = []
    joined += values
    return 1 if joined[1] is None else 2


def twice(values):
    return 1 if (values * 2)[3] is None else 2


@pytest.mark.parametrize("function", [behind_a_number, before_a_number, added_to_a_list, twice])
def test_an_item_of_a_joined_list_is_a_guard_where_it_is_compared_with_none(function):
    graph_module = fxcore.symbolic_trace(function, example_inputs=([X, Y],))

    assert graph_module([Y, X]) == function([Y, X])
    with pytest.raises(GuardError, match="is not None: it is False"):
        graph_module([X, None])


def decorated(function):
    @functools.wraps(function)
    def call(*args, **kwargs):
        return function(*args, **kwargs)

    return call


def asked(value):
    return 1 if value is None else 2


decorated_asked = decorated(asked)
partly_asked = functools.partial(asked)
NAMED = {"asked": asked}


class Called:
    def __call__(self, value):
        return 1 if value is None else 2


CALLED = Called()


class HoldsMore(HoldsAHelper):
    def __init__(self):
        super().__init__()
        self.called, self.named = Called(), {"asked": asked}

    @staticmethod
    def static(value):
        return 1 if value is None else 2

    @classmethod
    def of_class(cls, value):
        return 1 if value is None else 2

    @decorated
    def method(self, value):
        return 1 if value is None else 2


def with_forward(forward):
    return type("Asking", (HoldsMore,), {"forward": forward})()


@pytest.mark.parametrize(
    "model",
    [
        HoldsAHelper(),
        with_forward(lambda self, named: self.static(named["b"])),
        with_forward(lambda self, named: HoldsMore.static(named["b"])),
        with_forward(lambda self, named: self.of_class(named["b"])),
        with_forward(lambda self, named: self.method(named["b"])),
        with_forward(lambda self, named: self.called(named["b"])),
        with_forward(lambda self, named: self.named["asked"](named["b"])),
        lambda named: decorated_asked(named["b"]),
        lambda named: partly_asked(named["b"]),
        lambda named: NAMED["asked"](named["b"]),
        lambda named: CALLED(named["b"]),
    ],
)
def test_a_function_that_is_reached_in_another_way_asks_with_a_guard(model):
    graph_module = fxcore.symbolic_trace(model, example_inputs=({"b": X},))

    assert graph_module({"b": Y}) == 2
    with pytest.raises(GuardError, match="named\\['b'\\] is not None"):
        graph_module({"b": None})


def output_beside(x, value):
    held = {"x": x}
    return (held["x"] if held.get("y") is None else 0), value


def used_alone(x, value):
    held = {"x": x * 2}
    return held["x"] + value.sum() if held.get("y") is None else 0


@pytest.mark.parametrize("function", [output_beside, used_alone])
def test_an_argument_that_is_returned_or_computed_with_alone_makes_no_guard_on_none(function):
    graph_module = fxcore.symbolic_trace(function, example_inputs=(X, Y))

    assert "value is not None" not in [str(guard) for guard in graph_module.graph.guards]


@pytest.mark.parametrize("value", [Y, None])
def test_an_argument_that_is_handed_on_is_a_guard(value):
    def function(x, value):
        held = {"other": value}
        return x if held["other"] is None else x * 2

    graph_module = fxcore.symbolic_trace(function, example_inputs=(X, value))

    torch.testing.assert_close(graph_module(Y, value), function(Y, value))
    with pytest.raises(GuardError, match="value is"):
        graph_module(X, X if value is None else None)


@pytest.mark.parametrize("at", [0, 1])
def test_an_item_of_a_numbered_loop_is_compared_with_none(at):
    def position(items):
        for index, item in enumerate(items):
            if item is None:
                return index
        return -1

    graph_module = fxcore.symbolic_trace(position, example_inputs=([X, X],))

    with pytest.raises(GuardError, match=rf"items\[{at}\] is not None"):
        graph_module([None if index == at else X for index in range(2)])


def by_name(batch):
    for name in ("x", "mask"):
        if getattr(batch, name) is None:
            return name
    return "all"


def as_a_dict(pair):
    return [name for name, value in pair._asdict().items() if value is not None]


@pytest.mark.parametrize(("function", "made"), [(by_name, Batch), (as_a_dict, Pair)])
def test_a_guard_on_an_attribute_does_not_depend_on_how_often_the_code_ran(function, made):
    for _ in range(20):  # Python replaces instructions of code that runs often
        function(made(X, None))

    for _ in range(3):
        graph_module = fxcore.symbolic_trace(function, example_inputs=(made(X, Y),))

        assert graph_module(made(Y, X)) == function(made(Y, X))
        with pytest.raises(GuardError, match="is not None: it is False"):
            graph_module(made(X, None))
