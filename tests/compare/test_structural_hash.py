"""The structural hash agrees with level `structure`."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import zlib
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.fx.experimental.proxy_tensor import make_fx

import fxcore
from fixtures.captured_subjects import leading_subjects
from fixtures.catalog import small_models
from fixtures.documents import document
from fixtures.harmless import OF_GRAPHS, document_of, nodes_renamed, nodes_reordered
from fixtures.mutants import copy_of
from fixtures.mutants_models import mutant_models
from fixtures.mutants_table import MUTATIONS
from pytest_fxgraph import functions
from pytest_fxgraph.captures.subjects import to_graph_module
from pytest_fxgraph.captures.tracing import trace
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.compare.structural_hash import structural_hash
from pytest_fxgraph.document.builder import build_document
from pytest_fxgraph.document.model import StateRecord
from tests.compare.test_structure import SAME
from tests.compare.test_structure_oracle import rewired, small_documents

ROOT = Path(__file__).parents[2]
OWN = mutant_models()
CAPTURED = leading_subjects()
# On the meta device a constant has no content, so the two documents record other facts.
LEFT_OUT = "moved_to_the_meta_device"
SMALL = {entry.name: entry for entry in small_models()}


def agrees(expected, obtained) -> bool:
    is_same = compare_documents(expected, obtained).is_empty
    return is_same is (structural_hash(expected) == structural_hash(obtained))


@settings(max_examples=100, deadline=None)
@given(small_documents(), st.integers(0, 2**32))
def test_hashes_are_equal_exactly_where_two_small_graphs_are(expected, seed):
    assert agrees(expected, rewired(expected, seed))


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("name", [*OWN, *CAPTURED])
def test_hashes_agree_with_the_level_on_mutants(name):
    gm, differing = {**OWN, **CAPTURED}[name], []
    golden = build_document(gm)
    for mutation in MUTATIONS:
        source = random.Random(zlib.crc32(f"{name}/{mutation.name}".encode()))
        for mutant in mutation.sample(gm, source, 1):
            differing += [] if agrees(golden, build_document(mutant)) else [str(mutation)]

    assert differing == []


@pytest.mark.parametrize("name", OWN)
def test_every_harmless_edit_of_a_graph_keeps_the_hash(name):
    golden, other = build_document(OWN[name]), []
    for edit in (edit for edit in OF_GRAPHS if edit.__name__ != LEFT_OUT):
        edited = edit(name, copy_of(OWN[name]), random.Random(zlib.crc32(f"{name}/{edit.__name__}".encode())))
        if edited is not None and structural_hash(golden) != structural_hash(document_of(edited)):
            other.append(edit.__name__)

    assert other == []


@pytest.mark.parametrize("name", SMALL)
def test_a_model_traced_again_in_another_order_keeps_its_hash(name):
    gm = trace(SMALL[name].build().eval())
    edited = nodes_renamed(name, nodes_reordered(name, copy_of(gm), random.Random(name)), random.Random(name))

    assert structural_hash(build_document(gm)) == structural_hash(build_document(edited))


def test_the_spelling_of_generated_names_does_not_count_and_their_places_do():
    def function(first, second):
        return first.sin() + second * torch.tensor([1.0, 2.0])

    def renamed(one, other):
        return function(one, other)

    def exchanged(first, second):
        return function(second, first)

    hashes = [
        structural_hash(build_document(to_graph_module(make_fx(each)(torch.ones(2), torch.ones(2)))))
        for each in (function, renamed, exchanged)
    ]

    assert hashes[0] == hashes[1] != hashes[2]


@pytest.mark.slow
def test_the_hash_is_the_same_in_a_process_with_another_hash_seed():
    names = [*OWN][:3]
    source = (
        "from fixtures.mutants_models import mutant_models\n"
        "from pytest_fxgraph import structural_hash\n"
        f"print(*[structural_hash(mutant_models()[name]) for name in {names!r}])\n"
    )

    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        child = subprocess.run(
            [sys.executable, "-c", source], env=environment, capture_output=True, text=True, check=True
        )
        assert child.stdout.split() == [structural_hash(build_document(OWN[name])) for name in names]


@pytest.mark.long
@pytest.mark.parametrize("name", OWN)
def test_no_mutant_has_the_hash_of_its_graph_at_any_place(name):
    gm, equal = OWN[name], []
    golden = structural_hash(build_document(gm))
    for mutation in MUTATIONS:
        for place in range(mutation.count(gm)):
            mutant = structural_hash(build_document(mutation.mutant(gm, place)))
            equal += [f"{mutation} at {place}"] if mutant == golden else []

    assert equal == []


def test_a_graph_without_its_module_is_hashed_as_such():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    graph = fxcore.Tracer().trace(model)

    bare = functions.structural_hash(graph)

    other = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh())
    assert bare == functions.structural_hash(fxcore.Tracer().trace(other))
    assert bare != functions.structural_hash(model)
    assert functions.structurally_equal(graph, fxcore.Tracer().trace(model))


def hashed(text, **fields):
    return structural_hash(replace(document(text), **fields))


@pytest.mark.parametrize("name", [name for name in SAME if name != "value known on one side only"])
def test_small_graphs_that_are_the_same_have_one_hash(name):
    first, second = map(hashed, SAME[name])

    assert first == second


@pytest.mark.parametrize(
    ("text", "other"),
    [
        # an unread call beside a call with an effect that is read
        (
            "%x = input x\n%p = f(%x) ! io\n%q = g(%x)\nreturn %p",
            "%x = input x\n%p = f(%x) ! io\n%q = h(%x)\nreturn %p",
        ),
        ("%x = input x : f[2]\nreturn %x", "%x = input x : f[3]\nreturn %x"),
        ("%x = input x\nreturn %x", "%y = input y\nreturn %y"),
    ],
)
def test_small_graphs_that_differ_have_two_hashes(text, other):
    assert hashed(text) != hashed(other)


def test_the_value_of_the_output_is_no_part_of_the_hash():
    assert hashed("%x = input x : f[2]\nreturn %x") == hashed("%x = input x : f[2]\nreturn %x : f[2]")


@pytest.mark.parametrize("made_by", ["lifting", None])
def test_the_path_of_a_tensor_is_part_of_the_hash_unless_it_is_generated(made_by):
    first, second = (
        hashed(
            f"%x = input x\n%w = get {path}\n%a = f(%x, %w)\nreturn %a",
            state=(StateRecord(path, "constant", "f[1]", content="[1.0]", name_from=made_by),),
        )
        for path in "vw"
    )

    assert (first == second) is (made_by is not None)


@pytest.mark.parametrize("made_by", ["position", None])
def test_the_name_of_an_input_is_part_of_the_hash_unless_it_is_generated(made_by):
    def with_name(name):
        nodes = document(f"%{name} = input {name}\n%a = f(%{name})\nreturn %a").nodes
        return structural_hash(replace(document("return 1"), nodes=(nodes[0]._replace(name_from=made_by), *nodes[1:])))

    assert (with_name("x") == with_name("y")) is (made_by is not None)


@pytest.mark.parametrize(
    ("notes", "others", "is_same"),
    [
        (("a: 1",), ("a: 2",), False),
        (("a: 1", "b: 1"), ("b: 1", "a: 1"), False),
        (("guard: k == 1",), ("guard: k == 2",), False),
        (("guard: k == 1", "guard: l"), ("guard: l", "guard: k  ==  1"), True),
        (("guard: l", "guard: l"), ("guard: l",), False),
    ],
)
def test_notes_are_part_of_the_hash_and_those_of_a_capture_have_no_order(notes, others, is_same):
    text = "%x = input x\nreturn %x"

    assert (hashed(text, notes=notes) == hashed(text, notes=others)) is is_same
