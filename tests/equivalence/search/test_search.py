"""A search finds the inputs for which a graph is wrong, makes them small, and accuses no right graph."""

from __future__ import annotations

import math
import os
import subprocess
import sys

import pytest
import torch
from torch import nn

import fxcore
from fixtures.catalog import CATALOG, small_models
from fixtures.model_entry import seeded
from fixtures.searched_graphs import SEARCHED, Calling, drawn, graph_calling
from fixtures.shown_frames import raises_here
from fixtures.transforms import RIGHT
from pytest_fxgraph.equivalence.fixture import FxEquivalence
from pytest_fxgraph.equivalence.inputs import arguments_of
from pytest_fxgraph.equivalence.repro import ReproductionFolder
from pytest_fxgraph.equivalence.search.search import SearchBudget, SearchReport, _described_tensor, describe
from pytest_fxgraph.errors import ChoiceError, MismatchError
from pytest_fxgraph.transform.fixture import FxTransform

# On a busy machine, the time must not be up before all tries were made.
LONG_ENOUGH = 900
CASES = {case.name: case for case in SEARCHED}
# One of each sort, for every day.
SAMPLE = ("fuse_conv_bn",)
RAISING = ("Instrument",)  # its ValueGuard raises on purpose where values overflow
SAMPLE_OF_KINDS = ("batch_baked_in", "odd_length", "negative", "autocast")
SAMPLE_OF_ZOO = ("attention", "writes_input")


def message_of(case, seed: int = 0, tries: int = 200, **options) -> str | None:
    """Search, and give the message of what was found."""
    model, graph = case.pair()
    try:
        FxEquivalence(**options)(model, case.inputs(), graph=graph, search=tries, search_seconds=LONG_ENOUGH, seed=seed)
    except MismatchError as found:
        return str(found)
    return None


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.name, marks=[] if case.name in SAMPLE_OF_KINDS else [pytest.mark.slow])
        for case in SEARCHED
    ],
)
def test_a_graph_that_is_wrong_for_some_inputs_passes_without_a_search_and_fails_with_one(case):
    model, graph = case.pair()
    FxEquivalence()(model, case.inputs(), graph=graph)

    message = message_of(case)

    assert message is not None
    assert "found by search, try " in message


@pytest.mark.long
@pytest.mark.parametrize("case", SEARCHED, ids=str)
def test_each_kind_is_found_in_nine_of_ten_seeds(case):
    found = [seed for seed in range(10) if message_of(case, seed) is not None]

    assert len(found) >= 9


def transformed(entry, seed: int, tries: int) -> None:
    FxTransform()(
        entry.transform,
        seeded(entry.model)(),
        entry.inputs(),
        modes=entry.modes,
        grads=entry.grads,
        search=tries,
        search_seconds=LONG_ENOUGH,
        seed=seed,
        **entry.options,
    )


@pytest.mark.parametrize("entry", [entry for entry in RIGHT if entry.name in SAMPLE], ids=lambda entry: entry.name)
def test_a_right_transform_is_not_accused(entry):
    transformed(entry, seed=0, tries=60)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("entry", [each for each in RIGHT if each.name not in RAISING], ids=lambda entry: entry.name)
def test_a_right_transform_is_not_accused_in_twenty_seeds(entry, seed):
    transformed(entry, seed, tries=200)


def test_a_guard_of_values_raises_where_the_search_finds_values_that_overflow():
    (entry,) = [each for each in RIGHT if each.name in RAISING]

    with pytest.raises(MismatchError, match="the forward of the graph raised ValueRangeError"):
        transformed(entry, seed=0, tries=60)


def searched_trace(model, seed: int, tries: int) -> FxEquivalence:
    equivalence = FxEquivalence()
    options = {
        "grads": "no_grads" not in model.traits,
        "modes": ("eval", "train"),
        "seed": seed,
        "search_seconds": LONG_ENOUGH,
    }
    equivalence(model.build(), model.example_inputs(), kwargs=dict(model.example_kwargs()), search=tries, **options)
    return equivalence


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("name", SAMPLE_OF_ZOO)
def test_a_trace_is_not_accused(name):
    equivalence = searched_trace(CATALOG[name], seed=0, tries=40)

    assert [report.tried for report in equivalence.searches] == [40, 40]


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("model", small_models(), ids=str)
def test_a_trace_is_not_accused_in_twenty_seeds(model, seed):
    searched_trace(model, seed, tries=200)


