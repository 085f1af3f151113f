from __future__ import annotations

import pytest

from fixtures.oracle import assert_same
from fxcore.node_data import namespace
from fxcore.node_data.namespace import PARTS_FOR_TEXT, Namespace, TextCache, name_for_text, snake_case

WISHES = [
    "a",
    "a",
    "a_1",
    "a_1",
    "1x",
    "x.y",
    "for",
    "None",
    "sum",
    "print",
    "torch",
    "inf",
    "a_b_3",
    "a_b",
    "a_b_3",
    "FooBar",
    "a_0",
    "a_0",
    "a_00",
    "a_01",
    "a_1_1",
    "_1",
    "_1",
    "x_",
    "x__1",
    "self",
    "__x__",
    "add",
    "add_1",
    "add",
    "device",
    "nan",
    "NoneType",
    "pytree",
    "lambda",
    "_",
    "__",
    "x-y",
]


def test_wishes_are_granted_as_torch_fx_grants_them():
    def names(fx):
        graph = fx.Graph()
        return [graph.create_node("placeholder", "p", name=wish).name for wish in WISHES]

    assert_same(names)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("BatchNorm", "batch_norm"),
        ("conv2D", "conv2d"),
        ("HTTPServer", "httpserver"),
        ("already_snake", "already_snake"),
    ],
)
def test_camel_case_becomes_snake_case(text, expected):
    assert snake_case(text) == expected


def test_an_object_keeps_the_name_that_it_was_given():
    names, first, second = Namespace(), object(), object()

    given = [names.create_name("x", first), names.create_name("x", second), names.create_name("other", first)]

    assert given == ["x", "x_1", "x"]


def test_a_builtin_s_name_is_for_the_builtin_only():
    names = Namespace()

    assert names.create_name("len", len) == "len"
    assert Namespace().create_name("len", object()) == "len_1"


@pytest.mark.parametrize(
    "names", [["a", "b_1", "_c", "B"], ["a", "a"], ["a", "x.y"], ["a", "1x"], ["a", ""], ["a", "ü"], ["a", "sum"], []]
)
def test_names_are_kept_exactly_where_each_value_gets_its_own(names):
    namespace = Namespace()
    given = [namespace.create_name(name, None) for name in names]

    assert Namespace().keeps(names) == (given == names and bool(names))
    assert not (names and namespace.keeps(["unused"]))  # other names may have taken it


def test_a_name_is_kept_for_one_object():
    names, first = Namespace(), object()

    names.associate_name_with_obj("x", first)

    assert names.create_name("another", first) == "x"
    with pytest.raises(AssertionError, match="has a name already"):
        names.associate_name_with_obj("y", first)


@pytest.mark.parametrize(
    "names",
    [
        ["x", "add", "add_1", "add_7", "add_3", "relu", "_1", "__2", "x_1_2", "add_007"],
        ["max_1", "add_0"],
        ["x", "x"],
        ["max"],
        ["1x"],
        [],
    ],
)
def test_names_taken_together_are_those_that_are_taken_one_by_one(names):
    together, one_by_one = Namespace(), Namespace()

    is_taken = together.take_all(names)

    taken = [one_by_one.create_name(name, None) for name in names]
    assert is_taken == (taken == names and bool(names))
    if is_taken:
        later = [*names, "add", "x_1", "_", "max", "relu", "add_9", "add"]
        assert [together.create_name(name, None) for name in later] == [
            one_by_one.create_name(name, None) for name in later
        ]


def test_names_are_not_taken_together_beside_others():
    namespace = Namespace()
    namespace.create_name("y", None)

    assert not namespace.take_all(["x"])


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("__getitem__", "getitem"),
        ("__rAdd__", "r_add"),
        ("__private", "__private"),
        ("trailing__", "trailing__"),
        ("_one_", "_one_"),
        ("layerOne.conv", "layer_one.conv"),
        ("relu", "relu"),
    ],
)
def test_a_special_method_gives_a_node_the_name_without_underscores(target, name):
    assert name_for_text(target) == name
    assert PARTS_FOR_TEXT[target][0] == name.replace(".", "_")


def test_results_for_texts_are_kept_up_to_a_number(monkeypatch):
    monkeypatch.setattr(namespace, "_MOST_TEXTS", 2)
    made = []
    cache = TextCache(lambda text: made.append(text) or text.upper())

    assert [cache[text] for text in ("a", "b", "a", "b")] == ["A", "B", "A", "B"]
    assert (made, len(cache)) == (["a", "b"], 2)
    assert cache["c"] == "C"
    assert list(cache) == ["c"]
