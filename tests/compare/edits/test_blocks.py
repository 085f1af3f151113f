from __future__ import annotations

from dataclasses import replace

import pytest

from fixtures.documents import document
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.document.model import GraphDocument, ModuleRecord, StateRecord

WORDS = {"e": "exp", "s": "sin", "c": "cos", "t": "tan"}


def blocks(*contents: str, numbers: list[int] | None = None, parent: str = "layers", around: str = "") -> GraphDocument:
    """Return a graph that runs blocks in a row; each letter is an operator, L a layer with a weight."""
    lines, value, modules, state = ["%x = input x"], "x", [], []
    for number, content in zip(numbers or range(len(contents)), contents, strict=False):
        path = ".".join(part for part in (parent, str(number)) if part)
        for place, letter in enumerate(content):
            name = f"n{number}_{place}"
            if letter == "L":
                lines.append(f"%{name} = self.{path}.fc{place}(%{value}) @ {path}")
                modules.append(ModuleRecord(f"{path}.fc{place}", "torch.nn.Linear"))
                state.append(StateRecord(f"{path}.fc{place}.weight", "parameter", "float32[4]"))
            else:
                lines.append(f"%{name} = torch.{WORDS[letter]}(%{value}) @ {path}")
            value = name
    if around:
        lines.append(f"%last = torch.{around}(%{value})")
        value = "last"
    return document("\n".join([*lines, f"return %{value}"]), modules=tuple(modules), state=tuple(state))


def told(before: GraphDocument, after: GraphDocument) -> list[tuple[str, list[str]]]:
    edits = [edit for edit in compare_documents(before, after).edits if edit.kind == "block"]
    return [(edit.text, [site.where for site in edit.sites]) for edit in edits]


@pytest.mark.parametrize(
    ("before", "after", "words", "count"),
    [
        (["es"], ["es"] * 2, "layers.1 is new (1 block -> 2)", 1),
        (["es"] * 2, ["es"] * 3, "layers.2 is new (2 equal blocks -> 3)", 1),
        (["es"] * 2, ["es"] * 4, "layers.2 and layers.3 are new (2 equal blocks -> 4)", 2),
        (["es"] * 2, ["es"] * 5, "layers.2-4 are new (2 equal blocks -> 5)", 3),
        (["es"] * 2, ["es"] * 6, "layers.2-5 are new (2 equal blocks -> 6)", 4),
        (["es"] * 3, ["es"] * 2, "layers.2 is gone (3 equal blocks -> 2)", 1),
        (["es"] * 2, ["es"], "layers.1 is gone (2 equal blocks -> 1)", 1),
        (["eLs"] * 3, ["eLs"] * 2, "layers.2 is gone (3 equal blocks -> 2)", 1),
        (["es", "es", "ct"], ["es", "es"], "block layers.2 is gone: 2 operators (cos, tan)", 1),
        (["es"], ["es", "Lt", "Lt"], "block layers.1 and layers.2 are new: 2 operators (Linear, tan)", 2),
    ],
)
def test_blocks_that_came_or_went_are_one_edit_at_each_block(before, after, words, count):
    ((text, places),) = told(blocks(*before), blocks(*after))

    assert text == words
    assert places == [f"layers.{number}" for number in range(max(len(before), len(after)))][-count:]


@pytest.mark.parametrize(
    ("numbers", "kept", "words"),
    [
        ([0, 2, 4, 5], [1, 3, 6], "layers.0, layers.2, layers.4 and 1 more are gone"),
        ([0, 2, 4], [1, 3, 5, 6], "layers.0, layers.2 and layers.4 are gone"),
    ],
)
def test_of_scattered_blocks_three_are_named(numbers, kept, words):
    all_numbers = sorted([*numbers, *kept])
    ops = {number: "es" if number in kept else "ct" for number in all_numbers}
    before = blocks(*(ops[number] for number in all_numbers), numbers=all_numbers)

    ((text, _),) = told(before, blocks(*["es"] * len(kept), numbers=kept))

    assert text == f"block {words}: 2 operators (cos, tan)"


@pytest.mark.parametrize(
    ("parent", "words"),
    [
        ("", "block 2 is new (2 equal blocks -> 3)"),
        ("stages.1", "stages.1.2 is new (2 equal blocks -> 3)"),
        ("net.encoder.layer", "layer.2 is new (2 equal blocks -> 3)"),
        ("1", "block 1.2 is new (2 equal blocks -> 3)"),
    ],
)
def test_a_block_is_named_from_the_last_word_of_its_path(parent, words):
    graphs = [blocks(*["es"] * count, parent=parent) for count in (2, 3)]

    assert [text for text, _ in told(*graphs)] == [words]