def test_the_message_holds_the_try_the_seed_and_the_smallest_input():
    message = message_of(CASES["negative"], seed=7)

    assert message is not None
    lines = message.splitlines()
    assert len(lines) <= 6
    assert lines[0].startswith("eager and graph differ (mode eval): output has other values in the graph than in eager")
    assert lines[1] == "  found by search, try 3 of 200, seed 7; smallest input: 0 = float32[1, 1] [[-1]]"


@pytest.mark.slow
def test_one_wrong_value_is_all_that_is_left_of_thousands():
    message = message_of(CASES["one_in_a_thousand"])

    assert message is not None
    assert "smallest input: 0 = float32[1, 1] [[0.50" in message


@pytest.mark.slow
def test_what_stands_around_the_calls_is_told():
    message = message_of(CASES["autocast"])

    assert message is not None
    assert "seed 0, under autocast to bfloat16; smallest input: 0 = float32[1, 1]" in message


@pytest.mark.slow
def test_the_section_holds_the_input_too():
    model, graph = CASES["ceil_mode"].pair()

    with raises_here(MismatchError) as caught:
        FxEquivalence()(model, CASES["ceil_mode"].inputs(), graph=graph, search=50)

    assert "found by search, try 3 of 50, seed 0; smallest input: 0 = float32[1, 1, 2, 3] " in caught.value.section


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param("one_in_a_thousand", marks=pytest.mark.slow), "two_at_once"])
def test_a_seed_finds_the_same_each_time(name):
    assert message_of(CASES[name], seed=5) == message_of(CASES[name], seed=5)


@pytest.mark.slow
def test_the_script_holds_the_smallest_input(tmp_path):
    message = message_of(CASES["negative"], reproduction=ReproductionFolder(tmp_path, "test_x.py::test_x"))

    (state,) = tmp_path.glob("*/state.pt")  # one alone: what was tried before is not written
    arguments = torch.load(state, weights_only=False)["args"]
    assert message is not None
    assert "to reproduce it without the tests: python" in message
    assert torch.equal(arguments[0], torch.tensor([[-1.0]]))


def test_what_a_graph_keeps_between_calls_is_found_before_the_search():
    def counting():
        calls = []

        def function(x):
            calls.append(x)
            return x * 2 if len(calls) % 2 else x * 3

        return function

    with raises_here(MismatchError, match="output of a second call has other values"):
        FxEquivalence()(Calling(lambda x: x * 2), drawn(3, 4), graph=graph_calling(counting()), search=40)


@pytest.mark.slow
def test_two_inputs_that_must_agree_change_together():
    class Adding(nn.Module):
        def forward(self, x, y):
            return x + y

    class Wrong(nn.Module):
        def forward(self, x, y):
            return x + y if x.shape[0] != 3 else x - y

    with raises_here(MismatchError, match=r"smallest input: 0 = float32\[3, 1\] .*, 1 = float32\[3, 1\]"):
        FxEquivalence()(
            Adding(), (drawn(4, 5), drawn(4, 5)), graph=fxcore.GraphModule(Wrong(), graph_of_wrong()), search=60
        )


def graph_of_wrong() -> fxcore.Graph:
    graph = fxcore.Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    graph.output(graph.call_function(lambda x, y: x + y if x.shape[0] != 3 else x - y, (x, y)))
    return graph


