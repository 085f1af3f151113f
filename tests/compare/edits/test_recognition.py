from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from fixtures.documents import document
from fixtures.edited_models import Options, Transformer, Words, stages
from pytest_fxgraph.compare.alignment import align
from pytest_fxgraph.compare.difference import Change, Edit, Site
from pytest_fxgraph.compare.edits.compared_graph import ComparedGraph, Occurrence
from pytest_fxgraph.compare.edits.recognition import _edits, count_at_places
from pytest_fxgraph.compare.graph_index import graph_index_of
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.document.model import ModuleRecord
from pytest_fxgraph.functions import diff_graphs
from pytest_fxgraph.report.clusters import cause_parts
from pytest_fxgraph.report.text import headline

BASE = Options()
EDITS = {
    "depth 12 -> 10": (
        lambda: Transformer(BASE),
        lambda: Transformer(replace(BASE, depth=10)),
        "blocks.10 and blocks.11 are gone (12 equal blocks -> 10)",
        ["blocks.10", "blocks.11"],
    ),
    "LayerScale in 12 blocks": (
        lambda: Transformer(BASE),
        lambda: Transformer(replace(BASE, scales_layers=True)),
        "attn's output is multiplied by a new parameter gamma[64]",
        [f"blocks.{n}" for n in range(12)],
    ),
    "attention fused in 12 blocks": (
        lambda: Transformer(BASE),
        lambda: Transformer(replace(BASE, fuses_attention=True)),
        "5 operators (mul, matmul, softmax, ...) -> scaled_dot_product_attention",
        [f"blocks.{n}.attn" for n in range(12)],
    ),
    "F.gelu -> nn.GELU": (
        lambda: Transformer(BASE),
        lambda: Transformer(replace(BASE, activation="module")),
        "F.gelu -> nn.GELU (normalize=True makes them equal)",
        [f"blocks.{n}.mlp" for n in range(12)],
    ),
    "norm and relu exchanged": (
        stages,
        lambda: stages(activates_first=True),
        "relu moved from after to before norm",
        [f"{n}" for n in range(6)],
    ),
    "fc -> classifier": (
        lambda: Transformer(BASE),
        lambda: Transformer(replace(BASE, head="classifier")),
        "module renamed fc -> classifier: checkpoints with fc.weight, fc.bias no longer load",
        [""],
    ),
}


@pytest.mark.parametrize("name", EDITS)
def test_one_edit_at_all_its_places_is_told_as_a_colleague_would(name):
    build, build_other, text, places = EDITS[name]

    difference = diff_graphs(build().eval(), build_other().eval())

    assert [edit.text for edit in difference.edits] == [text]
    assert [site.where for site in difference.edits[0].sites] == places
    assert difference.rest == ()


@pytest.mark.parametrize("edit", ["scales_layers", "fuses_attention"])
def test_the_same_edit_in_a_model_of_another_depth_and_width_has_the_same_key(edit):
    keys = set()
    for depth, width in ((12, 64), (4, 64), (4, 128)):
        options = Options(depth=depth, width=width)
        other = replace(options, **{edit: True})
        difference = diff_graphs(Transformer(options).eval(), Transformer(other).eval())
        keys.add(tuple(each.key for each in difference.edits))

    assert len(keys) == 1


SCALED = "attn's output is multiplied by a new parameter gamma[64]"
FUSED = "5 operators (mul, matmul, softmax, ...) -> scaled_dot_product_attention"
MIXED = {
    "LayerScale and a block less": (
        {"scales_layers": True, "depth": 3},
        [SCALED, "blocks.3 is gone (4 equal blocks -> 3)"],
    ),
    "fused attention and two blocks more": (
        {"fuses_attention": True, "depth": 6},
        [FUSED, "blocks.4 and blocks.5 are new (4 equal blocks -> 6)"],
    ),
    "LayerScale, nn.GELU and another head": (
        {"scales_layers": True, "activation": "module", "head": "classifier"},
        [
            "F.gelu -> nn.GELU (normalize=True makes them equal)",
            SCALED,
            "module renamed fc -> classifier: checkpoints with fc.weight, fc.bias no longer load",
        ],
    ),
    "LayerScale and another width": (
        {"scales_layers": True, "width": 128},
        [SCALED.replace("64", "128"), "sizes 64 -> 128, 192 -> 384, 256 -> 512"],
    ),
}


