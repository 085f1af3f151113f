from __future__ import annotations

from dataclasses import replace

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
        ("a", "a.b", "module renamed a -> a.b", ""),
        ("a.b", "a", "module renamed a.b -> a", ""),
        ("r.1", "r.head", "module renamed 1 -> head", "r"),
    ],
)
def test_a_renaming_names_the_parts_of_the_path_that_differ(path, other, words, place):
    (edit,) = compare_documents(calls(path), calls(other)).edits

    assert (edit.text, [site.where for site in edit.sites]) == (words, [place])


def known(calls_of: str, *paths: str):
    lines = ["%x = input x", *(f"%n{n} = {call}" for n, call in enumerate(calls_of.split("; ")))]
    results = ", ".join(f"%n{n}" for n in range(len(lines) - 1))
    modules = tuple(ModuleRecord(path, "torch.nn.ReLU") for path in paths)
    return document("\n".join([*lines, f"return ({results})"]), modules=modules)


@pytest.mark.parametrize(
    ("expected", "obtained", "words"),
    [
        (known("self.a(%x)", "a"), known("self.b(%x)", "b"), ["module renamed a -> b"]),
        (known("self.a(%x)", "a"), known("self.b(%x)", "a", "b"), ["module renamed a -> b"]),
        (known("self.a(%x)", "a", "b"), known("self.b(%x)", "b"), ["module renamed a -> b"]),
        (known("self.a(%x)", "a", "b"), known("self.b(%x)", "a", "b"), ["nn.ReLU a -> b"]),
        (known("self.r.1(%x)", "r.1", "r.2"), known("self.r.2(%x)", "r.1", "r.2"), ["block r.1 is gone: ReLU"]),
        (
            known("self.a(%x, 1); self.fc(%x, 2)", "a", "b", "fc"),
            known("self.b(%x, 1); self.head(%x, 2)", "a", "b", "head"),
            ["module renamed fc -> head", "nn.ReLU a -> b"],
        ),
        # methods may have the names of modules
        (known(".fc(%x)", "fc"), known(".head(%x)", "head"), [".fc -> .head"]),
    ],
)
def test_a_module_that_both_graphs_have_was_not_renamed(expected, obtained, words):
    assert sorted(edit.text for edit in compare_documents(expected, obtained).edits)[: len(words)] == words


def test_a_tensor_of_both_graphs_was_not_renamed():
    state = tuple(StateRecord(name, "parameter", "float32[4]") for name in "ab")
    graphs = [document(f"%x = input x\n%w = get {n}\n%y = torch.mul(%x, %w)\nreturn %y", state=state) for n in "ab"]

    (edit,) = compare_documents(*graphs).edits

    assert (edit.kind, edit.text) == ("replaced", "a -> b")


def holding(*tensors: StateRecord, calls: tuple[str, ...]):
    lines = ["%n = input n", *(f"%n{p} = self.{path}(%n{p - 1 if p else ''})" for p, path in enumerate(calls))]
    modules = tuple(ModuleRecord(path, "torch.nn.Linear") for path in calls)
    return document("\n".join([*lines, f"return %n{len(calls) - 1}"]), modules=modules, state=tensors)


def parameters(path: str, *names: str) -> list[StateRecord]:
    return [StateRecord(f"{path}.{name}", "parameter", "float32[4]") for name in names]


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ((), "module renamed fc -> head"),
        (("a",), "module renamed fc -> head: checkpoints with fc.a no longer load"),
        (("a", "b"), "module renamed fc -> head: checkpoints with fc.a, fc.b no longer load"),
        (("a", "b", "c"), "module renamed fc -> head: checkpoints no longer load (fc.a, fc.b and 1 more)"),
    ],
)
def test_the_keys_that_a_renaming_loses_are_named(names, words):
    difference = compare_documents(*(holding(*parameters(path, *names), calls=(path,)) for path in ("fc", "head")))

    assert [edit.text for edit in difference.edits] == [words]
    assert difference.rest == ()


@pytest.mark.parametrize(
    ("kind", "persistent", "is_key"),
    [("buffer", True, True), ("buffer", False, False), ("constant", True, False)],
)
def test_tensors_outside_the_state_dict_are_no_lost_keys(kind, persistent, is_key):
    states = [StateRecord(f"{path}.t", kind, "float32[4]", persistent=persistent) for path in ("fc", "head")]

    (edit,) = compare_documents(*(holding(each, calls=(each.path[:-2],)) for each in states)).edits

    assert edit.text == "module renamed fc -> head" + (": checkpoints with fc.t no longer load" if is_key else "")


def test_a_tensor_that_changed_with_its_module_is_no_part_of_the_renaming():
    before = holding(*parameters("fc", "w"), calls=("fc",))
    after = holding(StateRecord("head.w", "parameter", "float32[8]"), calls=("head",))

    texts = [edit.text for edit in compare_documents(before, after).edits]

    assert texts[0] == "module renamed fc -> head"
    assert len(texts) == 3  # one tensor came and one went


