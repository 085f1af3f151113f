"""Every harmful change is caught at level `structure`, and what a stricter level passes passes the looser ones."""

from __future__ import annotations

import math

import pytest

from fixtures.catalog import real_models, small_models
from fixtures.mutant_trials import ALL, small_subjects, survivors, trials
from fixtures.mutants_models import mutant_models
from fixtures.mutants_sources import CHANGES, Block, gate
from fixtures.mutants_table import MUTATIONS
from fixtures.mutants_wiring import operands_exchanged
from pytest_fxgraph.captures.tracing import trace
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.document.builder import build_document
from pytest_fxgraph.functions import diff_graphs

SMALL = {entry.name: entry for entry in small_models()}
OWN = mutant_models()
EVERY = 3  # of the small models, one in so many runs every day; -m long has all mutants of all
PLACES_IN_A_REAL_MODEL = 12
# What `constants="close"` is for; of modules, floats are nudged by one ulp, too.
ROUNDING = {"float_nudged_by_one_ulp", "constant_nudged_by_one_ulp"}
ROUNDING_OF_MODULES = {"hyper_parameter_changed", "number_of_a_users_module_changed"}


def sample(every):
    names = list(SMALL)
    return [
        *OWN,
        *(pytest.param(name, marks=[pytest.mark.long] if names.index(name) % every else []) for name in names),
    ]


def subject(name):
    return OWN[name] if name in OWN else trace(SMALL[name].build().eval())


def check(found):
    assert survivors(found) == []
    assert [each for each in found if not each.keeps_the_order_of_levels] == []
    assert [str(each.mutation) for each in found if not each.is_explained] == []
    assert [(str(each.mutation), each.kinds) for each in found if not each.kinds & {*each.mutation.kinds}] == []


@pytest.mark.sampled(every=6)
@pytest.mark.parametrize("name", sample(EVERY))
def test_a_sample_of_the_mutants_of_a_small_model_is_caught(name):
    found = list(trials(name, subject(name), most_places=2))

    assert found
    check(found)


@pytest.mark.long
@pytest.mark.parametrize("name", [*OWN, *SMALL])
def test_all_mutants_of_a_small_model_are_caught(name):
    check(list(trials(name, subject(name), ALL)))


@pytest.mark.long
@pytest.mark.parametrize("model", real_models(long=True), ids=str)
def test_mutants_of_a_real_model_are_caught(model):
    if model.requires:
        pytest.importorskip(model.requires)

    check(list(trials(model.name, trace(model.build().eval()), PLACES_IN_A_REAL_MODEL)))


@pytest.mark.long
@pytest.mark.parametrize("name", [*OWN, *SMALL])
def test_loosening_operand_order_and_spelling_loses_no_other_mutant(name):
    gm = subject(name)
    golden = build_document(gm)

    for mutation in MUTATIONS:
        for place in range(min(mutation.count(gm), 5)):
            mutant = build_document(mutation.mutant(gm, place))
            assert not compare_documents(golden, mutant, normalize=True).is_empty, f"{mutation} at {place}"
            if mutation is not operands_exchanged and mutation.name != "nested_graph_changed":
                assert not compare_documents(golden, mutant, commutative=True).is_empty, f"{mutation} at {place}"


@pytest.mark.sampled(every=6)
@pytest.mark.parametrize("name", sample(2 * EVERY))
def test_close_constants_let_rounding_pass_and_no_other_mutant(name):
    gm = subject(name)
    golden = build_document(gm)

    for mutation in MUTATIONS:
        for place in range(min(mutation.count(gm), 2)):
            mutant = build_document(mutation.mutant(gm, place))
            if compare_documents(golden, mutant, constants="close").is_empty and mutation.name not in ROUNDING:
                (change,) = compare_documents(golden, mutant).changes
                assert mutation.name in ROUNDING_OF_MODULES
                assert float(change.obtained) == math.nextafter(float(change.expected), math.inf)
                assert not change.expected.lstrip("-").isdigit()


def test_there_are_many_mutations_and_each_has_a_place_somewhere():
    subjects = list(small_subjects())

    homeless = [str(each) for each in MUTATIONS if not any(each.count(gm) for _, gm in subjects)]

    assert len(MUTATIONS) >= 40
    assert len({each.name for each in MUTATIONS}) == len(MUTATIONS)
    assert homeless == []


@pytest.mark.parametrize("changes", CHANGES, ids=lambda changes: "-".join(f"{key}_{changes[key]}" for key in changes))
def test_a_change_of_the_source_that_changes_the_graph_is_caught(changes):
    assert diff_graphs(Block(), Block()).is_empty
    assert not diff_graphs(Block(), Block(**changes)).is_empty


def test_another_branch_taken_while_tracing_is_caught():
    assert diff_graphs(gate(True), gate(True)).is_empty
    assert not diff_graphs(gate(True), gate(False)).is_empty


def test_a_mutation_leaves_the_model_that_it_is_made_from_as_it_was():
    gm = subject("conv_bn_relu")
    before = build_document(gm)

    for mutation in MUTATIONS:
        for place in range(mutation.count(gm)):
            mutation.mutant(gm, place)

    assert build_document(gm) == before