@pytest.mark.parametrize("name", MIXED)
def test_edits_in_the_same_blocks_are_told_apart(name):
    changed, words = MIXED[name]
    options = Options(depth=4)

    difference = diff_graphs(Transformer(options).eval(), Transformer(replace(options, **changed)).eval())

    assert sorted(edit.text for edit in difference.edits) == words
    assert difference.rest == ()


@pytest.mark.parametrize("edit", ["scales_layers", "fuses_attention"])
def test_an_edit_of_an_exported_program_has_the_places_and_words_of_the_traced_one(edit):
    options = Options(depth=2)
    models = [Transformer(options).eval(), Transformer(replace(options, **{edit: True})).eval()]
    image = (torch.zeros(1, 3, 8, 8),)

    exported = diff_graphs(*(torch.export.export(model, image) for model in models)).edits

    traced = diff_graphs(*models).edits
    assert [edit.text for edit in exported] == [edit.text for edit in traced]
    assert [[site.where for site in edit.sites] for edit in exported] == [
        [site.where for site in edit.sites] for edit in traced
    ]


def test_a_model_inside_another_has_all_its_modules_moved():
    model = Words(ties=False)
    outer = torch.nn.Sequential()
    outer.add_module("model", model)

    difference = diff_graphs(model, outer)

    assert [edit.text for edit in difference.edits] == [
        "modules moved into model: checkpoints no longer load (embed.weight, layer.weight and 2 more)",
        "input words renamed to input",
    ]


def test_equal_graphs_have_no_edit():
    assert diff_graphs(Words(ties=True), Words(ties=True)).edits == ()


CALLS = {
    "replaced": ("torch.relu(%{read})", "torch.tanh(%{read})"),
    "argument": ("torch.add(%{read}, 1e-05)", "torch.add(%{read}, 1e-06)"),
    "inserted": (
        "torch.relu(%{read}) @ layers.{n}",
        "torch.neg(%{read}) @ layers.{n}\n%a{n} = torch.relu(%b{n}) @ layers.{n}",
    ),
}


def repeated(call: str, times: int):
    lines = ["%i = input x", "%a0 = torch.relu(%i)"]
    for n in range(1, times + 1):
        first = "b" if "\n" in call else "a"
        lines.append(f"%{first}{n} = " + call.format(read=f"a{n - 1}", n=n))
    return document("\n".join([*lines, f"%c = torch.neg(%a{times}, 1)", "return %c"]))


@pytest.mark.parametrize(("kind", "times"), [("replaced", 250), ("argument", 250), ("inserted", 2100)])
def test_left_out_changes_at_places_of_an_edit_count_once(kind, times):
    before, after = CALLS[kind]
    short = compare_documents(repeated(before, 3), repeated(after, 3))

    difference = compare_documents(repeated(before, times), repeated(after, times))

    assert difference.omitted == difference.omitted_in_edits > 0
    assert difference.unexplained == 0
    assert [(edit.kind, edit.key, len(edit.sites)) for edit in difference.edits] == [(kind, short.edits[0].key, times)]
    assert cause_parts(difference, "one") == cause_parts(short, "two")


@pytest.mark.parametrize("read", ["%a250", "%a0"])
def test_another_change_behind_the_left_out_changes_is_in_no_edit(read):
    graphs = []
    for call, args in zip(CALLS["argument"], (("%i", "1e-05"), (read, "1e-06")), strict=True):
        graph = repeated(call, 250)
        last = graph.nodes[-2]._replace(target="torch.add", args=args)
        graphs.append(replace(graph, nodes=(*graph.nodes[:-2], last, graph.nodes[-1])))

    difference = compare_documents(*graphs)

    assert difference.unexplained == 1
    assert headline(difference) == "torch.add other 1e-05 -> 1e-06 at 250 places, and 1 more"
    assert cause_parts(difference, "one") != cause_parts(difference, "two")


REDUCED = '%r = _c10d_functional.all_reduce.default(%d, "process_group(tp, size=4)") ! collective'
FINDINGS = tuple(f"{kind}: item in forward: y = x.item()" for kind in ("break", "recompile", "skipped", "fallback"))


