from __future__ import annotations

import pytest
import torch

from fixtures.documents import document
from fixtures.step_passes import done, nodes_of, update_of
from fixtures.train_steps import net_inputs, net_step
from pytest_fxgraph import capture, diff_graphs
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.document.model import StateRecord

READS = "%x = input x\n%w = get fc.weight\n%y = torch.mul(%x, %w)\nreturn %y"
TRAINED = StateRecord("fc.weight", "parameter", "float32[4]", requires_grad=True)


def words(changed: StateRecord):
    return [edit.text for edit in compare_documents(*(document(READS, state=(s,)) for s in (TRAINED, changed))).edits]


def test_a_parameter_that_became_a_buffer_is_one_edit_with_all_its_fields():
    assert words(StateRecord("fc.weight", "buffer", "int8[4]")) == [
        "buffer weight: kind parameter -> buffer, float32[4] -> int8[4], requires_grad True -> False"
    ]


def test_fields_of_a_tensor_of_one_kind_are_edits_of_their_own():
    assert sorted(words(StateRecord("fc.weight", "parameter", "float32[8]"))) == [
        "parameter weight: float32[4] -> float32[8]",
        "requires_grad True -> False",
    ]


@pytest.mark.parametrize(("persistent", "text"), [(True, "is no longer"), (False, "is now")])
def test_a_buffer_enters_or_leaves_the_state_dict(persistent, text):
    buffer = StateRecord("fc.weight", "buffer", "float32[4]", persistent=persistent)
    graphs = [document(READS, state=(state,)) for state in (buffer, buffer._replace(persistent=not persistent))]

    (edit,) = compare_documents(*graphs).edits

    assert edit.text == f"buffer weight {text} in the state dict"


def reading(*paths: str, state: tuple[StateRecord, ...]):
    lines = [f"%w{n} = get {path}\n%y{n} = torch.mul(%x, %w{n})" for n, path in enumerate(paths)]
    results = ", ".join(f"%y{n}" for n in range(len(paths)))
    return document("\n".join(["%x = input x", *lines, f"return ({results},)"]), state=state)


def tensors(*paths: str, tied: bool) -> tuple[StateRecord, ...]:
    first = StateRecord(paths[0], "parameter", "float32[4]")
    return (first, *(first._replace(path=path, same_as=paths[0] if tied else None) for path in paths[1:]))


@pytest.mark.parametrize(
    ("paths", "ties", "words"),
    [
        (("a", "b"), True, "b now shares storage with a"),
        (("a", "b"), False, "b no longer shares storage with a"),
        (("a", "b", "c"), True, "b, c now share storage with a"),
        (("a", "b", "c", "d"), False, "b, c, d no longer share storage with a"),
        (("a", "b", "c", "d", "e"), True, "b, c, d and 1 more now share storage with a"),
        (("a", "b", "c", "d", "e", "f"), True, "b, c, d and 2 more now share storage with a"),
    ],
)
def test_tensors_that_became_one_or_several_are_one_edit(paths, ties, words):
    graphs = [reading(*paths, state=tensors(*paths, tied=tied)) for tied in (not ties, ties)]

    (edit,) = compare_documents(*graphs).edits

    assert (edit.kind, edit.text, edit.sites[0].where) == ("tied" if ties else "untied", words, paths[1])


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (
            "float32[4, 4]",
            "float32[4, 4] as int8 per channel",
            ["parameter weight quantized: float32 -> int8 per channel"],
        ),
        ("float32[4] as int8", "float32[4]", ["parameter weight dequantized: int8 -> float32"]),
        ("float32[4] as int8", "float32[4] as int4", ["parameter weight: float32[4] as int8 -> float32[4] as int4"]),
    ],
)
def test_a_tensor_that_was_quantized_is_told_without_its_shape(before, after, words):
    states = [StateRecord("fc.weight", "parameter", value) for value in (before, after)]

    assert [edit.text for edit in compare_documents(*(document(READS, state=(s,)) for s in states)).edits] == words


def test_contents_that_changed_are_told():
    states = [StateRecord("fc.weight", "constant", "float32[1]", content=text) for text in ("[1.0]", "[2.0]")]

    assert [edit.text for edit in compare_documents(*(document(READS, state=(s,)) for s in states)).edits] == [
        "constant weight: values [1.0] -> [2.0]"
    ]


@pytest.mark.parametrize(("comes", "word"), [(True, "added"), (False, "removed")])
def test_a_tensor_of_a_module_that_came_or_went_is_told_with_its_shape(comes, word):
    text = "%x = input x\n%y = self.fc(%x)\nreturn %y"
    more = (TRAINED, StateRecord("fc.bias", "parameter", "float32[4]"))
    graphs = [document(text, state=state) for state in ((TRAINED,), more)]

    (edit,) = compare_documents(*(graphs if comes else graphs[::-1])).edits

    assert (edit.text, edit.sites[0].where) == (f"parameter bias[4] {word}", "fc")


@pytest.fixture
def graphs():
    return [capture(net_step(), net_inputs(), frontend="make_fx").graphs[0] for _ in range(2)]


def edit_texts(expected, obtained):
    return [edit.text for edit in diff_graphs(expected, obtained).edits]


def test_a_lost_and_a_new_update_are_named_by_their_state(graphs):
    full, partial = graphs
    partial.graph.erase_node(update_of(partial, "down.bias"))
    done(partial)

    assert "down.bias is no longer updated" in edit_texts(full, partial)
    assert "down.bias is updated now" in edit_texts(partial, full)


