from __future__ import annotations

from dataclasses import replace

import pytest

from fixtures.documents import document
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.document.model import ModuleRecord, StateRecord

PLAIN = document(
    "%x = input x : int64[2]\n%a = f(%x, dim=1, keepdim=True)\n%b = g(%x) ! random\nreturn (%a, %b)",
    modules=(ModuleRecord("p", "P", (("k", "1"), ("l", "2"))), ModuleRecord("q", "Q")),
    state=(StateRecord("v", "buffer", "float32[1]"), StateRecord("w", "buffer", "float32[1]")),
    code="def forward(self, x):\n    return x",
    notes=("specialised on len(x) == 2",),
)


def exact(obtained, expected=PLAIN):
    return compare_documents(expected, obtained, level="exact")


def nodes(text: str):
    return replace(PLAIN, nodes=document(text).nodes)


CHANGED = {
    "name": (
        nodes("%x = input x : int64[2]\n%c = f(%x, dim=1, keepdim=True)\n%b = g(%x) ! random\nreturn (%c, %b)"),
        ("cosmetic", "c", "name", "a", "c"),
    ),
    "order": (
        nodes("%x = input x : int64[2]\n%b = g(%x) ! random\n%a = f(%x, dim=1, keepdim=True)\nreturn (%a, %b)"),
        ("order", "b", "order", "later", "earlier"),
    ),
    "order of keywords": (
        nodes("%x = input x : int64[2]\n%a = f(%x, keepdim=True, dim=1)\n%b = g(%x) ! random\nreturn (%a, %b)"),
        ("cosmetic", "a", "order of keywords", "dim, keepdim", "keepdim, dim"),
    ),
    "value that one side lacks": (
        nodes("%x = input x\n%a = f(%x, dim=1, keepdim=True)\n%b = g(%x) ! random\nreturn (%a, %b)"),
        ("signature", "x", "value", "int64[2]", "not recorded"),
    ),
    "code": (
        replace(PLAIN, code="def forward(self, x):\n    return x + 1"),
        ("cosmetic", "line 2", "", "return x", "return x + 1"),
    ),
    "length of code": (
        replace(PLAIN, code=PLAIN.code + "\n    # done"),
        ("cosmetic", "line 3", "", "", "# done"),
    ),
    "notes": (
        replace(PLAIN, notes=("specialised on len(x) == 3",)),
        ("signature", "notes[0]", "", "specialised on len(x) == 2", "specialised on len(x) == 3"),
    ),
    "order of modules": (replace(PLAIN, modules=PLAIN.modules[::-1]), ("order", "q", "order", "p", "q")),
    "order of state": (replace(PLAIN, state=PLAIN.state[::-1]), ("order", "w", "order", "v", "w")),
    "operator": (
        nodes("%x = input x : int64[2]\n%a = h(%x, dim=1, keepdim=True)\n%b = g(%x) ! random\nreturn (%a, %b)"),
        ("operators", "a", "target", "f", "h"),
    ),
}


@pytest.mark.parametrize("name", CHANGED)
def test_one_letter_is_one_difference(name):
    obtained, found = CHANGED[name]

    changes = [
        (change.kind, change.where, change.field, change.expected, change.obtained)
        for change in exact(obtained).changes
    ]

    assert found in changes


def test_order_of_configuration_is_a_difference_that_nothing_else_names():
    modules = (replace(PLAIN.modules[0], config=PLAIN.modules[0].config[::-1]), PLAIN.modules[1])

    (change,) = exact(replace(PLAIN, modules=modules)).changes

    assert (change.kind, change.where) == ("cosmetic", "the document")


def test_where_a_node_comes_from_is_never_compared():
    moved = tuple(replace(node, scope="layers.3", source="model.py:3: x") for node in PLAIN.nodes)

    assert exact(replace(PLAIN, nodes=moved)).is_empty


def test_a_name_in_a_nested_graph_is_a_difference():
    outer = "%x = input x\n%a = self.sub(%x)\nreturn %a"
    expected, obtained = (
        document(outer, modules=(ModuleRecord("sub", "GraphModule", graph=document(inner)),))
        for inner in ("%x = input x\n%p = f(%x)\nreturn %p", "%x = input x\n%q = f(%x)\nreturn %q")
    )

    (change,) = exact(obtained, expected).changes

    assert (change.kind, change.where, change.expected, change.obtained) == ("cosmetic", "sub/q", "p", "q")
