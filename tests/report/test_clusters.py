from __future__ import annotations

import dataclasses

import pytest

from fixtures.documents import document
from fixtures.edits import difference_of, edit
from pytest_fxgraph.compare.difference import Change, Difference
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.report.clusters import Cause, cause_parts, chosen_cluster, cluster_key, clustered

RELU = "%x = input x\n%a = torch.relu(%x)\nreturn %a"


def difference(expected: str, obtained: str):
    return compare_documents(document(expected), document(obtained))


def test_the_same_change_in_two_graphs_is_one_cause():
    small = difference(RELU, RELU.replace("relu", "gelu"))
    large = difference(
        "%i = input i\n%b = torch.exp(%i)\n%c = torch.relu(%b)\n%d = torch.relu(%c)\nreturn %d",
        "%i = input i\n%b = torch.exp(%i)\n%c = torch.gelu(%b)\n%d = torch.gelu(%c)\nreturn %d",
    )

    assert cause_parts(small, "one") == cause_parts(large, "two")


@pytest.mark.parametrize("obtained", ["torch.gelu(%x)", "torch.relu(%x, True)", "torch.relu(%x, False)"])
def test_another_change_is_another_cause(obtained):
    sigmoid = difference(RELU, RELU.replace("relu", "sigmoid"))
    other = difference(RELU, RELU.replace("torch.relu(%x)", obtained))

    assert cause_parts(sigmoid, "one") != cause_parts(other, "one")


def test_inputs_of_different_names_are_different_causes():
    one = difference(RELU, RELU.replace("input x", "input mask"))
    other = difference(RELU, RELU.replace("input x", "input images"))

    assert cause_parts(one, "one") != cause_parts(other, "one")


def test_what_is_not_listed_in_full_shares_its_cause_with_nobody():
    whole = difference(RELU, RELU.replace("relu", "gelu"))
    cut = dataclasses.replace(whole, omitted=3)

    assert cause_parts(cut, "one") != cause_parts(cut, "two")


def test_the_cause_of_most_goldens_comes_first():
    clusters = clustered([Cause("a", "A", ("x",)), Cause("b", "B", ("y",)), Cause("c", "C", ("y",))])

    assert [(cluster.headline, cluster.goldens) for cluster in clusters] == [("B", ("b", "c")), ("A", ("a",))]


def test_a_cluster_keeps_its_key_when_others_are_gone():
    causes = [Cause("a", "A", ("x",)), Cause("b", "B", ("y",)), Cause("c", "C", ("y",))]

    assert clustered(causes)[1].key == clustered(causes[:1])[0].key


def test_a_cluster_is_chosen_by_key_before_number():
    clusters = clustered([Cause("a", "A", ("x",)), Cause("b", "B", ("y",))])

    assert chosen_cluster(clusters, clusters[1].key.upper()) is clusters[1]
    assert chosen_cluster(clusters, "2") is clusters[1]
    assert chosen_cluster(clusters, "3") is None
    assert chosen_cluster(clusters, "9" * 5000) is None
    assert chosen_cluster(clusters, "00002") is clusters[1]
    assert chosen_cluster(clusters, "000002") is None


def test_one_edit_is_one_cause_however_many_blocks_a_model_has():
    deep, shallow = (edit("gamma", [f"blocks.{n}" for n in range(depth)], key=("gamma",)) for depth in (12, 4))

    assert cluster_key(difference_of([deep]), "a") == cluster_key(difference_of([shallow]), "b")
    assert cluster_key(difference_of([deep]), "a") != cluster_key(difference_of([deep, edit("other")]), "b")
    assert cluster_key(difference_of([deep]), "a") != cluster_key(difference_of([deep], rest=1), "b")
    assert cluster_key(difference_of([edit("one")]), "a") != cluster_key(difference_of([edit("other")]), "b")


def test_a_cluster_is_chosen_by_key_in_any_case_or_by_its_number():
    clusters = clustered([Cause("a", "one", cluster="abc"), Cause("b", "two", cluster="2d")])

    assert [chosen_cluster(clusters, choice) for choice in ("ABC", "1", "2", "2D")] == [
        *(clusters[0], clusters[0], clusters[1], clusters[1]),
    ]
    assert {chosen_cluster(clusters, choice) for choice in ("0", "3", "", "-1", "1" * 50)} == {None}


def test_names_of_inputs_tell_causes_apart_and_names_of_nodes_do_not():
    def key(subject: str, where: str) -> str:
        return cluster_key(Difference("structure", (Change("signature", "added", subject, where),)), "g")

    assert key("input", "x") != key("input", "y")
    assert key("note", "x") != key("note", "y")
    assert key("break", "x") != key("break", "y")
    assert key("node", "x") == key("node", "y")


def test_a_difference_that_is_not_listed_in_full_is_a_cause_of_its_own():
    changes = (Change("operators", "added", "node", "a"),)

    def parts(omitted: int, in_edits: int, golden: str) -> tuple[object, ...]:
        return cause_parts(Difference("structure", changes, omitted=omitted, omitted_in_edits=in_edits), golden)

    assert parts(1, 1, "a") == parts(1, 1, "b") == parts(0, 0, "c")
    assert parts(2, 1, "a") != parts(2, 1, "b")