def test_a_changed_plan_is_told_first_then_breaks_and_consequences_last():
    before = document(
        "%x = input x\n%a = torch.relu(%x)\n%b = torch.softmax(%a, 1)\n%c = self.net.1(%b)\n%d = self.net.2(%c)\n"
        "return %d",
        modules=(ModuleRecord("net.1", "torch.nn.ReLU"), ModuleRecord("net.2", "torch.nn.Tanh")),
        notes=(
            *("world: 2 ranks", "ranks: 0 run graph_0", "ranks: 1 run graph_1", "placement: w: Shard(0) on tp"),
            *("constant of the rank: c is 1, 2", *(f"guard: layers.{n}.k == 2" for n in range(5)), "note 1"),
        ),
    )
    after = document(
        "%x = input x\n%a = torch.tanh(%x)\n%e = torch.exp(%a)\n%b = torch.softmax(%e, 2)\n%c = self.net.5(%b)\n"
        f"%d = self.net.6(%c)\n{REDUCED}\n%w = _c10d_functional.wait_tensor.default(%r)\n"
        "%u = .size(%d)\n%v = .size(%d)\nreturn %d",
        modules=(ModuleRecord("net.5", "torch.nn.ReLU"), ModuleRecord("net.6", "torch.nn.Tanh")),
        notes=("world: 4 ranks", "ranks: 0-3 run graph_0", *FINDINGS, "note 2"),
    )

    edits = compare_documents(before, after).edits

    assert [(edit.kind, len(edit.changes)) for edit in edits] == [
        ("world", 2),
        ("ranks", 3),
        ("placement", 1),
        ("collective", 2),
        ("constant of the rank", 1),
        ("break", 1),
        ("recompile", 1),
        ("skipped", 1),
        ("fallback", 1),
        ("replaced", 2),
        ("argument", 1),
        ("renumbered", 2),
        ("reshaped", 2),
        ("guard", 5),
        ("note", 1),
    ]


def of(subject: str, action: str, where: str) -> Change:
    return Change("operators", action, subject, where)


@pytest.mark.parametrize(
    ("omitted", "paths", "changes", "count"),
    [
        # Nodes that were removed, and nodes of the obtained graph.
        ([(1, -1), (2, -1)], [], [], 1),
        ([(-1, 1), (-1, 2)], [], [], 1),
        ([(0, 0), (1, 1), (2, 2)], [], [], 2),
        # Records below the module that a node of an edit calls.
        ([], ["fc", "fc.weight", "fc2.weight", "head.weight"], [], 2),
        ([], [], [of("module", "added", "in/fc"), of("state", "removed", "in/fc.weight")], 2),
        ([], [], [of("state", "added", "in/head.weight"), of("state", "added", "fc.weight")], 0),
        # A name of one graph is no name of the other.
        ([], [], [of("node", "removed", "in/a"), of("node", "changed", "in/p")], 2),
        ([], [], [of("node", "added", "in/a"), of("node", "removed", "in/p"), of("node", "added", "p")], 0),
    ],
)
def test_left_out_changes_count_at_the_nodes_of_edits_and_at_the_paths_that_these_use(omitted, paths, changes, count):
    texts = (
        "%i = input i\n%a = self.fc(%i)\n%b = self.head(%a)\nreturn %b",
        "%x = input x\n%p = self.fc(%x)\n%q = self.head(%p)\nreturn %q",
    )
    alignment = align(*(graph_index_of(document(text)) for text in texts))
    graph = ComparedGraph(alignment, "in/", omitted, paths)
    edit = Edit("argument", "words", (Site("in/", ("in/a",), ("in/p", "in/x")),), ())

    assert count_at_places([edit], [graph], changes) == count


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("world", "ranks"),
        ("world", "placement"),
        *((kind, "collective") for kind in ("ranks", "placement")),
        *(("collective", kind) for kind in ("break", "recompile", "skipped", "fallback", "constant of the rank")),
        *((kind, "replaced") for kind in ("break", "recompile", "skipped", "fallback", "constant of the rank")),
        *(("replaced", kind) for kind in ("reshaped", "renumbered")),
        *((kind, other) for kind in ("reshaped", "renumbered") for other in ("guard", "note")),
    ],
)
def test_a_cause_is_told_before_consequences_with_more_changes(first, second):
    change = Change("operators", "changed", "node", "a")
    occurrences = [Occurrence(kind, kind, (kind,), Site(""), [change] * n) for kind, n in ((second, 3), (first, 1))]

    assert [edit.kind for edit in _edits(occurrences)] == [first, second]


@pytest.mark.parametrize(
    "kinds", [("ranks", "placement"), ("break", "recompile"), ("reshaped", "renumbered"), ("guard", "note")]
)
def test_of_edits_alike_the_one_with_most_changes_is_told_first(kinds):
    change = Change("operators", "changed", "node", "a")

    for order in (kinds, kinds[::-1]):
        occurrences = [Occurrence(kind, kind, (kind,), Site(""), [change] * n) for n, kind in enumerate(order, 1)]
        assert [edit.kind for edit in _edits(occurrences)] == [*order[::-1]]