def test_equal_blocks_are_counted_behind_another_edit_too():
    graph = blocks("es", "es", "ct", "es")
    first = graph.nodes[1]._replace(args=("%pre",))
    inserted = graph.nodes[1]._replace(name="pre", target="torch.neg", scope=None)
    obtained = replace(graph, nodes=(graph.nodes[0], inserted, first, *graph.nodes[2:]))

    assert told(blocks("es", "es", "ct"), obtained) == [("layers.3 is new (2 equal blocks -> 3)", ["layers.3"])]


def test_one_layer_of_several_in_a_row_is_no_block():
    assert told(blocks("e", "s", "c"), blocks("e", "s", "c", "t")) == []
    assert told(blocks("e", "e"), blocks("e", "e", "e")) == [
        ("layers.2 is new (2 equal blocks -> 3)", ["layers.2"]),
    ]


def renamed(graph: GraphDocument, path: str, other: str) -> GraphDocument:
    """Return a graph with another path of a module."""
    nodes = [node._replace(target=other) if node.target == path else node for node in graph.nodes]
    modules = [module._replace(path=other) if module.path == path else module for module in graph.modules]
    state = [record._replace(path=record.path.replace(path, other)) for record in graph.state]
    return replace(graph, nodes=tuple(nodes), modules=tuple(modules), state=tuple(state))


def test_blocks_are_equal_if_their_modules_have_equal_names():
    graph = renamed(blocks("eL", "eL", "eL"), "layers.2.fc1", "layers.2.out")

    assert told(blocks("eL", "eL"), graph) == [("block layers.2 is new: 2 operators (exp, Linear)", ["layers.2"])]


def test_blocks_of_two_parents_are_counted_apart():
    def both(count: int) -> GraphDocument:
        first, second = blocks(*["es"] * count, parent="a"), blocks(*["es"] * 4, parent="b")
        rest = [
            node._replace(name=f"m{node.name}", args=tuple(text.replace("%", "%m") for text in node.args))
            for node in second.nodes[1:]
        ]
        rest[0] = rest[0]._replace(args=("%x", "1"))
        return replace(first, nodes=(*first.nodes[:-1], *rest))

    assert told(both(2), both(3)) == [("a.2 is new (2 equal blocks -> 3)", ["a.2"])]


def test_a_block_of_several_operators_that_went_is_told_if_another_block_has_its_number_now():
    assert told(blocks("es", "ct"), blocks("ct")) == [("block layers.0 is gone: 2 operators (exp, sin)", ["layers.0"])]


def test_a_block_of_which_a_part_stays_is_no_block_that_went():
    assert told(blocks("es", "es"), blocks("es", "e")) == []


def test_a_block_takes_its_modules_and_tensors_along():
    difference = compare_documents(blocks("eL", "eL"), blocks("eL", "eL", "eL"))

    assert difference.rest == ()
    (edit,) = [edit for edit in difference.edits if edit.kind == "block"]
    assert {change.where for change in edit.changes} >= {"layers.2.fc1.weight", "n2_0", "n2_1"}
    assert edit.key == ("block", "new", "torch.exp torch.nn.Linear")


def runs(*operators: str) -> GraphDocument:
    lines = [f"%n{n + 1} = torch.{WORDS[letter]}(%n{n}) @ loop" for n, letter in enumerate("".join(operators))]
    return document("\n".join(["%n0 = input x", *lines, f"return %n{len(lines)}"]))


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("eseses", "eses", "2 operators (exp, sin) run 3 -> 2 times"),
        ("eses", "eseses", "2 operators (exp, sin) run 2 -> 3 times"),
        ("escesc", "esc", "3 operators (exp, sin, cos) run 2 -> 1 times"),
        ("esesesc", "eses", None),
        ("eses", "esesec", None),
        ("esesec", "eses", None),
        ("ese", "es", None),
        ("", "eses", None),
        ("eses", "", None),
    ],
)
def test_operators_of_a_module_that_run_another_number_of_times_are_one_edit(before, after, words):
    difference = compare_documents(runs(before), runs(after))

    assert [edit.text for edit in difference.edits if edit.kind == "block"] == ([words] if words else [])


@pytest.mark.parametrize(("before", "after", "word"), [(2, 3, "more"), (3, 2, "fewer"), (4, 2, "fewer")])
def test_the_key_of_repeated_runs_tells_their_operators_and_not_how_often_they_run(before, after, word):
    (edit,) = compare_documents(runs("es" * before), runs("es" * after)).edits

    assert edit.key == ("block", "runs", word, "torch.exp", "torch.sin")
