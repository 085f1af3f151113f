from __future__ import annotations

import pytest

from fixtures.documents import document
from pytest_fxgraph.compare.difference import Edit
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.document.model import ModuleRecord

SHAPES = "%x = input x : float32[2, 3]\n%a = torch.relu(%x) : float32[2, 3]\nreturn %a"
KIND = "torch.nn.Linear"


def edits_of(text: str, other: str, *modules: tuple[ModuleRecord, ...]) -> list[Edit]:
    before, after = modules or ((), ())
    return [*compare_documents(document(text, modules=before), document(other, modules=after)).edits]


def throughout(text: str, other: str, *modules: tuple[ModuleRecord, ...]) -> list[str]:
    return [edit.text for edit in edits_of(text, other, *modules) if edit.kind == "throughout"]


def linears(*configs: dict[str, str]) -> tuple[ModuleRecord, ...]:
    return tuple(ModuleRecord(f"fc{n}", KIND, tuple(config.items())) for n, config in enumerate(configs))


def called(*values: str) -> str:
    lines = [f"%n{n} = self.fc{n}(%x) : {value}" for n, value in enumerate(values)]
    return "\n".join(["%x = input x : float32[2, 3]", *lines, "return %n0"])


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (SHAPES.replace("[2", "[4"), ["batch 2 -> 4 everywhere"]),
        (SHAPES.replace("[2, 3]", "[4, 6]"), ["batch 2 -> 4 everywhere"]),  # 3 -> 6 is the same factor
        (SHAPES.replace("[2, 3]", "[4, 9]"), []),
        (SHAPES.replace("3]", "6]"), ["size 3 -> 6 everywhere"]),
        (SHAPES.replace("[2", "[0"), []),  # a size of nothing has no factor
        (SHAPES.replace("float32", "float64"), ["float32 -> float64 everywhere"]),
        (SHAPES.replace("float32", "int8"), ["float32 -> int8 everywhere"]),
        (SHAPES.replace("float32", "bool"), ["float32 -> bool everywhere"]),
        (SHAPES.replace("float32", "uint16"), ["float32 -> uint16 everywhere"]),
        (SHAPES.replace("float32", "quint8"), []),
        (SHAPES.replace("float32[2", "float64[4"), []),
        (
            SHAPES.replace("[2, 3]", "[4, 3]", 1).replace(
                "a = torch.relu(%x) : float32[2", "a = torch.relu(%x) : float32[5"
            ),
            [],
        ),
        (SHAPES.replace("[2, 3]", "[2, 3, 1]"), []),
    ],
)
def test_one_change_of_all_sizes_or_dtypes_is_one_edit(other, words):
    assert throughout(SHAPES, other) == words


def test_a_change_of_other_nodes_is_told_beside_the_change_of_all_values():
    assert throughout(SHAPES, SHAPES.replace("[2", "[4").replace("relu", "tanh")) == ["batch 2 -> 4"]


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (".to(%a, torch.float64) : float64[2]\nreturn %b", ["float32 -> float64 everywhere"]),
        (".to(%a, torch.float64) : float64[2]\n%c = g(%b)\nreturn %c", ["float32 -> float64"]),
    ],
)
def test_an_argument_belongs_to_a_change_of_all_dtypes_beside_other_edits(other, words):
    text = "%x = input x : float32[2]\n%a = f(%x) : float32[2]\n%b = .to(%a, torch.float32) : float32[2]\nreturn %b"
    before, _, _ = text.partition(".to")

    edits = edits_of(text, before.replace("float32", "float64") + other)

    (edit,) = [edit for edit in edits if edit.kind == "throughout"]
    assert [edit.text] == words
    assert "args[1]" in {change.field for change in edit.changes}


def test_values_change_throughout_beside_another_argument():
    text = "%x = input x : float32[2]\n%a = f(%x, 'sum') : float32[2]\nreturn %a"

    assert throughout(text, text.replace("sum", "mean").replace("[2]", "[4]")) == ["batch 2 -> 4"]


def test_one_changed_dtype_is_told_where_it_stands():
    text = "%x = input x\n%a = .to(%x, torch.float32)\nreturn %a"

    assert throughout(text, text.replace("float32", "float64")) == []


def test_a_changed_dtype_of_an_argument_counts_among_changed_values():
    text = "%x = input x : float32[2]\n%a = .to(%x, torch.float32) : float32[2]\nreturn %a"

    assert throughout(text, text.replace("float32", "float64")) == ["float32 -> float64 everywhere"]


def test_a_batch_belongs_to_the_inputs():
    text = "%x = input x\n%a = torch.relu(%x) : float32[2]\n%b = torch.exp(%a) : float32[2]\nreturn %b"

    assert throughout(text, text.replace("[2]", "[4]")) == []


def test_inputs_of_two_batches_have_no_batch():
    text = "%x = input x : float32[2]\n%y = input y : float32[3]\n%a = f(%x, %y) : float32[2]\nreturn %a"

    assert throughout(text, text.replace("[2]", "[4]").replace("[3]", "[6]")) == ["sizes 2 -> 4, 3 -> 6 everywhere"]


@pytest.mark.parametrize(
    ("configs", "others", "values", "words"),
    [
        (  # one field of two modules is a change of the configuration
            [{"width": "8"}, {"width": "8"}],
            [{"width": "16"}, {"width": "16"}],
            ("float32[2]", "float32[2]"),
            [],
        ),
        (
            [{"width": "8"}, {"depth": "8"}],
            [{"width": "16"}, {"depth": "16"}],
            ("float32[2]", "float32[2]"),
            ["size 8 -> 16 everywhere"],
        ),
        ([{"width": "8", "depth": "8"}], [{"width": "16", "depth": "16"}], ("float32[2]",), []),
        (
            [{"width": "8"}, {"depth": "10"}],
            [{"width": "16"}, {"depth": "20"}],
            ("float32[2]", "float32[2]"),
            ["sizes 8 -> 16, 10 -> 20 everywhere"],
        ),
        ([{"width": "8"}, {"depth": "10"}], [{"width": "16"}, {"depth": "30"}], ("float32[2]", "float32[2]"), []),
        (
            [{"a": "2"}, {"b": "3"}, {"c": "10"}],
            [{"a": "4"}, {"b": "6"}, {"c": "20"}],
            ("float32[5]",) * 3,
            ["sizes 2 -> 4, 3 -> 6, 10 -> 20 everywhere"],
        ),
        (
            [{"a": "2"}, {"b": "3"}, {"c": "10"}, {"d": "9"}],
            [{"a": "4"}, {"b": "6"}, {"c": "20"}, {"d": "18"}],
            ("float32[5]",) * 4,
            ["sizes 2 -> 4, 3 -> 6, 9 -> 18, ... everywhere"],
        ),
    ],
)
def test_sizes_that_grow_by_one_factor_in_several_modules_are_one_edit(configs, others, values, words):
    text = called(*values)

    assert throughout(text, text, linears(*configs), linears(*others)) == words


def test_the_same_change_of_dtype_has_the_same_key_and_batches_share_one():
    def key(other: str) -> tuple[str, ...]:
        (edit,) = edits_of(SHAPES, other)
        return edit.key

    assert key(SHAPES.replace("[2", "[4")) == key(SHAPES.replace("[2", "[8")) == ("throughout", "batch")
    assert key(SHAPES.replace("float32", "float64")) != key(SHAPES.replace("float32", "float16"))
