from __future__ import annotations

from fixtures.documents import document
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.document.model import ModuleRecord


def counts(expected, obtained):
    changes = compare_documents(expected, obtained, level="ops").changes
    return [(change.where, change.expected, change.obtained) for change in changes]


def test_how_many_of_what_is_compared_and_nothing_else():
    expected = document("%x = input x\n%a = f(%x, 1)\n%b = g(%a)\n%c = f(%b, 2)\nreturn %c")
    obtained = document("%y = input y\n%a = f(%y, 7)\n%b = g(%a)\n%c = g(%b)\n%d = .f(%c)\nreturn (%c, %d)")

    assert counts(expected, expected) == []
    assert counts(expected, obtained) == [("f", "2", "1"), ("g", "1", "2"), ("f (method)", "0", "1")]


def test_modules_count_by_class():
    line = "%x = input x\n%a = self.act(%x)\nreturn %a"
    expected = document(line, modules=(ModuleRecord("act", "torch.nn.ReLU"),))
    renamed = document(line.replace("act", "other"), modules=(ModuleRecord("other", "torch.nn.ReLU"),))
    obtained = document(line, modules=(ModuleRecord("act", "torch.nn.GELU"),))

    assert counts(expected, renamed) == []
    assert counts(expected, obtained) == [("torch.nn.GELU", "0", "1"), ("torch.nn.ReLU", "1", "0")]


def test_operators_of_nested_graphs_count():
    line = "%x = input x\n%a = self.sub(%x)\nreturn %a"
    expected, obtained = (
        document(line, modules=(ModuleRecord("sub", "GraphModule", graph=document(inner)),))
        for inner in ("%x = input x\n%a = f(%x)\nreturn %a", "%x = input x\nreturn %x")
    )

    assert counts(expected, obtained) == [("f", "1", "0")]
