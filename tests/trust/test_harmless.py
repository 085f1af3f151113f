"""No harmless edit is reported at level `structure`."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
import torch.fx

from fixtures.catalog import CATALOG, real_models, small_models
from fixtures.harmless import HARMLESS, OF_GRAPHS, document_of, nodes_renamed, nodes_reordered
from fixtures.mutants import copy_of
from fixtures.mutants_models import mutant_models
from fixtures.wrap_registry import wrapped_for_torch_fx
from fxcore import interop
from pytest_fxgraph.captures.tracing import trace
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.document.builder import build_document
from pytest_fxgraph.document.encoding import encode

OWN = mutant_models()
ROOT = Path(__file__).parents[2]
# Prints a digest of the document of each small model, one a line.
DIGESTS = """
import hashlib
from fixtures.catalog import small_models
from pytest_fxgraph.captures.tracing import trace
from pytest_fxgraph.document.builder import build_document
from pytest_fxgraph.document.encoding import encode
for entry in small_models():
    print(entry.name, hashlib.sha256(encode(build_document(trace(entry.build().eval()))).encode()).hexdigest())
"""


def reported(entry, gm, edit, seed=0):
    """List what an edit of a model changes, as level `structure` sees it."""
    golden = build_document(gm)
    source = random.Random(zlib.crc32(f"{entry}/{edit.__name__}/{seed}".encode()))
    edited = edit(entry, copy_of(gm), source)
    return [] if edited is None else list(compare_documents(golden, document_of(edited)).changes)


@pytest.mark.parametrize("first", [0, *(pytest.param(each, marks=pytest.mark.slow) for each in (1, 2, 3))])
@pytest.mark.parametrize("edit", HARMLESS, ids=lambda edit: edit.__name__)
def test_a_harmless_edit_of_a_small_model_is_not_reported(edit, first):
    models = [*small_models()][first::4]
    found = {entry.name: reported(entry, trace(entry.build().eval()), edit) for entry in models}

    assert {name: changes for name, changes in found.items() if changes} == {}


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("edit", OF_GRAPHS, ids=lambda edit: edit.__name__)
def test_a_harmless_edit_of_a_graph_with_effects_is_not_reported(edit, name):
    assert reported(name, OWN[name], edit) == []


@pytest.mark.parametrize("name", OWN)
def test_random_orders_of_a_graph_with_effects_are_not_reported(name):
    for seed in range(20):
        assert reported(name, OWN[name], both, seed) == []


@pytest.mark.parametrize("model", small_models(), ids=str)
def test_random_orders_under_random_names_are_not_reported(model):
    gm = trace(model.build().eval())

    for seed in range(5):
        assert reported(model, gm, both, seed) == []


def both(entry, gm, source):
    return nodes_renamed(entry, nodes_reordered(entry, gm, source), source)


@pytest.mark.long
@pytest.mark.parametrize("model", real_models(long=True), ids=str)
def test_harmless_edits_of_a_real_model_are_not_reported(model):
    if model.requires:
        pytest.importorskip(model.requires)
    gm = trace(model.build().eval())

    assert {edit.__name__: found for edit in HARMLESS if (found := reported(model, gm, edit))} == {}


@pytest.mark.slow
def test_a_document_is_the_same_under_every_hash_seed_and_in_every_folder(tmp_path):
    here = "".join(f"{entry.name} {digest_of(entry)}\n" for entry in small_models())

    other_seed = "0" if os.environ.get("PYTHONHASHSEED") == "4242" else "4242"
    environment = {**os.environ, "PYTHONHASHSEED": other_seed, "PYTHONPATH": str(ROOT), "COLUMNS": "20", "LC_ALL": "C"}
    ran = subprocess.run(
        [sys.executable, "-c", DIGESTS], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )

    assert ran.stdout == here, ran.stderr


def digest_of(entry):
    return hashlib.sha256(encode(build_document(trace(entry.build().eval()))).encode()).hexdigest()


@pytest.mark.parametrize("model", small_models(), ids=str)
def test_a_graph_that_torch_fx_traced_is_the_golden_of_the_model(model):
    golden = build_document(trace(model.build().eval()))
    with wrapped_for_torch_fx():
        traced = torch.fx.symbolic_trace(model.build().eval())

    for obtained in (traced, interop.from_torch(traced)):
        changes = [(each.where, each.field) for each in compare_documents(golden, build_document(obtained)).changes]
        # torch.fx makes a buffer persistent that was not: its state dict has one more name.
        assert changes == ([("shift", "persistent")] if model.name == "buffer_not_persistent" else [])


def test_no_model_of_one_idea_is_left_out():
    assert len(HARMLESS) >= 15
    assert len(small_models()) >= 25
    assert {entry.name for entry in small_models()} <= CATALOG.keys()