def test_an_index_stays_in_range():
    class Looking(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(50, 4)

        def forward(self, ids):
            return self.table(ids)

    equivalence = FxEquivalence()
    equivalence(Looking(), torch.tensor([[1, 2, 3]]), search=100)

    (report,) = equivalence.searches
    assert "eager refuses" not in str(report)


def test_train_mode_draws_alike_in_both():
    equivalence = FxEquivalence()
    equivalence(CATALOG["functional_dropout"].build(), CATALOG["functional_dropout"].example_inputs(),
                modes=("train",), search=40)  # fmt: skip

    assert equivalence.searches[0].subject == "graph (mode train)"


def test_a_search_tells_what_it_did():
    told = []
    equivalence = FxEquivalence(tell_search=told.append)

    equivalence(nn.Linear(3, 2), drawn(4, 3), search=30)

    assert told == [str(report) for report in equivalence.searches]
    assert told[0].startswith("graph (mode eval): 30 of 30 tries in ")


def test_a_search_ends_when_its_time_is_up_and_says_what_it_left_out():
    equivalence = FxEquivalence()

    equivalence(nn.Linear(3, 2), drawn(4, 3), search=10_000, search_seconds=0.3)

    (report,) = equivalence.searches
    assert report.tried < 10_000
    assert report.is_cut
    assert f"the time was up, and {10_000 - report.tried} tries were left out: raise search_seconds" in str(report)


def test_a_transform_tells_its_searches_in_its_result():
    result = FxTransform()(
        [lambda gm: gm, lambda gm: gm],
        nn.Linear(3, 2),
        drawn(4, 3),
        modes=("eval", "train"),
        search=20,
        allow_vacuous=True,
    )

    assert [report.tried for report in result.searches] == [20] * 4
    assert result.searches[0].subject == "graph after pass 1 (<lambda>) (mode eval)"


def test_the_pass_that_breaks_the_graph_is_named():
    def forget_relu(gm):
        for node in gm.graph.nodes:
            if node.target is torch.relu:
                node.target = torch.clone
        gm.recompile()

    with raises_here(MismatchError, match=r"graph after pass 2 \(forget_relu\) differ(.|\n)*found by search"):
        FxTransform()([lambda gm: gm, forget_relu], lambda x: torch.relu(x) + 1, drawn(2, 3), search=40)


def test_without_a_search_nothing_is_searched():
    equivalence = FxEquivalence(search=0)

    equivalence(*(CASES["negative"].pair()[0], CASES["negative"].inputs()), graph=CASES["negative"].pair()[1])

    assert equivalence.searches == ()


@pytest.mark.slow
def test_the_default_of_the_fixture_holds_and_an_argument_goes_before_it():
    model, graph = CASES["negative"].pair()
    equivalence = FxEquivalence(search=40)

    equivalence(model, CASES["negative"].inputs(), graph=graph, search=0)
    with raises_here(MismatchError, match="try 3 of 40"):
        equivalence(model, CASES["negative"].inputs(), graph=graph)


@pytest.mark.parametrize("tries", [-1, 2.5, True, "many"])
def test_another_number_of_tries_is_refused(tries):
    with pytest.raises(ValueError, match="search must be a whole number of at least 1, or None for no search, got"):
        FxEquivalence()(nn.Linear(3, 2), drawn(4, 3), search=tries)


def test_the_model_and_the_generators_are_left_as_they_were():
    model = CATALOG["conv_bn_relu"].build()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    generator = torch.get_rng_state()

    FxEquivalence()(model, CATALOG["conv_bn_relu"].example_inputs(), modes=("train",), search=30)

    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), generator)
    assert not torch.is_autocast_enabled("cpu")


@pytest.mark.long
def test_a_search_works_in_a_test_that_hypothesis_runs():
    from hypothesis import given, settings
    from hypothesis import strategies as st

    found = []

    @settings(max_examples=3, deadline=None, database=None)
    @given(st.integers(0, 3))
    def run(number):
        found.append(message_of(CASES["negative"], seed=number, tries=60))
        found.append(message_of(CASES["one_in_a_thousand"], seed=number))

    run()

    assert len(found) >= 6
    assert all("found by search" in str(message) for message in found)


SEARCHING = """
import sys
import torch
from torch import nn
{before}
from pytest_fxgraph.equivalence.fixture import FxEquivalence

FxEquivalence()(nn.Linear(3, 2), torch.rand(2, 3), search=60)
"""


