from __future__ import annotations

import pytest

from fixtures.documents import document
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.document.model import ModuleRecord, StateRecord


def calls(*paths: str):
    lines = ["%n = input n", *(f"%n{p} = self.{path}(%n{p - 1 if p else ''})" for p, path in enumerate(paths))]
    modules = tuple(ModuleRecord(path, "torch.nn.ReLU") for path in paths)
    return document("\n".join([*lines, f"return %n{len(paths) - 1}"]), modules=modules)


@pytest.mark.parametrize(
    ("path", "other", "words", "place"),
    [
        ("fc", "head", "module renamed fc -> head", ""),
        ("a.fc", "b.fc", "module renamed a -> b", ""),
        ("a.fc.in", "b.fc.in", "module renamed a -> b", ""),
        ("x.a", "x.b", "module renamed a -> b", "x"),
        ("x.a.fc", "x.b.fc", "module renamed a -> b", "x"),
        ("x.a.fc", "x.b.head", "module renamed a.fc -> b.head", "x"),
        ("x.fc.fc", "x.head.fc", "module renamed fc -> head", "x"),
        ("fc.fc", "fc.fc.fc", "modules moved into fc", ""),
        ("fc", "x.fc", "modules moved into x", ""),
        ("x.y.fc", "fc", "modules moved out of x.y", ""),
        ("a", "b.fc", "module renamed a -> b.fc", ""),
    ],
)
def test_a_renaming_names_the_parts_of_the_path_that_differ(path, other, words, place):
    (edit,) = compare_documents(calls(path), calls(other)).edits

    assert (edit.text, [site.where for site in edit.sites]) == (words, [place])


def test_a_tensor_of_both_graphs_was_not_renamed():
    state = tuple(StateRecord(name, "parameter", "float32[4]") for name in "ab")
    graphs = [document(f"%x = input x\n%w = get {n}\n%y = torch.mul(%x, %w)\nreturn %y", state=state) for n in "ab"]

    (edit,) = compare_documents(*graphs).edits

    assert (edit.kind, edit.text) == ("replaced", "a -> b")