def test_an_update_by_another_value_names_both_values(graphs):
    expected, obtained = graphs
    node, before = update_of(obtained, "norm.bias"), update_of(expected, "norm.bias").args[1]
    node.args = (node.args[0], update_of(obtained, "norm.weight").args[1])
    obtained.recompile()

    (text,) = edit_texts(expected, obtained)[:1]
    assert text == f"norm.bias is updated by %{node.args[1].name} in place of %{before.name}"


def test_a_copy_elsewhere_is_an_operator(graphs):
    expected, obtained = graphs
    buffer = next(node for node in obtained.graph.nodes if node.target == "norm.running_mean")
    with obtained.graph.inserting_before(nodes_of(obtained, torch.ops.aten.copy_.default)[0]):
        node = obtained.graph.call_function(torch.ops.aten.copy_.default, (buffer, buffer))
    node.meta["nn_module_stack"] = {"forward": ("forward", "")}
    obtained.recompile()

    assert not [text for text in edit_texts(expected, obtained) if "updated" in text]


def test_a_call_that_reads_a_tied_tensor_under_its_other_path_is_part_of_the_edit():
    text = "%x = input x\n%w = get a\n%y = torch.mul(%x, %w)\n%v = get b\n%z = torch.add(%y, %v)\nreturn %z"
    untied = document(text, state=tensors("a", "b", tied=False))
    tied = document(text.replace("(%y, %v)", "(%y, %w)"), state=tensors("a", "b", tied=True))

    difference = compare_documents(untied, tied)

    assert [edit.text for edit in difference.edits] == ["b now shares storage with a"]
    assert not difference.rest


def test_two_tensors_that_are_no_longer_one_are_told_beside_a_tensor_whose_other_path_went():
    def graph(paths, tied):
        state = [*tensors("a", "b", tied=tied)[: len(paths) - 2], *tensors("c", "d", tied=tied)]
        return reading(*paths, state=tuple(state))

    edits = compare_documents(graph("abcd", tied=True), graph("acd", tied=False)).edits

    assert "d no longer shares storage with c" in [edit.text for edit in edits]


@pytest.mark.parametrize(
    ("call", "other", "words"),
    [
        ("f(%y)", "f(%x)", "f reads x in place of mul"),
        ("f(%y)", "f(%y, %x)", "f argument 2: nothing -> x"),
    ],
)
def test_a_call_that_reads_other_values_is_no_part_of_tensors_that_became_one(call, other, words):
    text = (
        "%x = input x\n%w = get a\n%y = torch.mul(%x, %w)\n%v = get b\n%z = torch.add(%y, {})\n%u = {}\nreturn (%z, %u)"
    )
    untied = document(text.format("%v", call), state=tensors("a", "b", tied=False))
    tied = document(text.format("%w", other), state=tensors("a", "b", tied=True))

    assert {edit.text for edit in compare_documents(untied, tied).edits} == {"b now shares storage with a", words}


def test_each_tensor_that_became_a_buffer_is_told():
    state = tensors("a", "b", tied=False)
    buffers = tuple(record._replace(kind="buffer", value=f"float32[{n}]") for n, record in enumerate(state))

    edits = compare_documents(reading("a", "b", state=state), reading("a", "b", state=buffers)).edits

    assert sorted(edit.text for edit in edits) == [
        f"buffer {name}: kind parameter -> buffer, float32[4] -> float32[{n}]" for n, name in enumerate("ab")
    ]


STEP = "%x = input x\n%w = get w\n%v = get v\n%a = torch.exp(%x)\n%b = torch.sin(%x)\n{}\nreturn (%a, %b)"
UPDATE = "%c = aten.copy_.default(%w, %a) @ update.w"


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (UPDATE, UPDATE.replace("%a", "%b"), "w is updated by %b in place of %a"),
        # another call that reads another value, first
        (f"%f = f(%a)\n{UPDATE}", f"%f = f(%b)\n{UPDATE.replace('%a', '%b')}", "w is updated by %b in place of %a"),
        (UPDATE, UPDATE.replace("%w", "%v"), "aten.copy_ reads v in place of w"),
        (UPDATE, UPDATE.replace("%a", "%a, True"), "aten.copy_ argument 3: nothing -> True"),
        # no update
        ("%c = f(%w, %a) @ update.w", "%c = f(%w, %b) @ update.w", "f reads sin in place of exp"),
        ("%c = aten.copy_.default(%w, %a)", "%c = aten.copy_.default(%w, %b)", "aten.copy_ reads sin in place of exp"),
    ],
)
def test_an_update_by_another_value_is_a_copy_to_state_at_the_end_of_a_step(before, after, words):
    difference = compare_documents(document(STEP.format(before)), document(STEP.format(after)))

    assert words in [edit.text for edit in difference.edits]


def test_a_lost_and_a_new_update_have_their_node():
    with_update, without = document(STEP.format(UPDATE)), document(STEP.format("%d = f(1)").replace("%d = f(1)\n", ""))

    (lost,) = compare_documents(with_update, without).edits
    (new,) = compare_documents(without, with_update).edits

    assert (lost.text, lost.sites[0].expected, lost.sites[0].obtained) == ("w is no longer updated", ("c",), ())
    assert (new.text, new.sites[0].expected, new.sites[0].obtained) == ("w is updated now", (), ("c",))