def run_script(folder, before: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", SEARCHING.format(before=before)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, map(os.path.abspath, sys.path)))},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_nothing_is_stored(tmp_path):
    done = run_script(tmp_path)

    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_without_hypothesis_the_error_names_the_extra(tmp_path):
    done = run_script(tmp_path, "sys.modules['hypothesis'] = None")

    assert done.returncode != 0
    last = done.stderr.strip().splitlines()[-1]
    assert (
        "GateError: search= needs hypothesis, which is not installed: pip install 'pytest-fxgraph[hypothesis]'" in last
    )


def report(**facts) -> SearchReport:
    return SearchReport(**{"subject": "graph (mode eval)", "wanted": 200, "tried": 200, "seconds": 12.0, **facts})


def test_each_search_has_its_share_of_what_is_left():
    budget = SearchBudget(200, seconds=60.0, parts=3)

    assert budget.share() == 20
    budget.add(report(seconds=10.0))
    assert budget.share() == 25
    budget.add(report(seconds=10.0))
    budget.add(report(seconds=10.0))
    assert budget.share() == 30
    budget.add(report(seconds=70.0))
    assert budget.share() == 0


def test_a_report_says_how_many_tries_there_were_and_which_say_nothing():
    text = str(report(passed_over=(("eager refuses the input", 3),), kept_sizes=True))

    assert text == (
        "graph (mode eval): 200 of 200 tries in 12.0 s, and no difference; "
        "passed over: 3 where eager refuses the input; all sizes were kept, for nothing takes others"
    )


def test_tries_are_left_out_only_if_the_time_was_up():
    assert report(tried=150).left_out == 0  # there were no more different inputs
    assert report(tried=150, is_cut=True).left_out == 50
    assert "50 tries were left out: raise search_seconds, or lower search" in str(report(tried=150, is_cut=True))


@pytest.mark.parametrize("seconds", [0, -1.0, float("nan")])
def test_no_time_at_all_is_refused(seconds):
    with pytest.raises(ValueError, match="search_seconds must be a number above 0, got"):
        SearchBudget(200, seconds)


def by_powers(x):
    return 1 + 2 * x + 3 * x**2


@pytest.mark.slow
def test_finite_values_leave_out_where_infinities_alone_differ():
    graph = fxcore.symbolic_trace(lambda x: 1 + x * (2 + x * 3))

    with raises_here(MismatchError, match=r"smallest input: 0 = float32\[1, 1\] \[\[-inf\]\]"):
        FxEquivalence()(by_powers, drawn(4, 3), graph=graph, search=60)
    FxEquivalence()(by_powers, drawn(4, 3), graph=graph, search=60, search_values="finite")
    with pytest.raises(ValueError, match="there are no search_values 'small'; choose all or finite"):
        FxEquivalence()(by_powers, drawn(4, 3), graph=graph, search=60, search_values="small")


@pytest.mark.slow
def test_a_default_that_the_test_leaves_out_varies():
    def scaled(x, scale=2.0):
        return x * scale

    graph = fxcore.symbolic_trace(lambda x, scale=2.0: x * 2.0 + (scale - scale))

    with raises_here(MismatchError, match=r"smallest input: 0 = float32\[1, 1\] \[\[1\]\], scale = "):
        FxEquivalence()(scaled, drawn(4, 3), graph=graph, search=60)


def test_strides_that_are_not_the_users_count_in_neither_precision():
    def normalised(x):
        return torch.nn.functional.layer_norm(x, (8,))

    def by_hand(x):
        centred = x - x.mean(-1, keepdim=True)
        return centred * (centred.pow(2).mean(-1, keepdim=True) + 1e-5).rsqrt()

    FxEquivalence()(normalised, drawn(2, 3, 8), graph=fxcore.symbolic_trace(by_hand), search=40)


LARGE = torch.zeros(4, 5)
ODD = LARGE.index_put((torch.tensor([1, 3]), torch.tensor([0, 4])), torch.tensor([2.0, math.nan]))


@pytest.mark.parametrize(
    ("tensor", "text"),
    [
        (torch.tensor([[1.0, -0.5]]), "float32[1, 2] [[1, -0.5]]"),
        (LARGE, "float32[4, 5] all 0"),
        (ODD, "float32[4, 5] all 0 but 2 at [1, 0], nan at [3, 4]"),
        (torch.full((4, 5), 3), "int64[4, 5] all 3"),
        (torch.arange(12), "int64[12] [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]"),
        (torch.arange(13), "int64[13]"),
        (torch.eye(4)[:3].repeat(1, 2), "float32[3, 8]"),
        (torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8), "quint8[2]"),
        (LARGE.t(), "float32[5, 4] all 0 with strides (1, 5)"),
        (torch.empty(0, 3), "float32[0, 3]"),
        (torch.ones(2, 2).to_sparse(), "float32[2, 2]"),
        (torch.ones(2, device="meta"), "float32[2]"),
    ],
)
def test_a_found_tensor_is_described_by_its_values_where_these_are_few(tensor, text):
    assert _described_tensor(tensor) == text


def test_a_found_value_is_described_in_a_hundred_letters_at_most():
    one = torch.ones(1)

    assert describe(arguments_of(())) == "no arguments"
    assert describe(arguments_of((one, {"a": one, "b": [one]}, 3))) == (
        "0 = float32[1] [1], 1 = ['a']float32[1] [1], ['b'][0]float32[1] [1], 2 = 3"
    )
    assert describe(arguments_of(("x" * 98,))) == f"0 = '{'x' * 98}'"
    assert describe(arguments_of(("x" * 99,))) == f"0 = '{'x' * 96}..."


def test_values_of_another_name_are_refused():
    with pytest.raises(ChoiceError, match=r"^there are no search_values 'some'; choose all or finite$"):
        SearchBudget(3, values="some")