@pytest.mark.parametrize(
    ("paths", "others", "words"),
    [
        (("r.1",), ("r.2",), "module renumbered 1 -> 2"),
        (("r.1", "r.2"), ("r.4", "r.5"), "modules renumbered 1 -> 4, 2 -> 5"),
        (("r.1", "r.2", "r.3"), ("r.5", "r.6", "r.7"), "modules renumbered 1 -> 5, 2 -> 6, ..."),
    ],
)
def test_items_of_a_list_that_moved_by_equally_many_places_are_one_edit(paths, others, words):
    (edit,) = compare_documents(calls(*paths), calls(*others)).edits

    assert (edit.kind, edit.text, edit.sites[0].where) == ("renumbered", words, "r")


def test_several_renamings_in_one_block_are_one_edit():
    before, after = calls("b.0.norm", "b.0.fc", "b.0.act"), calls("b.0.ln", "b.0.lin", "b.0.relu")

    (edit,) = compare_documents(before, after).edits

    assert (edit.text, edit.sites[0].where) == ("modules renamed norm -> ln and 2 more", "b.0")


def test_two_renamings_in_one_block_are_one_edit():
    before, after = calls("b.0.p.norm", "b.0.q.fc"), calls("b.0.p.ln", "b.0.q.lin")

    (edit,) = compare_documents(before, after).edits

    assert (edit.text, edit.sites[0].where) == ("modules renamed p.norm -> p.ln and 1 more", "b.0")


@pytest.mark.parametrize(
    ("value", "kind", "words"),
    [
        ("float32[4]", "parameter", ["parameter renamed w -> v: checkpoints with w no longer load"]),
        ("float32[8]", "parameter", []),
        ("float32[4]", "buffer", []),
    ],
)
def test_a_tensor_is_renamed_where_kind_and_value_stay(value, kind, words):
    graphs = [
        document(f"%x = input x\n%w = get {path}\n%y = torch.mul(%x, %w)\nreturn %y", state=(state,))
        for path, state in (
            ("w", StateRecord("w", "parameter", "float32[4]")),
            ("v", StateRecord("v", kind, value)),
        )
    ]

    assert [edit.text for edit in compare_documents(*graphs).edits if edit.kind == "renamed"] == words


@pytest.mark.parametrize(
    "other",
    [
        ModuleRecord("head", "torch.nn.GELU"),
        ModuleRecord("head", "torch.nn.ReLU", (("inplace", "True"),)),
        ModuleRecord("head", "torch.nn.ReLU", training=True),
    ],
)
def test_another_module_under_another_path_is_no_renaming(other):
    before, after = calls("fc"), calls("head")

    edits = compare_documents(before, replace(after, modules=(other,))).edits

    assert [edit for edit in edits if edit.kind == "renamed"] == []


def test_modules_that_changed_places_were_not_renamed():
    assert {edit.kind for edit in compare_documents(calls("a", "b"), calls("b", "a")).edits}.isdisjoint(
        {"renamed", "renumbered"}
    )


@pytest.mark.parametrize("second", ["self.a(%n0)", "self.a(%n0, 1)"])
def test_a_module_that_another_call_keeps_was_not_renamed(second):
    modules = tuple(ModuleRecord(path, "torch.nn.ReLU") for path in "ab")
    before = document("%n = input n\n%n0 = self.a(%n)\n%n1 = self.a(%n0)\nreturn %n1", modules=modules[:1])
    after = document(f"%n = input n\n%n0 = self.b(%n)\n%n1 = {second}\nreturn %n1", modules=modules)

    assert {edit.kind for edit in compare_documents(before, after).edits}.isdisjoint({"renamed", "renumbered"})


TENSOR = (StateRecord("w", "parameter", "float32[4]"), ModuleRecord("w", "GraphModule", graph=calls("a")))


@pytest.mark.parametrize(
    ("has_tensor", "has_graph"), [((0, 0), (0, 0)), ((1, 0), (0, 1)), ((0, 1), (1, 0)), ((1, 0), (0, 0))]
)
def test_a_path_without_an_equal_record_under_the_other_path_was_not_renamed(has_tensor, has_graph):
    tensor, graph = TENSOR
    before, after = (
        document(
            f"%x = input x\n%w = get {path}\n%y = f(%w, %x)\nreturn %y",
            state=(tensor._replace(path=path),) * is_tensor,
            modules=(graph._replace(path=path),) * is_graph,
        )
        for path, is_tensor, is_graph in zip("wv", has_tensor, has_graph, strict=True)
    )

    assert "renamed" not in {edit.kind for edit in compare_documents(before, after).edits}
